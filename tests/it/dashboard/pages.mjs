// Each page under load, in light and dark and on a phone: no grave accessibility fault, no overflow, pictures.

import assert from "node:assert/strict";
import { ask, browse, checkAccessibility, eventually, open, picture } from "./browser.mjs";

const DESKTOP = { width: 1280, height: 860 };
const PHONE = { width: 390, height: 844 };
const PAGES = ["overview", "limited", "key", "routes", "config"];

/// Brings a page to the state that the picture shows.
async function prepare(page, name) {
  await open(page, name);
  if (name === "overview") {
    await eventually("rates are shown", async () => (await page.locator(".tile b").first().textContent()) !== "0");
    await page.getByRole("rowheader", { name: "orders" }).waitFor();
    await page.getByText("Connected", { exact: true }).waitFor();
  }
  if (name === "limited") await page.getByRole("button", { name: "Open key acme" }).first().waitFor();
  if (name === "key") {
    await page.getByLabel("Route", { exact: true }).selectOption("orders");
    await page.getByLabel("Key", { exact: true }).fill("acme");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByRole("button", { name: "Grant" }).first().waitFor();
    await page.getByText("Override for a while").first().click();
  }
  if (name === "routes") {
    await page.getByLabel("Path or URL").fill("/orders/1");
    await page.getByLabel("Header fields", { exact: true }).fill("x-key: acme");
    await page.getByRole("button", { name: "Explain" }).click();
    await page.getByRole("heading", { name: "Keys and what they have left" }).waitFor();
  }
  if (name === "config") await page.getByText("Hash (SHA-256)").waitFor();
}

/// Shows the usual path of the configuration instead of that of the test, in pictures.
async function showUsualPath(page) {
  await page.route("**/api/config", async (route) => {
    const response = await route.fetch();
    await route.fulfill({ response, body: (await response.text()).replaceAll(process.env.CONFIG, "/etc/tollgate/tollgate.yaml") });
  });
}

await browse(async (newPage) => {
  let isLoaded = true;
  const load = async (path, keys, pause) => {
    for (let turn = 0; isLoaded; turn += 1) {
      // Uneven, so that the sparklines have a form.
      const share = 0.55 + 0.45 * Math.sin(turn / 40) * Math.cos(turn / 13);
      await ask(path, keys[Math.floor((turn * 7 + (turn % 3)) * share) % keys.length]);
      await new Promise((resolve) => setTimeout(resolve, pause / (0.3 + share)));
    }
  };
  const loads = [
    load("/orders/1", ["acme", "acme", "globex", "acme", "initech", "umbrella", "globex"], 4),
    load("/search?q=1", ["acme", "globex", "hooli"], 14),
    load("/reports", ["initech", "hooli", "initech"], 60),
  ];
  try {
    const page = await newPage({ colorScheme: "light", viewport: DESKTOP });
    if (process.env.DASHBOARD_IMAGES) await showUsualPath(page);
    // The sparklines of the pictures need some time.
    const seconds = Number(process.env.DASHBOARD_SECONDS ?? 2);
    await open(page, "overview");
    await page.waitForTimeout(seconds * 1000);
    for (const name of PAGES) {
      await prepare(page, name);
      await checkAccessibility(page, `${name}, light`);
      await picture(page, name);
      await page.emulateMedia({ colorScheme: "dark" });
      await checkAccessibility(page, `${name}, dark`);
      if (name === "overview" || process.env.DASHBOARD_ALL) await picture(page, `${name}-dark`);
      await page.emulateMedia({ colorScheme: "light" });
      await page.setViewportSize(PHONE);
      const width = await page.evaluate("document.documentElement.scrollWidth");
      assert.ok(width <= PHONE.width, `${name} is ${width} pixels wide on a phone`);
      if (name === "limited" || name === "config") {
        const hidden = await page.evaluate("[...document.querySelectorAll('.scroll')].map((it) => it.scrollWidth - it.clientWidth)");
        assert.deepEqual(hidden.filter((pixels) => pixels > 0), [], `${name} is cut off on a phone`);
      }
      if (name === "limited") await picture(page, "phone");
      if (process.env.DASHBOARD_ALL) await picture(page, `${name}-phone`);
      await page.setViewportSize(DESKTOP);
    }
  } finally {
    isLoaded = false;
    await Promise.all(loads);
  }
});
