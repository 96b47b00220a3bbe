// What a page has to stand: a daemon that goes and comes, very long sessions, texts that try to become more than text.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fill, run } from "../mock/agent.mjs";
import { start } from "../mock/main.mjs";
import { HOSTS, XSS } from "../mock/material.mjs";
import { entries, fresh } from "./basic.mjs";
import { clean, drawn, ends, open, send, still, until, wholeText } from "./steps.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
/** Elements of the page that no text may bring into it. */
function strangers() {
  const names = "script, iframe, object, embed, style, video, audio, math:not(.tex), .tex :not(mrow, mi, mn, mo, mtext, mspace, mfrac, msqrt, mroot, msub, msup, msubsup, munder, mover, munderover, mtable, mtr, mtd, mstyle, mphantom), .tex [href], .tex [style], base, meta[http-equiv], .rows svg:not(.icon), .rows img:not([src^='blob:'])";
  return [...document.querySelectorAll(names)].map((element) => element.outerHTML).filter((html) => !html.includes("/app.js"));
}

export const flows = {
  "daemon-restarts": {
    mock: true,
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Restart"));
      await send(page, "slow");
      await page.getByText("word5").waitFor();
      // Killed, and away for a while: an input of that time waits in the page.
      const { world, url } = it.place;
      world.restarted();
      await it.place.stop();
      await page.getByText(/Connection lost/).waitFor();
      await send(page, "stream after that");
      await page.getByText("waits for the daemon").waitFor();
      it.place.stop = (await start({ port: Number(new URL(url).port), world, pace: 5 })).stop;
      await page.getByText("the host ended and was started again").waitFor({ timeout: 15_000 });
      await page.locator(".ended.completed").waitFor({ timeout: 15_000 });
      const kept = world.sessions.get("Restart").entries;
      assert.equal(kept.filter((line) => line.includes("stream after that")).length, 1, "it arrived once");
      assert.equal(await page.locator(".sent").count(), 0);
      const text = await wholeText(page);
      assert.equal(text.split("word4 word5").length, 2);
      assert.equal(text.split("the host ended while this turn ran").length, 2);
      // A refusal while the stream lives holds up two messages: the first is withdrawn, and the second arrives by itself.
      let isRefusing = true;
      await page.route("**/inputs", (route) => (isRefusing ? route.fulfill({ status: 503, body: "" }) : route.continue()));
      await send(page, "never");
      await send(page, "stream at last");
      const row = (name) => page.locator(".tray li", { hasText: name });
      await row("stream at last").getByText("waits for the one before it").waitFor();
      await row("never").getByRole("button", { name: "Send now" }).waitFor();
      await row("never").getByRole("button", { name: "Withdraw" }).click();
      await row("stream at last").getByText("waits for the daemon").waitFor();
      isRefusing = false;
      await page.waitForFunction(() => document.querySelectorAll(".ended.completed").length === 2);
      assert.equal(kept.filter((line) => line.includes('"content":"never"')).length, 0);
      assert.equal(kept.filter((line) => line.includes("stream at last")).length, 1);
      await clean(page, wrong);
    },
  },
  "daemon-killed": {
    real: true,
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Killed"));
      await send(page, "slow");
      await page.getByText("word5").waitFor();
      await it.place.kill();
      await page.getByText(/Connection lost/).waitFor();
      await send(page, "stream after that");
      await page.getByText("waits for the daemon").waitFor();
      await it.place.again();
      await page.locator(".ended.completed").waitFor({ timeout: 30_000 });
      const text = await wholeText(page);
      assert.equal(text.split("word4 word5").length, 2, "nothing is doubled");
      assert.equal(text.split("stream after that").length, 2, "it arrived once");
      assert.match(text, /daemon restarted/);
      // The page has each entry of the journal, and each once.
      const stored = (await entries(it, new URL(page.url()).hash)).map((entry) => entry.seq);
      assert.deepEqual(stored, stored.map((_, at) => at + 1));
      await page.getByRole("button", { name: "Wire view" }).click();
      await page.getByText(`${stored.length} entries`).waitFor();
      await page.locator(".wire .seq", { hasText: new RegExp(`^${stored.length}$`) }).waitFor();
      assert.equal(await page.locator(".sent").count(), 0);
      await clean(page, wrong);
    },
  },
  "a-hidden-page-sleeps": {
    mock: true,
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Hidden"));
      await page.waitForSelector(".composer");
      await page.clock.install();
      const session = it.place.world.sessions.get("Hidden");
      const hide = (hidden) => page.evaluate((now) => {
        Object.defineProperty(document, "hidden", { value: now, configurable: true });
        document.dispatchEvent(new Event("visibilitychange"));
      }, hidden);
      const listeners = (count) => until(`${count} streams`, () => session.listeners.size === count);
      await hide(true);
      await page.clock.runFor(5_000);
      await listeners(1);
      await page.clock.runFor(6_000);
      await listeners(0);
      void run(session, { turn: "t-9", content: "ask" }, 5);
      // The stream of all sessions stays open.
      await page.waitForFunction(() => document.title.startsWith("(1)"));
      await listeners(0);
      await hide(false);
      await page.clock.runFor(1_000);
      await listeners(1);
      await page.clock.resume();
      await page.locator(".waiting").waitFor();
      await clean(page, wrong);
    },
  },
  "another-journal": {
    mock: true,
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Fork"));
      await send(page, "stream");
      await ends(page, 1);
      // The daemon comes back with an older journal, which has grown otherwise since.
      const session = it.place.world.sessions.get("Fork");
      it.place.world.epoch += 1;
      const known = session.entries.length;
      session.entries.length = 2;
      for (let at = 0; at < known; at += 1) session.add({ type: "output", content: `other ${at} `, turn_id: "x" });
      it.place.drop();
      await page.getByText("other 5").waitFor();
      const text = await wholeText(page);
      assert.doesNotMatch(text, /Here is what I found/);
      assert.match(text, /other 0 other 1/);
      await clean(page, wrong);
    },
  },
  "the-reader-keeps-the-place": {
    mock: true,
    async run(it) {
      fill(it.place.world.open("coder", "Place", "place"), 2000);
      const { page, wrong } = await open(it, "#/sessions/place");
      await page.locator(".ended").last().waitFor();
      await send(page, "work");
      await ends(page, 1);
      await send(page, "slow");
      await page.getByText("word5").waitFor();
      await page.locator(".scroller").hover();
      for (let at = 0; at < 12; at += 1) await page.mouse.wheel(0, -300);
      await still(page, ".scroller");
      const where = () => page.evaluate(() => {
        const top = document.querySelector(".scroller").getBoundingClientRect().top;
        const row = [...document.querySelectorAll(".rows > article")].find((each) => each.getBoundingClientRect().top >= top);
        return [row.getAttribute("aria-posinset"), Math.round(row.getBoundingClientRect().top)];
      });
      const before = await where();
      const session = it.place.world.sessions.get("place");
      // Entries come meanwhile, and the page has them.
      const known = session.entries.length + 10;
      await until("ten more entries", () => session.entries.length > known);
      await page.getByRole("button", { name: "Wire view" }).focus();
      await page.keyboard.press("w");
      await page.waitForFunction((least) => parseInt(document.querySelector(".wire .entry:last-child .seq")?.textContent, 10) > least, known);
      await page.keyboard.press("w");
      await drawn(page);
      const after = await where();
      assert.equal(after[0], before[0]);
      assert.ok(Math.abs(after[1] - before[1]) <= 2, `${before[1]} to ${after[1]}`);
      await page.getByRole("button", { name: /new|to the end/ }).click();
      await page.waitForFunction(() => {
        const scroller = document.querySelector(".scroller");
        return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 2;
      });
      const more = session.entries.length + 40;
      await until("forty more entries", () => session.entries.length > more);
      await drawn(page);
      assert.ok(await page.evaluate(() => {
        const scroller = document.querySelector(".scroller");
        return scroller.scrollHeight - scroller.scrollTop - scroller.clientHeight < 40;
      }), "it goes along with what comes");
      // A reader who comes back finds the place, also one whose entries are not loaded at first.
      it.place.world.open("coder", "Elsewhere", "elsewhere");
      for (const part of ["end", "beginning"]) {
        await page.locator(".scroller").hover();
        if (part === "beginning") {
          await page.keyboard.press("Escape");
          await page.locator(".earlier").getByRole("button", { name: "Beginning" }).evaluate((button) => button.click());
          await page.waitForFunction(() => document.querySelector(".earlier")?.textContent === "Beginning of the session");
          await drawn(page);
        }
        for (let at = 0; at < 5; at += 1) await page.mouse.wheel(0, part === "end" ? -300 : 250);
        await still(page, ".scroller");
        const left = await where();
        await page.evaluate(() => { location.hash = "#/sessions/elsewhere"; });
        await page.getByRole("heading", { level: 1, name: "Elsewhere" }).waitFor();
        await page.goBack();
        const settled = await page.waitForFunction(([row, top]) => {
          const found = document.querySelector(`.rows > article[aria-posinset="${row}"]`);
          return found !== null && Math.abs(found.getBoundingClientRect().top - top) <= 2;
        }, left, { timeout: 10_000 }).catch(() => undefined);
        assert.ok(settled, `${part}: ${left} became ${await where()}`);
        assert.equal(await page.locator("article.goal").count(), 0, "nothing is marked");
      }
      await clean(page, wrong);
    },
  },
  "connections-drop": {
    mock: true,
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Drops"));
      await send(page, "stream");
      const session = it.place.world.sessions.get("Drops");
      for (let at = 0; at < 8 && session.running !== ""; at += 1) {
        const known = session.entries.length;
        await until("more entries", () => session.entries.length > known + 3 || session.running === "");
        it.place.drop();
      }
      await ends(page, 1);
      assert.equal((await wholeText(page)).split("Here is what I found").length, 2);
      await clean(page, wrong);
    },
  },
  xss: {
    names: XSS.slice(0, 40),
    async run(it) {
      const { page, context, wrong } = await open(it, await fresh(it, "<img src=x onerror=window.pwned=1>"));
      await page.setInputFiles("input[type=file]", XSS.slice(0, 10).map((name) => ({ name: name.replaceAll("/", "_"), mimeType: "image/png", buffer: Buffer.from(name) })));
      await page.waitForFunction(() => document.querySelectorAll(".attached li.ready").length === 10);
      await send(page, "xss");
      await page.locator(".ended").waitFor({ timeout: 60_000 });
      await page.evaluate(() => document.activeElement.blur());
      await page.keyboard.press("w");
      // Through all of it, with each fold on the way opened.
      await page.evaluate(async () => {
        const scroller = document.querySelector(".scroller");
        scroller.scrollTop = 0;
        for (let still = 0; still < 4; ) {
          await new Promise((done) => setTimeout(done, 15));
          for (const fold of document.querySelectorAll(".rows .summary[aria-expanded=false]")) fold.click();
          for (const link of document.querySelectorAll(".rows a")) if (!/^(https?:|mailto:)/.test(link.getAttribute("href"))) window.pwned = link.outerHTML;
          const before = scroller.scrollTop;
          scroller.scrollTop = before + scroller.clientHeight * 0.7;
          still = Math.abs(scroller.scrollTop - before) < 1 ? still + 1 : 0;
        }
        for (const line of document.querySelectorAll(".wire .entry")) line.click();
      });
      assert.deepEqual(await page.evaluate(strangers), []);
      // And as names of sessions, agents and days.
      const { world } = it.place;
      if (world) {
        for (const text of XSS.slice(0, 60)) Object.assign(world.open(text, text, text), { cwd: text });
        world.hostile = XSS.slice(60);
      } else for (const text of XSS) await fresh(it, text);
      await send(page, "xss-asks");
      await page.locator(".dock .waiting").first().waitFor();
      for (const view of ["sessions", "agents", "usage", "inbox", "browsers", "search/onerror"]) {
        await page.evaluate((name) => {
          location.hash = `#/${name}`;
        }, view);
        await page.locator({ sessions: ".list li a", agents: ".card h2", usage: ".usage td, .usage .empty", inbox: ".inbox [data-request]", browsers: ".page h2", "search/onerror": ".results li" }[view]).first().waitFor();
        // Groups are named by agents and folders.
        for (const by of view === "sessions" ? ["folder", "agent"] : []) {
          await page.getByLabel("Groups").selectOption(by);
          await drawn(page);
          assert.deepEqual(await page.evaluate(strangers), [], by);
        }
        await drawn(page);
        await page.evaluate(() => document.querySelectorAll("details").forEach((each) => (each.open = true)));
        assert.deepEqual(await page.evaluate(strangers), [], view);
      }
      await page.evaluate(() => document.activeElement.blur());
      await page.keyboard.press("n");
      await page.waitForFunction(() => document.querySelectorAll("dialog option").length > 1);
      assert.deepEqual(await page.evaluate(strangers), []);
      await page.keyboard.press("Escape");
      await page.waitForFunction(() => !document.querySelector("dialog"));
      await page.keyboard.press("Control+k");
      await page.keyboard.type("onerror");
      await page.locator(".palette li", { hasText: "onerror" }).first().waitFor();
      assert.deepEqual(await page.evaluate(strangers), [], "the list of commands");
      assert.equal(context.pages().length, 1);
      await clean(page, wrong);
      return `${XSS.length} payloads`;
    },
  },
  hosts: {
    mock: true,
    async run(it) {
      const { world } = it.place;
      Object.assign(world.open("coder", "Far away", "far"), { host: "berlin-2" });
      for (const [colorScheme, width] of [["light", 1280], ["dark", 1280], ["light", 360], ["dark", 360]]) {
        world.hosts = [];
        const { page, wrong } = await open(it, "#/agents", { colorScheme, viewport: { width, height: 800 }, bypassCSP: true, reducedMotion: "reduce" });
        const tab = page.getByRole("link", { name: "Hosts" });
        await page.locator(".card h2").first().waitFor();
        assert.equal(await tab.count(), 0, "a daemon alone shows none");
        world.hosts = HOSTS;
        await page.evaluate(() => dispatchEvent(new Event("console:refresh")));
        await tab.getByRole("img", { name: "A host is lost" }).waitFor();
        await tab.focus();
        await page.keyboard.press("Enter");
        const cards = page.locator(".hosts .card");
        await cards.nth(2).waitFor();
        const [own, draining, lost] = await cards.allInnerTexts();
        for (const part of ["berlin-1", "this one", "up", "home", "zone=eu, rack=r12", "coder, reviewer"]) assert.ok(own.includes(part), `${part}: ${own}`);
        assert.match(draining, /draining[^]*3[^]*home, scratch/);
        assert.match(lost, /lost[^]*1 min 33 s ago/);
        assert.ok(!lost.includes("\u202e"), "what turns text is made visible");
        assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), width, "nothing is wider than the page");
        await page.evaluate(AXE);
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        assert.deepEqual(violations.filter((each) => ["serious", "critical"].includes(each.impact)).map((each) => `${each.id}: ${each.nodes[0].html}`), []);
        await page.evaluate(() => { location.hash = "#/sessions"; });
        await page.locator(".list li", { hasText: "Far away" }).getByText("berlin-2").waitFor();
        await page.evaluate(() => { location.hash = "#/sessions/far"; });
        await page.locator(".session .bar").getByText("berlin-2").waitFor();
        world.missing = ["berlin-2"];
        await page.evaluate(() => {
          location.hash = "#/sessions";
          dispatchEvent(new Event("console:refresh"));
        });
        await page.getByText("No answer of berlin-2").waitFor();
        world.missing = undefined;
        await clean(page, wrong);
        await page.context().close();
      }
    },
  },
  conversations: {
    mock: true,
    async run(it) {
      const { world } = it.place;
      world.open("coder", "Goes on already", "kept");
      const { page, wrong } = await open(it, "#/sessions", { bypassCSP: true, reducedMotion: "reduce" });
      const dialog = page.getByRole("dialog", { name: "New session" });
      const ask = async () => {
        await page.waitForFunction(() => !document.querySelector("dialog"));
        await page.evaluate(() => document.activeElement.blur());
        await page.keyboard.press("n");
        // By the keyboard only.
        await dialog.getByText("Continue a conversation of the agent").focus();
        await page.keyboard.press("Enter");
      };
      await ask();
      const group = dialog.getByRole("group", { name: "Conversation" });
      await group.getByRole("radio").nth(2).waitFor();
      assert.equal(await group.getByRole("radio").count(), 3);
      await group.getByRole("radio", { name: "A new one" }).focus();
      await page.keyboard.press("ArrowDown");
      assert.equal(await group.getByRole("radio", { name: /^Remember oak.*\/srv\/app · 1 h$/ }).isChecked(), true);
      await page.evaluate(AXE);
      const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
      assert.deepEqual(violations.map((each) => `${each.id}: ${each.nodes[0].html}`), []);
      await dialog.getByRole("button", { name: "Create" }).click();
      await page.waitForSelector(".session h1");
      const opened = () => world.sessions.get(new URL(page.url()).hash.split("/").at(-1));
      assert.equal(opened().native, "n-1");

      // One that a session continues opens that session.
      const count = world.sessions.size;
      await ask();
      await group.getByRole("radio", { name: /^n-2.*has a session, which opens$/ }).check();
      await dialog.getByRole("button", { name: "Create" }).click();
      await page.waitForFunction(() => !document.querySelector("dialog"));
      assert.equal(world.sessions.size, count);

      // Another agent has other ones: nothing stays chosen, and a refusal is shown.
      await ask();
      await group.getByRole("radio", { name: /^Remember oak/ }).check();
      await dialog.getByRole("combobox", { name: /^Agent/ }).selectOption("reviewer");
      await dialog.getByText("Continue a conversation of the agent").click();
      await dialog.getByText(/does not list its conversations/).waitFor();
      await dialog.getByRole("button", { name: "Create" }).click();
      await page.waitForFunction(() => !document.querySelector("dialog"));
      assert.equal(opened().native, undefined);
      // One that is not listed is continued by its id.
      await ask();
      await dialog.getByLabel("Id of a conversation").fill("n-77");
      await dialog.getByRole("button", { name: "Create" }).click();
      await page.waitForFunction(() => !document.querySelector("dialog"));
      assert.equal(opened().native, "n-77");
      await clean(page, wrong);
    },
  },
};
