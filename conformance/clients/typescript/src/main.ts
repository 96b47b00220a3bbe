// A client that openapi-typescript makes of the daemon's contract: a session from its opening to its end.
//
// node main.js URL, with a token of scope control in TRUNKLINE_TOKEN.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import createClient from "openapi-fetch";
import type { components, paths } from "../gen/api.js";

type Entry = components["schemas"]["Entry"];

const [url, token] = [process.argv[2], process.env["TRUNKLINE_TOKEN"]];
assert(url !== undefined && token !== undefined, "usage: TRUNKLINE_TOKEN=... main.js URL");
const api = createClient<paths>({ baseUrl: url, headers: { Authorization: `Bearer ${token}` } });

/** What an answer holds; the problem where it is one. */
function given<T>(answer: { data?: T; error?: components["schemas"]["Problem"]; response: Response }): T {
  assert(answer.data !== undefined, `${answer.response.status}: ${answer.error?.detail}`);
  return answer.data;
}

/** The events of a session, as they come. */
async function* events(id: string, after: number, signal: AbortSignal): AsyncGenerator<Entry> {
  const { response } = await api.GET("/v1/sessions/{id}/events", {
    params: { path: { id }, query: { after } },
    parseAs: "stream",
    signal,
  });
  assert.equal(response.status, 200);
  assert(response.headers.get("content-type")?.startsWith("text/event-stream"));
  let rest = "";
  for await (const text of response.body!.pipeThrough(new TextDecoderStream())) {
    const frames = (rest + text).split("\n\n");
    rest = frames.pop()!;
    for (const frame of frames) {
      const field = (name: string) => frame.split("\n").find((line) => line.startsWith(`${name}: `))?.slice(name.length + 2);
      const data = field("data");
      if (data === undefined) continue;
      const entry = JSON.parse(data) as Entry;
      assert.equal(field("event"), entry.type);
      assert.equal(field("id"), String(entry.seq));
      yield entry;
    }
  }
}

/** Entries up to one of a type. */
async function until(type: string, entries: AsyncGenerator<Entry>): Promise<Entry[]> {
  const heard: Entry[] = [];
  for (;;) {
    const next = await entries.next();
    assert(!next.done, `the stream ends before ${type}`);
    heard.push(next.value);
    if (next.value.type === type) return heard;
  }
}

const me = given(await api.GET("/v1/me"));
assert.equal(me.scope, "control");
const { agents, default: usual } = given(await api.GET("/v1/agents"));
assert(agents.some((agent) => agent.id === usual));

const opened = given(await api.POST("/v1/sessions", { body: { options: { title: "By a generated client" } } }));
const { id } = opened;
const path = { id };
const leave = new AbortController();
const stream = events(id, 0, leave.signal);

// The same input twice is one turn.
const key = { "Idempotency-Key": "generated-1" };
const turn = () =>
  api.POST("/v1/sessions/{id}/inputs", {
    params: { path, query: { wait: "end" }, header: key },
    body: { content: "hello" },
  });
const ended = given(await turn());
assert("text" in ended);
assert.equal(ended.text, "hello");
assert.equal(given(await turn()).turn_id, ended.turn_id);
const heard = await until("turn.complete", stream);
assert.deepEqual(
  heard.map((entry) => entry.seq),
  heard.map((_, at) => at + 1),
);

// A file in, and one out.
const bytes = new TextEncoder().encode("of a generated client");
const kept = given(
  await api.PUT("/v1/sessions/{id}/files", {
    params: { path, query: { name: "note.txt" } },
    body: bytes as unknown as string,
    bodySerializer: () => bytes,
    headers: { "Content-Type": "application/octet-stream" },
  }),
);
assert.equal(kept.sha256, createHash("sha256").update(bytes).digest("hex"));
given(
  await api.POST("/v1/sessions/{id}/inputs", {
    params: { path, query: { wait: "end" } },
    body: { content: "/file out.txt", files: [kept.sha256] },
  }),
);
const told = (await until("file.output", stream)).at(-1)! as Entry & { sha256: string; file_path?: string };
assert.equal(told.file_path, undefined);
const file = await api.GET("/v1/sessions/{id}/files/{sha256}", {
  params: { path: { id, sha256: told.sha256 } },
  parseAs: "arrayBuffer",
});
assert(file.data !== undefined);
assert.equal(createHash("sha256").update(new Uint8Array(file.data)).digest("hex"), told.sha256);
await until("turn.complete", stream);

// A turn that is stopped.
const running = given(
  await api.POST("/v1/sessions/{id}/inputs", { params: { path }, body: { content: "/sleep 600" } }),
);
assert("duplicate" in running && !running.duplicate);
await until("turn.begin", stream);
const stop = await api.POST("/v1/sessions/{id}/stop", {
  params: { path },
  body: { ...(running.turn_id === null ? {} : { turn_id: running.turn_id }) },
});
assert.equal(stop.response.status, 202);
await until("turn.complete", stream);

// Errors are problems, of the kind that the contract says.
const late = await api.POST("/v1/sessions/{id}/stop", { params: { path }, body: {} });
assert.equal(late.error?.status, 409);
assert(late.response.headers.get("content-type")?.startsWith("application/problem+json"));
const wrong = await api.GET("/v1/tokens");
assert.equal(wrong.error?.status, 403);

const page = given(await api.GET("/v1/sessions", { params: { query: { text: "generated" } } }));
assert.equal(page.sessions[0]?.session_id, id);
assert.equal((await api.DELETE("/v1/sessions/{id}", { params: { path } })).response.status, 204);
await until("session.closed", stream);
assert((await stream.next()).done, "the stream ends with its session");
leave.abort();
const gone = await api.DELETE("/v1/sessions/{id}", { params: { path, query: { remove: true } } });
assert.equal(gone.response.status, 204);
assert.equal((await api.GET("/v1/sessions/{id}", { params: { path } })).error?.status, 404);
console.log("the generated client in TypeScript: a session from its opening to its end");
