// Each view of the console, in worlds of the mock that are empty, short and long: what pictures are taken of and what is checked.
import { fill, run } from "../mock/agent.mjs";
import { HOSTS } from "../mock/material.mjs";
import { daemon } from "./browser.mjs";
import { drawn, until } from "./steps.mjs";

export const PHONE = { hasTouch: true, isMobile: true };

const LONG = "A title that is so long that it fits neither into the list at the side of the page nor into its header";

/** Runs an input to its end, or to the request that it waits for. */
async function say(session, content) {
  const turns = session.turns;
  session.add({ type: "turn.begin", turn_id: `t-${turns}`, message_id: `m-${turns}`, content, by: "console" });
  void run(session, { turn: `t-${turns}`, content }, 0);
  await until(content, () => session.running === "" || session.requests.size > 0 || content.startsWith("slow"));
}

/** The worlds, each a mock daemon. */
export async function worlds() {
  const [empty, short, long] = await Promise.all([0, 1, 2].map(() => daemon({ mock: true, pace: 0 })));
  Object.assign(empty.world, { bare: true });
  short.world.open("coder", "", "fresh");
  for (const place of [short, long]) {
    const { world } = place;
    const title = (text) => (place === long ? `${text}. ${LONG}` : text);
    if (place === long) {
      world.hosts = HOSTS;
      world.browsers = Array.from({ length: 9 }, (_, at) => ({ id: `b${at}`, name: at ? `Browser ${at} with a name of the longest kind, ${"x".repeat(20)}` : "Firefox on Linux", is_this: at === 0, created: 1_790_000_000 + at, used: 1_790_100_000, address: "2001:db8:85a3:8d3:1319:8a2e:370:7348", scope: "control", may_approve: true }));
      for (let at = 0; at < 60; at += 1) world.open(at % 3 ? "coder" : "reviewer", at % 7 ? `Session number ${at}` : title(`Session ${at}`));
    }
    const main = world.open("coder", title("Mend the parser"), "main");
    if (place === long) {
      fill(main, 3000);
      main.cwd = `/srv/${"a-long-folder/".repeat(12)}app`;
      main.host = HOSTS[2].id;
      await say(main, `stream ${"an-unbroken-word".repeat(30)}`);
      await say(main, "work");
    }
    await say(main, "stream: why do the tests with CRLF fail?");
    await say(world.open("reviewer", title("It crashed"), "crash"), "crash");
    await say(world.open("coder", title("Deploy it"), "asks"), place === long ? "ask-long" : "ask");
    await say(world.open("coder", title("Choose a cluster"), "question"), place === long ? "question-long" : "question");
    if (place === short) await say(world.open("coder", "Asks several times", "many-asks"), "asks");
    await say(world.open("coder", title("Tools and files"), "work"), "work");
    await say(world.open("coder", title("In a turn"), "runs"), "slow");
    const closed = world.open("reviewer", title("Release notes"), "closed");
    await say(closed, "stream");
    closed.close();
  }
  return { empty, short, long };
}

const press = (key) => async (page) => {
  await page.evaluate(() => document.activeElement?.blur());
  await page.keyboard.press(key);
};
const dialog = (page) => page.locator("dialog[open]").waitFor();
const session = (id) => `#/sessions/${id}`;
const top = (page) => page.locator(".scroller").evaluate((it) => it.scrollTo(0, 0));

/** A view: where it is, what has to be there, and what is done then. `worlds` are those that it is looked at in. */
export const VIEWS = {
  "first-run": { worlds: ["empty"], hash: "#/sessions", ready: ".first-run" },
  inbox: { worlds: ["empty", "short", "long"], hash: "#/inbox", ready: ".inbox .empty, .inbox [data-request]" },
  "search-all": { worlds: ["short"], hash: "#/search/lexer", ready: ".results li" },
  list: { worlds: ["short", "long"], hash: "#/sessions", ready: ".list li a", act: async (page) => {
    await page.evaluate(() => {
      localStorage.setItem("trunkline.pins", '["main"]');
      dispatchEvent(new StorageEvent("storage", { key: "trunkline.pins" }));
    });
    await page.getByRole("heading", { name: /^Pinned/ }).waitFor();
  } },
  session: { worlds: ["short", "long"], hash: session("main"), ready: ".ended" },
  "session-empty": { worlds: ["short"], hash: session("fresh"), ready: ".composer" },
  "session-top": { worlds: ["short", "long"], hash: session("work"), ready: ".ended", act: top },
  "session-folds": { worlds: ["short"], hash: session("work"), ready: ".ended", act: async (page) => {
    await top(page);
    await page.evaluate(() => document.querySelectorAll(".rows .summary[aria-expanded=false]").forEach((fold) => fold.click()));
  } },
  "session-runs": { worlds: ["short", "long"], hash: session("runs"), ready: ".stop" },
  "session-closed": { worlds: ["short", "long"], hash: session("closed"), ready: ".composer.closed" },
  "session-failed": { worlds: ["short", "long"], hash: session("crash"), ready: ".ended" },
  "session-writing": { worlds: ["short"], hash: session("main"), ready: ".ended", act: async (page) => {
    await page.fill("#input", "A message of some lines\n".repeat(12));
    await page.setInputFiles("input[type=file]", [{ name: "one.txt", mimeType: "text/plain", buffer: Buffer.from("first") }, { name: `a-name-that-is-${"very-".repeat(20)}long.log`, mimeType: "text/plain", buffer: Buffer.from("second") }]);
    await page.waitForFunction(() => document.querySelectorAll(".attached li.ready").length === 2);
  } },
  request: { worlds: ["short", "long"], hash: session("asks"), ready: ".waiting" },
  question: { worlds: ["short", "long"], hash: session("question"), ready: ".waiting" },
  wire: { worlds: ["short", "long"], hash: session("main"), ready: ".ended", act: async (page) => {
    await press("w")(page);
    await page.locator(".wire .entry").nth(3).click();
    await page.locator(".detail").waitFor();
  } },
  batch: { worlds: ["short"], hash: session("many-asks"), ready: ".batch", act: async (page) => {
    await page.getByRole("button", { name: /^Allow these/ }).click();
    await dialog(page);
  } },
  settings: { worlds: ["short", "long"], hash: session("main"), ready: ".ended", act: async (page) => {
    await page.getByRole("button", { name: /^Settings of the session/ }).click();
    await dialog(page);
  } },
  find: { worlds: ["short", "long"], hash: session("main"), ready: ".ended", act: async (page) => {
    await page.keyboard.press("Control+f");
    await page.locator(".find input").fill("the");
  } },
  actions: { worlds: ["short"], hash: session("main"), ready: ".ended", act: async (page) => {
    await page.getByRole("button", { name: "Actions" }).click();
    await page.getByRole("menuitem", { name: "Rename" }).waitFor();
  } },
  files: { worlds: ["short"], hash: session("work"), ready: ".ended", act: async (page) => {
    await page.getByRole("button", { name: "Actions" }).click();
    await page.getByRole("menuitem", { name: "Files of the session" }).click();
    await dialog(page);
  } },
  file: { worlds: ["short"], hash: session("work"), ready: ".ended", act: async (page) => {
    await page.getByRole("button", { name: "Show timings.csv" }).first().click();
    await page.getByLabel("Line numbers").check();
  } },
  new: { worlds: ["empty", "short", "long"], hash: "#/sessions", ready: ".list", act: async (page) => {
    await press("n")(page);
    await dialog(page);
  } },
  palette: { worlds: ["empty", "short", "long"], hash: "#/sessions", ready: ".list", act: async (page) => {
    await page.keyboard.press("Control+k");
    await page.locator(".palette li").first().waitFor();
  } },
  keys: { worlds: ["short"], hash: "#/sessions", ready: ".list", act: async (page) => {
    await press("?")(page);
    await dialog(page);
  } },
  search: { worlds: ["short", "long"], hash: "#/sessions", ready: ".list", act: async (page) => {
    await page.fill("#search", "number");
    await page.waitForFunction(() => [...document.querySelectorAll(".list .title")].every((each) => /number/i.test(each.textContent)));
  } },
  agents: { worlds: ["empty", "short", "long"], hash: "#/agents", ready: ".agents .card h2, .agents .empty", act: (page) => page.waitForFunction(() => {
    // Two samples of different values are drawn as a line.
    dispatchEvent(new Event("console:refresh"));
    return document.querySelector(".plot svg, .agents .empty") !== null;
  }, null, { polling: 100 }) },
  hosts: { worlds: ["long"], hash: "#/hosts", ready: ".card" },
  browsers: { worlds: ["short", "long"], hash: "#/browsers", ready: ".page h2" },
  usage: { worlds: ["empty", "short"], hash: "#/usage", ready: ".page h1" },
  "no-such-session": { worlds: ["short"], hash: session("nothing"), ready: ".composer.closed" },
  "no-such-view": { worlds: ["short"], hash: "#/nothing", ready: "main" },
  unreachable: { worlds: ["short"], hash: session("main"), ready: ".ended", cut: true, act: async (page) => {
    await page.locator(".connection").waitFor();
    await page.fill("#input", "It waits until the daemon is back.");
    await page.press("#input", "Control+Enter");
    await page.locator(".sent").waitFor();
  } },
  "unreachable-list": { worlds: ["short"], hash: "#/sessions", ready: ".list .fault", cut: "first" },
  "sign-in": { worlds: ["short"], stranger: true, ready: ".signin" },
  "sign-in-refused": { worlds: ["short"], stranger: true, ready: ".signin", act: async (page) => {
    await page.getByText("Use a token").click();
    await page.getByLabel("Pair this browser, with").uncheck();
    await page.fill("input[name=token]", "tlk_wrong");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").waitFor();
  } },
};

async function newPage(browser, place, { world, width, height }, stranger, kept, options) {
  const context = await browser.newContext({ viewport: { width, height }, reducedMotion: "reduce", ...(width < 700 ? PHONE : {}), ...options });
  if (!stranger) await context.addInitScript(([key, value]) => sessionStorage.setItem(key, value), ["trunkline.token", place.token]);
  const page = await context.newPage();
  page.setDefaultTimeout(15_000);
  kept?.set(world, page);
  return page;
}

/** Brings a page that showed a view to where nothing of it is left. */
async function leave(page) {
  for (let at = 0; at < 3 && (await page.locator("dialog[open]").count()) > 0; at += 1) await page.keyboard.press("Escape");
  // A session would open again at the place of this view.
  await page.evaluate(() => document.querySelector(".to-end")?.click());
  await drawn(page);
  await page.evaluate(() => {
    for (const key of Object.keys(sessionStorage)) if (key !== "trunkline.token") sessionStorage.removeItem(key);
    localStorage.clear();
    dispatchEvent(new StorageEvent("storage", { key: null }));
    location.hash = "#/nothing";
  });
  await page.getByRole("heading", { name: "There is no such view" }).waitFor();
}

/**
 * Opens a view. What the page throws is given to `wrong`. With `kept`, a map, the views of a world follow each other in
 * one page, which takes a third of the time; a view whose page loads in another way has a page of its own.
 */
export async function openView(browser, places, it, wrong, options = {}, kept = undefined) {
  const view = VIEWS[it.name];
  const place = places[it.world];
  const ofWorld = view.stranger || view.cut ? undefined : kept;
  const known = ofWorld?.get(it.world);
  const page = known ?? (await newPage(browser, place, it, view.stranger, ofWorld, options));
  page.removeAllListeners("pageerror");
  page.on("pageerror", (error) => wrong(`error: ${error.message}`));
  // As a daemon that does not answer; from the begin, or when the page is there.
  const cut = () => page.route("**/v1/**", (route) => route.abort());
  try {
    if (view.cut === "first") await cut();
    if (known) await leave(page);
    await page.goto(`${place.url}/${view.hash ?? ""}`);
    await page.locator(view.ready).last().waitFor({ state: "attached" });
    if (view.cut === true) {
      await cut();
      place.drop();
    }
    await view.act?.(page);
    await drawn(page);
  } catch (error) {
    wrong(error.message.split("\n")[0]);
  }
  return page;
}
