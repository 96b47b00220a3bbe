// An adapter with tools, permission, stop and resume, on the package for TypeScript.
import { randomUUID } from "node:crypto";
import { appendFile, readFile, writeFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { basename, join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { serve, type Adapter, type Turn } from "@trunkline/sdk";

async function write(turn: Turn<string>, path: string): Promise<void> {
  const call = randomUUID();
  await turn.toolStart(call, "write", { input: { path } });
  const { approved } = await turn.permission({ tool: "write", description: `Write ${path}`, resource: path });
  if (approved) await writeFile(path, "written");
  await turn.toolEnd(call, approved ? "written" : "denied", { is_error: !approved });
}

const notes: Adapter<string> = {
  describe: () => ({ name: "notes", version: "1.0.0", resumes: true }),
  start(session) {
    const name = basename(session.resume?.native_session_id ?? randomUUID());
    const kept = join(process.env["NOTES"]!, name);
    session.info({ native_session_id: name, context: existsSync(kept) ? "kept" : "lost" });
    return kept;
  },
  async turn(turn, { content }) {
    const kept = turn.session.state;
    const [verb, rest = ""] = content.split(/ (.*)/s);
    if (verb === "write") return write(turn, rest);
    if (verb === "recall") return turn.output(await readFile(kept, "utf8"));
    if (verb === "wait") {
      await turn.output("waiting");
      return sleep(3_600_000, undefined, { signal: turn.signal }); // a stop ends it
    }
    await appendFile(kept, `${content}\n`);
    return turn.output("noted");
  },
};

await serve(notes);
