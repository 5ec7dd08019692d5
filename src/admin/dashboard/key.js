// Key: what a key has left under each rule; grants, sets and resets its budget.

import { apiKeys } from "./api-keys.js";
import { call, fail, Problem } from "./api.js";
import { announce, duration, el, field, heading, keyed, number, text } from "./dom.js";
import { overrideForm, overrideList, words } from "./override.js";

export function keyPage(state) {
  const routes = el("select", { required: true, onchange: () => fillRules("") });
  const rules = el("select");
  const key = el("input", { required: true, autocomplete: "off", spellcheck: "false", autocapitalize: "off" });
  const failure = el("p", { class: "error", role: "alert" });
  const refusal = el("p", { class: "error", role: "alert" });
  const title = el("h2", {});
  const plan = el("p", { class: "muted", hidden: true });
  const cards = el("div", { class: "cards" });
  const form = el("form", { class: "fields", onsubmit: (event) => { event.preventDefault(); open(); } },
    field("Route", routes), field("Rule", rules), field("Key", key, "The id that the key resolver returns, such as a client address or an API key."),
    el("button", { type: "submit", class: "primary" }, "Show"));
  const result = el("section", { hidden: true }, title, plan, refusal, cards);
  const keys = apiKeys();
  const overrides = overrideList(() => state.snapshot?.top.hashed);
  const node = el("div", {}, heading("Key"), form, failure, result, keys.node, overrides.node);
  /// Every rule, as `/api/limits` lists them.
  let known = [];
  /// The key that is shown.
  let opened = null;
  let isReading = false;

  async function load() {
    known = await call("GET", "/api/limits");
    const before = opened?.route ?? routes.value;
    const ids = [...new Set(known.map((rule) => rule.route))];
    routes.replaceChildren(...ids.map((id) => el("option", { value: id }, id)));
    if (ids.includes(before)) routes.value = before;
    if (ids.length === 0) throw new Problem(404, "No route has a RequestRateLimiter.");
    fillRules(opened?.rule ?? rules.value);
  }

  function fillRules(wanted) {
    const names = [...new Set(known.filter((rule) => rule.route === routes.value).map((rule) => rule.rule))];
    rules.replaceChildren(el("option", { value: "" }, "all rules"), ...names.map((name) => el("option", { value: name }, name)));
    rules.value = names.includes(wanted) ? wanted : "";
  }

  function path(route, id, rule, plan) {
    const query = new URLSearchParams();
    if (rule) query.set("rule", rule);
    if (plan !== undefined) query.set("plan", plan);
    return `/api/limits/${encodeURIComponent(route)}/${encodeURIComponent(id)}${query.size ? `?${query}` : ""}`;
  }

  function open() {
    opened = { route: routes.value, rule: rules.value, key: key.value };
    cards.replaceChildren();
    cards.tollgateRows?.clear();
    result.hidden = true;
    text(refusal, "");
    return read();
  }

  /// Reads what the key has left.
  async function read() {
    overrides.read();
    if (!opened || isReading) return;
    const asked = opened;
    isReading = true;
    try {
      // Browsers resolve these path segments, whatever their escapes.
      if ([".", ".."].includes(asked.key)) throw new Problem(400, "A browser cannot name this key: use tollgate limits.");
      const found = await call("GET", path(asked.route, asked.key, asked.rule));
      if (asked !== opened) return;
      text(failure, "");
      draw(found);
    } catch (error) {
      if (asked === opened) fail(failure, error);
    } finally {
      isReading = false;
    }
  }

  function draw(found) {
    result.hidden = false;
    title.replaceChildren("Budget of ", el("code", {}, opened.key), found.key === opened.key ? "" : ` (shown elsewhere as ${found.key})`);
    keys.show(found.limits.some((limit) => limit["key-resolver"] === "api-key") ? opened.key : null);
    plan.hidden = found.plan === undefined;
    text(plan, found.plan ? `Plan: ${found.plan}` : "No plan");
    keyed(cards, found.limits, (limit) => JSON.stringify([limit.rule, limit.plan ?? null]), createLimit, (card, limit) => card.tollgate(limit));
  }

  function createLimit(first) {
    const left = el("b", {}), of = el("span", { class: "muted" });
    const meter = el("span", { class: "meter", "aria-hidden": "true" });
    const full = el("dd", {}), retry = el("dd", {}), override = el("dd", {}), limitNow = el("dd", {});
    const overridden = el("div", { hidden: true }, el("dt", {}, "Override"), override);
    const amount = el("input", { type: "number", min: "0", step: "1", value: "1", required: true, inputmode: "numeric" });
    const change = (body, done) => act(done, () => call("PUT", path(opened.route, opened.key), { rule: first.rule, plan: first.plan ?? "", ...body }));
    const button = (label, act) => el("button", { type: "button", onclick: () => amount.reportValidity() && act(amount.valueAsNumber) }, label);
    const name = el("h3", {}, first.rule, first.plan ? el("span", { class: "muted" }, ` plan ${first.plan}`) : null);
    const card = el("section", { class: "card" }, name,
      el("p", { class: "left" }, left, of), meter,
      el("dl", { class: "facts" },
        el("div", {}, el("dt", {}, "Next request"), retry),
        el("div", {}, el("dt", {}, "Full again"), full),
        overridden,
        el("div", {}, el("dt", {}, "Limit"), limitNow),
        el("div", {}, el("dt", {}, "Key resolver"), el("dd", {}, el("code", {}, first["key-resolver"]))),
        el("div", {}, el("dt", {}, "Counted in"), el("dd", {}, first.store))),
      el("div", { class: "fields change" }, field("Requests", amount),
        button("Grant", (grant) => change({ grant }, `Granted ${grant} under ${first.rule}.`)),
        button("Set remaining", (remaining) => change({ remaining }, `Set ${remaining} remaining under ${first.rule}.`)),
        el("button", { type: "button", onclick: () => act(`Reset ${first.rule}.`, () => call("DELETE", path(opened.route, opened.key, first.rule, first.plan ?? ""))) }, "Reset")),
      overrideForm(first, () => opened.key, read));
    card.tollgate = (limit) => {
      text(left, number(limit.remaining));
      left.classList.toggle("bad", limit.remaining === 0);
      text(of, ` of ${number(limit.capacity)} left`);
      meter.style.setProperty("--share", Math.min(1, limit.capacity ? limit.remaining / limit.capacity : 0).toFixed(3));
      text(limitNow, limit.limit + inMode(limit));
      const applied = limit.override;
      overridden.hidden = !applied;
      if (applied) text(override, `${words(applied.unlimited || applied.block ? applied : limit.numbers)}, ends in ${duration(applied["expires-in-ms"])}`);
      const wait = limit["retry-after-ms"];
      text(retry, wait === null ? "never" : wait > 0 ? `in ${duration(wait)}` : "now");
      text(full, limit["reset-after-ms"] > 0 ? `in ${duration(limit["reset-after-ms"])}` : isSpent(limit) ? "never" : "now");
    };
    return card;
  }

  async function act(done, change) {
    text(refusal, "");
    try {
      await change();
      announce(done);
    } catch (error) {
      fail(refusal, error);
    }
    await read();
  }

  return {
    title: "Key",
    node,
    show: () => load().catch((error) => fail(failure, error)),
    update: () => { read(); },
    choose: (route, rule, id) => {
      opened = { route, rule, key: id };
      key.value = id;
      cards.replaceChildren();
      cards.tollgateRows?.clear();
      result.hidden = true;
    },
  };
}

/// True for a quota that no period refills.
function isSpent(limit) {
  return limit.algorithm === "quota" && limit.remaining < limit.capacity;
}

/// The mode of a rule that does not deny every key, and the requests to which it applies, in words.
function inMode(limit) {
  const when = limit.when === undefined ? "" : `, when ${limit.when}`;
  if (limit["enforce-percent"] !== undefined) return `, enforced for ${limit["enforce-percent"]} % of keys${when}`;
  return ({ observe: ", observed: it denies nothing", off: ", off" }[limit.mode] ?? "") + when;
}
