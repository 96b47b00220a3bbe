// The adapter of the client's tests: it says each word of an input, asks, and tells where it runs.
import { serve } from "@trunkline/sdk";

await serve(async (turn, { content }) => {
  if (content === "ask") {
    const { approved } = await turn.permission({ tool: "Bash", description: "d", resource: "r" });
    return turn.output(String(approved));
  }
  if (content === "cwd") return turn.output(process.cwd());
  for (const word of content.split(" ")) await turn.output(word + " ");
});
