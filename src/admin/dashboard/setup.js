// Routes and Config: the routes in effect, and the running configuration with its reload.

import { call, fail } from "./api.js";
import { announce, el, heading, keyed, row, table, text, time } from "./dom.js";
import { explainForm } from "./explain.js";

const ROUTES = [["Route", ""], ["Target", "target"], ["Predicates", "terms"], ["Filters", "terms"]];
const NOTES = [["Severity", ""], ["Place", ""], ["Message", ""]];

/// Returns predicates without the part of Spring's text that is the same for each path.
function predicate(text) {
  return text.replace(/Paths: \[([^\]]*)\], match trailing slash: (?:true|false)/g, "Path\u00A0$1");
}

export function routesPage(state) {
  const failure = el("p", { class: "error", role: "alert" });
  const routes = table("Routes in matching order", ROUTES, "tall");
  const node = el("div", {}, heading("Routes"), explainForm(), failure, el("section", {}, el("h2", {}, "In matching order"), routes.node));
  let hash = null;

  async function load() {
    try {
      const found = await call("GET", "/api/routes");
      routes.body.tollgateRows?.clear();
      routes.body.replaceChildren();
      keyed(routes.body, found, (route) => route.route_id,
        (route) => row(ROUTES, [route.route_id, el("code", {}, route.uri), el("code", {}, predicate(route.predicate)),
          el("ul", { class: "plain" }, route.filters.map((filter) => el("li", {}, el("code", {}, filter))))]), () => {});
      text(failure, "");
    } catch (error) {
      fail(failure, error);
    }
  }

  return {
    title: "Routes",
    node,
    show: load,
    update: (snapshot) => {
      if (hash !== null && hash !== snapshot.config.hash) load();
      hash = snapshot.config.hash;
    },
  };
}

export function configPage() {
  const failure = el("p", { class: "error", role: "alert" });
  const facts = el("dl", { class: "facts" });
  const notes = table("Warnings of the configuration", NOTES, "tall stacked");
  const clean = el("p", { class: "empty" }, "The configuration has no warnings.");
  const problems = el("pre", { class: "problems", tabindex: "0", "aria-label": "Problems of the file", hidden: true });
  const button = el("button", { type: "button", class: "primary", onclick: reload }, "Reload configuration");
  const node = el("div", {}, heading("Config", button), failure, problems, el("section", {}, el("h2", {}, "Running configuration"), facts),
    el("section", {}, el("h2", {}, "Warnings"), clean, notes.node));
  let shown = null;

  async function load() {
    try {
      const found = await call("GET", "/api/config");
      const fact = (label, value) => el("div", {}, el("dt", {}, label), el("dd", {}, value));
      facts.replaceChildren(
        fact("File", el("code", {}, found.file ?? "built in")),
        fact("Hash (SHA-256)", el("code", { class: "wrap" }, found.hash)),
        fact("Loaded", time(found["loaded-at"])),
        fact("Routes", String(found.routes)),
        fact("Reloads", `${found.reloads} applied, ${found["failed-reloads"]} refused`),
        fact("Version", found.version));
      const refused = found["refused-reload"];
      text(failure, refused ? `Not reloaded at ${time(refused.at)}: the running configuration stays in use.` : "");
      problems.hidden = refused === null;
      text(problems, refused?.detail ?? "");
      clean.hidden = found.warnings.length > 0;
      notes.node.hidden = found.warnings.length === 0;
      notes.body.replaceChildren(...found.warnings.map((note) => row(NOTES, [note.severity,
        el("code", {}, note.file === null || note.line === null ? String(note.file ?? "") : `${note.file}:${note.line}:${note.column}`),
        note.help ? [note.message, el("br"), el("span", { class: "muted" }, note.help)] : note.message])));
    } catch (error) {
      fail(failure, error);
    }
  }

  async function reload() {
    button.disabled = true;
    problems.hidden = true;
    text(failure, "");
    try {
      const applied = await call("POST", "/api/reload");
      const restart = applied["needs-restart"];
      announce(restart.length ? `Reloaded. A restart is needed for ${restart.join(", ")}.` : "The configuration was reloaded.");
      await load();
    } catch (error) {
      if (error.status === 422) await load();
      else fail(failure, error);
    } finally {
      button.disabled = false;
      button.focus();
    }
  }

  return {
    title: "Config",
    node,
    show: load,
    update: (snapshot) => {
      const latest = `${snapshot.config.hash} ${snapshot.config["failed-reloads"]}`;
      if (shown !== null && shown !== latest) load();
      shown = latest;
    },
  };
}
