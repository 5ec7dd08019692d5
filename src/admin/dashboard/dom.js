// Elements, numbers and sparklines. Texts become text nodes, never markup: key ids come from clients.

const SVG = "http://www.w3.org/2000/svg";

/// Creates an element. `on…` attributes are listeners; null and false are left out; strings among `children` are text.
export function el(name, attributes = {}, ...children) {
  return fill(document.createElement(name), attributes, children);
}

function svg(name, attributes) {
  return fill(document.createElementNS(SVG, name), attributes, []);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return element;
}

/// Sets the text of an element if it differs.
export function text(element, value) {
  const next = String(value);
  if (element.textContent !== next) element.textContent = next;
}

/// Makes the children of `parent` those of `items`, and reuses the child of a known key. While the pointer or the focus
/// is inside, known children keep their places, so that a click meets the row it was meant for.
export function keyed(parent, items, keyOf, create, update) {
  const known = (parent.tollgateRows ??= new Map());
  const held = parent.matches(":hover") || parent.contains(document.activeElement);
  const wanted = new Set(items.map(keyOf));
  for (const [key, row] of known) {
    if (wanted.has(key)) continue;
    row.remove();
    known.delete(key);
  }
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let row = known.get(key);
    if (!row) {
      row = create(item);
      known.set(key, row);
      parent.insertBefore(row, held ? null : at);
    } else if (row === at) {
      at = at.nextElementSibling;
    } else if (!held) {
      parent.insertBefore(row, at);
    }
    update(row, item);
  }
}

/// Returns a table in a region that scrolls sideways. `columns`: [heading, class].
export function table(caption, columns, kind = "") {
  const head = el("tr", {}, columns.map(([heading, kind]) => el("th", { scope: "col", class: kind }, heading)));
  const body = el("tbody");
  const node = el("div", { class: `scroll ${kind}`, role: "region", "aria-label": caption, tabindex: "0" },
    el("table", {}, el("caption", { class: "hidden" }, caption), el("thead", {}, head), body));
  return { node, body };
}

/// Creates a row: the first cell is its heading.
export function row(columns, cells) {
  return el("tr", {}, cells.map((cell, at) =>
    el(at === 0 ? "th" : "td", at === 0 ? { scope: "row", class: columns[at][1] } : { class: columns[at][1] }, cell)));
}

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 2 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

/// Returns a number for people: `0.25`, `1,235`, `12.3K`.
export function number(value) {
  if (value === null || value === undefined) return "–";
  return (Math.abs(value) >= 100000 ? compact : plain).format(value);
}

/// Returns a rate for people: one decimal below 10.
export function rate(value) {
  return number(value >= 10 ? Math.round(value) : Math.round(value * 10) / 10);
}

/// Returns milliseconds for people.
export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (ms < 1000) return `${plain.format(ms < 10 ? Math.round(ms * 100) / 100 : Math.round(ms))} ms`;
  const seconds = ms / 1000;
  if (seconds < 120) return `${plain.format(seconds < 10 ? Math.round(seconds * 10) / 10 : Math.round(seconds))} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 120) return `${minutes} min`;
  const hours = Math.round(minutes / 60);
  return hours < 72 ? `${hours} h` : `${Math.round(hours / 24)} days`;
}

/// Returns a point in time: `2026-11-23 14:05:09`, in the time zone of the browser.
export function time(value) {
  return new Date(value).toLocaleString("sv-SE");
}

export const POINTS = 120;

/// Sparkline of two series with one scale. The numbers stand beside it, so it is hidden from screen readers.
export function sparkline() {
  const paths = ["requests", "denied"].map((kind) => svg("path", { class: kind, "vector-effect": "non-scaling-stroke" }));
  const node = svg("svg", { class: "spark", viewBox: `0 0 ${POINTS - 1} 100`, preserveAspectRatio: "none", "aria-hidden": "true", focusable: "false" });
  node.append(...paths);
  const draw = (series) => {
    const top = Math.max(1, ...series.requests, ...series.denied);
    const line = (values) => values.map((value, at) => `${POINTS - values.length + at} ${(100 - (value / top) * 97).toFixed(1)}`);
    const area = (values) => {
      const points = line(values);
      return points.length < 2 ? "" : `M${points.join("L")}L${POINTS - 1} 100L${POINTS - values.length} 100Z`;
    };
    paths[0].setAttribute("d", area(series.requests));
    paths[1].setAttribute("d", series.denied.some((value) => value > 0) ? area(series.denied) : "");
  };
  return { node, draw };
}

/// Returns the heading of a page. It takes the focus when the page is opened.
export function heading(title, ...rest) {
  return el("div", { class: "head" }, el("h1", { tabindex: "-1" }, title), ...rest);
}

let counter = 0;

/// Returns a labelled field.
export function field(label, control, hint) {
  control.id ||= `field-${(counter += 1)}`;
  const help = hint ? el("small", { id: `${control.id}-hint` }, hint) : null;
  if (help) control.setAttribute("aria-describedby", help.id);
  return el("div", { class: "field" }, el("label", { for: control.id }, label), control, help);
}

/// Shows the result of a change, for screen readers as well.
export function announce(message) {
  const status = document.getElementById("status");
  status.textContent = message;
  clearTimeout(status.tollgateTimer);
  status.tollgateTimer = setTimeout(() => text(status, ""), 6000);
}
