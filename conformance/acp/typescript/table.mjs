// Prints what both sides of trunkline do with the stable schema of ACP: each method, member and value, by the agent
// (`trunkline acp`) and by the client (the profile `acp`). Ends with 1 for a gap without a reason in ../gaps.json, for a
// reason without a gap, and for a test that does not exist.
//
//     node table.mjs RECORD...   lines of {"from": "client" | "agent", "line": "…"}, as validate.mjs reads them
//
// Evidence of the agent: what it sends is in the records; what it reads is in the records, and named by its sources.
// Evidence of the client: its sources name it. Evidence of both: a test that ../gaps.json names.
import { readFileSync, readdirSync } from "node:fs";

const here = new URL("../../../", import.meta.url);
const file = (path) => readFileSync(new URL(path, import.meta.url), "utf8");
const defs = JSON.parse(file("./node_modules/@agentclientprotocol/sdk/schema/v1/schema.json")).$defs;
const gaps = JSON.parse(file("../gaps.json"));

/** The strings that sources name, without their tests: files, and all in a folder. */
function sources(folder, ...files) {
  const names = new Set();
  const entries = readdirSync(new URL(folder, here), { recursive: true });
  const rust = entries.filter((entry) => entry.endsWith(".rs") && !entry.includes("tests"));
  for (const path of [...files, ...rust.map((entry) => folder + entry)]) {
    const text = readFileSync(new URL(path, here), "utf8").split(/^#\[cfg\(test\)\]/m)[0];
    const code = text.replaceAll(/^\s*\/\/.*$/gm, "");
    for (const [, name] of code.matchAll(/"([\w$/]+)"/g)) names.add(name);
  }
  return names;
}

/** The names of the tests in the sources and tests of a crate. */
function tests(crate) {
  const found = new Set();
  for (const folder of [`${crate}src/`, `${crate}tests/`]) {
    for (const entry of readdirSync(new URL(folder, here), { recursive: true })) {
      if (!entry.endsWith(".rs")) continue;
      const text = readFileSync(new URL(folder + entry, here), "utf8");
      for (const [, name] of text.matchAll(/test\b[^\n]*\]\s*(?:async )?fn (\w+)/g)) found.add(name);
    }
  }
  return found;
}

const isWrapper = (name) => /^(Agent|Client)(Request|Response|Notification)$|^Ext/.test(name);
const enumerated = (schema) => [...(schema.enum ?? []), ...("const" in schema ? [schema.const] : [])];
const variants = (schema) => [...(schema.oneOf ?? []), ...(schema.anyOf ?? [])];

/** Each item of the schema, by its name. */
const items = new Set();
function declare(name, schema) {
  for (const [member, of] of Object.entries(schema.properties ?? {})) {
    const values = enumerated(of).filter((value) => typeof value === "string");
    for (const value of values) items.add(`${name}=${value}`);
    if (values.length === 0 && member !== "_meta") items.add(`${name}.${member}`);
  }
  for (const value of enumerated(schema)) if (typeof value === "string") items.add(`${name}=${value}`);
  for (const part of [...variants(schema), ...(schema.allOf ?? [])]) declare(name, part);
}
for (const [name, schema] of Object.entries(defs)) {
  if (isWrapper(name)) continue;
  if (schema["x-method"]) items.add(schema["x-method"]);
  declare(name, schema);
}

/** Notes each item that a recorded value has. */
function walk(name, schema, value, seen) {
  if (value === undefined || value === null) return;
  if (schema.$ref) {
    const next = schema.$ref.split("/").pop();
    return walk(next, defs[next], value, seen);
  }
  for (const one of enumerated(schema)) if (one === value) seen.add(`${name}=${one}`);
  for (const [member, of] of Object.entries(schema.properties ?? {})) {
    if (value[member] === undefined || value[member] === null) continue;
    for (const one of enumerated(of)) if (one === value[member]) seen.add(`${name}=${one}`);
    seen.add(`${name}.${member}`);
    walk(name, of, value[member], seen);
  }
  if (schema.items && Array.isArray(value)) for (const one of value) walk(name, schema.items, one, seen);
  if (schema.additionalProperties?.$ref) {
    for (const one of Object.values(value)) walk(name, schema.additionalProperties, one, seen);
  }
  for (const part of schema.allOf ?? []) walk(name, part, value, seen);
  for (const part of variants(schema)) if (fits(part, value)) walk(name, part, value, seen);
}

/** Whether a value can be of a variant: its constants and its required members are there. */
function fits(schema, value) {
  if (schema.$ref) return fits(defs[schema.$ref.split("/").pop()], value);
  if (schema.type === "null") return value === null;
  if (typeof value !== "object") return true;
  const constants = Object.entries(schema.properties ?? {}).filter(([, of]) => "const" in of);
  return constants.every(([member, of]) => value[member] === of.const)
    && (schema.required ?? []).every((member) => value[member] !== undefined)
    && (schema.allOf ?? []).every((part) => fits(part, value));
}

const bodies = new Map(); // "initialize Request" → the name of its definition
for (const [name, schema] of Object.entries(defs)) {
  const kind = /(Request|Response|Notification)$/.exec(name)?.[1];
  if (schema["x-method"] && kind) bodies.set(`${schema["x-method"]} ${kind}`, name);
}
const seen = { client: new Set(), agent: new Set() };
for (const record of process.argv.slice(2)) {
  const asked = new Map();
  for (const entry of readFileSync(record, "utf8").trim().split("\n")) {
    const { run, from, line } = JSON.parse(entry);
    const { id, method, params, result, error } = JSON.parse(line);
    if (method !== undefined) {
      const kind = id === undefined ? "Notification" : "Request";
      if (kind === "Request") asked.set(`${run} ${from} ${id}`, method);
      seen[from].add(method);
      const name = bodies.get(`${method} ${kind}`);
      walk(name, defs[name], params ?? {}, seen[from]);
    } else if (error !== undefined) {
      walk("Error", defs.Error, error, seen[from]);
    } else {
      const other = from === "client" ? "agent" : "client";
      const name = bodies.get(`${asked.get(`${run} ${other} ${id}`)} Response`);
      walk(name, defs[name], result, seen[from]);
    }
  }
}

const names = {
  agent: sources("runtime/acp/src/"),
  client: sources("runtime/profiles/src/acp/", "runtime/profiles/src/acp.rs", "runtime/profiles/src/agent/end.rs", "runtime/profiles/src/agent/elicitation.rs", "runtime/profiles/src/agent/rpc.rs"),
};
// The client takes these from the protocol, which has the same words.
for (const kind of ["PermissionOptionKind", "PlanEntryStatus", "ToolCallStatus"]) {
  for (const { const: word } of defs[kind].oneOf ?? defs[kind].anyOf) names.client.add(word);
}
const wire = (item) => item.split(/[.=]/).pop();
const has = {
  agent: (item) => seen.agent.has(item) || (seen.client.has(item) && names.agent.has(wire(item))),
  client: (item) => names.client.has(wire(item)),
};
const pattern = (glob) => new RegExp(`^${glob.replaceAll(/[.$]/g, "\\$&").replaceAll("*", ".*")}$`);
const tested = { agent: tests("runtime/acp/"), client: tests("runtime/profiles/") };
const problems = [];
const reasons = gaps.flatMap(({ items: globs, why, test, side: only }) => {
  const sides = only ? [only] : ["agent", "client"];
  for (const side of sides) if (test && !tested[side].has(test)) problems.push(`there is no test ${test} of the ${side}`);
  return globs.flatMap((glob) => sides.map((side) => ({ side, glob, why, test, used: 0 })));
});
const rows = [];
const counts = { agent: 0, client: 0 };
for (const item of [...items].sort()) {
  const cells = ["agent", "client"].map((side) => {
    if (has[side](item)) {
      counts[side] += 1;
      return "yes";
    }
    const reason = reasons.find((one) => one.side === side && pattern(one.glob).test(item));
    if (reason === undefined) {
      problems.push(`${item}: the ${side} does not have it, and gaps.json has no reason`);
      return "GAP";
    }
    reason.used += 1;
    if (reason.why) return `no: ${reason.why}`;
    counts[side] += 1;
    return `yes: ${reason.test}`;
  });
  rows.push([item, ...cells]);
}
for (const { side, glob, used } of reasons) {
  if (used === 0) problems.push(`${glob}: gaps.json has a reason for the ${side}, and there is no such gap`);
}
const width = Math.max(...rows.map(([item]) => item.length));
console.log(`${"ACP".padEnd(width)}  agent | client`);
for (const [item, agent, client] of rows) console.log(`${item.padEnd(width)}  ${agent} | ${client}`);
console.log(`${rows.length} items: the agent has ${counts.agent}, the client ${counts.client}`);
if (problems.length > 0) {
  console.error(problems.join("\n"));
  process.exit(1);
}
