// Galyarder as far as an adapter meets it: a registry, a run for each wake, the session kept by its codec between them.
import { mkdtempSync, realpathSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseStdoutLine } from "../galyarder/dist/ui-parser.js";
import { plugin } from "./galyarder-plugin.mjs";
import { AGENT, serving } from "./programs.mjs";

export const scratch = realpathSync(mkdtempSync(join(tmpdir(), "bridge-galyarder-")));
export const adapter = plugin.createServerAdapter();
export const ADA = { id: "agent-9", companyId: "company-1", name: "Ada", adapterType: "trunkline", adapterConfig: {} };
process.env.GALYARDER_API_URL = "http://127.0.0.1:3100"; // the server's own
let runs = 0;
export const TOKEN = "jwt-of-this-run-0123456789";

/** Wakes an agent. `stored` is what the database has of the last run, and gets what it is to have of this one. */
export async function wake(config, { stored = {}, context = {}, runId = `run-${++runs}`, onLog, ...more } = {}) {
  const logs = { stdout: [], stderr: [] };
  const [metas, order] = [[], []];
  const params = adapter.sessionCodec.deserialize(JSON.parse(stored.params ?? "null"));
  const runtime = {
    sessionId: null,
    sessionParams: params,
    sessionDisplayId: stored.displayId ?? null,
    taskKey: "task",
    ...stored.legacy,
  };
  const result = await adapter.execute({
    runId,
    agent: ADA,
    runtime,
    config: { cwd: scratch, args: serving(AGENT), promptTemplate: "{{context.input}}", ...config },
    context,
    onLog: onLog ?? (async (stream, chunk) => void (logs[stream].push(chunk), order.push(chunk))),
    onMeta: async (meta) => void metas.push({ ...meta, before: logs.stdout.length === 0 }),
    ...more,
  });
  stored.params = JSON.stringify(adapter.sessionCodec.serialize(result.sessionParams));
  stored.displayId = adapter.sessionCodec.getDisplayId(result.sessionParams);
  const transcript = logs.stdout
    .flatMap((chunk) => chunk.trim().split("\n"))
    .flatMap((line) => parseStdoutLine(line, "now"));
  const answer = transcript
    .filter(({ kind }) => kind === "assistant")
    .map(({ text }) => text)
    .join("");
  return { result, metas, transcript, answer, stderr: logs.stderr.join(""), order };
}
export const prompted = (text, more = {}) => ({ context: { input: text }, ...more });
