// Very long sessions: no task of the page takes long.
import assert from "node:assert/strict";
import { fill } from "../mock/agent.mjs";
import { fresh } from "./basic.mjs";
import { SLOWER, clean, drawn, open, send, until } from "./steps.mjs";

/** The longest time that the page may not answer, in milliseconds. */
const LONGEST = 200 * SLOWER;

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

/** A page over a network of a certain speed, with an empty cache; `seen` are bytes by the network. */
async function slowly({ browser, place }, hash, bits, latency) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 } });
  const page = await context.newPage();
  const wrong = [];
  context.on("weberror", (error) => wrong.push(`error: ${error.error().stack}`));
  const devtools = await context.newCDPSession(page);
  let bytes = 0;
  devtools.on("Network.dataReceived", (event) => {
    bytes += event.encodedDataLength;
  });
  await devtools.send("Network.enable");
  await devtools.send("Performance.enable");
  await devtools.send("Network.emulateNetworkConditions", { offline: false, latency, downloadThroughput: bits / 8, uploadThroughput: bits / 8 });
  await page.addInitScript(([key, token, last]) => {
    sessionStorage.setItem(key, token);
    window.violations = [];
    const look = () => {
      if (document.querySelector(`.rows > article:last-child[aria-posinset="${last}"][aria-setsize="${last}"]`)) {
        // The frame after this one shows it.
        requestAnimationFrame(() => setTimeout(() => {
          window.lastDrawn = performance.now();
        }));
      } else requestAnimationFrame(look);
    };
    requestAnimationFrame(look);
  }, ["trunkline.token", place.token, place.world.sessions.get("long").entries.length]);
  await page.goto(`${place.url}/${hash}`, { waitUntil: "commit" });
  await page.waitForFunction(() => window.lastDrawn, null, { timeout: 30_000 });
  const drawnAt = bytes;
  const { paint, last } = await page.evaluate(() => ({ paint: performance.getEntriesByName("first-contentful-paint")[0].startTime, last: window.lastDrawn }));
  const measured = async () => {
    await devtools.send("HeapProfiler.collectGarbage");
    const { metrics } = await devtools.send("Performance.getMetrics");
    return { heap: metrics.find((metric) => metric.name === "JSHeapUsedSize").value / 1e6, nodes: await page.evaluate(() => document.querySelectorAll("*").length) };
  };
  return { page, context, wrong, paint: Math.round(paint), last: Math.round(last), bytes: drawnAt, all: () => bytes, measured };
}

/** The times of frames while a person scrolls up by the wheel, in milliseconds. */
async function scrolling(page, turns) {
  await page.evaluate(() => {
    window.frames_ = [];
    let before = performance.now();
    const next = (now) => {
      if (!window.frames_) return;
      window.frames_.push(now - before);
      before = now;
      requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  await page.locator(".scroller").hover();
  for (let at = 0; at < turns; at += 1) {
    await page.mouse.wheel(0, -900);
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(done)));
  }
  const frames = await page.evaluate(() => {
    const found = window.frames_.slice(2).sort((a, b) => a - b);
    window.frames_ = undefined;
    return found;
  });
  return { median: Math.round(frames[Math.floor(frames.length / 2)]), p95: Math.round(frames[Math.floor(frames.length * 0.95)]) };
}

/** A row near the top of the view, and where it is. The first one may become another when what is before it is known. */
const topRow = (page) => page.evaluate(() => {
  const top = document.querySelector(".scroller").getBoundingClientRect().top;
  const row = [...document.querySelectorAll(".rows > article")].map((each) => each.firstElementChild).filter((each) => each.getBoundingClientRect().top >= top)[2];
  return [row.dataset.key, Math.round(row.getBoundingClientRect().top)];
});

/** A session of 100,000 entries: opened, scrolled through, filtered, and added to. */
async function veryLong(it) {
  const { page, wrong } = await open(it, "#/sessions");
  const longest = await tasks(it.browser, page);
  const begun = Date.now();
  await page.evaluate(() => {
    location.hash = "#/sessions/long";
  });
  await page.waitForFunction(() => document.querySelector(".rows article:last-child .ended"));
  await page.keyboard.press("w");
  await page.getByTitle("Load all entries before these").click();
  await page.getByText("Beginning of the session").waitFor({ timeout: 60_000 });
  await page.keyboard.press("w");
  const loaded = Date.now() - begun;
  const count = await page.evaluate(() => document.querySelectorAll("*").length);
  assert.ok(count < 3000, `${count} elements`);
  // Through the whole of it, in leaps and page by page.
  for (const part of [0, 0.5, 0.25, 0.99, 0.01, 0.7]) {
    await page.locator(".scroller").evaluate((scroller, to) => scroller.scrollTo(0, scroller.scrollHeight * to), part);
    // The rows that are drawn are those that are seen, and those of that part of the session. Before the first one is a line.
    await page.waitForFunction((to) => {
      const box = document.querySelector(".scroller").getBoundingClientRect();
      const rows = document.querySelector(".rows").getBoundingClientRect();
      const articles = [...document.querySelectorAll(".rows > article")].filter((row) => row.getBoundingClientRect().bottom > box.top && row.getBoundingClientRect().top < box.bottom);
      const seen = articles.map((row) => row.getBoundingClientRect());
      const at = Number(articles[0]?.getAttribute("aria-posinset")) / Number(articles[0]?.getAttribute("aria-setsize"));
      return seen.length > 3 && seen[0].top <= Math.max(box.top, rows.top) + 20 && seen[seen.length - 1].bottom >= box.bottom - 20 && Math.abs(at - to) < 0.02;
    }, part);
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
  "end-first": {
    mock: true,
    async run(it) {
      const session = it.place.world.open("coder", "Long", "long");
      fill(session, 50_000);
      const count = session.entries.length;
      const notes = [];
      // The goals are 1 s and 10 s; a machine that does other work takes longer. The first page starts the browser's processes.
      const warm = await slowly(it, "#/sessions/long", 100e6, 0);
      await warm.context.close();
      for (const [name, bits, latency, limit] of [["10 Mbit/s", 10e6, 40, 2500], ["400 kbit/s", 400e3, 40, 10_000]]) {
        // By the clock: a machine that stops for a moment gets another try.
        let there = await slowly(it, "#/sessions/long", bits, latency);
        for (let at = 0; at < 2 && there.last > limit; at += 1) {
          await there.context.close();
          there = await slowly(it, "#/sessions/long", bits, latency);
        }
        const { page, wrong } = there;
        assert.ok(there.last <= limit, `${name}: the first paint is after ${there.paint} ms, the last entry drawn after ${there.last} ms`);
        const { heap, nodes } = await there.measured();
        // The page itself may take 150 kB.
        assert.ok(there.bytes < 190_000, `${name}: ${there.bytes} bytes`);
        notes.push(`${name}: first paint ${there.paint} ms, last entry ${there.last} ms, ${Math.round(there.bytes / 1000)} kB, heap ${heap.toFixed(1)} MB, ${nodes} elements`);
        if (bits > 1e6) {
          const { median, p95 } = await scrolling(page, 150);
          const after = await there.measured();
          notes.push(`scroll ${median} ms, p95 ${p95} ms, heap ${after.heap.toFixed(1)} MB, ${after.nodes} elements, ${Math.round(there.all() / 1000)} kB`);
          assert.ok(after.nodes < 3000, `${after.nodes} elements`);
          assert.ok(median <= 34, `a frame takes ${median} ms`);
          const begun = Date.now();
          await page.getByRole("button", { name: "Beginning" }).click();
          await page.locator('.rows > article[aria-posinset="1"]').waitFor();
          await page.getByText("Beginning of the session").waitFor();
          notes.push(`the beginning ${Date.now() - begun} ms`);
          assert.equal(await page.locator(`.rows > article[aria-setsize="${count}"]`).count() > 3, true);
          await page.getByRole("button", { name: "to the end" }).click();
          await page.locator(`.rows > article[aria-posinset="${count}"]`).waitFor();
        }
        assert.deepEqual(wrong, []);
        await there.context.close();
      }
      return notes.join("; ");
    },
  },
  "earlier-entries": {
    mock: true,
    async run(it) {
      const session = it.place.world.open("coder", "Long", "long");
      fill(session, 30_000);
      // The end lies within a turn, a tool call and a text.
      session.add({ type: "turn.begin", turn_id: "now", message_id: "m-now", content: "And now?", by: "l-1" });
      session.running = "now";
      session.add({ type: "permission.request", turn_id: "now", request_id: "r-now", tool: "Bash", description: "d", resource: "ls" });
      session.requests.set("r-now", () => undefined);
      session.add({ type: "tool.start", turn_id: "now", tool_call_id: "now-c", tool: "Grep", title: "for a word" });
      for (let at = 0; at < 400; at += 1) session.add(at % 3 ? { type: "output", turn_id: "now", content: `word${at} ${at % 30 === 1 ? "\n\nNext " : ""}` } : { type: "tool.update", turn_id: "now", tool_call_id: "now-c", content: `line ${at}\n` });
      session.first = 41;
      const { page, wrong } = await open(it, "#/sessions/long");
      await page.getByRole("button", { name: "Stop the turn" }).waitFor();
      // A request that is open is read, however far back it is.
      await page.locator(".waiting").getByText("ls").first().waitFor();
      // What is loaded above moves nothing.
      for (let round = 0; round < 2; round += 1) {
        // The page is held until the place of the reader is known.
        let isAsked = false;
        let release;
        const released = new Promise((done) => {
          release = done;
        });
        await page.route("**/history?*", async (route) => {
          isAsked = true;
          await released;
          await route.continue();
        });
        // A page that was asked for before keeps the reader's place, too, and that is no longer near the first row.
        await until("earlier entries are asked for", async () => {
          await page.locator(".scroller").evaluate((scroller) => scroller.scrollTo(0, 300));
          await drawn(page);
          return isAsked;
        });
        await page.getByText(/^Loading .* earlier entries/).waitFor();
        await drawn(page);
        const before = await topRow(page);
        const first = await page.locator(".earlier").textContent();
        release();
        await page.waitForFunction((text) => document.querySelector(".earlier").textContent !== text && !/Loading/.test(document.querySelector(".earlier").textContent), first);
        await drawn(page);
        await page.unroute("**/history?*");
        const row = page.locator(`.row[data-key="${before[0]}"]`);
        const now = await row.evaluate((each) => Math.round(each.getBoundingClientRect().top));
        assert.ok(Math.abs(now - before[1]) <= 2, `round ${round}: ${before[1]} to ${now}`);
      }
      await page.getByRole("button", { name: "Beginning" }).click();
      await page.getByText("Entries before 41 are no longer kept").waitFor();
      await page.locator('.rows > article[aria-posinset="41"]').waitFor();
      // From a part of its own down to the end, which joins it.
      await page.waitForFunction(() => {
        const scroller = document.querySelector(".scroller");
        scroller.scrollTop = scroller.scrollHeight;
        return document.querySelector('.rows > article:last-child[aria-posinset]')?.innerText.includes("word398");
      });
      assert.equal((await page.locator(".call").last().innerText()).includes("Grep"), true);
      await clean(page, wrong);
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
