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
