/** Answers several permission requests that a person has seen together, each for this time only. */

import { Problem } from "./api.ts";
import type { Api } from "./api.ts";
import type { PermissionRow, RequestRow } from "./rows.ts";

type OnceAnswer = { approved: boolean; option_id?: string };

/** Returns the answer that holds for this time only, or nothing if the options of a request have none that surely does. */
export function onceAnswer(row: PermissionRow, approve: boolean): OnceAnswer | undefined {
  const once = row.options.find((option) => option.kind === (approve ? "allow_once" : "reject_once"));
  if (once) return { approved: approve, option_id: once.id };
  // Without an option the agent chooses one of its own, which must not be one that holds for always.
  const others = row.options.some((option) => !option.kind.startsWith(approve ? "reject" : "allow"));
  return others ? undefined : { approved: approve };
}

/** Requests of one session that get one answer. */
export interface RequestBatch {
  session: string;
  approve: boolean;
  /** The requests that the person sees, and no later one. */
  rows: readonly PermissionRow[];
}

/** Returns the open permissions that can be answered together; nothing if they are fewer than two. Questions are never among them. */
export function batchOf(session: string, rows: readonly RequestRow[], approve: boolean): RequestBatch | undefined {
  const fit = rows.filter((row): row is PermissionRow => row.kind === "permission" && row.decision === undefined && !row.history && onceAnswer(row, approve) !== undefined);
  return fit.length < 2 ? undefined : { session, approve, rows: fit };
}

export interface BatchOutcome {
  answered: number;
  /** Requests that another party decided first, or that ended with their turn. */
  elsewhere: number;
  /** Requests that were not sent, since one of them failed. */
  unsent: number;
  fault: string;
}

/** Answers each request of a batch once, one after the other. A failure ends it. */
export async function answerBatch(api: Pick<Api, "answer">, { session, approve, rows }: RequestBatch, progress: (done: number) => void): Promise<BatchOutcome> {
  const outcome: BatchOutcome = { answered: 0, elsewhere: 0, unsent: 0, fault: "" };
  for (const [at, row] of rows.entries()) {
    const answer = onceAnswer(row, approve);
    try {
      if (row.decision !== undefined || answer === undefined) outcome.elsewhere += 1;
      else {
        await api.answer(session, row.request, answer);
        outcome.answered += 1;
      }
    } catch (error) {
      if (error instanceof Problem && (error.status === 404 || error.status === 409)) outcome.elsewhere += 1;
      else {
        outcome.fault = error instanceof Error ? error.message : "not sent";
        outcome.unsent = rows.length - at;
        break;
      }
    }
    progress(at + 1);
  }
  return outcome;
}

const requests = (count: number): string => `${count} ${count === 1 ? "request" : "requests"}`;

/** What came of a batch, for the person. */
export function batchText({ approve, rows }: RequestBatch, { answered, elsewhere, unsent, fault }: BatchOutcome): string {
  const verb = approve ? "allowed" : "denied";
  const done = answered === rows.length ? `You ${verb} ${requests(answered)}.` : `You ${verb} ${answered} of ${requests(rows.length)}.`;
  return [
    done,
    elsewhere > 0 ? `${elsewhere} ${elsewhere === 1 ? "was" : "were"} decided elsewhere before.` : "",
    unsent > 0 ? `${unsent} ${unsent === 1 ? "still waits" : "still wait"}: ${fault}` : "",
  ].filter((part) => part !== "").join(" ");
}
