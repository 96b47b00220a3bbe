// The secrets of a task: its environment may hold values that the worker's own environment lacks.

const SENSITIVE = /(_KEY|_TOKEN|_SECRET|_PASSWORD|_OAUTH|_BASE64|_HEADERS)$|^API_KEY$/;
const SHORTEST_SECRET = 12; // characters: shorter values stand in ordinary text, too

/** The values of an environment that are secret by their names, the longest first. */
export function secretsOf(env: Readonly<Record<string, string | undefined>>): [string, string][] {
  const secrets = Object.entries(env).filter(
    (entry): entry is [string, string] => SENSITIVE.test(entry[0]) && (entry[1] ?? "").length >= SHORTEST_SECRET,
  );
  return secrets.sort(([, one], [, other]) => other.length - one.length);
}
