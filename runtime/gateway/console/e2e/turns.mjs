// Turns: inputs that wait, plans, and what stands beside the input.
import assert from "node:assert/strict";
import { XSS } from "../mock/material.mjs";
import { fresh } from "./basic.mjs";
import { decide } from "./inbox.mjs";
import { clean, copied, doubleAllow, drawn, ends, open, send, until, valueIs, wholeText, withoutHeadline } from "./steps.mjs";

export const flows = {
  "queued-inputs": {
    async run(it) {
      const hash = await fresh(it, "Queue");
      const { page, wrong } = await open(it, hash);
      const tray = page.getByRole("list", { name: "Inputs that wait" });
      await send(page, "slow");
      await page.getByText("word3").waitFor();
      await page.setInputFiles("input[type=file]", [{ name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("notes") }]);
      await page.locator(".attached li.ready").waitFor();
      for (const text of ["stream the first", `second ${"long ".repeat(100)}`, `third ${XSS[0]}`]) await send(page, text);
      await page.waitForFunction(() => [...document.querySelectorAll(".tray li")].filter((each) => each.innerText.startsWith("queued")).length === 3);
      assert.match(await tray.getByRole("listitem").first().innerText(), /stream the first[^]*notes\.txt[^]*you/);
      // The running answer is one piece, and what waits is not in the transcript.
      assert.equal(await page.locator(".bubble").count(), 1);
      assert.equal(await page.locator(".rows .prose").count(), 1);
      // Another page sees the tray, and withdraws.
      const other = await open(it, hash);
      await other.page.locator(".tray li").nth(2).waitFor();
      await other.page.locator(".tray li", { hasText: "third" }).getByRole("button", { name: "Withdraw" }).press("Enter");
      await other.page.locator(".tray li", { hasText: "third" }).waitFor({ state: "detached" });
      await drawn(other.page);
      assert.ok(await other.page.evaluate(() => document.activeElement.closest(".tray li")?.textContent.includes("second")), "the focus stays among what waits");
      await page.locator(".tray li", { hasText: "third" }).waitFor({ state: "detached" });
      // Edit brings text and files back, once it does not wait any more.
      await tray.getByRole("listitem").filter({ hasText: "stream the first" }).getByRole("button", { name: "Edit" }).click();
      await page.waitForFunction(() => document.querySelector("#input").value === "stream the first");
      await page.locator(".attached li", { hasText: "notes.txt" }).waitFor();
      await page.fill("#input", "stream again");
      await page.locator(".composer .primary").click();
      await tray.getByRole("listitem").filter({ hasText: "stream again" }).getByText("queued").waitFor();
      await page.getByRole("button", { name: "Stop the turn" }).click();
      await page.waitForFunction(() => !document.querySelector(".tray, .composer .stop"));
      const text = await wholeText(page);
      const order = ["slow", "word3", "a queued input was withdrawn: “third", "a queued input was withdrawn: “stream the first", "stopped", "second long", "mend the lexer", "stream again", "notes.txt", "mend the lexer"];
      let at = -1;
      for (const part of order) {
        const next = text.indexOf(part, at + 1);
        assert.ok(next > at, `${part} behind ${at}: ${text.slice(0, 3000)}`);
        at = next;
      }
      await clean(page, wrong);
      await clean(other.page, other.wrong);
    },
  },
  "withdrawn-too-late": {
    mock: true,
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Late"));
      const session = it.place.world.sessions.get("Late");
      await send(page, "slow");
      await page.getByText("word3").waitFor();
      await send(page, "slow again");
      const button = page.locator(".tray li").getByRole("button", { name: "Edit" });
      await button.waitFor();
      // The turn begins to run while the request is on its way.
      await page.route("**/stop", async (route) => {
        session.stopper.abort("stop");
        await until("the second turn", () => session.turns === 2);
        await route.continue();
      });
      await button.click();
      await page.getByText("It ran already, so it was not withdrawn").waitFor();
      await page.waitForFunction(() => document.querySelectorAll(".ended.stopped").length === 2);
      assert.equal(await page.inputValue("#input"), "", "nothing is put back");
      assert.equal(await page.getByText("a queued input was withdrawn").count(), 0);
      await drawn(page);
      await clean(page, wrong);
    },
  },
  "approvals": {
    async run(it) {
      const hash = await fresh(it, "Approvals");
      const { page, wrong } = await open(it, hash);
      await send(page, "ask");
      const card = page.getByRole("region", { name: "Permission: Run rm -r /srv/app/logs" });
      await card.locator("header strong").getByText("Run rm -r /srv/app/logs").waitFor();
      assert.equal(await card.locator(".resource").count(), 0, "the headline has all of it");
      await card.getByRole("button", { name: "More" }).click();
      await card.getByRole("button", { name: "Edit the input…" }).click();
      const form = card.getByRole("form", { name: "Edit the input" });
      await form.getByRole("button", { name: "Allow with this input" }).click();
      await form.getByText("nothing is changed").waitFor();
      await form.getByLabel("command").fill("ls /srv/app/logs");
      await form.getByRole("button", { name: "Allow with this input" }).click();
      await page.getByText("I ran ls /srv/app/logs instead.").waitFor();
      await page.getByText(/allowed with another input.* by you at/).waitFor();
      await page.getByRole("button", { name: "Input as it was changed" }).click();
      await page.locator(".request .inside").getByText("ls /srv/app/logs").waitFor();
      // A rule is shown before it is kept, and removed at the agents.
      await send(page, "ask");
      await card.getByRole("button", { name: "More" }).click();
      await card.getByRole("button", { name: "Allow from now on…" }).click();
      await card.getByText("Bash(rm -r /srv/app/logs)").waitFor();
      await card.getByRole("button", { name: "Back" }).click();
      await card.getByRole("button", { name: "More" }).waitFor();
      await card.getByRole("button", { name: "Allow from now on…" }).click();
      await card.getByRole("button", { name: "Allow, and keep the rule" }).click();
      await page.getByText("Such requests are allowed from now on:").waitFor();
      await page.goto(`${it.place.url}/#/agents`);
      const rules = page.getByRole("region", { name: "Lasting rules" });
      await rules.getByText("Bash(rm -r /srv/app/logs)").waitFor();
      await rules.getByRole("button", { name: /^Remove the rule/ }).click();
      await rules.waitFor({ state: "detached" });
      // An edit stays while the reader is elsewhere, also in the inbox, and can be copied when another page decides.
      await page.goto(`${it.place.url}/${hash}`);
      await send(page, "ask");
      await card.getByRole("button", { name: "More" }).click();
      await card.getByRole("button", { name: "Edit the input…" }).click();
      await form.getByLabel("command").fill("ls /srv/other");
      for (const view of ["#/inbox", hash, "#/inbox"]) {
        await page.evaluate((to) => { location.hash = to; }, view);
        await page.locator(view === hash ? ".dock .waiting" : ".inbox .waiting").waitFor();
        assert.equal(await form.getByLabel("command").inputValue(), "ls /srv/other", view);
      }
      await decide(it, hash, it.place.token, { approved: false });
      await page.getByText("decided by you in another page. Your text was not used.").waitFor();
      await page.getByRole("button", { name: "Copy your text" }).click();
      await copied(page, /^ls \/srv\/other$/);
      await page.goto(`${it.place.url}/${hash}`);
      await ends(page, 3);
      await send(page, "ask");
      await card.getByRole("button", { name: "More" }).click();
      await card.getByLabel("What to tell the agent with a denial").fill("rather not");
      await decide(it, hash, it.place.token, { approved: true });
      await page.getByText("You, in another page, allowed: Run rm -r /srv/app/logs. Your text was not used.").waitFor();
      await clean(page, wrong);
    },
  },
  "several-requests": {
    mock: true,
    async run(it) {
      const session = it.place.world.open("coder", "Several", "several");
      session.add({ type: "turn.begin", turn_id: "t", content: "go" });
      for (let at = 1; at <= 5; at += 1) {
        session.add({ type: "permission.request", turn_id: "t", request_id: `r${at}`, tool: "Write", title: `/srv/${at}.rs`, description: `/srv/${at}.rs`, resource: `/srv/${at}.rs`, input: { file_path: `/srv/${at}.rs`, content: "x" } });
        session.requests.set(`r${at}`, () => undefined);
      }
      session.requests.delete("r5");
      session.entries.pop();
      session.add({ type: "permission.request", turn_id: "t", request_id: "r5", tool: "Bash", title: XSS[0], description: XSS[1], resource: XSS[2], input: { [XSS[3]]: XSS[4], list: [XSS[5]] } });
      session.requests.set("r5", () => undefined);
      const { page, wrong } = await open(it, "#/sessions/several");
      await page.getByText("5 requests wait").waitFor();
      const seen = (request) => page.waitForFunction((id) => {
        const card = document.querySelector(`.waiting[data-request="${id}"]`).getBoundingClientRect();
        const dock = document.querySelector(".dock").getBoundingClientRect();
        return card.top >= dock.top && card.top < dock.bottom - 40;
      }, request);
      for (const at of [5, 3, 1]) {
        await page.getByRole("button", { name: `Request ${at} of 5` }).click();
        await seen(`r${at}`);
        assert.equal(await page.evaluate(() => document.activeElement.dataset.request), `r${at}`);
      }
      const hostile = page.locator('.waiting[data-request="r5"]');
      await hostile.getByRole("button", { name: "More" }).click();
      await hostile.getByRole("button", { name: "Edit the input…" }).click();
      assert.equal(await hostile.locator("textarea").first().inputValue(), XSS[4]);
      await hostile.locator("textarea").nth(1).fill("[");
      await hostile.getByRole("button", { name: "Allow with this input" }).click();
      await hostile.getByText("list is not JSON").waitFor();
      // The path is said once.
      assert.equal((await page.locator('.waiting[data-request="r1"]').innerText()).split("/srv/1.rs").length, 2);
      // Another party decides: the card goes, and its name is said.
      session.requests.delete("r2");
      session.add({ type: "request.decided", turn_id: "t", request_id: "r2", approved: false, by: "ann/t-1/l-9", name: "Anna" });
      await page.getByText("Anna (ann) denied: Write /srv/2.rs").waitFor();
      await page.getByText("4 requests wait").waitFor();
      // Buttons are never in sight without what they answer, and a double click answers one request.
      await page.getByRole("button", { name: "Close the notice" }).click();
      await page.setViewportSize({ width: 1280, height: 657 });
      assert.deepEqual(await withoutHeadline(page), []);
      assert.equal(await doubleAllow(page, "r1"), "r3", "the next card is under the pointer");
      await page.goto(`${it.place.url}/#/inbox`);
      await page.setViewportSize({ width: 390, height: 844 });
      await page.locator(".inbox .waiting").nth(2).waitFor();
      assert.deepEqual(await withoutHeadline(page), []);
      assert.equal(await doubleAllow(page, "r3"), "r4", "the next item is under the pointer");
      await drawn(page);
      assert.deepEqual([...session.requests.keys()], ["r4", "r5"]);
      await page.locator('.waiting[data-request="r4"]').getByRole("button", { name: "Deny", exact: true }).click();
      await until("an answer of a card that rests", () => session.requests.size === 1);
      await clean(page, wrong);
    },
  },
  "beside-the-input": {
    async run(it) {
      const { page, wrong } = await open(it, await fresh(it, "Beside"));
      // The plan of the running turn stays in sight.
      await send(page, "planned");
      const line = page.locator(".plan-line");
      await line.getByRole("button", { name: "2 of 3: mend the parser" }).click();
      assert.deepEqual(await line.locator("li").allInnerTexts(), ["read the test done", "mend the parser in work", "run the tests"]);
      await page.getByRole("button", { name: "Stop the turn" }).click();
      await line.waitFor({ state: "detached" });
      // Choices take effect at once.
      await page.getByRole("combobox", { name: "Model" }).selectOption("small-1");
      await page.locator(".bar").getByText("small-1").waitFor();
      await page.getByRole("combobox", { name: "Mode", exact: true }).selectOption("plan");
      await page.locator(".bar").getByText("plan", { exact: true }).waitFor();
      await page.getByRole("combobox", { name: "Effort" }).selectOption("high");
      await page.waitForFunction(() => document.querySelector("select[aria-label=Effort]").value === "high");
      await page.route("**/settings", (route) => route.fulfill({ status: 422, contentType: "application/problem+json", body: JSON.stringify({ status: 422, detail: "mode: not this one" }) }));
      await page.getByRole("combobox", { name: "Mode", exact: true }).selectOption("code");
      await page.getByText("It was not changed: mode: not this one").waitFor();
      assert.equal(await page.getByRole("combobox", { name: "Mode", exact: true }).inputValue(), "plan", "what is in force is shown");
      // Commands, by keys only.
      const field = page.locator("#input");
      await field.focus();
      await page.keyboard.type("/");
      const commands = page.getByRole("listbox", { name: "Commands of the agent" });
      await commands.getByRole("option").nth(2).waitFor();
      assert.equal(await commands.getByRole("option").count(), 3);
      assert.equal(await field.getAttribute("aria-activedescendant"), "completion-0");
      await page.keyboard.press("ArrowDown");
      await commands.locator("[aria-selected=true]", { hasText: /compact[^]*smaller/ }).waitFor();
      await page.keyboard.press("Escape");
      await commands.waitFor({ state: "detached" });
      await valueIs(page, "#input", "/");
      await page.keyboard.type("rev");
      await commands.getByText("/review").waitFor();
      await page.keyboard.press("Enter");
      await valueIs(page, "#input", "/review ");
      assert.equal(await page.locator(".bubble").count(), 1, "Enter chose, and did not send");
      await field.fill("");
      await page.keyboard.type("/<im");
      await page.keyboard.press("Tab");
      await valueIs(page, "#input", "<b>bold</b> ");
      // Paths that the session has seen.
      await field.fill("work");
      await page.locator(".composer .primary").click();
      await ends(page, 2);
      await field.focus();
      await page.keyboard.type("Look at @pars");
      await page.getByRole("listbox", { name: "Files of this session" }).getByRole("option", { name: "/srv/app/src/parser.rs" }).click();
      await valueIs(page, "#input", "Look at @/srv/app/src/parser.rs ");
      await page.waitForFunction(() => document.activeElement.id === "input");
      await clean(page, wrong);
    },
  },
};
