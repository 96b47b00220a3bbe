import assert from "node:assert/strict";
import { test } from "node:test";
import { SseParser } from "../src/core/sse.ts";
import type { SseEvent } from "../src/core/sse.ts";

const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);
const TEXT = ": begin\n\nid: 1\nevent: output\ndata: {\"a\":\"é\u2028😀\"}\n\n: beat\n\nid: 2\r\nevent: tool.end\r\ndata: one\r\ndata: two\r\n\r\nid: 3\rdata:x\r\rdata\n\nevent: none\n\nid: 4\ndata: last\n\nid: 5\ndata: open";
const WHOLE: SseEvent[] = [
  { id: "1", event: "output", data: '{"a":"é\u2028😀"}' },
  { id: "2", event: "tool.end", data: "one\ntwo" },
  { id: "3", event: "message", data: "x" },
  { id: "3", event: "message", data: "" },
  { id: "4", event: "message", data: "last" },
];

test("events are the same however the bytes are split", () => {
  const all = bytes(TEXT);
  assert.deepEqual(new SseParser().push(all), WHOLE);
  for (let at = 0; at <= all.length; at += 1) {
    const parser = new SseParser();
    assert.deepEqual([...parser.push(all.slice(0, at)), ...parser.push(all.slice(at))], WHOLE, `split at ${at}`);
  }
  const parser = new SseParser();
  assert.deepEqual([...all].flatMap((byte) => parser.push(Uint8Array.of(byte))), WHOLE, "byte by byte");
});

test("an event that is too long costs that event only", () => {
  for (const size of [1, 7, 1000]) {
    const parser = new SseParser(100);
    const text = bytes(`data: one\n\ndata: ${"x".repeat(300)}\n\ndata: ${"y".repeat(60)}\ndata: ${"y".repeat(60)}\n\ndata: two\n\n`);
    const found: string[] = [];
    for (let at = 0; at < text.length; at += size) found.push(...parser.push(text.slice(at, at + size)).map((event) => event.data));
    assert.deepEqual(found, ["one", "two"], `chunks of ${size}`);
    assert.equal(parser.skipped, 2);
  }
});
