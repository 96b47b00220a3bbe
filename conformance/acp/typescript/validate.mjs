// Holds every line of recorded conversations against the official JSON Schema of ACP, and ends with 1 where one differs.
//
//     node validate.mjs RECORD...   lines of {"from": "client" | "agent", "line": "…"}, and `run` where there are many
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import Ajv from "ajv/dist/2020.js";
import formats from "ajv-formats";

const schema = JSON.parse(
  readFileSync(new URL("./node_modules/@agentclientprotocol/sdk/schema/v1/schema.json", import.meta.url)),
);
const ajv = new Ajv.default({ strict: false, validateFormats: false });
formats.default(ajv);
ajv.addSchema({ ...schema, $id: "acp" });

const of = new Map(); // "initialize Request" → its definition
for (const [name, definition] of Object.entries(schema.$defs)) {
  const kind = /(Request|Response|Notification)$/.exec(name)?.[1];
  if (definition["x-method"] && kind) of.set(`${definition["x-method"]} ${kind}`, `acp#/$defs/${name}`);
}

let lines = 0;
const kinds = new Set();
const wrong = [];
for (const record of process.argv.slice(2)) {
  const asked = new Map();
  for (const entry of readFileSync(record, "utf8").trim().split("\n")) {
    const { run, from, line } = JSON.parse(entry);
    const message = JSON.parse(line);
    const other = from === "client" ? "agent" : "client";
    lines += 1;
    let definition;
    let value;
    if (message.method !== undefined) {
      const kind = message.id === undefined ? "Notification" : "Request";
      if (kind === "Request") asked.set(`${run} ${from} ${message.id}`, message.method);
      definition = `${message.method} ${kind}`;
      value = message.params;
    } else if (message.error === undefined) {
      definition = `${asked.get(`${run} ${other} ${message.id}`)} Response`;
      value = message.result;
    } else {
      definition = "Error";
      value = message.error;
    }
    const reference = definition === "Error" ? "acp#/$defs/Error" : of.get(definition);
    kinds.add(value?.update?.sessionUpdate ?? definition);
    if (reference === undefined) {
      wrong.push(`${from}: nothing is called ${definition}: ${line}`);
      continue;
    }
    const check = ajv.getSchema(reference);
    if (!check(value ?? {})) wrong.push(`${from}: ${definition}: ${ajv.errorsText(check.errors)}: ${line}`);
  }
}
if (lines === 0) wrong.push("nothing was recorded");
if (wrong.length > 0) {
  console.error(wrong.slice(0, 20).join("\n"));
  process.exit(1);
}
console.log(`schema: ${lines} lines are valid, of ${[...kinds].sort().join(", ")}`);
