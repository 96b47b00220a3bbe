// The client over HTTP, with daemons that are played by the test.
import assert from "node:assert/strict";
import { createServer } from "node:http";
import { mock, test } from "node:test";
import { Client, overHttp, SessionTable } from "@trunkline/sdk/client";

const attached = { id: "s", agent_id: "a", state: "idle", first_seq: 1, last_seq: 0, epoch: 1, requests: [] };
const entry = (seq, type, more) => `id: ${seq}\nevent: ${type}\ndata: ${JSON.stringify({ type, session_id: "s", seq, epoch: 1, ...more })}\n\n`;

// A daemon that answers each request as `respond` says: by a status and an object, or by itself.
async function daemon(respond) {
  const server = createServer(async (request, answer) => {
    const url = new URL(request.url, "http://x");
    let body = "";
    for await (const piece of request.setEncoding("utf8")) body += piece;
    const asked = `${request.method} ${url.pathname}`;
    const told = await respond(asked, { after: Number(url.searchParams.get("after")), body: body && JSON.parse(body), request, answer });
    if (told) answer.writeHead(told[0], { "Content-Type": "application/json" }).end(JSON.stringify(told[1]));
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return { url: `http://127.0.0.1:${server.address().port}`, end: () => (server.closeAllConnections(), server.close()) };
}

// Who asks, and a session that is there.
const there = (asked, more) => (asked === "GET /v1/me" ? [200, {}] : asked === "GET /v1/sessions/s" ? [200, { ...attached, ...more }] : undefined);

test("of several addresses the next one has the session; each entry comes once, however the stream is cut", async () => {
  const asked = [];
  const daemons = await Promise.all([0, 1, 2].map((number) => daemon((what, { after, answer }) => {
    asked.push(number);
    if (number === 0 && asked.filter((each) => each === 0).length > 8) return void answer.destroy();
    if (number === 1) return [503, { detail: "it ends" }];
    const told = there(what, { last_seq: 5 });
    if (told) return told;
    if (number === 0 && after < 3) answer.write(entry(after, "output") + entry(after + 1, "output", { content: "ü\u2028" }));
    if (number === 2) answer.write(entry(4, "output").slice(0, 20)), setTimeout(() => answer.end(entry(4, "output").slice(20) + entry(5, "session.closed")), 5);
    else answer.end('data: {"type":"outp');
  })));
  const client = await Client.connect(overHttp(daemons.map(({ url }) => url), "t"));
  const session = await client.attach("s", { listen: true });
  const seen = [];
  for await (const { seq } of session.events()) seen.push(seq);
  assert.deepEqual(seen, [1, 2, 3, 4, 5]);
  assert.deepEqual([...new Set(asked)].sort(), [0, 1, 2]);
  await client.close();
  for (const { end } of daemons) end();
});

test("a session whose events only end is given up, and no other one with it", async () => {
  const { url, end } = await daemon((what, { answer }) => {
    if (!what.endsWith("/events")) return there(what) ?? [200, attached];
    if (what.includes("/other/")) answer.write(":\n\n");
    else answer.end();
  });
  const client = await Client.connect(overHttp(url, "t"), { retryFor: 300 });
  const other = await client.attach("other");
  const session = await client.attach("s", { listen: true });
  await assert.rejects(session.events().next(), /its events have ended/);
  assert.equal(await other.steer("x"), false); // it is there
  await client.close();
  end();
});

test("a stream that is cut after it was open for long is opened again, however often", async () => {
  mock.timers.enable({ apis: ["Date"] });
  let [cut, streams] = [undefined, 0];
  const { url, end } = await daemon((what, { answer }) => {
    const told = there(what);
    if (told) return told;
    streams++;
    answer.write(":\n\n");
    cut?.(answer);
  });
  try {
    const opened = () => new Promise((resolve) => (cut = resolve));
    const first = opened();
    const client = await Client.connect(overHttp(url, "t"), { retryFor: 30_000 });
    const session = await client.attach("s");
    let answer = await first;
    for (let time = 0; time < 6; time++) {
      const next = opened();
      await new Promise((resolve) => setTimeout(resolve, 20)); // the client has the head of the answer
      mock.timers.tick(11_000);
      answer.destroy();
      answer = await next;
    }
    assert.equal(await session.steer("x"), false);
    assert.equal(streams, 7);
    await client.close();
  } finally {
    mock.timers.reset();
    end();
  }
});

test("what was said before the client is closed is still said, in order", async () => {
  const said = [];
  let go;
  const { url, end } = await daemon(async (what, { body, answer }) => {
    const told = there(what);
    if (told) return told;
    if (what.endsWith("/events")) return void answer.write(":\n\n");
    if (said.length === 0) await new Promise((resolve) => (go = resolve));
    said.push(body.content ?? what);
    return [202, {}];
  });
  const client = await Client.connect(overHttp(url, "t"));
  const session = await client.attach("s");
  const turns = ["one", "two"].map((content) => assert.rejects(session.turn(content), /ended/));
  session.close();
  const closed = client.close();
  while (!go) await new Promise((resolve) => setTimeout(resolve, 5));
  go();
  await closed;
  await Promise.all(turns);
  assert.deepEqual(said, ["one", "two", "DELETE /v1/sessions/s"]);
  end();
});

test("an answer that came too late is no entry, and is not said again", async () => {
  const answers = [];
  const { url, end } = await daemon((what, { body, answer }) => {
    const told = there(what);
    if (told) return told;
    if (what.includes("/requests/")) {
      answers.push(body);
      return [409, { detail: "another was first" }];
    }
    if (what.endsWith("/inputs")) return [422, { detail: "not this one", category: "oversize" }];
    if (!what.endsWith("/events")) return [202, {}];
    answer.write(entry(1, "permission.request", { request_id: "r", tool: "T" }));
  });
  const client = await Client.connect(overHttp(url, "t"), { onPermission: () => ({ approved: true, option_id: "o" }) });
  const session = await client.attach("s", { listen: true });
  while (answers.length === 0) await new Promise((resolve) => setTimeout(resolve, 5));
  const { error } = (await session.turn("x")).end; // refused behind the answer
  assert.deepEqual([error, answers], [{ category: "oversize", message: "not this one" }, [{ approved: true, option_id: "o" }]]);
  session.close();
  const types = [];
  for await (const { type } of session.events()) types.push(type);
  assert.deepEqual(types, ["permission.request", "turn.complete"]);
  await client.close();
  end();
});

test("a redirect is not followed, and a session that no host opens now is asked for again", async () => {
  const never = await daemon(() => assert.fail("it was followed"));
  const first = await daemon((_, { answer }) => void answer.writeHead(307, { location: `${never.url}/v1/me` }).end());
  await assert.rejects(Client.connect(overHttp(first.url, "t")));
  let opened = 0;
  const keys = new Set();
  const { url, end } = await daemon((what, { body, answer, request }) => {
    if (what === "POST /v1/sessions") {
      keys.add(request.headers["idempotency-key"]);
      return opened++ < 3 ? [503, { detail: "not now" }] : [201, { id: "s", ...body }];
    }
    return there(what) ?? void answer.write(":\n\n");
  });
  const client = await Client.connect(overHttp(url, "t"));
  assert.equal((await client.open({ agent_id: "a", model: "m" })).id, "s");
  assert.equal(opened, 4);
  assert.deepEqual([keys.size, typeof [...keys][0]], [1, "string"]); // it counts once
  await client.close();
  for (const each of [end, never.end, first.end]) each();
});

test("the stream over all sessions continues behind its position, whatever ends its lines", async () => {
  const asked = [];
  const event = (id, more, end) => [`id: ${id}`, `data: ${JSON.stringify(more)}`, "", ""].join(end);
  const { url, end } = await daemon((what, { answer, request }) => {
    if (what !== "GET /v1/events") return there(what);
    const after = new URL(request.url, "http://x").searchParams.get("after");
    asked.push(after);
    const snapshot = { type: "snapshot", sessions: [{ id: "s", agent: "a", state: "idle", last_seq: 1 }], complete: true };
    if (after === null) return void answer.end(event("p-1", snapshot, "\n"));
    if (after === "p-1") return void answer.end(event("p-2", { type: "session", change: "title", session_id: "s", agent: "a", seq: 2, title: "T" }, "\r\n"));
    answer.write(event("p-3", { type: "reset", reason: "too_old" }, "\r"));
  });
  const client = await Client.connect(overHttp(url, "t"));
  const table = new SessionTable();
  const seen = [];
  for await (const change of client.watch()) {
    table.apply(change);
    seen.push([change.type, change.position, table.sessions.get("s")?.title]);
    if (change.type === "reset") break;
  }
  assert.deepEqual(asked, [null, "p-1", "p-2"]);
  assert.deepEqual(seen, [["snapshot", "p-1", undefined], ["session", "p-2", "T"], ["reset", "p-3", undefined]]);
  assert.equal(table.isComplete, false);
  await client.close();
  end();
});

test("the stream over all sessions ends at its signal, while it is silent and between two tries", async () => {
  const begun = performance.now();
  let isThere = true;
  const { url, end } = await daemon((what, { answer }) => {
    if (what !== "GET /v1/events") return there(what);
    return isThere ? void answer.write(":\n\n") : [503, { detail: "not now" }];
  });
  const client = await Client.connect(overHttp(url, "t"));
  for (isThere of [true, false]) {
    const stop = new AbortController();
    const change = client.watch({ signal: stop.signal }).next();
    setTimeout(() => stop.abort(new Error("enough")), 100);
    await assert.rejects(change, /enough/);
  }
  assert.ok(performance.now() - begun < 10_000, "a signal ends it at once");
  await client.close();
  end();
});

test("a session whose removal lost its answer is removed, and one that is not there is refused", async () => {
  let removals = 0;
  const { url, end } = await daemon((what, { answer }) => {
    if (what === "DELETE /v1/sessions/s" && removals++ === 0) return void answer.destroy();
    return what.startsWith("DELETE") ? [404, { detail: "no such session" }] : there(what);
  });
  const client = await Client.connect(overHttp(url, "t"));
  await client.remove("s");
  assert.equal(removals, 2);
  await assert.rejects(client.remove("other"), { status: 404 });
  await client.close();
  end();
});
