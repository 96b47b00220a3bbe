/** The rows of a transcript: what a session's entries become. */

import type { SyntaxState } from "./syntax.ts";
import type { Choice, Json, Obj } from "./types.ts";

interface Base {
  /** Its name in the page: the same in each fold of the entry, and never used again. */
  key: number;
  /** Grows with each change, so that a view knows when to draw again. */
  version: number;
  seq: number;
  time: string;
  turn: string;
  /** How many sub-agents it is below. */
  depth: number;
  /** It was said before, and was replayed. */
  history: boolean;
  /** It may begin before the first entry that was read, so it can change when earlier ones are read. */
  early: boolean;
}

export interface InputRow extends Base {
  kind: "input";
  text: string;
  by: string;
  messageId: string;
  steer: boolean;
  /** The SHA-256 of each file that it brings. */
  files: string[];
  /** A steer: whether it reached the turn. */
  delivered?: boolean;
  reason: string;
  state: "queued" | "running" | "ended";
}

export interface TextRow extends Base {
  kind: "text" | "thought";
  text: string;
  /** The line that opened a code block before this part began, or nothing. */
  fence: string;
  /** Syntax state of that block where this part begins. */
  before: SyntaxState | undefined;
  /** It goes on with the row before it. */
  continues: boolean;
  messageId: string;
  role: string;
  /** The stretch of entries to which its last one belongs, and where in the text a later one begins. */
  regular: number;
  due?: number;
}

export interface ToolRow extends Base {
  kind: "tool";
  call: string;
  tool: string;
  toolKind: string;
  title: string;
  input: Json | undefined;
  locations: Json | undefined;
  /** What it printed, its end where that was long. */
  printed: string;
  /** Characters of `printed` that are not kept. */
  dropped: number;
  result: string;
  diffs: Diff[];
  data: Json | undefined;
  truncated: boolean;
  state: "running" | "done" | "failed";
  durationMs: number | undefined;
}

export interface Diff {
  path: string;
  oldText?: string;
  newText?: string;
  patch?: string;
}

export interface PlanRow extends Base {
  kind: "plan";
  entries: { content: string; status: string; priority: string }[];
}

export interface Decision {
  approved?: boolean;
  cancelled: boolean;
  option: string;
  reason: string;
  by: string;
  /** The person's name, as the client of `by` gave it. */
  name?: string;
  time: string;
  values: Obj;
  /** The pattern that approves such requests from now on. */
  always?: string;
  /** The tool's input as the person changed it. */
  input?: Json;
}

export interface PermissionRow extends Base {
  kind: "permission";
  request: string;
  tool: string;
  /** The kind of the tool call that waits, if it is known. */
  toolKind: string;
  title: string;
  description: string;
  resource: string;
  input: Json | undefined;
  diffs: Diff[];
  options: (Choice & { kind: string })[];
  expires: string;
  truncated: boolean;
  decision?: Decision;
}

export interface Field {
  id: string;
  label: string;
  kind: string;
  choices: (Choice & { description: string })[];
  required: boolean;
  initial: Json | undefined;
}

export interface QuestionRow extends Base {
  kind: "question";
  request: string;
  prompt: string;
  fields: Field[];
  expires: string;
  decision?: Decision;
}

export interface FileRow extends Base {
  kind: "file";
  name: string;
  mime: string;
  size: number | undefined;
  sha256: string;
  out: boolean;
  by: string;
}

export interface EndRow extends Base {
  kind: "end";
  status: string;
  category: string;
  message: string;
  reason: string;
  summary: string;
  durationMs: number | undefined;
  /** How long the agent was silent at the begin. */
  firstMs: number | undefined;
  usage: Obj;
  model: string;
  data: Json | undefined;
  provisional: boolean;
}

export interface NoteRow extends Base {
  kind: "note";
  /** What it is, such as `stderr`, `system`, `error`, `host`. */
  label: string;
  tone: "plain" | "warning" | "error" | "mark";
  text: string;
  /** Who did it, where a party did. */
  by?: string;
  dropped: number;
  data: Json | undefined;
}

export type RequestRow = PermissionRow | QuestionRow;
export type Row =
  | InputRow
  | TextRow
  | ToolRow
  | PlanRow
  | RequestRow
  | FileRow
  | EndRow
  | NoteRow;
