// Your agent goes into `answer`, which `adapter.ts` serves. `npm run build` makes dist/adapter.js of both.
import { writeFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { Failure, type Handler } from "@trunkline/sdk";

/**
 * One turn. Say as much as you like; the return ends the turn, and an error is shown to the user.
 *
 * `turn.signal` is aborted by a stop: hand it to whatever you wait for. `turn.permission` asks: act only where `approved` is
 * true. `input.files` are the files of the user; `turn.file(path)` sends one. Options, state of a session and more: see
 * `Adapter` of the package.
 */
export const answer: Handler = async (turn, input) => {
  // To try it out, and for the recipes in conform.toml. Your agent replaces all of this.
  const [, command, rest = ""] = /^\/(\w+) (.*)$/s.exec(input.content) ?? [];
  if (command === "sleep") await sleep(Number(rest) * 1000, undefined, { signal: turn.signal });
  if (command === "touch") {
    const { approved } = await turn.permission({ tool: "touch", description: `Create ${rest}`, resource: rest });
    if (approved) await writeFile(rest, "");
  }
  if (command === "fail") throw new Failure(rest);
  await turn.output(`You said: ${input.content}`);
};
