import assert from "node:assert/strict";
import { test } from "node:test";
import { complete, readCommands, seenPaths } from "../src/core/complete.ts";
import { Fold } from "../src/core/fold.ts";
import type { Entry } from "../src/core/types.ts";

const commands = readCommands([{ name: "review", description: "Reviews", hint: "a path", text: "/review --all" }, { name: "/resume" }, { name: "two words" }, { name: 7 }, null, { name: "x".repeat(600) }]);
const labels = (text: string, paths: string[] = [], cursor = text.length): string[] | undefined =>
  complete(text, cursor, commands, () => paths)?.options.map((option) => option.label);

test("commands are offered at the begin of the input only", () => {
  assert.deepEqual(commands.map((command) => command.name), ["review", "resume"]);
  assert.deepEqual(labels("/"), ["/review", "/resume"]);
  assert.deepEqual(labels("/REV"), ["/review"]);
  assert.equal(labels("/none"), undefined);
  assert.equal(labels("say /rev"), undefined);
  assert.equal(labels("/review now"), undefined);
  assert.deepEqual(complete("/revx", 4, commands, () => [])?.options[0], { label: "/review", detail: "a path · Reviews", insert: "/review --all " });
  assert.equal(complete("/", 1, readCommands([{ name: "a", text: "b\u202ec" }]), () => [])?.options[0]?.insert, "b\u27e8U+202E\u27e9c ", "nothing hides in what is inserted");
});

test("paths are offered behind @ of a word", () => {
  const paths = ["src/main.rs", "src/mail/parse.rs", "README.md"];
  assert.deepEqual(labels("see @pa", paths), ["src/mail/parse.rs"]);
  assert.deepEqual(labels("@ma", paths), ["src/main.rs", "src/mail/parse.rs"], "the last part counts first");
  assert.equal(labels("mail@ma", paths), undefined);
  assert.deepEqual(complete("a @re b", 5, [], () => paths), { from: 2, to: 5, kind: "file", options: [{ label: "README.md", detail: "", insert: "@README.md " }] });
});

test("paths come from calls, changes and requests, the latest first", () => {
  const fold = new Fold();
  const entries: Entry[] = [
    { type: "tool.start", tool_call_id: "a", tool: "Read", input: { path: "one" } },
    { type: "tool.start", tool_call_id: "b", tool: "Edit", locations: [{ path: "two" }, "three", { path: "with space" }, { path: "hid\u202eden" }] },
    { type: "tool.end", tool_call_id: "b", diffs: [{ path: "two", new_text: "" }, { path: "four", new_text: "" }] },
    { type: "permission.request", request_id: "r", tool: "Write", diffs: [{ path: "five", new_text: "" }] },
  ];
  entries.forEach((entry, at) => fold.apply({ seq: at + 1, ...entry }));
  assert.deepEqual(seenPaths(fold.rows), ["five", "two", "four", "three", "one"]);
});
