// Events as a list: when, what and why; details on request.

import { h, named } from "./dom.js";
import { duration, moment, percent, time, date, utc } from "./format.js";
import { change, ofGroup, state } from "./state.js";
import { now } from "./store.js";

const TONES = {
  "rebalance-began": "info",
  "rebalance-ended": "ok",
  "offset-went-back": "bad",
  "group-expired": "warn",
  "group-deleted": "warn",
  "lag-over": "bad",
  "lag-under": "ok",
  stuck: "bad",
  flapping: "bad",
};

export function label(kind) {
  const text = kind.replaceAll("-", " ");
  return text[0].toUpperCase() + text.slice(1);
}

/** "MemberLeft" as "member left". */
export function causeLabel(cause) {
  return cause ? cause.name.replace(/([a-z])([A-Z])/g, "$1 $2").toLowerCase().replaceAll("-", " ") : "";
}

export class EventList {
  constructor({ withGroup, empty }) {
    this.withGroup = withGroup;
    this.list = h("ol", { class: "events" });
    this.empty = h("p", { class: "empty", hidden: true }, empty ?? "No events in this time.");
    this.node = h("div", {}, this.list, this.empty);
    this.items = new Map();
  }

  /** Shows events, the newest first. Items that stay are not moved, and keep their focus and open details. */
  set(events) {
    const next = new Map();
    for (const event of events) next.set(event.id, this.items.get(event.id) ?? this.#item(event));
    for (const [id, node] of this.items) if (!next.has(id)) node.remove();
    let place = this.list.firstChild;
    for (const node of next.values()) {
      if (node === place) place = place.nextSibling;
      else this.list.insertBefore(node, place);
    }
    this.items = next;
    this.empty.hidden = next.size > 0;
    this.mark();
  }

  /** Marks events that are later than the moment that is shown. */
  mark() {
    for (const node of this.items.values()) node.classList.toggle("later", state.at !== undefined && node.at > state.at);
  }

  #item(event) {
    const at = h(
      "button",
      { type: "button", class: "at", title: `Show the group at ${moment(event.at_ms)} (${utc(event.at_ms)})`, onclick: () => this.#show(event) },
      date(event.at_ms) === date(now()) ? time(event.at_ms) : `${date(event.at_ms)} ${time(event.at_ms)}`,
    );
    const facts = [
      event.duration_ms !== null && event.duration_ms !== undefined && `took ${duration(event.duration_ms)}`,
      event.moved?.length > 0 && `${event.moved.length} ${event.moved.length === 1 ? "partition" : "partitions"} moved`,
      event.cross_rack_before !== null && event.cross_rack_after !== null && event.cross_rack_after !== undefined &&
        `across racks ${percent(event.cross_rack_before)} → ${percent(event.cross_rack_after)}`,
    ].filter(Boolean);
    const body = h(
      "div",
      { class: "what" },
      h(
        "p",
        { class: "line" },
        h("span", { class: `tag ${TONES[event.kind] ?? ""}` }, label(event.kind)),
        this.withGroup && h("a", { class: "in-group", href: ofGroup(event.group_id, { at: event.at_ms }) }, named(event.group_id)),
        event.cause && h("span", { class: "cause" }, causeLabel(event.cause)),
        facts.length > 0 && h("span", { class: "dim" }, facts.join(" · ")),
      ),
      h("p", { class: "sentence" }, event.sentence),
      this.#details(event),
    );
    const node = h("li", { "data-kind": event.kind, "data-id": event.id }, at, body);
    node.at = event.at_ms;
    return node;
  }

  #show(event) {
    if (this.withGroup) change({ group: event.group_id, view: "group", at: event.at_ms, kind: undefined });
    else change({ at: event.at_ms });
  }

  #details(event) {
    if (!event.facts?.length && !event.moved?.length) return null;
    const filled = h("div", { class: "more" });
    const fill = () => {
      if (filled.firstChild) return;
      const moves = event.moved.slice(0, 200).map((move) =>
        h("li", {}, `${move.topic}-${move.partition}: `, owner(move.before), " → ", owner(move.after)),
      );
      if (event.moved.length > moves.length) moves.push(h("li", { class: "dim" }, `and ${event.moved.length - moves.length} more`));
      filled.append(
        ...[
          event.facts.length && h("ul", {}, event.facts.map((fact) => h("li", {}, fact))),
          moves.length && h("ul", { class: "moves" }, moves),
          event.offset >= 0 && h("p", { class: "dim" }, `record at ${event.topic}-${event.partition}, offset ${event.offset}`),
        ].filter(Boolean),
      );
    };
    return h("details", { ontoggle: fill }, h("summary", {}, "Details"), filled);
  }
}

function owner(members) {
  return members.length ? h("bdi", {}, members.join(", ")) : "no owner";
}
