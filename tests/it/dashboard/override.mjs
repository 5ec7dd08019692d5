// An override of a key takes effect on its next request, is listed, and ends when it is removed.

import assert from "node:assert/strict";
import { ask, browse, checkAccessibility, eventually, open } from "./browser.mjs";

await browse(async (newPage, faults) => {
  const page = await newPage();
  for (let times = 0; times < 3; times += 1) await ask("/orders", "alice");
  assert.equal(await ask("/orders", "alice"), 429);
  await open(page, "key");
  await page.getByLabel("Key", { exact: true }).fill("alice");
  await page.getByRole("button", { name: "Show" }).click();
  const card = page.locator("section.card", { has: page.getByRole("heading", { name: "hourly" }) });
  await card.getByRole("button", { name: "Grant" }).waitFor();
  await card.getByText("Override for a while").click();
  await card.getByLabel("limit").fill("5");
  await card.getByRole("button", { name: "Override" }).click();
  await page.getByRole("status").getByText("Overridden for 15 min: limit 5.").waitFor();
  await eventually("the override is in effect", async () => (await ask("/orders", "alice")) === 200);
  const list = page.getByRole("table", { name: "Overrides in effect" });
  await list.getByRole("row").filter({ hasText: "alice" }).getByText("limit 5").waitFor();
  await checkAccessibility(page, "override");

  await card.getByLabel("Effect").selectOption("block");
  await card.getByLabel("Ends after").fill("soon");
  await card.getByRole("button", { name: "Override" }).click();
  await card.getByRole("alert").getByText("expires-in").waitFor();
  const refusals = faults.splice(0).filter((fault) => !/status of 400/.test(fault));
  assert.deepEqual(refusals, []);
  await list.getByRole("button", { name: "Remove the override of hourly for alice" }).click();
  await list.waitFor({ state: "hidden" });
  await eventually("the override has ended", async () => (await ask("/orders", "alice")) === 429);
});
