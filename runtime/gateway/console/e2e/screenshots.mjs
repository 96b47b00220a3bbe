// The pictures of docs/console.md and the README, from a run with real processes: npm run screenshots. It needs pngquant.
import { execFileSync } from "node:child_process";
import { statSync, unlinkSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { fresh } from "./basic.mjs";
import { daemon, launch, signedIn } from "./browser.mjs";
import { ends, send, useDist } from "./steps.mjs";

const FOLDER = fileURLToPath(new URL("../../../../docs/images/", import.meta.url));
/** A page of pictures loads over slow links, too. */
const LIMIT = 150_000;

const place = await daemon({});
const browser = await launch();
const it = { place, browser };
const sizes = [];

async function shot(page, name) {
  const path = `${FOLDER}console-${name}.png`;
  // Nothing that blinks, and no ring around what was used last.
  await page.evaluate(() => document.activeElement?.blur());
  await page.mouse.move(0, 0);
  // A request that has just come cannot be answered at once.
  await page.locator(".waiting [aria-disabled=true]").first().waitFor({ state: "detached" });
  await page.screenshot({ path: `${path}.raw`, type: "png", animations: "disabled", caret: "hide" });
  execFileSync("pngquant", ["--force", "--strip", "--speed", "1", "--output", path, "64", `${path}.raw`]);
  unlinkSync(`${path}.raw`);
  const { size } = statSync(path);
  if (size > LIMIT) throw new Error(`${path} has ${size} bytes, more than ${LIMIT}`);
  sizes.push(`${name} ${size}`);
}

/** Says something in a session as a program does, and waits for the end. */
const turn = (hash, content) => fetch(`${place.url}/v1/sessions/${hash.split("/").pop()}/inputs?wait=end`, {
  method: "POST", headers: { Authorization: `Bearer ${place.token}`, "Content-Type": "application/json" }, body: JSON.stringify({ content }),
}).then((answer) => answer.text());

try {
  for (const [title, agent] of [["Release notes for 0.2", "reviewer"], ["Flaky test in the journal", "coder"], ["Which crates build twice?", "reviewer"], ["Rename the option", "coder"]]) await turn(await fresh(it, title, agent), "stream");
  const running = await fresh(it, "Port the importer", "coder");
  void turn(running, "slow").catch(() => undefined);
  const main = await fresh(it, "Mend the parser", "coder");

  for (const scheme of ["light", "dark"]) {
    const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, colorScheme: scheme, reducedMotion: "reduce" });
    await useDist(context);
    const page = await signedIn(context, place, main);
    await page.locator(".composer").waitFor();
    if (scheme === "light") {
      await send(page, "stream: why do the tests with CRLF fail?");
      await ends(page, 1);
      await send(page, "work on it");
      await ends(page, 2);
      await send(page, "ask before you delete the logs");
    }
    await page.locator(".waiting").waitFor();
    await page.locator(".list li", { hasText: "Port the importer" }).getByText("running").waitFor();
    await page.locator(".diff").first().scrollIntoViewIfNeeded();
    await page.locator(".scroller").evaluate((scroller) => {
      scroller.scrollTop += document.querySelector(".diff").getBoundingClientRect().top - scroller.getBoundingClientRect().top - 110;
    });
    await page.locator(".file img").first().waitFor();
    await shot(page, `session-${scheme}`);
    await page.keyboard.press("w");
    await page.getByLabel("Filter entries").fill("-output");
    await page.locator(".wire .entry", { hasText: "turn.begin" }).first().click();
    await page.locator(".detail").waitFor();
    await shot(page, `wire-${scheme}`);
    await page.evaluate(() => sessionStorage.removeItem("trunkline.wire"));
    // What the agents do meanwhile becomes a line.
    let busy = true;
    const load = (async () => {
      const [one, two] = [await fresh(it, "Rename the option", "coder"), await fresh(it, "Which crates build twice?", "reviewer")];
      for (let at = 1; busy; at += 1) await Promise.all([...Array(1 + (at % 3))].map(() => turn(one, "image")).concat(at % 2 ? [turn(two, "stream")] : []));
      for (const hash of [one, two]) await fetch(`${place.url}/v1/sessions/${hash.split("/").pop()}?remove=true`, { method: "DELETE", headers: { Authorization: `Bearer ${place.token}` } });
    })();
    await page.getByRole("link", { name: "Agents" }).click();
    await page.getByRole("heading", { level: 1, name: "Agents" }).waitFor();
    await page.waitForTimeout(24_000);
    await shot(page, `agents-${scheme}`);
    busy = false;
    await load;
    await context.close();
    const phone = await browser.newContext({ viewport: { width: 360, height: 640 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true, colorScheme: scheme, reducedMotion: "reduce" });
    await useDist(phone);
    const small = await signedIn(phone, place, main);
    await small.locator(".waiting").waitFor();
    await shot(small, `phone-${scheme}`);
    await phone.close();
  }
} finally {
  await browser.close();
  await place.stop();
}
console.log(sizes.join("\n"));
