// What may be kept has bounds, and no one loses anything silently at them.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { test } from "node:test";
import { Client, eventsOf } from "@trunkline/sdk/client";
import { adapter, ALL, Peer } from "./peer.mjs";

const LINES = 10_000; // of each session, of a kilobyte
const SESSIONS = 10;

test("a host that does not read holds the handlers back, in flat memory, and then gets all in order", async () => {
  // What was handed over goes to stderr, which is read: the host sees by it that all handlers wait.
  const body =
    "const fill = 'x'.repeat(1000); for (let n = 0; n < " + LINES + "; n++) { globalThis.sent = (globalThis.sent ?? 0) + 1; await turn.output(n + ' ' + fill); }";
  const peer = new Peer(`${adapter(body)} setInterval(() => console.error(globalThis.sent), 20);`);
  peer.child.stdout.pause();
  const turns = [];
  for (let id = 0; id < SESSIONS; id++) {
    peer.start(`s${id}`, ALL);
    turns.push(peer.turn(`s${id}`, "", { turn_id: "t" }));
  }
  const counts = () => peer.stderr.split("\n").filter((line) => /^\d+$/.test(line)).map(Number);
  for (let seen; (seen = counts()), seen.length < 2 || seen.at(-1) !== seen.at(-2); ) {
    await new Promise((resolve) => peer.child.stderr.once("data", resolve));
  }
  const held = counts().at(-1);
  assert.ok(held < (LINES * SESSIONS) / 10, `${held} lines were taken`);
  peer.child.stdout.resume();
  for (const [id, turn] of (await Promise.all(turns)).entries()) {
    const said = turn.filter((m) => m.type === "output").map((m) => m.content.split(" ")[0]);
    assert.deepEqual(said, Array.from({ length: LINES }, (_, n) => String(n)), `s${id}`);
  }
  const peak = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${peer.child.pid}/status`, "utf8"))[1]);
  assert.ok(peak < 150 * 1024, `${peak} KiB`);
  await peer.end();
});

// A client whose relay is this test: `said` is what it has sent, `say` what it reads.
async function clientOf() {
  const said = [];
  let say;
  const client = await Client.connect(async (events) => {
    say = (message) => events.line(JSON.stringify(message));
    return { send: (line) => said.push(JSON.parse(line)), close: () => {} };
  });
  const opening = client.open();
  const session_id = said[0].session_id;
  say({ type: "session.ready", session_id, protocol: 1 });
  const session = await opening;
  const inputs = () => said.filter((message) => message.type === "user.input");
  return { client, session, inputs, say: (message) => say({ session_id, ...message }) };
}

test("the text of a turn is cut at its bound, and says so; its end comes", async () => {
  const { client, session, inputs, say } = await clientOf();
  const piece = "x".repeat(1024 * 1024 - 1) + "ä";
  for (const [pieces, expected] of [[16, false], [17, true]]) {
    const turn = session.turn("");
    const { turn_id } = inputs().at(-1);
    for (let number = 0; number < pieces; number++) say({ type: "output", turn_id, content: piece });
    say({ type: "turn.complete", turn_id, status: "completed" });
    const { text, truncated, end } = await turn;
    assert.deepEqual([text.length, truncated, end.status], [16 * 1024 * 1024, expected, "completed"]);
    assert.ok(text === piece.repeat(16));
  }
  client.close();
});

test("two messages of one answer have an empty line between them, and pieces of one message none", async () => {
  const { client, session, inputs, say } = await clientOf();
  const turn = session.turn("");
  const { turn_id } = inputs().at(-1);
  for (const [message_id, content] of [["m1", "a"], ["m1", "b"], ["m2", "c"], [undefined, "d"], ["m2", "e"]]) {
    say({ type: "output", turn_id, message_id, content });
  }
  say({ type: "turn.complete", turn_id, status: "completed" });
  assert.equal((await turn).text, "ab\n\ncde");
  client.close();
});

test("inputs that wait for their ends are bounded, by number and by size", async () => {
  const { client, session, inputs, say } = await clientOf();
  const large = "x".repeat(40 * 1024 * 1024);
  const rejected = [];
  const turns = (count, content) => Array.from({ length: count }, () => session.turn(content).catch((error) => void rejected.push(error)));
  const end = ({ turn_id }) => say({ type: "turn.complete", turn_id, status: "completed" });

  const many = turns(1025, "");
  await many[1024];
  assert.match(rejected.pop().message, /too many inputs/);
  assert.equal(inputs().length, 1024);
  end(inputs()[0]); // there is room for another
  many.push(...turns(1, ""));
  assert.equal(inputs().length, 1025);
  for (const input of inputs()) end(input);
  await Promise.all(many);

  const before = inputs().length;
  const two = turns(2, large);
  await two[1];
  assert.match(rejected.pop().message, /too many inputs/);
  assert.equal(inputs().length, before + 1);
  end(inputs().at(-1));
  const third = turns(1, large);
  end(inputs().at(-1));
  await Promise.all([...two, ...third]);
  assert.deepEqual(rejected, []);
  client.close();
});

test("a relay that is gone is tried a few times, and then its sessions are lost", async () => {
  let [attempts, lose] = [0, undefined];
  const client = await Client.connect(
    async (events) => {
      if (attempts++ === 0) {
        lose = () => events.closed("the relay is gone");
        return { send: () => {}, close: () => {} };
      }
      if (attempts > 30) return new Promise(() => {}); // each failure began two tries
      setImmediate(() => events.closed("not opened")); // pipes say so after they have rejected, too
      throw new Error("no relay");
    },
    { retryFor: 300 },
  );
  const opening = client.open();
  lose();
  await assert.rejects(opening, { name: "Unreachable", message: "no relay" });
  assert.ok(attempts > 2 && attempts < 10, `${attempts} attempts`);
  await assert.rejects(client.open(), /no relay/); // and not only later
});

test("an entry without end of a stream of events is given up", async () => {
  let answers = 0;
  const server = createServer((_, answer) => {
    answers++;
    answer.writeHead(200, { "Content-Type": "text/event-stream" });
    const more = () => {
      while (!answer.destroyed && answer.write("x".repeat(1024 * 1024)));
    };
    answer.on("drain", more);
    answer.write("data: ");
    more();
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  await assert.rejects(eventsOf(`http://127.0.0.1:${server.address().port}`, "s", { token: "t" }).next(), /an entry is over/);
  assert.equal(answers, 1);
  server.closeAllConnections();
  server.close();
});
