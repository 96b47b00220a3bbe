#!/usr/bin/env node
// Writes src/types.ts, the messages as TypeScript types, from protocol/schema. With --check it only compares.
import { readFileSync, writeFileSync } from "node:fs";

const SCHEMAS = new URL("../../../protocol/schema/", import.meta.url);
const OUT = new URL("../src/types.ts", import.meta.url);
const UNIONS = {
  "adapter-to-host": "AdapterMessage",
  "host-to-adapter": "HostMessage",
  "hub-to-relay": "HubMessage",
  "relay-to-hub": "RelayMessage",
};

const className = (title) =>
  title.split(/[._]/).map((part) => part[0].toUpperCase() + part.slice(1)).join("");

// The type of a schema, without null: absent and null are the same.
function typeOf(schema) {
  if (schema === undefined || schema === true || Object.keys(schema).length === 0) return "unknown";
  if (schema.$ref) return schema.$ref.split("/").pop();
  if ("const" in schema) return JSON.stringify(schema.const);
  if (schema.enum) return union(schema.enum.filter((value) => value !== null).map((value) => JSON.stringify(value)));
  const any = schema.anyOf ?? schema.oneOf;
  if (any) return union(any.filter((kind) => kind.type !== "null").map(typeOf));
  const kinds = [schema.type ?? []].flat().filter((kind) => kind !== "null");
  return kinds.length === 0 ? "unknown" : union(kinds.map((kind) => ofKind(kind, schema)));
}

function ofKind(kind, schema) {
  if (kind === "array") {
    const item = typeOf(schema.items);
    return item.includes("|") ? `(${item})[]` : `${item}[]`;
  }
  if (kind === "object") return `{ [name: string]: ${typeOf(schema.additionalProperties)} }`;
  return kind === "integer" ? "number" : kind;
}

const union = (kinds) => [...new Set(kinds)].join(" | ");

function doc(schema, indent) {
  const text = (schema.description ?? "").replace(/\s+/g, " ").replaceAll("*/", "* /").trim();
  return text ? `${indent}/** ${text} */\n` : "";
}

function interfaceOf(name, schema) {
  const required = new Set(schema.required ?? []);
  const members = Object.entries(schema.properties ?? {})
    .sort(([a], [b]) => Number(required.has(b)) - Number(required.has(a)) || (a < b ? -1 : 1))
    .map(([member, kind]) => {
      const key = /^[A-Za-z_]\w*$/.test(member) ? member : JSON.stringify(member);
      return `${doc(kind, "  ")}  ${key}${required.has(member) ? "" : "?"}: ${typeOf(kind)};`;
    });
  return `${doc(schema, "")}export interface ${name} {\n${members.join("\n")}\n}`;
}

function generate() {
  const definitions = new Map();
  const fields = new Map();
  const blocks = [];
  const unions = [];
  for (const [file, name] of Object.entries(UNIONS)) {
    const schema = JSON.parse(readFileSync(new URL(`${file}.schema.json`, SCHEMAS), "utf8"));
    const names = schema.oneOf.map((message) => className(message.title) + "Message");
    for (const message of schema.oneOf) {
      if (fields.has(message.title)) continue;
      fields.set(message.title, Object.keys(message.properties).sort());
      blocks.push(interfaceOf(className(message.title) + "Message", message));
    }
    for (const [name, definition] of Object.entries(schema.$defs ?? {})) {
      if (!definitions.has(name)) definitions.set(name, definition);
    }
    unions.push(`${doc(schema, "")}export type ${name} =\n  | ${names.join("\n  | ")};`);
  }
  for (const [name, definition] of [...definitions].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const isObject = definition !== true && definition.properties;
    blocks.push(isObject ? interfaceOf(name, definition) : `${doc(definition, "")}export type ${name} = ${typeOf(definition)};`);
  }
  const rows = [...fields].sort(([a], [b]) => (a < b ? -1 : 1)).map(([title, names]) => `  [${JSON.stringify(title)}, ${JSON.stringify(names)}],`);
  const table = `/** The members of each message, by its type. */\nexport const FIELDS: ReadonlyMap<string, readonly string[]> = new Map([\n${rows.join("\n")}\n]);`;
  const head = "// The messages of the protocol, made from its schemas by scripts/types.mjs: do not edit.\n//\n// In every member null equals absent. An enumerated member may hold values of later versions.";
  return [head, ...blocks, ...unions, table].join("\n\n") + "\n";
}

const text = generate();
if (!process.argv.includes("--check")) writeFileSync(OUT, text);
else if (readFileSync(OUT, "utf8") !== text) {
  console.error("src/types.ts is not what the schemas make: run node scripts/types.mjs");
  process.exitCode = 1;
}
