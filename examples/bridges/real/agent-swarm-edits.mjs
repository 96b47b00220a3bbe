// The edits of a checkout of agent-swarm that `agent-swarm/README.md` lists: in each file, a line of the original, and the lines
// before it (`before`) and behind it (`after`), or the text in the place of a part of it (`replace`).

const STEER = '["steer", "queue"]';

/** The edits for versions with a typed list of providers (1.135). */
const EDITS = {
  "src/providers/index.ts": [
    {
      line: /^ {4}default:$/,
      before: [
        '    case "trunkline": {',
        '      const { TrunklineAdapter } = await import("./trunkline/adapter");',
        "      return new TrunklineAdapter();",
        "    }",
      ],
    },
    { line: /Supported: claude, pi, codex, devin, claude-managed, opencode`/, replace: ["opencode`", "opencode, trunkline`"] },
  ],
  "src/types.ts": [
    {
      line: /^export const DEFAULT_MODEL_TIER_MAP/,
      after: ['  trunkline: { smol: "haiku", regular: "sonnet", smart: "opus", ultra: "opus" },'],
    },
    { line: /^export const ProviderNameSchema = z\.enum\(\[$/, after: ['  "trunkline",'] },
    { line: /^export const PROVIDER_STEER_CAPABILITIES/, after: [`  trunkline: ${STEER},`] },
    { line: /^export type ProviderMetaMap = \{$/, after: ["  trunkline: NoProviderMeta;"] },
  ],
  "src/commands/provider-credentials.ts": [
    {
      line: /^import { checkOpencodeCredentials }/,
      after: ['import { checkTrunklineCredentials } from "../providers/trunkline/credentials";'],
    },
    { line: /^export type SupportedProvider = /, replace: ['| "pi";', '| "pi" | "trunkline";'] },
    { line: /^export const REQUIRED_CRED_VARS_BY_PROVIDER/, after: ["  trunkline: [],"] },
    {
      line: /^ {4}case "claude":$/,
      before: ['    case "trunkline":', "      return checkTrunklineCredentials(env);"],
    },
    {
      line: /^ {6}case "devin": \{$/,
      before: ['      case "trunkline":', "        return presenceCheckOk();"],
    },
  ],
};

/** The edits for versions without one (1.70). */
const EDITS_OLD = {
  "src/providers/index.ts": [
    { line: /^import { PiMonoAdapter }/, after: ['import { TrunklineAdapter } from "./trunkline/adapter";'] },
    { line: /^ {4}default:$/, before: ['    case "trunkline":', "      return new TrunklineAdapter();"] },
    { line: /Supported: claude, pi, codex`/, replace: ["codex`", "codex, trunkline`"] },
  ],
};

export const editsOf = (version) => (version.startsWith("1.70.") ? EDITS_OLD : EDITS);

/** The text of a file with its edits. Throws when a line is not there. */
export function edited(text, edits, path) {
  const lines = text.split("\n");
  for (const { line, before = [], after = [], replace } of edits) {
    const at = lines.findIndex((candidate) => line.test(candidate));
    if (at < 0) throw new Error(`${path} has no line ${line}`);
    const changed = replace ? lines[at].replace(...replace) : lines[at];
    lines.splice(at, 1, ...before, changed, ...after);
  }
  return lines.join("\n");
}
