// Pictures of each view, empty, short and long, in three widths, light and dark: npm run shots [-- VIEW...]. They go to
// .shots, with a page of all of them. A view that is wider than its screen, or cuts a text or an action, fails.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { fill, run } from "../mock/agent.mjs";
import { HOSTS } from "../mock/material.mjs";
import { daemon, launch } from "./browser.mjs";
import { layoutFaults } from "./layout.mjs";
import { drawn, until } from "./steps.mjs";

const SIZES = [[390, 844], [768, 1024], [1280, 800]];
const SCHEMES = ["light", "dark"];
const LONG = "A title that is so long that it fits neither into the list at the side of the page nor into its header";
const FOLDER = new URL("../.shots/", import.meta.url).pathname;

/** Runs an input to its end, or to the request that it waits for. */
async function say(session, content) {
  const turns = session.turns;
  session.add({ type: "turn.begin", turn_id: `t-${turns}`, message_id: `m-${turns}`, content, by: "console" });
  void run(session, { turn: `t-${turns}`, content }, 0);
  await until(content, () => session.running === "" || session.requests.size > 0 || content.startsWith("slow"));
}

async function worlds() {
  const [empty, short, long] = await Promise.all([0, 1, 2].map(() => daemon({ mock: true, pace: 0 })));
  Object.assign(empty.world, { bare: true });
  short.world.open("coder", "", "fresh");
  for (const place of [short, long]) {
    const { world } = place;
    const title = (text) => (place === long ? `${text}. ${LONG}` : text);
    if (place === long) {
      world.hosts = HOSTS;
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
const VIEWS = {
  "first-run": { worlds: ["empty"], hash: "#/sessions", ready: ".list .empty" },
  list: { worlds: ["short", "long"], hash: "#/sessions", ready: ".list li a" },
  session: { worlds: ["short", "long"], hash: session("main"), ready: ".ended" },
  "session-empty": { worlds: ["short"], hash: session("fresh"), ready: ".composer" },
  "session-top": { worlds: ["short", "long"], hash: session("work"), ready: ".ended", act: top },
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
  settings: { worlds: ["short", "long"], hash: session("main"), ready: ".ended", act: async (page) => {
    await page.getByRole("button", { name: /^Settings of the session/ }).click();
    await dialog(page);
  } },
  find: { worlds: ["short", "long"], hash: session("main"), ready: ".ended", act: async (page) => {
    await page.keyboard.press("Control+f");
    await page.locator(".find input").fill("the");
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
  search: { worlds: ["empty", "short", "long"], hash: "#/sessions", ready: ".list", act: async (page) => {
    await page.fill("#search", "number");
    await page.waitForTimeout(400);
  } },
  agents: { worlds: ["empty", "short", "long"], hash: "#/agents", ready: ".page h1", act: (page) => page.waitForTimeout(2300) },
  hosts: { worlds: ["long"], hash: "#/hosts", ready: ".card" },
  usage: { worlds: ["empty", "short"], hash: "#/usage", ready: ".page h1" },
  "no-such-session": { worlds: ["short"], hash: session("nothing"), ready: ".connection.bad" },
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
    await page.fill("input[name=token]", "tlk_wrong");
    await page.keyboard.press("Enter");
    await page.getByRole("alert").waitFor();
  } },
};

const only = process.argv.slice(2);
for (const name of only) if (!Object.hasOwn(VIEWS, name)) throw new Error(`no view ${name}: ${Object.keys(VIEWS).join(", ")}`);
const names = Object.keys(VIEWS).filter((name) => only.length === 0 || only.includes(name));
if (only.length === 0) rmSync(FOLDER, { recursive: true, force: true });
mkdirSync(FOLDER, { recursive: true });
const begun = Date.now();
const places = await worlds();
const shots = names.flatMap((name) => VIEWS[name].worlds.flatMap((world) => SIZES.map(([width, height]) => ({ name, world, width, height }))));
const faults = [];

const fileOf = ({ name, world, width }, scheme) => `${name}-${world}-${width}-${scheme}.png`;

async function shot(browser, it) {
  const { name, world, width, height } = it;
  const view = VIEWS[name];
  const place = places[world];
  const phone = width < 700;
  const context = await browser.newContext({ viewport: { width, height }, reducedMotion: "reduce", ...(phone ? { hasTouch: true, isMobile: true } : {}) });
  let file = fileOf(it, SCHEMES[0]);
  const wrong = (what) => faults.push({ file, what });
  try {
    if (!view.stranger) await context.addInitScript(([key, value]) => sessionStorage.setItem(key, value), ["trunkline.token", place.token]);
    const page = await context.newPage();
    page.setDefaultTimeout(8000);
    page.on("pageerror", (error) => wrong(`error: ${error.message}`));
    // As a daemon that does not answer; from the begin, or when the page is there.
    const cut = () => page.route("**/v1/**", (route) => route.abort());
    if (view.cut === "first") await cut();
    await page.goto(`${place.url}/${view.hash ?? ""}`);
    await page.locator(view.ready).last().waitFor({ state: "attached" });
    if (view.cut === true) {
      await cut();
      place.drop();
    }
    await view.act?.(page);
    for (const scheme of SCHEMES) {
      file = fileOf(it, scheme);
      await page.emulateMedia({ colorScheme: scheme });
      await drawn(page);
      if (scheme === SCHEMES[0]) for (const what of await page.evaluate(layoutFaults, { coarse: phone })) wrong(what);
      await page.screenshot({ path: FOLDER + file, animations: "disabled", caret: "hide" });
    }
  } catch (error) {
    wrong(error.message.split("\n")[0]);
  } finally {
    await context.close();
  }
}

const waiting = [...shots];
await Promise.all([...Array(Number(process.env.CONSOLE_LANES ?? 2))].map(async () => {
  const browser = await launch();
  for (let next = waiting.shift(); next; next = waiting.shift()) await shot(browser, next);
  await browser.close();
}));
await Promise.all(Object.values(places).map((place) => place.stop()));

const text = (it) => String(it).replace(/[&<>"]/g, (c) => `&#${c.charCodeAt(0)};`);
const groups = new Map();
for (const it of shots) groups.set(`${it.name}, ${it.world}`, [...(groups.get(`${it.name}, ${it.world}`) ?? []), ...SCHEMES.map((scheme) => fileOf(it, scheme))]);
writeFileSync(`${FOLDER}index.html`, `<!doctype html><meta charset=utf-8><title>Views</title><style>body{font:14px system-ui;background:#777;color:#fff}div{display:flex;gap:8px;align-items:start;overflow-x:auto}img{height:420px}</style>
${[...groups].map(([name, files]) => `<h2>${text(name)}</h2><div>${files.map((file) => `<a href="${text(file)}"><img loading=lazy src="${text(file)}" title="${text([file, ...faults.filter((each) => each.file === file).map((each) => each.what)].join("\n"))}"></a>`).join("")}</div>`).join("\n")}\n`);
const byFault = new Map();
for (const { file, what } of faults) byFault.set(what, [...(byFault.get(what) ?? []), file]);
for (const [what, files] of byFault) console.log(`${what}\n    ${files.slice(0, 3).join(" ")}${files.length > 3 ? ` and ${files.length - 3} more` : ""}`);
console.log(`${shots.length * SCHEMES.length} pictures in ${Math.round((Date.now() - begun) / 1000)} s, ${byFault.size} faults: .shots/index.html`);
process.exit(byFault.size === 0 ? 0 : 1);
