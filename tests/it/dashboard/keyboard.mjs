// The pages with the keyboard alone.

import assert from "node:assert/strict";
import { ask, browse, eventually, open } from "./browser.mjs";

await browse(async (newPage) => {
  const page = await newPage();
  await open(page, "overview");
  const focused = () => page.evaluate("document.activeElement.textContent.trim()");
  const press = (key) => page.keyboard.press(key);

  await press("Tab");
  assert.equal(await focused(), "Skip to content");
  await press("Enter");
  assert.equal(await page.evaluate("document.activeElement.id"), "main");
  assert.equal(await page.getByRole("heading", { level: 1 }).textContent(), "Overview", "the skip link keeps the page");

  const names = ["Overview", "Limited now", "Key", "Routes", "Config"];
  for (const [at, name] of names.entries()) {
    await page.locator(".skip").focus();
    for (let tabs = 0; tabs <= at; tabs += 1) await press("Tab");
    assert.equal(await focused(), name);
    const ring = await page.evaluate("getComputedStyle(document.activeElement).outlineStyle");
    assert.equal(ring, "solid", "the focus is visible");
    await press("Enter");
    const current = page.locator("nav [aria-current=page]");
    await eventually(`${name} is the current page`, async () => (await current.textContent()) === name);
    if (at > 0) await eventually(`the heading of ${name} has the focus`, async () => (await focused()) === name);
    assert.ok((await page.title()).startsWith(name));
    assert.equal(await page.getByRole("main").count(), 1);
  }

  for (let times = 0; times < 5; times += 1) await ask("/orders", "alice");
  await page.getByRole("link", { name: "Limited now" }).focus();
  await press("Enter");
  // The link has the same text.
  await eventually("the heading has the focus", () => page.evaluate("document.activeElement.tagName === 'H1'"));
  await press("Tab");
  await press("ArrowRight");
  assert.ok(await page.getByRole("radio", { name: "Observed" }).isChecked());
  await press("ArrowLeft");
  assert.ok(await page.getByRole("radio", { name: "Denied" }).isChecked());
  await page.getByRole("button", { name: "Open key alice" }).waitFor();
  await press("Tab");
  assert.equal(await page.evaluate("document.activeElement.getAttribute('role')"), "region", "the table scrolls by keys");
  await press("Tab");
  assert.equal(await page.evaluate("document.activeElement.getAttribute('aria-label')"), "Open key alice");
  const open_ = await page.evaluateHandle("document.activeElement");
  // Updates come each second and leave the focus where it is.
  await page.waitForTimeout(1200);
  assert.ok(await page.evaluate((element) => document.activeElement === element, open_));
  await press("Enter");
  await page.getByText("of 2 left").waitFor();
  const amount = page.getByLabel("Requests").first();
  await eventually("the field of the first rule has the focus", async () => {
    await press("Tab");
    return amount.evaluate((element) => element === document.activeElement);
  });
  await press("Tab");
  await press("Space");
  await page.getByRole("status").getByText("Granted 1 under").waitFor();
});
