// An agent for the drivers: it does what its input names, and takes every option that a bridge sets.
import { Failure, serve } from "@trunkline/sdk";

const HONOURED = [
  "cwd",
  "env",
  "extra_args",
  "iteration",
  "mcp_servers",
  "model",
  "resume",
  "role",
  "run_id",
  "skills",
  "system_prompt",
  "task_id",
  "temperature",
  ...(process.argv.includes("--thinks") ? ["reasoning_effort"] : []),
];
const known = new Set(["native-1"]);

const does = {
  async work(turn) {
    await turn.thinking("Let me ");
    await turn.thinking("see.");
    await turn.output("I look", undefined);
    await turn.output(" around.");
    await turn.toolStart("call-1", "Bash", { input: { command: "ls" } });
    await turn.toolUpdate("call-1", "README.md\n");
    await turn.toolEnd("call-1", "1 file");
    await turn.log("a warning of the agent", "stderr");
    await turn.progress("half of it");
    await turn.plan([{ content: "look", status: "completed" }]);
    await turn.custom("agent.own", { deep: [1] });
    await turn.usage({ output_tokens: 7 });
    await turn.contextUsage({ used_tokens: 150, total_tokens: 200 });
    await turn.compaction({ trigger: "auto", pre_tokens: 190, total_tokens: 200 });
    await turn.rateLimit({ window: "five_hour", status: "allowed" });
    await turn.error("a hiccup", "overloaded");
    await turn.output("Done.");
    const usage = { input_tokens: 1200, output_tokens: 80, cache_read_tokens: 1000, cache_write_tokens: 50, cost_usd: 0.25 };
    turn.end({
      usage,
      num_turns: 3,
      duration_ms: 1234,
      model: "large-2",
      provider: "example",
      summary: "looked around",
      session_params: { branch: 2 },
    });
  },
  async delegate(turn) {
    await turn.toolStart("call-1", "Agent");
    await turn.emit({ type: "output", content: "I help.", parent_tool_call_id: "call-1" });
    await turn.emit({ type: "message", role: "user", content: "long ago", history: true });
    await turn.toolEnd("call-1", "helped");
    await turn.output("It helped.");
  },
  options: (turn) => turn.output(JSON.stringify(turn.state)),
  async mcp(turn) {
    const { url, headers } = turn.state.mcp_servers["agent-swarm"];
    await turn.output(String((await fetch(url, { method: "POST", headers })).status));
  },
  async secrets(turn, ...pieces) {
    for (const piece of pieces) await turn.output(piece);
    await turn.log(pieces.join(""), "stderr");
    await turn.toolStart("call-1", "Bash", { input: { env: [pieces.join("")] } });
    await turn.error(pieces.join(""));
  },
  async wait(turn) {
    await turn.output("waiting");
    await new Promise((resolve) => turn.signal.addEventListener("abort", resolve));
  },
  async cancelled(turn) {
    await turn.toolStart("call-1", "Bash", { input: {} });
    await does.wait(turn);
  },
  async deaf(turn) {
    await turn.output("deaf");
    await new Promise(() => setInterval(() => {}, 1000));
  },
  async ask(turn) {
    const { approved } = await turn.permission({ tool: "Bash", description: "Remove it", resource: "rm -r target" });
    const { cancelled } = await turn.question({ prompt: "Which one?" });
    await turn.output(`${approved ? "approved" : "denied"}, ${cancelled ? "no answer" : "answered"}`);
  },
  async choose(turn) {
    const choices = [{ id: "a", label: "The first", description: "safe" }, { id: "b" }];
    const { cancelled } = await turn.question({ prompt: "Which one?", fields: [{ id: "which", kind: "choice", choices }] });
    await turn.output(cancelled ? "no answer" : "answered");
  },
  // It waits for an addition, and its end is a turn of its own in the bill.
  async steered(turn) {
    await turn.progress("ready");
    await turn.output("ready");
    for await (const steer of turn.steers()) {
      steer.accept();
      await turn.output(`, then ${steer.content}`);
      break;
    }
    await turn.usage({ input_tokens: 10 });
    turn.end({ usage: { input_tokens: 10, output_tokens: 1 }, num_turns: 1 });
  },
  // Two models, of which the provider is one that the swarm has prices for.
  bill(turn, provider) {
    const large = { input_tokens: 1000, output_tokens: 50, cache_read_tokens: 600, cache_write_tokens: 100 };
    const small = { input_tokens: 200, output_tokens: 30 };
    const usage = { ...large, input_tokens: 1200, output_tokens: 80, reasoning_tokens: 20, models: { large, small } };
    turn.end({ usage, provider });
  },
  async shorten(turn, total) {
    await turn.contextUsage({ used_tokens: 150 });
    await turn.compaction({ trigger: "manual" });
    await turn.contextUsage({ used_tokens: 170, total_tokens: Number(total) });
    await turn.compaction({});
  },
  async limited(turn, seconds) {
    const resets_at = new Date(Date.now() + 1000 * Number(seconds)).toISOString();
    await turn.rateLimit({ window: "five_hour", status: "rejected", utilization: 1, resets_at });
    throw new Failure("come back later", { category: "rate_limit" });
  },
  fail(_, category = "other") {
    throw new Failure(`it fails: ${category}`, { category });
  },
};

await serve({
  describe: () => ({
    name: "agent",
    version: "1",
    resumes: true,
    steerable: true,
    honours: HONOURED,
    capabilities: { native_session_ids: true },
    commands: [{ name: "review-pr", text: "/skill:review-pr" }],
  }),
  greet({ resume, model = "large-1", reasoning_effort: asked }) {
    const id = resume?.native_session_id;
    const effort = asked === undefined ? {} : { reasoning_effort: asked === "max" ? "high" : asked };
    if (process.argv.includes("--no-session")) return { model, ...effort };
    if (id === undefined) return { model, native_session_id: "native-1", ...effort };
    return {
      model,
      ...effort,
      native_session_id: known.has(id) ? id : "native-2",
      display_id: `talk ${id}`,
      context: known.has(id) ? "kept" : "lost",
    };
  },
  start: (_, options) => options,
  async turn(turn, { content }) {
    if (turn.state.resume?.native_session_id === "refused") does.fail(turn, "session_not_found");
    const [, ...words] = content.split(" ");
    const [name] = content.split(/\s/);
    if (does[name]) return does[name](turn, ...words);
    return turn.output(content);
  },
});
