// Requests to the server: JSON, the stream, and the login.

export class Refused extends Error {
  constructor(status, error, help) {
    super(help ? `${error}: ${help}` : error);
    this.status = status;
  }
}

export async function get(path, parameters, signal) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) if (one !== undefined && one !== null) query.append(name, one);
  }
  const response = await fetch(`api/${path}?${query}`, { signal });
  if (response.ok) return response.json();
  const body = await response.json().catch(() => ({ error: `status ${response.status}` }));
  throw new Refused(response.status, body.error, body.help);
}

/** Requests of which only the last counts: a new one cancels the one before. */
export function lastOf() {
  let controller;
  return async (path, parameters) => {
    controller?.abort();
    controller = new AbortController();
    const { signal } = controller;
    try {
      return await get(path, parameters, signal);
    } catch (error) {
      if (signal.aborted) return undefined;
      throw error;
    }
  };
}

/** Runs an action once at a time. Calls while it runs lead to one more run, after a rest: a storm of changes costs half of the time at most. */
export function oneAtATime(action) {
  let running;
  let again = false;
  const run = async () => {
    do {
      again = false;
      const began = performance.now();
      await action();
      if (again) await new Promise((done) => setTimeout(done, performance.now() - began));
    } while (again);
  };
  return () => {
    if (running) again = true;
    else running = run().finally(() => (running = undefined));
    return running;
  };
}

export async function logIn(token) {
  const response = await fetch("login", { headers: { Authorization: `Bearer ${token}` } });
  if (response.ok) return undefined;
  const body = await response.json().catch(() => ({}));
  return body.error ?? `status ${response.status}`;
}

/** Opens the stream until `close()`. The browser reconnects, and sends the id of the last event that it got. */
export function connect(handlers) {
  let source;
  let closed = false;
  const open = () => {
    if (closed) return;
    source = new EventSource("api/stream");
    for (const name of ["status", "groups", "events"]) {
      source.addEventListener(name, (event) => handlers[name](JSON.parse(event.data)));
    }
    source.addEventListener("open", () => handlers.open());
    source.addEventListener("error", () => {
      if (source.readyState === EventSource.CLOSED) setTimeout(open, 1000); // refused, such as 503
      handlers.lost();
    });
  };
  open();
  return {
    close() {
      closed = true;
      source.close();
    },
  };
}
