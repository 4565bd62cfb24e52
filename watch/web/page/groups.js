// All groups, now or at a moment: sortable, with a filter.

import { lastOf } from "./api.js";
import { fillSpark, makeSpark } from "./charts.js";
import { h, setAttribute, setText } from "./dom.js";
import { ago, compact, duration, number, percent } from "./format.js";
import { change, ofGroup, state } from "./state.js";
import { now, store } from "./store.js";
import { VirtualTable } from "./table.js";

export function stateTone(group) {
  const name = group.state.toLowerCase().replace(/[^a-z]/g, "");
  if (name === "stable") return "ok";
  if (name === "empty" || name === "dead") return "quiet";
  return "warn";
}

export function shownState(name) {
  const words = name.replace(/([a-z])([A-Z])/g, "$1 $2").replaceAll(/[_-]/g, " ").toLowerCase();
  return words ? words[0].toUpperCase() + words.slice(1) : "";
}

function text(get) {
  return (cell, group) => setText(cell, get(group));
}

const COLUMNS = [
  {
    key: "group",
    label: "Group",
    value: (group) => group.group_id,
    make(cell) {
      cell.link = h("a", { class: "row", href: "?" }, h("bdi"));
      cell.sub = h("span", { class: "sub" });
      cell.append(cell.link, cell.sub);
    },
    fill(cell, group) {
      setText(cell.link.firstChild, group.group_id === "" ? "(empty)" : group.group_id);
      setAttribute(cell.link, "href", ofGroup(group.group_id));
      setAttribute(cell.link, "title", group.group_id);
      setText(cell.sub, `${shownState(group.state)}, ${group.members} ${group.members === 1 ? "member" : "members"}`);
    },
  },
  {
    key: "state",
    label: "State",
    class: "wide",
    value: (group) => group.state,
    make(cell) {
      cell.badge = h("span", { class: "state" });
      cell.append(cell.badge);
    },
    fill(cell, group) {
      setText(cell.badge, shownState(group.state));
      setAttribute(cell.badge, "class", `state ${stateTone(group)}`);
    },
  },
  { key: "protocol", label: "Protocol", class: "wide", value: (group) => group.kind, fill: text((group) => group.kind) },
  { key: "members", label: "Members", class: "n wide", descending: true, value: (group) => group.members, fill: text((group) => number(group.members)) },
  { key: "partitions", label: "Partitions", class: "n wider", descending: true, value: (group) => group.partitions, fill: text((group) => number(group.partitions)) },
  { key: "lag", label: "Lag", title: "By timestamps of records", class: "n", descending: true, value: (group) => group.lag_ms, fill: text((group) => duration(group.lag_ms)) },
  { key: "records", label: "Records", title: "Lag in records", class: "n mid", descending: true, value: (group) => group.lag_records, fill: text((group) => compact(group.lag_records)) },
  { key: "trend", label: "Trend", class: "trend", make: makeSpark, fill: (cell, group) => fillSpark(cell, group.spark) },
  {
    key: "locality",
    label: "Locality",
    title: "Share of assigned partitions with a replica in their member's rack",
    class: "n wide",
    value: (group) => group.locality,
    make(cell) {
      cell.meter = h("span", { class: "meter", "aria-hidden": "true" }, h("span"));
      cell.number = h("span");
      cell.append(cell.meter, cell.number);
    },
    fill(cell, group) {
      cell.meter.hidden = group.locality === null;
      cell.meter.firstChild.style.width = `${Math.round((group.locality ?? 0) * 100)}%`;
      setText(cell.number, percent(group.locality));
    },
  },
  { key: "rebalances", label: "Rebalances", class: "n wider", descending: true, value: (group) => group.rebalances, fill: text((group) => number(group.rebalances)) },
  {
    key: "last",
    label: "Last rebalance",
    class: "n wide",
    descending: true,
    value: (group) => group.last_rebalance_ms,
    fill: text((group) => ago(group.last_rebalance_ms, state.at ?? now())),
  },
];

export class GroupsView {
  title = "Groups";

  constructor() {
    this.filter = h("input", {
      type: "search",
      id: "filter",
      placeholder: "Filter groups",
      "aria-label": "Filter groups",
      autocomplete: "off",
      spellcheck: "false",
      oninput: () => change({ q: this.filter.value || undefined }, { replace: true }),
    });
    this.kinds = h(
      "select",
      { "aria-label": "State or protocol", onchange: () => change({ kind: this.kinds.value || undefined }, { replace: true }) },
      h("option", { value: "" }, "All states"),
    );
    this.count = h("p", { class: "count", role: "status" });
    this.table = new VirtualTable({
      label: "Groups",
      columns: COLUMNS,
      key: (group) => group.group_id,
      sort: state.sort ?? "-lag",
      onSort: (sort) => change({ sort: sort === "-lag" ? undefined : sort }, { replace: true }),
      empty: "No group matches.",
    });
    this.node = h(
      "div",
      { class: "view fill" },
      h("div", { class: "toolbar" }, h("h1", {}, "Groups"), this.count, h("span", { class: "spring" }), this.kinds, this.filter),
      this.table.node,
    );
    this.load = lastOf();
  }

  destroy() {
    this.table.destroy();
  }

  async update(what) {
    const { at } = state;
    if (at === undefined) {
      this.past = this.pastAt = undefined;
    } else if (at !== this.pastAt) {
      const found = await this.load("groups", { at_ms: at });
      if (!found || state.at !== at) return false; // a later request is under way
      this.past = found.groups;
      this.pastAt = at;
    } else if (!what.has("state")) return false;
    if (document.activeElement !== this.filter) this.filter.value = state.q ?? "";
    const groups = this.past ?? [...store.groups.values()];
    this.#options(groups);
    const wanted = state.q?.toLowerCase();
    const { kind } = state;
    const rows = groups.filter(
      (group) => (!wanted || group.group_id.toLowerCase().includes(wanted)) && (!kind || group.state === kind || group.kind === kind),
    );
    if (this.table.sort !== (state.sort ?? "-lag")) this.table.sort = state.sort ?? "-lag";
    this.table.set(rows);
    this.node.dataset.at = at ?? "live";
    setText(this.count, rows.length === groups.length ? number(groups.length) : `${number(rows.length)} of ${number(groups.length)}`);
    if (!store.loaded) setText(this.table.empty, "Loading…");
    else setText(this.table.empty, groups.length ? "No group matches." : "No groups yet.");
    return true;
  }

  #options(groups) {
    const states = [...new Set(groups.map((group) => group.state))].sort();
    const kinds = [...new Set(groups.map((group) => group.kind))].sort();
    const key = JSON.stringify([states, kinds]);
    if (key !== this.optionsKey) {
      this.optionsKey = key;
      this.kinds.replaceChildren(
        h("option", { value: "" }, "All states and protocols"),
        h("optgroup", { label: "State" }, states.map((one) => h("option", { value: one }, shownState(one)))),
        h("optgroup", { label: "Protocol" }, kinds.map((one) => h("option", { value: one }, one))),
      );
    }
    this.kinds.value = state.kind ?? "";
  }

  eventTimes() {
    return store.events.map((event) => event.at_ms);
  }
}
