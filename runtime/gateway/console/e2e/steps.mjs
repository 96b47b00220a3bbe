// Steps that flows share.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { signedIn } from "./browser.mjs";

/** How many times slower the processor of a page is: CONSOLE_SLOWER shows what a busy machine does to a flow. */
export const SLOWER = Number(process.env.CONSOLE_SLOWER ?? 1);

/** A page that is signed in, with all that went wrong in it. */
export async function open({ browser, place }, hash, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, acceptDownloads: true, ...options });
  await context.grantPermissions(["clipboard-read", "clipboard-write"]);
  const wrong = [];
  await context.addInitScript(() => {
    window.violations = [];
    document.addEventListener("securitypolicyviolation", (event) => window.violations.push(`${event.violatedDirective} ${event.blockedURI}`));
  });
  context.on("weberror", (error) => wrong.push(`error: ${error.error().stack}`));
  context.on("request", (request) => {
    const url = request.url();
    if (!url.startsWith(place.url) && !url.startsWith("blob:")) wrong.push(`request: ${url}`);
  });
  context.on("dialog", (dialog) => {
    wrong.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  await useDist(context);
  const page = await signedIn(context, place, hash);
  if (SLOWER > 1) await (await context.newCDPSession(page)).send("Emulation.setCPUThrottlingRate", { rate: SLOWER });
  return { context, page, wrong };
}

/** With CONSOLE_DIST, pages get the assets that were just built, and not those that the daemon carries. */
export async function useDist(context) {
  if (!process.env.CONSOLE_DIST) return context;
  for (const name of ["app.js", "app.css"]) await context.route(`**/${name}`, async (route) => route.fulfill({ response: await route.fetch(), body: readFileSync(new URL(`../dist/${name}`, import.meta.url)) }));
  return context;
}

/** Nothing went wrong in a page: no error, no request elsewhere, nothing that the policy had to stop. */
export async function clean(page, wrong) {
  assert.deepEqual(wrong, []);
  assert.equal(await page.getByText("This entry cannot be drawn").count(), 0);
  assert.deepEqual(await page.evaluate(() => window.violations), []);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
}

/** The page has drawn what it knows now. */
export const drawn = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))));

/** Waits until a field has a value. */
export const valueIs = (page, selector, value) => page.waitForFunction(([field, wanted]) => document.querySelector(field)?.value === wanted, [selector, value]);

/** Waits until the clipboard has a text that fits: it is written behind the click. Returns it. */
export async function copied(page, wanted) {
  let text = "";
  await until(`${wanted} in the clipboard`, async () => wanted.test((text = await page.evaluate(() => navigator.clipboard.readText()))));
  return text;
}

/** Waits until nothing scrolls. */
export const still = (page, selector) => page.waitForFunction((scrolled) => {
  const { scrollTop } = document.querySelector(scrolled);
  const before = window.scrolledTo ?? [];
  window.scrolledTo = [...before, scrollTop].slice(-5);
  return before.length === 5 && before.every((each) => each === scrollTop);
}, selector);

/** Waits for what is not of a page. */
export async function until(what, condition) {
  for (const limit = Date.now() + 30_000; !(await condition()); await new Promise((done) => setTimeout(done, 20))) {
    if (Date.now() > limit) throw new Error(`not within 30 s: ${what}`);
  }
}

export async function send(page, text) {
  await page.fill("#input", text);
  await page.press("#input", "Control+Enter");
}

/** All that the transcript says, read from its top to its end as a person does. */
export async function wholeText(page) {
  await toBeginning(page);
  return page.evaluate(async () => {
    const scroller = document.querySelector(".scroller");
    const found = new Map();
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
    for (let still = 0; still < 3; ) {
      await frame();
      for (const row of document.querySelectorAll(".rows > article > .row")) found.set(row.dataset.key, row.innerText);
      const before = scroller.scrollTop;
      scroller.scrollTop = before + scroller.clientHeight * 0.8;
      still = scroller.scrollTop === before ? still + 1 : 0;
    }
    return [...found.values()].join("\n");
  });
}

/** Scrolls up until the session's first row is seen; earlier entries are loaded on the way. */
export async function toBeginning(page) {
  await page.waitForFunction(() => {
    const scroller = document.querySelector(".scroller");
    const there = scroller.scrollTop === 0 && /Beginning of|no longer kept/.test(document.querySelector(".earlier")?.textContent ?? "");
    scroller.scrollTop = 0;
    return there;
  });
}

/** Scrolls through all requests, and returns those whose buttons are in sight without their headline. */
export const withoutHeadline = (page) => page.evaluate(async () => {
  const box = document.querySelector(".dock, .inbox");
  const found = new Set();
  const seen = (element) => [0.1, 0.5, 0.9].filter((part) => {
    const { left, top, width, height } = element.getBoundingClientRect();
    return element.contains(document.elementFromPoint(left + Math.min(20, width / 2), top + height * part));
  }).length;
  const end = box.scrollHeight - box.clientHeight;
  for (let at = 0; at <= end; at += 23) {
    box.scrollTop = at;
    for (const card of box.querySelectorAll(".waiting")) {
      const buttons = [...card.querySelectorAll(".actions button")].some((button) => seen(button) > 0);
      if (buttons && seen(card.querySelector("header")) < 3) found.add(`${card.dataset.request} at ${at}`);
    }
  }
  box.scrollTop = 0;
  await new Promise((done) => requestAnimationFrame(() => setTimeout(done)));
  return [...found];
});

/** Allows a request by a double click, whose second press comes right when the next card is in its place. */
export async function doubleAllow(page, request) {
  const button = page.locator(`.waiting[data-request="${request}"]`).getByRole("button", { name: "Allow", exact: true });
  await button.click({ trial: true });
  const { x, y, width, height } = await button.boundingBox();
  const second = page.evaluate(async ([id, left, top]) => {
    while (document.querySelector(`.waiting[data-request="${id}"]`)) await new Promise((done) => requestAnimationFrame(done));
    const found = document.elementFromPoint(left, top);
    found.dispatchEvent(new MouseEvent("click", { detail: 2, bubbles: true, cancelable: true }));
    return found.closest("[data-request]")?.dataset.request;
  }, [request, x + width / 2, y + height / 2]);
  await page.mouse.click(x + width / 2, y + height / 2);
  return second;
}

export const ends = (page, count) => page.waitForFunction((many) => document.querySelectorAll(".ended").length >= many, count);
