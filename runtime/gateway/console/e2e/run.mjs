// Runs the flows, or those whose names are given: npm run e2e -- stop reload
import { readFileSync } from "node:fs";
import { daemon, launch } from "./browser.mjs";
import * as basic from "./basic.mjs";
import * as hard from "./hard.mjs";
import * as long from "./long.mjs";
import * as people from "./people.mjs";

const only = process.argv.slice(2);
const all = { ...basic.flows, ...people.flows, ...hard.flows, ...long.flows };
for (const name of only) if (!Object.hasOwn(all, name)) throw new Error(`no flow ${name}: ${Object.keys(all).join(", ")}`);
const flows = Object.entries(all).filter(([name]) => only.length === 0 || only.includes(name));
const browser = await launch();
let failed = 0;
let skipped = 0;
for (const [name, flow] of flows) {
  const begun = Date.now();
  let place;
  try {
    place = await daemon({ mock: flow.mock, names: flow.names, pace: 8 });
    if (flow.real && !place.kill) {
      skipped += 1;
      console.log(`skipped ${name}: it needs a daemon of its own`);
      continue;
    }
    await current(place);
    const note = await flow.run({ browser, place });
    console.log(`passed  ${name} (${Date.now() - begun} ms${place.world ? ", mock" : ""})${note ? `: ${note}` : ""}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}: ${error.stack}`);
  } finally {
    for (const context of browser.contexts()) await context.close();
    await place?.stop?.();
  }
}
await browser.close();
console.log(failed === 0 ? `${flows.length - skipped} flows passed, ${skipped} skipped` : `${failed} of ${flows.length} flows failed`);
process.exit(failed === 0 ? 0 : 1);

/** Flows of another page than the one that is here would say nothing. */
async function current({ url, world }) {
  if (world || process.env.CONSOLE_DIST) return;
  const served = await (await fetch(`${url}/app.js`)).text();
  if (served !== readFileSync(new URL("../dist/app.js", import.meta.url), "utf8")) throw new Error("the program carries another page than dist: build it again, or set CONSOLE_DIST=1");
}
