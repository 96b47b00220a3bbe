// Who runs the model, who bills it and how, for the server's ledger.
import type { AdapterBillingType, AdapterExecutionResult, RunOutcome, Settings } from "./types.js";

/** Of a built-in adapter, by its name: whose model it runs, and the variable of a key that pays for each use. */
const PROVIDERS: Record<string, { provider: string; key: string }> = {
  "claude-code": { provider: "anthropic", key: "ANTHROPIC_API_KEY" },
  codex: { provider: "openai", key: "OPENAI_API_KEY" },
  "gemini-cli": { provider: "google", key: "GEMINI_API_KEY" },
};

/**
 * The configuration counts first, then what the agent reports, then its adapter. An agent with a login of its own and without a
 * key in the run's or the server's environment is paid by subscription.
 */
export function resolveBilling(
  { end, adapter }: RunOutcome,
  settings: Settings,
  env: Record<string, string>,
): Pick<AdapterExecutionResult, "provider" | "biller" | "billingType"> {
  const known = PROVIDERS[adapter];
  const provider = settings.provider || end?.provider || end?.usage?.provider || known?.provider || null;
  const isOwn = known !== undefined && provider === known.provider;
  const hasKey = isOwn && Boolean(env[known.key] || process.env[known.key]);
  const billingType = (settings.billingType || (isOwn ? (hasKey ? "api" : "subscription") : "unknown")) as AdapterBillingType;
  return { provider, biller: settings.biller || provider, billingType };
}
