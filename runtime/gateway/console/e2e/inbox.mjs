// What waits over all sessions, and how it reaches a person.
import assert from "node:assert/strict";
import { entries, fresh } from "./basic.mjs";
import { clean, drawn, ends, open, send, until } from "./steps.mjs";

const headers = (token) => ({ Authorization: `Bearer ${token}`, "Content-Type": "application/json" });

/** Says something in a session as a program does. */
async function say({ place }, hash, content) {
  const answer = await fetch(`${place.url}/v1/sessions/${hash.split("/").pop()}/inputs`, { method: "POST", headers: { ...headers(place.token), "Idempotency-Key": crypto.randomUUID() }, body: JSON.stringify({ content }) });
  assert.equal(answer.status, 202);
}

/** Answers the open request of a session, by another token. */
export async function decide({ place }, hash, token, answer) {
  const path = `${place.url}/v1/sessions/${hash.split("/").pop()}`;
  const { requests } = await (await fetch(path, { headers: headers(token) })).json();
  const response = await fetch(`${path}/requests/${requests[0]}`, { method: "POST", headers: headers(token), body: JSON.stringify(answer) });
  assert.equal(response.status, 200);
}

const nameOf = async (url, token) => (await (await fetch(`${url}/v1/me`, { headers: headers(token) })).json()).name.replace(/^t-/, "");
const items = (page, count) => page.waitForFunction((many) => document.querySelectorAll(".inbox [data-request]").length === many, count);
/** The title of the item that has the focus; the focus is never lost. */
const focused = (page) => page.evaluate(() => document.activeElement.closest("[data-item]")?.querySelector("a.title").textContent ?? document.activeElement.tagName);

export const flows = {
  inbox: {
    real: true,
    async run(it) {
      const hashes = [];
      for (const title of ["First", "Second", "Third"]) {
        const hash = await fresh(it, title);
        hashes.push(hash);
        await say(it, hash, title === "Third" ? "question" : "ask");
        await until(`${title} asks`, async () => (await entries(it, hash)).some((entry) => entry.type.endsWith(".request")));
      }
      const { page, wrong } = await open(it, "#/inbox");
      await items(page, 3);
      await page.waitForFunction(() => document.title === "(3) Inbox · trunkline");
      await page.getByRole("link", { name: "Inbox 3 waiting" }).waitFor();
      assert.deepEqual(await page.locator(".inbox li a.title").allTextContents(), ["First", "Second", "Third"], "the longest wait is first");
      // Keys that come in the same moment as the focus answer nothing.
      await page.evaluate(() => {
        for (const key of ["j", "a", "d"]) document.activeElement.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
      });
      await drawn(page);
      assert.equal(await focused(page), "First");
      const decided = async (hash) => (await entries(it, hash)).filter((entry) => entry.type === "request.decided");
      assert.equal((await decided(hashes[0])).length, 0);
      const later = () => page.waitForFunction(() => performance.now() - Number(document.activeElement.dataset.shown) > 520);
      await later();
      await page.keyboard.press("a");
      await items(page, 2);
      assert.equal(await focused(page), "Second", "the next one has the focus");
      assert.equal((await decided(hashes[0]))[0].option_id, "once", "a key allows once");
      await page.locator(".decided li", { hasText: "First" }).getByText(/allowed by you at/).waitFor();
      // Another party answers: it closes, and says who.
      const other = it.place.another();
      await decide(it, hashes[1], other, { approved: false });
      await items(page, 1);
      await page.locator(".decided li", { hasText: "Second" }).getByText(new RegExp(`denied by token ${await nameOf(it.place.url, other)} at`)).waitFor();
      assert.equal(await focused(page), "Third");
      await page.waitForFunction(() => document.title === "(1) Inbox · trunkline");
      const card = page.getByRole("region", { name: "Question" });
      await card.getByLabel("America").check();
      await card.getByRole("button", { name: "Answer", exact: true }).click();
      await items(page, 0);
      await page.waitForFunction(() => document.title === "Inbox · trunkline" && document.activeElement !== document.body);
      await page.getByText("Deployed to us.").waitFor({ state: "detached" });
      // The one that ended is news; Enter opens it.
      const ended = page.locator('section[aria-label="Ended since you looked"] li', { hasText: "Third" });
      await ended.waitFor();
      await ended.focus();
      await page.keyboard.press("Enter");
      await page.getByText("Deployed to us.").waitFor();
      await clean(page, wrong);
    },
  },
  "inbox-news": {
    async run(it) {
      const [bad, good] = [await fresh(it, "Bad"), await fresh(it, "Good")];
      const { page, wrong } = await open(it, bad);
      await ends(page, 0);
      await page.locator(".mark-line").first().waitFor();
      await page.goto(`${it.place.url}/#/inbox`);
      await say(it, bad, "crash");
      await say(it, good, "stream");
      const failed = page.locator('section[aria-label="Failed"] li', { hasText: "Bad" });
      await failed.getByText("The last turn failed: process ended: the adapter was killed by signal 9").waitFor();
      await page.locator('section[aria-label="Ended since you looked"] li', { hasText: "Good" }).getByText("completed").waitFor();
      await page.keyboard.press("j");
      assert.equal(await focused(page), "Bad");
      await page.keyboard.press("e");
      await failed.waitFor({ state: "detached" });
      assert.equal(await focused(page), "Good");
      await page.keyboard.press("e");
      await page.getByText("Nothing waits for you.").waitFor();
      assert.notEqual(await page.evaluate(() => document.activeElement.tagName), "BODY");
      await page.goto(`${it.place.url}/#/sessions`);
      const state = page.locator(".list li", { hasText: "Bad" }).locator(".state");
      await state.getByText(/^failed/).first().waitFor();
      assert.match(await state.getAttribute("title"), /^The last turn failed: process ended: the adapter was killed/);
      // It is known after a reload, too, from the entries; and a turn that completes clears it.
      await page.reload();
      await page.goto(`${it.place.url}/${bad}`);
      await page.locator(".bar .state", { hasText: "failed" }).waitFor();
      await send(page, "stream");
      await ends(page, 2);
      await page.locator(".bar .state-idle").waitFor();
      await page.locator(".list .state-failed").waitFor({ state: "detached" });
      // The agent's last turn failed: it is not fine.
      await say(it, bad, "crash");
      await page.locator(".bar .state-failed").waitFor();
      await page.getByRole("link", { name: "Agents" }).click();
      const card = page.getByRole("region", { name: "Coder" });
      await card.getByText(/^The last turn failed: process ended/).waitFor({ timeout: 10_000 }).catch(async () => assert.fail(await card.innerText()));
      assert.equal(await card.getByText("fine").count(), 0);
      await card.locator(".state-failed").waitFor();
      // The page of agents knows it, too, if it is the first one that is opened.
      await page.reload();
      await card.getByText(/^The last turn failed: process ended/).waitFor();
      await page.goto(`${it.place.url}/#/nothing`);
      await page.getByRole("heading", { name: "There is no such view" }).waitFor();
      await clean(page, wrong);
    },
  },
  notifications: {
    real: true,
    async run(it) {
      const [ask, crash, own] = [await fresh(it, "Asks <b>"), await fresh(it, "Crashes"), await fresh(it, "Own")];
      const { page, context, wrong } = await open(it, "#/inbox");
      await context.grantPermissions(["notifications", "clipboard-read", "clipboard-write"]);
      // Real notifications, and a list of them.
      await context.addInitScript(() => {
        const Real = window.Notification;
        window.notified = [];
        window.Notification = class extends Real {
          constructor(title, options) {
            super(title, options);
            window.notified.push({ title, body: options.body, at: Date.now(), it: this });
            this.addEventListener("close", () => (this.isClosed = true));
          }
          close() {
            this.isClosed = true;
            super.close();
          }
        };
        window.hide = (hidden) => {
          Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
          document.dispatchEvent(new Event("visibilitychange"));
        };
      });
      await page.reload();
      const second = await context.newPage();
      await second.addInitScript(([key, value]) => sessionStorage.setItem(key, value), ["trunkline.token", it.place.token]);
      await second.goto(`${it.place.url}/${own}`);
      await second.locator(".composer").waitFor();
      await page.getByRole("group", { name: "Notify of" }).getByLabel("ended turns").check();
      for (const each of [page, second]) await each.evaluate(() => window.hide(true));
      const all = async () => (await Promise.all([page, second].map((each) => each.evaluate(() => window.notified.map(({ title, body, at, it }) => ({ title, body, at, isClosed: it.isClosed === true })))))).flat();
      const found = async (count) => {
        await until(`${count} notifications`, async () => (await all()).length >= count);
        return all();
      };
      await say(it, ask, "ask");
      const [first] = await found(1);
      assert.deepEqual([first.title, first.body], ["Asks <b>", "needs an answer: Bash rm -r /srv/app/logs"]);
      const asked = (await entries(it, ask)).find((entry) => entry.type === "permission.request");
      const took = first.at - Date.parse(asked.time);
      // An entry's time has whole seconds.
      assert.ok(took < 3000, `${took} ms`);
      await page.waitForFunction(() => document.title.startsWith("(1)"));
      await second.waitForFunction(() => document.title.startsWith("(1)"));
      // A click leads to the request.
      for (const each of [page, second]) await each.evaluate(() => window.notified[0]?.it.onclick());
      await until("the request", async () => (await Promise.all([page, second].map((each) => each.evaluate(() => location.hash)))).some((hash) => hash.startsWith("#/inbox/")));
      // It closes when another answers. What ends and fails is told, once for both pages.
      await decide(it, ask, it.place.another(), { approved: true });
      await until("closed", async () => (await all())[0].isClosed);
      await found(2);
      await say(it, crash, "crash");
      const three = await found(3);
      assert.deepEqual(three.map((each) => each.body).sort(), ["failed: process ended: the adapter was killed by signal 9; its last words: out of memory", "has ended", "needs an answer: Bash rm -r /srv/app/logs"]);
      // A session that a page in sight shows needs none.
      await second.evaluate(() => window.hide(false));
      await second.goto(`${it.place.url}/${own}`);
      await send(second, "ask");
      await second.locator(".waiting").waitFor();
      await second.getByRole("button", { name: "Allow", exact: true }).click();
      await ends(second, 1);
      await drawn(second);
      assert.equal((await all()).length, 3);
      await clean(page, wrong);
      return `request to notification within ${took} ms`;
    },
  },
  "installed-app": {
    mock: true,
    async run(it) {
      const hash = await fresh(it, "Phone");
      const { page, context, wrong } = await open(it, "#/sessions");
      const cdp = await context.newCDPSession(page);
      const { errors } = await cdp.send("Page.getAppManifest");
      assert.deepEqual(errors, []);
      // A context of its own has no place to install to.
      const { installabilityErrors } = await cdp.send("Page.getInstallabilityErrors");
      assert.deepEqual(installabilityErrors.map((each) => each.errorId).filter((id) => id !== "in-incognito"), []);
      // A browser of a phone has notifications of a service worker only.
      await context.grantPermissions(["notifications", "clipboard-read", "clipboard-write"]);
      await context.addInitScript(() => {
        const { permission } = Notification;
        window.Notification = Object.assign(function () {
          throw new TypeError("Illegal constructor");
        }, { permission, requestPermission: () => Promise.resolve(permission) });
      });
      await page.reload();
      await page.locator(".list li a").first().waitFor();
      await until("one stream", () => it.place.world.followers.size === 1);
      await say(it, hash, "ask");
      const shown = () => page.evaluate(async () => (await (await navigator.serviceWorker.getRegistration())?.getNotifications() ?? []).map(({ title, body, data }) => ({ title, body, data })));
      await until("a notification", async () => (await shown()).length === 1);
      const [{ title, body, data }] = await shown();
      assert.deepEqual([title, body], ["Phone", "needs an answer: Bash rm -r /srv/app/logs"]);
      const [worker] = context.serviceWorkers();
      await worker.evaluate(async () => {
        const [notification] = await self.registration.getNotifications();
        self.dispatchEvent(new NotificationEvent("notificationclick", { notification }));
      });
      await page.waitForFunction((goal) => location.hash === goal, data);
      await page.waitForFunction(() => document.activeElement.matches("[data-request]"));
      await page.getByRole("button", { name: "Allow", exact: true }).click();
      await until("closed", async () => (await shown()).length === 0);
      await clean(page, wrong);
    },
  },
  "one-stream-for-all-pages": {
    mock: true,
    async run(it) {
      const { world } = it.place;
      const hash = await fresh(it, "Shared");
      const { page, context, wrong } = await open(it, "#/sessions");
      await until("one stream", () => world.followers.size === 1);
      const pages = [page];
      for (let at = 0; at < 2; at += 1) {
        const other = await context.newPage();
        await other.addInitScript(([key, value]) => sessionStorage.setItem(key, value), ["trunkline.token", it.place.token]);
        await other.goto(`${it.place.url}/#/sessions`);
        pages.push(other);
      }
      const states = () => Promise.all(pages.map((each) => each.locator(".list li", { hasText: "Shared" }).locator(".state").getByText("needs an answer").waitFor()));
      await pages[2].locator(".list li", { hasText: "Shared" }).waitFor();
      await say(it, hash, "ask");
      await states();
      assert.equal(world.followers.size, 1);
      // The page that reads the stream is closed: another one goes on, without a new snapshot.
      await page.close();
      pages.shift();
      await until("one stream", () => world.followers.size === 1);
      const { requests } = world.sessions.get("Shared");
      await fetch(`${it.place.url}/v1/sessions/Shared/requests/${[...requests.keys()][0]}`, { method: "POST", headers: headers(it.place.token), body: JSON.stringify({ approved: true }) });
      await Promise.all(pages.map((each) => each.waitForFunction(() => document.title === "trunkline" && document.querySelectorAll(".list .state-asks").length === 0)));
      await clean(pages[0], wrong);
    },
  },
  "without-the-stream": {
    mock: true,
    async run(it) {
      it.place.world.noChanges = true;
      const hash = await fresh(it, "Polled");
      const { page, wrong } = await open(it, "#/inbox");
      await say(it, hash, "ask");
      await items(page, 1);
      await page.waitForFunction(() => document.title.startsWith("(1)"));
      await page.getByRole("button", { name: "Allow", exact: true }).click();
      await items(page, 0);
      assert.deepEqual(wrong, []);
    },
  },
  "search-of-old-sessions": {
    mock: true,
    async run(it) {
      const { world } = it.place;
      world.lookedAt = 50;
      world.open("coder", "The oldest of all");
      for (let at = 1; at <= 240; at += 1) world.open("coder", `Newer ${at}`);
      const { page, wrong } = await open(it, "#/sessions");
      await page.locator(".list li a").first().waitFor();
      await page.fill("#search", "oldest of");
      await page.locator(".list li a", { hasText: "The oldest of all" }).waitFor();
      await page.fill("#search", "nothing like it");
      await page.getByText("No session fits.").waitFor();
      await page.keyboard.press("Control+k");
      await page.keyboard.type("oldest of");
      await page.locator(".palette li", { hasText: "The oldest of all" }).waitFor();
      await page.keyboard.press("Escape");
      // A search that is slow can be cancelled.
      world.slow = 30_000;
      await page.fill("#search", "oldest");
      await page.getByText(/^Searching older sessions/).waitFor();
      await page.getByRole("button", { name: "Cancel" }).click();
      await page.getByText("Older sessions were not searched.").waitFor();
      assert.equal(await page.getByText("No session fits.").count(), 0);
      await clean(page, wrong);
    },
  },
  "first-run": {
    mock: true,
    async run(it) {
      const { page, wrong } = await open(it, "#/sessions");
      await page.getByRole("heading", { name: "Start your first session" }).waitFor();
      await page.getByText(/it ends at once with status 2.*: error: config.model: missing/).waitFor();
      assert.equal(await page.getByRole("button", { name: "Start a session with Batch" }).getAttribute("class"), "");
      await page.getByText("trunkline doctor").waitFor();
      await page.getByRole("button", { name: "Start a session with Reviewer" }).click();
      await page.getByRole("dialog", { name: "New session" }).getByRole("button", { name: "Create" }).click();
      await page.locator(".bar").getByText("reviewer").waitFor();
      await clean(page, wrong);
      // Without an agent the page of the agents has the next step.
      it.place.world.bare = true;
      const bare = await open(it, "#/agents");
      await bare.page.getByText("This daemon has no agent yet.").waitFor();
      await bare.page.getByText("trunkline config add codex").waitFor();
      assert.equal(await bare.page.locator(".bone").count(), 0);
      await clean(bare.page, bare.wrong);
    },
  },
};
