// The page: which view is shown, the stream, the login, and keys.

import { connect, get, logIn, Refused } from "./api.js";
import { h, setAttribute, setText } from "./dom.js";
import { duration } from "./format.js";
import { GroupView } from "./group.js";
import { GroupsView } from "./groups.js";
import { EventsView, TopicsView, UpgradeView } from "./others.js";
import { change, ofView, onState, state } from "./state.js";
import { handlers, onStore, store, touch } from "./store.js";
import { Timebar, updateRange } from "./timebar.js";

const VIEWS = { groups: GroupsView, group: GroupView, topics: TopicsView, events: EventsView, upgrade: UpgradeView };
const NAMES = { groups: "Groups", topics: "Topics", events: "Events", upgrade: "Upgrade" };

const main = document.getElementById("main");
const nav = document.getElementById("nav");
const connection = document.getElementById("connection");
const problems = document.getElementById("problems");
let view;
let shown;
let failed;

const timebar = new Timebar(document.getElementById("timebar"), () => view?.eventTimes() ?? []);

for (const [name, label] of Object.entries(NAMES)) nav.append(h("a", { href: "?", "data-view": name }, label));

function show(what) {
  const key = state.view === "group" ? `group ${state.group}` : state.view in VIEWS ? state.view : "groups";
  updateRange();
  if (key !== shown) {
    view?.destroy();
    view = new (VIEWS[state.view] ?? GroupsView)();
    shown = key;
    main.replaceChildren(view.node);
    main.scrollTop = 0;
    what = new Set([...what, "state"]);
  }
  document.title = `${view.title} · quorate watch`;
  for (const link of nav.children) {
    const { view: name } = link.dataset;
    setAttribute(link, "href", ofView(name));
    if (name === state.view || (name === "groups" && state.view === "group")) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  timebar.update();
  view.update(what).then(
    (loaded) => {
      if (loaded) failed = undefined; // views return whether they have loaded or shown anything
      performance.mark("shown");
      timebar.redraw();
      showProblems();
    },
    (error) => {
      if (error instanceof Refused && error.status === 401) login();
      else {
        failed = error instanceof Refused ? error.message : store.live ? String(error) : undefined;
        showProblems();
      }
    },
  );
}

function showConnection() {
  const { status } = store;
  let text = "Connecting…";
  let tone = "quiet";
  if (store.loaded && !store.live) [text, tone] = ["Connection lost, retrying", "bad"];
  else if (status?.mode === "files") [text, tone] = ["From files", "ok"];
  else if (status && !status.caught_up) [text, tone] = ["Reading the log", "warn"];
  else if (status && status.late_ms > 5000) [text, tone] = [`${duration(status.late_ms)} late`, "warn"];
  else if (status) [text, tone] = ["Connected", "ok"];
  setText(connection, text);
  setAttribute(connection, "class", `connection ${tone}`);
  setAttribute(connection, "title", status ? `${status.source ? `${status.source}: ` : ""}${status.records} records read` : "");
}

function showProblems() {
  const texts = [...(store.status?.errors ?? []), ...(failed ? [failed] : [])];
  const key = JSON.stringify(texts);
  if (problems.dataset.key === key) return;
  problems.dataset.key = key;
  problems.replaceChildren(...texts.map((text) => h("p", {}, text)));
}

function login() {
  if (document.getElementById("login")) return;
  const token = h("input", { type: "password", id: "token", name: "token", autocomplete: "current-password", required: true });
  const error = h("p", { class: "error", role: "alert" });
  const form = h(
    "form",
    { id: "login", class: "card login" },
    h("h1", {}, "Log in"),
    h("label", { for: "token" }, "Token"),
    token,
    h("button", { type: "submit" }, "Log in"),
    error,
    h("p", { class: "dim" }, "The token that quorate watch was started with."),
  );
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const refused = await logIn(token.value);
    if (refused) setText(error, refused);
    else start();
  });
  shown = undefined;
  view?.destroy();
  view = undefined;
  document.getElementById("timebar").hidden = true;
  main.replaceChildren(form);
  token.focus();
}

let source;
async function start() {
  source?.close();
  source = connect(handlers); // at the same time, so that groups are shown sooner
  try {
    const status = await get("status");
    store.releases = status.releases;
    handlers.status(status);
  } catch (error) {
    source.close();
    if (error instanceof Refused && error.status === 401) return login();
    failed = error instanceof Refused ? error.message : "The server does not respond.";
    showProblems();
    setTimeout(start, 1000);
    return undefined;
  }
  failed = undefined;
  show(new Set(["state"]));
  return undefined;
}

onState(() => show(new Set(["state"])));
onStore((what) => {
  showConnection();
  showProblems();
  if (what.has("lost")) checkLogin();
  if (view) show(what);
});

let checking;
async function checkLogin() {
  if (checking) return;
  checking = true;
  try {
    await get("status");
  } catch (error) {
    if (error instanceof Refused && error.status === 401) {
      source.close();
      login();
    }
  }
  checking = false;
}

// Durations such as "3 s ago", and the end of the window, move with time.
setInterval(() => {
  if (view && !document.hidden && state.at === undefined) touch("tick");
}, 1000);

addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches?.("input, select, textarea")) {
    if (event.key === "Escape" && event.target.id === "filter") {
      change({ q: undefined }, { replace: true });
      event.target.value = "";
    }
    return;
  }
  if (event.key === "/") {
    const filter = document.getElementById("filter");
    if (!filter) return;
    event.preventDefault();
    filter.focus();
  } else if (event.key === "Escape" && state.at !== undefined) change({ at: undefined, from: undefined });
});

showConnection();
start();
