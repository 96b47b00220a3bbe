// Very long sessions: no task of the page takes long.
import assert from "node:assert/strict";
import { fill } from "../mock/agent.mjs";
import { fresh } from "./basic.mjs";
import { clean, drawn, open, send } from "./steps.mjs";

/** The longest time that the page may not answer, in milliseconds. */
const LONGEST = 200;

/**
 * Watches the tasks of a page. The answer gives the longest one, in milliseconds of the processor: a busy machine makes
 * tasks longer by the clock, and says nothing of the page by that.
 */
async function tasks(browser, page) {
  await browser.startTracing(page, { categories: ["toplevel", "disabled-by-default-devtools.timeline", "__metadata"] });
  return async () => {
    await drawn(page);
    const { traceEvents } = JSON.parse((await browser.stopTracing()).toString());
    const main = new Set(traceEvents.filter((event) => event.name === "thread_name" && event.args.name === "CrRendererMain").map((event) => `${event.pid} ${event.tid}`));
    const times = traceEvents.filter((event) => event.name.endsWith("RunTask") && event.tdur !== undefined && main.has(`${event.pid} ${event.tid}`)).map((event) => event.tdur);
    assert.ok(times.length > 100, `${times.length} tasks`);
    return Math.round(times.reduce((most, time) => Math.max(most, time), 0) / 1000);
  };
}

/** An answer of 30,000 deltas, and a tool call with a long input and many colours. */
async function longAnswer(it) {
  const { page, wrong } = await open(it, "#/sessions");
  const longest = await tasks(it.browser, page);
  await page.evaluate(() => {
    location.hash = "#/sessions/answer";
  });
  await page.locator(".ended").waitFor({ timeout: 30_000 });
  await page.getByRole("button", { name: /Bash/ }).click();
  await page.getByText("more characters").first().waitFor();
  const took = await longest();
  assert.ok(took <= LONGEST, `longest task: ${took} ms`);
  await clean(page, wrong);
  return `longest task ${took} ms`;
}

/** A session of 100,000 entries: opened, scrolled through, filtered, and added to. */
async function veryLong(it) {
  const { page, wrong } = await open(it, "#/sessions");
  const longest = await tasks(it.browser, page);
  const begun = Date.now();
  await page.evaluate(() => {
    location.hash = "#/sessions/long";
  });
  await page.waitForFunction(() => document.querySelector(".rows article:last-child .ended") && !document.querySelector(".quiet-line"), null, { timeout: 60_000 });
  const loaded = Date.now() - begun;
  const count = await page.evaluate(() => document.querySelectorAll("*").length);
  assert.ok(count < 3000, `${count} elements`);
  // Through the whole of it, in leaps and page by page.
  for (const part of [0, 0.5, 0.25, 0.99, 0.01, 0.7]) {
    await page.locator(".scroller").evaluate((scroller, to) => scroller.scrollTo(0, scroller.scrollHeight * to), part);
    // The rows that are drawn are those that are seen.
    await page.waitForFunction(() => {
      const box = document.querySelector(".scroller").getBoundingClientRect();
      const seen = [...document.querySelectorAll(".rows > article")].map((row) => row.getBoundingClientRect()).filter((row) => row.bottom > box.top && row.top < box.bottom);
      return seen.length > 3 && seen[0].top <= box.top + 20 && seen[seen.length - 1].bottom >= box.bottom - 20;
    });
  }
  await page.locator(".scroller").focus();
  for (let at = 0; at < 15; at += 1) await page.keyboard.press("PageUp");
  await page.keyboard.press("w");
  await page.getByLabel("Filter entries").fill("type:turn.begin chapter 4321");
  await page.waitForFunction(() => document.querySelectorAll(".wire .entry").length === 1, null, { timeout: 30_000 });
  await page.locator(".wire .entry").click();
  await page.locator(".detail").getByRole("button", { name: "Show" }).click();
  await page.waitForFunction(() => {
    const row = [...document.querySelectorAll(".rows > article")].find((each) => each.innerText.includes("Question 4321:"));
    const top = document.querySelector(".scroller").getBoundingClientRect().top;
    return row && Math.abs(row.getBoundingClientRect().top - top - 8) < 30;
  });
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: /to the end|new/ }).first().click();
  await send(page, "stream");
  await page.getByText("See also").last().waitFor();
  const took = await longest();
  assert.ok(took <= LONGEST, `longest task: ${took} ms`);
  await clean(page, wrong);
  return `read in ${loaded} ms; longest task ${took} ms; ${count} elements`;
}

export const flows = {
  "100000-entries-live": {
    real: true,
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Many"));
      const longest = await tasks(it.browser, page);
      const begun = Date.now();
      await send(page, "many");
      await page.locator(".ended.completed").waitFor({ timeout: 240_000 });
      const live = Date.now() - begun;
      const again = Date.now();
      await page.reload();
      await page.locator(".ended.completed").waitFor({ timeout: 60_000 });
      const took = await longest();
      assert.ok(took <= LONGEST, `longest task: ${took} ms`);
      await clean(page, wrong);
      return `live in ${live} ms, read again in ${Date.now() - again} ms; longest task ${took} ms`;
    },
  },
  "100000-entries": {
    mock: true,
    async run(it) {
      fill(it.place.world.open("coder", "Long", "long"), 100_000);
      return veryLong(it);
    },
  },
  "one-long-answer": {
    mock: true,
    async run(it) {
      const session = it.place.world.open("coder", "Answer", "answer");
      session.add({ type: "turn.begin", turn_id: "t", content: "All of it" });
      for (let at = 0; at < 30_000; at += 1) session.add({ type: "output", turn_id: "t", content: at % 40 === 39 ? "\n\n" : at % 900 === 0 ? "\n```js\n" : at % 900 === 60 ? "\n```\n\n" : `word **${at}** ` });
      session.add({ type: "tool.start", turn_id: "t", tool_call_id: "c", tool: "Bash", input: { command: "x".repeat(500_000) } });
      session.add({ type: "tool.end", turn_id: "t", tool_call_id: "c", content: `${"\u001b[32my\u001b[0mx ".repeat(100_000)}\n` });
      session.add({ type: "turn.complete", turn_id: "t" });
      return longAnswer(it);
    },
  },
};
