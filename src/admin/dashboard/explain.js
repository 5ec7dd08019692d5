// Dry run of a request: the route that takes it, its filters and keys with their state, and the request to the upstream.

import { call, fail } from "./api.js";
import { duration, el, field, number, row, table, text } from "./dom.js";
import { badge, endpointKind, failures } from "./overview.js";

const METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
const SKIPPED = [["Route", ""], ["Predicate that does not match", ""], ["Seen", ""]];
const FILTERS = [["Filter", ""], ["Arguments", ""]];
const RULES = [["Rule", ""], ["Predicate that does not match", ""], ["Seen", ""]];
const COUNTED = [["Rule", ""], ["Key", "key"], ["Cost", "num"], ["Left", "num"], ["Verdict", ""], ["Full again", "num"]];
const CORS = {
  "no-policy": "The path has no CORS policy: browsers deny the response to scripts of other origins.",
  allowed: "The origin is allowed.",
  preflight: "The preflight is answered with 200 before the filters.",
  "refused-origin": "The origin is refused: 403 before the filters.",
  "refused-method": "The method is refused: 403 before the filters.",
  "refused-headers": "The header fields are refused: 403 before the filters.",
};

/// Returns the form, and its answer below.
export function explainForm() {
  const method = el("select", {}, METHODS.map((name) => el("option", {}, name)));
  const url = el("input", { required: true, autocomplete: "off", spellcheck: "false", autocapitalize: "off", value: "/" });
  const headers = el("textarea", { rows: "2", spellcheck: "false", autocapitalize: "off", autocomplete: "off" });
  const peer = el("input", { placeholder: "127.0.0.1", autocomplete: "off", spellcheck: "false" });
  const failure = el("p", { class: "error", role: "alert" });
  const answer = el("div", { class: "answer" });
  const form = el("form", { class: "fields explain", onsubmit: (event) => { event.preventDefault(); run(); } },
    field("Method", method), field("Path or URL", url), field("Client address", peer),
    field("Header fields", headers, "One in each line, such as X-Api-Key: acme"),
    el("button", { type: "submit", class: "primary" }, "Explain"));

  async function run() {
    const query = new URLSearchParams({ method: method.value, url: url.value });
    for (const line of headers.value.split("\n")) if (line.trim()) query.append("header", line.trim());
    if (peer.value.trim()) query.set("peer", peer.value.trim());
    try {
      const found = await call("GET", `/api/explain?${query}`);
      text(failure, "");
      answer.replaceChildren(...describe(found));
    } catch (error) {
      answer.replaceChildren();
      fail(failure, error);
    }
  }

  return el("section", {}, el("h2", {}, "Explain a request"),
    el("p", { class: "muted" }, "Runs a request through the routes in effect. Nothing is counted, and the upstream gets nothing."), form, failure, answer);
}

function describe(found) {
  if (found.refused) return [verdict("bad", "Refused", found.refused)];
  const parts = [];
  const { route } = found;
  if (!route) parts.push(verdict("bad", "404", "No route matches."));
  else {
    const to = route.forwarded ? `${route.forwarded.method} ${route.forwarded.url}` : null;
    const local = route.answered ? `Answered by the gateway with ${route.answered.status} (${route.answered.reason})` : null;
    parts.push(verdict(route.answered ? "warn" : "good", route.id, local ?? el("code", {}, to ?? route.uri)));
    const denied = counted(route).some((key) => key.live?.["is-exceeded"] && !key.observed);
    if (denied) parts.push(verdict("bad", "Denied now", "At least one rule would deny the request."));
  }
  if (found.cors) parts.push(verdict(found.cors.verdict.startsWith("refused") ? "bad" : "", "CORS", CORS[found.cors.verdict] ?? found.cors.verdict));
  if (route) parts.push(...filters(route), ...live(route.live), ...headerFields(route.forwarded));
  if (found["passed-over"].length) {
    const skipped = table("Routes that do not match", SKIPPED, "tall");
    skipped.body.append(...found["passed-over"].map((each) => row(SKIPPED, [each.route, el("code", {}, each.predicate), el("code", {}, each.seen)])));
    parts.push(el("h3", {}, "Routes before that do not match"), skipped.node);
  }
  return parts;
}

function verdict(kind, word, detail) {
  return el("p", { class: "verdict" }, badge(kind, word), " ", detail);
}

function counted(route) {
  return route.filters.flatMap((filter) => filter.counted ?? []);
}

function filters(route) {
  const parts = [];
  const keys = counted(route);
  if (keys.length) {
    const list = table("Keys that the request is counted under", COUNTED);
    list.body.append(...keys.map((key) => row(COUNTED, [key.live?.rule ?? key.rule, el("code", {}, key["key-id"]), number(key.cost), ...limit(key)])));
    parts.push(el("h3", {}, "Keys and what they have left"), list.node);
  }
  const without = route.filters.flatMap((filter) => filter["skipped-rules"] ?? []);
  if (without.length) {
    const list = table("Rules that do not apply", RULES);
    list.body.append(...without.map((each) => row(RULES, [each.plan ? `${each.rule}, plan ${each.plan}` : each.rule, el("code", {}, each.predicate), el("code", {}, each.seen)])));
    parts.push(el("h3", {}, "Rules that do not apply"), list.node);
  }
  if (route.filters.length) {
    const list = table("Filters in the order of execution", FILTERS, "tall");
    list.body.append(...route.filters.map((filter) => {
      const named = filter.arguments ?? [];
      const name = named.length ? filter.filter.split(/[={]/)[0] : filter.filter;
      return row(FILTERS, [el("code", {}, name), el("dl", { class: "facts two" }, named.map(([key, value]) =>
        el("div", {}, el("dt", {}, key), el("dd", {}, el("code", {}, value)))))]);
    }));
    parts.push(el("h3", {}, "Filters"), list.node);
  }
  return parts;
}

/// Cells of what a key has left.
function limit({ live, observed }) {
  if (!live) return ["–", "", "–"];
  if (live.problem) return ["–", badge("warn", live.problem), "–"];
  const left = `${number(live.remaining)} of ${number(live.capacity)}${live.rule ? " (override)" : live.override ? ` (override: ${live.override})` : ""}`;
  const full = live["reset-after-ms"] ? `in ${duration(live["reset-after-ms"])}` : "now";
  if (!live["is-exceeded"]) return [left, badge("good", "allowed"), full];
  const retry = live["retry-after-ms"] === null ? "" : `, retry in ${duration(live["retry-after-ms"])}`;
  return [left, badge(observed ? "warn" : "bad", observed ? "observed" : `denied${retry}`), full];
}

function live(state) {
  const endpoints = state?.endpoints ?? [], breakers = state?.breakers ?? [];
  const facts = [
    ...endpoints.map((found) => [found.endpoint, badge(endpointKind(found.state), found.state), [`${number(found["in-flight"])} in flight`, failures(found)].filter(Boolean).join("; ")]),
    ...breakers.map((found) => [`Circuit breaker ${found.name}`, badge(found.state === "closed" ? "good" : "bad", found.state), ""]),
  ];
  if (!facts.length) return [];
  return [el("h3", {}, "Upstream"), el("dl", { class: "facts wide" }, facts.map(([name, state, detail]) =>
    el("div", {}, el("dt", {}, name), el("dd", {}, state, " ", el("span", { class: "muted" }, detail)))))];
}

function headerFields(forwarded) {
  const lines = Object.entries(forwarded?.headers ?? {}).flatMap(([name, values]) => values.map((value) => `${name}: ${value}`));
  if (!lines.length) return [];
  return [el("h3", {}, "Header fields to the upstream"), el("pre", { class: "panel", tabindex: "0", "aria-label": "Header fields to the upstream" }, lines.join("\n"))];
}
