// The session and the turn of a run: what comes of them is logged, and noted for the result.
import { Client, type Connect, type Conversation, type Entry } from "@trunkline/sdk/client";
import type { Output } from "./output.js";
import { questionOf } from "./parse.js";
import type { RunStopper } from "./stop.js";
import type { RunOutcome } from "./types.js";

// Facts about a run, and no wishes: an agent that has no use for one leaves nothing out.
const FACTS = ["agent_id", "run_id", "task_id"];

export class AgentTurn {
  readonly outcome: Omit<RunOutcome, "stopped" | "stdout" | "stderr"> = {
    end: undefined,
    error: undefined,
    text: "",
    sessionId: "",
    model: "",
    adapter: "",
    isReplaced: false,
    question: undefined,
  };
  readonly #start: Record<string, unknown>;
  readonly #output: Output;
  readonly #stopper: RunStopper;
  #unconfirmed: string[]; // options that the agent has neither listed nor left out

  constructor(start: Record<string, unknown>, output: Output, stopper: RunStopper) {
    this.#start = start;
    this.#output = output;
    this.#stopper = stopper;
    this.#unconfirmed = Object.keys(start).filter((name) => !FACTS.includes(name));
  }

  async run(relay: Connect, prompt: string): Promise<void> {
    // The operator's policy decides; a run has no person to ask, so the rest is denied.
    const onPermission = ({ tool, resource }: { tool: string; resource: string }) => (
      this.#output.error(`trunkline: denied: ${tool} ${resource}`),
      false
    );
    const stopper = this.#stopper;
    stopper.client = await Client.connect(relay, { onPermission });
    if (stopper.reason) return;
    const session = await stopper.client.open(this.#start, { listen: true });
    stopper.session = session;
    if (!stopper.reason) await this.#converse(session, prompt);
  }

  async #converse(session: Conversation, prompt: string): Promise<void> {
    const done = session.turn(prompt);
    done.catch(() => {}); // it is awaited below
    for await (const entry of session.events()) {
      this.#note(entry);
      await this.#output.entry(entry);
      if (entry.type === "turn.complete" && (this.outcome.end = entry)) break;
    }
    const { text, truncated } = await done;
    this.outcome.text = text;
    if (truncated) this.#output.error("trunkline: the answer is too long, and was cut in the summary");
    this.#reportMissing([]); // an agent that lists no options takes none
  }

  #note(entry: Entry): void {
    const { outcome } = this;
    if ("native_session_id" in entry && entry.native_session_id) outcome.sessionId = entry.native_session_id;
    if (entry.type === "session.ready" || entry.type === "session.info") {
      outcome.model = entry.model ?? outcome.model;
      outcome.adapter = entry.adapter?.name ?? outcome.adapter;
      outcome.isReplaced ||= entry.context === "lost" && this.#start["resume"] !== undefined;
      if (entry.type === "session.info" && entry.options_applied) this.#reportMissing(entry.options_applied);
    } else if (entry.type === "input.request") {
      outcome.question = questionOf(entry);
      this.#output.error(`trunkline: asked, and not answered in this run: ${entry.prompt}`);
    }
  }

  #reportMissing(applied: readonly string[]): void {
    const options = this.#unconfirmed.filter((name) => !applied.includes(name));
    this.#unconfirmed = [];
    if (options.length > 0) this.#output.error(`trunkline: the agent takes no ${options.join(", ")}`);
  }
}
