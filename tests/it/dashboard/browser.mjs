// Chromium for the scenarios: pages that report console errors and foreign requests, traffic, and screenshots.

import assert from "node:assert/strict";
import http from "node:http";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { join } from "node:path";

const modules = createRequire(join(process.env.DASHBOARD_MODULES, "package.json"));
const { chromium } = modules("playwright-core");
const axe = readFileSync(modules.resolve("axe-core/axe.min.js"), "utf8");

export const gateway = `http://${process.env.GATEWAY}`;
export const admin = `http://${process.env.ADMIN}`;
/// Longest wait for anything, in milliseconds.
const PATIENCE = 30000;

/// Opens pages until `scenario` ends. Fails if a page reports an error or asks another host for anything.
export async function browse(scenario) {
  const browser = await chromium.launch({
    executablePath: process.env.CHROMIUM,
    args: ["--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", "--no-proxy-server"],
  });
  const faults = [];
  try {
    await scenario(async (options = {}) => {
      const context = await browser.newContext({ reducedMotion: "reduce", ...options });
      context.setDefaultTimeout(PATIENCE);
      const page = await context.newPage();
      // To work on the page without building the gateway: a folder whose files replace the embedded ones.
      const files = process.env.DASHBOARD_FILES;
      if (files) await page.route("**/dashboard/*", (route) => route.fulfill({ path: join(files, route.request().url().split("/").pop()) }));
      page.on("pageerror", (error) => faults.push(`error: ${error}`));
      page.on("console", (line) => {
        if (["error", "warning"].includes(line.type())) faults.push(`console: ${line.text()} ${line.location().url}`);
      });
      page.on("request", (request) => {
        if (new URL(request.url()).origin !== new URL(admin).origin) faults.push(`foreign request: ${request.url()}`);
      });
      return page;
    }, faults);
    assert.deepEqual(faults, []);
  } finally {
    await browser.close();
  }
}

/// Sends a request to the gateway. Returns its status.
export function ask(path, key) {
  return new Promise((resolve, reject) => {
    const request = http.get(`${gateway}${path}`, { headers: { "x-key": Buffer.from(key, "utf8").toString("latin1") } }, (response) => {
      response.resume();
      response.on("end", () => resolve(response.statusCode));
    });
    request.on("error", reject);
  });
}

/// Opens a page of the dashboard by its address.
export async function open(page, name) {
  await page.goto(`${admin}/#/${name}`);
  await page.locator("#link[data-state=live]").waitFor();
}

/// Waits until `found` returns true.
export async function eventually(what, found) {
  const start = Date.now();
  while (!(await found())) {
    assert.ok(Date.now() - start < PATIENCE, `${what} did not happen`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/// Fails if axe finds a fault that is serious or critical.
export async function checkAccessibility(page, name) {
  const found = await page.evaluate(`${axe};axe.run(document, {resultTypes: ["violations"]})`);
  assert.ok(found.passes.length > 5, `axe checked ${found.passes.length} rules on ${name}`);
  const grave = found.violations.filter(({ impact }) => ["serious", "critical"].includes(impact));
  const faults = grave.flatMap(({ id, nodes }) => nodes.map((node) => `${name}: ${id}: ${node.html}: ${node.failureSummary}`));
  assert.deepEqual(faults, []);
}

/// Writes a picture for the documentation if DASHBOARD_IMAGES names a folder.
export async function picture(page, name) {
  const folder = process.env.DASHBOARD_IMAGES;
  if (!folder) return;
  const bottom = await page.evaluate("Math.ceil(document.getElementById('main').getBoundingClientRect().bottom)");
  const clip = { x: 0, y: 0, width: page.viewportSize().width, height: Math.min(bottom, 1050) };
  await page.screenshot({ path: join(folder, `dashboard-${name}.png`), caret: "hide", fullPage: true, clip });
}
