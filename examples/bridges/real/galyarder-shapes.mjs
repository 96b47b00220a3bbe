// Compares the shapes that the Galyarder bridge declares with those of a checkout, by the compiler.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const { GALYARDER_CHECKOUT: checkout, GALYARDER_SCRATCH: scratch } = process.env;
const bridges = new URL("..", import.meta.url).pathname;
const theirs = (path) => JSON.stringify(join(checkout, "packages/adapter-utils/src", path));
const checks = `
import type * as Theirs from ${theirs("index.ts")};
import type * as TheirUtils from ${theirs("server-utils.ts")};
import type * as Ours from ${JSON.stringify(join(bridges, "galyarder/types.ts"))};

declare function give<T>(): T;
type Without<T, U> = Exclude<keyof T, keyof U>;
// What the bridge gives to the server, and what it gets.
give<Theirs.ServerAdapterModule["type"]>() satisfies Ours.ServerAdapterModule["type"];
export const adapter: Theirs.ServerAdapterModule = give<Ours.ServerAdapterModule>();
export const result: Theirs.AdapterExecutionResult = give<Ours.AdapterExecutionResult>();
export const skills: Theirs.AdapterSkillSnapshot = give<Ours.AdapterSkillSnapshot>();
export const schema: Theirs.AdapterConfigSchema = give<Ours.AdapterConfigSchema>();
export const tested: Theirs.AdapterEnvironmentTestResult = give<Ours.AdapterEnvironmentTestResult>();
export const transcript: Theirs.TranscriptEntry = give<Ours.TranscriptEntry>();
export const command: Theirs.CLIAdapterModule = give<Ours.CLIAdapterModule>();
export const context: Ours.AdapterExecutionContext = give<Theirs.AdapterExecutionContext>();
export const form: Ours.CreateConfigValues = give<Theirs.CreateConfigValues>();
export const utils: Ours.ServerUtils = give<typeof TheirUtils>();
export const billing: Ours.AdapterBillingType = give<Theirs.AdapterBillingType>();
// Members that the bridge leaves out by intent. A new one fails here.
type Equal<T, U> = [T, U] extends [U, T] ? true : { has: T; expected: U };
export const members: [
  Equal<Without<Theirs.AdapterExecutionContext, Ours.AdapterExecutionContext>, never>,
  Equal<Without<Theirs.AdapterRuntime, Ours.AdapterRuntime>, never>,
  Equal<Without<Theirs.AdapterExecutionResult, Ours.AdapterExecutionResult>, "runtimeServices">,
  Equal<Without<Theirs.ServerAdapterModule, Ours.ServerAdapterModule>, "sessionManagement" | "onHireApproved" | "getQuotaWindows" | "detectModel">,
  Equal<Without<Theirs.AdapterInvocationMeta, Ours.AdapterInvocationMeta>, never>,
  Equal<Exclude<Theirs.TranscriptEntry["kind"], Ours.TranscriptEntry["kind"]>, "diff">,
] = [true, true, true, true, true, true];
`;

function fail(why) {
  console.error(`failed: ${why}`);
  process.exit(1);
}

const file = join(scratch, "shapes.ts");
writeFileSync(file, checks);
writeFileSync(join(scratch, "package.json"), JSON.stringify({ type: "module" }));
const options = "--noEmit --strict --skipLibCheck --target ES2022 --module ESNext --moduleResolution bundler --allowImportingTsExtensions";
const roots = ["--types", "node", "--typeRoots", join(bridges, "node_modules/@types")];
const tsc = join(bridges, "node_modules/.bin/tsc");
const { status, stdout } = spawnSync(tsc, [...options.split(" "), ...roots, file], { encoding: "utf8" });
if (status !== 0) fail(`shapes of ${checkout}:\n${stdout}`);

// The page's module needs React's types, so its members are read from the text.
const page = readFileSync(join(checkout, "ui/src/adapters/types.ts"), "utf8");
const members = /interface UIAdapterModule[^{]*{([^}]*)}/.exec(page)?.[1].match(/(?<=^\s*)\w+(?=\??:)/gm);
if (String(members) !== "type,label,ConfigFields,buildAdapterConfig") fail(`members of UIAdapterModule: ${members}`);
if (!existsSync(join(checkout, "ui/src/adapters/schema-config-fields.tsx"))) fail("SchemaConfigFields of the page not found");
console.log("ok: shapes");
