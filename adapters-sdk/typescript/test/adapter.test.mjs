import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { adapter, ALL, Peer, text } from "./peer.mjs";

const ECHO = adapter("await turn.output(input.content)");

// The programs of the README, by their language.
const programs = (language) =>
  [...readFileSync(new URL("../README.md", import.meta.url), "utf8").matchAll(new RegExp("```" + language + "\\n(.*?)```", "gs"))].map((m) => m[1]);

test("the adapter of the README has ten lines and answers", async () => {
  const [program] = programs("js");
  assert.ok(program.trim().split("\n").length <= 10);
  const peer = new Peer(program);
  peer.start("s");
  const turn = peer.turn("s", "hello");
  const { request_id } = await peer.wait((m) => m.type === "permission.request");
  peer.send({ type: "permission.response", session_id: "s", request_id, approved: true });
  assert.equal(text(await turn), "You said: hello");
  assert.deepEqual(await peer.end(), { status: 0, signal: null });
});

test("what anyone prints lands on stderr", async () => {
  const peer = new Peer(adapter('console.log("printed"); process.stdout.write("written\\n"); await turn.output("said")'));
  peer.start("s");
  assert.equal(text(await peer.turn("s", "")), "said"); // and every line is a message
  await peer.end();
  assert.match(peer.stderr, /printed\nwritten/);
});

test("a rejection that no one awaits fails its turn, and not the process", async () => {
  const lost = 'if (input.content === "lost") { Promise.reject(new Error("no one waits")); await new Promise(() => setTimeout(() => {}, 60000)); }';
  const thrown = 'if (input.content === "thrown") { setTimeout(() => { throw new Error("in a callback"); }); await new Promise(() => setTimeout(() => {}, 60000)); }';
  const peer = new Peer(adapter(`${lost} ${thrown} await turn.output("fine")`));
  for (const id of ["a", "b", "c"]) peer.start(id, ALL);
  const other = peer.turn("c", "", { turn_id: "t" });
  for (const [id, input, why] of [["a", "lost", "no one waits"], ["b", "thrown", "in a callback"]]) {
    const end = (await peer.turn(id, input, { turn_id: "t" })).at(-1);
    assert.deepEqual([end.status, end.error.message], ["failed", why]);
  }
  assert.equal(text(await other), "fine");
  assert.equal((await peer.end()).status, 0);
});

test("a failure says what it is, to a core host as text", async () => {
  const peer = new Peer(adapter('throw new Failure("asked too often", { category: "rate_limit", status: "limit", code: "429" })'));
  peer.start("rich", ALL);
  peer.start("core");
  const { status, error } = (await peer.turn("rich", "", { turn_id: "t" })).at(-1);
  assert.deepEqual([status, error], ["limit", { category: "rate_limit", message: "asked too often", code: "429" }]);
  assert.deepEqual(await peer.turn("core", ""), [
    { type: "output", session_id: "core", content: "asked too often", channel: "system" },
    { type: "turn.complete", session_id: "core" },
  ]);
  await peer.end();
});

test("the message of a failed turn begins with the class of the error", async () => {
  const peer = new Peer(adapter(`if (input.content === "empty") throw new RangeError(""); if (input.content === "plain") throw new Error("it is out");
    undefined[input.content];`));
  peer.start("s", ALL);
  for (const [input, message] of [
    ["path", "TypeError: Cannot read properties of undefined (reading 'path')"],
    ["empty", "RangeError"],
    ["plain", "it is out"],
  ]) {
    assert.equal((await peer.turn("s", input, { turn_id: "t" })).at(-1).error.message, message);
  }
  await peer.end();
});

test("a mistake that a host would ignore is an error at its call", async () => {
  const mistakes = {
    "output() takes a string or an async iterable of strings, not number": "turn.output(5)",
    "output() takes a string or an async iterable of strings, not null": "turn.output(null)",
    "output() takes a string, not number": "turn.session.output(5)",
    "no message of an adapter has the type 'outptu': did you mean 'output'?": 'turn.emit({ type: "outptu", content: "x" })',
    "no message of an adapter has the type 'acme.log': use custom() for an event of your own": 'turn.emit({ type: "acme.log" })',
    "no tool call 'c-9' was started in this turn: call toolStart() first": 'turn.toolEnd("c-9")',
    "the handler returned a string; send text with turn.output()": 'return "hello"',
  };
  const handler = Object.values(mistakes).map((call, at) => `if (input.content === "${at}") { ${call}; }`).join(" ");
  const right = 'turn.toolStart("c", "Bash"); turn.toolEnd("c"); turn.toolEnd("c"); turn.custom("acme.log");';
  for (const form of ["async (turn, input)", "(turn, input)"]) {
    const peer = new Peer(`import { serve } from "@trunkline/sdk"; serve(${form} => { ${handler} ${right} });`);
    peer.start("s", ALL);
    for (const [at, message] of Object.keys(mistakes).entries()) {
      assert.equal((await peer.turn("s", `${at}`, { turn_id: "t" })).at(-1).error?.message, `TypeError: ${message}`);
    }
    const types = (await peer.turn("s", "right", { turn_id: "t" })).map((message) => message.type);
    assert.deepEqual(types, ["tool.start", "tool.end", "custom", "turn.complete"]);
    await peer.end();
  }
});

test("a core host gets the four types alone", async () => {
  const body = 'turn.thinking("t"); turn.toolStart("c", "Bash", { input: 1 }); turn.toolUpdate("c", "x"); turn.plan([{ content: "p" }]);' +
    'turn.progress("p"); turn.usage({ input_tokens: 1 }); turn.error("told"); turn.output("said");';
  const peer = new Peer(adapter(body));
  peer.start("core");
  assert.deepEqual((await peer.turn("core", "")).map((m) => [m.type, m.content]), [
    ["output", "told"],
    ["output", "said"],
    ["turn.complete", undefined],
  ]);
  peer.start("rich", ALL);
  const rich = await peer.turn("rich", "", { turn_id: "t" });
  assert.ok(rich.every((m) => m.type === "session.ready" || m.turn_id === "t"));
  // The call that the handler left open has its end.
  assert.deepEqual(rich.filter((m) => m.tool_call_id).map((m) => [m.type, m.is_error]), [
    ["tool.start", undefined],
    ["tool.update", undefined],
    ["tool.end", true],
  ]);
  await peer.end();
});

test("permissions: only true approves, and a stop denies", async () => {
  const peer = new Peer(adapter('const d = await turn.permission({ tool: "Bash", description: "d", resource: "r" }); await turn.output(String(d.approved))'));
  peer.start("__proto__");
  for (const [approved, expected] of [[true, "true"], ["true", "false"], [1, "false"], [undefined, "false"], [false, "false"]]) {
    const from = peer.messages.length;
    const turn = peer.turn("__proto__", "");
    const { request_id } = await peer.wait((m) => m.type === "permission.request", from);
    peer.send({ type: "permission.response", session_id: "other", request_id, approved: true });
    peer.send({ type: "permission.response", session_id: "__proto__", request_id: "constructor", approved: true });
    peer.send({ type: "permission.response", session_id: "__proto__", request_id, approved });
    assert.equal(text(await turn), expected);
  }
  const from = peer.messages.length;
  const turn = peer.turn("__proto__", "");
  await peer.wait((m) => m.type === "permission.request", from);
  peer.send({ type: "stop", session_id: "__proto__" });
  assert.equal(text(await turn), "false");
  await peer.end();
});

test("a stop ends the turn of a handler that ignores it, and the next one runs", async () => {
  const peer = new Peer(adapter('if (input.content === "hang") { turn.output("on"); await new Promise(() => {}); } await turn.output("next")', "{ stopGrace: 50 }"));
  peer.start("s", ALL);
  const hung = peer.turn("s", "hang", { turn_id: "t-1" });
  await peer.wait((m) => m.content === "on");
  peer.send({ type: "stop", session_id: "s", turn_id: "t-1", reason: "user" });
  const { status, stop_reason } = (await hung).at(-1);
  assert.deepEqual([status, stop_reason], ["stopped", "user"]);
  assert.equal(text(await peer.turn("s", "", { turn_id: "t-2" })), "next");
  assert.equal((await peer.end()).status, 0);
});

test("a stream of pieces ends with its turn", async () => {
  const source = "async function* pieces() { yield 'a'; yield 'b'; if (input.content) { turn.progress('waits'); await new Promise(() => {}); } }";
  const peer = new Peer(adapter(`${source} await turn.output(pieces())`));
  peer.start("s", ALL);
  assert.equal(text(await peer.turn("s", "", { turn_id: "t-1" })), "ab");
  const turn = peer.turn("s", "hang", { turn_id: "t-2" });
  await peer.wait((m) => m.type === "progress");
  peer.send({ type: "stop", session_id: "s" });
  assert.deepEqual((await turn).at(-1).status, "stopped");
  await peer.end();
});

test("the end of input, SIGTERM and a broken stdout end a process whose handlers hang", async () => {
  for (const end of [(peer) => peer.child.stdin.end(), (peer) => peer.child.kill("SIGTERM"), (peer) => peer.child.stdout.destroy()]) {
    const peer = new Peer(adapter('setInterval(() => turn.session.output("x"), 1); turn.output("on"); await new Promise(() => {})'));
    peer.start("s");
    peer.send({ type: "user.input", session_id: "s", content: "" });
    await peer.wait((m) => m.content === "on");
    const began = performance.now();
    end(peer);
    assert.deepEqual(await peer.ended, { status: 0, signal: null });
    assert.ok(performance.now() - began < 5000);
  }
});

test("hostile lines cost themselves alone", async () => {
  const peer = new Peer(ECHO);
  const say = (content) => `{"type":"user.input","session_id":"s","content":${content}}\n`;
  peer.raw('\ufeff{"type":"session.start","session_id":"s"}\r\n\r\n  \n');
  for (const noise of ["[]", "{'a':1}", "{", "null", '"x"', "NaN", '{"type":"user.input","session_id":"s","content":7}', '{"type":"user.input","session_id":"\\ud800"}']) peer.raw(noise + "\n");
  peer.raw(Buffer.from([0xff, 0xfe, 10]));
  peer.raw(`{"type":"user.input","session_id":"s","deep":${"[".repeat(200_000)}${"]".repeat(200_000)},"n":${"9".repeat(100_000)},"e":1e99999,"content":"1"}\n`);
  peer.raw(`{"type":"user.input","session_id":"s","content":${"[".repeat(200)}${"]".repeat(200)}}\n`);
  peer.raw(say('"\\ud83d 2"') + say('"\u2028\u2029 3"') + say('"{\\"__proto__\\":4}"').replace("}\n", ',"__proto__":{"type":"x"}}\n'));
  const split = Buffer.from(say('"größe 5"'));
  for (const byte of split) peer.raw(Buffer.from([byte]));
  await peer.wait((m) => m.content === "größe 5");
  const said = peer.messages.filter((m) => m.type === "output").map((m) => m.content);
  assert.deepEqual(said, ["1", "\ufffd 2", "\u2028\u2029 3", '{"__proto__":4}', "größe 5"]);
  assert.equal((await peer.end()).status, 0);
});

test("a line of 100 MB is refused in bounded memory", async () => {
  const peer = new Peer(ECHO);
  peer.start("s", ALL);
  const megabyte = Buffer.alloc(1 << 20, "x");
  peer.raw('{"type":"user.input","session_id":"s","content":"');
  for (let sent = 0; sent < 100; sent++) {
    if (!peer.child.stdin.write(megabyte)) await new Promise((resolve) => peer.child.stdin.once("drain", resolve));
  }
  peer.raw('"}\n');
  const { category } = await peer.wait((m) => m.type === "error");
  assert.equal(category, "oversize");
  assert.equal(text(await peer.turn("s", "still here", { turn_id: "t" })), "still here");
  const peak = Number(/VmHWM:\s+(\d+)/.exec(readFileSync(`/proc/${peer.child.pid}/status`, "utf8"))[1]);
  assert.ok(peak < 200 * 1024, `${peak} KiB`);
  await peer.end();
});

test("a ping is answered with its nonce as it was written", async () => {
  const peer = new Peer(ECHO);
  peer.start("s", ALL);
  const nonce = '{"a":[123456789012345678901234567890,"\\u007d"],"b":1.0}';
  const raw = [];
  peer.child.stdout.on("data", (text) => raw.push(text));
  peer.raw(`{"nonce":1,"type":"ping","session_id":"","nonce": ${nonce} }\n`);
  await peer.wait((m) => m.type === "pong");
  assert.ok(raw.join("").includes(`"nonce":${nonce}}`), raw.join(""));
  await peer.end();
});

test("steers reach the turn, and those that it does not take are refused", async () => {
  const body = "turn.output('on'); for await (const steer of turn.steers()) { if (steer.content === 'go') { steer.accept(); return; } }";
  const peer = new Peer(adapter(body, "{ steerable: true }"));
  peer.start("s", ALL);
  const turn = peer.turn("s", "", { turn_id: "t-1" });
  await peer.wait((m) => m.content === "on");
  for (const [message_id, content] of [["m-1", "other"], ["m-2", "go"]]) {
    peer.send({ type: "user.input", session_id: "s", turn_id: message_id, message_id, mode: "steer", content });
  }
  const results = (await turn).filter((m) => m.type === "steer.result").map((m) => [m.message_id, m.delivered]);
  assert.deepEqual(results.sort(), [["m-1", false], ["m-2", true]]);
  await peer.end();
});

test("a handler that writes without end is held back, and stopped", async () => {
  const peer = new Peer(adapter("for (let n = 0; ; n++) { if (turn.stopped) return; await turn.output('x'.repeat(1000)); }"));
  peer.start("s", ALL);
  const turn = peer.turn("s", "", { turn_id: "t" });
  await peer.wait((m) => m.type === "output");
  peer.send({ type: "stop", session_id: "s" });
  assert.equal((await turn).at(-1).status, "stopped");
  peer.child.stdout.pause();
  peer.send({ type: "user.input", session_id: "s", turn_id: "t-2", content: "" });
  peer.send({ type: "session.close", session_id: "s" });
  peer.child.stdout.resume();
  assert.equal((await peer.end()).status, 0);
});

test("--describe and --diagnose answer without a session", async () => {
  for (const [flag, member, value] of [["--describe", "name", "mine"], ["--diagnose", "status", "pass"]]) {
    const peer = new Peer(adapter("", '{ name: "mine" }'), { args: [flag] });
    let said = "";
    peer.child.stdout.removeAllListeners("data").on("data", (text) => (said += text));
    assert.equal((await peer.ended).status, 0);
    assert.equal(JSON.parse(said)[member], value);
  }
});
