// What the server, the page and the command line of Galyarder share of the adapter.
import type { AdapterModel } from "./types.js";

export const type = "trunkline";
export const label = "trunkline (any agent that it runs)";
/** Each agent behind trunkline has its own, which `listModels` of the server reads. */
export const models: AdapterModel[] = [{ id: "default", label: "The agent's own choice" }];

export const agentConfigurationDoc = `# trunkline agent configuration

Adapter: trunkline

Use when:
- The agent is one that trunkline runs: Claude Code, Codex, Gemini CLI, any agent of the Agent Client Protocol, or a program of your own
- You need session persistence across runs, usage and cost, and one form of events for every agent
- Permissions are decided by the policy of the operator, in trunkline's configuration

Don't use when:
- A one-shot script is enough (use the "process" adapter)
- A person must decide about permissions during a run: a run has no person to ask, and what the policy does not allow is denied
- trunkline is not installed on the server's machine

Core fields:
- agent (string): the agent's id in trunkline's configuration. Absent: its default
- model (string): "default" and absent mean the agent's own choice
- cwd (string): absolute folder that takes the place of the agent's home. An issue's workspace or worktree comes before it. A session is resumed only in the folder where it began
- instructionsFilePath (string): the agent's instructions, such as an AGENTS.md
- promptTemplate (string): {{agentId}}, {{companyId}}, {{runId}}, {{company.…}}, {{agent.…}}, {{run.…}}, {{context.…}}. Left out of a run that resumes a session for new comments
- bootstrapPromptTemplate (string): the same, before the first prompt of a session only
- timeoutSec (number, 0): the longest run; 0 means none. graceSec (number, 15): the time to end after a timeout or a cancel
- env (object): variables of the agent, beside the run's own GALYARDER_ variables. Put secrets here, never into prompts

Further fields:
- command (string, "trunkline"), args (string[]): what is started for a run. Absent: "serve", with what a run sets of its session allowed
- folder ("session" or "process"): "process" starts the agent in the folder and sets none, for one that knows no working directories
- systemPrompt (string); systemPromptIn ("session" or "prompt"): "prompt" puts it and the instructions into a session's first prompt, for an agent that takes no system prompt
- reasoningEffort (also thinkingEffort, effort, modelReasoningEffort), mode, permissionMode (string), maxTurnsPerRun (number), extraArgs, skills (string[], folders): as the agent takes them. The company's skills come by themselves
- provider, biller, billingType (string): what the ledger has, if the agent reports another or none

Not taken: dangerouslySkipPermissions, dangerouslyBypassApprovalsAndSandbox and dangerouslyBypassSandbox fail the run. Write a policy in trunkline's configuration.
`;
