// Elements without markup: texts become text nodes, so no name of a group, topic or client is ever parsed as HTML.

export function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes ?? {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== false));
  return node;
}

/** Changes a text only if it differs, so that screen readers and the selection are left alone. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

/** A name in its own direction: characters that reverse text cannot change what stands next to it. */
export function named(text, attributes) {
  return h("bdi", { ...attributes, title: text }, text === "" ? "(empty)" : text);
}

let announcing;
export function announce(text) {
  clearTimeout(announcing);
  announcing = setTimeout(() => setText(document.getElementById("announce"), text), 150);
}

/** Calls a function once per frame, however often it is requested. */
export function perFrame(action) {
  let pending = 0;
  return () => {
    pending ||= requestAnimationFrame(() => {
      pending = 0;
      action();
    });
  };
}
