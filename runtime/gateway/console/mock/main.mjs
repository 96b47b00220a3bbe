// A daemon without agents, for working on the console: node mock/main.mjs [port]
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { gzipSync } from "node:zlib";
import { fileURLToPath } from "node:url";
import { fill, run } from "./agent.mjs";
import { World, sha256 } from "./world.mjs";

const CSP = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; connect-src 'self'; manifest-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'";
const DIST = fileURLToPath(new URL("../dist/", import.meta.url));
const TYPES = { html: "text/html; charset=utf-8", js: "text/javascript; charset=utf-8", css: "text/css; charset=utf-8", svg: "image/svg+xml", webmanifest: "application/manifest+json" };
const ASSETS = ["/app.js", "/app.css", "/worker.js", "/icon.svg", "/icon-maskable.svg", "/manifest.webmanifest"];

export function start({ port = 0, pace = 30, world = new World(), quiet = true } = {}) {
  const open = new Set();
  const server = createServer((request, response) => {
    handle(world, request, response, pace, open).catch((error) => {
      if (!quiet) console.error(error);
      if (!response.headersSent) problem(response, 500, error.message);
      else response.destroy();
    });
  });
  server.on("connection", (socket) => {
    open.add(socket);
    socket.on("close", () => open.delete(socket));
  });
  return new Promise((resolve) => server.listen(port, "127.0.0.1", () => resolve({
    world,
    url: `http://127.0.0.1:${server.address().port}`,
    /** As a daemon that was killed: every connection breaks, and what ran is over. */
    stop: () => new Promise((done) => {
      server.close(done);
      for (const socket of open) socket.destroy();
    }),
    drop: () => {
      for (const socket of open) socket.destroy();
    },
  })));
}

const json = (response, status, body) => {
  response.writeHead(status, { "Content-Type": "application/json", "Cache-Control": "no-store" });
  response.end(body === undefined ? undefined : JSON.stringify(body));
};
const problem = (response, status, detail, category) => {
  response.writeHead(status, { "Content-Type": "application/problem+json" });
  response.end(JSON.stringify({ type: "about:blank", title: `status ${status}`, status, detail, category }));
};

async function body(request) {
  const parts = [];
  for await (const part of request) parts.push(part);
  return Buffer.concat(parts);
}

function page(response, name, code) {
  let content = readFileSync(DIST + name, "utf8");
  if (code) content = content.replace("<head>", `<head>\n<meta name="trunkline-code" content="${code}">`);
  response.writeHead(200, { "Content-Type": TYPES[name.split(".").pop()], "Content-Security-Policy": CSP, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache", "Content-Encoding": "gzip" });
  response.end(gzipSync(content));
}

async function handle(world, request, response, pace, open) {
  const url = new URL(request.url, "http://mock");
  const [, , area, id, part, sub] = url.pathname.split("/").map(decodeURIComponent);
  const method = request.method;
  if (method === "GET" && url.pathname === "/") return page(response, "index.html");
  if (method === "GET" && ASSETS.includes(url.pathname)) return page(response, url.pathname.slice(1));
  if (method === "POST" && url.pathname === "/open") return page(response, "index.html", "a-code");
  if (method === "GET" && url.pathname === "/readyz") return json(response, 200, { state: "ready", version: "0.1.0" });
  // For the one who works on the console, not of the contract.
  if (method === "POST" && url.pathname === "/mock/restart") {
    world.restarted();
    json(response, 204);
    return setTimeout(() => open.forEach((socket) => socket.destroy()), 20);
  }
  // Any browser is paired, and any signature will do.
  if (method === "POST" && area === "browsers") {
    if (part === "challenge") return json(response, 200, { challenge: "a-challenge" });
    return part === "bearer" ? json(response, 200, { token: world.token, expires_in: 600 }) : json(response, 201, { id: "0a1b2c3d" });
  }
  if (request.headers.authorization !== `Bearer ${world.token}`) return problem(response, 401, "the token is not known");
  if (area === "me") await world.meHeld;
  if (area === "me") return json(response, 200, { scope: "control", may_approve: world.mayApprove, agents: null, sees_all: false, version: "0.1.0", name: "console" });
  if (area === "events") return changes(world, request, response);
  if (area === "agents" && part === "conversations") return conversations(world, id, response);
  if (area === "agents") return json(response, 200, world.bare ? { agents: [] } : agents(world));
  if (area === "search") return search(world, url, response);
  if (area === "browsers" && method === "GET") return json(response, 200, { browsers: world.browsers ?? [] });
  if (area === "browsers") return problem(response, 403, "this needs the scope admin", "permission_denied");
  if (area === "rules") {
    if (method === "DELETE") world.rules = world.rules.filter((rule) => rule.id !== id);
    return method === "DELETE" ? json(response, 204) : json(response, 200, { rules: world.rules });
  }
  if (area === "hosts") return json(response, 200, { hosts: world.hosts });
  if (area === "usage") return json(response, 200, { days: world.bare ? [] : usage(world, Number(url.searchParams.get("days") ?? 30)) });
  if (area !== "sessions") return problem(response, 404, "there is no such path");
  if (id === undefined) return sessions(world, url, method, request, response);
  const session = world.sessions.get(id);
  if (!session) return problem(response, 404, "there is no such session");
  if (part === undefined) {
    if (method === "GET") return json(response, 200, session.attached());
    session.close();
    if (url.searchParams.get("remove") === "true") world.remove(id);
    return json(response, 204);
  }
  if (part === "events") return events(session, url, request, response);
  if (part === "history") return history(session, url, request, response);
  if (part === "files") {
    if (method === "PUT") {
      const content = await body(request);
      return json(response, 201, { sha256: session.file(url.searchParams.get("name"), content, false), size: content.length, name: url.searchParams.get("name") });
    }
    const file = session.files.get(sub);
    if (!file) return problem(response, 404, "there is no such file");
    response.writeHead(200, { "Content-Type": "application/octet-stream", "Content-Disposition": "attachment", "Content-Security-Policy": "sandbox" });
    return response.end(file.content);
  }
  const said = JSON.parse((await body(request)).toString() || "{}");
  if (part === "inputs") return input(session, said, request, response, pace);
  if (part === "stop" && said.turn_id !== undefined && said.turn_id !== session.running) {
    const before = session.queue.length;
    session.queue = session.queue.filter((each) => each.turn !== said.turn_id);
    if (session.queue.length === before) return json(response, 202, {});
    session.add({ type: "stop.requested", turn_id: said.turn_id, reason: "user", by: "console" });
    session.add({ type: "turn.complete", turn_id: said.turn_id, status: "stopped", stop_reason: "user", cause: "stopped_unsent", delivered: "no" });
    return json(response, 202, {});
  }
  if (part === "stop") {
    session.add({ type: "stop.requested", turn_id: session.running || undefined, reason: "user", by: "console" });
    session.stopper?.abort("stop");
    return json(response, 202, {});
  }
  if (part === "settings") {
    session.add({ type: "session.info", ...said.options });
    return json(response, 202, {});
  }
  if (part === "requests") {
    const settle = session.requests.get(sub);
    if (!settle) return problem(response, 409, "console answered first");
    if (JSON.stringify(said.updated_input ?? "").includes("forbidden")) return problem(response, 403, "the pattern Bash(*forbidden*) of permission.deny rejects this input");
    const rule = said.always === undefined ? undefined : { id: `rule-${world.rules.length + 1}`, agent: session.agent, pattern: said.always, by: "console/l-1", created: Math.floor(Date.now() / 1000) };
    if (rule) world.rules.push(rule);
    session.requests.delete(sub);
    const values = said.values && Object.fromEntries(Object.entries(said.values).map(([key, value]) => [key, key === "token" ? { redacted: true } : value]));
    session.add({ type: "request.decided", turn_id: session.running, request_id: sub, ...(said.approved === undefined ? {} : { approved: said.approved }), option_id: said.option_id, updated_input: said.updated_input, always: said.always, values, cancelled: said.cancelled, by: "console" });
    settle(said);
    return json(response, 200, { decided: true });
  }
  return problem(response, 404, "there is no such path");
}

async function sessions(world, url, method, request, response) {
  if (method === "POST") {
    const said = JSON.parse((await body(request)).toString() || "{}");
    if (said.options?.model === "forbidden") return problem(response, 422, "model: forbidden is not one of the agent's");
    const { cwd } = said.options ?? {};
    if (cwd && !/^\/srv\/(app|books)(\/|$)/.test(cwd)) return problem(response, 403, `${cwd} is no folder that the agent's configuration allows to a network`);
    const opened = world.open(said.agent ?? "coder", said.options?.title ?? "");
    opened.native = said.native_session_id;
    opened.cwd = said.options?.cwd ?? opened.cwd;
    return json(response, 201, { id: opened.id, agent: opened.agent });
  }
  const text = (url.searchParams.get("text") ?? "").toLowerCase();
  const state = url.searchParams.get("state") ?? "";
  const limit = Number(url.searchParams.get("limit") ?? 100);
  const from = Number(url.searchParams.get("cursor") ?? 0);
  if (world.slow && text !== "") await new Promise((done) => setTimeout(done, world.slow));
  const all = [...world.sessions.values()].map((session) => session.listed()).sort((a, b) => (a.active < b.active ? 1 : -1));
  // As the daemon does: a request looks at so many sessions, and may find none of them.
  const end = world.lookedAt ? from + world.lookedAt : all.length;
  const found = all.slice(world.lookedAt ? from : 0, end)
    .filter((each) => (url.searchParams.get("agent") ?? each.agent_id) === each.agent_id)
    .filter((each) => (each.title + each.session_id).toLowerCase().includes(text) && (state === "" || each.state === state));
  if (world.lookedAt) return json(response, 200, { sessions: found, next: end < all.length ? String(end) : undefined, missing: world.missing });
  const next = found.length > from + limit ? String(from + limit) : undefined;
  return json(response, 200, { sessions: found.slice(from, from + limit), next, missing: world.missing });
}

async function input(session, said, request, response, pace) {
  const message_id = request.headers["idempotency-key"];
  const known = session.inputs.get(message_id);
  if (known) return json(response, 202, known);
  if (session.closed) return problem(response, 409, "the session is closed");
  const turn = said.steer ?? `t-${sha256(message_id).slice(0, 12)}`;
  for (const { sha256: hash, name, mime_type } of said.files ?? []) {
    const file = session.files.get(hash);
    session.add({ type: "file.delivered", file_name: name, file_mime_type: mime_type, size: file?.content.length, sha256: hash, by: "console" });
  }
  if (said.steer !== undefined) {
    const seq = session.add({ type: "input.steered", turn_id: turn, message_id, content: said.content, by: "console" });
    session.add({ type: "steer.result", turn_id: turn, message_id, delivered: session.running === turn });
    return json(response, 202, { turn_id: turn, message_id, seq, state: "running" });
  }
  const queued = session.running !== "";
  if (session.title === "") session.title = said.content.slice(0, 80);
  const seq = session.add({ type: "turn.begin", turn_id: turn, message_id, content: said.content, ...(said.files ? { files: said.files.map((file) => file.sha256) } : {}), ...(queued ? { queued } : {}), by: "console" });
  const answer = { turn_id: turn, message_id, seq, state: queued ? "queued" : "running" };
  session.inputs.set(message_id, answer);
  if (queued) session.queue.push({ turn, content: said.content });
  else void run(session, { turn, content: said.content }, pace);
  return json(response, 202, answer);
}

/** Characters of the largest page of history. */
const PAGE = 1_000_000;

/** A page from an entry on, or up to one. */
function history(session, url, request, response) {
  const { entries, first } = session;
  const limit = Number(url.searchParams.get("limit") ?? 1e9);
  const before = url.searchParams.get("before");
  let from = Math.max(first, Number(url.searchParams.get("from") ?? first));
  let to = from;
  let size = 0;
  if (before) {
    from = to = before === "end" ? entries.length + 1 : Math.min(Number(before), entries.length + 1);
    while (from > first && to - from < limit && size < PAGE) size += entries[--from - 1].length;
  } else while (to <= entries.length && to - from < limit && size < PAGE) size += entries[++to - 2].length;
  const text = `{"entries":[${entries.slice(from - 1, to - 1)}],"previous":${from > first ? from : null},"next":${to <= entries.length ? to : null},"last":${entries.length}}`;
  const zipped = /gzip/.test(request.headers["accept-encoding"] ?? "");
  response.writeHead(200, { "Content-Type": "application/json", "Cache-Control": "no-store", ...(zipped ? { "Content-Encoding": "gzip" } : {}) });
  return response.end(zipped ? gzipSync(text) : text);
}

/** The entries behind one, then each new one; what waits goes in one piece. */
function events(session, url, request, response) {
  let at = Number(url.searchParams.get("after") ?? request.headers["last-event-id"] ?? 0);
  if (session.closed && at >= session.entries.length) return json(response, 204);
  const epoch = url.searchParams.get("epoch");
  if (at > session.entries.length || (at > 0 && epoch && JSON.parse(session.entries[at - 1]).epoch !== Number(epoch))) return problem(response, 409, "the journal has another entry there");
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store, no-transform", "X-Accel-Buffering": "no" });
  response.write(": begin\n\n");
  const flush = () => {
    while (at < session.entries.length && !response.writableNeedDrain) {
      const part = session.entries.slice(at, at + 500);
      response.write(part.map((line, index) => `id: ${at + index + 1}\nevent: ${JSON.parse(line).type}\ndata: ${line}\n\n`).join(""));
      at += part.length;
    }
    if (session.closed && at >= session.entries.length) response.end();
  };
  const beat = setInterval(() => response.write(": beat\n\n"), 15_000);
  response.on("drain", flush);
  session.listeners.add(flush);
  response.on("close", () => {
    clearInterval(beat);
    session.listeners.delete(flush);
  });
  flush();
}

/** The changes of all sessions: a snapshot, then each change; behind a position only what came since. */
function changes(world, request, response) {
  if (world.noChanges) return problem(response, 404, "there is no such path");
  const [epoch, number] = (request.headers["last-event-id"] ?? "").split("-").map(Number);
  response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store, no-transform" });
  const write = (id, event) => response.write(`id: ${id}\nevent: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`);
  let at = world.changes.length;
  if (epoch === world.epoch && number <= at) at = number;
  else {
    if (epoch) write("", { type: "reset", reason: "unknown_position" });
    const sessions = [...world.sessions.values()].map((session) => session.overview());
    const half = sessions.splice(0, Math.ceil(sessions.length / 2));
    write("", { type: "snapshot", sessions: half, complete: false });
    write(`${world.epoch}-${at}`, { type: "snapshot", sessions, complete: true });
  }
  const flush = () => {
    for (; at < world.changes.length; at += 1) write(`${world.epoch}-${at + 1}`, world.changes[at]);
  };
  const beat = setInterval(() => response.write(`:\nid: ${world.epoch}-${at}\n\n`), 15_000);
  world.followers.add(flush);
  response.on("close", () => {
    clearInterval(beat);
    world.followers.delete(flush);
  });
  flush();
}

/** Searches the newest sessions first, so many a request that a page must go on. */
async function search(world, url, response) {
  const [text, step] = [url.searchParams.get("q").toLowerCase(), world.searchStep ?? 2000];
  const from = Number(url.searchParams.get("after") ?? 0);
  const all = [...world.sessions.values()].reverse();
  world.searches.push(url.search);
  if (from >= world.searchHeld?.from) await world.searchHeld.released;
  const hits = [];
  for (const session of all.slice(from, from + step)) {
    const hit = (kind, content, entry) => content.toLowerCase().includes(text) && hits.push({
      id: session.id, agent: session.agent, title: session.title, archived: false, kind, snippet: content.replace(/\s+/g, " ").slice(0, 200), seq: entry?.seq ?? null, turn: entry?.turn_id ?? null, time: entry?.time ?? session.active,
    });
    hit("title", session.title);
    for (const line of session.entries.toReversed()) {
      const entry = JSON.parse(line);
      if (entry.type === "turn.begin") hit("input", entry.content, entry);
      if (entry.type === "output" && !entry.channel) hit("output", entry.content, entry);
    }
  }
  const next = from + step < all.length ? String(from + step) : null;
  return json(response, 200, { hits, next, complete: next === null, sessions_searched: Math.min(from + step, all.length), sessions_total: all.length });
}

function conversations(world, agent, response) {
  if (agent === "reviewer") return problem(response, 501, `agent "${agent}" does not list its conversations; continue one by its id`);
  const hostile = world.hostile.map((text) => ({ native_session_id: text, agent_id: agent, title: text, cwd: text, updated_at: text }));
  const updated_at = new Date(Date.now() - 3_600_000).toISOString();
  const kept = [
    { native_session_id: "n-1", agent_id: agent, title: "Remember oak", cwd: "/srv/app", updated_at },
    { native_session_id: "n-2", agent_id: agent, cwd: "/srv/other", updated_at, session_id: [...world.sessions.keys()].at(-1) },
  ];
  return json(response, 200, { conversations: [...kept, ...hostile] });
}

function agents(world) {
  const t = (Date.now() - world.started) / 1000;
  const turns = [...world.sessions.values()].filter((each) => each.running !== "").length;
  const rate = Math.max(0, Math.round(40 + 30 * Math.sin(t / 7) + 8 * Math.sin(t * 1.7)));
  const hostile = world.hostile.map((text) => ({
    id: text, name: text, profile: text, description: text, state: text, models: [{ id: text, label: text }],
    health: { severity: text, verdict: text, liveness: text, last_end: text, counters: { [text]: 1 }, stderr: `\u001b[31m${text}` },
  }));
  return {
    default: "coder",
    folders: { coder: ["/srv/app", "/srv/books"] },
    max_file_bytes: { coder: 100_000 },
    agents: [
      ...hostile,
      { id: "coder", name: "Coder", profile: "external", description: "Writes and repairs code", models: [{ id: "large-2", label: "Large 2" }, { id: "small-1", label: "Small 1" }], state: "running",
        health: { severity: "ok", verdict: "it works", liveness: "answering", pid: 4242, age_ms: Math.round(t * 1000) + 60_000, silent_ms: 200, sessions: world.sessions.size, turns, requests: 0, queued_bytes: 0, lines_rate: rate, bytes_in_rate: rate * 180, bytes_out_rate: 420, counters: { restarts: 1, noise: 0 }, stderr: "ready\n\u001b[33mwarning\u001b[0m: cache is cold\n" } },
      { id: "reviewer", name: "Reviewer", profile: "claude_code", description: "Reads what others wrote", state: "running",
        health: { severity: "warning", verdict: "it writes lines to stdout that are no messages (2 of 40); have it print to stderr", liveness: "alive", pid: 4243, age_ms: 7_200_000, silent_ms: 84_000, last_end: "exit status 1", sessions: 1, turns: 0, requests: 0, lines_rate: 0, bytes_in_rate: 0, counters: { noise: 2, restarts: 3, late: 1 }, stderr: "Debugger listening on ws://127.0.0.1:9229\n" } },
      { id: "batch", name: "Batch", state: "failed", health: { severity: "error", verdict: "it ends at once with status 2: config.model is missing; mend its configuration", liveness: "down", restart_in_ms: 41_000, last_end: "exit status 2", sessions: 0, turns: 0, counters: { restarts: 5 }, stderr: "error: config.model: missing\n" } },
    ],
  };
}

function usage(world, days) {
  const rows = world.hostile.map((text) => ({ date: text, agent: text, cost_usd: 1, turns: 1 }));
  for (let day = days - 1; day >= 0; day -= 1) {
    const date = new Date(Date.now() - day * 86_400_000).toISOString().slice(0, 10);
    for (const [at, agent] of ["coder", "reviewer"].entries()) {
      const turns = Math.max(0, Math.round(22 + 14 * Math.sin(day / 3 + at) - at * 9));
      rows.push({ date, agent, turns, tokens_in: turns * 12_400, tokens_out: turns * 2100, cost_usd: turns * 0.061 });
    }
  }
  return rows;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const { url, world } = await start({ port: Number(process.argv[2] ?? 4180), quiet: false });
  for (const [title, agent] of [["Mend the parser", "coder"], ["Release notes for 0.2", "reviewer"], ["Why is the build slow?", "coder"]]) world.open(agent, title);
  fill(world.open("coder", "A long one: 100,000 entries", "long"), 100_000);
  console.log(`${url}  token: ${world.token}  (inputs: stream, slow, work, image, ask, question, xss, crash)`);
}
