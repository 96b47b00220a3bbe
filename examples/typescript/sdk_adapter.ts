#!/usr/bin/env node
// An echo adapter on the package for TypeScript: many sessions, stop, a permission, inputs during a turn, a model to choose,
// a program that ends with its turn, and sessions that go on where they were closed.
//
//   adapters-sdk/typescript/check      # makes examples/typescript/dist/sdk_adapter.js
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { serve, type Adapter, type Resume, type Turn } from "@trunkline/sdk";

type State = { id: string; model: string; word: string; cwd?: string };

// What an agent keeps of its sessions, in files of its own: here as long as the process, and the newest hundred.
const kept = new Map<string, State>();

function keep(state: State): State {
  kept.delete(state.id);
  kept.set(state.id, state);
  const [oldest = ""] = kept.keys();
  if (kept.size > 100) kept.delete(oldest);
  return state;
}

const earlier = (resume?: Resume) => kept.get(resume?.native_session_id ?? "");

async function takeInputs(turn: Turn<State>): Promise<void> {
  for await (const steer of turn.steers()) await turn.output(`and ${steer.accept()}\n`);
}

// Its streams are not this process's, and a stop ends it.
async function run(turn: Turn<State>, program: string, ...args: string[]): Promise<void> {
  const child = spawn(program, args, { stdio: "ignore", signal: turn.signal });
  await once(child, "close");
}

const adapter: Adapter<State> = {
  describe: () => ({
    name: "sdk_adapter",
    version: "0.1.0",
    steerable: true,
    honours: ["model"],
    maxSessions: 1000,
    resumes: true,
    capabilities: { native_session_ids: true },
  }),
  greet: ({ model, resume }) => ({ model: model ?? earlier(resume)?.model ?? "plain", options_applied: ["model"] }),
  start(session, { model, cwd, resume }) {
    const found = earlier(resume);
    const state = keep({ id: randomUUID(), word: "", ...(cwd ? { cwd } : {}), ...found, model: model ?? found?.model ?? "plain" });
    session.info({ native_session_id: state.id, ...(resume ? { context: found ? "kept" : "lost" } : {}) });
    return state;
  },
  update: (session, { model = session.state.model }) => ({ model: (session.state.model = model) }),
  sessions: ({ cwd, limit }) =>
    [...kept.values()]
      .filter((state) => cwd === undefined || state.cwd === cwd)
      .reverse()
      .slice(0, limit)
      .map(({ id, cwd }) => ({ native_session_id: id, ...(cwd ? { cwd } : {}) })),
  async turn(turn, { content }) {
    void takeInputs(turn);
    const [, command, word = ""] = /^\/(tool|sleep|remember) (\S+)/.exec(content) ?? [];
    if (command === "sleep") await run(turn, "sleep", word);
    if (command === "remember") turn.state.word = word;
    if (command !== "tool") return turn.output(content === "/recall" ? turn.state.word : content);
    const { approved } = await turn.permission({ tool: word, description: `Run ${word}`, resource: word });
    return turn.output(`${approved ? "ran" : "denied"} ${word}`);
  },
};

await serve(adapter);
