// Pictures of each view to look at: npm run shots. They go to .shots.
import { mkdirSync } from "node:fs";
import { fill } from "../mock/agent.mjs";
import { HOSTS } from "../mock/material.mjs";
import { daemon, launch, signedIn } from "./browser.mjs";

mkdirSync(".shots", { recursive: true });
const mock = await daemon({ mock: true, pace: 5 });
const { world } = mock;
for (const title of ["Why is the build slow on two cores?", "Release notes for 0.2", "A title that is so long that it does not fit into the list at the side of the page"]) world.open("reviewer", title);
const main = world.open("coder", "Mend the parser", "main");
const other = world.open("coder", "Deploy it", "other");
fill(world.open("coder", "Long", "long"), 3000);
world.hosts = HOSTS;
const browser = await launch();
const settle = (page) => page.waitForTimeout(400);
const send = async (page, text) => {
  await page.fill("#input", text);
  await page.keyboard.press("Control+Enter");
};

for (const [name, scheme, width, height] of [["light", "light", 1600, 1000], ["dark", "dark", 1600, 1000], ["phone", "light", 360, 740], ["phone-dark", "dark", 360, 740], ["wide", "dark", 3840, 2160]]) {
  const context = await browser.newContext({ viewport: { width, height }, colorScheme: scheme });
  const page = await signedIn(context, mock, "#/sessions/main");
  page.on("pageerror", (error) => console.log(name, "error:", error.message));
  page.on("console", (message) => ["error", "warning"].includes(message.type()) && console.log(name, message.text()));
  const shot = (what) => page.screenshot({ path: `.shots/${name}-${what}.png` });
  await page.waitForSelector(".composer");
  if (main.entries.length < 5) {
    await send(page, "stream: why do the tests with CRLF fail?");
    await page.waitForSelector(".ended.completed");
    await send(page, "work on it");
    await page.waitForFunction(() => document.querySelectorAll(".ended").length >= 2);
    await send(page, "ask before you delete");
    await page.waitForSelector(".waiting");
  }
  await settle(page);
  await shot("session");
  await page.locator(".scroller").evaluate((it) => it.scrollTo(0, 0));
  await settle(page);
  await shot("top");
  await page.locator(".scroller").evaluate((it) => it.scrollTo(0, it.scrollHeight * 0.55));
  await settle(page);
  await shot("middle");
  await page.keyboard.press("Escape");
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("w");
  await settle(page);
  await page.locator(".wire .entry").nth(3).click();
  await settle(page);
  await shot("wire");
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press("w");
  await page.keyboard.press("n");
  await settle(page);
  await shot("new");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Settings of the session" }).click();
  await settle(page);
  await shot("settings");
  await page.keyboard.press("Escape");
  await page.evaluate(() => { location.hash = "#/sessions/other"; });
  await page.waitForSelector(".composer");
  if (other.entries.length < 5) await send(page, "question");
  await page.locator(".waiting").waitFor();
  await settle(page);
  await shot("question");
  for (const view of ["sessions", "agents", "hosts", "usage"]) {
    await page.evaluate((hash) => { location.hash = hash; }, `#/${view}`);
    await page.waitForTimeout(view === "agents" ? 4500 : 500);
    await shot(view);
  }
  await page.evaluate(() => sessionStorage.clear());
  await context.close();
}
const context = await browser.newContext({ viewport: { width: 1000, height: 700 } });
const page = await context.newPage();
await page.goto(mock.url);
await settle(page);
await page.screenshot({ path: ".shots/signin.png" });
await browser.close();
await mock.stop();
