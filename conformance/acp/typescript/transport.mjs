// How a client of ACP's library reaches its agent: a process on stdio, or a daemon over HTTP or a WebSocket.
import { spawn } from "node:child_process";
import { appendFileSync } from "node:fs";
import { Readable, Writable } from "node:stream";
import assert from "node:assert/strict";
import * as acp from "@agentclientprotocol/sdk";
import { createHttpStream } from "@agentclientprotocol/sdk/experimental/http-client";
import { createWebSocketStream } from "@agentclientprotocol/sdk/experimental/ws-client";
import { WebSocket } from "ws";

/** How long a program may take to end after its stdin has. */
const EXIT_TIMEOUT_MS = 20_000;

/** A stream that writes down what passes: each message is an element of a list, or a line. */
function recorded(record, from, elements) {
  return new TransformStream({
    transform(chunk, controller) {
      for (const line of elements(chunk)) appendFileSync(record, JSON.stringify({ from, line }) + "\n");
      controller.enqueue(chunk);
    },
  });
}

function lines() {
  let rest = "";
  const decoder = new TextDecoder();
  return (bytes) => {
    const all = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = all.pop();
    return all.filter(Boolean);
  };
}

function spawned(record, [program, ...args]) {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const toAgent = recorded(record, "client", lines());
  toAgent.readable.pipeTo(Writable.toWeb(child.stdin)).catch(() => {});
  const ofAgent = Readable.toWeb(child.stdout).pipeThrough(recorded(record, "agent", lines()));
  const end = async () => {
    const exited = new Promise((resolve) => child.once("exit", resolve));
    child.stdin.end();
    const late = setTimeout(() => child.kill("SIGKILL"), EXIT_TIMEOUT_MS);
    const status = await exited.finally(() => clearTimeout(late));
    assert.equal(status, 0);
  };
  return { stream: acp.ndJsonStream(toAgent.writable, ofAgent), end };
}

/** A daemon's: with each answer over HTTP, as its method, its status and the connection that it names. */
function daemon(record, kind) {
  const headers = { Authorization: `Bearer ${process.env.ACP_TOKEN}` };
  const answers = [];
  const url = `${process.env.ACP_URL}/acp`;
  const noting = async (address, init) => {
    const answer = await fetch(address, init);
    answers.push({ method: init.method, status: answer.status, connection: answer.headers.get("acp-connection-id") });
    return answer;
  };
  const stream =
    kind === "http"
      ? createHttpStream(url, { headers, fetch: noting })
      : createWebSocketStream(url.replace("http", "ws"), { headers, WebSocket });
  const toAgent = recorded(record, "client", (message) => [JSON.stringify(message)]);
  toAgent.readable.pipeTo(stream.writable).catch(() => {});
  const ofAgent = stream.readable.pipeThrough(recorded(record, "agent", (message) => [JSON.stringify(message)]));
  const end = async () => {
    if (kind === "ws") return;
    // A client that closes tells it.
    const until = Date.now() + 10_000;
    while (!answers.some(({ method }) => method === "DELETE") && Date.now() < until)
      await new Promise((resolve) => setTimeout(resolve, 5));
    assert.deepEqual(answers.at(-1), { method: "DELETE", status: 202, connection: null });
  };
  return { stream: { readable: ofAgent, writable: toAgent.writable }, end, answers, headers, url };
}

/** `http` and `ws` are a daemon's, at ACP_URL with ACP_TOKEN; else a command. */
export function opened(record, target) {
  return ["http", "ws"].includes(target[0]) ? daemon(record, target[0]) : spawned(record, target);
}
