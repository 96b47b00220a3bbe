// A day with five agents, a laptop and a phone, and no terminal: npm run day. It prints what was done, and how long that took.
import assert from "node:assert/strict";
import { join } from "node:path";
import { launchIn } from "./browser.mjs";
import { real } from "./real.mjs";
import { clean, ends, send, until, useDist } from "./steps.mjs";
import { PHONE } from "./views.mjs";

const AGENTS = ["Coder", "Reviewer", "Tester", "Writer", "Operator"];
const place = await real({ names: AGENTS.slice(2) });
const begun = Date.now();
const wrong = [];
let browsers = {};

/** Does one thing of the day, and prints how long it took. */
async function step(what, action) {
  const from = Date.now();
  const note = await action();
  console.log(`${String(Date.now() - from).padStart(6)} ms  ${what}${note ? `: ${note}` : ""}`);
}

/** Starts both browsers, or the same ones again. At first each is paired by the file that `trunkline open` writes. */
async function startBrowsers() {
  const kinds = { laptop: { viewport: { width: 1280, height: 800 }, acceptDownloads: true }, phone: { viewport: { width: 390, height: 844 }, ...PHONE } };
  const pages = {};
  for (const [name, options] of Object.entries(kinds)) {
    const isNew = !browsers[name];
    const context = await launchIn(join(place.folder, name), options);
    await context.addInitScript(() => {
      window.violations = [];
      document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
    });
    context.on("weberror", (error) => wrong.push(`${name}: ${error.error().stack}`));
    await useDist(context);
    const page = context.pages()[0] ?? (await context.newPage());
    page.setDefaultTimeout(60_000);
    await page.goto(isNew ? `file://${place.handover()}` : `${place.url}/#/sessions`);
    await page.locator(".work").waitFor();
    browsers[name] = context;
    pages[name] = page;
  }
  return pages;
}

const row = (page, title) => page.locator(".list li", { hasText: title });
const heading = (page, title) => page.getByRole("heading", { level: 1, name: title });

/** Makes a session in the dialog. */
async function create(page, agent, title, message) {
  await page.getByRole("button", { name: "New session" }).first().click();
  const dialog = page.getByRole("dialog", { name: "New session" });
  await dialog.locator(".field", { hasText: /^Agent/ }).locator("select").selectOption({ label: agent });
  await dialog.getByLabel("Title").fill(title);
  await dialog.getByLabel("First message").fill(message);
  await dialog.getByRole("button", { name: "Create" }).click();
  await heading(page, title).waitFor();
}

async function act(page, name) {
  await page.getByRole("button", { name: "Actions" }).click();
  await page.getByRole("menuitem", { name, exact: true }).click();
}

async function openSession(page, title) {
  if (!(await page.locator(".list").isVisible())) await page.getByRole("link", { name: "Sessions" }).first().click();
  await row(page, title).first().click();
  await heading(page, title).waitFor();
}

let failure;
try {
  let laptop;
  let phone;
  await step("both browsers are paired", async () => ({ laptop, phone } = await startBrowsers(), ""));
  const work = [["Coder", "Mend the parser", "work"], ["Reviewer", "Read the change", "stream"], ["Tester", "Delete old logs", "ask"], ["Writer", "Release notes", "slow"], ["Operator", "Deploy it", "question"]];
  for (const [agent, title, message] of work) await step(`${agent}: ${title}`, () => create(laptop, agent, title, message));
  await step("the phone has all five sessions", async () => {
    for (const [, title] of work) await row(phone, title).waitFor();
  });
  await step("the phone allows what the tester asks, in the inbox", async () => {
    await phone.getByRole("link", { name: /^Inbox/ }).tap();
    await phone.locator(".inbox [data-request]").nth(1).waitFor();
    await phone.locator(".inbox [data-item]", { hasText: "Delete old logs" }).getByRole("button", { name: "Allow", exact: true }).tap();
    await phone.locator(".decided li", { hasText: "Delete old logs" }).waitFor();
  });
  await step("the phone answers the operator's question", async () => {
    const card = phone.getByRole("region", { name: "Question" });
    await card.getByLabel("America").check();
    await card.getByLabel("Copies").fill("3");
    await card.getByRole("button", { name: "Answer", exact: true }).tap();
    await phone.locator(".decided li", { hasText: "Deploy it" }).waitFor();
  });
  await step("the laptop sees both answers", async () => {
    await openSession(laptop, "Deploy it");
    await laptop.getByText("Deployed to us.").waitFor();
    await openSession(laptop, "Delete old logs");
    await laptop.getByText("The logs are gone.").waitFor();
  });
  await step("the writer is steered, then stopped", async () => {
    await openSession(laptop, "Release notes");
    await laptop.getByRole("button", { name: "Steer" }).first().click();
    await send(laptop, "and be brief");
    await laptop.locator(".badge", { hasText: "steer" }).waitFor();
    await laptop.getByRole("button", { name: "Stop the turn" }).click();
    await laptop.locator(".ended.stopped").waitFor();
  });
  await step("two files go to the coder, one by a drop", async () => {
    await openSession(laptop, "Mend the parser");
    await ends(laptop, 1);
    await laptop.setInputFiles("input[type=file]", { name: "trace.log", mimeType: "text/plain", buffer: Buffer.from("a trace\n") });
    await laptop.evaluate(() => {
      const data = new DataTransfer();
      data.items.add(new File(["dropped"], "notes.txt", { type: "text/plain" }));
      document.querySelector(".list").dispatchEvent(new DragEvent("drop", { dataTransfer: data, bubbles: true, cancelable: true }));
    });
    await laptop.waitForFunction(() => document.querySelectorAll(".attached li.ready").length === 2);
    await send(laptop, "stream");
    await ends(laptop, 2);
  });
  await step("the coder's picture and file are on the phone", async () => {
    await openSession(phone, "Mend the parser");
    await phone.locator(".ended").last().waitFor();
    await phone.locator(".scroller").evaluate((it) => it.scrollTo(0, it.scrollHeight / 2));
    await phone.locator(".file").first().waitFor();
  });
  await step("the daemon is killed in a turn; a message waits for it", async () => {
    await openSession(laptop, "Release notes");
    await send(laptop, "slow");
    await laptop.getByRole("button", { name: "Stop the turn" }).waitFor();
    await laptop.getByText("word3").last().waitFor();
    await place.kill();
    await laptop.getByText(/Connection lost/).waitFor();
    await send(laptop, "stream after that");
    await laptop.locator(".sent").first().waitFor();
  });
  await step("the daemon is back, and the message arrived once", async () => {
    await place.again();
    await laptop.locator(".ended.completed").waitFor();
    await until("no message waits", async () => (await laptop.locator(".sent").count()) === 0);
    assert.equal(await laptop.locator(".bubble", { hasText: "stream after that" }).count(), 1);
  });
  await step("both browsers are closed and started, and are signed in", async () => {
    for (const context of Object.values(browsers)) await context.close();
    ({ laptop, phone } = await startBrowsers());
    for (const page of [laptop, phone]) for (const [, title] of work) await row(page, title).waitFor();
  });
  await step("a word is found in a session", async () => {
    await openSession(laptop, "Mend the parser");
    await ends(laptop, 1);
    await laptop.keyboard.press("Control+f");
    await laptop.getByRole("search", { name: "Find in the session" }).getByRole("textbox").fill("214 passed");
    await laptop.locator(".find [role=status]").getByText("1 of 1").waitFor();
    await laptop.keyboard.press("Escape");
  });
  await step("a word is found over all sessions, on the phone", async () => {
    await phone.getByRole("link", { name: "Search all sessions" }).tap();
    await phone.locator("main.search input").fill("Deployed to us");
    await phone.keyboard.press("Enter");
    await phone.locator(".results li", { hasText: "Deployed to us" }).first().waitFor();
  });
  await step("a session is renamed, another forked, a third archived", async () => {
    await act(laptop, "Rename");
    await laptop.getByRole("textbox", { name: "Title" }).fill("Parser mended");
    await laptop.keyboard.press("Enter");
    await heading(laptop, "Parser mended").waitFor();
    await openSession(laptop, "Read the change");
    await ends(laptop, 1);
    const source = laptop.url();
    await act(laptop, "Fork the session");
    await laptop.waitForFunction((before) => location.href !== before && document.querySelector(".session h1"), source);
    await laptop.locator("#input").waitFor();
    await openSession(laptop, "Delete old logs");
    await act(laptop, "Archive");
    await laptop.locator(".bar .badge", { hasText: "archived" }).waitFor();
    await row(laptop, "Delete old logs").waitFor({ state: "detached" });
  });
  await step("the phone starts a session and denies what it asks", async () => {
    await phone.getByRole("link", { name: "Sessions" }).first().tap();
    await row(phone, "Parser mended").waitFor();
    await create(phone, "Tester", "From the phone", "ask");
    await phone.locator(".waiting").getByRole("button", { name: "Deny", exact: true }).tap();
    await phone.getByText("I left them alone.").waitFor();
    await phone.getByRole("link", { name: "Sessions" }).first().tap();
    await row(phone, "From the phone").waitFor();
  });
  await step("agents, usage and browsers are read", async () => {
    await laptop.getByRole("link", { name: "Agents" }).click();
    for (const name of AGENTS) await laptop.getByRole("region", { name, exact: true }).waitFor();
    await laptop.getByRole("link", { name: "Usage" }).click();
    await laptop.getByRole("cell", { name: "coder" }).waitFor();
    await laptop.getByRole("link", { name: "Browsers" }).click();
    await laptop.locator(".card").nth(1).waitFor();
    return `${await laptop.locator(".card").count()} browsers`;
  });
  for (const page of [laptop, phone]) await clean(page, wrong);
} catch (error) {
  failure = error;
  console.log(`FAILED  ${error.stack}`);
  for (const [name, context] of Object.entries(browsers)) await context.pages()[0]?.screenshot({ path: join(process.cwd(), `.shots/day-${name}.png`) }).catch(() => undefined);
} finally {
  for (const context of Object.values(browsers)) await context.close().catch(() => undefined);
  await place.stop();
}
console.log(`the day took ${Math.round((Date.now() - begun) / 1000)} s`);
process.exit(failure ? 1 : 0);
