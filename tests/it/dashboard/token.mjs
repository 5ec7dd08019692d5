// The token is asked for when it is needed, and stays in the tab.

import assert from "node:assert/strict";
import { admin, browse, checkAccessibility } from "./browser.mjs";

await browse(async (newPage, faults) => {
  const page = await newPage();
  await page.goto(`${admin}/#/key`);
  const dialog = page.getByRole("dialog", { name: "Token needed" });
  await dialog.waitFor();
  await checkAccessibility(page, "token");
  const give = async (token) => {
    await page.keyboard.type(token);
    await page.keyboard.press("Enter");
  };
  assert.equal(await page.evaluate("document.activeElement.id"), "token");
  await give("not-one-of-the-tokens");
  await dialog.getByRole("alert").getByText("unknown token").waitFor();
  await page.keyboard.press("Escape");
  await page.locator("#link").getByText("Token needed").waitFor();
  await page.getByRole("button", { name: "Enter token" }).click();
  await dialog.waitFor();
  await give("read-token-of-16-bytes");
  await page.locator("#link[data-state=live]").waitFor();
  assert.deepEqual(await page.evaluate("[sessionStorage.length, localStorage.length, document.cookie, location.href.includes('token')]"), [1, 0, "", false]);

  await page.reload();
  await page.locator("#link[data-state=live]").waitFor();
  await page.getByLabel("Key", { exact: true }).fill("alice");
  await page.getByRole("button", { name: "Show" }).click();
  await page.getByRole("button", { name: "Grant" }).first().click();
  await page.getByRole("alert").getByText("has the role `read`").waitFor();
  await page.getByRole("button", { name: "Use another token" }).click();
  await dialog.waitFor();
  await give("write-token-of-16-bytes");
  await page.getByRole("button", { name: "Grant" }).first().click();
  await page.getByRole("status").getByText("Granted 1 under").waitFor();

  const other = await newPage();
  await other.goto(`${admin}/`);
  await other.getByRole("dialog", { name: "Token needed" }).waitFor();
  // Chromium reports each refusal of a fetch on its console.
  const refusals = faults.splice(0).filter((fault) => !/status of 40[13]/.test(fault));
  assert.deepEqual(refusals, []);
});
