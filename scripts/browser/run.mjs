// Looks at pages in headless Chromium. Each line of its input is a job, {"page": "file:///...",
// "width": 1200, "height": 800, "scheme": "dark", "screenshot": FILE or ""}; each line of its
// output says what was seen there: the cells, what a click and arrows show, every request, error
// and message of the console, and how long the map took to be drawn. With "clicks", a list of
// selectors, only these are clicked before the screenshot.
import { createInterface } from "node:readline";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const home = mkdtempSync(join(tmpdir(), "tensorfs-browser-"));
const browser = await chromium.launchPersistentContext(home, {
  executablePath: process.env.CHROMIUM || "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});
try {
  for await (const line of createInterface({ input: process.stdin })) {
    console.log(JSON.stringify(await look(JSON.parse(line))));
  }
} finally {
  await browser.close();
  rmSync(home, { recursive: true, force: true });
}

async function look(job) {
  const page = await browser.newPage();
  const seen = { requests: [], problems: [] };
  page.on("request", (r) => seen.requests.push(r.url()));
  page.on("console", (m) => seen.problems.push(m.text()));
  page.on("pageerror", (e) => seen.problems.push(String(e)));
  try {
    await page.setViewportSize({ width: job.width, height: job.height });
    await page.emulateMedia({ colorScheme: job.scheme });
    await page.goto(job.page);
    await page.waitForFunction(() => document.documentElement.dataset.ready === "1", null, { timeout: 60000 });
    const card = () => page.locator("#card h2").textContent();
    seen.drawn = await page.evaluate(() => performance.now());
    seen.title = await page.locator("h1").textContent();
    seen.cells = await page.locator(".cell").count();
    seen.findings = await page.locator("#list button").allTextContents();
    seen.tabs = await page.locator("#tabs button").allTextContents();
    seen.wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
    seen.background = await page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    if (job.clicks) {
      for (const selector of job.clicks) await page.locator(selector).first().click();
      await page.mouse.move(0, 0);
      await page.screenshot({ path: job.screenshot });
      await page.close();
      return seen;
    }
    const inMap = page.locator("#map .cell");
    if (await inMap.count()) {
      await inMap.first().click();
      seen.clicked = await card();
      await page.keyboard.press("ArrowRight");
      seen.right = await card();
      await page.keyboard.press("ArrowDown");
      seen.down = await card();
    }
    for (const tab of await page.locator("#tabs button").all()) await tab.click();
    seen.marked = await page.locator("#map .odd, #map .zeros").evaluateAll((list) => list.map((e) => e.title));
    if (job.screenshot) await page.screenshot({ path: job.screenshot });
    seen.made = await page.evaluate(() => window.planted || document.querySelectorAll("img, iframe, svg + script, b").length);
  } catch (e) {
    seen.problems.push(String(e));
  }
  await page.close();
  return seen;
}
