// The prompt of a run, and the agent's instructions.
import { readFile } from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { asString, joinPromptSections, renderGalyarderWakePrompt, renderTemplate } from "./server-utils.js";
import type { AdapterExecutionContext, Settings } from "./types.js";

export interface RenderedPrompt {
  prompt: string;
  metrics: Record<string, number>;
}

/**
 * Renders the prompt of a run: the bootstrap prompt of a new session, what woke the agent, the note of an earlier session, and
 * the template. In a session that is resumed the wake takes the template's place.
 */
export function renderPrompt(
  { agent, runId, context }: AdapterExecutionContext,
  settings: Settings,
  { isResumed, instructions }: { isResumed: boolean; instructions: string },
): RenderedPrompt {
  const { id, companyId } = agent;
  const run = { id: runId, source: "on_demand" };
  const data = { agentId: id, companyId, runId, company: { id: companyId }, agent, run, context };
  const wake = renderGalyarderWakePrompt(context["galyarderWake"], { resumedSession: isResumed });
  const bootstrap = isResumed ? "" : renderTemplate(settings.bootstrapPromptTemplate, data).trim();
  const handoff = asString(context["galyarderSessionHandoffMarkdown"], "").trim();
  const heartbeat = isResumed && wake !== "" ? "" : renderTemplate(settings.promptTemplate, data);
  const own = !isResumed && settings.systemPromptIn === "prompt" ? instructions : "";
  const prompt = joinPromptSections([own, bootstrap, wake, handoff, heartbeat]);
  const metrics = {
    promptChars: prompt.length,
    instructionsChars: instructions.length,
    bootstrapPromptChars: bootstrap.length,
    wakePromptChars: wake.length,
    sessionHandoffChars: handoff.length,
    heartbeatPromptChars: heartbeat.length,
  };
  return { prompt, metrics };
}

/** The configured system prompt and the instructions file, with the folder that its references are relative to. */
export async function readInstructions(
  { systemPrompt, instructionsFilePath }: Settings,
  cwd: string,
  warn: (text: string) => void,
): Promise<string> {
  if (instructionsFilePath === "") return systemPrompt;
  const file = resolve(cwd, instructionsFilePath);
  try {
    const text = await readFile(file, "utf8");
    const place = `These instructions come from ${file}. File references in them are relative to ${dirname(file)}/.`;
    return joinPromptSections([systemPrompt, text, place]);
  } catch (error) {
    warn(`trunkline: the instructions file cannot be read: ${(error as Error).message}`);
    return systemPrompt;
  }
}
