// The secrets of a task: its environment may hold values that the worker's own environment lacks.

const SENSITIVE = /(_KEY|_TOKEN|_SECRET|_PASSWORD|_OAUTH|_BASE64|_HEADERS)$|^API_KEY$/;
const SHORTEST_SECRET = 12; // characters: shorter values occur in ordinary text

/** The values of an environment that are secret by their names, the longest first. */
export function secretsOf(env: Readonly<Record<string, string | undefined>>): [string, string][] {
  const named = Object.entries(env).filter(([name]) => SENSITIVE.test(name));
  return longEnough(named).sort(([, one], [, other]) => other.length - one.length);
}

/** The values that are too long to occur in ordinary text by chance. */
export function longEnough(values: readonly [string, string | undefined][]): [string, string][] {
  return values.filter((entry): entry is [string, string] => (entry[1] ?? "").length >= SHORTEST_SECRET);
}
