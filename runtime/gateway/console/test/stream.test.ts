import assert from "node:assert/strict";
import { test } from "node:test";
import { SILENCE, backoff, follow } from "../src/core/stream.ts";
import type { Connection, StreamOptions } from "../src/core/stream.ts";

/** A clock that goes on by hand: each sleep waits until the time is moved behind it. */
class Clock {
  now = 0;
  slept: number[] = [];
  private waits: { at: number; go: () => void }[] = [];

  sleep = (ms: number, signal: AbortSignal): Promise<void> =>
    new Promise((resolve, reject) => {
      if (ms !== SILENCE) this.slept.push(ms);
      this.waits.push({ at: this.now + ms, go: resolve });
      signal.addEventListener("abort", () => reject(new Error("aborted")), { once: true });
    });

  async advance(ms: number): Promise<void> {
    this.now += ms;
    const due = this.waits.filter((wait) => wait.at <= this.now);
    this.waits = this.waits.filter((wait) => wait.at > this.now);
    for (const wait of due) wait.go();
    await settled();
  }
}

/** Lets every promise that can go on do so. */
async function settled(): Promise<void> {
  for (let round = 0; round < 50; round += 1) await Promise.resolve();
}

const line = (seq: number): string => `id: ${seq}\nevent: output\ndata: {"type":"output","seq":${seq}}\n\n`;

/** A body whose chunks are given by hand. */
class Body {
  private chunks: (string | Error | undefined)[] = [];
  private wake: (() => void) | undefined;
  cancelled = false;

  give(chunk: string | Error | undefined): void {
    this.chunks.push(chunk);
    this.wake?.();
  }

  get connection(): Connection {
    const read = async (): Promise<ReadableStreamReadResult<Uint8Array>> => {
      while (this.chunks.length === 0) await new Promise<void>((resolve) => (this.wake = resolve));
      const chunk = this.chunks.shift();
      if (chunk instanceof Error) throw chunk;
      return chunk === undefined ? { done: true, value: undefined } : { done: false, value: new TextEncoder().encode(chunk) };
    };
    const cancel = (): Promise<void> => {
      this.cancelled = true;
      return Promise.resolve();
    };
    return { status: 200, body: { read, cancel } as unknown as ReadableStreamDefaultReader<Uint8Array> };
  }
}

function setup(answers: (Connection | Error)[]): { options: StreamOptions; clock: Clock; asked: number[]; phases: string[]; taken: number[]; stop: AbortController } {
  const clock = new Clock();
  const asked: number[] = [];
  const phases: string[] = [];
  const taken: number[] = [];
  const stop = new AbortController();
  const options: StreamOptions = {
    open: (after) => {
      asked.push(after);
      const next = answers.shift() ?? new Error("nothing is there");
      return next instanceof Error ? Promise.reject(next) : Promise.resolve(next);
    },
    entries: (found) => {
      taken.push(...found.map(({ entry }) => entry.seq as number));
    },
    last: () => taken[taken.length - 1] ?? 0,
    phase: (phase) => phases.push(phase),
    sleep: clock.sleep,
    random: () => 1,
    reset: () => taken.splice(0),
  };
  return { options, clock, asked, phases, taken, stop };
}

test("a stream that breaks goes on behind the last entry", async () => {
  const [one, two] = [new Body(), new Body()];
  const { options, clock, asked, phases, taken, stop } = setup([one.connection, two.connection, { status: 204 }]);
  const done = follow(options, stop.signal);
  await settled();
  one.give(line(1) + line(2) + line(3).slice(0, 20));
  one.give(new Error("reset"));
  await settled();
  assert.deepEqual(taken, [1, 2], "half an event is none");
  assert.deepEqual(phases, ["connecting", "live", "waiting"]);
  await clock.advance(249);
  assert.equal(asked.length, 1);
  await clock.advance(1);
  two.give(line(3));
  two.give(undefined);
  await settled();
  await clock.advance(250);
  await done;
  assert.deepEqual(asked, [0, 2, 3]);
  assert.deepEqual(taken, [1, 2, 3]);
  assert.equal(phases[phases.length - 1], "ended");
});

test("the waits double to 5 s and begin anew after a success", async () => {
  const gone = (): Error => new Error("refused");
  const body = new Body();
  const { options, clock, stop } = setup([gone(), gone(), gone(), { status: 503 }, gone(), gone(), gone(), body.connection, gone()]);
  void follow(options, stop.signal);
  for (const wait of [250, 500, 1000, 2000, 4000, 5000, 5000]) {
    await settled();
    assert.equal(clock.slept[clock.slept.length - 1], wait);
    await clock.advance(wait);
  }
  body.give(undefined);
  await settled();
  assert.equal(clock.slept[clock.slept.length - 1], 250);
  stop.abort();
});

test("jitter takes up to a half", () => {
  assert.equal(backoff(0, 0), 125);
  assert.equal(backoff(0, 1), 250);
  assert.equal(backoff(100, 0), 2500);
  assert.equal(backoff(100, 1), 5000);
});

test("a silent connection is given up", async () => {
  const [one, two] = [new Body(), new Body()];
  const { options, clock, asked, stop } = setup([one.connection, two.connection]);
  void follow(options, stop.signal);
  await settled();
  await clock.advance(SILENCE - 1);
  one.give(": beat\n\n");
  await settled();
  await clock.advance(SILENCE - 1);
  assert.equal(one.cancelled, false, "a heartbeat is a sign of life");
  await clock.advance(1);
  assert.equal(one.cancelled, true);
  await clock.advance(250);
  assert.equal(asked.length, 2);
  stop.abort();
});

test("a refusal ends it, another journal begins it anew", async () => {
  const { options, phases, stop } = setup([{ status: 404, detail: "there is no such session" }]);
  await follow(options, stop.signal);
  assert.deepEqual(phases, ["connecting", "failed"]);

  const body = new Body();
  const again = setup([body.connection, { status: 409, detail: "forked" }, new Body().connection]);
  void follow(again.options, again.stop.signal);
  await settled();
  body.give(line(1));
  body.give(undefined);
  await settled();
  await again.clock.advance(250);
  await again.clock.advance(500);
  assert.deepEqual(again.asked, [0, 1, 0]);
  again.stop.abort();
});

test("what is no entry is passed over", async () => {
  const body = new Body();
  const { options, taken, stop } = setup([body.connection]);
  void follow(options, stop.signal);
  await settled();
  body.give(`data: not json\n\ndata: []\n\ndata: null\n\ndata: {"seq":1}\n\ndata: {"type":7}\n\n${line(2)}`);
  await settled();
  assert.deepEqual(taken, [2]);
  stop.abort();
});
