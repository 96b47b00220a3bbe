// Pages of one Chromium, each a driver of the TypeScript client's module for browsers.
//
//   node pages.mjs SOCKET
//
// Each connection to SOCKET gets a document of its own: instructions in, replies and events out. Prints {"origin": …}, which a daemon is to
// allow, and ends with stdin. Ends with the status 77 and a reason if the machine has no Chromium.
import { appendFileSync, readFileSync } from "node:fs";
import { createServer as createSite } from "node:http";
import { createServer } from "node:net";
import { basename } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const SDK = new URL("../../../adapters-sdk/typescript/dist/", import.meta.url);
const BROWSER = new URL("../../../runtime/gateway/console/e2e/browser.mjs", import.meta.url);

const PAGE = `<!doctype html><script type="module">
  import * as sdk from "/sdk/browser.js";
  import { makeDriver } from "/instructions.mjs";
  const given = ({ name, data }) => new File([Uint8Array.from(atob(data), (char) => char.charCodeAt(0))], name);
  const run = makeDriver({ sdk, report: (message) => report(JSON.stringify(message)), given });
  globalThis.take = (line) => void run(JSON.parse(line));
</script>`;

/** Serves the page, this folder's instructions and the package. Returns the origin. */
async function serve() {
  const site = createSite((request, answer) => {
    const module = /^\/(?:sdk\/([a-z]+\.js)|(instructions\.mjs))$/.exec(request.url);
    const [, ofSdk, own] = module ?? [];
    answer.setHeader("Content-Type", module ? "text/javascript" : "text/html; charset=utf-8");
    if (module) answer.end(readFileSync(ofSdk ? new URL(ofSdk, SDK) : new URL(own, import.meta.url)));
    else answer.end(request.url === "/" ? PAGE : "<!doctype html>");
  });
  await new Promise((resolve) => site.listen(0, "127.0.0.1", resolve));
  return `http://127.0.0.1:${site.address().port}`;
}

/** A page has files and no paths. */
function withContents(line) {
  const instruction = JSON.parse(line);
  const contents = (path) => ({ name: basename(path), data: readFileSync(path, "base64") });
  if (instruction.files) instruction.files = instruction.files.map(contents);
  if (instruction.do === "put_file") instruction.path = contents(instruction.path);
  return JSON.stringify(instruction);
}

/** Starts Chromium. Throws an error that begins with `no` if the machine has none, or not the package that drives it. */
export async function openPages() {
  const { launch } = await import(BROWSER).catch((error) => {
    if (error.code !== "ERR_MODULE_NOT_FOUND") throw error;
    throw new Error("no npm packages of the console: npm ci --prefix runtime/gateway/console", { cause: error });
  });
  const browser = await launch();
  const origin = await serve();

  const idle = []; // pages without a driver: to begin one takes ten times as long as to load another document

  async function newPage() {
    const context = await browser.newContext(); // with its own connections to a daemon: there are six for each
    const page = await context.newPage();
    page.on("pageerror", (error) => console.error(error));
    const session = await context.newCDPSession(page);
    const own = { page, context, output: undefined };
    session.on("Runtime.bindingCalled", ({ payload }) => own.output?.write(payload + "\n"));
    await session.send("Runtime.enable");
    await session.send("Runtime.addBinding", { name: "report" });
    return own;
  }

  /** Has a page run the instructions that come on a stream, until that ends. */
  async function drive(input, output) {
    const own = idle.pop() ?? (await newPage());
    const { page, context } = own;
    const crashed = new Promise((_, reject) => page.once("crash", () => reject(new Error("the page crashed"))));
    await page.goto(origin);
    own.output = output;
    const lines = createInterface({ input });
    const read = (async () => {
      for await (const line of lines) await page.evaluate((line) => globalThis.take(line), withContents(line));
    })();
    try {
      await Promise.race([read, crashed]);
      own.output = undefined;
      await page.goto(`${origin}/idle`); // ends the client
      idle.push(own);
    } catch (error) {
      await context.close().catch(() => {});
      throw error;
    }
  }

  return { origin, drive };
}

async function main(path) {
  let pages;
  try {
    pages = await openPages();
  } catch ({ message }) {
    console.error(message);
    const { TRUNKLINE_TEST_SKIPS: skips } = process.env;
    if (message.startsWith("no ") && skips) appendFileSync(skips, `clients::typescript-browser: ${message}\n`);
    process.exit(message.startsWith("no ") ? 77 : 1);
  }
  const server = createServer((socket) => {
    socket.on("error", () => {}); // a driver that was ended
    pages.drive(socket, socket).catch(console.error).finally(() => socket.destroy());
  });
  server.listen(path, () => console.log(JSON.stringify({ origin: pages.origin })));
  process.stdin.resume().on("end", () => process.exit(0));
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await main(process.argv[2]);
