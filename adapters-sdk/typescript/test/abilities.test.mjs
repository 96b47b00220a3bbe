// Each ability of a client by each transport, with a real daemon; and with a command, which has a journal and no daemon.
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Client, overHttp, Refused, RequestSettled, SessionTable, spawned, unixSocket, UnsupportedAbility, webSocket } from "@trunkline/sdk/client";
import { adapter, Daemon, skip } from "./daemon.mjs";

let daemon;
before(async () => {
  if (!skip) daemon = await Daemon.start();
});
after(() => daemon?.end());

const serve = () => spawned("trunkline", ["serve", "--journal", join(daemon.scratch, "own"), "--adapter", adapter], { onStderr: () => {} });
const TRANSPORTS = {
  socket: async () => unixSocket(daemon.socket),
  HTTP: async () => overHttp(daemon.http, await daemon.token()),
  WebSocket: async () => webSocket(daemon.http, await daemon.token()),
  command: async () => serve(),
};

async function entry(events, fits) {
  for (let read; !(read = await events.next()).done; ) if (fits(read.value)) return read.value;
  throw new Error("it has ended");
}
const ofType = (wanted) => ({ type }) => type === wanted;
const refused = (status) => (error) => error instanceof Refused && error.status === status;

// Each gets a client, whose callbacks leave requests to others, and a new session with its events.
const ABILITIES = {
  async "lists agents and sessions"({ client, session, isCommand }) {
    const [agent] = await client.agents();
    assert.equal(agent.id, "adapter");
    await session.turn("listed");
    const { sessions } = await client.sessions({ agent: "adapter", text: session.id, limit: 1 });
    assert.deepEqual([sessions[0].id, sessions[0].agent, sessions[0].title], [session.id, "adapter", "listed"]);
    if (isCommand) return assert.rejects(client.identity(), UnsupportedAbility);
    assert.equal((await client.identity()).may_approve, true);
  },

  async "reads the history forward and from the end, and attaches from an entry"({ client, session }) {
    for (const content of ["1", "2", "3"]) await session.turn(content);
    const all = (await session.history()).entries;
    const last = all.at(-1).seq;
    assert.deepEqual(all.map(({ seq }) => seq), all.map((_, index) => index + 1));
    const forward = await client.history(session.id, { from: 2, limit: 2 });
    assert.deepEqual([forward.entries.map(({ seq }) => seq), forward.next], [[2, 3], 4]);
    const end = await client.history(session.id, { before: "end", limit: 2 });
    assert.deepEqual([end.entries.map(({ seq }) => seq), end.next, end.previous], [[last - 1, last], undefined, last - 1]);
    const back = await client.history(session.id, { before: end.previous, limit: last });
    assert.deepEqual([back.entries.length, back.next, back.previous], [last - 2, last - 1, undefined]);
    await assert.rejects(client.history("none"), refused(404));
    session.leave();
    const same = await client.attach(session.id, { after: last - 1, listen: true });
    assert.equal((await same.events().next()).value.seq, last);
  },

  async "queues inputs, withdraws one, and keeps messages apart"({ session, events }) {
    const long = session.turn("long");
    await entry(events, ({ content }) => content === "begun");
    const [first, second] = [session.send("first"), session.send("second")];
    await entry(events, ({ type, content }) => type === "turn.begin" && content === "second");
    assert.equal(session.queued.length, 2);
    assert.equal(await first.withdraw(), true);
    assert.equal((await first.done).end.status, "stopped");
    session.stop();
    assert.equal((await long).end.status, "stopped");
    assert.equal((await second.done).text, "second ");
    assert.equal(await second.withdraw(), false);
    assert.equal((await session.turn("two")).text, "ab\n\nc");
    const { end } = await session.turn("long", { limits: { turn_timeout_ms: 100 } });
    assert.deepEqual([end.status, end.error.category], ["failed", "timeout"]);
  },

  async "answers by id: with a name, a pattern and an edited input"({ client, session, events, isCommand }) {
    const asked = (content) => {
      const done = session.turn(content);
      return entry(events, ({ type }) => type === "permission.request" || type === "input.request").then(({ request_id }) => ({ done, request_id }));
    };
    const edit = await asked("edit");
    assert.deepEqual(session.requests.map(({ request_id }) => request_id), [edit.request_id]);
    const decision = await session.answer(edit.request_id, { approved: true, updated_input: { command: "b" } });
    assert.deepEqual([decision.approved, decision.updated_input, typeof decision.by], [true, { command: "b" }, "string"]);
    assert.equal((await edit.done).text, '[true,{"command":"b"}]');
    await assert.rejects(session.answer(edit.request_id, { approved: true }), refused(409));
    await assert.rejects(session.answer("none", { approved: true }), refused(409));

    const question = await asked("question");
    await session.answer(question.request_id, { values: { answer: "x" } });
    assert.equal((await question.done).text, '{"answer":"x"}');

    const named = await asked("ask");
    if (isCommand) {
      await assert.rejects(session.answer(named.request_id, { approved: true, name: "Anna" }), /`name` of an answer needs another transport.*overHttp/);
      return session.stop();
    }
    await assert.rejects(client.answer(session.id, named.request_id, { approved: true, always: "Other(x)" }), refused(422));
    assert.equal((await client.answer(session.id, named.request_id, { approved: false, name: "Anna" })).name, "Anna");
    assert.equal((await named.done).text, "false");
    assert.equal((await entry(events, ofType("request.decided"))).name, "Anna");
  },

  async "changes settings, the title, the archive; forks"({ client, session, events }) {
    await session.turn("hello");
    await session.settings({ model: "large-2" });
    await assert.rejects(session.settings({ permission_mode: "bypass" }), refused(403));
    await session.setTitle("A title");
    await assert.rejects(session.setTitle("\u0007"), refused(422));
    assert.equal((await entry(events, ofType("session.edited"))).title, "A title");
    const copy = await session.fork({ listen: true });
    assert.equal((await copy.turn("again")).text, "again ");
    assert.equal((await entry(copy.events(), ofType("host.fact"))).fact, "opened");
    await copy.archive();
    const archived = await client.sessions({ archived: true, text: copy.id });
    assert.deepEqual(archived.sessions.map(({ id }) => id), [copy.id]);
    await assert.rejects(client.edit("none", { title: "x" }), refused(404));
    await assert.rejects(client.attach("none"), refused(404));
    await assert.rejects(client.attach(session.id, { after: 9999 }), refused(409));
    await assert.rejects(client.open({ agent: "none" }), refused(422));
  },

  async "searches and removes"({ client, session, isCommand }) {
    const word = `w${crypto.randomUUID().slice(0, 8)}`;
    await session.turn(word);
    if (isCommand) {
      for (const call of [() => client.search(word), () => client.remove(session.id), () => client.request("GET", "/v1/usage")]) {
        await assert.rejects(call(), (error) => error instanceof UnsupportedAbility && /connect by overHttp, webSocket/.test(error.message));
      }
      return;
    }
    const { hits, complete } = await client.search(word);
    assert.deepEqual([hits.map(({ id }) => id), complete], [[session.id, session.id, session.id], true]); // title, input and output
    const lost = assert.rejects(session.turn("long"), refused(404));
    await client.remove(session.id);
    await lost;
    await assert.rejects(client.remove(session.id), refused(404));
    const closed = await client.open();
    closed.close();
    await client.remove(closed.id);
    assert.equal((await client.request("GET", "/v1/me")).scope.length > 0, true);
  },

  async "streams the changes of all sessions"({ client, session, events, isCommand }) {
    if (isCommand) return assert.rejects(client.watch().next(), UnsupportedAbility);
    const [table, stop] = [new SessionTable(), new AbortController()];
    let position;
    const done = session.turn("ask");
    const { request_id } = await entry(events, ofType("permission.request"));
    for await (const event of client.watch({ signal: stop.signal })) {
      table.apply(event);
      position = event.position;
      if (table.isComplete && table.waiting.some(({ request }) => request.id === request_id)) break;
    }
    assert.equal(table.sessions.get(session.id).state, "running");
    await session.answer(request_id, { approved: true });
    await done;
    const seen = [];
    for await (const event of client.watch({ after: position, signal: stop.signal })) {
      table.apply(event);
      if (event.session_id === session.id) seen.push(`${event.type} ${event.change}`);
      if (event.change === "ended") break;
    }
    assert.deepEqual(seen.filter((each) => !each.startsWith("session")), ["request answered", "turn ended"]);
    assert.deepEqual(table.waiting.filter(({ session: { id } }) => id === session.id), []);
    const { value } = await client.watch({ after: "elsewhere-9", signal: stop.signal }).next();
    assert.deepEqual([value.type, value.reason], ["reset", "unknown_position"]);
  },

  async "a callback ends when its request does, with the reason"({ connect, session, isCommand }) {
    const settled = [];
    let asked;
    const waits = (request, _, { signal }) =>
      new Promise((resolve) => {
        asked?.(request);
        signal.addEventListener("abort", () => (settled.push(signal.reason), resolve(true)));
      });
    const client = isCommand ? undefined : await Client.connect(connect, { onPermission: waits });
    const own = client ? await client.attach(session.id, { after: session.position }) : session;
    if (client) {
      for (const [content, end] of [
        ["ask", (id) => session.answer(id, { approved: false, name: "Bea" })],
        ["ask", () => session.stop()],
        ["withdrawn", () => {}],
      ]) {
        const request = new Promise((resolve) => (asked = resolve));
        const done = session.turn(content);
        await end((await request).request_id);
        await done;
      }
      const request = new Promise((resolve) => (asked = resolve));
      const lost = assert.rejects(session.turn("ask"));
      await request;
      await client.close();
      session.close();
      await lost;
      assert.ok(settled.every((reason) => reason instanceof RequestSettled));
      assert.deepEqual(settled.map(({ how, person, approved }) => [how, person, approved]), [
        ["answered", "Bea", false], ["withdrawn", undefined, undefined], ["withdrawn", undefined, undefined], ["client_ended", undefined, undefined],
      ]);
      assert.equal(settled[0].message, "Bea denied it");
    } else assert.equal(own.isJournaled, true);
  },

  async "sends and reads files"({ session, events, transport }) {
    const path = join(daemon.scratch, `${transport}.txt`);
    writeFileSync(path, "contents");
    assert.equal((await session.turn("read", { files: [path] })).text, `${transport}.txt: contents, read `);
    await session.turn("file");
    assert.equal(new TextDecoder().decode(await session.file(await entry(events, ofType("file.output")))), "made by the agent");
  },
};

for (const [transport, connectOf] of Object.entries(TRANSPORTS)) {
  test(`a client by ${transport}`, { skip, timeout: 120_000 }, async (t) => {
    const connect = await connectOf();
    const client = await Client.connect(connect, { onPermission: "leave", onQuestion: "leave" });
    for (const [ability, use] of Object.entries(ABILITIES)) {
      await t.test(ability, async () => {
        const session = await client.open({}, { listen: true });
        await use({ client, connect, session, events: session.events(), transport, isCommand: transport === "command" });
      });
    }
    await client.close();
  });
}

test("an answer that a token may not give, or that came too late, is an error of the answer", { skip, timeout: 60_000 }, async () => {
  const owner = await Client.connect(unixSocket(daemon.socket), { onPermission: "leave" });
  for (const transport of Object.keys(TRANSPORTS).filter((name) => name === "HTTP" || name === "WebSocket")) {
    const token = await daemon.token("--scope", "control", "--all-sessions");
    const connect = transport === "HTTP" ? overHttp(daemon.http, token) : webSocket(daemon.http, token);
    const errors = [];
    let told;
    const client = await Client.connect(connect, { onPermission: () => true, onAnswerRefused: (error, request) => (errors.push([error.status, request.type]), told()) });
    const session = await owner.open({}, { listen: true });
    const other = await client.attach(session.id, { listen: true });
    const isTold = new Promise((resolve) => (told = resolve));
    const done = session.turn("ask");
    await isTold;
    assert.deepEqual(errors, [[403, "permission.request"]]);
    const [{ request_id }] = session.requests;
    await assert.rejects(other.answer(request_id, { approved: true }), refused(403));
    assert.equal((await entry(other.events(), ofType("error"))).type, "error");
    await owner.answer(session.id, request_id, { approved: true });
    assert.equal((await done).text, "true");
    await client.close();
  }
  await owner.close();
});
