// Ways into the page: a file, a code, a token; and what lasts of them.
import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { fresh } from "./basic.mjs";
import { launchIn } from "./browser.mjs";
import { ends, send, until, useDist } from "./steps.mjs";

const AXE = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const AGENT = "Mozilla/5.0 (Linux; Android 16) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/150.0.0.0 Mobile Safari/537.36";

const shown = (page) => page.getByRole("navigation", { name: "Sessions" }).waitFor();
const code = (page) => page.getByRole("form", { name: "Pair this browser" });

/** A page of a browser that was paired by the file of `trunkline open`. */
async function opened(context, place) {
  const page = await context.newPage();
  await page.goto(`file://${place.handover()}`);
  await shown(page);
  return page;
}

/** Answers the question of the terminal, and gives what it shows. */
async function decide(place, id, confirm) {
  let state;
  await until("a browser sends the code", async () => (state = await place.ask("GET", `/v1/pairing/${id}`)).state === "claimed");
  await place.ask("POST", `/v1/pairing/${id}`, { confirm });
  return state;
}

/** All that scripts of the page can read in its stores. */
const stored = (page) => page.evaluate(async () => {
  const names = (await indexedDB.databases()).map((each) => each.name);
  const database = await new Promise((done) => (indexedDB.open("trunkline").onsuccess = (event) => done(event.target.result)));
  const record = await new Promise((done) => (database.transaction("browser").objectStore("browser").get("this").onsuccess = (event) => done(event.target.result)));
  database.close();
  const key = record && (await crypto.subtle.exportKey("pkcs8", record.key).then(() => "exported", (error) => error.name));
  return { names, key, text: JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, { ...record, key: undefined }]) };
});

export const flows = {
  "sign-in": {
    real: true,
    async run({ browser, place }) {
      const context = await useDist(await browser.newContext());
      const page = await context.newPage();
      await page.goto(place.url);
      await page.getByText("Use a token").click();
      const sign = async (token, stays) => {
        await page.getByLabel("Pair this browser, with").setChecked(stays);
        await page.fill("input[name=token]", token);
        await page.keyboard.press("Enter");
      };
      for (const stays of [true, false]) {
        await sign("tlk_wrong", stays);
        await page.getByRole("alert").getByText("refused").waitFor();
        assert.equal(await page.evaluate(() => sessionStorage.getItem("trunkline.token")), null, "a refused token is not kept");
        if (!stays) await page.getByText("Use a token").click();
      }
      await sign(place.token, false);
      await shown(page);
      await page.reload();
      await shown(page);
      await page.getByRole("button", { name: "Sign out" }).click();
      await page.getByText("Use a token").click();
      assert.equal(await page.evaluate(() => sessionStorage.getItem("trunkline.token")), null);
      // The token pairs the browser, which ends with it.
      await sign(place.token, true);
      await shown(page);
      assert.ok(!(await stored(page)).text.includes("tlk_"));
      await page.reload();
      await shown(page);
      place.said("token", "revoke", place.token.split("_")[1]);
      await page.getByText("This browser is not signed in any more").waitFor();
      await page.waitForFunction(() => document.activeElement.getAttribute("name") === "code");
    },
  },
  "one-time-code": {
    mock: true,
    async run({ browser, place }) {
      const context = await browser.newContext();
      const page = await context.newPage();
      await page.route("http://file.example/", (route) => route.fulfill({ contentType: "text/html", body: `<form method=post action="${place.url}/open"><input name=code value=x></form>` }));
      await page.goto("http://file.example/");
      await page.evaluate(() => document.forms[0].submit());
      await shown(page);
      assert.equal(page.url(), `${place.url}/`);
      assert.equal(await page.locator("meta[name^=trunkline]").count(), 0);
      assert.doesNotMatch(await page.content(), new RegExp(place.token));
    },
  },
  "trunkline-open": {
    real: true,
    async run({ browser, place }) {
      const context = await useDist(await browser.newContext());
      const page = await context.newPage();
      const file = place.handover();
      assert.equal(statSync(file).mode & 0o777, 0o600);
      await page.goto(`file://${file}`);
      await shown(page);
      assert.equal(page.url(), `${place.url}/`);
      const { names, key, text } = await stored(page);
      assert.deepEqual([names, key], [["trunkline"], "InvalidAccessError"], "the key cannot be read");
      assert.doesNotMatch(text + (await page.content()), /tlk_/);
      // A tab of its own, a link to a session, and the same file once more.
      const hash = await fresh({ place }, "Deep link");
      const tab = await context.newPage();
      await tab.goto(`${place.url}/${hash}`);
      await tab.getByRole("heading", { level: 1, name: "Deep link" }).waitFor();
      await tab.goto(`file://${file}`);
      await shown(tab);
      // Another browser gets a page that explains it, and no JSON.
      const stranger = await (await useDist(await browser.newContext())).newPage();
      await stranger.goto(`file://${file}`);
      await stranger.getByRole("alert").getByText("this link was used, or is older than a minute").waitFor();
      assert.equal(stranger.url(), `${place.url}/`);
      await code(stranger).getByLabel("Code").waitFor();
    },
  },
  "browser-restart": {
    real: true,
    async run({ place }) {
      const folder = join(place.folder, "browser");
      let context = await useDist(await launchIn(folder));
      await opened(context, place);
      await context.close();
      context = await useDist(await launchIn(folder));
      try {
        const hash = await fresh({ place }, "Later");
        const page = await context.newPage();
        await page.goto(`${place.url}/${hash}`);
        await page.getByRole("heading", { level: 1, name: "Later" }).waitFor();
        await send(page, "hello");
        await ends(page, 1);
        await page.fill("#input", "a draft");
        // Its bearer ends with the daemon; the page signs in again by itself.
        await place.kill();
        await place.again();
        await fetch(`${place.url}${hash.replace("#", "/v1")}/inputs`, { method: "POST", headers: { Authorization: `Bearer ${place.token}`, "Content-Type": "application/json" }, body: JSON.stringify({ content: "hello" }) });
        await ends(page, 2);
        assert.equal(await page.inputValue("#input"), "a draft");
      } finally {
        await context.close();
      }
    },
  },
  "pair-by-code": {
    real: true,
    async run({ browser, place }) {
      const own = await useDist(await browser.newContext());
      const page = await opened(own, place);
      const phone = await (await useDist(await browser.newContext({ viewport: { width: 390, height: 780 }, userAgent: AGENT }))).newPage();
      const asked = [];
      phone.on("request", (request) => asked.push(request.url()));
      // Opening the link uses nothing up; a person presses the button.
      const refused = await place.ask("POST", "/v1/pairing");
      const link = async ({ code: given }) => {
        await phone.goto("about:blank");
        await phone.goto(`${place.url}/#/pair/${given}`);
        await code(phone).getByRole("button", { name: "Pair this browser" }).waitFor();
        assert.equal(phone.url(), `${place.url}/`, "the address keeps no code");
      };
      await link(refused);
      assert.equal((await place.ask("GET", `/v1/pairing/${refused.id}`)).state, "waiting");
      const pair = () => phone.getByRole("button", { name: "Pair this browser" }).click();
      await pair();
      await phone.getByRole("status").getByText("Confirm it at the terminal.").waitFor();
      const { name, address, is_elevation } = await decide(place, refused.id, false);
      assert.deepEqual([name, address, is_elevation], ["Chrome on Android", "127.0.0.1", false]);
      await phone.getByRole("alert").getByText("the terminal has refused it").waitFor();
      await pair();
      await phone.getByRole("alert").getByText("this code is not valid").waitFor();
      const right = await place.ask("POST", "/v1/pairing");
      await link(right);
      await code(phone).getByLabel("Name of this browser").fill("Ann's phone");
      await pair();
      assert.equal((await decide(place, right.id, true)).name, "Ann's phone");
      await phone.locator(".list").waitFor({ state: "attached" });
      assert.ok(!asked.some((url) => url.includes(right.code) || url.includes("tlk_")), "no secret is in an address");
      assert.match(place.said("token", "list"), /Ann's phone/);
      // Its stream runs until the other browser revokes it, as an administrator.
      const hash = await fresh({ place }, "Shared");
      await phone.goto(`${place.url}/${hash}`);
      await phone.getByRole("heading", { level: 1, name: "Shared" }).waitFor();
      await page.goto(`${place.url}/#/browsers`);
      const card = page.getByRole("region", { name: "Ann's phone" });
      await card.getByRole("button", { name: "Revoke" }).click();
      const dialog = page.getByRole("dialog");
      await dialog.getByRole("button", { name: "Revoke" }).click();
      const admin = await place.ask("POST", "/v1/pairing");
      await dialog.getByLabel("Code").fill(admin.code);
      await dialog.getByRole("button", { name: "Revoke" }).click();
      assert.equal((await decide(place, admin.id, true)).is_elevation, true);
      await card.waitFor({ state: "detached" });
      await phone.getByText("This browser is not signed in any more").waitFor();
      // It restarts an agent, after it has seen which turn ends with it.
      const { id } = await place.ask("POST", "/v1/sessions", { agent: "coder", options: { title: "Hanging" } });
      await place.ask("POST", `/v1/sessions/${id}/inputs`, { content: "slow" });
      await page.goto(`${place.url}/#/agents`);
      const restart = page.getByRole("button", { name: "Restart Coder" });
      await restart.press("Enter");
      await dialog.getByRole("listitem").getByText("Hanging").waitFor();
      await dialog.getByRole("button", { name: "Restart" }).press("Enter");
      await dialog.waitFor({ state: "detached" });
      assert.ok(await restart.evaluate((button) => button === document.activeElement));
      await page.goto(`${place.url}/#/sessions/${id}`);
      await page.locator(".ended").getByText("the agent was restarted").waitFor();
      // Its own name needs no administrator.
      await page.goto(`${place.url}/#/browsers`);
      const mine = page.locator(".card", { hasText: "this one" });
      await mine.getByRole("button", { name: "Rename" }).click();
      await dialog.getByLabel("Name").fill("Desk");
      await dialog.getByRole("button", { name: "Rename" }).click();
      await page.getByRole("region", { name: "Desk" }).getByRole("button", { name: "Sign out" }).click();
      await dialog.getByRole("button", { name: "Sign out" }).click();
      await code(page).waitFor();
      await page.reload();
      await code(page).waitFor();
      assert.equal((await place.ask("GET", "/v1/browsers")).browsers.length, 0);
    },
  },
  "sign-in-without-keys": {
    mock: true,
    async run({ browser, place }) {
      // As over plain HTTP from another machine.
      const context = await browser.newContext();
      await context.addInitScript(() => Object.defineProperty(window, "isSecureContext", { value: false }));
      const page = await context.newPage();
      await page.goto(`${place.url}/#/pair/K7QM-3XTB`);
      await page.getByText("This browser cannot be paired here").waitFor();
      assert.equal(await code(page).count(), 0);
      assert.equal(await page.getByLabel("Pair this browser, with").count(), 0);
      await page.fill("input[name=token]", place.token);
      await page.keyboard.press("Enter");
      await shown(page);
      assert.deepEqual(await page.evaluate(() => indexedDB.databases()), []);
    },
  },
  "axe-of-pairing": {
    mock: true,
    async run({ browser, place }) {
      place.world.browsers = [
        { id: "0a1b2c3d", name: "Chrome on Linux", is_this: true, scope: "control", may_approve: true, address: "127.0.0.1", created: 1_790_000_000, used: 1_790_000_000, expires: null, tokens: [] },
        { id: "1a1b2c3d", name: "Ann's phone", is_this: false, scope: "control", may_approve: true, address: "192.0.2.7", created: 1_790_000_000, used: 1_790_000_000, expires: null, tokens: [{ id: "2a1b2c3d", name: "ci", scope: "observe" }] },
      ];
      const found = [];
      for (const [colorScheme, width] of [["light", 360], ["dark", 1280]]) {
        const context = await browser.newContext({ colorScheme, viewport: { width, height: 780 }, bypassCSP: true });
        const page = await context.newPage();
        const look = async (what) => {
          await page.evaluate(AXE);
          const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
          found.push(...violations.filter((each) => ["serious", "critical"].includes(each.impact)).map((each) => `${colorScheme} ${what}: ${each.id} ${each.nodes[0].html.slice(0, 160)}`));
          const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
          assert.ok(inner <= outer, `${what} is wider than the screen`);
        };
        await page.goto(`${place.url}/#/pair/K7QM-3XTB`);
        await page.getByText("Use a token").click();
        await look("sign-in");
        // By keys alone.
        await code(page).getByLabel("Code").press("Enter");
        await page.locator(".list").waitFor({ state: "attached" });
        await page.goto(`${place.url}/#/browsers`);
        const card = page.getByRole("region", { name: "Ann's phone" });
        await card.waitFor();
        await look("browsers");
        await card.getByRole("button", { name: "Revoke" }).press("Enter");
        const dialog = page.getByRole("dialog");
        await dialog.getByText("ci 2a1b2c3d: observe").waitFor();
        // The mock refuses: it needs an administrator.
        await dialog.getByRole("button", { name: "Revoke" }).press("Enter");
        await dialog.getByLabel("Code").waitFor();
        await look("dialog");
        await page.keyboard.press("Escape");
        await dialog.waitFor({ state: "detached" });
        assert.equal(await page.evaluate(() => document.activeElement.textContent), "Revoke");
        await context.close();
      }
      assert.deepEqual(found, []);
    },
  },
};
