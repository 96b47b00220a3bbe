/** What the page reports of an agent, from the daemon's judgement and the last turn that failed. */

import { num, obj, str } from "./types.ts";
import type { Obj } from "./types.ts";

export interface AgentHealth {
  /** The state of its badge: a failure is never shown as idle. */
  state: string;
  severity: "ok" | "note" | "warning" | "error";
  /** The daemon's judgement; empty if it has nothing but good to report, and the last turn failed. */
  verdict: string;
  /** Why the last turn failed. */
  failure: string;
  /** The end of its standard error. */
  stderr: string;
  /** The last line of it. */
  lastWords: string;
  restartMs: number | undefined;
}

const ESCAPES = /\u001b\[[0-9;?]*[A-Za-z]/g;

export function agentHealth(agent: Obj, failure: string): AgentHealth {
  const health = obj(agent.health);
  const known = (["note", "warning", "error"] as const).find((each) => each === health.severity) ?? "ok";
  const isWell = known === "ok" || known === "note";
  const stderr = str(health.stderr);
  // The daemon refers to a text that may be missing.
  const verdict = stderr === "" ? str(health.verdict).replace(/; read its stderr$/, "") : str(health.verdict);
  const isFailed = failure !== "" || known === "error" || (!isWell && health.liveness === "down");
  const restartMs = num(health.restart_in_ms);
  return {
    state: isFailed ? "failed" : str(agent.state),
    severity: isWell && failure !== "" ? "warning" : known,
    verdict: isWell && failure !== "" ? "" : verdict,
    failure,
    stderr,
    lastWords: (stderr.replace(ESCAPES, "").trim().split("\n").pop() ?? "").trim().slice(0, 300),
    restartMs: restartMs === 0 ? undefined : restartMs,
  };
}
