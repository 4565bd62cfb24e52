// Numbers, durations and times as texts.

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const day = new Intl.DateTimeFormat("en-CA", { year: "numeric", month: "2-digit", day: "2-digit" });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const minutes = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit" });

export const unknown = "–";

export function number(value) {
  return value === null || value === undefined ? unknown : whole.format(value);
}

export function compact(value) {
  return value === null || value === undefined ? unknown : value < 10000 ? whole.format(value) : short.format(value);
}

export function percent(value) {
  return value === null || value === undefined ? unknown : `${Math.round(value * 100)}\u00a0%`;
}

export function duration(ms) {
  if (ms === null || ms === undefined) return unknown;
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 9950) return `${Number((ms / 1000).toFixed(1))} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 60) return `${seconds} s`;
  if (seconds < 3600) return pair(seconds, 60, "min", "s");
  if (seconds < 86_400) return pair(Math.round(seconds / 60), 60, "h", "min");
  return pair(Math.round(seconds / 3600), 24, "d", "h");
}

function pair(value, base, large, small) {
  const rest = value % base;
  return `${Math.floor(value / base)} ${large}${rest ? ` ${rest} ${small}` : ""}`;
}

export function ago(ms, now) {
  if (ms === null || ms === undefined) return unknown;
  return now - ms < 1000 ? "now" : `${duration(Math.floor((now - ms) / 1000) * 1000)} ago`;
}

export function date(ms) {
  return day.format(ms);
}

export function time(ms) {
  return clock.format(ms);
}

export function hour(ms) {
  return minutes.format(ms);
}

/** A moment to the millisecond, in the time zone of the browser. */
export function moment(ms) {
  return `${date(ms)} ${time(ms)}.${String(Math.floor(ms) % 1000).padStart(3, "0")}`;
}

export function utc(ms) {
  return new Date(ms).toISOString();
}

/** Times for the ticks of an axis: round ones, at most `most`. */
export function ticks(from, to, most) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400, 172800, 604800];
  const step = (steps.find((one) => (to - from) / (one * 1000) <= most) ?? 604800 * 4) * 1000;
  const shift = new Date(from).getTimezoneOffset() * 60_000;
  const found = [];
  for (let at = Math.ceil((from - shift) / step) * step + shift; at <= to; at += step) found.push(at);
  return { step, at: found };
}

export function tick(ms, step) {
  if (step >= 86_400_000) return date(ms).slice(5);
  return step >= 60_000 ? hour(ms) : time(ms);
}
