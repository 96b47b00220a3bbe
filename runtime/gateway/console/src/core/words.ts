/** Says in our words what a permission is about: an agent's own title may say anything, or only a path. */

import type { PermissionRow } from "./rows.ts";
import { obj, str } from "./types.ts";

/** Verbs by the kind of a tool, as the protocol names kinds, and by words of a tool's name. */
const VERBS: [string, RegExp][] = [
  ["Run", /^(execute|bash|sh|shell|exec|run|terminal|command)|(shell|bash|command|terminal)$/],
  ["Delete", /^(delete|remove|unlink)/],
  ["Move", /^(move|rename)/],
  ["Fetch", /^(fetch|http|web_?fetch|browse|download)|(_|-)fetch$/],
  ["Search", /^(search|grep|glob|find|web_?search)|(_|-)search$/],
  ["Write", /^(write|create|save)/],
  ["Edit", /^(edit|multi_?edit|notebook_?edit|apply_?patch|patch|replace|str_replace|update)/],
  ["Read", /^(read|view|cat|open|ls|list)/],
];

/** Members of an input that name what a tool acts on. */
const OBJECTS = ["command", "cmd", "file_path", "path", "notebook_path", "filename", "url", "uri", "pattern", "query"];
/** The longest object of a headline. */
const MAX_OBJECT = 120;

/** Categories of errors, as the protocol names them, in words. */
const CATEGORIES: { [category: string]: string } = {
  timeout: "timed out", context_exhausted: "context full", max_turns: "turn limit", auth: "not signed in", billing: "payment due",
  host_restart: "daemon restarted", process_exit: "process ended", protocol: "protocol error", oversize: "too long", busy: "queue full", other: "error",
};

/** The words for a category or a reason; those that are not known keep their own. */
export const categoryText = (category: string): string => (Object.hasOwn(CATEGORIES, category) ? CATEGORIES[category] ?? "" : category.replace(/_/g, " "));

export interface PermissionWords {
  /** A word of ours; `Use` of a tool that is not known. */
  verb: string;
  /** What it acts on: its first line, cut if it is long. */
  object: string;
  /** Whether `object` is all of what it acts on. */
  whole: boolean;
  /** All of what it acts on, as far as it is known. */
  full: string;
  /** The agent's own headline and text, empty if they only repeat what is said already. */
  title: string;
  description: string;
}

/** Returns the verb for a tool, or nothing if it is not known. */
export function toolVerb(tool: string, kind: string): string {
  // The name says more than the kind: a file is written or changed by tools of one kind.
  for (const name of [tool, kind]) {
    const word = name.trim().replace(/([a-z])([A-Z])/g, "$1_$2").toLowerCase();
    const found = VERBS.find(([, pattern]) => pattern.test(word));
    if (found) return found[0];
  }
  return "";
}

export function permissionWords(row: PermissionRow): PermissionWords {
  const verb = toolVerb(row.tool, row.toolKind);
  const input = obj(row.input);
  const named = OBJECTS.map((name) => (Object.hasOwn(input, name) ? str(input[name]) : "")).find((value) => value !== "") ?? "";
  const full = (row.resource || (verb === "" ? "" : named)).trim();
  const line = full.split("\n", 1)[0] ?? "";
  const object = verb === "" ? row.tool : line.length > MAX_OBJECT ? `${line.slice(0, MAX_OBJECT)}…` : line;
  const whole = verb !== "" && object === full;
  const known = [full, row.tool, named];
  const title = known.includes(row.title.trim()) ? "" : row.title;
  const description = [...known, title].includes(row.description.trim()) ? "" : row.description;
  return { verb: verb === "" ? "Use" : verb, object: object === "" ? row.tool : object, whole, full, title, description };
}

/** The headline as plain text. */
export const permissionText = (row: PermissionRow): string => {
  const { verb, object } = permissionWords(row);
  return `${verb} ${object}`;
};

/** The longest text of a request among others. */
const MAX_BEYOND = 8000;

/** What a headline leaves out of what a request acts on; of a tool that is not known, its input. */
export function beyondHeadline(row: PermissionRow): string {
  const { whole, full } = permissionWords(row);
  if (whole) return "";
  const text = full !== "" ? full : row.input === undefined || row.input === null ? "" : JSON.stringify(row.input);
  return text.length > MAX_BEYOND ? `${text.slice(0, MAX_BEYOND)}… and ${text.length - MAX_BEYOND} more characters` : text;
}
