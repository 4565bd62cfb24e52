// Which member owned which partition when, on a canvas: only visible rows are drawn, so 2,000 partitions cost as much as 20.

import { h, perFrame, setText } from "./dom.js";
import { moment, tick, ticks, time } from "./format.js";
import { gutter } from "./charts.js";

const ROW = 20;
const AXIS = 20;
const COLOURS = 10;

export class Timeline {
  /** `onMoment(at)` is notified of a moment that the user picks. */
  constructor(onMoment) {
    this.onMoment = onMoment;
    this.by = "member";
    this.rows = [];
    this.row = 0;
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.filler = h("div", { class: "filler" });
    this.scroller = h(
      "div",
      { class: "lanes", tabindex: 0, role: "group", "aria-roledescription": "timeline", "aria-describedby": "lane-help lane-readout" },
      this.canvas,
      this.filler,
    );
    this.readout = h("output", { id: "lane-readout", class: "readout" });
    this.legend = h("ul", { class: "legend" });
    this.buttons = ["member", "rack"].map((by) =>
      h("button", { type: "button", class: "small", "aria-pressed": String(by === this.by), onclick: () => this.#colourBy(by) }, `By ${by}`),
    );
    this.node = h(
      "figure",
      { class: "timeline" },
      h("figcaption", {}, h("h3", {}, "Owners of partitions"), h("span", { class: "buttons", role: "group", "aria-label": "Colours" }, this.buttons), this.readout),
      h("p", { id: "lane-help", class: "sr" }, "Up and down choose a partition, left and right go to the change of its owner before or after."),
      this.scroller,
      this.legend,
    );
    this.redraw = perFrame(() => this.draw());
    this.scroller.addEventListener("scroll", this.redraw, { passive: true });
    this.scroller.addEventListener("pointermove", (event) => this.#hover(event));
    this.scroller.addEventListener("pointerleave", () => this.#hover());
    this.scroller.addEventListener("click", (event) => this.#click(event));
    this.scroller.addEventListener("keydown", (event) => this.#keydown(event));
    this.scroller.addEventListener("focus", this.redraw);
    this.scroller.addEventListener("blur", this.redraw);
    this.observer = new ResizeObserver(this.redraw);
    this.observer.observe(this.scroller);
    this.scheme = matchMedia("(prefers-color-scheme: dark)");
    this.scheme.addEventListener("change", this.redraw);
  }

  destroy() {
    this.observer.disconnect();
    this.scheme.removeEventListener("change", this.redraw);
  }

  #colourBy(by) {
    this.by = by;
    for (const [index, button] of this.buttons.entries()) button.setAttribute("aria-pressed", String(["member", "rack"][index] === by));
    this.#assignColours();
    this.draw();
  }

  /** Shows spans of ownership between two times. `leaders`: rack of the leader by "topic-partition", where known. */
  set(spans, from, to, leaders) {
    Object.assign(this, { spans, from, to, leaders });
    const rows = new Map();
    for (const span of spans) {
      const name = `${span.topic}-${span.partition}`;
      if (!rows.has(name)) rows.set(name, { name, topic: span.topic, partition: span.partition, spans: [] });
      rows.get(name).spans.push(span);
    }
    this.rows = [...rows.values()].sort((a, b) => (a.topic < b.topic ? -1 : a.topic > b.topic ? 1 : a.partition - b.partition));
    for (const row of this.rows) row.spans.sort((a, b) => a.from_ms - b.from_ms);
    this.row = Math.min(this.row, Math.max(0, this.rows.length - 1));
    this.filler.style.height = `${this.rows.length * ROW + AXIS}px`;
    this.scroller.style.height = `${Math.min(Math.max(this.rows.length, 2), 18) * ROW + AXIS + 2}px`;
    this.scroller.setAttribute("aria-label", `Owners of ${this.rows.length} partitions from ${moment(from)} to ${moment(to)}`);
    this.#assignColours();
    this.redraw();
  }

  /** Shows other times of the same spans: those without an end continue. */
  move(from, to) {
    Object.assign(this, { from, to });
    this.redraw();
  }

  #key(span) {
    return this.by === "member" ? span.member_id : (span.rack ?? "no rack");
  }

  #assignColours() {
    const keys = new Map();
    for (const span of this.spans ?? []) if (!keys.has(this.#key(span))) keys.set(this.#key(span), span);
    const names = [...keys.keys()].sort((a, b) => this.#label(keys.get(a)).localeCompare(this.#label(keys.get(b))) || (a < b ? -1 : 1));
    this.colours = new Map(names.map((name, index) => [name, index % COLOURS]));
    const most = 10;
    const items = names.slice(0, most).map((name) => {
      const text = this.by === "member" ? this.#label(keys.get(name)) : name;
      return h("li", {}, h("span", { class: `swatch s${this.colours.get(name)}` }), h("bdi", { title: name }, text));
    });
    if (names.length > most) items.push(h("li", { class: "dim" }, `and ${names.length - most} more`));
    if (names.length) items.push(h("li", {}, h("span", { class: "swatch crossing" }), "leader in another rack"));
    this.legend.replaceChildren(...items);
  }

  #label(span) {
    return this.by === "member" ? `${span.client_id || span.member_id}${span.rack ? ` (${span.rack})` : ""}` : (span.rack ?? "no rack");
  }

  mark(marks) {
    this.marks = marks;
    this.redraw();
  }

  draw() {
    const { canvas, scroller } = this;
    const width = scroller.clientWidth;
    const height = scroller.clientHeight;
    if (!width || !this.spans) return;
    const ratio = devicePixelRatio || 1;
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.width = `${width}px`;
      canvas.style.height = `${height}px`;
    }
    const style = getComputedStyle(scroller);
    const colour = (name) => style.getPropertyValue(`--${name}`).trim();
    const palette = Array.from({ length: COLOURS }, (_, index) => colour(`m${index}`));
    const [ink, dim, line, soft, warn, accent, onMember] = ["fg", "dim", "line", "soft", "warn", "accent", "on-m"].map(colour);
    const pen = canvas.getContext("2d");
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.clearRect(0, 0, width, height);
    const left = gutter();
    const right = width - 8;
    const { from, to } = this;
    const scale = (right - left) / Math.max(1, to - from);
    this.x = (at) => left + (at - from) * scale;
    const font = style.fontFamily;
    const top = scroller.scrollTop;
    const first = Math.floor(top / ROW);
    const last = Math.min(this.rows.length, Math.ceil((top + height - AXIS) / ROW));
    const axis = ticks(from, to, (right - left) / 90);
    pen.strokeStyle = line;
    for (const at of axis.at) {
      pen.beginPath();
      pen.moveTo(Math.round(this.x(at)) + 0.5, 0);
      pen.lineTo(Math.round(this.x(at)) + 0.5, height - AXIS);
      pen.stroke();
    }
    const focused = document.activeElement === scroller;
    pen.textBaseline = "middle";
    for (let index = first; index < last; index += 1) {
      const row = this.rows[index];
      const y = index * ROW - top;
      if (focused && index === this.row) {
        pen.fillStyle = soft;
        pen.fillRect(0, y, width, ROW);
      }
      pen.font = `12px ${font}`;
      pen.fillStyle = focused && index === this.row ? ink : dim;
      pen.textAlign = "right";
      pen.fillText(fit(pen, row.name, left - 16), left - 8, y + ROW / 2 + 0.5);
      pen.textAlign = "left";
      pen.font = `11px ${font}`;
      const leader = this.leaders?.get(row.name);
      for (const span of row.spans) {
        const x = Math.max(left, this.x(span.from_ms));
        const end = Math.min(right, this.x(span.to_ms ?? to));
        if (end < left || x > right) continue;
        const wide = Math.max(1, end - x - (end - x > 3 ? 1 : 0));
        pen.fillStyle = palette[this.colours.get(this.#key(span))];
        pen.beginPath();
        pen.roundRect(x, y + 2, wide, ROW - 4, Math.min(3, wide / 2));
        pen.fill();
        if (leader && span.rack && leader !== span.rack) {
          pen.fillStyle = warn;
          pen.fillRect(x + 1, y + ROW - 4, Math.max(1, wide - 2), 2);
        }
        if (wide > 44) {
          pen.fillStyle = onMember;
          pen.fillText(fit(pen, this.#label(span), wide - 10), x + 5, y + ROW / 2);
        }
      }
    }
    pen.clearRect(0, height - AXIS, width, AXIS);
    pen.font = `11px ${font}`;
    pen.fillStyle = dim;
    pen.textAlign = "center";
    for (const at of axis.at) pen.fillText(tick(at, axis.step), Math.min(this.x(at), right - 16), height - AXIS / 2 + 1);
    for (const [name, at] of Object.entries(this.marks ?? {})) {
      if (at === undefined || at < from || at > to) continue;
      pen.strokeStyle = name === "at" ? accent : warn;
      pen.lineWidth = 1.5;
      pen.setLineDash(name === "at" ? [] : [4, 3]);
      pen.beginPath();
      pen.moveTo(this.x(at), 0);
      pen.lineTo(this.x(at), height - AXIS + 3);
      pen.stroke();
      pen.setLineDash([]);
      pen.lineWidth = 1;
    }
  }

  #spanAt(row, at) {
    return row.spans.findLast((span) => span.from_ms <= at && (span.to_ms ?? Infinity) > at);
  }

  #describe(row, at) {
    const span = this.#spanAt(row, at);
    if (!span) return `${row.name} at ${time(at)}: no owner`;
    const leader = this.leaders?.get(row.name);
    const racks = span.rack ? `rack ${span.rack}` : "no rack";
    const reads = leader ? `, leader in ${leader === span.rack ? "the same rack" : `rack ${leader}`}` : "";
    const until = span.to_ms === null ? `at least until ${time(this.to)}` : `until ${time(span.to_ms)}`;
    return `${row.name}: ${span.client_id || span.member_id} (${racks}${reads}), from ${time(span.from_ms)}, ${until}`;
  }

  #place(event) {
    const box = this.scroller.getBoundingClientRect();
    const row = Math.floor((event.clientY - box.top + this.scroller.scrollTop) / ROW);
    const left = gutter();
    const part = (event.clientX - box.left - left) / (this.scroller.clientWidth - left - 8);
    return { row: this.rows[row], at: this.from + part * (this.to - this.from), inside: part >= 0 && part <= 1 };
  }

  #hover(event) {
    const { row, at, inside } = event ? this.#place(event) : {};
    setText(this.readout, row && inside ? this.#describe(row, at) : "");
  }

  #click(event) {
    const { at, inside } = this.#place(event);
    if (inside) this.onMoment(Math.round(at));
  }

  #keydown(event) {
    const row = this.rows[this.row];
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    const at = this.marks?.at ?? this.to;
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[event.key];
    if (step) {
      this.row = Math.max(0, Math.min(this.rows.length - 1, this.row + step));
      const y = this.row * ROW;
      if (y < this.scroller.scrollTop) this.scroller.scrollTop = y;
      else if (y + ROW + AXIS > this.scroller.scrollTop + this.scroller.clientHeight) this.scroller.scrollTop = y + ROW + AXIS - this.scroller.clientHeight;
      setText(this.readout, this.#describe(this.rows[this.row], at));
    } else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const edges = row.spans.flatMap((span) => [span.from_ms, span.to_ms ?? Infinity]).filter((edge) => edge > this.from && edge < this.to);
      const next = event.key === "ArrowLeft" ? edges.findLast((edge) => edge < at) : edges.find((edge) => edge > at);
      if (next !== undefined) {
        this.onMoment(next);
        setText(this.readout, this.#describe(row, next));
      }
    } else return;
    event.preventDefault();
    this.redraw();
  }
}

/** Cuts a text to a width, at its end. */
function fit(pen, text, width) {
  if (pen.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if (pen.measureText(`${text.slice(0, middle)}…`).width <= width) low = middle;
    else high = middle - 1;
  }
  return low ? `${text.slice(0, low)}…` : "";
}
