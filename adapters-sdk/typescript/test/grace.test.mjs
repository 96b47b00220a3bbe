// Handlers that never return: what is behind them goes on, and the operator reads of it.
import assert from "node:assert/strict";
import { after, test } from "node:test";
import { Host } from "@trunkline/sdk/testing";

const never = () => new Promise(() => {});
// A host in memory has no pipe that keeps the process.
const alive = setInterval(() => {}, 1000);
after(() => clearInterval(alive));
const OPTIONS = { stopGrace: 20 };

// What is printed meanwhile.
function printed(t) {
  const { mock } = t.mock.method(console, "error", () => {});
  return () => mock.calls.map((call) => call.arguments.join(" ")).join("\n");
}

test("a handler that never returns after it has ended its session is given up, and the session is freed", async (t) => {
  const said = printed(t);
  let closed;
  const isClosed = new Promise((resolve) => (closed = resolve));
  const turn = async (turn) => {
    turn.session.end("finished");
    await never();
  };
  const host = new Host({ turn, close: (session) => closed(session.id) }, undefined, OPTIONS);
  const id = host.open();
  assert.equal((await host.turn(id, "")).end.status, "completed");
  assert.ok(await host.wait((message) => message.type === "session.closed"));
  assert.equal(await isClosed, id);
  assert.match(said(), new RegExp(`session "${id}" goes on without a handler`));
  await host.end();
});

test("the next turn runs behind a handler that never returns, whatever has ended its turn", async (t) => {
  const said = printed(t);
  const kinds = {
    end: (turn) => turn.end({ summary: "done" }),
    stop: (turn) => turn.output("on"),
    next: (turn) => turn.output("next"),
  };
  const host = new Host(async (turn, input) => {
    kinds[input.content](turn);
    if (input.content !== "next") await never();
  }, undefined, OPTIONS);
  for (const kind of ["end", "stop"]) {
    const id = host.open();
    const first = host.turn(id, kind);
    if (kind === "stop") {
      await host.wait((message) => message.session_id === id && message.type === "output");
      host.send(id, { type: "stop" });
    }
    assert.equal((await first).end.status, kind === "stop" ? "stopped" : "completed");
    assert.equal((await host.turn(id, "next")).text, "next");
    assert.ok(said().includes(`session "${id}"`));
  }
  await host.end();
});

test("a handler that returns in time is not given up", async (t) => {
  const said = printed(t);
  const host = new Host(async (turn) => {
    turn.end();
    await null;
  }, undefined, { stopGrace: 1 });
  const id = host.open();
  for (let number = 0; number < 50; number++) await host.turn(id, "");
  await new Promise((resolve) => setTimeout(resolve, 20)); // longer than any grace that still runs
  assert.equal(said(), "");
  await host.end();
});
