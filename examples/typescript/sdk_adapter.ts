#!/usr/bin/env node
// An echo adapter on the package for TypeScript: many sessions, stop, a permission, inputs during a turn, a model to choose,
// and a program that ends with its turn.
//
//   adapters-sdk/typescript/check      # makes examples/typescript/dist/sdk_adapter.js
import { spawn } from "node:child_process";
import { once } from "node:events";
import { serve, type Adapter, type Turn } from "@trunkline/sdk";

type State = { model: string };

async function takeInputs(turn: Turn<State>): Promise<void> {
  for await (const steer of turn.steers()) await turn.output(`and ${steer.accept()}\n`);
}

// Its streams are not this process's, and a stop ends it.
async function run(turn: Turn<State>, program: string, ...args: string[]): Promise<void> {
  const child = spawn(program, args, { stdio: "ignore", signal: turn.signal });
  await once(child, "close");
}

const adapter: Adapter<State> = {
  describe: () => ({ name: "sdk_adapter", version: "0.1.0", steerable: true, honours: ["model"], maxSessions: 1000 }),
  greet: ({ model = "plain" }) => ({ model, options_applied: ["model"] }),
  start: (_, { model = "plain" }) => ({ model }),
  update: (session, { model = session.state.model }) => (session.state = { model }),
  async turn(turn, { content }) {
    void takeInputs(turn);
    const [, command, word = ""] = /^\/(tool|sleep) (\S+)/.exec(content) ?? [];
    if (command === "sleep") await run(turn, "sleep", word);
    if (command !== "tool") return turn.output(content);
    const { approved } = await turn.permission({ tool: word, description: `Run ${word}`, resource: word });
    return turn.output(`${approved ? "ran" : "denied"} ${word}`);
  },
};

await serve(adapter);
