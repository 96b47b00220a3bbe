//! The tools that a session allows, enforced for each call by a hook.

use std::path::PathBuf;

use serde_json::{Value, json};
use trunkline_core::policy::{Action, Decision, Policy, Unmatched};
use trunkline_sdk::{Error, preview};

use super::native::text;
use crate::agent::options::Options;

/// The id of the hook's callback.
const CALLBACK: &str = "allowed-tools";

/// Timeout of the hook in seconds. Claude runs the tool after a hook that took longer, so it must
/// never be reached.
const HOOK_TIMEOUT_S: u64 = 86_400;

/// Names of one tool: Claude renamed the one that starts a sub-agent.
const RENAMED: [(&str, &str); 2] = [("Task", "Agent"), ("Agent", "Task")];

/// A session's `allowed_tools`.
///
/// Claude calls the hook before each tool, whatever its permission mode, also in sub-agents and for
/// tools of MCP servers. A call that no entry matches is denied; one that matches takes Claude's
/// usual way, so that a person is still asked.
#[derive(Debug, Clone)]
pub(super) struct AllowList {
    policy: Policy,
    work_dir: Option<PathBuf>,
}

impl AllowList {
    /// Reads the session's list; `None` if it has none.
    ///
    /// # Errors
    /// If an entry is no pattern.
    pub(super) fn new(options: &Options) -> Result<Option<Self>, Error> {
        let Some(tools) = &options.allowed_tools else {
            return Ok(None);
        };
        let patterns = tools.iter().flat_map(|tool| patterns(tool));
        let policy = Policy::new(Unmatched::Deny, patterns, [""; 0])
            .map_err(|why| Error::other(format!("`allowed_tools`: failed to {why}")))?;
        Ok(Some(Self {
            policy,
            work_dir: options.work_dir(),
        }))
    }

    /// The member `hooks` of the `initialize` request.
    pub(super) fn hooks() -> Value {
        json!({"PreToolUse": [{"matcher": null, "hookCallbackIds": [CALLBACK], "timeout": HOOK_TIMEOUT_S}]})
    }

    /// The result of the hook for a call: a denial, or nothing.
    pub(super) fn judge(&self, request: &Value) -> Value {
        let input = &request["input"];
        let tool = text(input, "tool_name").unwrap_or_default();
        let action = Action {
            input: input.get("tool_input"),
            work_dir: self.work_dir.as_deref(),
            ..Action::new(tool, "")
        };
        if self.policy.decide(&action) == Decision::Allow {
            return json!({});
        }
        let reason = format!(
            "This call of {} is not in the session's `allowed_tools`.",
            preview::cut(tool, 100)
        );
        json!({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": "deny",
            "permissionDecisionReason": reason}})
    }
}

/// The patterns of an entry, which may be in Claude's own forms: `Bash(npm run:*)` is
/// a command and anything behind it, `WebFetch(domain:a.org)` is each address of a server,
/// `mcp__server` is each of its tools.
fn patterns(entry: &str) -> Vec<String> {
    let entry = entry.trim();
    let inner = |tool| entry.strip_prefix(tool)?.strip_suffix(')');
    if let Some(command) = inner("Bash(").and_then(|inner| inner.strip_suffix(":*")) {
        return vec![format!("Bash({command})"), format!("Bash({command} *)")];
    }
    if let Some(domain) = inner("WebFetch(domain:") {
        return ["http", "https"]
            .iter()
            .flat_map(|scheme| {
                ["", "/**"].map(|path| format!("WebFetch({scheme}://{domain}{path})"))
            })
            .collect();
    }
    if entry.starts_with("mcp__") && !entry["mcp__".len()..].contains("__") {
        return vec![entry.to_owned(), format!("{entry}__*")];
    }
    let renamed = RENAMED.iter().find_map(|(name, other)| {
        let rest = entry.strip_prefix(name)?;
        (rest.is_empty() || rest.starts_with('(')).then(|| format!("{other}{rest}"))
    });
    [entry.to_owned()].into_iter().chain(renamed).collect()
}

#[cfg(test)]
mod tests {
    use trunkline_sdk::SessionStart;

    use super::*;
    use crate::claude_code::config::ClaudeCode;

    fn list(tools: &[&str]) -> Result<Option<AllowList>, Error> {
        let start = SessionStart {
            cwd: Some("/work".to_owned()),
            allowed_tools: Some(tools.iter().map(|tool| (*tool).to_owned()).collect()),
            ..SessionStart::default()
        };
        AllowList::new(&Options::new(&ClaudeCode::default().common(), start).unwrap())
    }

    #[test]
    fn a_call_runs_only_if_an_entry_matches_it() {
        let bash = |command: &str| ("Bash", json!({"command": command}));
        let fetch = |url: &str| ("WebFetch", json!({"url": url, "prompt": "read"}));
        let read = |path: &str| ("Read", json!({"file_path": path}));
        for (entries, call, runs) in [
            (&["Bash(npm audit*)"][..], bash("npm audit --json"), true),
            (&["Bash(npm audit*)"], bash("npm publish"), false),
            (&["Bash(npm audit*)"], bash("npm audit; rm -rf /"), false),
            (&["Bash(npm audit*)"], bash("npm audit $(rm -rf /)"), false),
            (
                &["Bash(npm audit*)"],
                bash("npm audit > /etc/passwd"),
                false,
            ),
            (&["Bash(npm run:*)"], bash("npm run test"), true),
            (&["Bash(npm run:*)"], bash("npm run"), true),
            (&["Bash(npm run:*)"], bash("npm runner"), false),
            (&["Bash"], bash("rm -rf /; true"), true),
            (&["Read"], bash("cat a"), false),
            (
                &["Bash(git *)", "Read(src/**)"],
                read("/work/src/a.rs"),
                true,
            ),
            (&["Bash(git *)", "Read(src/**)"], read("/work/a.rs"), false),
            (&["Read(src/**)"], read("/work/src/../a.rs"), false),
            (
                &["WebFetch(domain:a.org)"],
                fetch("https://a.org/b/c"),
                true,
            ),
            (&["WebFetch(domain:a.org)"], fetch("https://a.org"), true),
            (
                &["WebFetch(domain:a.org)"],
                fetch("https://a.org.evil.net/"),
                false,
            ),
            (
                &["WebFetch(domain:a.org)"],
                fetch("https://evil.net/https://a.org/"),
                false,
            ),
            (&["mcp__files"], ("mcp__files__read", json!({})), true),
            (
                &["mcp__files__read"],
                ("mcp__files__write", json!({})),
                false,
            ),
            (&["mcp__files"], ("mcp__files2__read", json!({})), false),
            (&["Task"], ("Agent", json!({"prompt": "x"})), true),
            (&["Read"], ("mcp__files__read", json!({})), false),
            (&[], read("/work/a"), false),
            (&["*"], bash("anything; at all"), true),
        ] {
            let (tool, input) = call;
            let request = json!({"subtype": "hook_callback", "callback_id": CALLBACK,
                "input": {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": input}});
            let answer = list(entries).unwrap().unwrap().judge(&request);
            let denied = answer["hookSpecificOutput"]["permissionDecision"] == "deny";
            assert_eq!(!denied, runs, "{entries:?}: {tool} {input}");
        }
    }

    #[test]
    fn a_call_that_cannot_be_read_is_denied() {
        for request in [
            json!({}),
            json!({"input": {"tool_name": 7}}),
            json!({"input": {"tool_name": "Bash"}}),
        ] {
            let answer = list(&["Bash(git *)"]).unwrap().unwrap().judge(&request);
            assert_eq!(
                answer["hookSpecificOutput"]["permissionDecision"], "deny",
                "{request}"
            );
        }
    }

    #[test]
    fn an_entry_that_is_no_pattern_is_refused_by_its_option() {
        for entry in ["Bash(git", "", "--evil option", "Bash()"] {
            let error = list(&["Read", entry]).unwrap_err().to_string();
            assert!(error.contains("`allowed_tools`"), "{entry:?}: {error}");
        }
        let start = SessionStart::default();
        let options = Options::new(&ClaudeCode::default().common(), start).unwrap();
        assert!(AllowList::new(&options).unwrap().is_none());
    }
}
