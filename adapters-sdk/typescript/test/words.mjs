// The adapter of the client's tests: it says each word of an input and each file that comes with it, asks, and tells where it runs.
import { readFileSync } from "node:fs";
import { serve } from "@trunkline/sdk";

const does = {
  async ask(turn) {
    const { approved } = await turn.permission({ tool: "Bash", description: "d", resource: "r" });
    await turn.output(String(approved));
  },
  async edit(turn) {
    const { approved, updatedInput } = await turn.permission({ tool: "Bash", description: "d", resource: "r", input: { command: "a" } });
    await turn.output(JSON.stringify([approved, updatedInput ?? null]));
  },
  async withdrawn(turn) {
    await turn.permission({ tool: "Bash", description: "d", resource: "r" }, { signal: AbortSignal.timeout(300) });
    await turn.output("withdrawn");
  },
  async two(turn) {
    await turn.emit({ type: "output", content: "a", message_id: "1" });
    await turn.emit({ type: "output", content: "b", message_id: "1" });
    await turn.emit({ type: "output", content: "c", message_id: "2" });
  },
  async question(turn) {
    const { cancelled, values } = await turn.question({ prompt: "Which?" });
    await turn.output(cancelled ? "cancelled" : JSON.stringify(values));
  },
  async steers(turn) {
    await turn.output("ready ");
    for await (const steer of turn.steers()) return turn.output(steer.accept());
  },
  async long(turn) {
    await turn.output("begun");
    await new Promise((resolve) => turn.signal.addEventListener("abort", resolve));
  },
  file: (turn) => turn.newFile("made.txt", "made by the agent"),
  cwd: (turn) => turn.output(process.cwd()),
};

await serve(
  async (turn, { content, files }) => {
    for (const { file_name, file_path } of files) await turn.output(`${file_name}: ${readFileSync(file_path)}, `);
    if (Object.hasOwn(does, content)) return void (await does[content](turn));
    for (const word of content.split(" ")) await turn.output(word + " ");
  },
  { steerable: true, takesUpdatedInput: true },
);
