// The command line's part of the adapter: for `cli/src/adapters/registry.ts`. Prints a run as it goes.
import { type } from "./index.js";
import type { CLIAdapterModule, TranscriptEntry } from "./types.js";
import { parseStdoutLine } from "./ui-parser.js";

const COLOURS = { red: 31, green: 32, yellow: 33, blue: 34, cyan: 36, gray: 90 };
type Colour = keyof typeof COLOURS;

let isInText = false; // pieces of one answer go on one line

/** Prints a line of a run's stdout: system in blue, the agent in green, tools in yellow; with `debug` unknown lines in gray. */
export function formatStdoutEvent(raw: string, debug: boolean): void {
  for (const entry of parseStdoutLine(raw.trim(), "")) print(entry, debug);
}

function print(entry: TranscriptEntry, debug: boolean): void {
  switch (entry.kind) {
    case "assistant":
      return piece("green", entry.text);
    case "thinking":
      return debug ? piece("gray", entry.text) : undefined;
    case "init":
      return line("blue", `session ${entry.sessionId || "?"} model ${entry.model || "?"}`);
    case "user":
      return line("cyan", `> ${entry.text}`);
    case "tool_call":
      return line("yellow", `tool ${entry.name} ${JSON.stringify(entry.input)}`);
    case "tool_result":
      return line(entry.isError ? "red" : "yellow", `tool ${entry.isError ? "failed" : "done"} ${entry.content}`);
    case "result": {
      const sum = `tokens in ${entry.inputTokens}, out ${entry.outputTokens}, cached ${entry.cachedTokens}, $${entry.costUsd.toFixed(4)}`;
      return line(entry.isError ? "red" : "blue", [`${entry.subtype}: ${sum}`, ...entry.errors].join("\n"));
    }
    case "system":
      return line("blue", entry.text);
    case "stderr":
      return line("red", entry.text);
    case "stdout":
      return debug ? line("gray", entry.text) : undefined;
  }
}

function piece(colour: Colour, text: string): void {
  process.stdout.write(paint(colour, text));
  isInText = !text.endsWith("\n");
}

function line(colour: Colour, text: string): void {
  process.stdout.write(`${isInText ? "\n" : ""}${paint(colour, text)}\n`);
  isInText = false;
}

// Text of an agent does not control the terminal: of its control characters line ends and tabs stay.
function paint(colour: Colour, text: string): string {
  const plain = text.replace(/\r\n/g, "\n").replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/g, "");
  const { NO_COLOR, FORCE_COLOR } = process.env;
  return NO_COLOR || !(FORCE_COLOR || process.stdout.isTTY) ? plain : `\u001b[${COLOURS[colour]}m${plain}\u001b[39m`;
}

export const trunklineCLIAdapter: CLIAdapterModule = { type, formatStdoutEvent };
