/** What a person has typed to answer requests. It stays while the tab lives, and is stored nowhere, since it may be secret. */

import { jsonText } from "./find.ts";
import type { RequestRow } from "./rows.ts";
import { obj, str } from "./types.ts";
import type { Json } from "./types.ts";

export interface AnswerDraft {
  /** Answers to the fields of a question. */
  values?: { [field: string]: Json };
  /** The message of a denial. */
  message?: string;
  /** The input of a tool call as edited, a text for each of its fields. */
  edits?: string[];
  isEditing?: boolean;
}

/** Number of drafts that are kept. */
const MAX_DRAFTS = 100;

/** A field of a tool's input: texts as they are, everything else as JSON. */
export interface InputField {
  name: string;
  isText: boolean;
  text: string;
  value: Json;
}

/** The fields of an input; one without a name if the input is no object. */
export function inputFields(input: Json | undefined): InputField[] {
  const isWhole = typeof input !== "object" || input === null || Array.isArray(input);
  const members: [string, Json | undefined][] = isWhole ? [["", input]] : Object.entries(obj(input));
  return members.map(([name, value]) => ({ name, isText: typeof value === "string", text: jsonText(value as Json), value: value as Json }));
}

export class AnswerDrafts {
  private kept = new Map<string, AnswerDraft>();

  get(session: string, request: string): AnswerDraft {
    return this.kept.get(keyOf(session, request)) ?? {};
  }

  change(session: string, request: string, part: AnswerDraft): void {
    const key = keyOf(session, request);
    const draft = { ...this.kept.get(key), ...part };
    this.kept.delete(key);
    this.kept.set(key, draft);
    for (const old of this.kept.keys()) {
      if (this.kept.size <= MAX_DRAFTS) break;
      this.kept.delete(old);
    }
  }

  /** Returns a draft, and keeps it no longer: its request is answered. */
  take(session: string, request: string): AnswerDraft {
    const draft = this.get(session, request);
    this.kept.delete(keyOf(session, request));
    return draft;
  }
}

const keyOf = (session: string, request: string): string => JSON.stringify([session, request]);

/** The texts of a draft, for a person who wants to copy them; no secret is among them. */
export function draftText(draft: AnswerDraft, row: RequestRow | undefined): string {
  const texts = [draft.message ?? ""];
  if (row?.kind === "permission" && draft.edits) {
    const fields = inputFields(row.input);
    texts.push(...draft.edits.filter((text, at) => text !== fields[at]?.text));
  }
  if (row?.kind === "question") {
    for (const { id, kind } of row.fields) if (kind === "text" || kind === "number") texts.push(str(draft.values && Object.hasOwn(draft.values, id) ? draft.values[id] : ""));
  }
  return texts.filter((text) => text.trim() !== "").join("\n");
}

export const answerDrafts = new AnswerDrafts();
