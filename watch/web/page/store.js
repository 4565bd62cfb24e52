// What the stream sent: groups, recent events and the status. Views are notified of what changed, at most once per frame.

import { perFrame } from "./dom.js";

const MOST_EVENTS = 2000;

export const store = { groups: new Map(), events: [], status: undefined, releases: [], live: false, loaded: false };

const listeners = new Set();
let changed = new Set();
let skew = 0;

const notify = perFrame(() => {
  const what = changed;
  changed = new Set();
  for (const listener of listeners) listener(what);
});

export function touch(what) {
  changed.add(what);
  notify();
}

export function onStore(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

let latest = 0; // time of the last event

/** The server's time; of files, the time of the last event, where they end. */
export function now() {
  return store.status?.mode === "files" && latest ? latest + 1000 : Date.now() + skew;
}

export const handlers = {
  open() {
    store.live = true;
    touch("status");
  },
  lost() {
    store.live = false;
    touch("lost");
  },
  status(status) {
    store.status = status;
    skew = status.now_ms - Date.now();
    touch("status");
  },
  groups({ full, groups, gone }) {
    if (full) store.groups.clear();
    for (const group of groups) store.groups.set(group.group_id, group);
    for (const id of gone) store.groups.delete(id);
    store.loaded = true;
    touch("groups");
  },
  events(events) {
    if (!events.length) return;
    latest = Math.max(latest, ...events.map((event) => event.at_ms));
    const last = store.events.at(-1)?.id ?? -1;
    store.events.push(...events.filter((event) => event.id > last));
    store.events.splice(0, store.events.length - MOST_EVENTS);
    touch("events");
  },
};
