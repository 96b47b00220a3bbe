// The server's part of the adapter, and the entry of the plugin.
import { execute } from "./execute.js";
import { agentConfigurationDoc, label, models, type } from "./index.js";
import { isTrunklineUnknownSessionError, sessionCodec } from "./parse.js";
import { getConfigSchema } from "./settings.js";
import { listSkills } from "./skills.js";
import { listModels, testEnvironment } from "./test.js";
import type { ServerAdapterModule } from "./types.js";

export { agentConfigurationDoc, label, models, type };
export { execute, getConfigSchema, isTrunklineUnknownSessionError, listModels, listSkills, sessionCodec, testEnvironment };

export const trunklineAdapter: ServerAdapterModule = {
  type,
  execute,
  testEnvironment,
  listSkills,
  syncSkills: (ctx) => listSkills(ctx),
  sessionCodec,
  models,
  listModels: () => listModels(),
  supportsLocalAgentJwt: true, // the token reaches the agent as GALYARDER_API_KEY
  agentConfigurationDoc,
  getConfigSchema,
};

/** The adapter, for a server that loads it as a plugin. */
export const createServerAdapter = (): ServerAdapterModule => trunklineAdapter;
