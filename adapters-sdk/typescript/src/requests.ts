// Permission requests and questions that wait for their answer ([permission.1] to [permission.6]).
import { isDeepStrictEqual } from "node:util";
import type { Core } from "./core.js";
import { isObject, optionalText, type Message } from "./json.js";
import type { Running } from "./running.js";
import type { PermissionOption, StopReason } from "./types.js";

const UNCHANGEABLE =
  "the input was changed, and this agent cannot run a changed one, so it was denied; approve it as it is, or deny it";
let next = 1; // of the whole process: no two ids are ever the same

/** The answer to a permission. Without an answer it denies. */
export interface Decision {
  /** Whether the action may happen. */
  readonly approved: boolean;
  /** The option that was chosen, by its id. */
  readonly optionId?: string;
  /** The tool's input as the user changed it: only where `takesUpdatedInput` was described. */
  readonly updatedInput?: unknown;
  /** The user's message about it. */
  readonly message?: string;
  /** True where the turn must end with this denial. */
  readonly endTurn?: boolean;
  /** The reason that the host gives; absent if it gives none. */
  readonly reason?: StopReason;
}

/** The answer to a question. */
export interface Answer {
  /** The values by the ids of the fields: `answer` where none was named. */
  readonly values: { readonly [field: string]: unknown };
  /** True where no one answered: withdrawn, stopped, closed, or the host cannot ask. */
  readonly cancelled: boolean;
}

const CANCELLED: Answer = { values: {}, cancelled: true };
const denied = (reason: string | undefined): Decision => ({ approved: false, ...(reason ? { reason: reason as StopReason } : {}) });

interface Pending {
  readonly id: string;
  readonly turn: Running | undefined;
  readonly request: Message;
  readonly isQuestion: boolean;
  settle(value: any): void;
}

/** Those of one session. */
export class Requests {
  readonly #core: Core;
  readonly #pending = new Map<string, Pending>();

  constructor(core: Core) {
    this.#core = core;
  }

  /** Asks, and waits for the answer or for what settles it ([permission.3]). An aborted signal withdraws. */
  ask(turn: Running | undefined, request: Message, signal: AbortSignal | undefined): Promise<any> {
    const core = this.#core;
    const isQuestion = request["type"] === "input.request";
    const without = isQuestion ? CANCELLED : denied("stopped");
    const id = `${isQuestion ? "q" : "p"}${next++}`;
    if (signal?.aborted || turn?.stopping || !core.speaksFor(turn)) return Promise.resolve(without);
    // What cannot be shown to anyone is not asked; a host that cannot ask shows the question as text ([ext.3]).
    const isSent = core.send(turn?.id, { ...request, request_id: id });
    if (!isSent || (isQuestion && !core.agreed.has("questions"))) return Promise.resolve(without);
    return new Promise((resolve) => {
      const withdraw = () => this.#withdraw(id);
      const settle = (value: any) => {
        signal?.removeEventListener("abort", withdraw);
        resolve(value);
      };
      this.#pending.set(id, { id, turn, request, isQuestion, settle });
      signal?.addEventListener("abort", withdraw);
    });
  }

  /** The host's answer. The first one stands ([permission.4]). */
  answer(message: Message): void {
    const isQuestion = message["type"] === "input.response";
    if (!isQuestion) this.#core.ledger?.answer(message);
    const pending = this.#pending.get(message["request_id"]);
    if (pending?.isQuestion !== isQuestion) return;
    this.#pending.delete(pending.id);
    if (!isQuestion) return pending.settle(this.#decide(pending, message));
    const { values, cancelled } = message;
    pending.settle(isObject(values) && cancelled !== true ? { values, cancelled: false } : CANCELLED);
  }

  #decide(pending: Pending, message: Message): Decision {
    const core = this.#core;
    const reason = core.agreed.has("turns") ? optionalText(message, "reason") : undefined;
    const said = message["approved"] === true;
    if (!core.agreed.has("control")) return { ...denied(reason), approved: said };
    const updatedInput: unknown = message["updated_input"] ?? undefined;
    const changed = updatedInput !== undefined && !isDeepStrictEqual(updatedInput, pending.request["input"]);
    if (said && changed && !core.link.described.own.takesUpdatedInput) {
      const error = { type: "error", category: "permission_denied", message: UNCHANGEABLE, fatal: false };
      if (core.speaksFor(pending.turn)) core.send(pending.turn?.id, error);
      return { ...denied(reason), message: UNCHANGEABLE };
    }
    const options: PermissionOption[] = pending.request["options"] ?? [];
    let optionId = optionalText(message, "option_id");
    if (optionId === undefined && said && message["always_allow"] === true) {
      optionId = options.find((option) => option.kind === "allow_always")?.id;
    }
    const text = optionalText(message, "message");
    return {
      ...denied(reason),
      approved: approves(said, optionId, options),
      ...(optionId === undefined ? {} : { optionId }),
      ...(updatedInput === undefined ? {} : { updatedInput }),
      ...(text === undefined ? {} : { message: text }),
      endTurn: message["end_turn"] === true,
    };
  }

  /** Settles without an answer what a turn asked for, or with none everything. */
  deny(turn: Running | undefined, reason: string | undefined): void {
    if (this.#pending.size === 0) return;
    for (const pending of [...this.#pending.values()]) {
      if (turn && pending.turn !== turn) continue;
      this.#pending.delete(pending.id);
      pending.settle(pending.isQuestion ? CANCELLED : denied(reason));
    }
  }

  #withdraw(id: string): void {
    const pending = this.#pending.get(id);
    if (!pending) return;
    this.#pending.delete(id);
    if (this.#core.speaksFor(pending.turn)) this.#core.send(pending.turn?.id, { type: "permission.cancel", request_id: id });
    pending.settle(pending.isQuestion ? CANCELLED : denied(undefined));
  }
}

// Whether an answer approves. An option that contradicts it, or was not offered, denies.
function approves(said: boolean, optionId: string | undefined, options: readonly PermissionOption[]): boolean {
  if (optionId === undefined) return said;
  const option = options.find((option) => option.id === optionId);
  return option !== undefined && said && !option.kind?.startsWith("reject");
}
