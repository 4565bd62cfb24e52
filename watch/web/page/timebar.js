// The time slider: which window of the history is shown, and which moment of it.

import { announce, h, perFrame, setAttribute, setText } from "./dom.js";
import { date, moment, time, utc } from "./format.js";
import { change, state } from "./state.js";
import { now, store } from "./store.js";

export const WINDOWS = [
  [5 * 60_000, "5 min"],
  [60 * 60_000, "1 h"],
  [6 * 3_600_000, "6 h"],
  [86_400_000, "24 h"],
  [0, "All"],
];

const DEFAULT = 60 * 60_000;

/** The window of time that charts and the slider show. */
export const range = { from: 0, to: 1 };

/** The chosen width; of files, which may be old, all of it unless one is chosen. */
function chosenWidth() {
  return state.window ?? (store.status?.mode === "files" ? 0 : DEFAULT);
}

let frozen; // the end of the window, while a moment of it is shown

export function updateRange() {
  const present = now();
  const since = store.status?.since_ms ?? present - DEFAULT;
  const wanted = chosenWidth();
  const width = Math.max(1000, wanted === 0 ? present - since : Math.min(wanted, present - since));
  const { at } = state;
  if (at === undefined) frozen = undefined;
  else if (frozen === undefined || at > frozen || at < frozen - width) frozen = at > present - width ? present : Math.min(present, at + width / 2);
  range.to = frozen ?? present;
  range.from = Math.max(range.to - width, Math.min(since, range.to - 1000));
}

export function shiftRange(direction) {
  const width = range.to - range.from;
  const at = Math.max(store.status?.since_ms ?? 0, Math.min(now(), (state.at ?? range.to) + direction * width));
  frozen = Math.min(now(), Math.max(at, range.to + direction * width));
  change({ at: direction > 0 && at >= now() ? undefined : Math.round(at) });
}

export class Timebar {
  /** `eventTimes()` returns the times of the events that the view shows. */
  constructor(node, eventTimes) {
    this.node = node;
    this.eventTimes = eventTimes;
    this.slider = h("input", { type: "range", "aria-label": "Moment", step: "any", min: 0, max: 1 });
    this.marks = h("canvas", { class: "slider-marks", "aria-hidden": "true" });
    this.live = h("button", { type: "button", class: "live", onclick: () => change({ at: undefined, from: undefined }) }, h("span", { class: "dot" }), "Live");
    this.text = h("time", { class: "moment" });
    this.before = h("button", { type: "button", title: "Event before", "aria-label": "Event before", onclick: () => this.#jump(-1) }, "‹");
    this.after = h("button", { type: "button", title: "Event after", "aria-label": "Event after", onclick: () => this.#jump(1) }, "›");
    this.compare = h("button", { type: "button", class: "compare", onclick: () => this.#compare() }, "Compare");
    this.windows = h(
      "select",
      { "aria-label": "Window", onchange: (event) => change({ window: Number(event.target.value) }) },
      WINDOWS.map(([width, label]) => h("option", { value: width }, label)),
    );
    this.earlier = h("button", { type: "button", class: "shift", title: "Window before", "aria-label": "Window before", onclick: () => shiftRange(-1) }, "«");
    this.later = h("button", { type: "button", class: "shift", title: "Window after", "aria-label": "Window after", onclick: () => shiftRange(1) }, "»");
    node.replaceChildren(
      this.live,
      h("span", { class: "pair" }, this.earlier, this.before),
      h("span", { class: "track" }, this.marks, this.slider),
      h("span", { class: "pair" }, this.after, this.later),
      this.text,
      this.windows,
      this.compare,
    );
    // The value is kept: before the next frame, a change of groups may set the slider to the moment that is shown.
    const moved = perFrame(() => change({ at: this.wanted }, { replace: true }));
    this.slider.addEventListener("input", () => {
      this.wanted = Math.round(Number(this.slider.value));
      if (this.dragging) moved();
      else change({ at: this.wanted }); // one entry of the browser's history for each drag
      this.dragging = true;
    });
    this.slider.addEventListener("change", () => {
      this.dragging = false;
      this.#say();
    });
    this.slider.addEventListener("keydown", (event) => this.#keydown(event));
    this.redraw = perFrame(() => this.#drawMarks());
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.scheme.addEventListener("change", this.redraw);
    new ResizeObserver(this.redraw).observe(this.marks);
  }

  #keydown(event) {
    const width = range.to - range.from;
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
    let at;
    if (event.key in steps) at = (state.at ?? range.to) + (steps[event.key] * width) / 200;
    else if (event.key === "Home") at = range.from;
    else if (event.key === "End") at = undefined;
    else return;
    event.preventDefault();
    const replace = state.at !== undefined && at !== undefined;
    if (at === undefined || at >= range.to) change({ at: at === undefined || frozen === undefined ? undefined : Math.round(range.to) });
    else change({ at: Math.round(Math.max(range.from, at)) }, { replace });
    this.#say();
  }

  #jump(direction) {
    const times = this.eventTimes();
    const at = state.at ?? range.to + 1;
    const next = direction < 0 ? times.findLast((one) => one < at) : times.find((one) => one > at);
    if (next !== undefined) change({ at: next });
    else announce(direction < 0 ? "No event before" : "No event after");
    this.#say();
  }

  #compare() {
    if (state.from !== undefined) change({ from: undefined });
    else change({ from: state.at ?? Math.round(range.from) });
  }

  #say() {
    announce(state.at === undefined ? "Live" : moment(state.at));
  }

  update() {
    const { at } = state;
    this.node.hidden = false;
    this.slider.min = range.from;
    this.slider.max = range.to;
    this.slider.value = at ?? range.to;
    setAttribute(this.slider, "aria-valuetext", at === undefined ? "Live" : moment(at));
    setAttribute(this.live, "aria-pressed", String(at === undefined));
    setText(this.text, at === undefined ? "now" : date(at) === date(now()) ? time(at) : moment(at).slice(0, -4));
    setAttribute(this.text, "title", at === undefined ? "" : `${moment(at)}, ${utc(at)}`);
    if (at !== undefined) setAttribute(this.text, "datetime", utc(at));
    this.node.classList.toggle("past", at !== undefined);
    this.windows.value = String(chosenWidth());
    this.compare.hidden = state.view !== "group";
    setText(this.compare, state.from === undefined ? "Compare" : "End comparison");
    setAttribute(this.compare, "title", state.from === undefined ? "Mark this moment, then move the slider" : `Compared with ${moment(state.from)}`);
    this.later.disabled = range.to >= now() - 1000;
    this.redraw();
  }

  #drawMarks() {
    const { marks } = this;
    const width = marks.clientWidth;
    const height = marks.clientHeight;
    const ratio = devicePixelRatio || 1;
    const times = this.eventTimes();
    const dark = this.scheme.matches;
    const drawn = [range.from, range.to, state.from, width, height, ratio, dark, times.length, times[0], times.at(-1)].join();
    if (!width || drawn === this.drawn) return;
    this.drawn = drawn;
    marks.width = width * ratio;
    marks.height = height * ratio;
    const pen = marks.getContext("2d");
    pen.scale(ratio, ratio);
    const style = getComputedStyle(marks);
    const inner = width - 16; // half of the thumb on each side
    const place = (at) => 8 + ((at - range.from) / (range.to - range.from)) * inner;
    pen.fillStyle = style.getPropertyValue("--mark");
    for (const at of times) if (at >= range.from && at <= range.to) pen.fillRect(place(at) - 0.75, 0, 1.5, height);
    if (state.from !== undefined) {
      pen.fillStyle = style.getPropertyValue("--warn");
      pen.fillRect(place(state.from) - 1.5, 0, 3, height);
    }
  }
}
