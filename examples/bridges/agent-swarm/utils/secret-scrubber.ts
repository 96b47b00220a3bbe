// Stands for the swarm's own `src/utils/secret-scrubber.ts`, of which the bridge uses `scrubSecrets`: there, this file is left out.
import { secretsOf } from "../providers/trunkline/secrets.js";

const SHAPES: readonly (readonly [string, RegExp])[] = [
  ["github_pat", /\bgithub_pat_[A-Za-z0-9_]{20,}/g],
  ["github_token", /\bgh[pousr]_[A-Za-z0-9]{20,}/g],
  ["anthropic_key", /\bsk-ant-[A-Za-z0-9_-]{20,}/g],
  ["sk_key", /\bsk-[A-Za-z0-9_-]{20,}/g],
  ["slack_token", /\bxox[baprseo]-[A-Za-z0-9-]{10,}/g],
  ["aws_access_key", /\bAKIA[0-9A-Z]{16}\b/g],
  ["jwt", /\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}/g],
];

/** Hides the values of secret variables of this process, and text that has the shape of a token. */
export function scrubSecrets(text: string): string {
  for (const [name, value] of secretsOf(process.env)) text = text.replaceAll(value, `[REDACTED:${name}]`);
  for (const [name, shape] of SHAPES) text = text.replace(shape, `[REDACTED:${name}]`);
  return text;
}
