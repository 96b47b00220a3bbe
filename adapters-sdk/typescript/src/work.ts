// What a session does, step by step: the author's code is called here, and nowhere else.
import { AsyncLocalStorage } from "node:async_hooks";
import { rm } from "node:fs/promises";
import { Failure, type FileInput } from "./adapter.js";
import { COMPLETED, errorOf, type Core, type Running } from "./core.js";
import { differs, takeText } from "./files.js";
import type { Message } from "./json.js";
import { runScript, scriptIn } from "./probe.js";
import { placed, put, Session } from "./session.js";
import { Turn } from "./turn.js";

interface Current {
  core: Core;
  turn: Running;
}
/** The turn whose handler runs, even where what it began runs later. */
const current = new AsyncLocalStorage<Current>();

/** Runs a session's steps until none is left. */
export async function work(core: Core, worker: object): Promise<void> {
  for (let step; (step = core.next(worker)); ) {
    if (step.kind === "turn") await serveTurn(core, step.job);
    else if (step.kind === "start") await cuttable(core, start(core, step.job));
    else if (step.kind === "file") await cuttable(core, file(core, step.job));
    else if (step.kind === "update") await cuttable(core, update(core, step.job));
    else await close(core);
  }
}

// A hook has no end of its own at a session's end: what it does afterwards changes nothing.
function cuttable(core: Core, hook: Promise<void>): Promise<void> {
  return new Promise((resolve) => {
    core.cut = resolve;
    void hook.finally(() => {
      core.cut = undefined;
      resolve();
    });
  });
}

async function serveTurn(core: Core, running: Running): Promise<void> {
  try {
    if (running.large) await takeLarge(core, running);
    const turn = new Turn<any>(core, running);
    const script = core.ledger && scriptIn(running.text);
    if (script) await runScript(turn, core, script);
    else {
      const { text: content, messageId, meta } = running;
      const input = { content, files: running.files as FileInput[], messageId, meta };
      await current.run({ core, turn: running }, () => core.link.adapter.turn(turn, input));
    }
    core.endTurn(running, COMPLETED);
  } catch (error) {
    fail(core, running, error);
  }
}

async function takeLarge(core: Core, running: Running): Promise<void> {
  try {
    running.text = await takeText(core.exchangeDir, running.large ?? {});
  } catch (error) {
    throw new Failure(`the text of the input could not be read from its file: ${messageOf(error)}`, { category: "file_refused" });
  }
  core.ledger?.input(running.text);
}

/** Ends a turn as failed, unless it has ended. What a stopped turn throws is the stop. */
function fail(core: Core, running: Running, error: unknown): void {
  if (running.over) return;
  if (running.stopping) return void core.endTurn(running, {});
  const failure = failureOf(core, "a turn", error);
  const end = failure.status === "stopped" ? {} : { error: failure.error };
  core.endTurn(running, placed(core, { type: "turn.complete", status: failure.status, ...end }));
  if (failure.closes) core.finish(failure.closes, failure.error as Message);
}

/** Meets an error that no one caught: it fails the turn that it came from, where that is known. */
export function uncaught(error: unknown): void {
  const from = current.getStore();
  if (from && !from.turn.over) fail(from.core, from.turn, error);
  else console.error("an error that no turn waits for:", error);
}

const CLOSES = new Map([
  ["refused", "refused"],
  ["limit", "limit"],
]);

async function start(core: Core, options: Message): Promise<void> {
  core.handle = new Session(core, options);
  try {
    const state: unknown = await core.link.adapter.start?.(core.handle, options);
    if (state !== undefined) core.handle.state = state;
    core.started = true;
  } catch (error) {
    const failure = failureOf(core, "start", error);
    core.finish(failure.closes ?? CLOSES.get(failure.status) ?? "failed", failure.error as Message);
  }
}

async function file(core: Core, file: Message): Promise<void> {
  try {
    const why = await differs(file);
    if (why !== undefined) {
      core.refused.add(file);
      throw new Failure(`'${file["file_name"]}' was not taken: ${why}`, { category: "file_refused" });
    }
    core.ledger?.file(file);
    await core.link.adapter.file?.(core.handle, file as FileInput);
  } catch (error) {
    const { category, message } = failureOf(core, "file", error).error;
    put(core, undefined, errorOf(category ?? "other", message ?? ""));
  }
}

async function update(core: Core, changes: Message): Promise<void> {
  let info: Message | undefined;
  try {
    info = (await core.link.adapter.update?.(core.handle, changes)) ?? undefined;
  } catch (error) {
    tell(core, "update", error);
  }
  if (!core.isOver) core.send(undefined, { ...info, type: "session.info" });
}

async function close(core: Core): Promise<void> {
  try {
    if (core.started) await core.link.adapter.close?.(core.handle);
  } catch (error) {
    tell(core, "close", error);
  }
  for (const folder of core.made) await rm(folder, { recursive: true, force: true }).catch(() => {});
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message || error.name : String(error);
}

/** Shows the operator where the author's code has failed. */
function tell(core: Core, what: string, error: unknown): void {
  console.error(`${what} of session ${JSON.stringify(core.id)} failed:`, error);
}

function failureOf(core: Core, what: string, error: unknown): Failure {
  if (error instanceof Failure) return error;
  tell(core, what, error);
  return new Failure(messageOf(error).toWellFormed());
}
