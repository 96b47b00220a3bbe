// The company's skills: those of a run, and how the page shows them. The agent's adapter links them for the session, outside of
// its working directory.
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { type } from "./index.js";
import { readGalyarderRuntimeSkillEntries, resolveGalyarderDesiredSkillNames } from "./server-utils.js";
import type { AdapterSkillContext, AdapterSkillEntry, AdapterSkillSnapshot, GalyarderSkillEntry } from "./types.js";

const FOLDER = dirname(fileURLToPath(import.meta.url));
const MISSING = "It is not among the skills of the company.";

async function readSkills(config: Record<string, unknown>): Promise<{ available: GalyarderSkillEntry[]; desired: string[] }> {
  const available = await readGalyarderRuntimeSkillEntries(config, FOLDER);
  return { available, desired: resolveGalyarderDesiredSkillNames(config, available) };
}

/** The skills that a run's agent gets, as `session.start` has them. */
export async function desiredSkills(config: Record<string, unknown>): Promise<{ name: string; path: string }[]> {
  const { available, desired } = await readSkills(config);
  const chosen = available.filter(({ key }) => desired.includes(key));
  return chosen.map(({ runtimeName, source }) => ({ name: runtimeName, path: source }));
}

/** The skills of an agent. Nothing is installed: each run gets those that are desired then, so a sync has nothing to do. */
export async function listSkills({ config }: AdapterSkillContext): Promise<AdapterSkillSnapshot> {
  const { available, desired } = await readSkills(config);
  const missing = desired.filter((key) => available.every((skill) => skill.key !== key));
  const entries = [...available.map((skill) => describeSkill(skill, desired.includes(skill.key))), ...missing.map(missingSkill)];
  entries.sort((left, right) => left.key.localeCompare(right.key));
  const warnings = missing.map((key) => `Skill "${key}": ${MISSING}`);
  return { adapterType: type, supported: true, mode: "ephemeral", desiredSkills: desired, entries, warnings };
}

function describeSkill(skill: GalyarderSkillEntry, desired: boolean): AdapterSkillEntry {
  const { key, runtimeName, source, required, requiredReason } = skill;
  return {
    key,
    runtimeName,
    desired,
    managed: true,
    required: required === true,
    requiredReason: requiredReason ?? null,
    state: desired ? "configured" : "available",
    origin: required ? "galyarder_required" : "company_managed",
    originLabel: required ? "Required by Galyarder" : "Managed by Galyarder",
    readOnly: false,
    sourcePath: source,
    targetPath: null,
    detail: desired ? "The agent gets it in its next run." : null,
  };
}

function missingSkill(key: string): AdapterSkillEntry {
  return {
    key,
    runtimeName: null,
    desired: true,
    managed: true,
    state: "missing",
    origin: "external_unknown",
    originLabel: "External or unavailable",
    readOnly: false,
    sourcePath: null,
    targetPath: null,
    detail: MISSING,
  };
}
