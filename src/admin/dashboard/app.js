// Start of the dashboard: pages by the fragment of the address, and the stream of snapshots.

import { askForToken, Problem, send } from "./api.js";
import { POINTS, text } from "./dom.js";
import { keyPage } from "./key.js";
import { limitedPage } from "./limited.js";
import { overviewPage } from "./overview.js";
import { configPage, routesPage } from "./setup.js";

/// Time without a snapshot after which the connection counts as lost.
const SILENCE = 6000;

const main = document.getElementById("main");
const state = { snapshot: null, history: { all: line(), routes: new Map() }, openKey };
const pages = new Map(Object.entries({ overview: overviewPage, limited: limitedPage, key: keyPage, routes: routesPage, config: configPage })
  .map(([name, create]) => [name, create(state)]));
let shown = null;

function line() {
  return { requests: [], denied: [] };
}

/// Opens the page of a key. The key stays out of the address, and so out of the history of the browser.
function openKey(route, rule, key) {
  pages.get("key").choose(route, rule, key);
  location.hash = "#/key";
}

function navigate(isUser) {
  // Other fragments, such as that of the skip link, keep the page.
  if (shown && !location.hash.startsWith("#/")) return;
  const name = location.hash.slice(2);
  const page = pages.get(name) ?? pages.get("overview");
  if (page === shown) return;
  shown?.hide?.();
  shown = page;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `#/${pages.has(name) ? name : "overview"}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${page.title} · Tollgate`;
  main.replaceChildren(page.node);
  page.show?.();
  if (state.snapshot) page.update?.(state.snapshot);
  if (isUser) page.node.querySelector("h1").focus();
}

function link(name, message) {
  document.getElementById("link").dataset.state = name;
  text(document.getElementById("link-text"), message);
  document.getElementById("use-token").hidden = name !== "locked";
}

function receive(name, data) {
  const parsed = JSON.parse(data);
  if (name === "end") return;
  if (name === "history") {
    state.history = { all: parsed.all, routes: new Map(Object.entries(parsed.routes)) };
  } else if (name === "snapshot") {
    state.snapshot = parsed;
    const add = (points, rates) => {
      for (const kind of ["requests", "denied"]) {
        points[kind].push(rates[kind]);
        if (points[kind].length > POINTS) points[kind].shift();
      }
    };
    add(state.history.all, parsed.all);
    for (const route of parsed.routes) {
      if (!state.history.routes.has(route.id)) state.history.routes.set(route.id, line());
      add(state.history.routes.get(route.id), route);
    }
    text(document.getElementById("version"), parsed.version);
    link(parsed.status === "UP" ? "live" : "degraded", parsed.status === "UP" ? "Live" : parsed.reason || parsed.status);
    shown?.update?.(parsed);
  }
}

/// Reads events until the stream ends or is silent.
async function read(response, abort) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let buffer = "";
  for (;;) {
    const timer = setTimeout(() => abort.abort(), SILENCE);
    const { done, value } = await reader.read().finally(() => clearTimeout(timer));
    if (done) return;
    buffer += value;
    for (let end = buffer.indexOf("\n\n"); end >= 0; end = buffer.indexOf("\n\n")) {
      const fields = Object.fromEntries(buffer.slice(0, end).split("\n").map((field) => [field.slice(0, field.indexOf(":")), field.slice(field.indexOf(":") + 2)]));
      buffer = buffer.slice(end + 2);
      receive(fields.event, fields.data);
    }
  }
}

let current = null;

/// Receives snapshots while the page is visible, and connects again after each failure.
async function watch() {
  for (let pause = 500; ; pause = Math.min(pause * 2, 10000)) {
    await visible();
    current = new AbortController();
    try {
      const response = await send("GET", "/api/events", { signal: current.signal });
      pause = 500;
      await read(response, current);
      link("lost", "Reconnecting");
    } catch (error) {
      if (error instanceof Problem && error.status === 401) {
        link("locked", "Token needed");
        await new Promise((resolve) => { document.getElementById("use-token").onclick = resolve; });
        await askForToken("");
        pause = 250;
        continue;
      }
      link("lost", error instanceof Problem && error.status > 0 ? error.message : "Reconnecting");
    }
    await new Promise((resolve) => setTimeout(resolve, pause));
  }
}

function visible() {
  if (!document.hidden) return Promise.resolve();
  link("lost", "Paused");
  return new Promise((resolve) => document.addEventListener("visibilitychange", resolve, { once: true }));
}

document.addEventListener("visibilitychange", () => { if (document.hidden) current?.abort(); });
document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
addEventListener("hashchange", () => navigate(true));
navigate(false);
watch();
