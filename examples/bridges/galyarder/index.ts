// What the server, the page and the command line of Galyarder share of the adapter.
import type { AdapterModel } from "./types.js";

export const type = "trunkline";
export const label = "trunkline (any agent that it runs)";
/** Each agent behind trunkline has its own; `listModels` of the server asks them. */
export const models: AdapterModel[] = [{ id: "default", label: "The agent's own choice" }];

export const agentConfigurationDoc = `# trunkline agent configuration

Adapter: trunkline

Use when:
- The agent is one that trunkline runs: Claude Code, Codex, Gemini CLI, any agent of the Agent Client Protocol, or a program of your own
- You need session persistence across runs, usage and cost, and one form of events for every agent
- Permissions are decided by the policy of the operator, in trunkline's configuration

Don't use when:
- A one-shot script is enough (use the "process" adapter)
- A person must be asked about permissions during a run: there is no one to ask, and what the policy does not allow is denied
- trunkline is not installed on the host

Core fields:
- cwd (string, required): absolute working directory of the agent. A session is resumed only in the directory where it began
- agent (string): the agent's id in trunkline's configuration. Absent: its default
- model (string): "default" and absent mean the agent's own choice
- promptTemplate (string): {{agentId}}, {{companyId}}, {{runId}}, {{company.…}}, {{agent.…}}, {{run.…}}, {{context.…}}
- timeoutSec (number, 0): the longest run; 0 means none. graceSec (number, 15): how long it may take to stop
- env (object): variables of the agent. The run's own GALYARDER_ variables are set, too

Further fields:
- command (string, "trunkline"), args (string[]): what is started for a run. Absent: "serve", with what a run sets of its session allowed
- folder ("session" or "process"): "process" starts the agent in cwd and tells it nothing, for one that knows no working directories
- systemPrompt, reasoningEffort, mode, permissionMode (string), maxTurnsPerRun (number), extraArgs, skills (string[]): as the agent takes them

Not taken: dangerouslySkipPermissions and dangerouslyBypassApprovalsAndSandbox fail the run. Write a policy in trunkline's configuration.
`;
