// The half for browsers, in one: a page of another site drives sessions of a daemon that names its origin.
import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { appendFileSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { Daemon, skip as without } from "./daemon.mjs";

const chromium = ["chromium", "chromium-browser", "google-chrome"].find((name) => spawnSync(name, ["--version"]).status === 0);
const skip = without || (chromium ? false : "no Chromium");
const { TRUNKLINE_TEST_SKIPS: skips } = process.env;
if (skip && skips) appendFileSync(skips, `typescript::browser: ${skip}\n`);

const sdk = new URL("./", import.meta.resolve("@trunkline/sdk/browser"));

// What the page does: it says each step to the site that it came from.
async function script() {
  const { Client, eventsOf, overHttp, SessionTable, webSocket } = await import("/sdk/browser.js");
  const { url, token, way } = Object.fromEntries(new URLSearchParams(location.hash.slice(1)));
  const tell = async (what) => void (await fetch("/said", { method: "POST", body: JSON.stringify(what) }));
  try {
    const connect = { WebSocket: webSocket, HTTP: overHttp }[way](url, token);
    const client = await Client.connect(connect, { onPermission: ({ tool }) => tool === "Bash" });
    const session = await client.open({}, { listen: true });
    const heard = [];
    const hearing = (async () => {
      for await (const { seq } of session.events()) if (seq !== undefined) heard.push(seq);
    })();
    const files = [new File(["of a"], "ä.txt")];
    const texts = [(await session.turn("ä b 😀")).text, (await session.turn("ask")).text, (await session.turn("read", { files })).text];
    await tell({ texts }); // answered once the daemon was killed, and is up again
    texts.push((await session.turn("again")).text);
    await session.turn("file");
    let file;
    const read = [];
    for await (const entry of eventsOf(url, session.id, { token })) {
      read.push(entry.seq);
      if (entry.type === "file.output") file = new TextDecoder().decode(await session.file(entry));
      if (entry.type === "turn.complete" && read.length >= heard.length) break;
    }
    await session.setTitle("of a page");
    const able = [(await client.agents()).length, (await client.sessions({ text: session.id })).sessions[0].title];
    able.push((await session.history({ before: "end", limit: 1 })).entries[0].type, (await client.search("again")).hits.length);
    const other = await Client.connect(connect, { onPermission: "leave" });
    const fork = await session.fork();
    const copy = await other.attach(fork.id, { after: fork.position });
    const [table, stop] = [new SessionTable(), new AbortController()];
    fork.leave();
    const asked = copy.turn("ask");
    for await (const event of other.watch({ signal: stop.signal })) {
      table.apply(event);
      if (table.isComplete && table.waiting.length > 0) break;
    }
    const [{ request }] = table.waiting;
    able.push((await other.answer(copy.id, request.id, { approved: true, name: "Ada" })).name, (await asked).text);
    await other.remove(copy.id);
    able.push(await other.history(copy.id).catch(({ status }) => status));
    await other.close();
    const wrong = await eventsOf(url, session.id, { token: "wrong" }).next().catch((error) => error.message);
    session.close();
    await hearing;
    await client.close();
    await tell({ texts, heard, read, wrong, file, able });
  } catch (error) {
    await tell({ error: String(error) });
  }
}

// A site that serves the page and the package: `said` gets what its page says, and may take its time.
async function site(said) {
  const server = createServer(async (request, answer) => {
    if (request.method === "POST") {
      let body = "";
      for await (const piece of request.setEncoding("utf8")) body += piece;
      await said(JSON.parse(body));
      return answer.end();
    }
    const name = /^\/sdk\/([a-z]+\.js)$/.exec(request.url)?.[1];
    answer.setHeader("Content-Type", name ? "text/javascript" : "text/html; charset=utf-8");
    answer.end(name ? readFileSync(new URL(name, sdk)) : `<!doctype html><script type="module">(${script})();</script>`);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address();
  return { origin: `http://127.0.0.1:${port}`, end: () => (server.closeAllConnections(), server.close()) };
}

const LATE = 60_000; // for a page that cannot be loaded, or says nothing

// Opens a page until it has said its last.
async function browse(address, last) {
  const profile = mkdtempSync(join(tmpdir(), "trunkline-browser-"));
  const flags = ["--headless", "--disable-gpu", "--no-first-run", `--user-data-dir=${profile}`];
  // Its own sandbox needs what a container often lacks; the page is ours.
  if (process.getuid() === 0) flags.push("--no-sandbox");
  const child = spawn(chromium, [...flags, address], { stdio: "ignore", detached: true });
  const ended = new Promise((resolve) => child.on("close", resolve));
  let timer;
  const failed = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error("the page said nothing in time")), LATE);
    void ended.then((status) => reject(new Error(`the browser ended with ${status}`)));
  });
  try {
    return await Promise.race([last, failed]);
  } finally {
    clearTimeout(timer);
    try {
      process.kill(-child.pid, "SIGKILL");
    } catch {
      // it has ended, with all that it began
    }
    await ended;
    rmSync(profile, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 });
  }
}

for (const way of ["WebSocket", "HTTP"]) {
  test(`a page of an origin that the daemon names drives a session over ${way}, over a kill of the daemon`, { skip }, async () => {
    let finish;
    const last = new Promise((resolve) => (finish = resolve));
    const own = await site(async (said) => {
      if (said.heard || said.error) return finish(said);
      await daemon.kill();
      await daemon.up();
    });
    const daemon = await Daemon.start(["--allow-origin", own.origin]);
    const token = await daemon.token();
    try {
      const said = await browse(`${own.origin}/#${new URLSearchParams({ url: daemon.http, token, way })}`, last);
      assert.equal(said.error, undefined);
      assert.deepEqual(said.texts, ["ä b 😀 ", "true", "ä.txt: of a, read ", "again "]);
      assert.equal(said.file, "made by the agent");
      assert.match(said.wrong, /401/);
      assert.deepEqual(said.able, [1, "of a page", "session.edited", 2, "Ada", "true", 404]);
      assert.deepEqual(said.read, said.read.map((_, index) => index + 1));
      assert.deepEqual(said.heard.slice(0, said.read.length), said.read);
    } finally {
      own.end();
      await daemon.end();
    }
  });

  test(`a page of any other origin opens nothing over ${way}`, { skip }, async () => {
    let finish;
    const last = new Promise((resolve) => (finish = resolve));
    const other = await site(async (said) => finish(said));
    const daemon = await Daemon.start(["--allow-origin", "http://127.0.0.1:1"]);
    const token = await daemon.token();
    try {
      const { error } = await browse(`${other.origin}/#${new URLSearchParams({ url: daemon.http, token, way })}`, last);
      assert.match(error, /no connection to|Failed to fetch/);
    } finally {
      other.end();
      await daemon.end();
    }
  });
}
