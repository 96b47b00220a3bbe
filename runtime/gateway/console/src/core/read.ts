/** Reads the parts of entries that have many members. */

import { sessionTitle } from "./format.ts";
import type { Decision, Diff, NoteRow, PermissionRow, QuestionRow } from "./rows.ts";
import { choices, list, num, obj, str } from "./types.ts";
import type { Entry, Json } from "./types.ts";
import { categoryText } from "./words.ts";

export function readDiffs(value: unknown): Diff[] {
  return list(value)
    .map((each) => obj(each))
    .filter((each) => str(each.path) !== "" || str(each.patch) !== "")
    .map((each) => ({
      path: str(each.path),
      ...(typeof each.old_text === "string" ? { oldText: each.old_text } : {}),
      ...(typeof each.new_text === "string" ? { newText: each.new_text } : {}),
      ...(typeof each.patch === "string" ? { patch: each.patch } : {}),
    }));
}

export function readDecision(entry: Entry): Decision {
  const withdrawn = entry.type === "permission.cancel";
  return {
    ...(typeof entry.approved === "boolean" ? { approved: entry.approved } : {}),
    cancelled: withdrawn || entry.cancelled === true,
    option: str(entry.option_id),
    reason: str(entry.reason) || (withdrawn ? "withdrawn" : ""),
    by: str(entry.by),
    ...(str(entry.name) !== "" ? { name: str(entry.name) } : {}),
    time: str(entry.time),
    values: obj(entry.values),
    ...(str(entry.always) !== "" ? { always: str(entry.always) } : {}),
    ...(entry.updated_input !== undefined ? { input: entry.updated_input } : {}),
  };
}

type Own<R> = Omit<R, "key" | "version" | "seq" | "time" | "turn" | "depth" | "history" | "early">;

export function openRequest(entry: Entry): Own<PermissionRow> | Own<QuestionRow> {
  const request = str(entry.request_id);
  const expires = str(entry.expires_at);
  if (entry.type === "input.request") {
    const fields = list(entry.fields)
      .map((each) => obj(each))
      .filter((each) => str(each.id) !== "")
      .map((each) => ({
        id: str(each.id),
        label: str(each.label) || str(each.id),
        kind: str(each.kind) || "text",
        choices: choices(each.choices).map((choice, at) => ({
          ...choice,
          description: str(obj(list(each.choices)[at]).description),
        })),
        required: each.required === true,
        initial: each.default,
      }));
    const answer = { id: "answer", label: "Answer", kind: "text", choices: [], required: false, initial: undefined };
    return {
      kind: "question",
      request,
      prompt: str(entry.prompt),
      fields: fields.length > 0 ? fields : [answer],
      expires,
    };
  }
  const options = list(entry.options)
    .map((each) => obj(each))
    .filter((each) => str(each.id) !== "")
    .map((each) => ({ id: str(each.id), label: str(each.label) || str(each.id), kind: str(each.kind) }));
  return {
    kind: "permission",
    request,
    tool: str(entry.tool) || "tool",
    toolKind: str(entry.kind),
    title: str(entry.title),
    description: str(entry.description),
    resource: str(entry.resource),
    input: entry.input,
    diffs: readDiffs(entry.diffs),
    options,
    expires,
    truncated: entry.truncated === true,
  };
}

interface Note {
  label: string;
  tone: NoteRow["tone"];
  text: string;
  data: Json | undefined;
  by?: string;
  /** It goes on the note before it where that has the same label. */
  joins: boolean;
}

const FACTS: { [fact: string]: string } = {
  opened: "the session was opened",
  process_ended: "the agent's process ended",
  resumed: "a process serves the session again",
  host_restarted: "the host ended and was started again",
  moved: "the session moved to another host",
  forked_from: "what is above was copied from another session",
};

/** What has no row of its own. A type that the console does not know is shown as it is: nothing is lost silently. */
export function noteOf(entry: Entry): Note {
  const note = (label: string, tone: NoteRow["tone"], text: string, data?: Json): Note => ({
    label,
    tone,
    text,
    data,
    joins: false,
  });
  switch (entry.type) {
    case "log":
      return { ...note(`log ${str(entry.stream)}`.trim(), "plain", ended(str(entry.content))), joins: true };
    case "error": {
      const category = str(entry.category);
      return note(categoryText(category) || "error", entry.fatal === true ? "error" : "warning", str(entry.message));
    }
    case "host.fact": {
      const fact = str(entry.fact);
      const end = num(entry.exit_code) ?? num(entry.signal);
      const context = str(entry.context);
      const name = fact === "moved" ? str(entry.message) : "";
      const source = fact === "forked_from" ? str(entry.source) : "";
      const copied = source === "" ? "" : `what is above was copied from the session ${sessionTitle("", source)}`;
      const said = copied || (name !== "" ? `the session moved to the host ${name}` : str(entry.message)) || (Object.hasOwn(FACTS, fact) ? FACTS[fact] : fact) || "a fact";
      const extra = [
        end !== undefined ? (num(entry.exit_code) !== undefined ? `exit status ${end}` : `signal ${end}`) : "",
        context !== "" ? `context ${context}` : "",
      ].filter((each) => each !== "" && !said.includes(each));
      return note("host", "mark", [said, ...extra].join(", "));
    }
    case "stop.requested":
      return { ...note("stop", "mark", "stop was asked for"), by: str(entry.by) };
    case "session.closed": {
      const error = obj(entry.error);
      const reason = str(entry.reason);
      return note("closed", "mark", ["the session is closed", reason, str(error.message)].filter(Boolean).join(": "));
    }
    case "session.edited": {
      const title = typeof entry.title !== "string" ? "" : entry.title === "" ? "the title was removed" : `the session was renamed to “${entry.title}”`;
      const archived = entry.archived === true ? "the session was archived" : entry.archived === false ? "the session left the archive" : "";
      return { ...note("edited", "mark", [title, archived].filter(Boolean).join(", ") || "the session was edited"), by: str(entry.by) };
    }
    case "compaction": {
      const tokens = num(entry.pre_tokens);
      return note("context", "mark", `the context was compacted${tokens === undefined ? "" : ` from ${tokens} tokens`}`);
    }
    case "rate_limit": {
      const part = num(entry.utilization);
      const used = part === undefined ? "" : `${Math.round(part * 100)} % used`;
      return note("rate limit", "warning", [str(entry.window), str(entry.status), used].filter(Boolean).join(", "));
    }
    case "console.skipped":
      return note("gap", "error", `${num(entry.count) ?? 0} entries were too long to be shown`);
    case "custom":
      return note(str(entry.name) || "custom", "plain", "", entry.data ?? null);
    default: {
      const { type, ...rest } = entry;
      return note(type, "plain", "", rest as Json);
    }
  }
}

const ended = (text: string): string => (text.endsWith("\n") ? text : `${text}\n`);
