// What every screen has to hold: its input at the lower edge, actions in sight, targets for fingers, a focus.
import assert from "node:assert/strict";
import { fresh } from "./basic.mjs";
import { clean, drawn, ends, open, send } from "./steps.mjs";

const PHONE = { hasTouch: true, isMobile: true };

/** Faults of the layout that is seen now: what is cut off, out of reach, or too small for a finger. */
export function layoutFaults({ coarse }) {
  const found = [];
  const [width, height] = [document.documentElement.clientWidth, window.innerHeight];
  const name = (it) => `${it.tagName.toLowerCase()}.${it.className} "${(it.getAttribute("aria-label") ?? it.textContent ?? "").trim().slice(0, 40)}"`;
  const overflow = document.documentElement.scrollWidth - width;
  if (overflow > 0) found.push(`the page is ${overflow} px wider than the screen`);
  if (document.documentElement.scrollHeight > height + 1) found.push(`the page is ${document.documentElement.scrollHeight - height} px higher than the screen`);
  const top = document.querySelector("dialog[open]") ?? document;
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
  return [...new Set(found)];
}

export const fits = async (page, what, options = {}) => {
  await drawn(page);
  assert.deepEqual(await page.evaluate(layoutFaults, { coarse: false, ...options }), [], what);
};

export const flows = {
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
};
