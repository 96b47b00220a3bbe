// Runs the flows, or those whose names are given: npm run e2e -- stop reload
import { daemon, launch } from "./browser.mjs";
import * as basic from "./basic.mjs";
import * as hard from "./hard.mjs";
import * as long from "./long.mjs";

const only = process.argv.slice(2);
const flows = Object.entries({ ...basic.flows, ...hard.flows, ...long.flows }).filter(([name]) => only.length === 0 || only.includes(name));
const browser = await launch();
let failed = 0;
let skipped = 0;
for (const [name, flow] of flows) {
  const place = await daemon({ pace: 8 });
  const begun = Date.now();
  try {
    const lacks = flow.mock && !place.world ? "the mock" : flow.real && !place.kill ? "a program" : "";
    if (lacks !== "") {
      skipped += 1;
      console.log(`skipped ${name}: it needs ${lacks}`);
      continue;
    }
    const note = await flow.run({ browser, place });
    console.log(`passed  ${name} (${Date.now() - begun} ms)${note ? `: ${note}` : ""}`);
  } catch (error) {
    failed += 1;
    console.log(`FAILED  ${name}: ${error.stack}`);
  } finally {
    for (const context of browser.contexts()) await context.close();
    await place.stop?.();
  }
}
await browser.close();
console.log(failed === 0 ? `${flows.length - skipped} flows passed, ${skipped} skipped` : `${failed} of ${flows.length} flows failed`);
process.exit(failed === 0 ? 0 : 1);
