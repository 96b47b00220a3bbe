// What the drivers start, and whether it is here.
import { spawnSync } from "node:child_process";

const isHere = (command) => !spawnSync(command, ["--version"], { stdio: "ignore" }).error;
const path = (name) => new URL(name, import.meta.url).pathname;

export const NONE = isHere("trunkline") ? false : "no program trunkline";
export const skipWithout = (...commands) =>
  NONE || commands.filter((command) => !isHere(command)).map((command) => `no program ${command}`)[0] || false;
export const AGENT = `${process.execPath} ${path("agent.mjs")}`;
export const example = (name) => path(`../../${name}`);
/** `trunkline serve` with an adapter and what its sessions may set. */
export const serving = (adapter, ...more) => ["serve", "--session-may", "all", "--adapter", adapter, ...more];
