/** Completes what is written in the input: the agent's commands behind `/`, and paths behind `@`. */

import type { Row } from "./rows.ts";
import { visible } from "./safe.ts";
import { list, obj, str } from "./types.ts";

/** A command that the agent understands in its input. */
export interface SlashCommand {
  name: string;
  description: string;
  /** What may follow it. */
  hint: string;
  /** What to send, if it is not the name behind a slash. */
  text: string;
}

export interface Completion {
  label: string;
  detail: string;
  insert: string;
}

export interface Completions {
  /** The part of the text that a completion replaces. */
  from: number;
  to: number;
  kind: "command" | "file";
  options: Completion[];
}

const MAX_COMMANDS = 500;
const MAX_PATHS = 1000;
const MAX_OPTIONS = 40;
/** The longest name, path and text that is offered. */
const MAX_LENGTH = 500;

export function readCommands(value: unknown): SlashCommand[] {
  return list(value).slice(0, MAX_COMMANDS).map(obj)
    .map((it) => ({ name: str(it.name).replace(/^\//, ""), description: str(it.description), hint: str(it.hint), text: str(it.text) }))
    .filter((it) => it.name !== "" && it.name.length <= MAX_LENGTH && it.text.length <= MAX_LENGTH && !/\s/.test(it.name));
}

/** The paths that the rows name, the latest first: of tool calls, their changes, and files. */
export function seenPaths(rows: Row[]): string[] {
  const found = new Set<string>();
  const add = (path: string): void => {
    if (path !== "" && path.length <= MAX_LENGTH && !/\s/.test(path) && visible(path) === path) found.add(path);
  };
  for (let at = rows.length - 1; at >= 0 && found.size < MAX_PATHS; at -= 1) {
    const row = rows[at];
    if (row?.kind === "tool") {
      for (const diff of row.diffs) add(diff.path);
      for (const location of list(row.locations)) add(str(location) || str(obj(location).path));
      const input = obj(row.input);
      add(str(input.path) || str(input.file_path));
    } else if (row?.kind === "permission") for (const diff of row.diffs) add(diff.path);
  }
  return [...found];
}

/** Returns what completes the word at the cursor; nothing if no such word is there or nothing fits. */
export function complete(text: string, cursor: number, commands: SlashCommand[], paths: () => string[]): Completions | undefined {
  const before = text.slice(0, cursor);
  const slash = /^\/(\S*)$/.exec(before);
  const at = /(?:^|\s)@(\S*)$/.exec(before);
  if (slash && commands.length > 0) {
    const options = ranked(commands, slash[1] ?? "", (command) => command.name).map((command) => ({
      label: `/${command.name}`,
      detail: [command.hint, command.description].filter((part) => part !== "").join(" · "),
      insert: `${visible(command.text) || `/${command.name}`} `,
    }));
    return options.length > 0 ? { from: 0, to: cursor, kind: "command", options } : undefined;
  }
  if (!at) return undefined;
  const word = at[1] ?? "";
  const options = ranked(paths(), word, (path) => path).map((path) => ({ label: path, detail: "", insert: `@${path} ` }));
  return options.length > 0 ? { from: cursor - word.length - 1, to: cursor, kind: "file", options } : undefined;
}

/** Those that begin with a word, then those whose last part does, then those that have it. */
function ranked<T>(all: T[], word: string, name: (each: T) => string): T[] {
  const small = word.toLowerCase();
  const rank = (each: T): number => {
    const text = name(each).toLowerCase();
    if (text.startsWith(small)) return 0;
    if ((text.split("/").pop() ?? "").startsWith(small)) return 1;
    return text.includes(small) ? 2 : 3;
  };
  const found = all.map((each) => ({ each, rank: rank(each) })).filter((it) => it.rank < 3);
  return found.sort((a, b) => a.rank - b.rank).slice(0, MAX_OPTIONS).map((it) => it.each);
}
