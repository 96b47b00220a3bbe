// The conformance suite's probe for an adapter on Node 20 or later: copy it.
//
// Where the environment says CONFORM_PROBE=1, an input whose content is `{"$probe": 1, "do": [[operation, …], …]}` is
// a script that stands in for the agent. `scriptIn` finds it; a `Probe`, one for each session, runs it with what your
// adapter already has:
//
//   send(type, fields)                            writes a message of the session; drops it once the turn is over
//   await ask({ tool, description, resource })    asks for a permission; true when it is approved
//   await room()                                  waits while much of what was sent has not been written
//   signal                                        an AbortSignal: `stop` and `session.close` abort it, and what waits
//
// When `run` is settled, the turn is over. It rejects where the script fails (`fail`): end the turn as you end one whose
// agent has failed, by an `output` on `system`, or by status `failed` where `turns` is agreed on.
"use strict";
const { createHash, randomUUID } = require("node:crypto");
const fs = require("node:fs");
const { tmpdir } = require("node:os");
const { join } = require("node:path");
const { setImmediate: pause, setTimeout: sleep } = require("node:timers/promises");

const OPERATIONS = "hello say echo burst sleep until_stop report set get ask file complete fail exit abort".split(" ");
const TICK = 50;

// The script in an input, or undefined: the environment does not allow it, or it is an ordinary input.
function scriptIn(text) {
  if (process.env.CONFORM_PROBE !== "1" || !text.trimStart().startsWith("{")) return undefined;
  try {
    const script = JSON.parse(text);
    const steps = script.do ?? [];
    return "$probe" in script && Array.isArray(steps) && steps.every(Array.isArray) ? script : undefined;
  } catch {
    return undefined;
  }
}

// What a session was sent, for `report`, and the scripts that it is sent.
class Probe {
  inputs = [];
  files = [];
  permissions = [];
  values = new Map();

  // Takes each input when its turn begins, script or not.
  noteInput(text) {
    this.inputs.push({ bytes: Buffer.byteLength(text), sha256: createHash("sha256").update(text).digest("hex") });
  }

  /**
   * Takes each message of the session that the adapter reads; most of them say nothing to it.
   * @param {Record<string, any>} message
   */
  note({ type, file_name: name, file_mime_type: mime, file_path: path, request_id, approved }) {
    if (type === "file.input" && typeof path === "string") this.files.push({ name, mime, path });
    if (type === "permission.response") this.permissions.push({ request_id, approved: approved === true });
  }

  // Does what a script says: the whole turn but its `turn.complete`.
  async run(script, { send, ask, room, signal, name = "adapter", version = "0" }) {
    const say = (content, channel = "stdout") => send("output", { content: content.toWellFormed(), channel });
    const tell = (answer) => say(JSON.stringify({ $probe: 1, ...answer }));
    const busy = async (until) => {
      for (let left; (left = until - performance.now()) > 0; ) {
        await sleep(Math.min(left, TICK), null, { signal });
        if (left >= TICK) say("tick");
      }
    };
    const askOne = async ({ tool, description, resource, effect }) => {
      const approved = await ask({ tool: asText(tool), description: asText(description), resource: asText(resource) });
      signal.throwIfAborted(); // a stop may have come with the answer
      if (approved && effect !== undefined) fs.writeFileSync(effect, "");
      tell({ asked: { resource, approved } });
    };

    const operations = {
      hello: () => tell({ ops: OPERATIONS, adapter: name, version }),
      say: (text, channel) => say(asText(text), channel ?? "stdout"),
      echo: (text) => say(asText(text ?? script.text)),
      burst: async (pieces, bytes, letter = "x") => {
        const fill = letter.repeat(Math.max(0, bytes - "00000001 ".length));
        for (let number = 1; number <= pieces; number++) {
          await room();
          if (number % 16 === 0) await pause(null, { signal }); // stdin is read meanwhile
          say(`${String(number).padStart(8, "0")} ${fill}`);
        }
      },
      sleep: (ms) => busy(performance.now() + ms),
      until_stop: () => busy(Infinity),
      report: async () => {
        const files = await Promise.all(this.files.map(async (file) => ({ ...file, ...(await judged(file.path)) })));
        tell({ count: this.inputs.length, inputs: this.inputs, files, permissions: this.permissions });
      },
      set: (key, value) => this.values.set(asText(key), value),
      get: (key) => tell({ key, value: this.values.get(asText(key)) ?? null }),
      ask: (...asked) => Promise.all(asked.map(askOne)), // at once: they may be answered in any order
      file: (file_name, file_mime_type, bytes) => {
        const file_path = join(tmpdir(), randomUUID()); // in TMPDIR; a name is a label, not a path
        fs.writeFileSync(file_path, Buffer.alloc(bytes, "x"));
        send("file.output", { file_name, file_mime_type, file_path });
      },
      fail: (message) => { throw new Error(asText(message ?? "the script fails")); },
      exit: (status) => process.exit(status),
      abort: () => process.abort(),
    };
    try {
      for (const [operation, ...given] of script.do ?? []) {
        if (operation === "complete") return;
        if (!OPERATIONS.includes(operation)) return tell({ unsupported: operation });
        await operations[operation](...given);
        signal.throwIfAborted();
      }
    } catch (error) {
      if (!signal.aborted) throw error; // the adapter says it, as it says every failure
    }
  }
}

function asText(value = "") {
  return typeof value === "string" ? value : JSON.stringify(value);
}

// What a file holds; it may be anything or nothing.
async function judged(path) {
  try {
    if (!fs.statSync(path).isFile()) throw new Error("not a regular file");
    const hash = createHash("sha256");
    let bytes = 0;
    for await (const chunk of fs.createReadStream(path)) {
      hash.update(chunk);
      bytes += chunk.length;
    }
    return { bytes, sha256: hash.digest("hex") };
  } catch (error) {
    return { error: error.message };
  }
}

module.exports = { Probe, scriptIn };
