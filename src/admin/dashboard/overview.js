// Overview: rates, latencies, routes, Redis, upstreams and circuit breakers.

import { duration, el, heading, keyed, number, rate, row, sparkline, table, text, time } from "./dom.js";

const ROUTES = [["Route", ""], ["Last 2 minutes", "line"], ["Requests/s", "num"], ["Allowed/s", "num"], ["Denied/s", "num"], ["Observed/s", "num"], ["Errors/s", "num"], ["p50", "num"], ["p99", "num"]];
const ENDPOINTS = [["Upstream", ""], ["Endpoint", ""], ["State", ""], ["In flight", "num"], ["Failures", ""]];
const BREAKERS = [["Circuit breaker", ""], ["State", ""], ["Failure rate", "num"]];

function tile(label, unit, hint) {
  const value = el("b", {}, "–");
  const note = el("span", { class: "muted note" }, hint);
  return { node: el("div", { class: "tile" }, el("dt", {}, label), el("dd", {}, value, unit ? el("span", { class: "muted" }, ` ${unit}`) : null, note)), value, note };
}

/// Text of a state with its color; the word alone tells the state.
export function badge(kind, word) {
  return el("span", { class: `badge ${kind}` }, word);
}

/// Color of an endpoint's state.
export function endpointKind(state) {
  return { up: "good", unknown: "", drained: "warn" }[state] ?? "bad";
}

/// Failed attempts at an endpoint since its latest response.
export function failures(found) {
  if (found["check-error"]) return `health check: ${found["check-error"]}`;
  const count = found["consecutive-failures"], last = found["last-failure"];
  return count && last ? `${number(count)} in a row, last at ${time(last.at)}: ${last.error}` : "";
}

function setBadge(node, kind, word) {
  node.className = `badge ${kind}`;
  text(node, word);
}

export function overviewPage(state) {
  const requests = tile("Requests", "/s", "all routes");
  const allowed = tile("Allowed", "/s", "one per request and rule");
  const denied = tile("Denied", "/s", "one per request and rule");
  const degraded = tile("Degraded", "/s", "decided without Redis");
  const latency = tile("Latency p50", "", "last 10 seconds");
  const errors = tile("Errors", "/s", "status 5xx");
  const all = sparkline();
  requests.node.append(el("dd", { class: "chart" }, all.node));
  requests.node.classList.add("wide");
  const routes = table("Routes", ROUTES);
  const endpoints = table("Endpoints of upstreams", ENDPOINTS);
  const breakers = table("Circuit breakers", BREAKERS);
  const facts = el("dl", { class: "facts row" });
  const fact = (label) => {
    const state = badge("", "–"), detail = el("span", { class: "muted" });
    facts.append(el("div", {}, el("dt", {}, label), el("dd", {}, state, detail)));
    return { state, detail };
  };
  const gateway = fact("Gateway"), redis = fact("Redis"), config = fact("Configuration");
  const more = el("p", { class: "muted", hidden: true });
  const upstreamSection = el("section", {}, el("h2", {}, "Upstreams"), endpoints.node);
  const breakerSection = el("section", {}, el("h2", {}, "Circuit breakers"), breakers.node);
  const node = el("div", {}, heading("Overview"),
    el("dl", { class: "tiles" }, [requests, allowed, denied, degraded, latency, errors].map((each) => each.node)),
    el("section", {}, el("h2", {}, "State"), facts),
    el("section", {}, el("h2", {}, "Routes"), routes.node, more), upstreamSection, breakerSection);

  function updateRoute(line, route) {
    line.tollgateSpark.draw(state.history.routes.get(route.id) ?? { requests: [], denied: [] });
    const cells = [...line.children].slice(2);
    const values = [rate(route.requests), rate(route.allowed), rate(route.denied), rate(route.observed), rate(route.errors), duration(route.p50), duration(route.p99)];
    cells.forEach((cell, at) => text(cell, values[at]));
    cells[2].classList.toggle("bad", route.denied > 0);
    cells[3].classList.toggle("warn", route.observed > 0);
    cells[4].classList.toggle("bad", route.errors > 0);
  }

  function createRoute(route) {
    const spark = sparkline();
    const line = row(ROUTES, [route.id, spark.node, ...Array(7).fill("")]);
    line.tollgateSpark = spark;
    return line;
  }

  function update(snapshot) {
    const sums = snapshot.all;
    text(requests.value, rate(sums.requests + sums.unrouted));
    text(requests.note, sums.unrouted > 0 ? `${rate(sums.unrouted)} without a route` : `${number(snapshot.connections)} connections`);
    text(allowed.value, rate(sums.allowed));
    text(denied.value, rate(sums.denied));
    denied.value.classList.toggle("bad", sums.denied > 0);
    const share = sums.allowed + sums.denied > 0 ? (100 * sums.denied) / (sums.allowed + sums.denied) : 0;
    text(denied.note, `${number(Math.round(share * 10) / 10)} % of decisions`);
    text(degraded.value, rate(sums.degraded));
    degraded.value.classList.toggle("warn", sums.degraded > 0);
    text(latency.value, duration(sums.p50));
    text(latency.note, `p90\u00a0${unbroken(sums.p90)}, p99\u00a0${unbroken(sums.p99)}`);
    text(errors.value, rate(sums.errors));
    errors.value.classList.toggle("bad", sums.errors > 0);
    all.draw(state.history.all);
    keyed(routes.body, snapshot.routes, (route) => route.id, createRoute, updateRoute);
    more.hidden = snapshot["route-count"] <= snapshot.routes.length;
    text(more, `The first ${snapshot.routes.length} of ${snapshot["route-count"]} routes.`);
    setBadge(gateway.state, snapshot.status === "UP" ? "good" : "warn", snapshot.status === "UP" ? "Ready" : "Not ready");
    text(gateway.detail, snapshot.reason ?? `up for ${duration(snapshot.at - snapshot.started)}, ${snapshot.workers} ${snapshot.workers === 1 ? "worker" : "workers"}`);
    updateRedis(snapshot.redis);
    const { warnings, hash } = snapshot.config;
    setBadge(config.state, warnings ? "warn" : "good", warnings ? `${warnings} ${warnings === 1 ? "diagnostic" : "diagnostics"}` : "No warnings");
    text(config.detail, `hash ${hash.slice(0, 12)}, loaded ${time(snapshot.config["loaded-at"])}`);
    updateUpstreams(snapshot);
  }

  function updateRedis(found) {
    if (!found) {
      setBadge(redis.state, "", "Not used");
      return text(redis.detail, "limits are kept in memory");
    }
    const open = found["breakers-open"];
    const isUp = found.connected === found.workers && open.length === 0;
    setBadge(redis.state, isUp ? "good" : "bad", isUp ? "Connected" : "Unreachable");
    const details = [`${found.connected} of ${found.workers} workers connected`];
    if (found.gateways) details.push(`${found.gateways} gateways`);
    if (open.length) details.push(`circuit breaker open: ${open.join(", ")}`);
    if (!isUp && found.error) details.push(found.error);
    text(redis.detail, details.join("; "));
  }

  function updateUpstreams(snapshot) {
    const rows = snapshot.upstreams.flatMap((upstream) =>
      upstream.endpoints.map((endpoint) => ({ ...endpoint, upstream: upstream.name })));
    upstreamSection.hidden = rows.length === 0;
    keyed(endpoints.body, rows, (found) => JSON.stringify([found.upstream, found.endpoint]),
      (found) => row(ENDPOINTS, [found.upstream, el("code", {}, found.endpoint), badge("", ""), "", ""]),
      (line, found) => {
        setBadge(line.children[2].firstChild, endpointKind(found.state), found.state);
        text(line.children[3], found["in-flight"] === undefined ? "–" : number(found["in-flight"]));
        text(line.children[4], failures(found));
      });
    breakerSection.hidden = snapshot.breakers.length === 0;
    keyed(breakers.body, snapshot.breakers, (found) => found.name,
      (found) => row(BREAKERS, [found.name, badge("", ""), ""]),
      (line, found) => {
        setBadge(line.children[1].firstChild, found.state === "closed" ? "good" : "bad", found.state);
        text(line.children[2], found["failure-rate"] === null ? "–" : `${number(found["failure-rate"])} %`);
      });
  }

  return { title: "Overview", node, update };
}

/// A duration whose number and unit stay on one line.
function unbroken(ms) {
  return duration(ms).replace(" ", "\u00a0");
}
