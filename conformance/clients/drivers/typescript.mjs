#!/usr/bin/env node
// The driver of the TypeScript client: instructions on stdin, replies and events on stdout. Needs `npm run build` of the package.
// With the argument `browser` it drives the module for browsers in a page of Chromium: of the one behind the socket CLIENTS_PAGES
// (`pages.mjs`), or of one of its own.
import { connect } from "node:net";
import { createInterface } from "node:readline";

const { CLIENTS_PAGES: pages } = process.env;

async function inNode() {
  const { makeDriver } = await import("./instructions.mjs");
  const sdk = await import("../../../adapters-sdk/typescript/dist/client.js");
  const run = makeDriver({
    sdk,
    report: (message) => process.stdout.write(JSON.stringify(message) + "\n"),
    given: (path) => path,
    log: (line) => process.stderr.write(line + "\n"),
  });
  createInterface({ input: process.stdin }).on("line", (line) => void run(JSON.parse(line))).on("close", () => process.exit(0));
}

function behindSocket() {
  const socket = connect(pages);
  process.stdin.pipe(socket).pipe(process.stdout);
  socket.on("error", (error) => (console.error(`no page: ${error.message}`), process.exit(1)));
  socket.on("close", () => process.exit(0));
}

async function inOwnChromium() {
  const { openPages } = await import("./pages.mjs");
  await (await openPages()).drive(process.stdin, process.stdout);
  process.exit(0);
}

if (process.argv[2] !== "browser") await inNode();
else if (pages) behindSocket();
else await inOwnChromium();
