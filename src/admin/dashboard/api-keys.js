// API keys with one id: their state and use, and the change of those in Redis.

import { call, fail } from "./api.js";
import { announce, el, number } from "./dom.js";

const HEADS = ["State", "Plan", "Expires", "Last use", "Requests", "Denials"];

/// The section for the keys of an id. It is read once for each id, since a gateway may have a million keys.
export function apiKeys() {
  const rows = el("tbody", {});
  const failure = el("p", { class: "error", role: "alert" });
  const title = el("h2", {});
  const head = el("tr", {}, ...HEADS.map((name) => el("th", { scope: "col" }, name)));
  const buttons = el("div", { class: "fields" }, ...["Disable", "Enable"].map((label) =>
    el("button", { type: "button", onclick: () => change(label) }, label)));
  const node = el("section", { hidden: true }, title, failure, el("table", {}, el("thead", {}, head), rows), buttons);
  let id = null;

  function row(key) {
    const cells = [key.state, key.plan ?? "none", key.expires ?? "never", key["last-used"] ?? "never", number(key.requests), number(key.denials)];
    return el("tr", {}, ...cells.map((cell) => el("td", {}, cell)));
  }

  async function load() {
    const asked = id;
    const found = await call("GET", `/api/keys?id=${encodeURIComponent(asked)}`);
    if (asked === id) rows.replaceChildren(...found.keys.map(row));
  }

  async function change(label) {
    failure.replaceChildren();
    try {
      await call("POST", `/api/keys/${encodeURIComponent(id)}/${label.toLowerCase()}`);
      announce(`${label}d the API keys of ${id}.`);
      await load();
    } catch (error) {
      fail(failure, error);
    }
  }

  return {
    node,
    /// Shows the keys with the id `wanted`; `null` hides the section.
    show: (wanted) => {
      node.hidden = wanted === null;
      if (wanted === id) return;
      id = wanted;
      rows.replaceChildren();
      failure.replaceChildren();
      title.replaceChildren("API keys of ", el("code", {}, id ?? ""));
      if (id !== null) load().catch((error) => fail(failure, error));
    },
  };
}
