import assert from "node:assert/strict";
import { test } from "node:test";
import { Fold } from "../src/core/fold.ts";
import type { PermissionRow } from "../src/core/rows.ts";
import type { Entry } from "../src/core/types.ts";
import { categoryText, permissionText, permissionWords } from "../src/core/words.ts";

function request(entry: Omit<Entry, "type">, call?: Omit<Entry, "type">): PermissionRow {
  const fold = new Fold();
  if (call) fold.apply({ type: "tool.start", tool_call_id: "c", ...call });
  fold.apply({ type: "permission.request", request_id: "r", tool_call_id: "c", ...entry });
  return fold.rows[fold.rows.length - 1] as PermissionRow;
}

test("a permission says in our words what will happen", () => {
  for (const [entry, text] of [
    [{ tool: "Write", resource: "src/main.rs" }, "Write src/main.rs"],
    [{ tool: "Bash", resource: "git push", input: { command: "git push" } }, "Run git push"],
    [{ tool: "WebFetch", resource: "https://example.org/a" }, "Fetch https://example.org/a"],
    [{ tool: "MultiEdit", resource: "a.rs" }, "Edit a.rs"],
    [{ tool: "NotebookRead", resource: "a.ipynb" }, "Use NotebookRead"],
    [{ tool: "Read", resource: "", input: { file_path: "b.rs" } }, "Read b.rs"],
    [{ tool: "run_terminal_command", resource: "ls" }, "Run ls"],
    [{ tool: "str_replace_editor", resource: "c.rs" }, "Edit c.rs"],
    [{ tool: "mcp__files__thing", resource: "x" }, "Use mcp__files__thing"],
    [{ tool: "Bash", resource: "cat <<E\nmany\nE" }, "Run cat <<E"],
    [{ tool: "constructor", resource: "x" }, "Use constructor"],
  ] as const) assert.equal(permissionText(request(entry)), text);
  assert.equal(permissionText(request({ tool: "do_it", resource: "ls" }, { tool: "do_it", kind: "execute" })), "Run ls", "by the kind of its call");
  assert.equal(permissionText(request({ tool: "Bash", resource: "x".repeat(500) })).length, 4 + 121);
});

test("what an agent repeats is shown once, and what the headline cuts is shown whole", () => {
  const words = permissionWords(request({ tool: "Write", title: "src/main.rs", description: "src/main.rs", resource: "src/main.rs" }));
  assert.deepEqual([words.title, words.description, words.whole], ["", "", true]);
  const other = permissionWords(request({ tool: "Bash", title: "Clean up", description: "Deletes logs", resource: "rm a\nrm b" }));
  assert.deepEqual([other.title, other.description, other.whole], ["Clean up", "Deletes logs", false]);
  assert.equal(permissionWords(request({ tool: "thing", resource: "x" })).whole, false, "the resource is shown");
});

test("categories and reasons are words", () => {
  assert.deepEqual(["host_restart", "not_installed", "auth", "constructor", "a_new_one", ""].map(categoryText), ["daemon restarted", "not installed", "not signed in", "constructor", "a new one", ""]);
});
