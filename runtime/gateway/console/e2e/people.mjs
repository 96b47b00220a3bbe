// People side by side, and people without a mouse.
import assert from "node:assert/strict";
import { entries, fresh } from "./basic.mjs";
import { clean, ends, open, send } from "./steps.mjs";

/** Goes on by Tab to what has this name, and sees on the way where it is. */
async function tabTo(page, name) {
  for (let at = 0; at < 80; at += 1) {
    await page.keyboard.press("Tab");
    const stop = await page.evaluate(() => {
      const it = document.activeElement;
      // The input's ring is drawn around its whole line.
      const ring = getComputedStyle(it.id === "input" ? it.parentElement : it);
      const label = it.getAttribute("aria-label") ?? it.labels?.[0]?.innerText ?? it.innerText ?? "";
      return { label: label.trim(), seen: it === document.body || ring.outlineStyle !== "none" || ring.boxShadow !== "none", html: it.outerHTML.slice(0, 200) };
    });
    assert.ok(stop.seen, `no ring around ${stop.html}`);
    if (stop.label === name) return;
  }
  assert.fail(`Tab does not reach ${name}`);
}

const nameOf = async ({ url, token }) => (await (await fetch(`${url}/v1/me`, { headers: { Authorization: `Bearer ${token}` } })).json()).name.replace(/^t-/, "");

export const flows = {
  "two-browsers-race": {
    real: true,
    async run(it) {
      const hash = await fresh(it, "Race");
      const one = await open(it, hash);
      const other = { ...it.place, token: it.place.another() };
      const two = await open({ browser: it.browser, place: other }, hash);
      await send(one.page, "ask");
      await one.page.locator(".waiting").waitFor();
      await two.page.locator(".waiting").waitFor();
      await two.page.locator(".bubble").getByText(`token ${await nameOf(it.place)}`).waitFor();
      // The second one's answer is on its way while the first one decides.
      let decided;
      const first = new Promise((done) => (decided = done));
      await two.page.route("**/requests/*", async (route) => {
        await first;
        await route.continue();
      });
      await two.page.getByRole("button", { name: "Deny", exact: true }).click();
      await one.page.getByRole("button", { name: "Allow", exact: true }).click();
      await one.page.getByText(/allowed: Allow by you at/).waitFor();
      decided();
      const by = await nameOf(it.place);
      await two.page.getByText(`Token ${by} answered first: your answer does not count.`).waitFor();
      await two.page.getByText(`allowed: Allow by token ${by} at`).waitFor();
      await two.page.getByText("The logs are gone.").waitFor();
      assert.equal((await entries(it, hash)).filter((entry) => entry.type === "request.decided").length, 1);
      await two.page.getByRole("button", { name: "Close the notice" }).click();
      // What one says the other sees, word by word.
      await send(two.page, "stream");
      await ends(one.page, 2);
      await ends(two.page, 2);
      const said = (page) => page.locator(".prose").last().innerText();
      assert.equal(await said(one.page), await said(two.page));
      await clean(one.page, one.wrong);
      // The answer that came too late is a 409, and no fault of the page.
      await clean(two.page, two.wrong);
    },
  },
  "keyboard-only": {
    async run(it) {
      const { page, wrong } = await open(it, "#/sessions");
      const keys = page.keyboard;
      await page.getByRole("button", { name: "New session" }).first().waitFor();
      await keys.press("n");
      await page.getByRole("dialog", { name: "New session" }).waitFor();
      await keys.type("ask");
      await keys.press("Shift+Tab");
      await keys.type("By hand");
      await keys.press("Control+Enter");
      await keys.press("Enter");
      await page.getByRole("heading", { level: 1, name: "By hand" }).waitFor();
      await page.locator(".waiting").waitFor();
      await tabTo(page, "Allow");
      await keys.press("Enter");
      await ends(page, 1);
      await page.evaluate(() => document.activeElement?.blur());
      await keys.press("i");
      await keys.type("slow");
      await keys.press("Control+Enter");
      await page.getByText("word3").waitFor();
      await tabTo(page, "Stop the turn");
      await keys.press("Enter");
      await page.locator(".ended.stopped").waitFor();
      await page.evaluate(() => document.activeElement?.blur());
      await keys.press("w");
      await tabTo(page, "Filter entries");
      await keys.type("type:request.decided");
      await page.waitForFunction(() => document.querySelectorAll(".wire .entry").length === 1);
      await tabTo(page, "Entries as they came");
      await keys.press("ArrowDown");
      await page.locator(".detail").getByText('"approved": true').waitFor();
      await tabTo(page, "Close");
      await keys.press("Enter");
      await page.locator(".detail").waitFor({ state: "detached" });
      await keys.press("w");
      await page.locator(".wire").waitFor({ state: "detached" });
      await keys.press("?");
      await page.getByRole("dialog", { name: "Keys" }).waitFor();
      await keys.press("Escape");
      await page.waitForFunction(() => !document.querySelector("dialog"));
      await keys.press("Control+k");
      await page.getByRole("dialog", { name: "Commands" }).waitFor();
      await keys.type("agents");
      await keys.press("Enter");
      await page.getByRole("heading", { level: 1, name: "Agents" }).waitFor();
      await keys.press("Control+k");
      await page.getByRole("dialog", { name: "Commands" }).waitFor();
      await keys.type("by hand");
      await page.locator(".palette li[aria-selected=true]", { hasText: /^By hand/ }).waitFor();
      await keys.press("Enter");
      await page.getByRole("heading", { level: 1, name: "By hand" }).waitFor();
      await keys.press("/");
      await keys.type("nothing like it");
      await page.getByText("No session fits.").waitFor();
      await keys.press("Escape");
      await page.waitForFunction(() => document.activeElement.matches(".scroller"));
      await clean(page, wrong);
    },
  },
  "unread-and-found": {
    async run(it) {
      const [one, two] = [await fresh(it, "Read me"), await fresh(it, "Look here")];
      const { page, wrong } = await open(it, one);
      const link = page.locator(".list li", { hasText: "Look here" });
      await link.waitFor();
      await page.goto(`${it.place.url}/${two}`);
      await page.getByRole("heading", { level: 1, name: "Look here" }).waitFor();
      await page.locator(".mark-line").first().waitFor();
      await page.goto(`${it.place.url}/${one}`);
      await page.getByRole("heading", { level: 1, name: "Read me" }).waitFor();
      await page.waitForFunction(() => document.querySelectorAll(".unread").length === 0);
      await say(it, two, "stream");
      await link.getByRole("img", { name: "unread" }).waitFor();
      assert.equal(await page.locator(".unread").count(), 1);
      await link.click();
      await ends(page, 1);
      await page.locator(".list li", { hasText: "Read me" }).click();
      await page.getByRole("heading", { level: 1, name: "Read me" }).waitFor();
      await page.reload();
      await link.waitFor();
      assert.equal(await page.locator(".unread").count(), 0, "what was seen is seen");
      // Until the daemon answers, a session has the title and the state of the list.
      let release;
      const held = new Promise((done) => { release = done; });
      await page.route(new RegExp(`${two.split("/").pop()}(/history.*)?$`), async (route) => {
        await held;
        await route.continue();
      });
      await link.click();
      await page.getByRole("heading", { level: 1, name: "Look here" }).waitFor();
      await page.locator(".bar .state").getByText("idle").waitFor();
      release();
      await ends(page, 1);
      await page.fill("#search", "look");
      await page.waitForFunction(() => document.querySelectorAll(".list li").length === 1);
      await page.fill("#search", "nothing like it");
      await page.getByRole("button", { name: "Show all" }).click();
      await page.waitForFunction(() => document.querySelectorAll(".list li").length === 2);
      await clean(page, wrong);
    },
  },
  "small-screen": {
    async run(it) {
      const hash = await fresh(it, "Pocket");
      const { page, wrong } = await open(it, hash, { viewport: { width: 360, height: 740 }, hasTouch: true });
      await send(page, "work");
      await ends(page, 1);
      await send(page, "ask");
      await page.locator(".waiting").waitFor();
      const fits = async (what) => assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= 360 && document.body.scrollHeight <= 740), `${what} is wider or higher than the screen`);
      await fits("a session");
      await page.getByRole("button", { name: "Deny", exact: true }).tap();
      await ends(page, 2);
      await page.getByRole("button", { name: "Wire view" }).tap();
      await page.locator(".wire .entry").first().tap();
      await fits("the wire view");
      await page.getByRole("button", { name: "Wire view" }).tap();
      await page.getByRole("link", { name: "Sessions" }).first().tap();
      await page.locator(".list li", { hasText: "Pocket" }).waitFor();
      await fits("the list");
      for (const view of ["Agents", "Usage"]) {
        await page.getByRole("link", { name: view }).tap();
        await page.getByRole("heading", { level: 1, name: view }).waitFor();
        await fits(view);
      }
      await clean(page, wrong);
    },
  },
};

/** Says something in a session as a program does. */
async function say({ place }, hash, content) {
  const answer = await fetch(`${place.url}/v1/sessions/${hash.split("/").pop()}/inputs`, { method: "POST", headers: { Authorization: `Bearer ${place.token}`, "Content-Type": "application/json", "Idempotency-Key": crypto.randomUUID() }, body: JSON.stringify({ content }) });
  assert.equal(answer.status, 202);
}
