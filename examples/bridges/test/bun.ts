// A worker in Bun, which runs the bridge from its source.
import { TrunklineAdapter } from "../agent-swarm/providers/trunkline/adapter.ts";

const [args, config] = process.argv.slice(2).map((argument) => JSON.parse(argument));
const session = await new TrunklineAdapter({ args }).createSession(config);
const types: string[] = [];
session.onEvent(({ type }) => types.push(type));
const result = await session.waitForCompletion();
await session.abort();
console.log(JSON.stringify({ result, types }));
