// The server's part of the adapter: for `server/src/adapters/registry.ts`.
import { execute } from "./execute.js";
import { agentConfigurationDoc, models, type } from "./index.js";
import { isTrunklineUnknownSessionError, sessionCodec } from "./parse.js";
import { listModels, testEnvironment } from "./test.js";
import type { ServerAdapterModule } from "./types.js";

export { execute, isTrunklineUnknownSessionError, listModels, sessionCodec, testEnvironment };

export const trunklineAdapter: ServerAdapterModule = {
  type,
  execute,
  testEnvironment,
  sessionCodec,
  models,
  listModels: () => listModels(),
  supportsLocalAgentJwt: true, // the token reaches the agent as GALYARDER_API_KEY
  agentConfigurationDoc,
};
