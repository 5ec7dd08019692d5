// Config shows the warnings, reloads, and prints the problems of a broken file as `tollgate check` does.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { browse, open } from "./browser.mjs";

await browse(async (newPage, faults) => {
  const page = await newPage();
  await open(page, "config");
  const file = process.env.CONFIG;
  await page.getByText(file, { exact: true }).waitFor();
  const reload = page.getByRole("button", { name: "Reload configuration" });
  const good = readFileSync(file, "utf8");
  writeFileSync(file, good.replace("uri: 'echo:'", "uri: 'gopher://x'").replace("window: 1h", "window: soon"));
  await reload.click();
  await page.getByRole("alert").getByText("Not reloaded").waitFor();
  const problems = await page.locator("pre").textContent();
  for (const part of ["error: ", "tollgate.yaml:", "gopher"]) assert.ok(problems.includes(part), problems);
  const refusals = faults.splice(0).filter((fault) => !/status of 422/.test(fault));
  assert.deepEqual(refusals, []);

  writeFileSync(file, good.replace("routes:", "routes:\n  - {id: added, uri: 'echo:', predicates: [Path=/added]}"));
  await reload.click();
  await page.getByRole("status").getByText("was reloaded").waitFor();
  assert.ok(await page.locator("pre").isHidden());
  await page.getByRole("link", { name: "Routes" }).click();
  await page.getByRole("rowheader", { name: "added" }).waitFor();
  await page.getByRole("link", { name: "Overview" }).click();
  await page.getByRole("rowheader", { name: "added" }).waitFor();
});
