import assert from "node:assert/strict";
import { test } from "node:test";
import { Host } from "@trunkline/sdk/testing";

test("a host in memory shows what a turn says, to each kind of host", async () => {
  const host = new Host(async (turn, input) => {
    await turn.progress("asks");
    const { approved } = await turn.permission({ tool: "T", description: "d", resource: input.content });
    await turn.output(`${approved}`);
  });
  const [rich, core] = [host.open(), host.open({ extensions: [] })];
  const first = await host.turn(rich, "one", { approve: () => true });
  assert.deepEqual([first.text, first.end.status], ["true", "completed"]);
  assert.ok(first.messages.some((message) => message.type === "progress"));
  const second = await host.turn(core, "two");
  assert.deepEqual(second.messages.map((message) => message.type), ["permission.request", "output", "turn.complete"]);
  assert.equal(second.text, "false");
  await host.end();
});

test("each session has its state, and close frees it once", async () => {
  const closed = [];
  const host = new Host({
    start: () => ({ count: 0 }),
    turn: async (turn) => turn.output(String(++turn.state.count)),
    close: (session) => void closed.push([session.id, session.state.count]),
  });
  const [a, b] = [host.open(), host.open()];
  for (const [session, expected] of [[a, "1"], [a, "2"], [b, "1"]]) assert.equal((await host.turn(session, "")).text, expected);
  host.send(a, { type: "session.close" });
  await host.end();
  assert.deepEqual(closed, [["s-1", 2], ["s-2", 1]]);
});

test("a text over a host's lines goes in pieces that join to the whole", async () => {
  const whole = "ä😀\u2028".repeat(400_000);
  const host = new Host(async (turn) => turn.output(whole));
  const { text, messages } = await host.turn(host.open({ max_line: 1 << 20 }), "");
  assert.ok(text === whole);
  assert.ok(messages.filter((message) => message.type === "output").length > 2);
  await host.end();
});

test("a text arrives as it is, whatever must be escaped in it", async () => {
  const texts = ["plain", "", '"', "\\", "\\u0041", "a\nb\tc\u0000\u001f", "ä\u007f\u0080ÿ", "\u2028\u2029", "😀 你好"];
  const host = new Host((turn, input) => turn.output(input.content));
  const ids = [host.open(), host.open({ extensions: [] })];
  for (const text of texts) for (const id of ids) assert.equal((await host.turn(id, text)).text, text);
  const half = new Host((turn) => turn.output("a\ud800b"));
  assert.equal((await half.turn(half.open(), "")).text, "a\ufffdb");
  for (const each of [host, half]) await each.end();
});

test("what nobody waits for is there when the input was taken; what is under way comes by itself", async () => {
  let go;
  const host = new Host((turn, input) => (input.content === "wait" ? new Promise((resolve) => (go = resolve)) : turn.output("x")));
  const [quick, slow] = [host.open({ extensions: [] }), host.open({ extensions: [] })];
  await host.turn(quick, "first");
  const types = () => host.messages.map((message) => message.type);
  host.send(quick, { type: "user.input", content: "" });
  assert.deepEqual(types().slice(2), ["output", "turn.complete"]);
  host.send(slow, { type: "user.input", content: "wait" });
  await new Promise(setImmediate); // nothing is being written
  assert.equal((await host.turn(quick, "beside one that waits")).text, "x");
  go();
  await host.wait((message) => message.type === "turn.complete" && message.session_id === slow);
  await host.end();
});

test("a handler returns nothing, a promise, or anything with then", async () => {
  const kinds = {
    nothing: () => {},
    sent: (turn) => turn.output("x"),
    promise: async (turn) => void (await turn.output("x")),
    other: (turn) => ({ then: (resolve) => setImmediate(() => (turn.output("x"), resolve())) }),
    throws: () => {
      throw new Error("at once");
    },
  };
  const host = new Host((turn, input) => kinds[input.content](turn));
  const id = host.open();
  const texts = [];
  for (const kind of Object.keys(kinds)) {
    const { text, end } = await host.turn(id, kind);
    texts.push([kind, text, end.status]);
  }
  assert.deepEqual(texts, [
    ["nothing", "", "completed"],
    ["sent", "x", "completed"],
    ["promise", "x", "completed"],
    ["other", "x", "completed"],
    ["throws", "", "failed"],
  ]);
  await host.end();
});
