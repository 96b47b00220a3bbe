// Stands for the swarm's own `src/utils/secret-scrubber.ts`: there, import that one and leave this file out.

const SENSITIVE = /(_API_KEY|_TOKEN|_SECRET|_PASSWORD|_PRIVATE_KEY)$|^API_KEY$/;
const SHORTEST = 12;
const SHAPES: readonly (readonly [string, RegExp])[] = [
  ["github_pat", /\bgithub_pat_[A-Za-z0-9_]{20,}/g],
  ["github_token", /\bgh[pousr]_[A-Za-z0-9]{20,}/g],
  ["anthropic_key", /\bsk-ant-[A-Za-z0-9_-]{20,}/g],
  ["sk_key", /\bsk-[A-Za-z0-9_-]{20,}/g],
  ["slack_token", /\bxox[baprseo]-[A-Za-z0-9-]{10,}/g],
  ["aws_access_key", /\bAKIA[0-9A-Z]{16}\b/g],
  ["jwt", /\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\.[\w-]{10,}/g],
];

/** The values of an environment that are secret by their names, the longest first. */
export function secretsOf(env: Readonly<Record<string, string | undefined>>): [string, string][] {
  const found = Object.entries(env).filter(
    (entry): entry is [string, string] => SENSITIVE.test(entry[0]) && (entry[1] ?? "").length >= SHORTEST,
  );
  return found.sort(([, one], [, other]) => other.length - one.length);
}

/** Hides the values of secret variables of this process, and what has the shape of a token. */
export function scrubSecrets(text: string): string {
  for (const [name, value] of secretsOf(process.env)) text = text.replaceAll(value, `[REDACTED:${name}]`);
  for (const [name, shape] of SHAPES) text = text.replace(shape, `[REDACTED:${name}]`);
  return text;
}
