// Routes explains a request with the state of its keys, and counts nothing.

import assert from "node:assert/strict";
import { ask, browse, checkAccessibility, open } from "./browser.mjs";

await browse(async (newPage) => {
  const page = await newPage();
  await open(page, "routes");
  const explain = async (url, headers) => {
    await page.getByLabel("Path or URL").fill(url);
    await page.getByLabel("Header fields", { exact: true }).fill(headers);
    await page.getByRole("button", { name: "Explain" }).click();
  };
  const keys = page.getByRole("table", { name: "Keys that the request is counted under" });
  await explain("/orders", "x-key: <b>alice</b>");
  await keys.getByText("2 of 2").waitFor();
  assert.equal(await keys.getByRole("row").nth(1).locator("code").textContent(), "<b>alice</b>");
  await explain("/orders", "x-key: <b>alice</b>");
  await keys.getByText("2 of 2").waitFor();

  for (let times = 0; times < 2; times += 1) assert.equal(await ask("/orders", "<b>alice</b>"), 200);
  await explain("/orders", "x-key: <b>alice</b>");
  await keys.getByText("0 of 2").waitFor();
  await page.getByText("At least one rule would deny the request.").waitFor();
  const skipped = page.getByRole("table", { name: "Rules that do not apply" }).getByRole("row").nth(1);
  assert.match(await skipped.textContent(), /writes.*Method=POST.*the method is `GET`/);
  await checkAccessibility(page, "explain");

  await explain("/none", "");
  await page.getByText("No route matches.").waitFor();
  await page.getByRole("table", { name: "Routes that do not match" }).getByRole("rowheader", { name: "orders" }).waitFor();
});
