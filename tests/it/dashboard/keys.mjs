// API keys in Redis: the page of an id shows their state, disables them for the next request, and enables them again.

import assert from "node:assert/strict";
import { ask, browse, checkAccessibility, open } from "./browser.mjs";

const SECRET = process.env.API_KEY;

await browse(async (newPage) => {
  const page = await newPage();
  assert.equal(await ask("/orders", SECRET), 200);
  await open(page, "key");
  await page.getByLabel("Key", { exact: true }).fill("alice");
  await page.getByRole("button", { name: "Show" }).click();
  const section = page.locator("section", { has: page.getByRole("heading", { name: "API keys of alice" }) });
  const row = section.getByRole("row").filter({ hasText: "gold" });
  await row.getByText("valid").waitFor();
  assert.match(await row.innerText(), /2099-01-01/);
  await checkAccessibility(page, "API keys");

  await section.getByRole("button", { name: "Disable" }).click();
  await page.getByRole("status").getByText("Disabled the API keys of alice.").waitFor();
  await row.getByText("disabled").waitFor();
  assert.equal(await ask("/orders", SECRET), 401);

  await section.getByRole("button", { name: "Enable" }).click();
  await page.getByRole("status").getByText("Enabled the API keys of alice.").waitFor();
  await row.getByText("valid").waitFor();
  assert.equal(await ask("/orders", SECRET), 200);
  assert.ok(!(await page.content()).includes(SECRET), "the page shows the key");

  // A key of the address is no API key.
  await page.getByLabel("Route", { exact: true }).selectOption("open");
  await page.getByRole("button", { name: "Show" }).click();
  await section.waitFor({ state: "hidden" });
});
