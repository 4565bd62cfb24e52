// A table of which only the visible rows exist, sortable, with arrow keys between rows.

import { h, perFrame, setAttribute } from "./dom.js";

const OVERSCAN = 6;

export class VirtualTable {
  /**
   * `columns`: { key, label, value(row) for sorting, make(cell), fill(cell, row), class, width, descending }.
   * `key(row)` identifies a row; `sort` is a column's key, with "-" for descending; `onSort(sort)` is notified of clicks.
   */
  constructor({ label, columns, key, sort, onSort, empty, rowClass }) {
    Object.assign(this, { columns, key, sort, onSort, rowClass });
    this.rows = [];
    this.pool = [];
    this.current = 0; // the row that Tab reaches
    this.head = h("tr", { "aria-rowindex": 1 }, columns.map((column) => this.#header(column)));
    this.above = spacer();
    this.below = spacer();
    this.body = h("tbody", {}, this.above, this.below);
    this.table = h(
      "table",
      { "aria-label": label },
      h("colgroup", {}, columns.map((column) => h("col", { class: `${column.class ?? ""} c-${column.key}` }))),
      h("thead", {}, this.head),
      this.body,
    );
    this.empty = h("p", { class: "empty", hidden: true }, empty ?? "Nothing to show.");
    this.scroller = h("div", { class: "vt", role: "region", "aria-label": `${label}, scrollable`, tabindex: 0 }, this.table, this.empty);
    this.node = this.scroller;
    const render = perFrame(() => this.render());
    this.scroller.addEventListener("scroll", render, { passive: true });
    this.body.addEventListener("keydown", (event) => this.#keydown(event));
    this.body.addEventListener("click", (event) => {
      if (event.target.closest("a, button") || getSelection()?.toString()) return;
      event.target.closest("tr")?.querySelector("a.row")?.click();
    });
    this.observer = new ResizeObserver(render);
    this.observer.observe(this.scroller);
  }

  destroy() {
    this.observer.disconnect();
  }

  #header(column) {
    const cell = h("th", { scope: "col", class: `${column.class ?? ""} c-${column.key}` });
    if (!column.value) {
      cell.append(h("span", {}, column.label));
      return cell;
    }
    const click = () => {
      const [by, down] = parse(this.sort);
      const next = by === column.key ? !down : Boolean(column.descending);
      this.sort = `${next ? "-" : ""}${column.key}`;
      this.onSort?.(this.sort);
      this.#order(true);
      this.render();
    };
    cell.append(h("button", { type: "button", onclick: click, title: column.title }, column.label));
    return cell;
  }

  /** Shows rows. While the pointer or the focus is in the table, rows keep their order. */
  set(rows) {
    this.rows = rows;
    this.#order(!this.body.matches(":hover, :focus-within"));
    this.render();
  }

  #order(again) {
    const [by, down] = parse(this.sort);
    const column = this.columns.find((one) => one.key === by && one.value);
    for (const [index, one] of this.columns.entries()) {
      if (!one.value) continue;
      setAttribute(this.head.children[index], "aria-sort", one === column ? (down ? "descending" : "ascending") : "none");
    }
    if (!column) return;
    const sign = down ? -1 : 1;
    const keyed = this.rows.map((row) => [column.value(row), row]);
    keyed.sort(([a], [b]) => order(a, b, sign));
    let sorted = keyed.map(([, row]) => row);
    if (!again && this.places) {
      const last = this.places.size;
      sorted = sorted.map((row, index) => [this.places.get(this.key(row)) ?? last + index, row]).sort(([a], [b]) => a - b).map(([, row]) => row);
    }
    this.rows = sorted;
    this.places = new Map(sorted.map((row, index) => [this.key(row), index]));
  }

  #height() {
    return parseFloat(getComputedStyle(this.scroller).getPropertyValue("--row")) || 36;
  }

  render() {
    const height = this.#height();
    const { rows } = this;
    this.empty.hidden = rows.length > 0;
    setAttribute(this.table, "aria-rowcount", String(rows.length + 1));
    const first = Math.max(0, Math.min(Math.floor(this.scroller.scrollTop / height) - OVERSCAN, rows.length - 1));
    const last = Math.min(rows.length, first + Math.ceil((this.scroller.clientHeight || 600) / height) + 2 * OVERSCAN);
    const focused = this.body.contains(document.activeElement) ? document.activeElement.closest("tr") : undefined;
    const focusedKey = focused?.rowKey;
    while (this.pool.length < last - first) {
      const row = h("tr", {}, this.columns.map((column) => h("td", { class: `${column.class ?? ""} c-${column.key}` })));
      for (const [index, column] of this.columns.entries()) column.make?.(row.children[index]);
      this.pool.push(row);
    }
    this.current = Math.max(0, Math.min(this.current, rows.length - 1));
    const tabbed = Math.max(first, Math.min(this.current, last - 1));
    const shown = [];
    for (let index = first; index < last; index += 1) {
      const tr = this.pool[index - first];
      const row = rows[index];
      for (const [place, column] of this.columns.entries()) column.fill(tr.children[place], row);
      tr.rowKey = this.key(row);
      tr.rowNumber = index;
      setAttribute(tr, "aria-rowindex", String(index + 2));
      tr.className = this.rowClass?.(row) ?? "";
      const link = tr.querySelector("a.row");
      if (link) link.tabIndex = index === tabbed ? 0 : -1;
      shown.push(tr);
    }
    this.above.firstChild.style.height = `${first * height}px`;
    this.below.firstChild.style.height = `${(rows.length - last) * height}px`;
    if (this.attached !== shown.length) {
      this.body.replaceChildren(this.above, ...shown, this.below);
      this.attached = shown.length;
    }
    if (focused && focusedKey !== undefined && focused.rowKey !== focusedKey) {
      shown.find((tr) => tr.rowKey === focusedKey)?.querySelector("a.row")?.focus({ preventScroll: true });
    }
  }

  focus(index) {
    const height = this.#height();
    const top = index * height;
    const { scroller } = this;
    const head = this.head.offsetHeight;
    if (top < scroller.scrollTop) scroller.scrollTop = top;
    else if (top + height > scroller.scrollTop + scroller.clientHeight - head) scroller.scrollTop = top + height + head - scroller.clientHeight;
    this.current = index;
    document.activeElement?.blur?.(); // the row in the pool is about to show another one
    this.render();
    this.pool.find((tr) => tr.isConnected && tr.rowNumber === index)?.querySelector("a.row")?.focus({ preventScroll: true });
  }

  #keydown(event) {
    const row = event.target.closest("tr")?.rowNumber;
    if (row === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / this.#height()) - 2);
    const end = this.rows.length - 1;
    const next = { ArrowDown: row + 1, ArrowUp: row - 1, PageDown: row + page, PageUp: row - page, Home: 0, End: end }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    this.focus(Math.max(0, Math.min(end, next)));
  }
}

function spacer() {
  return h("tr", { class: "spacer", "aria-hidden": "true" }, h("td")); // one cell: hidden columns must not get a width by it
}

function parse(sort) {
  return sort?.startsWith("-") ? [sort.slice(1), true] : [sort, false];
}

/** Unknown values are last in both directions. */
function order(a, b, sign) {
  const missingA = a === null || a === undefined;
  const missingB = b === null || b === undefined;
  if (missingA || missingB) return missingA - missingB;
  if (typeof a === "string") return sign * (a < b ? -1 : a > b ? 1 : 0);
  return sign * (a - b);
}
