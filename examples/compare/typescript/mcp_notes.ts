// The nearest to it on the SDK of the Model Context Protocol for TypeScript: a server with one tool.
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const server = new McpServer({ name: "notes", version: "1.0.0" });
const kept = join(process.env["NOTES"]!, "notes");

async function write(path: string): Promise<string> {
  const answer = await server.server.elicitInput({
    message: `Write ${path}`,
    requestedSchema: { type: "object", properties: { approved: { type: "boolean" } }, required: ["approved"] },
  });
  if (answer.action !== "accept" || answer.content?.["approved"] !== true) return "denied";
  await writeFile(path, "written");
  return "written";
}

server.registerTool("turn", { inputSchema: { text: z.string() } }, async ({ text }, call) => {
  const said = (text: string) => ({ content: [{ type: "text" as const, text }] });
  const [verb, rest = ""] = text.split(/ (.*)/s);
  if (verb === "write") return said(await write(rest));
  if (verb === "recall") return said(await readFile(kept, "utf8"));
  if (verb === "wait") {
    const params = { progressToken: call._meta?.progressToken ?? "", progress: 0, message: "waiting" };
    await call.sendNotification({ method: "notifications/progress", params });
    await sleep(3_600_000, undefined, { signal: call.signal }); // a cancellation ends it
  }
  await appendFile(kept, `${text}\n`);
  return said("noted");
});

await server.connect(new StdioServerTransport());
