// Pictures of each view, empty, short and long, in three widths, light and dark: npm run shots [-- VIEW...]. They go to
// .shots, with a page of all of them. A view that is wider than its screen, or cuts a text or an action, fails.
import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { launch } from "./browser.mjs";
import { layoutFaults } from "./layout.mjs";
import { drawn } from "./steps.mjs";
import { VIEWS, openView, worlds } from "./views.mjs";

const SIZES = [[390, 844], [768, 1024], [1280, 800]];
const SCHEMES = ["light", "dark"];
const FOLDER = new URL("../.shots/", import.meta.url).pathname;

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
  let file = fileOf(it, SCHEMES[0]);
  const wrong = (what) => faults.push({ file, what });
  const page = await openView(browser, places, it, wrong);
  for (const scheme of SCHEMES) {
    file = fileOf(it, scheme);
    await page.emulateMedia({ colorScheme: scheme });
    await drawn(page);
    if (scheme === SCHEMES[0]) for (const what of await page.evaluate(layoutFaults, { coarse: it.width < 700 })) wrong(what);
    await page.screenshot({ path: FOLDER + file, animations: "disabled", caret: "hide" });
  }
  await page.context().close();
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
