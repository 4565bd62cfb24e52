// What the page shows, kept in its address: links carry the view, the group and the moment, and back and forward work.

const NUMBERS = ["at", "from", "window"];
const TEXTS = ["view", "group", "q", "kind", "sort", "release"];

export const state = {};
const listeners = new Set();

function read() {
  const query = new URLSearchParams(location.search);
  for (const name of TEXTS) state[name] = query.get(name) ?? undefined;
  for (const name of NUMBERS) {
    const value = query.get(name);
    state[name] = value !== null && /^\d{1,15}$/.test(value) ? Number(value) : undefined;
  }
  if (state.group !== undefined) state.view = "group";
  state.view ??= "groups";
}

/** The address of the present state with changes. */
export function address(changes) {
  const query = new URLSearchParams();
  const next = { ...state, ...changes };
  if (next.group === undefined && next.view === "group") next.view = "groups";
  for (const name of [...TEXTS, ...NUMBERS]) {
    const value = next[name];
    if (value === undefined || (name === "view" && (value === "groups" || value === "group"))) continue;
    query.set(name, value);
  }
  return `?${query}`;
}

/** The address of a group, at the present moment. */
export function ofGroup(group, changes) {
  return address({ group, view: "group", q: undefined, kind: undefined, sort: undefined, release: undefined, ...changes });
}

/** The address of a view, without its filters. */
export function ofView(view) {
  return address({ view, group: undefined, q: undefined, kind: undefined, sort: undefined, from: undefined, release: undefined });
}

export function go(url, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", url);
  read();
  for (const listener of listeners) listener();
}

export function change(changes, options) {
  go(address(changes), options);
}

export function onState(listener) {
  listeners.add(listener);
}

addEventListener("popstate", () => {
  read();
  for (const listener of listeners) listener();
});

// Links within the page change the state instead of loading it again.
addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='?']");
  if (!link || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  go(link.getAttribute("href"));
  if (!link.closest("nav")) document.getElementById("main").focus({ preventScroll: true });
});

read();
