// Calls of the admin API. The token lives in sessionStorage: in this tab, until it is closed.

import { el } from "./dom.js";

const STORED = "tollgate-token";

/// Answer other than success: `message` is the detail of the problem.
export class Problem extends Error {
  constructor(status, detail, body = {}) {
    super(detail);
    this.status = status;
    this.body = body;
  }
}

function headers() {
  const token = sessionStorage.getItem(STORED);
  return token ? { Authorization: `Bearer ${token}` } : {};
}

async function problem(response) {
  const body = await response.json().catch(() => ({}));
  return new Problem(response.status, body.detail || `status ${response.status}`, body);
}

/// Sends a request, asks for a token if one is needed, and returns the response. `path` begins with `/` and is taken relative
/// to the page, which a proxy may serve below a prefix.
export async function send(method, path, { body, signal } = {}) {
  for (;;) {
    const options = { method, headers: headers(), signal, cache: "no-store", credentials: "omit" };
    if (body !== undefined) {
      options.body = JSON.stringify(body);
      options.headers["Content-Type"] = "application/json";
    }
    const response = await fetch(`.${path}`, options).catch((error) => {
      throw error.name === "AbortError" ? error : new Problem(0, "the gateway cannot be reached");
    });
    if (response.ok) return response;
    const found = await problem(response);
    if (response.status !== 401 || !(await askForToken(options.headers.Authorization ? found.message : ""))) throw found;
  }
}

/// Returns the JSON of an answer.
export async function call(method, path, body) {
  return (await send(method, path, { body })).json();
}

let asking = null;

/// Asks for a token. Returns false if the dialog was cancelled. Calls that need a token at the same time share one dialog.
export function askForToken(message) {
  asking ??= new Promise((resolve) => {
    const dialog = document.getElementById("token-dialog");
    const input = document.getElementById("token");
    document.getElementById("token-error").textContent = message;
    input.value = "";
    let given = false;
    dialog.querySelector("form").onsubmit = (event) => {
      event.preventDefault();
      const token = input.value.trim();
      if (!token) return;
      if (/^[\x21-\x7e]+$/.test(token)) {
        sessionStorage.setItem(STORED, token);
        given = true;
        dialog.close();
      } else {
        document.getElementById("token-error").textContent = "A token consists of visible ASCII characters.";
      }
    };
    document.getElementById("token-cancel").onclick = () => dialog.close();
    dialog.onclose = () => {
      asking = null;
      input.value = "";
      resolve(given);
    };
    dialog.showModal();
  });
  return asking;
}

/// Shows an error in `node`, with a way to another token if this one may not.
export function fail(node, error) {
  const needsToken = error.status === 401 || error.status === 403;
  const button = needsToken ? el("button", { type: "button", class: "small", onclick: () => askForToken("") }, "Use another token") : "";
  node.replaceChildren(error.message, needsToken ? " " : "", button);
}
