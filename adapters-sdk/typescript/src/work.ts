// What a session does, step by step: the author's code is called here, and nowhere else.
import { AsyncLocalStorage } from "node:async_hooks";
import { rm } from "node:fs/promises";
import { Failure, type FileInput } from "./adapter.js";
import { COMPLETED, errorOf, type Core, type Step } from "./core.js";
import { differs, takeText } from "./files.js";
import type { Message } from "./json.js";
import { runScript, scriptIn } from "./probe.js";
import type { Running } from "./running.js";
import { placed, put, Session } from "./session.js";
import { DONE, Turn } from "./turn.js";

/** The turn whose handler runs, even where what it began runs later. */
const current = new AsyncLocalStorage<Running>();

/** Runs a session's steps until none is left. A step that does not wait is done when it returns: no promise is made for it. */
export function work(core: Core, worker: number): void {
  for (let step; (step = core.next(worker)); ) {
    if (step.kind !== "turn") return void other(core, step).then(() => work(core, worker));
    const served = serve(core, step);
    if (served) return waitFor(core, step, served, worker);
  }
}

function other(core: Core, step: Exclude<Step, Running>): Promise<void> {
  if (step.kind === "start") return cuttable(core, start(core, step.job));
  if (step.kind === "file") return cuttable(core, file(core, step.job));
  if (step.kind === "update") return cuttable(core, update(core, step.job));
  return close(core);
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

// What of a turn is to be waited for; nothing when it has ended.
function serve(core: Core, running: Running): Promise<void> | undefined {
  try {
    const served = running.large || core.ledger ? serveOdd(core, running) : handle(core, running);
    if (served && served !== DONE) return served;
    running.return();
    core.endTurn(running, COMPLETED);
  } catch (error) {
    running.return();
    fail(core, running, error);
  }
  return undefined;
}

// Not an async function: it would make three promises more, for every turn.
function waitFor(core: Core, running: Running, served: Promise<void>, worker: number): void {
  const completed = (result: unknown) => {
    if (typeof result === "string") return failed(new TypeError("the handler returned a string; send text with turn.output()"));
    running.return();
    core.endTurn(running, COMPLETED);
    work(core, worker);
  };
  const failed = (error: unknown) => {
    running.return();
    fail(core, running, error);
    work(core, worker);
  };
  void Promise.resolve(served).then(completed, failed); // an author may give any object with `then`
}

// An input whose text lies in a file, or that may be a script of the suite.
async function serveOdd(core: Core, running: Running): Promise<void> {
  if (running.large) await takeLarge(core, running);
  const script = core.ledger && scriptIn(running.text);
  if (script) await runScript(new Turn<any>(core, running), core, script);
  else return handle(core, running);
}

const handle = (core: Core, running: Running): Promise<void> | void => current.run(running, called, core, running);

function called(core: Core, running: Running): Promise<void> | void {
  const { text: content, messageId, meta } = running;
  return core.link.adapter.turn(new Turn<any>(core, running), { content, files: running.files as readonly FileInput[], messageId, meta });
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
  if (from && !from.over) fail(from.core, from, error);
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
  const text = messageOf(error);
  const name = error instanceof Error && error.name !== "Error" && error.name !== text ? `${error.name}: ` : "";
  return new Failure((name + text).toWellFormed());
}
