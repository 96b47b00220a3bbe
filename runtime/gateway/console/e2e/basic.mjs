// The flows of a person's day.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { PROSE } from "../mock/agent.mjs";
import { PNG } from "../mock/material.mjs";
import { clean, copied, ends, open, send, toBeginning, until, valueIs, wholeText } from "./steps.mjs";

export const flows = {
  "list-and-keys": {
    mock: true,
    async run(it) {
      for (let at = 1; at <= 130; at += 1) it.place.world.open("coder", `Session number ${at}`);
      const { page, wrong } = await open(it, "#/sessions");
      await scrollList(page, 130);
      await page.keyboard.press("/");
      await page.keyboard.type("number 12");
      await page.waitForFunction(() => document.querySelectorAll(".list li a").length === 11);
      await page.fill("#search", "agent:reviewer");
      await page.getByText("No session fits.").waitFor();
      await page.fill("#search", "agent:coder 12");
      await page.waitForFunction(() => document.querySelectorAll(".list li a").length === 12);
      await page.keyboard.press("Escape");
      await page.keyboard.press("j");
      const title = page.getByRole("heading", { level: 1, name: /^Session number/ });
      await title.waitFor();
      const first = await title.textContent();
      await page.keyboard.press("j");
      await page.waitForFunction((before) => document.querySelector(".session h1")?.textContent !== before, first);
      await page.keyboard.press("k");
      await page.waitForFunction((before) => document.querySelector(".session h1")?.textContent === before, first);
      await page.keyboard.press("?");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
      await page.keyboard.press("Escape");
      await page.waitForFunction(() => !document.querySelector("dialog"));
      await page.keyboard.press("n");
      await page.getByRole("dialog", { name: "New session" }).getByLabel("First message").fill("stream");
      await page.keyboard.press("Control+Enter");
      await ends(page, 1);
      await page.evaluate(() => document.activeElement.blur());
      await page.keyboard.press("n");
      await page.getByLabel("Title").fill("A title of its own");
      // The field is a list once the agents are known.
      await page.locator("dialog select", { has: page.locator("option[value=small-1]") }).selectOption("small-1");
      await page.getByRole("button", { name: "Create" }).click();
      await page.waitForFunction(() => !document.querySelector("dialog") && !document.querySelector(".ended"));
      await page.getByRole("heading", { level: 1, name: "A title of its own" }).waitFor();
      await clean(page, wrong);
    },
  },
  stream: {
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Stream"));
      await send(page, "stream");
      await page.getByText("Thought").waitFor();
      await ends(page, 1);
      await page.getByRole("heading", { level: 1, name: "Stream" }).waitFor();
      const said = await page.locator(".prose").allInnerTexts();
      assert.match(said.join("\n"), /The lexer reads \\r\\n as two ends of line/);
      assert.equal(await page.locator(".prose table td").count(), 9);
      assert.equal(await page.locator(".prose a").first().getAttribute("rel"), "noopener noreferrer nofollow");
      await page.getByRole("button", { name: /Thought/ }).click();
      await page.getByText("then at the spans.").first().waitFor();
      await page.getByRole("button", { name: "Copy code" }).click();
      assert.equal(await copied(page, /^fn next/), /```rust\n([^]*?)\n```/.exec(PROSE)[1]);
      assert.equal(await page.locator("figure.code code").textContent(), /```rust\n([^]*?)\n```/.exec(PROSE)[1], "what was drawn in pieces is the whole");
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        const colours = await page.evaluate(() => ["code", ".s-keyword", ".s-type", ".s-name"].map((style) => getComputedStyle(document.querySelector(`figure.code ${style}`)).color));
        assert.equal(new Set(colours).size, 4, `${colorScheme}: ${colours}`);
      }
      // Formulas are drawn by the browser, and sums of money are text.
      const formulas = await page.locator(".prose math").evaluateAll((all) => all.map((each) => [each.textContent, each.namespaceURI, each.getBoundingClientRect().width > 5]));
      assert.deepEqual(formulas, ["n", "O(nlogn)", "T(n)=∑i=1nlog2ii≤∫0nlogxdx"].map((text) => [text, "http://www.w3.org/1998/Math/MathML", true]));
      const height = (selector) => page.locator(selector).first().evaluate((it) => it.getBoundingClientRect().height);
      assert.ok(await height(".prose mfrac") > 1.5 * await height(".prose mfrac mi"), "a fraction is drawn as one");
      assert.match(await page.locator(".prose").first().innerText(), /for \$5 or \$10 a month/);
      await page.locator(".ended .line").hover();
      await page.getByRole("button", { name: "Copy the answer" }).click();
      assert.equal(await copied(page, /^Here is what I found/), PROSE.trim());
      await clean(page, wrong);
    },
  },
  "stop-and-steer": {
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Slow"));
      await send(page, "slow");
      await page.getByText("word3").waitFor();
      await page.getByRole("button", { name: "Steer" }).first().click();
      await send(page, "and be brief");
      await page.locator(".badge", { hasText: "steer" }).waitFor();
      await page.getByRole("button", { name: "Steer", exact: true }).first().click();
      await send(page, "stream");
      await page.locator(".tray li", { hasText: "stream" }).getByText("queued").waitFor();
      await page.getByRole("button", { name: "Stop the turn" }).click();
      await page.locator(".ended.stopped").waitFor();
      await page.locator(".ended.completed").waitFor();
      await page.getByRole("button", { name: "Put back in the input" }).click();
      await valueIs(page, "#input", "slow");
      await clean(page, wrong);
    },
  },
  permission: {
    async run(it) {
      const hash = await fresh(it, "Ask");
      const { page, wrong } = await open(it, hash);
      const other = await open(it, hash);
      await send(page, "ask");
      await page.getByText("rm -r /srv/app/logs").first().waitFor();
      await page.waitForFunction(() => document.title.startsWith("(1)"));
      assert.equal(await page.evaluate(() => document.activeElement.closest(".waiting")), null, "nothing is chosen beforehand");
      await page.locator(".progress").getByText("waits for you").waitFor();
      const listed = other.page.locator('.list a[aria-current="page"] .state');
      await listed.getByText("needs an answer").waitFor();
      await other.page.locator(".waiting").waitFor();
      await other.page.getByRole("button", { name: "More" }).click();
      await other.page.getByPlaceholder(/With a denial/).fill("keep them");
      await other.page.getByRole("button", { name: "Deny", exact: true }).click();
      await page.getByText(/denied: Deny by you at/).waitFor();
      await page.getByText("I left them alone. keep them").waitFor();
      await listed.getByText("needs an answer").waitFor({ state: "detached" });
      assert.equal(await page.locator(".waiting").count(), 0);
      await send(page, "ask");
      await page.locator(".waiting").waitFor();
      await other.page.locator(".waiting").waitFor();
      // The button of the one who comes second may be gone.
      await Promise.any([page, other.page].map((each) => each.getByRole("button", { name: "Allow", exact: true }).click()));
      await page.getByText(/allowed: Allow by you at/).waitFor();
      assert.equal(await page.getByText(/allowed: Allow by/).count(), 1);
      await ends(page, 2);
      await clean(page, wrong);
      await clean(other.page, other.wrong);
    },
  },
  question: {
    async run(it) {
      const hash = await fresh(it, "Question");
      const { page, wrong } = await open(it, hash);
      await send(page, "question");
      const card = page.getByRole("region", { name: "Question" });
      await card.locator("label", { hasText: "Europe" }).getByText("agent's default").waitFor();
      await card.getByLabel("America").check();
      await card.getByLabel("Token").fill("hidden words");
      assert.equal(await card.getByLabel("Token").getAttribute("type"), "password");
      await card.getByLabel("Copies").fill("three");
      await card.getByRole("button", { name: "Answer", exact: true }).click();
      await page.getByText("Copies is not a number").waitFor();
      await card.getByLabel("Copies").fill("3");
      await card.getByLabel("beta").check();
      // What was typed is there again in the inbox, and behind it.
      for (const view of ["#/inbox", hash]) {
        await page.evaluate((to) => { location.hash = to; }, view);
        await page.locator(view === hash ? ".dock .waiting" : ".inbox .waiting").waitFor();
        assert.deepEqual([await card.getByLabel("Token").inputValue(), await card.getByLabel("Copies").inputValue(), await card.getByLabel("beta").isChecked(), await card.getByLabel("America").isChecked()], ["hidden words", "3", true, true], view);
      }
      await card.getByRole("button", { name: "Answer", exact: true }).click();
      await page.getByText("Deployed to us.").waitFor();
      assert.doesNotMatch(await page.content(), /hidden words/);
      const decided = (await entries(it, hash)).find((entry) => entry.type === "request.decided");
      assert.deepEqual(decided.values, { where: "us", token: { redacted: true }, copies: 3, dry: false, tags: ["b"] });
      await clean(page, wrong);
    },
  },
  "work-seen": {
    async run(it) {
      const { page, context, wrong } = await open(it, await fresh(it, "Work"));
      await send(page, "work");
      await ends(page, 1);
      const image = page.locator(".file img");
      await image.waitFor();
      await page.waitForFunction(() => document.querySelector(".file img").naturalWidth === 480);
      assert.match(await image.getAttribute("src"), /^blob:/);
      const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save timings.csv" }).click()]);
      assert.equal(download.suggestedFilename(), "timings.csv");
      assert.equal(readFileSync(await download.path(), "utf8"), "case,before,after\nlf,214,208\n");
      await toBeginning(page);
      await page.locator(".diff").first().waitFor();
      assert.equal(await page.locator(".diff tr.add").count() > 3, true);
      await page.getByRole("button", { name: /Bash cargo test/ }).click();
      await page.locator(".t-fg-2", { hasText: "ok" }).first().waitFor();
      assert.equal(context.pages().length, 1);
      await clean(page, wrong);
    },
  },
  files: {
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Files"));
      await page.setInputFiles("input[type=file]", [{ name: "one.txt", mimeType: "text/plain", buffer: Buffer.from("first") }, { name: "sent.png", mimeType: "image/png", buffer: PNG },
        { name: "notes.md", mimeType: "text/markdown", buffer: Buffer.from("# Notes\n\n<img src=x onerror=window.pwned=1>") },
        { name: "evil.svg", mimeType: "image/svg+xml", buffer: Buffer.from('<svg xmlns="http://www.w3.org/2000/svg" width="40" height="40" onload="window.pwned=1"><script>window.pwned=1</script><image href="https://evil.example/x.png" width="9" height="9"/><rect width="40" height="40"/></svg>') }]);
      const give = (kind) => page.evaluate((type) => {
        const data = new DataTransfer();
        data.items.add(new File(["second"], `${type}.txt`, { type: "text/plain" }));
        const [target, event] = type === "paste"
          ? [document.querySelector("#input"), new ClipboardEvent("paste", { clipboardData: data, bubbles: true, cancelable: true })]
          : [document.querySelector(".composer"), new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true })];
        target.dispatchEvent(event);
      }, kind);
      await give("paste");
      await give("drop");
      await page.waitForFunction(() => document.querySelectorAll(".attached li.ready").length === 6);
      await page.waitForFunction(() => document.querySelector(".attached img")?.naturalWidth === 480);
      await page.getByRole("button", { name: "Remove paste.txt" }).click();
      await send(page, "stream");
      await ends(page, 1);
      await toBeginning(page);
      await page.getByText("one.txt").waitFor();
      await page.getByText("to the agent").nth(4).waitFor();
      assert.equal(await page.getByText("to the agent").count(), 5);
      // What was sent comes back, also after a reload.
      await page.reload();
      await page.locator(".rows > article").first().waitFor();
      await toBeginning(page);
      await page.waitForFunction(() => document.querySelector(".file.in img")?.naturalWidth === 480);
      const [download] = await Promise.all([page.waitForEvent("download"), page.getByRole("button", { name: "Save one.txt" }).click()]);
      assert.equal(readFileSync(await download.path(), "utf8"), "first");
      await page.getByRole("button", { name: "Actions" }).click();
      await page.getByRole("menuitem", { name: "Files of the session" }).click();
      const list = page.getByRole("dialog", { name: "Files of the session" });
      await list.getByRole("button", { name: /^Save/ }).nth(4).waitFor();
      await list.getByRole("button", { name: "Show notes.md" }).click();
      const notes = page.getByRole("dialog", { name: "notes.md" });
      await notes.getByRole("heading", { name: "Notes", exact: true }).waitFor();
      assert.equal(await notes.locator(".file-view img, .file-view script").count(), 0);
      await notes.getByRole("button", { name: "Source" }).click();
      await notes.getByLabel("Line numbers").check();
      assert.equal(await notes.locator(".numbered pre").first().innerText(), "1\n2\n3");
      await page.keyboard.press("Escape");
      await list.getByRole("button", { name: "Show evil.svg" }).click();
      const svg = page.getByRole("dialog", { name: "evil.svg" });
      await page.waitForFunction(() => document.querySelector(".file-view > img")?.naturalWidth === 40);
      await svg.getByRole("button", { name: "Source" }).click();
      await svg.getByText("window.pwned=1").waitFor();
      await page.keyboard.press("Escape");
      await page.keyboard.press("Escape");
      await page.waitForFunction(() => !document.querySelector("dialog"));
      await clean(page, wrong);
    },
  },
  "wire-and-settings": {
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Wire"));
      await send(page, "stream");
      await ends(page, 1);
      await page.evaluate(() => document.activeElement.blur());
      await page.keyboard.press("w");
      await page.getByLabel("Filter entries").fill("type:turn -complete");
      await page.waitForFunction(() => document.querySelectorAll(".wire .entry").length === 1);
      await page.locator(".wire .entry").click();
      await page.locator(".detail").getByText('"type": "turn.begin"').waitFor();
      await page.getByRole("button", { name: "Copy this entry" }).click();
      assert.equal(JSON.parse(await copied(page, /^\{/)).type, "turn.begin");
      await page.getByRole("button", { name: "Settings of the session" }).click();
      await page.getByRole("dialog").getByLabel("Model").selectOption("small-1");
      await page.getByRole("button", { name: "Apply" }).click();
      await page.locator(".bar").getByText("small-1").waitFor();
      await page.getByRole("button", { name: "Actions" }).click();
      await page.getByRole("menuitem", { name: "Close the session" }).click();
      await page.getByRole("button", { name: "Close it" }).click();
      await page.getByText("This session is closed. It can be read.").waitFor();
      await clean(page, wrong);
    },
  },
  views: {
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Measured"));
      await send(page, "stream");
      await ends(page, 1);
      await page.getByText(/first words after \d/).waitFor();
      await page.getByRole("link", { name: "Agents" }).click();
      const card = page.getByRole("region", { name: "Coder" });
      await card.getByText("first words after").waitFor();
      assert.equal(await card.locator(".plot").count(), 4);
      assert.equal(await card.getByRole("button", { name: "Restart" }).count(), 0, "the token has no scope for it");
      await card.getByText("Diagnosis and log").click();
      await card.getByRole("button", { name: "Copy the command" }).first().click();
      await copied(page, /^trunkline doctor coder$/);
      await page.getByRole("button", { name: "Start a session with Reviewer" }).click();
      await page.waitForFunction(() => document.querySelector("dialog select")?.value === "reviewer");
      await page.keyboard.press("Escape");
      await page.getByRole("link", { name: "Sessions of Reviewer" }).click();
      await page.getByText("No session fits.").waitFor();
      await valueIs(page, "#search", "agent:reviewer");
      await page.goBack();
      await page.getByRole("link", { name: "Sessions of Coder" }).click();
      await page.locator(".list li a", { hasText: "Measured" }).waitFor();
      // The log of what was used is written behind the turn.
      const used = async () => (await (await fetch(`${it.place.url}/v1/usage?days=7`, { headers: { Authorization: `Bearer ${it.place.token}` } })).json()).days.length;
      await until("usage of the turn", async () => (await used()) > 0);
      await page.getByRole("link", { name: "Usage" }).click();
      await page.locator(".bars rect").first().waitFor();
      await page.getByRole("button", { name: "7 days" }).click();
      await page.getByRole("button", { name: "tokens" }).click();
      await page.getByRole("cell", { name: "coder" }).waitFor();
      // A fault goes soon after its cause, and the sign needs no daemon.
      await page.route("**/v1/usage?*", (route) => route.abort());
      await page.getByRole("button", { name: "90 days" }).click();
      await page.getByRole("alert").getByText("the daemon is not reachable").waitFor();
      await page.unroute("**/v1/usage?*");
      await page.getByRole("alert").waitFor({ state: "detached", timeout: 10_000 });
      assert.equal(await page.locator(".brand img").count(), 0);
      await page.getByRole("button", { name: /^Theme/ }).click();
      assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "light");
      await clean(page, wrong);
    },
  },
  "reload-in-mid-stream": {
    async run(it) {
      const hash = await fresh(it, "Reload");
      const { page, wrong } = await open(it, hash);
      await send(page, "stream");
      await page.waitForSelector(".prose");
      await page.reload();
      await page.waitForSelector(".prose");
      await page.reload();
      await ends(page, 1);
      const text = await wholeText(page);
      assert.equal(text.split("Here is what I found").length, 2, "nothing is doubled");
      assert.equal(text.split("mend the lexer").length, 2);
      assert.equal((await entries(it, hash)).filter((entry) => entry.type === "turn.begin").length, 1);
      assert.ok(PROSE.length > 500);
      await clean(page, wrong);
    },
  },
};

/** Scrolls the list down until it has so many rows. */
export const scrollList = (page, count) => page.waitForFunction((many) => {
  const list = document.querySelector(".list .groups");
  list.scrollTop = list.scrollHeight;
  return document.querySelectorAll(".list li a").length === many;
}, count);

/** All entries of the session of a page. */
export async function entries({ place }, hash) {
  const found = [];
  for (let next = 1; next; ) {
    const answer = await fetch(`${place.url}/v1/sessions/${hash.split("/").pop()}/history?from=${next}&limit=1000`, { headers: { Authorization: `Bearer ${place.token}` } });
    const part = await answer.json();
    found.push(...part.entries);
    next = part.next;
  }
  return found;
}

/** A new session, and the address of its page. */
export async function fresh({ place }, title, agent = "coder") {
  if (place.world) {
    place.world.open(agent, title, title);
    return `#/sessions/${encodeURIComponent(title)}`;
  }
  const answer = await fetch(`${place.url}/v1/sessions`, { method: "POST", headers: { Authorization: `Bearer ${place.token}`, "Content-Type": "application/json" }, body: JSON.stringify({ agent, options: { title } }) });
  assert.equal(answer.status, 201);
  return `#/sessions/${encodeURIComponent((await answer.json()).id)}`;
}
