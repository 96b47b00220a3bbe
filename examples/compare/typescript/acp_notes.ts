// The same on the SDK of the Agent Client Protocol for TypeScript.
import { randomUUID } from "node:crypto";
import { existsSync } from "node:fs";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { Readable, Writable } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import * as acp from "@agentclientprotocol/sdk";

const stdin = Readable.toWeb(process.stdin) as ReadableStream<Uint8Array>;
const running = new Map<string, AbortController>();
const keptOf = (session: string): string => join(process.env["NOTES"]!, basename(session));

async function say(client: acp.AgentContext, sessionId: string, text: string): Promise<void> {
  const update = { sessionUpdate: "agent_message_chunk" as const, content: { type: "text" as const, text } };
  await client.notify(acp.methods.client.session.update, { sessionId, update });
}

async function write(client: acp.AgentContext, sessionId: string, path: string): Promise<void> {
  const toolCall = { toolCallId: randomUUID(), title: `Write ${path}` };
  await client.notify(acp.methods.client.session.update, {
    sessionId,
    update: { sessionUpdate: "tool_call", ...toolCall, kind: "edit", status: "pending", rawInput: { path } },
  });
  const ask = acp.methods.client.session.requestPermission;
  const { outcome } = await client.request<acp.RequestPermissionResponse>(ask, {
    sessionId,
    toolCall,
    options: [
      { optionId: "yes", name: "Allow", kind: "allow_once" },
      { optionId: "no", name: "Deny", kind: "reject_once" },
    ],
  });
  const approved = outcome.outcome === "selected" && outcome.optionId === "yes";
  if (approved) await writeFile(path, "written");
  const status = approved ? "completed" : "failed";
  await client.notify(acp.methods.client.session.update, {
    sessionId,
    update: { sessionUpdate: "tool_call_update", toolCallId: toolCall.toolCallId, status },
  });
}

async function turn(client: acp.AgentContext, session: string, text: string, signal: AbortSignal): Promise<void> {
  const [verb, rest = ""] = text.split(/ (.*)/s);
  if (verb === "write") return write(client, session, rest);
  if (verb === "recall") return say(client, session, await readFile(keptOf(session), "utf8"));
  if (verb === "wait") {
    await say(client, session, "waiting");
    return sleep(3_600_000, undefined, { signal });
  }
  await appendFile(keptOf(session), `${text}\n`);
  return say(client, session, "noted");
}

acp
  .agent({ name: "notes" })
  .onRequest(acp.methods.agent.initialize, () => ({
    protocolVersion: acp.PROTOCOL_VERSION,
    agentInfo: { name: "notes", version: "1.0.0" },
    agentCapabilities: { sessionCapabilities: { resume: {} } },
  }))
  .onRequest(acp.methods.agent.session.new, () => ({ sessionId: randomUUID() }))
  .onRequest(acp.methods.agent.session.resume, ({ params }) => {
    if (!existsSync(keptOf(params.sessionId))) throw acp.RequestError.resourceNotFound(params.sessionId);
    return {};
  })
  .onRequest(acp.methods.agent.session.prompt, async ({ params, client }) => {
    const text = params.prompt.map((block) => (block.type === "text" ? block.text : "")).join("");
    const stop = new AbortController();
    running.set(params.sessionId, stop);
    try {
      await turn(client, params.sessionId, text, stop.signal);
    } catch (error) {
      if (!stop.signal.aborted) throw error;
    } finally {
      running.delete(params.sessionId);
    }
    return { stopReason: stop.signal.aborted ? "cancelled" : "end_turn" };
  })
  .onNotification(acp.methods.agent.session.cancel, ({ params }) => running.get(params.sessionId)?.abort())
  .connect(acp.ndJsonStream(Writable.toWeb(process.stdout), stdin));
