// Runs the flows, or those whose names are given, two side by side: npm run e2e -- stop reload
import { readFileSync } from "node:fs";
import { daemon, launch } from "./browser.mjs";
import * as basic from "./basic.mjs";
import * as find from "./find.mjs";
import * as hard from "./hard.mjs";
import * as inbox from "./inbox.mjs";
import * as layout from "./layout.mjs";
import * as lists from "./lists.mjs";
import * as long from "./long.mjs";
import * as pairing from "./pairing.mjs";
import * as people from "./people.mjs";
import * as turns from "./turns.mjs";

const LANES = Number(process.env.CONSOLE_LANES ?? 2);
const only = process.argv.slice(2);
// Those that take long come first, so that no lane waits for the last one.
const all = { ...layout.flows, ...long.flows, ...hard.flows, ...basic.flows, ...inbox.flows, ...pairing.flows, ...people.flows, ...turns.flows, ...find.flows, ...lists.flows };
for (const name of only) if (!Object.hasOwn(all, name)) throw new Error(`no flow ${name}: ${Object.keys(all).join(", ")}`);
const waiting = Object.entries(all).filter(([name]) => only.length === 0 || only.includes(name));
const count = { passed: 0, failed: 0, skipped: 0 };

/** One browser, and one flow after the other. */
async function lane() {
  const browser = await launch();
  for (let next = waiting.shift(); next; next = waiting.shift()) {
    const [name, flow] = next;
    const begun = Date.now();
    let place;
    try {
      place = await daemon({ mock: flow.mock, names: flow.names, pace: 8 });
      if (flow.real && !place.kill) {
        count.skipped += 1;
        console.log(`skipped ${name}: it needs a daemon of its own`);
        continue;
      }
      await current(place);
      const note = await flow.run({ browser, place });
      count.passed += 1;
      console.log(`passed  ${name} (${Date.now() - begun} ms${place.world ? ", mock" : ""})${note ? `: ${note}` : ""}`);
    } catch (error) {
      count.failed += 1;
      console.log(`FAILED  ${name}: ${error.stack}`);
    } finally {
      for (const context of browser.contexts()) await context.close();
      await place?.stop?.();
    }
  }
  await browser.close();
}

/** Flows of another page than the one that is here would say nothing. */
async function current({ url, world }) {
  if (world || process.env.CONSOLE_DIST) return;
  const served = await (await fetch(`${url}/app.js`)).text();
  if (served !== readFileSync(new URL("../dist/app.js", import.meta.url), "utf8")) throw new Error("the program carries another page than dist: build it again, or set CONSOLE_DIST=1");
}

await Promise.all([...Array(LANES)].map(lane));
console.log(`${count.passed} flows passed, ${count.failed} failed, ${count.skipped} skipped`);
process.exit(count.failed === 0 ? 0 : 1);
