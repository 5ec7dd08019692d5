// Temporary override of a rule for one key: other numbers, no limit, or no requests, until it expires.

import { call, fail } from "./api.js";
import { announce, duration, el, field, keyed, row, table, text } from "./dom.js";

const COLUMNS = [["Route", ""], ["Rule", ""], ["Key", "key"], ["Override", ""], ["Set by", ""], ["Ends in", "num"], ["", "act"]];

function path(limit, key) {
  const named = key === undefined ? "" : `/${encodeURIComponent(key)}`;
  return `/api/overrides/${encodeURIComponent(limit.route)}${named}`;
}

export function words(effect) {
  if (effect.unlimited) return "no limit";
  if (effect.block) return "all requests denied";
  return Object.entries(effect).map(([name, value]) => `${name} ${value}`).join(", ");
}

/// Returns the form of an override of `limit` for the key that `keyOf` returns.
export function overrideForm(limit, keyOf, changed) {
  const refusal = el("p", { class: "error", role: "alert" });
  const effect = el("select", { onchange: choose },
    el("option", { value: "numbers" }, "other numbers"), el("option", { value: "unlimited" }, "no limit"), el("option", { value: "block" }, "deny all"));
  // Texts are times with a unit. Each field shows the number in effect.
  const isTime = (name) => typeof limit.numbers[name] === "string";
  const inputs = new Map(Object.entries(limit.numbers).map(([name, present]) => [name, isTime(name)
    ? el("input", { placeholder: present, autocomplete: "off" })
    : el("input", { type: "number", min: "0", step: "1", inputmode: "numeric", placeholder: String(present) })]));
  const fields = [...inputs].map(([name, input]) => field(name, input));
  const time = el("input", { required: true, value: "15m", autocomplete: "off" });
  const form = el("form", { class: "fields change", onsubmit: (event) => { event.preventDefault(); set(); } },
    field("Effect", effect), ...fields, field("Ends after", time), el("button", { type: "submit" }, "Override"));

  function choose() {
    for (const each of fields) each.hidden = effect.value !== "numbers";
  }

  async function set() {
    const body = { rule: limit.rule, plan: limit.plan ?? "", "expires-in": time.value.trim() };
    if (effect.value !== "numbers") body[effect.value] = true;
    else for (const [name, input] of inputs) {
      const value = input.value.trim();
      if (value) body[name] = isTime(name) ? value : Number(value);
    }
    text(refusal, "");
    try {
      const applied = await call("PUT", path(limit, keyOf()), body);
      announce(`Overridden for ${duration(applied["expires-in-ms"])}: ${words(applied.override)}.`);
      await changed();
    } catch (error) {
      fail(refusal, error);
    }
  }

  return el("details", {}, el("summary", {}, "Override for a while"), form, refusal);
}

/// Returns the list of all overrides, and a function that reads it again. A hash in place of a key names no override.
export function overrideList(isHashed) {
  const failure = el("p", { class: "error", role: "alert" });
  const list = table("Overrides in effect", COLUMNS);
  const node = el("section", { hidden: true }, el("h2", {}, "Overrides in effect"), failure, list.node);

  async function read() {
    try {
      const found = await call("GET", "/api/overrides");
      node.hidden = found.length === 0;
      keyed(list.body, found, (each) => JSON.stringify([each.route, each.rule, each.plan ?? null, each.key ?? null]), create, (line, each) => {
        text(line.children[3], `${words(each.override)}${each["in-effect"] ? "" : " (no such rule)"}`);
        text(line.children[4], each.by);
        text(line.children[5], duration(each["expires-in-ms"]));
      });
    } catch (error) {
      fail(failure, error);
    }
  }

  function create(each) {
    const name = each.key ?? "every key";
    const remove = isHashed() && each.key !== undefined ? "" : el("button", { type: "button", class: "small", "aria-label": `Remove the override of ${each.rule} for ${name}`, onclick: () => end(each) }, "Remove");
    return row(COLUMNS, [each.route, each.plan ? `${each.rule}, plan ${each.plan}` : each.rule, each.key === undefined ? "every key" : el("code", {}, each.key), "", "", "", remove]);
  }

  async function end(each) {
    text(failure, "");
    try {
      await call("DELETE", `${path(each, each.key)}?${new URLSearchParams({ rule: each.rule, plan: each.plan ?? "" })}`);
      announce(`Removed the override of ${each.rule}.`);
    } catch (error) {
      fail(failure, error);
    }
    await read();
  }

  return { node, read };
}
