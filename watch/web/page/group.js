// One group, now or at a moment: its owners, lag and events over time, its members and partitions, and the difference between two moments.

import { get, lastOf, oneAtATime, Refused } from "./api.js";
import { LagChart } from "./charts.js";
import { h, named, setAttribute, setText } from "./dom.js";
import { EventList } from "./events.js";
import { ago, compact, duration, moment, number, percent, time } from "./format.js";
import { shownState, stateTone } from "./groups.js";
import { address, change, state } from "./state.js";
import { now, store } from "./store.js";
import { VirtualTable } from "./table.js";
import { range, updateRange } from "./timebar.js";
import { Timeline } from "./timeline.js";

const REFRESH_MS = 2000; // the lag of a live group
const RELOAD_MS = 60_000; // its owners and events, without a new event
const MORE = 100;

function text(get) {
  return (cell, row) => setText(cell, get(row) ?? "");
}

function name(get) {
  return {
    make(cell) {
      cell.append(h("bdi"));
    },
    fill(cell, row) {
      const value = get(row) ?? "–";
      setText(cell.firstChild, value);
      setAttribute(cell, "title", value);
    },
  };
}

/** "orders: 0–3, 7" for a list of [topic, partition]. */
export function places(list) {
  const topics = new Map();
  for (const [topic, partition] of list) topics.set(topic, [...(topics.get(topic) ?? []), partition]);
  return [...topics].map(([topic, numbers]) => `${topic}: ${runs(numbers)}`).join("; ");
}

function runs(numbers) {
  const sorted = [...numbers].sort((a, b) => a - b);
  const parts = [];
  for (let index = 0; index < sorted.length; index += 1) {
    const first = sorted[index];
    while (sorted[index + 1] === sorted[index] + 1) index += 1;
    parts.push(first === sorted[index] ? `${first}` : `${first}–${sorted[index]}`);
  }
  return parts.join(", ");
}

const MEMBERS = [
  { key: "client", label: "Client", value: (row) => row.client_id, ...name((row) => row.client_id) },
  { key: "member", label: "Member", class: "mono wide", value: (row) => row.member_id, ...name((row) => row.instance_id ? `${row.instance_id} (static)` : row.member_id) },
  { key: "rack", label: "Rack", value: (row) => row.rack, ...name((row) => row.rack) },
  { key: "host", label: "Host", class: "wider", value: (row) => row.host, ...name((row) => row.host) },
  { key: "state", label: "State", class: "wide", value: (row) => row.state, fill: text((row) => shownState(row.state)) },
  { key: "epoch", label: "Epoch", class: "n wider", value: (row) => row.epoch, fill: text((row) => number(row.epoch)) },
  { key: "count", label: "Owns", class: "n", descending: true, value: (row) => row.assigned.length, fill: text((row) => number(row.assigned.length)) },
  { key: "assigned", label: "Partitions", class: "places", ...name((row) => places(row.assigned) || "none") },
  {
    key: "pending",
    label: "Target differs by",
    class: "wider",
    ...name((row) => {
      const has = new Set(row.assigned.map(String));
      const target = new Set(row.target.map(String));
      const gains = row.target.filter((one) => !has.has(String(one)));
      const losses = row.target.length || gains.length ? row.assigned.filter((one) => !target.has(String(one))) : [];
      return [gains.length && `+ ${places(gains)}`, losses.length && `− ${places(losses)}`].filter(Boolean).join("  ") || "–";
    }),
  },
];

function partitionColumns(clients) {
  return [
    { key: "topic", label: "Topic", value: (row) => row.topic, ...name((row) => row.topic) },
    { key: "partition", label: "#", class: "n", value: (row) => row.partition, fill: text((row) => String(row.partition)) },
    { key: "owner", label: "Owner", value: (row) => clients.get(row.member_id) ?? row.member_id, ...name((row) => clients.get(row.member_id) ?? row.member_id ?? "no owner") },
    {
      key: "racks",
      label: "Owner ← leader",
      title: "Rack of the owner, and of the leader that it may read from",
      class: "wide",
      value: (row) => row.owner_rack,
      fill(cell, row) {
        setText(cell, row.owner_rack || row.leader_rack ? `${row.owner_rack ?? "–"} ← ${row.leader_rack ?? "–"}` : "–");
        cell.classList.toggle("crosses", Boolean(row.owner_rack && row.leader_rack && row.owner_rack !== row.leader_rack));
      },
    },
    { key: "lag", label: "Lag", class: "n", descending: true, value: (row) => row.lag_ms, fill: text((row) => duration(row.lag_ms)) },
    { key: "records", label: "Records", class: "n", descending: true, value: (row) => row.lag_records, fill: text((row) => compact(row.lag_records)) },
    { key: "committed", label: "Committed", class: "n wide", value: (row) => row.committed, fill: text((row) => number(row.committed)) },
    { key: "end", label: "End", class: "n wider", value: (row) => row.end, fill: text((row) => number(row.end)) },
    { key: "when", label: "Last commit", class: "n wide", value: (row) => row.committed_ms, fill: text((row) => ago(row.committed_ms, state.at ?? now())) },
  ];
}

export class GroupView {
  constructor() {
    this.id = state.group;
    this.title = this.id;
    this.clients = new Map();
    this.badges = h("p", { class: "badges" });
    this.tiles = new Map();
    this.message = h("p", { class: "empty", role: "status", hidden: true });
    this.timeline = new Timeline((at) => change({ at }));
    this.lag = new LagChart();
    this.note = h("p", { class: "dim", role: "status", hidden: true });
    this.events = new EventList({ withGroup: false });
    this.more = h("button", { type: "button", hidden: true, onclick: () => this.#loadMore() }, "Older events");
    this.members = new VirtualTable({ label: "Members", columns: MEMBERS, key: (row) => row.member_id, sort: "client", empty: "No members." });
    this.partitions = new VirtualTable({
      label: "Partitions",
      columns: partitionColumns(this.clients),
      key: (row) => `${row.topic}-${row.partition}`,
      sort: undefined,
      empty: "No partitions.",
    });
    this.difference = h("ul", { class: "sentences" });
    this.differenceTitle = h("h2", { id: "difference" });
    this.differenceCard = h(
      "section",
      { class: "card difference", "aria-labelledby": "difference", hidden: true },
      this.differenceTitle,
      this.difference,
    );
    this.membersTitle = h("h2", {}, "Members");
    this.partitionsTitle = h("h2", {}, "Partitions");
    this.facts = h("dl", { class: "tiles" });
    this.body = h(
      "div",
      { class: "body" },
      this.facts,
      this.differenceCard,
      h("section", { class: "card charts", "aria-label": "Over time" }, this.timeline.node, this.note, this.lag.node),
      h(
        "div",
        { class: "columns" },
        h("section", { class: "card", "aria-label": "Events" }, h("h2", {}, "Events"), this.events.node, this.more),
        h(
          "div",
          { class: "stack" },
          h("section", { class: "card", "aria-label": "Members" }, this.membersTitle, this.members.node),
          h("section", { class: "card", "aria-label": "Partitions" }, this.partitionsTitle, this.partitions.node),
        ),
      ),
    );
    this.node = h(
      "div",
      { class: "view" },
      h(
        "div",
        { class: "toolbar" },
        h("a", { class: "back", href: "?", "aria-label": "All groups" }, "←"),
        h("h1", {}, named(this.id)),
        this.badges,
      ),
      this.message,
      this.body,
    );
    this.loadGroup = lastOf();
    this.loadDifference = lastOf();
    this.reloadGroup = oneAtATime(() => this.#loadGroup());
    this.reloadCharts = oneAtATime(() => this.#loadCharts());
    this.list = [];
    this.limit = MORE;
  }

  destroy() {
    this.timeline.destroy();
    this.members.destroy();
    this.partitions.destroy();
  }

  eventTimes() {
    return this.times ?? [];
  }

  async update(what) {
    setAttribute(this.node.querySelector(".back"), "href", address({ group: undefined, view: "groups", from: undefined }));
    const live = state.at === undefined;
    const added = live && (what.has("events") || what.has("state")) && this.#addSent();
    const work = [];
    if (this.#windowChanged()) {
      this.whole = true;
      work.push(this.reloadCharts());
    } else if (added) work.push(this.reloadCharts());
    else if (live && performance.now() - this.movedAt > REFRESH_MS) work.push(this.#moveCharts());
    const summary = store.groups.get(this.id);
    if (state.at !== this.at || !this.group || (live && (added || (what.has("groups") && summary !== this.summary)))) {
      this.at = state.at;
      this.summary = summary;
      work.push(live ? this.reloadGroup() : this.#loadGroup());
    }
    if (what.has("state") || added) work.push(this.#compare());
    this.#mark();
    await Promise.all(work);
    return work.length > 0;
  }

  #windowChanged() {
    const { from, to } = this.loaded ?? {};
    const stale = state.at === undefined && performance.now() - (this.loadedAt ?? -Infinity) > RELOAD_MS;
    const other = from === undefined || Math.abs(range.to - range.from - (to - from)) > REFRESH_MS || (state.at !== undefined && (state.at < from || state.at > to));
    return stale || other || (state.at !== undefined && range.to !== to && range.to < to - REFRESH_MS);
  }

  #mark() {
    const marks = { from: state.from, at: state.at };
    this.timeline.mark(marks);
    this.lag.mark(marks);
    this.events.mark();
  }

  async #loadGroup() {
    const at = this.at;
    let group;
    try {
      group = await this.loadGroup("group", { id: this.id, at_ms: at });
    } catch (error) {
      if (!(error instanceof Refused) || error.status !== 404) throw error;
      this.message.hidden = false;
      setText(this.message, at === undefined ? "This group does not exist now. Move the slider to a moment at which it existed." : `This group did not exist at ${moment(at)}.`);
      this.group = undefined;
      this.members.set([]);
      this.partitions.set([]);
      this.#tiles();
      return;
    }
    if (!group) return; // a later request is under way
    this.message.hidden = true;
    this.group = group;
    this.clients.clear();
    for (const member of group.members) this.clients.set(member.member_id, member.client_id || member.member_id);
    this.#tiles();
    this.members.set(group.members);
    this.partitions.set(group.partitions);
    setText(this.membersTitle, `Members (${number(group.members.length)})`);
    setText(this.partitionsTitle, `Partitions (${number(group.partitions.length)})`);
    this.node.dataset.at = at ?? "live";
    const leaders = new Map(group.partitions.filter((row) => row.leader_rack).map((row) => [`${row.topic}-${row.partition}`, row.leader_rack]));
    if (this.timeline.spans && !this.timeline.leaders?.size && leaders.size) {
      this.timeline.leaders = leaders;
      this.timeline.redraw();
    }
    this.leaders = leaders;
  }

  #tiles() {
    const one = this.group?.summary;
    const tile = (label, value, hint) => {
      if (!this.tiles.has(label)) {
        const node = h("div", {}, h("dt", {}, label), h("dd"));
        this.tiles.set(label, node);
        this.facts.append(node);
      }
      const node = this.tiles.get(label);
      setText(node.lastChild, value);
      if (hint) setAttribute(node, "title", hint);
    };
    const badges = one ? [h("span", { class: `state ${stateTone(one)}` }, shownState(one.state)), h("span", { class: "tag" }, one.kind), one.assignor && h("span", { class: "tag" }, one.assignor)] : [];
    const key = one ? `${one.state} ${one.kind} ${one.assignor}` : "";
    if (this.badges.dataset.key !== key) {
      this.badges.dataset.key = key;
      this.badges.replaceChildren(...badges.filter(Boolean));
    }
    tile("Lag", duration(one?.lag_ms), "Timestamp of the last record, minus that of the record at the committed offset; the largest of all partitions");
    tile("Lag in records", compact(one?.lag_records));
    tile("Members", number(one?.members));
    tile("Partitions", number(one?.partitions));
    tile("Locality", percent(one?.locality), "Share of assigned partitions with a replica in their member's rack");
    tile("Epoch", number(one?.epoch));
    tile("Rebalances", number(one?.rebalances), "In the kept history");
    tile("Last rebalance", one ? ago(one.last_rebalance_ms, state.at ?? now()) : "–");
  }

  async #loadCharts() {
    updateRange();
    const from = Math.round(range.from);
    const to = Math.round(range.to);
    this.loaded = { from, to };
    this.loadedAt = this.movedAt = performance.now();
    const about = { id: this.id, from_ms: from, to_ms: to };
    const request = (this.request = (this.request ?? 0) + 1);
    const { whole } = this; // otherwise the stream has sent what is new
    this.whole = false;
    try {
      const [owned, lag, happened] = await Promise.all([
        get("ownership", about),
        get("lag", { ...about, points: 300 }),
        whole ? get("events", { group: this.id, from_ms: from, to_ms: to, limit: 1000 }) : { events: [] },
      ]);
      if (request !== this.request) return;
      this.timeline.set(owned.spans, from, to, this.leaders);
      this.note.hidden = !owned.left_out;
      setText(this.note, `${number(owned.left_out)} changes of owners are left out: choose a shorter window.`);
      this.lag.set(lag.samples, from, to);
      this.#addEvents(happened.events);
      this.#mark();
    } catch (error) {
      this.loaded = undefined; // requested again with the next update
      throw error;
    }
  }

  /** Moves the charts of a live group on; only its lag is requested. */
  async #moveCharts() {
    this.movedAt = performance.now();
    const { from, to } = range;
    const request = this.request;
    const lag = await get("lag", { id: this.id, from_ms: Math.round(from), to_ms: Math.round(to), points: 300 });
    if (request !== this.request || state.at !== undefined) return;
    this.timeline.move(from, to);
    this.lag.set(lag.samples, from, to);
    this.#mark();
  }

  /** Shows events of the stream at once; what they changed is requested after that. Returns whether there are any. */
  #addSent() {
    const sent = store.events.filter((event) => event.group_id === this.id && event.at_ms >= range.from && event.id > (this.seen ?? -1));
    if (!sent.length) return false;
    this.seen = sent.at(-1).id; // only here: a response may not have events that the stream has sent meanwhile
    this.#addEvents(sent);
    return true;
  }

  /** Adds events to those of the window that are known. */
  #addEvents(found) {
    const { from, to } = range;
    const all = new Map([...this.list, ...found].map((event) => [event.id, event]));
    const within = [...all.values()].filter((event) => event.at_ms >= from && (state.at === undefined || event.at_ms <= to));
    this.list = within.sort((a, b) => b.at_ms - a.at_ms || b.id - a.id);
    this.times = this.list.map((event) => event.at_ms).reverse();
    this.#showEvents();
  }

  #showEvents() {
    this.events.set(this.list.slice(0, this.limit));
    this.more.hidden = this.list.length <= this.limit;
  }

  #loadMore() {
    this.limit += MORE;
    this.#showEvents();
  }

  async #compare() {
    const { from } = state;
    this.differenceCard.hidden = from === undefined;
    if (from === undefined) return;
    const other = state.at ?? Math.round(now());
    const [first, second] = from <= other ? [from, other] : [other, from];
    setText(this.differenceTitle, `Difference from ${time(first)} to ${state.at === undefined ? "now" : time(second)}`);
    const found = await this.loadDifference("difference", { id: this.id, from_ms: first, to_ms: second });
    if (!found) return;
    const sentences = found.sentences.length ? found.sentences : ["Nothing changed."];
    this.difference.replaceChildren(...sentences.map((sentence) => h("li", {}, sentence)));
  }
}
