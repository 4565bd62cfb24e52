// Charts over time: a sparkline, and the lag of a group. All charts of a group share the gutter and the times.

import { h, setText, svg } from "./dom.js";
import { compact, duration, moment, tick, ticks } from "./format.js";

export function gutter() {
  return matchMedia("(max-width: 640px)").matches ? 76 : 168;
}

export function makeSpark(cell) {
  const line = svg("path", { class: "spark-line" });
  const area = svg("path", { class: "spark-area" });
  cell.append(svg("svg", { class: "spark", viewBox: "0 0 100 24", preserveAspectRatio: "none", "aria-hidden": "true" }, area, line));
  cell.spark = { line, area };
}

export function fillSpark(cell, values) {
  if (cell.sparkValues === values) return;
  cell.sparkValues = values;
  const top = Math.max(1, ...values);
  const step = 100 / Math.max(1, values.length - 1);
  const points = values.map((value, index) => `${(index * step).toFixed(1)} ${(22 - (20 * value) / top).toFixed(1)}`);
  const path = points.length > 1 ? `M${points.join("L")}` : "";
  cell.spark.line.setAttribute("d", path);
  cell.spark.area.setAttribute("d", path ? `${path}L100 24L0 24Z` : "");
}

export class LagChart {
  constructor() {
    this.unit = "lag_ms";
    this.plot = svg("svg", { class: "lag", role: "img", height: 132 });
    this.readout = h("output", { class: "readout" });
    this.time = this.#button("lag_ms", "Time");
    this.records = this.#button("lag_records", "Records");
    this.node = h(
      "figure",
      { class: "lag-figure" },
      h("figcaption", {}, h("h3", {}, "Lag"), h("span", { class: "buttons", role: "group", "aria-label": "Unit of the lag" }, this.time, this.records), this.readout),
      this.plot,
    );
    this.plot.addEventListener("pointermove", (event) => this.#hover(event));
    this.plot.addEventListener("pointerleave", () => this.#say());
  }

  #button(unit, label) {
    const pick = () => {
      this.unit = unit;
      this.draw();
    };
    return h("button", { type: "button", class: "small", "aria-pressed": "false", onclick: pick }, label);
  }

  set(samples, from, to) {
    Object.assign(this, { samples, from, to });
    this.draw();
  }

  #text(value) {
    return this.unit === "lag_ms" ? duration(value) : `${compact(value)} records`;
  }

  draw() {
    const { samples, from, to, unit, plot } = this;
    if (!samples) return;
    this.time.setAttribute("aria-pressed", String(unit === "lag_ms"));
    this.records.setAttribute("aria-pressed", String(unit !== "lag_ms"));
    const left = gutter();
    const width = Math.max(200, plot.clientWidth || plot.parentNode?.clientWidth || 800);
    const [top, bottom] = [8, 108];
    this.x = (at) => left + ((at - from) / Math.max(1, to - from)) * (width - left - 8);
    const known = samples.filter((sample) => sample[unit] !== null);
    const most = niceTop(Math.max(1, ...known.map((sample) => sample[unit])), unit);
    const y = (value) => bottom - (value / most) * (bottom - top);
    plot.setAttribute("viewBox", `0 0 ${width} 132`);
    const nodes = [0, 0.5, 1].map((part) => [
      svg("line", { class: "grid", x1: left, x2: width - 8, y1: y(part * most), y2: y(part * most) }),
      svg("text", { class: "tick", x: left - 8, y: y(part * most) + 4, "text-anchor": "end" }, part ? this.#text(part * most).replace(" records", "") : "0"),
    ]);
    const { step, at } = ticks(from, to, (width - left) / 90);
    nodes.push(at.map((one) => svg("text", { class: "tick", x: this.x(one), y: 126, "text-anchor": "middle" }, tick(one, step))));
    // A gap stays a gap: samples that are unknown, or missing for long.
    const runs = [];
    let run = [];
    for (const sample of samples) {
      if (sample[unit] === null) {
        if (run.length) runs.push(run);
        run = [];
      } else run.push(`${this.x(sample.at_ms).toFixed(1)} ${y(sample[unit]).toFixed(1)}`);
    }
    if (run.length) runs.push(run);
    for (const points of runs) {
      const first = points[0].split(" ")[0];
      const last = points.at(-1).split(" ")[0];
      nodes.push(svg("path", { class: "area", d: `M${points.join("L")}L${last} ${bottom}L${first} ${bottom}Z` }));
      nodes.push(svg("path", { class: "line", d: `M${points.join("L")}${points.length === 1 ? "h1" : ""}` }));
    }
    if (!known.length) nodes.push(svg("text", { class: "tick", x: left + 12, y: 60 }, "The lag is not known in this time."));
    this.marks = svg("g", {});
    plot.replaceChildren(...nodes.flat(2), this.marks);
    const last = known.at(-1);
    this.summary = last ? `latest ${this.#text(last[unit])}, largest ${this.#text(Math.max(...known.map((sample) => sample[unit])))}` : "not known";
    plot.setAttribute("aria-label", `Lag from ${moment(from)} to ${moment(to)}: ${this.summary}`);
    this.#say();
    this.mark(this.marked);
  }

  #say(text) {
    setText(this.readout, text ?? this.summary ?? "");
  }

  #hover(event) {
    if (!this.samples?.length || !this.x) return;
    const box = this.plot.getBoundingClientRect();
    const x = event.clientX - box.left;
    let best;
    for (const sample of this.samples) if (best === undefined || Math.abs(this.x(sample.at_ms) - x) < Math.abs(this.x(best.at_ms) - x)) best = sample;
    this.#say(`${moment(best.at_ms)}: ${duration(best.lag_ms)}, ${compact(best.lag_records)} records`);
  }

  /** Shows moments as vertical lines: { at: "now", from: "then" } */
  mark(marks) {
    this.marked = marks;
    if (!this.marks) return;
    const lines = Object.entries(marks ?? {}).filter(([, at]) => at !== undefined && at >= this.from && at <= this.to);
    this.marks.replaceChildren(...lines.map(([name, at]) => svg("line", { class: `mark ${name}`, x1: this.x(at), x2: this.x(at), y1: 0, y2: 112 })));
  }
}

function niceTop(value, unit) {
  if (unit === "lag_ms") {
    const steps = [100, 1000, 2000, 5000, 10_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000];
    return steps.find((step) => step >= value) ?? Math.ceil(value / 86_400_000) * 86_400_000;
  }
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= value);
}
