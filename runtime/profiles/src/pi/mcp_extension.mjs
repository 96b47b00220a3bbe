// An extension of pi: the tools of a session's MCP servers, each named `mcp__SERVER__TOOL`.
//
// `TRUNKLINE_MCP_CONFIG` names a file `{"mcpServers": {NAME: SERVER}}`. A server that does not start, or that stops, is
// reported on stderr, and the conversation continues without its tools.
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

const PROTOCOL_VERSION = "2025-06-18";
const START_TIMEOUT_MS = 30_000;
const CALL_TIMEOUT_MS = 10 * 60_000;
/** Most tools of a server. */
const MAX_TOOLS = 512;
/** Longest text of a result that the model gets, in characters. */
const MAX_RESULT = 256 * 1024;
/** What a server's program gets of pi's environment, as MCP's own libraries have it: no keys of the model. */
const INHERITED = ["HOME", "LANG", "LOGNAME", "PATH", "SHELL", "TERM", "TMPDIR", "USER"];

/** Requests that wait for their answers, by id. */
class Pending {
  last = 0;
  waiting = new Map();

  add(timeoutMs, signal) {
    const id = (this.last += 1);
    const answer = new Promise((resolve, reject) => {
      const timer = setTimeout(() => this.reject(id, new Error(`no answer in ${timeoutMs / 1000} s`)), timeoutMs);
      const stop = () => this.reject(id, new Error("stopped"));
      signal?.addEventListener("abort", stop, { once: true });
      this.waiting.set(id, { resolve, reject, timer });
    });
    return { id, answer };
  }

  take(id) {
    const request = this.waiting.get(id);
    this.waiting.delete(id);
    clearTimeout(request?.timer);
    return request;
  }

  reject(id, error) {
    this.take(id)?.reject(error);
  }

  settle(message) {
    if (message.error) this.reject(message.id, new Error(message.error.message ?? "the server failed"));
    else this.take(message.id)?.resolve(message.result ?? {});
  }

  rejectAll(error) {
    for (const id of [...this.waiting.keys()]) this.reject(id, error);
  }
}

/** A server on the pipes of a program. */
function programTransport({ command, args = [], env = {} }) {
  const inherited = INHERITED.filter((name) => process.env[name] !== undefined).map((name) => [name, process.env[name]]);
  const child = spawn(command, args, { env: { ...Object.fromEntries(inherited), ...env }, stdio: ["pipe", "pipe", "inherit"] });
  const pending = new Pending();
  const send = (message) => child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  child.stdin.on("error", () => {});
  child.on("error", (error) => pending.rejectAll(error));
  child.on("exit", (code, signal) => pending.rejectAll(new Error(`the server ended: ${signal ?? `exit status ${code}`}`)));
  createInterface({ input: child.stdout }).on("line", (line) => {
    let message;
    try {
      message = JSON.parse(line);
    } catch {
      return;
    }
    if (message.method === undefined) pending.settle(message);
    else if (message.id !== undefined) {
      const answer = message.method === "ping" ? { result: {} } : { error: { code: -32601, message: "method not found" } };
      send({ id: message.id, ...answer });
    }
  });
  return {
    request(method, params, timeoutMs, signal) {
      const { id, answer } = pending.add(timeoutMs, signal);
      if (child.exitCode === null && child.signalCode === null) send({ id, method, params });
      else pending.reject(id, new Error("the server has ended"));
      signal?.addEventListener("abort", () => send({ method: "notifications/cancelled", params: { requestId: id } }), { once: true });
      return answer;
    },
    notify: async (method) => send({ method }),
    close: () => child.kill(),
  };
}

/** A server of Streamable HTTP. */
function httpTransport({ url, headers = {} }) {
  let session;
  let last = 0;
  const post = async (message, timeoutMs, signal) => {
    const limits = [AbortSignal.timeout(timeoutMs), ...(signal ? [signal] : [])];
    const response = await fetch(url, {
      method: "POST",
      headers: {
        ...headers,
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(session ? { "mcp-session-id": session, "mcp-protocol-version": PROTOCOL_VERSION } : {}),
      },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
      signal: AbortSignal.any(limits),
    });
    if (!response.ok) throw new Error(`HTTP ${response.status}`);
    session ??= response.headers.get("mcp-session-id") ?? undefined;
    return response;
  };
  return {
    async request(method, params, timeoutMs, signal) {
      const id = (last += 1);
      const response = await post({ id, method, params }, timeoutMs, signal);
      const text = await response.text();
      const isStream = response.headers.get("content-type")?.startsWith("text/event-stream");
      const events = isStream ? text.split(/\r?\n\r?\n/).map((event) => event.match(/^data: ?(.*)$/gm)?.map((line) => line.replace(/^data: ?/, "")).join("\n")) : [text];
      for (const event of events) {
        const message = event ? JSON.parse(event) : {};
        if (message.id !== id) continue;
        if (message.error) throw new Error(message.error.message ?? "the server failed");
        return message.result ?? {};
      }
      throw new Error("the server sent no answer");
    },
    notify: async (method) => void (await post({ method }, START_TIMEOUT_MS)),
    close() {},
  };
}

/** Connects to a server and lists its tools. */
async function connect(server) {
  const transport = server.type === "http" ? httpTransport(server) : programTransport(server);
  try {
    const clientInfo = { name: "trunkline", version: "1" };
    await transport.request("initialize", { protocolVersion: PROTOCOL_VERSION, capabilities: {}, clientInfo }, START_TIMEOUT_MS);
    await transport.notify("notifications/initialized");
    const tools = [];
    let cursor;
    do {
      const page = await transport.request("tools/list", cursor ? { cursor } : {}, START_TIMEOUT_MS);
      tools.push(...(page.tools ?? []));
      cursor = page.nextCursor;
    } while (cursor && tools.length < MAX_TOOLS);
    return { transport, tools: tools.slice(0, MAX_TOOLS) };
  } catch (error) {
    transport.close();
    throw error;
  }
}

/** The content of a result as pi has it: texts and pictures. */
function content(result) {
  const parts = (result.content ?? []).map((part) => {
    if (part.type === "text") return { type: "text", text: part.text.slice(0, MAX_RESULT) };
    if (part.type === "image") return { type: "image", data: part.data, mimeType: part.mimeType };
    return { type: "text", text: JSON.stringify(part).slice(0, MAX_RESULT) };
  });
  return parts.length > 0 ? parts : [{ type: "text", text: JSON.stringify(result.structuredContent ?? {}).slice(0, MAX_RESULT) }];
}

export default async function (pi) {
  const { mcpServers } = JSON.parse(readFileSync(process.env.TRUNKLINE_MCP_CONFIG, "utf8"));
  const open = [];
  pi.on("session_shutdown", () => open.forEach((transport) => transport.close()));
  const start = async ([name, server]) => {
    const { transport, tools } = await connect(server);
    open.push(transport);
    for (const tool of tools) {
      pi.registerTool({
        name: `mcp__${name}__${tool.name}`,
        label: tool.title ?? tool.name,
        description: tool.description ?? tool.name,
        parameters: tool.inputSchema ?? { type: "object", properties: {} },
        async execute(_call, params, signal) {
          const result = await transport.request("tools/call", { name: tool.name, arguments: params }, CALL_TIMEOUT_MS, signal);
          const parts = content(result);
          if (result.isError) throw new Error(parts.map((part) => part.text ?? "").join("\n"));
          return { content: parts, details: {} };
        },
      });
    }
  };
  const fail = (name) => (error) => console.error(`MCP server ${name}: ${error.message}`);
  await Promise.all(Object.entries(mcpServers).map((entry) => start(entry).catch(fail(entry[0]))));
}
