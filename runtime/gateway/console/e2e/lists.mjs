// The list of sessions with groups and pins, and several requests that get one answer.
import assert from "node:assert/strict";
import { scrollList } from "./basic.mjs";
import { clean, drawn, open, until } from "./steps.mjs";

const DAY = 86_400_000;

/** Sessions of some days, the newest ones last. */
function days(world, count) {
  const now = Date.now();
  for (let at = count - 1; at >= 0; at -= 1) {
    const session = world.open(at % 3 ? "coder" : "reviewer", `Session ${at}`, `s-${at}`);
    session.cwd = at % 2 ? "/srv/app" : "/srv/books";
    session.active = session.created = new Date(now - Math.floor(at / 40) * DAY - at).toISOString();
  }
}

const headings = (page) => page.locator(".list h2").allInnerTexts().then((all) => all.map((text) => text.replace(/\s+/g, " ").trim()));
const rows = (page, count) => page.waitForFunction((many) => document.querySelectorAll(".list li a").length === many, count);

export const flows = {
  "groups-and-pins": {
    mock: true,
    async run(it) {
      const { world } = it.place;
      days(world, 250);
      let release;
      world.meHeld = new Promise((done) => { release = done; });
      const { page, wrong } = await open(it, "#/sessions");
      const keys = page.keyboard;
      const group = (name) => page.getByRole("list", { name });
      // Days. A number is shown only of a day to which no later page can add.
      await rows(page, 100);
      // The list is there before the page knows its token, and stays.
      await page.evaluate(() => new MutationObserver(() => {
        if (!document.querySelector(".list li a")) window.emptied = true;
      }).observe(document.querySelector(".list"), { childList: true, subtree: true }));
      release();
      await until("the stream", () => world.followers.size === 1);
      await page.getByRole("link", { name: "Inbox" }).waitFor();
      await drawn(page);
      assert.equal(await page.evaluate(() => window.emptied), undefined);
      assert.deepEqual((await headings(page)).slice(0, 2), ["Today 40 sessions", "Yesterday 40 sessions"]);
      assert.match((await headings(page)).at(-1), /^\D+$/, "sessions of that day may follow");
      await scrollList(page, 250);
      assert.match((await headings(page)).at(-1), /^\D+\d+ sessions$/);
      // The heading of the rows in sight stays, and hides no row that a key goes to.
      await page.locator(".list .groups").evaluate((list) => list.scrollTo(0, 400));
      const sticks = await page.evaluate(() => document.querySelector(".list h2").getBoundingClientRect().top - document.querySelector(".list .groups").getBoundingClientRect().top);
      assert.ok(Math.abs(sticks) < 1, `the heading is at ${sticks}`);
      await page.evaluate(() => { location.hash = "#/sessions/s-39"; });
      await page.getByRole("heading", { level: 1, name: "Session 39" }).waitFor();
      for (const [key, title] of [["j", "Session 40"], ["k", "Session 39"]]) {
        await keys.press(key);
        await page.getByRole("heading", { level: 1, name: title, exact: true }).waitFor();
      }
      // From below a row comes into sight under the heading, and not behind it.
      await page.locator(".list .groups").evaluate((list) => list.scrollTo(0, list.querySelector('a[href$="/s-38"]').offsetTop + 30));
      await keys.press("k");
      await page.getByRole("heading", { level: 1, name: "Session 38" }).waitFor();
      assert.ok(await page.evaluate(() => document.querySelector('.list a[href$="/s-38"]').getBoundingClientRect().top >= document.querySelector(".list h2").getBoundingClientRect().bottom - 1));
      // A pin by key, by menu, and of a session that the first page does not have.
      await keys.press("p");
      await group("Pinned").getByText("Session 38").waitFor();
      await page.locator(".list [role=status]", { hasText: "Pinned: Session 38" }).waitFor({ state: "attached" });
      await page.evaluate(() => { location.hash = "#/sessions/s-249"; });
      await page.getByRole("heading", { level: 1, name: "Session 249" }).waitFor();
      await page.getByRole("button", { name: "Actions" }).click();
      await page.getByRole("menuitem", { name: "Pin at the top of the list" }).click();
      await group("Pinned").getByRole("listitem").nth(1).waitFor();
      await page.getByLabel("Groups").selectOption("agent");
      await page.reload();
      // Both are remembered. What is not loaded belongs to any agent, so no number is shown, and nothing is loaded unasked.
      await group("Pinned").getByRole("listitem").nth(1).waitFor();
      assert.deepEqual(await group("Pinned").locator(".title").allTextContents(), ["Session 38", "Session 249"]);
      await page.getByText("The groups have the 100 sessions that were active last.").waitFor();
      await page.locator(".list .groups").evaluate((list) => list.scrollTo(0, list.scrollHeight));
      await drawn(page);
      assert.deepEqual(await headings(page), ["Pinned 2 sessions", "coder", "reviewer"]);
      await rows(page, 101);
      for (const count of [201, 250]) {
        await page.getByRole("button", { name: "Load more" }).click();
        await rows(page, count);
      }
      assert.equal(await page.getByRole("button", { name: "Load more" }).count(), 0);
      assert.deepEqual((await headings(page)).slice(1), ["coder 165 sessions", "reviewer 83 sessions"]);
      // A filter holds for pinned ones, too; and the key acts on the row that has the focus, which keeps it.
      await page.fill("#search", "session 24");
      await rows(page, 11);
      await group("Pinned").getByRole("link").focus();
      await keys.press("p");
      await group("Pinned").waitFor({ state: "detached" });
      await page.waitForFunction(() => document.activeElement.getAttribute("href") === "#/sessions/s-249");
      await page.getByLabel("Groups").selectOption("folder");
      await page.waitForFunction(() => [...document.querySelectorAll(".list h2")].map((each) => each.textContent).join() === "/srv/app5 sessions,/srv/books6 sessions");
      // No event has the folder of a new session.
      await page.fill("#search", "");
      await rows(page, 100);
      world.open("coder", "A new one", "new").cwd = "/srv/new";
      await group("/srv/new").getByText("A new one").waitFor();
      await page.getByLabel("Groups").selectOption("none");
      await page.waitForFunction(() => [...document.querySelectorAll(".list h2 .name")].map((each) => each.textContent).join() === "Pinned,Other sessions");
      await clean(page, wrong);
    },
  },
  "answer-several": {
    mock: true,
    async run(it) {
      const { world } = it.place;
      const session = world.open("coder", "Several", "several");
      session.add({ type: "turn.begin", turn_id: "t", content: "go" });
      session.turn = "t";
      const ask = (id, more = {}) => {
        session.requests.set(id, () => undefined);
        session.add({ type: "permission.request", turn_id: "t", request_id: id, tool: "Write", resource: `/srv/${id}.rs`, options: [{ id: "always", label: "Always", kind: "allow_always" }, { id: "once", label: "Once", kind: "allow_once" }], ...more });
      };
      for (const id of ["r1", "r2", "r3"]) ask(id);
      session.requests.set("q", () => undefined);
      session.add({ type: "input.request", turn_id: "t", request_id: "q", prompt: "Where?", fields: [{ id: "where", label: "Where", kind: "text" }] });
      const { page, wrong } = await open(it, "#/sessions/several");
      const decided = () => session.entries.map((line) => JSON.parse(line)).filter((entry) => entry.type === "request.decided").map((entry) => `${entry.request_id} ${entry.approved} ${entry.option_id ?? ""}`);
      const readable = () => page.waitForFunction((from) => performance.now() - from > 600, dialogAt);
      const keys = page.keyboard;
      let dialogAt;
      // A press that comes right behind the one that opens the dialog, before it is drawn or with its first frame, allows
      // nothing. The page itself presses: a busy machine brings keys late.
      const dialog = page.getByRole("dialog", { name: "Allow these 3 requests?" });
      const confirm = dialog.getByRole("button", { name: "Allow all 3" });
      await page.getByRole("button", { name: "Allow these 3…" }).focus();
      await page.evaluate(async () => {
        document.activeElement.click();
        for (let at = 0; at < 1000 && !document.querySelector("dialog .allow"); at += 1) await Promise.resolve();
        document.querySelector("dialog .allow").click();
        await new Promise((done) => requestAnimationFrame(() => done(document.querySelector("dialog .allow").click())));
      });
      await drawn(page);
      assert.deepEqual([decided(), await confirm.isEnabled()], [[], true]);
      // A press that was meant for the dialog answers nothing of what it covered.
      await page.waitForFunction(() => !document.querySelector(".dock [aria-disabled]"));
      const settling = page.waitForFunction(() => !document.querySelector("dialog") && document.querySelectorAll(".dock .actions[aria-disabled]").length === 4);
      await keys.press("Escape");
      await settling;
      // Nor does a key that is held down.
      await keys.down("Enter");
      await confirm.waitFor();
      dialogAt = await page.evaluate(() => performance.now());
      await readable();
      await keys.down("Enter");
      await keys.up("Enter");
      await drawn(page);
      assert.deepEqual([decided(), await confirm.isEnabled()], [[], true]);
      assert.deepEqual(await dialog.getByRole("listitem").allInnerTexts(), ["Write /srv/r1.rs", "Write /srv/r2.rs", "Write /srv/r3.rs"]);
      // One comes later, and one is decided by another party: neither is answered.
      ask("r4");
      session.requests.delete("r2");
      session.add({ type: "request.decided", turn_id: "t", request_id: "r2", approved: false, by: "ann/t-1/l-9" });
      await page.locator('.waiting[data-request="r4"]').waitFor();
      await keys.press("Enter");
      await page.getByText("You allowed 2 of 3 requests. 1 was decided elsewhere before.").waitFor();
      await dialog.waitFor({ state: "detached" });
      assert.deepEqual(decided(), ["r2 false ", "r1 true once", "r3 true once"], "each once, and never for always");
      await until("two wait", () => session.requests.size === 2);
      // The inbox has the same for the requests of one session, and never takes a question.
      const other = world.open("coder", "Other", "other");
      other.add({ type: "turn.begin", turn_id: "t", content: "go" });
      other.requests.set("o1", () => undefined);
      other.add({ type: "permission.request", turn_id: "t", request_id: "o1", tool: "Bash", resource: "ls" });
      ask("r5");
      await page.goto(`${it.place.url}/#/inbox`);
      await page.getByRole("button", { name: "Deny these 2…" }).click();
      const denial = page.getByRole("dialog", { name: "Deny these 2 requests?" });
      await denial.getByText("/srv/r5.rs").waitFor();
      dialogAt = await page.evaluate(() => performance.now());
      await readable();
      await denial.getByRole("button", { name: "Deny both" }).click();
      await page.getByText("You denied 2 requests.").waitFor();
      assert.deepEqual([decided().slice(3), [...session.requests.keys()], other.requests.size], [["r4 false ", "r5 false "], ["q"], 1]);
      assert.equal(await page.getByRole("button", { name: /these/ }).count(), 0);
      // A token that may not approve gets no button.
      world.mayApprove = false;
      ask("r6");
      ask("r7");
      await page.goto(`${it.place.url}/#/sessions/several`);
      await page.reload();
      await page.getByText("3 requests wait").waitFor();
      await page.getByText("This token may not answer permissions.").first().waitFor();
      assert.equal(await page.getByRole("button", { name: /these/ }).count(), 0);
      await clean(page, wrong);
    },
  },
};
