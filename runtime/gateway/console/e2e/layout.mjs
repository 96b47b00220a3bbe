// What every screen has to hold: its input at the lower edge, actions in sight, targets for fingers, a focus.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fresh } from "./basic.mjs";
import { clean, drawn, ends, open, send } from "./steps.mjs";
import { PHONE, VIEWS, openView, worlds } from "./views.mjs";

/** Faults of the layout that is seen now: what is cut off, out of reach, or too small for a finger. */
export function layoutFaults({ coarse }) {
  const found = [];
  const [width, height] = [document.documentElement.clientWidth, window.innerHeight];
  const name = (it) => `${it.tagName.toLowerCase()}.${it.className} "${(it.getAttribute("aria-label") ?? it.textContent ?? "").trim().slice(0, 40)}"`;
  const overflow = document.documentElement.scrollWidth - width;
  if (overflow > 0) found.push(`the page is ${overflow} px wider than the screen`);
  if (document.documentElement.scrollHeight > height + 1) found.push(`the page is ${document.documentElement.scrollHeight - height} px higher than the screen`);
  const top = document.querySelector("dialog[open]") ?? document;
  for (const it of document.querySelectorAll("main, .page, .scroller, .dock, .list .groups, dialog")) {
    if (it.scrollWidth > it.clientWidth + 1 && it.checkVisibility()) found.push(`${it.className || it.tagName} scrolls ${it.scrollWidth - it.clientWidth} px to the side`);
  }
  // The last thing of a view: nothing is below it, and no room is left.
  const composer = top === document ? document.querySelector(".composer") : null;
  if (composer?.checkVisibility()) {
    const { bottom } = composer.getBoundingClientRect();
    if (Math.abs(bottom - height) > 1) found.push(`the composer ends at ${Math.round(bottom)} of ${height}`);
  }
  const box = (it) => it.getBoundingClientRect();
  for (const actions of top.querySelectorAll(".actions, .composer .line")) {
    if (!actions.checkVisibility()) continue;
    const card = actions.closest(".waiting, dialog, .composer");
    if (!card) continue;
    // A card that is not reached yet shows nothing of itself either.
    const seen = actions.closest(".dock") ? box(actions.closest(".dock")) : { top: 0, bottom: height };
    if (box(card).top >= seen.bottom - 40 || box(card).bottom <= seen.top) continue;
    for (const button of actions.querySelectorAll("button")) {
      const it = box(button);
      if (it.width > 0 && (it.bottom > Math.min(seen.bottom, height) + 1 || it.right > width + 1 || it.left < -1)) found.push(`below an edge: ${name(button)} at ${Math.round(it.bottom)} of ${Math.round(seen.bottom)}`);
    }
  }
  if (coarse) {
    for (const it of top.querySelectorAll("button, select, summary, input:not([type=file], [type=checkbox], [type=radio]), .top nav a, .list li a, .back")) {
      const { width: w, height: h } = box(it);
      if (it.checkVisibility() && w > 0 && !it.closest("[aria-hidden=true], .hidden") && (h < 43.5 || w < 43.5)) found.push(`${Math.round(w)} × ${Math.round(h)} px for a finger: ${name(it)}`);
    }
  }
  for (const text of cutTexts(top)) found.push(text);
  return [...new Set(found)];

  /** Texts that an edge cuts, with no ellipsis to show it. */
  function cutTexts(root) {
    const cut = [];
    const walker = document.createTreeWalker(root === document ? document.body : root, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const parent = node.parentElement;
      if (node.data.trim() === "" || !parent.checkVisibility() || parent.closest(".hidden, option, title, script, style, noscript")) continue;
      range.selectNodeContents(node);
      const it = range.getBoundingClientRect();
      if (it.width === 0) continue;
      // Up to the first box that cuts: one that scrolls lets a person reach the rest.
      for (let clip = parent; clip && clip !== document.body; clip = clip.parentElement) {
        const style = getComputedStyle(clip);
        const edge = box(clip);
        if (style.overflowX === "hidden" || style.overflowX === "clip") {
          if (it.right > edge.right + 1.5 && it.top < edge.bottom && style.textOverflow !== "ellipsis") cut.push(`cut at the right of ${name(clip)}: "${node.data.trim().slice(0, 50)}"`);
          if (style.textOverflow === "ellipsis") break;
        }
        if ((style.overflowY === "hidden" || style.overflowY === "clip") && it.bottom > edge.bottom + 2 && it.top < edge.bottom - 2 && !(Number(style.webkitLineClamp) > 0)) cut.push(`cut at the bottom of ${name(clip)}: "${node.data.trim().slice(0, 50)}"`);
        if (/auto|scroll/.test(style.overflowX + style.overflowY)) break;
      }
    }
    const canvas = document.createElement("canvas").getContext("2d");
    for (const select of root.querySelectorAll("select")) {
      if (!select.checkVisibility()) continue;
      const style = getComputedStyle(select);
      canvas.font = style.font;
      const room = select.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight) - 18;
      const text = select.selectedOptions[0]?.textContent ?? "";
      if (style.textOverflow !== "ellipsis" && canvas.measureText(text).width > room + 1) cut.push(`cut in ${name(select).slice(0, 30)}: "${text.slice(0, 50)}"`);
    }
    return cut;
  }
}

export const fits = async (page, what, options = {}) => {
  await drawn(page);
  assert.deepEqual(await page.evaluate(layoutFaults, { coarse: false, ...options }), [], what);
};

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Rules of axe that a page breaks, of any level. */
async function axeFaults(page, options) {
  if (!(await page.evaluate(() => "axe" in window))) await page.evaluate(AXE);
  const { violations } = await page.evaluate((given) => window.axe.run(document, { resultTypes: ["violations"], ...given }), options);
  return violations.map((each) => `${each.impact} ${each.id}: ${each.nodes.slice(0, 3).map((node) => `${node.html.slice(0, 160)} ${node.any[0]?.message ?? ""}`).join(" | ")}`);
}

/** Views that long texts change most. `npm run shots` looks at every view in every world. */
const LONG = ["list", "inbox", "session", "request", "question", "browsers"];

/** Looks at each view in one width: its layout, its accessibility in both schemes, and its one first heading. */
async function everyView(browser, [width, height]) {
  const places = await worlds();
  const faults = new Map();
  let count = 0;
  const kept = new Map();
  const all = Object.entries(VIEWS).flatMap(([name, view]) => view.worlds
    .filter((world) => world === (view.worlds.includes("short") ? "short" : view.worlds[0]) || (world === "long" && LONG.includes(name)))
    .map((world) => ({ name, world, width, height })));
  for (const it of all) {
    count += 1;
    let scheme = "light";
    const wrong = (what) => faults.set(what, [...(faults.get(what) ?? []), `${it.name} ${it.world} ${scheme}`]);
    // The policy would stop the checker, which is no part of the page.
    const page = await openView(browser, places, it, wrong, { bypassCSP: true }, kept);
    for (const what of await page.evaluate(layoutFaults, { coarse: width < 700 })) wrong(what);
    const headings = await page.evaluate(() => [...document.querySelectorAll("h1")].filter((each) => each.checkVisibility()).map((each) => each.textContent));
    if (headings.length !== 1) wrong(`${headings.length} first headings`);
    // Only colours differ between the schemes, and light ones are the same in each width.
    for (scheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme: scheme });
      const options = scheme === "dark" ? { runOnly: ["color-contrast"] } : { rules: { "color-contrast": { enabled: width >= 700 } } };
      for (const what of await axeFaults(page, options)) wrong(what);
    }
    if (![...kept.values()].includes(page)) await page.context().close();
  }
  await Promise.all(Object.values(places).map((place) => place.stop()));
  assert.deepEqual([...faults].map(([what, where]) => `${what} (${where.join(", ")})`), []);
  return `${count} views`;
}

export const flows = {
  "every-view-wide": { mock: true, run: ({ browser }) => everyView(browser, [1280, 800]) },
  "every-view-narrow": { mock: true, run: ({ browser }) => everyView(browser, [390, 844]) },
  "layout-of-sessions": {
    async run(it) {
      const [short, long, asks] = [await fresh(it, "Short"), await fresh(it, "Long"), await fresh(it, "Asks")];
      const pages = [];
      for (const [width, height] of [[320, 568], [390, 844]]) pages.push(await open(it, short, { viewport: { width, height }, ...PHONE }));
      pages.push(await open(it, short, { viewport: { width: 768, height: 1024 } }), await open(it, short));
      const [{ page }] = pages;
      const everywhere = async (hash, ready, what) => {
        for (const each of pages) {
          await each.page.evaluate((to) => { location.hash = to; }, hash);
          await each.page.locator(ready).first().waitFor();
          const { width } = each.page.viewportSize();
          await fits(each.page, `${what} at ${width}`, { coarse: width < 700 });
        }
      };
      await everywhere(short, ".composer .line", "an empty session");
      await page.evaluate((to) => { location.hash = to; }, long);
      await page.getByRole("heading", { level: 1, name: "Long" }).waitFor();
      await send(page, "work");
      await ends(page, 1);
      await everywhere(long, ".ended .facts", "a long session");
      // The end of a turn takes two lines at most.
      for (const each of pages) assert.ok(await each.page.locator(".ended .line").last().evaluate((line) => line.getBoundingClientRect().height) <= 72, "the end of a turn takes two lines");
      await page.evaluate((to) => { location.hash = to; }, asks);
      await page.getByRole("heading", { level: 1, name: "Asks" }).waitFor();
      await send(page, "question");
      await everywhere(asks, ".waiting", "a question");
      // A keyboard on the screen leaves half of it.
      for (const each of pages.slice(0, 2)) {
        const { width } = each.page.viewportSize();
        await each.page.setViewportSize({ width, height: 300 });
        await fits(each.page, `a question above a keyboard at ${width}`);
        assert.ok(await each.page.getByRole("button", { name: "Answer", exact: true }).isVisible());
      }
      for (const each of pages) await clean(each.page, each.wrong);
    },
  },
  "drop-anywhere": {
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Drop"));
      const drag = (kind, selector) => page.evaluate(([type, where]) => {
        const data = new DataTransfer();
        data.items.add(new File(["dropped"], "dropped.txt", { type: "text/plain" }));
        const event = new DragEvent(type, { dataTransfer: data, bubbles: true, cancelable: true });
        document.querySelector(where).dispatchEvent(event);
        return { stopped: event.defaultPrevented, effect: data.dropEffect };
      }, [kind, selector]);
      await page.locator(".composer").waitFor();
      await drag("dragenter", ".transcript");
      await page.getByText("Drop to attach the files").waitFor();
      await drag("dragleave", ".transcript");
      await page.getByText("Drop to attach the files").waitFor({ state: "detached" });
      for (const [at, where] of [".transcript", ".list", ".top"].entries()) {
        await drag("dragenter", where);
        assert.equal((await drag("dragover", where)).stopped, true);
        assert.equal((await drag("drop", where)).stopped, true, `a drop on ${where} leaves the page`);
        await page.waitForFunction((count) => document.querySelectorAll(".attached li.ready").length === count, at + 1);
        await page.getByText("Drop to attach the files").waitFor({ state: "detached" });
      }
      await page.getByRole("link", { name: "Agents" }).click();
      await page.getByRole("heading", { level: 1, name: "Agents" }).waitFor();
      assert.equal((await drag("dragover", ".page")).stopped, true);
      assert.equal((await drag("drop", ".page")).stopped, true, "a page without an input takes no file, and stays");
      await clean(page, wrong);
    },
  },
  "keys-and-focus": {
    async run(it) {
      const [hash, other] = [await fresh(it, "Keys"), await fresh(it, "Other")];
      const { page, wrong } = await open(it, hash);
      const keys = page.keyboard;
      const input = page.locator("#input");
      const typed = () => page.evaluate(() => document.activeElement.id === "input");
      // Until the browser has drawn, it keeps the focus on what is disabled.
      const focused = async (what, selector) => {
        await drawn(page);
        const is = await page.waitForFunction((wanted) => document.activeElement !== document.body && document.activeElement.closest(wanted), selector).catch(() => undefined);
        assert.ok(is, `${what}: the focus is on ${await page.evaluate(() => document.activeElement.outerHTML.slice(0, 120))}`);
      };
      // Enter sends, Shift+Enter makes a line, and a key of an input method does neither.
      await input.fill("one");
      await input.press("Shift+Enter");
      assert.equal(await input.inputValue(), "one\n");
      await input.evaluate((it) => it.dispatchEvent(new KeyboardEvent("keydown", { key: "Enter", isComposing: true, bubbles: true, cancelable: true })));
      assert.equal(await page.locator(".bubble, .sent").count(), 0, "an input method's Enter sends nothing");
      await input.fill("asks");
      await input.press("Enter");
      await page.locator(".waiting").nth(2).waitFor();
      await keys.type("ad");
      assert.equal(await input.inputValue(), "ad", "letters in a field are text");
      await input.fill("");
      // A request that was just shown is answered by no key, and each press answers one.
      await keys.press("Escape");
      await focused("after Escape", ".scroller");
      const waiting = page.locator(".waiting");
      await keys.press("r");
      await focused("after r", ".waiting");
      // A machine that is busy brings the key late, so the cards seem to be shown later still.
      await page.evaluate(() => { for (const card of document.querySelectorAll(".waiting")) card.dataset.shown = String(Math.round(performance.now()) + 60_000); });
      await keys.press("a");
      await drawn(page);
      assert.equal(await waiting.count(), 3, "nobody has read it yet");
      await page.evaluate(() => { for (const card of document.querySelectorAll(".waiting")) card.dataset.shown = "0"; });
      await keys.down("a");
      await keys.down("a");
      await waiting.nth(2).waitFor({ state: "detached" });
      await keys.down("a");
      await keys.up("a");
      await focused("after an answer", ".waiting");
      assert.equal(await waiting.count(), 2, "a key that is held down answers one request");
      await page.evaluate(() => { for (const card of document.querySelectorAll(".waiting")) card.dataset.shown = "0"; });
      await keys.press("d");
      await waiting.nth(1).waitFor({ state: "detached" });
      await waiting.getByRole("button", { name: "Deny", exact: true }).focus();
      await keys.press("Enter");
      await ends(page, 1);
      await page.getByText("yes no no").waitFor();
      await focused("after the last answer", ".scroller");
      // Steer and stop.
      await keys.press("i");
      assert.ok(await typed());
      await keys.type("slow");
      await keys.press("Enter");
      await page.getByText("word2").waitFor();
      await keys.press("Escape");
      await keys.press("t");
      await page.locator("button[aria-pressed=true]", { hasText: "Steer" }).waitFor();
      await keys.press("s");
      await ends(page, 2);
      await focused("after a stop", ".scroller");
      await keys.press("i");
      await keys.type("slow");
      await keys.press("Enter");
      await page.getByRole("button", { name: "Stop the turn" }).waitFor();
      await keys.press("Control+.");
      await ends(page, 3);
      assert.ok(await typed(), "a stop from the input stays there");
      await keys.press("Escape");
      // Dialogs give the focus back, and a new session takes it.
      for (const [key, name] of [["?", "Keys"], ["n", "New session"], ["Control+k", "Commands"]]) {
        await keys.press(key);
        await page.getByRole("dialog", { name }).waitFor();
        await keys.press("Escape");
        await page.waitForFunction(() => !document.querySelector("dialog"));
        await focused(`after ${name}`, ".scroller");
      }
      await keys.press("n");
      await page.getByRole("dialog", { name: "New session" }).getByLabel("Title").fill("Made by keys");
      await keys.press("Control+Enter");
      await page.getByRole("heading", { level: 1, name: "Made by keys" }).waitFor();
      await focused("after create", "#input");
      await keys.press("Escape");
      // From session to session by keys, which stay keys.
      await page.locator(".list li", { hasText: "Other" }).waitFor();
      for (let at = 0; at < 2; at += 1) {
        const before = await page.textContent(".session h1");
        await keys.press("j");
        await page.waitForFunction((was) => document.querySelector(".session h1")?.textContent !== was, before);
        await focused("after j", ".scroller, .list");
      }
      // A transcript that is drawn late gets the focus back from the page.
      const show = (display) => page.locator(".scroller").evaluate((scroller, value) => { scroller.style.display = value; scroller.classList.toggle("late"); }, display);
      await page.locator(".scroller").focus();
      await show("none");
      await focused("without a transcript", "main:focus");
      await show("");
      await focused("after a late transcript", ".scroller");
      // A session that is removed leaves the focus on the page.
      await page.evaluate((to) => { location.hash = to; }, other);
      await page.getByRole("heading", { level: 1, name: "Other" }).waitFor();
      await page.getByRole("button", { name: "Actions" }).click();
      await page.getByRole("menuitem", { name: "Remove the session" }).click();
      await page.getByRole("button", { name: "Remove it" }).click();
      await page.waitForFunction(() => !document.querySelector("dialog") && !document.querySelector(".session"));
      await focused("after a removal", "main, .list");
      // What Enter does is chosen in the list of keys, which has all of them.
      await keys.press("?");
      await page.getByRole("dialog", { name: "Keys" }).getByLabel(/^Enter sends a message/).uncheck();
      assert.ok(await page.locator("dialog dt").count() >= 15);
      await keys.press("Escape");
      await page.goto(`${it.place.url}/${hash}`);
      await page.reload();
      await page.getByPlaceholder("Message  (Ctrl+Enter sends)").waitFor();
      await input.fill("two");
      await input.press("Enter");
      assert.equal(await input.inputValue(), "two\n");
      await clean(page, wrong);
    },
  },
};
