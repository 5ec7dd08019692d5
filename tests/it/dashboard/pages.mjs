// Each page under load, in light and dark and on a phone: no grave accessibility fault, no overflow, pictures.

import assert from "node:assert/strict";
import { ask, browse, checkAccessibility, eventually, open, picture } from "./browser.mjs";

const PAGES = ["overview", "limited", "key", "routes", "config"];

/// Brings a page to the state that the picture shows.
async function prepare(page, name) {
  await open(page, name);
  if (name === "overview") {
    await eventually("rates are shown", async () => (await page.locator(".tile b").first().textContent()) !== "0");
    await page.getByRole("rowheader", { name: "orders" }).waitFor();
    await page.getByText("Connected").waitFor();
  }
  if (name === "limited") await page.getByRole("button", { name: "Open key acme" }).first().waitFor();
  if (name === "key") {
    await page.getByLabel("Route", { exact: true }).selectOption("orders");
    await page.getByLabel("Key", { exact: true }).fill("acme");
    await page.getByRole("button", { name: "Show" }).click();
    await page.getByRole("button", { name: "Grant" }).first().waitFor();
  }
  if (name === "routes") await page.getByRole("rowheader", { name: "orders" }).waitFor();
  if (name === "config") await page.getByText("Hash (SHA-256)").waitFor();
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
    load("/orders/1", ["acme", "acme", "globex", "acme", "initech", "umbrella"], 6),
    load("/search?q=1", ["acme", "globex", "hooli"], 14),
    load("/reports", ["initech"], 60),
  ];
  try {
    const light = await newPage({ colorScheme: "light" });
    // The sparklines need some seconds; the history reaches pages that are opened later.
    const seconds = process.env.DASHBOARD_IMAGES ? 100 : 2;
    await open(light, "overview");
    await light.waitForTimeout(seconds * 1000);
    for (const name of PAGES) {
      await prepare(light, name);
      await checkAccessibility(light, `${name}, light`);
      await picture(light, name);
    }
    const dark = await newPage({ colorScheme: "dark" });
    for (const name of PAGES) {
      await prepare(dark, name);
      await checkAccessibility(dark, `${name}, dark`);
      if (name === "overview") await picture(dark, "overview-dark");
    }
    const phone = await newPage({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
    for (const name of PAGES) {
      await prepare(phone, name);
      await checkAccessibility(phone, `${name}, phone`);
      const width = await phone.evaluate("document.documentElement.scrollWidth");
      assert.ok(width <= 390, `${name} is ${width} pixels wide on a phone`);
      if (name === "limited") await picture(phone, "phone");
    }
  } finally {
    isLoaded = false;
    await Promise.all(loads);
  }
});
