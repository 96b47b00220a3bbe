// Finding: in a session, over all sessions, and by links to an entry.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fill } from "../mock/agent.mjs";
import { fresh } from "./basic.mjs";
import { PNG } from "../mock/material.mjs";
import { clean, copied, ends, open, send } from "./steps.mjs";

/** Waits until the bar shows a number, and a match with this text is marked where a person sees it. */
async function shown(page, status, text) {
  await page.waitForFunction(([number, words]) => {
    const [range] = CSS.highlights.get("find-current") ?? [];
    const box = document.querySelector(".scroller").getBoundingClientRect();
    const place = range?.getBoundingClientRect();
    return document.querySelector(".find [role=status]").textContent === number && range?.toString() === words && place.height > 0 && place.top >= box.top && place.bottom <= box.bottom + 1;
  }, [status, text]);
}

export const flows = {
  "find-in-session": {
    mock: true,
    async run(it) {
      fill(it.place.world.open("coder", "Long", "long"), 6000);
      const { page, wrong } = await open(it, "#/sessions/long");
      await page.waitForFunction(() => document.querySelector(".rows article:last-child .ended"));
      await page.focus("#input");
      await page.keyboard.press("Control+f");
      const field = page.getByRole("search", { name: "Find in the session" }).getByRole("textbox");
      await field.fill("WORDS,  part 3. chapter 77 ");
      // Markdown is found as it is drawn, also far out of sight.
      await shown(page, "1 of 1", "words, part 3. Chapter 77");
      assert.ok(await page.locator(".rows > article").count() < 80, "only what is near is drawn");
      await field.fill("chapter-150");
      await shown(page, "1 of 2", "chapter-150");
      for (const [key, status] of [["Enter", "2 of 2"], ["Enter", "1 of 2"], ["Shift+Enter", "2 of 2"], ["F3", "1 of 2"], ["Shift+F3", "2 of 2"]]) {
        await page.keyboard.press(key);
        await shown(page, status, "chapter-150");
      }
      // The second place is in the input of a call, which was folded.
      await page.getByText("/srv/book/chapter-150.md").waitFor();
      await field.fill("nothing of the kind");
      await page.getByText("No match").waitFor();
      // New entries count at once.
      await field.fill("mend the lexer");
      await page.getByText("No match").waitFor();
      it.place.world.sessions.get("long").add({ type: "output", content: "We **mend** the [lexer](https://x.example/) now: $\\frac{a_1}{b_2}$\n\n```ts\nconst spam = f(1);\n```\n" });
      await page.locator(".find [role=status]").getByText("1 of 1", { exact: true }).waitFor();
      // Over the tokens of code, and the parts of a formula as they are drawn.
      for (const words of ["const spam = f(1)", "now: a1b2"]) {
        await field.fill(words);
        await shown(page, "1 of 1", words);
      }
      await page.keyboard.press("Escape");
      await page.waitForFunction(() => document.activeElement?.id === "input" && !document.querySelector(".find") && !CSS.highlights.has("find"));
      await clean(page, wrong);
    },
  },
  "find-in-parts": {
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Parts"));
      await send(page, "work");
      await ends(page, 1);
      await send(page, "xss");
      await page.waitForFunction(() => Number(document.querySelector(".rows > article:last-child")?.ariaPosInSet) > 100 && document.querySelector(".rows > article:last-child .ended"));
      await page.keyboard.press("Control+k");
      await page.keyboard.type("find in");
      await page.keyboard.press("Enter");
      const field = page.getByRole("search", { name: "Find in the session" }).getByRole("textbox");
      await page.waitForFunction(() => document.activeElement?.closest(".find"));
      // In a thought, in a call's output with colours, in a change.
      for (const text of ["case_4 ... ok", "214 passed; 0 failed", "crlf_is_one_end", "end: self.at }"]) {
        await field.fill(text);
        await shown(page, "1 of 1", text);
      }
      // What an agent wrote to deceive is text here, too.
      await field.fill("<img src=x onerror=");
      await page.locator(".find [role=status]").getByText(/^1 of \d\d+/).waitFor();
      for (let at = 0; at < 5; at += 1) await page.keyboard.press("Enter");
      await page.locator(".find [role=status]").getByText(/^6 of \d+/).waitFor();
      await clean(page, wrong);
    },
  },
  "links-to-entries": {
    mock: true,
    async run(it) {
      fill(it.place.world.open("coder", "Long", "long"), 3000);
      const { page, wrong } = await open(it, "#/sessions/long/953");
      // The entry is marked and in view, and the page stays there.
      const goal = page.locator("article.goal");
      await goal.getByText("Question 51:").waitFor();
      await page.waitForFunction(() => document.querySelector("article.goal").getBoundingClientRect().top < 400);
      await page.goto(`${it.place.url}/#/sessions/long/41`);
      await page.locator("article.goal").getByText("Question 3:").waitFor();
      await goal.hover();
      await page.getByRole("button", { name: "This input" }).first().focus();
      await page.keyboard.press("Enter");
      await page.getByRole("menuitem", { name: "Copy the link" }).waitFor();
      await page.keyboard.press("Enter");
      await copied(page, /^http.*#\/sessions\/long\/\d+$/);
      await page.waitForFunction(() => document.activeElement?.getAttribute("aria-haspopup") === "menu");
      await page.getByRole("button", { name: "Copy the link" }).first().focus();
      await page.keyboard.press("Enter");
      await page.locator("[aria-label=Copied][title='Copy the link']").waitFor();
      await clean(page, wrong);
    },
  },
  "session-actions": {
    real: true,
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Before"));
      await send(page, "stream");
      await ends(page, 1);
      const act = async (name) => {
        await page.getByRole("button", { name: "Actions" }).click();
        await page.getByRole("menuitem", { name }).click();
      };
      await act("Rename");
      await page.getByRole("textbox", { name: "Title" }).fill("After <b>all</b>");
      await page.keyboard.press("Enter");
      await page.getByRole("heading", { level: 1, name: "After <b>all</b>" }).waitFor();
      await page.getByText("the session was renamed to “After <b>all</b>” by you").waitFor();
      await page.locator(".list li", { hasText: "After <b>all</b>" }).waitFor();
      for (const [name, suffix, text] of [["Export as Markdown", ".md", /mend the lexer/], ["Export as JSON lines", ".jsonl", /"type":"session.edited"/]]) {
        const [download] = await Promise.all([page.waitForEvent("download"), act(name)]);
        assert.equal(download.suggestedFilename(), `After _b_all__b_${suffix}`);
        assert.match(readFileSync(await download.path(), "utf8"), text);
      }
      await act("Archive");
      await page.locator(".bar .badge", { hasText: "archived" }).waitFor();
      await page.locator(".list li", { hasText: "After" }).waitFor({ state: "detached" });
      await act("Take out of the archive");
      await page.locator(".list li", { hasText: "After" }).waitFor();
      const source = page.url();
      // By keys only: from the end of a turn, and with the first input again.
      await page.getByRole("button", { name: "This turn" }).focus();
      for (const key of ["Enter", "ArrowDown", "Enter"]) await page.keyboard.press(key);
      await page.waitForFunction((url) => location.href !== url && document.querySelector(".ended"), source);
      const copy = page.url();
      await page.getByRole("heading", { level: 1, name: "Fork: After <b>all</b>" }).waitFor();
      await page.locator(".bubble").getByText("stream", { exact: true }).waitFor();
      await page.goto(source);
      await page.getByRole("button", { name: "This input" }).focus();
      for (const key of ["Enter", "End", "Enter"]) await page.keyboard.press(key);
      await page.waitForFunction((urls) => !urls.includes(location.href) && document.querySelector("#input")?.value === "stream", [source, copy]);
      assert.equal(await page.locator(".bubble").count(), 0, "the input is not in the copy");
      await page.press("#input", "Control+Enter");
      await ends(page, 1);
      await act("Remove the session");
      await page.getByRole("dialog").getByText("All that is kept of it is deleted").waitFor();
      await page.keyboard.press("Escape");
      await act("Close the session");
      await page.getByRole("button", { name: "Close it" }).click();
      await page.getByText("This session is closed. It can be read.").waitFor();
      await act("Remove the session");
      await page.getByRole("button", { name: "Remove it" }).click();
      await page.waitForFunction(() => location.hash === "#/sessions");
      await page.waitForFunction(() => document.querySelectorAll(".list li").length === 2);
      // A session that another party removes is not called closed, and the text that was not sent can be copied.
      await page.goto(copy);
      await page.locator(".ended").waitFor();
      await page.fill("#input", "not sent yet");
      await fetch(`${it.place.url}/v1/sessions/${copy.split("/").pop()}?remove=true`, { method: "DELETE", headers: { Authorization: `Bearer ${it.place.token}` } });
      await page.getByText("This session was removed.").waitFor();
      for (const again of [false, true]) {
        if (again) await page.reload();
        await page.locator(".bar .state").getByText(again ? "not found" : "removed", { exact: true }).waitFor();
        await page.getByRole("button", { name: "Copy your text" }).click();
        await copied(page, /^not sent yet$/);
        assert.equal(await page.locator("#input, .bar button, .row-menu").count(), 0, "nothing can be done with it");
      }
      await page.getByText("There is no session with this id.").waitFor();
      await clean(page, wrong);
    },
  },
  "search-sessions": {
    mock: true,
    async run(it) {
      const { world } = it.place;
      const hostile = '<img src=x onerror="window.pwned=1"> needle <b>';
      const old = world.open("coder", "The oldest one", "oldest");
      for (const content of ["first", `A ${hostile}`]) {
        old.add({ type: "turn.begin", turn_id: content, message_id: content, content, by: "l-1" });
        old.add({ type: "turn.complete", turn_id: content, status: "completed" });
      }
      for (let at = 0; at < 60; at += 1) world.open("coder", `Session ${at}`, `many-${at}`);
      Object.assign(world, { searchStep: 10 });
      const release = world.holdSearch(30);
      const { page, wrong } = await open(it, "#/sessions");
      await page.getByRole("link", { name: "Search all sessions" }).click();
      const field = page.getByRole("searchbox", { name: "Search all sessions" });
      await field.fill("needle");
      // How far it is, and no word of nothing before the end.
      await page.getByText("Searched 30 sessions of 61 …").waitFor();
      release();
      await page.getByText("1 match in 1 session.").waitFor();
      assert.equal(await page.getByText("Nothing fits").count(), 0);
      assert.equal(await page.locator("mark").innerText(), "needle");
      await page.getByText(hostile).waitFor();
      await page.keyboard.press("Enter");
      await page.locator("article.goal").getByText(hostile).waitFor();
      assert.equal(new URL(page.url()).hash, "#/sessions/oldest/5");
      await page.goBack();
      await page.getByText("1 match in 1 session.").waitFor();
      assert.equal(await field.inputValue(), "needle");
      // Another text ends the search before it; a search can be stopped, and goes on.
      const on = world.holdSearch(20);
      await field.fill("nowhere at all");
      await page.getByText("Searched 20 sessions of 61 …").waitFor();
      await page.getByRole("button", { name: "Stop" }).click();
      await page.getByText(/Not all was searched/).waitFor();
      on();
      await page.getByRole("button", { name: "Search on" }).click();
      await page.getByText("Nothing fits.").waitFor();
      assert.equal(world.searches.at(-1), "?q=nowhere+at+all&after=60");
      // The palette finds it, too, and leads to the whole search.
      await page.keyboard.press("Control+k");
      await page.keyboard.type("needle");
      await page.locator(".palette li mark").waitFor();
      await page.locator(".palette li", { hasText: 'pwned=1"> needle <b>' }).waitFor();
      await page.keyboard.press("ArrowUp");
      await page.locator(".palette li[aria-selected=true]", { hasText: "Search all sessions for “needle”" }).waitFor();
      await page.keyboard.press("ArrowUp");
      await page.keyboard.press("Enter");
      await page.locator("article.goal").getByText(hostile).waitFor();
      await page.keyboard.press("Control+k");
      await page.keyboard.type("nothing at all");
      await page.getByText("Nothing fits.").waitFor();
      await clean(page, wrong);
    },
  },
  "search-real": {
    real: true,
    async run(it) {
      const hash = await fresh(it, "Hay");
      const { page, wrong } = await open(it, hash);
      await send(page, "stream of the needle");
      await ends(page, 1);
      await page.goto(`${it.place.url}/#/search/OFF%20BY%20ONE`);
      await page.locator("mark", { hasText: "off by one" }).first().waitFor();
      await page.getByText("1 match in 1 session.").waitFor();
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Enter");
      await page.locator("article.goal").getByText("off by one").waitFor();
      await clean(page, wrong);
    },
  },
  "new-session": {
    mock: true,
    async run(it) {
      const { world } = it.place;
      world.open("coder", "Before").cwd = "/srv/books/second";
      const { page, wrong } = await open(it, "#/sessions");
      await page.getByRole("button", { name: "New session" }).first().click();
      const dialog = page.getByRole("dialog", { name: "New session" });
      // Folders, models and modes are those that the daemon and the last session of the agent had.
      await dialog.getByText("in /srv/app, in /srv/books").waitFor();
      await page.waitForFunction(() => [...document.querySelectorAll("#folders option")].map((each) => each.value).join() === "/srv/app,/srv/books,/srv/books/second");
      await dialog.locator("label.field:has(> span:text-is(\"Mode\")) select").selectOption("plan");
      await dialog.getByLabel("Folder").fill("/etc");
      await dialog.getByLabel("First message").fill("stream of files");
      // A message that was begun is there again.
      await page.keyboard.press("Escape");
      await page.getByRole("button", { name: "New session" }).first().click();
      await page.waitForFunction(() => document.querySelector("dialog textarea")?.value === "stream of files");
      await dialog.locator("label.field:has(> span:text-is(\"Mode\")) select").selectOption("plan");
      await dialog.getByLabel("Folder").fill("/etc");
      await dialog.getByLabel("Attached files").setInputFiles([{ name: "a.png", mimeType: "image/png", buffer: PNG }, { name: "big.bin", mimeType: "", buffer: Buffer.alloc(120_000, 1) }]);
      await dialog.getByText("120 kB, more than the 100 kB that coder takes").waitFor();
      await dialog.locator(".attached img").waitFor();
      await dialog.getByRole("button", { name: "Create" }).click();
      await dialog.getByText("Remove the files that cannot be sent.").waitFor();
      await dialog.getByRole("button", { name: "Remove big.bin" }).click();
      await dialog.getByRole("button", { name: "Create" }).click();
      await dialog.getByText("Not allowed: /etc is no folder").waitFor();
      await page.waitForFunction(() => document.activeElement.textContent === "Create");
      await dialog.getByLabel("Folder").fill("/srv/books/third");
      await dialog.getByRole("button", { name: "Create" }).click();
      await ends(page, 1);
      await page.locator(".bar").getByText("/srv/books/third").waitFor();
      assert.equal(world.sessions.size, 2, "no session was made in vain");
      await page.locator(".file.in img").waitFor({ state: "attached" });
      // The limit holds in a session, too, and nothing is sent.
      await page.setInputFiles(".composer input[type=file]", [{ name: "big.bin", mimeType: "", buffer: Buffer.alloc(120_000, 1) }]);
      await page.locator(".attached .failed").getByText("120 kB, more than the 100 kB that coder takes").waitFor();
      await send(page, "with a file");
      await page.getByText("A file cannot be sent. Remove it to send the message without it.").waitFor();
      assert.deepEqual([await page.inputValue("#input"), await page.locator(".sent, .bubble").count()], ["with a file", 1]);
      await page.getByRole("button", { name: "Remove big.bin" }).click();
      await page.press("#input", "Control+Enter");
      await page.locator(".bubble").getByText("with a file").waitFor();
      await page.evaluate(() => document.activeElement.blur());
      await page.keyboard.press("n");
      await page.waitForFunction(() => document.querySelector("dialog textarea")?.value === "", undefined, { timeout: 5000 });
      await page.keyboard.press("Escape");
      await clean(page, wrong);
    },
  },
};
