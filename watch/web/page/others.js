// Topics with the groups that read them, events of all groups, and the check before an upgrade.

import { get, lastOf } from "./api.js";
import { h, named, setAttribute, setText } from "./dom.js";
import { EventList, label } from "./events.js";
import { number } from "./format.js";
import { change, ofGroup, state } from "./state.js";
import { store } from "./store.js";
import { VirtualTable } from "./table.js";
import { range } from "./timebar.js";

const SHOWN = 12; // groups of a topic in its row

export class TopicsView {
  title = "Topics";

  constructor() {
    this.filter = h("input", {
      type: "search",
      id: "filter",
      placeholder: "Filter topics or groups",
      "aria-label": "Filter topics or groups",
      autocomplete: "off",
      oninput: () => change({ q: this.filter.value || undefined }, { replace: true }),
    });
    this.count = h("p", { class: "count", role: "status" });
    this.table = new VirtualTable({
      label: "Topics",
      key: (row) => row.topic,
      sort: "topic",
      columns: [
        {
          key: "topic",
          label: "Topic",
          value: (row) => row.topic,
          make: (cell) => cell.append(h("bdi")),
          fill(cell, row) {
            setText(cell.firstChild, row.topic);
            setAttribute(cell, "title", row.topic);
          },
        },
        { key: "partitions", label: "Partitions", class: "n", descending: true, value: (row) => row.partitions, fill: (cell, row) => setText(cell, number(row.partitions)) },
        { key: "count", label: "Groups", class: "n", descending: true, value: (row) => row.groups.length, fill: (cell, row) => setText(cell, number(row.groups.length)) },
        {
          key: "groups",
          label: "Read by",
          class: "links",
          fill(cell, row) {
            const key = JSON.stringify(row.groups);
            if (cell.shown === key) return;
            cell.shown = key;
            const links = row.groups.slice(0, SHOWN).map((id, index) => h("a", { class: index ? "" : "row", href: ofGroup(id) }, named(id)));
            cell.replaceChildren(...links, ...(row.groups.length > SHOWN ? [h("span", { class: "dim" }, `and ${row.groups.length - SHOWN} more`)] : []));
          },
        },
      ],
      empty: "No topic matches.",
    });
    this.node = h(
      "div",
      { class: "view fill" },
      h("div", { class: "toolbar" }, h("h1", {}, "Topics"), this.count, h("span", { class: "spring" }), this.filter),
      this.table.node,
    );
  }

  destroy() {
    this.table.destroy();
  }

  async update(what) {
    if (!this.topics || what.has("events")) this.topics = (await get("topics")).topics;
    if (document.activeElement !== this.filter) this.filter.value = state.q ?? "";
    const wanted = state.q?.toLowerCase();
    const rows = this.topics.filter((row) => !wanted || [row.topic, ...row.groups].some((one) => one.toLowerCase().includes(wanted)));
    this.table.set(rows);
    setText(this.count, rows.length === this.topics.length ? number(rows.length) : `${number(rows.length)} of ${number(this.topics.length)}`);
    return true;
  }

  eventTimes() {
    return store.events.map((event) => event.at_ms);
  }
}

const KINDS = [
  "rebalance-began", "rebalance-ended", "offset-went-back", "lag-over", "lag-under", "stuck", "flapping",
  "member-replaced", "group-created", "group-deleted", "group-expired", "group-converted",
];

export class EventsView {
  title = "Events";

  constructor() {
    this.kinds = h(
      "select",
      { "aria-label": "Kind", onchange: () => change({ kind: this.kinds.value || undefined }, { replace: true }) },
      h("option", { value: "" }, "All kinds"),
      KINDS.map((kind) => h("option", { value: kind }, label(kind))),
    );
    this.list = new EventList({ withGroup: true, empty: "No events in this window of time." });
    this.node = h(
      "div",
      { class: "view" },
      h("div", { class: "toolbar" }, h("h1", {}, "Events"), h("span", { class: "spring" }), this.kinds),
      h("section", { class: "card" }, this.list.node),
    );
    this.load = lastOf();
  }

  destroy() {}

  async update(what) {
    this.kinds.value = state.kind ?? "";
    const wanted = what.has("state") || (what.has("events") && state.at === undefined);
    if (this.loaded && !wanted) return false;
    const to = state.at ?? Math.ceil(range.to) + 60_000; // clocks of brokers may be ahead
    const found = await this.load("events", { kind: state.kind, from_ms: Math.floor(range.from), to_ms: Math.round(to), limit: 300 });
    if (!found) return false;
    this.loaded = true;
    this.list.set(found.events);
    return true;
  }

  eventTimes() {
    return store.events.map((event) => event.at_ms);
  }
}

export class UpgradeView {
  title = "Upgrade check";

  constructor() {
    this.release = h("select", { id: "release", onchange: () => change({ release: this.release.value }) });
    this.summary = h("p", { role: "status", class: "count" });
    this.list = h("div", {});
    this.node = h(
      "div",
      { class: "view" },
      h(
        "div",
        { class: "toolbar" },
        h("h1", {}, "Upgrade check"),
        h("span", { class: "spring" }),
        h("label", { for: "release" }, "Brokers on Kafka "),
        this.release,
      ),
      h("section", { class: "card" }, h("p", {}, "How another release of the brokers would affect groups, by their present records."), this.summary, this.list),
    );
    this.load = lastOf();
  }

  destroy() {}

  async update(what) {
    if (!store.releases.length) store.releases = (await get("status")).releases;
    const release = state.release ?? store.releases.at(-1);
    if (!this.release.children.length) this.release.append(...store.releases.map((one) => h("option", { value: one }, one)));
    this.release.value = release;
    if (release === this.shown && !what.has("state")) return false;
    const found = await this.load("upgrade", { release });
    if (!found) return false;
    this.shown = release;
    const byFinding = new Map();
    for (const one of found.findings) byFinding.set(one.finding, [...(byFinding.get(one.finding) ?? []), one]);
    setText(this.summary, found.findings.length ? `${found.findings.length} findings` : `No group is affected by Kafka ${release}.`);
    this.list.replaceChildren(
      ...[...byFinding].map(([finding, all]) =>
        h(
          "section",
          { class: "finding" },
          h("h2", {}, `${label(finding)} (${all.length})`),
          h("ul", { class: "sentences" }, all.slice(0, 500).map((one) => h("li", {}, h("a", { href: ofGroup(one.group_id) }, named(one.group_id)), " ", one.sentence))),
        ),
      ),
    );
    return true;
  }

  eventTimes() {
    return [];
  }
}
