// Limited now: the keys that limiters deny, observe or allow most often, for each rule.

import { duration, el, heading, keyed, number, row, table, text } from "./dom.js";

const COLUMNS = [["Key", "key"], ["Requests", "num"], ["Share", "num"], ["", "act"]];
const VERDICTS = [["denied", "Denied"], ["observed", "Observed"], ["allowed", "Allowed"]];
const HINTS = {
  denied: "Requests that a rule denied.",
  observed: "Requests that a rule in mode observe would have denied.",
  allowed: "Requests that all rules allowed.",
};

export function limitedPage(state) {
  let verdict = "denied";
  const choice = ([name, label]) => el("label", {},
    el("input", { type: "radio", name: "verdict", value: name, checked: name === verdict, onchange: () => choose(name) }), el("span", {}, label));
  const choices = el("fieldset", { class: "segments" }, el("legend", { class: "hidden" }, "Verdict"), VERDICTS.map(choice));
  const hint = el("p", { class: "muted" });
  const empty = el("p", { class: "empty", hidden: true });
  const cards = el("div", { class: "cards" });
  const node = el("div", {}, heading("Limited now", choices), hint, empty, cards);

  function choose(name) {
    verdict = name;
    cards.replaceChildren();
    cards.tollgateRows?.clear();
    if (state.snapshot) update(state.snapshot);
  }

  function createCard(rule) {
    const name = [rule.route, rule.rule, rule.plan].filter(Boolean);
    const keys = table(`Keys of ${name.join(", ")}`, COLUMNS);
    const total = el("span", { class: "muted" });
    const card = el("section", { class: "card" },
      el("h2", {}, el("span", { class: "muted" }, `${rule.route} › `), rule.rule, rule.plan ? el("span", { class: "muted" }, ` plan ${rule.plan}`) : null), total, keys.node);
    card.tollgate = { total, body: keys.body };
    return card;
  }

  function createKey(rule, found, isHashed) {
    // A hash, a cut id and an id that is no UTF-8 do not name a key.
    const isId = !isHashed && !found.cut && !found.key.includes("\uFFFD");
    const open = isId ? el("button", { type: "button", class: "small", "aria-label": `Open key ${found.key}`, onclick: () => state.openKey(rule.route, rule.rule, found.key) }, "Open") : "";
    const meter = el("span", { class: "bar" });
    return row(COLUMNS, [el("code", {}, found.cut ? `${found.key}…` : found.key), "", [el("span"), meter], open]);
  }

  function updateCard(card, rule, isHashed) {
    const { total, body } = card.tollgate;
    text(total, `${number(rule.total)} ${rule.total === 1 ? "request" : "requests"} of all keys`);
    keyed(body, rule.keys, (found) => found.key, (found) => createKey(rule, found, isHashed), (line, found) => {
      text(line.children[1], found.error ? `${number(found.count - found.error)} to ${number(found.count)}` : number(found.count));
      const share = rule.total ? Math.min(1, found.count / rule.total) : 0;
      text(line.children[2].firstChild, `${number(Math.round(share * 1000) / 10)} %`);
      line.children[2].lastChild.style.setProperty("--share", share.toFixed(3));
    });
  }

  function update(snapshot) {
    const { top } = snapshot;
    const rules = top[verdict];
    const notes = [HINTS[verdict], `Counts of this gateway over the last ${duration(1000 * top.seconds)}.`];
    if (top.hashed) notes.push("Keys are shown as hashes (management.hash-keys).");
    if (!top.complete) notes.push("Not every worker answered in time.");
    text(hint, notes.join(" "));
    empty.hidden = rules.length > 0;
    text(empty, `No requests were ${verdict} lately.`);
    keyed(cards, rules, (rule) => JSON.stringify([rule.route, rule.rule, rule.plan ?? null]), createCard, (card, rule) => updateCard(card, rule, top.hashed));
  }

  return { title: "Limited now", node, update };
}
