//! What the app server is asked, as JSON. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::policy::{Policy, Sandbox};
use crate::agent::attachment::{self, Attachment, Image};

/// What a thread is begun or gone on with.
#[derive(Clone, Default)]
pub(super) struct ThreadOptions {
    pub(super) cwd: Option<String>,
    pub(super) add_dirs: Vec<String>,
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    pub(super) policy: Policy,
    /// In place of Codex's own instructions.
    pub(super) base: Option<String>,
    /// After them.
    pub(super) developer: Option<String>,
    /// Variables of the commands that the model runs.
    pub(super) tool_env: BTreeMap<String, String>,
    /// `mcp_servers` tables, by name. They hold secrets.
    pub(super) mcp_servers: Map<String, Value>,
}

impl ThreadOptions {
    /// `thread/start`.
    pub(super) fn start(&self) -> Value {
        Value::Object(self.members())
    }

    /// `thread/resume`.
    pub(super) fn resume(&self, thread: &str) -> Value {
        let mut params = self.members();
        params.insert("threadId".to_owned(), thread.into());
        params.insert("excludeTurns".to_owned(), true.into());
        Value::Object(params)
    }

    fn members(&self) -> Map<String, Value> {
        let mut params = Map::new();
        let mut set = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                params.insert(key.to_owned(), value);
            }
        };
        let text = |text: &Option<String>| text.clone().map(Value::String);
        set("cwd", text(&self.cwd));
        set("model", text(&self.model));
        set(
            "approvalPolicy",
            self.policy.approval.map(|approval| approval.name().into()),
        );
        set(
            "sandbox",
            self.policy.sandbox.map(|sandbox| sandbox.name().into()),
        );
        set("baseInstructions", text(&self.base));
        set("developerInstructions", text(&self.developer));
        let config = self.config();
        set(
            "config",
            (!config.is_empty()).then_some(Value::Object(config)),
        );
        params
    }

    /// Overrides of Codex's configuration, for this thread alone.
    fn config(&self) -> Map<String, Value> {
        let mut config = Map::new();
        if let Some(effort) = &self.effort {
            config.insert("model_reasoning_effort".to_owned(), effort.as_str().into());
        }
        if !self.add_dirs.is_empty() {
            config.insert(
                "sandbox_workspace_write.writable_roots".to_owned(),
                json!(self.add_dirs),
            );
        }
        for (name, value) in &self.tool_env {
            config.insert(
                format!("shell_environment_policy.set.{name}"),
                value.as_str().into(),
            );
        }
        for (name, server) in &self.mcp_servers {
            config.insert(format!("mcp_servers.{name}"), server.clone());
        }
        config
    }
}

/// What a turn changes of its thread, for itself and those after it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Overrides {
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    pub(super) policy: Option<Policy>,
}

/// `turn/start`.
pub(super) fn turn(
    thread: &str,
    input: &[Value],
    overrides: &Overrides,
    roots: &[String],
) -> Value {
    let mut params = json!({ "threadId": thread, "input": input });
    if let Some(model) = &overrides.model {
        params["model"] = model.as_str().into();
    }
    if let Some(effort) = &overrides.effort {
        params["effort"] = effort.as_str().into();
    }
    if let Some(policy) = overrides.policy {
        if let Some(approval) = policy.approval {
            params["approvalPolicy"] = approval.name().into();
        }
        if let Some(sandbox) = policy.sandbox {
            let mut sandbox_policy = sandbox.policy();
            if sandbox == Sandbox::WorkspaceWrite && !roots.is_empty() {
                sandbox_policy["writableRoots"] = json!(roots);
            }
            params["sandboxPolicy"] = sandbox_policy;
        }
    }
    params
}

/// The items of an input: its text, the lines of files that go by path, and images.
pub(super) fn input(text: &str, attachments: &[Attachment]) -> Vec<Value> {
    let text = attachment::with_paths(text, attachments);
    let image = |image: &Image| json!({ "type": "localImage", "path": image.path });
    let mut items: Vec<_> = attachment::images(attachments).map(image).collect();
    // An input without any item is refused.
    if !text.is_empty() || items.is_empty() {
        items.insert(0, words(&text));
    }
    items
}

/// A text as an item of an input.
pub(super) fn words(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// Whether a started thread has no sandbox.
pub(super) fn is_unconfined(started: &Value) -> bool {
    started["sandbox"]["type"].as_str() == Some("dangerFullAccess")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codex::policy::Approval;

    #[test]
    fn a_thread_is_begun_with_what_the_session_asks_and_nothing_else() {
        assert_eq!(ThreadOptions::default().start(), json!({}));
        let policy = Policy {
            approval: Some(Approval::OnRequest),
            sandbox: Some(Sandbox::WorkspaceWrite),
            danger: false,
        };
        let options = ThreadOptions {
            cwd: Some("/srv".to_owned()),
            add_dirs: vec!["/more".to_owned()],
            model: Some("gpt".to_owned()),
            effort: Some("high".to_owned()),
            policy,
            base: None,
            developer: Some("Be brief.".to_owned()),
            tool_env: [("RUN".to_owned(), "7".to_owned())].into(),
            mcp_servers: json!({"tools": {"command": "x"}})
                .as_object()
                .unwrap()
                .clone(),
        };
        let expected = json!({
            "cwd": "/srv", "model": "gpt", "approvalPolicy": "on-request", "sandbox": "workspace-write",
            "developerInstructions": "Be brief.",
            "config": {
                "model_reasoning_effort": "high",
                "sandbox_workspace_write.writable_roots": ["/more"],
                "shell_environment_policy.set.RUN": "7",
                "mcp_servers.tools": {"command": "x"},
            },
        });
        assert_eq!(options.start(), expected);
        let base = options.developer.clone();
        let resumed = ThreadOptions {
            base,
            developer: None,
            ..options
        }
        .resume("t");
        assert_eq!(resumed["baseInstructions"], "Be brief.");
        assert_eq!(
            (&resumed["threadId"], &resumed["excludeTurns"]),
            (&json!("t"), &json!(true))
        );
    }

    #[test]
    fn a_turn_says_only_what_has_changed() {
        let bare = turn("t", &[words("hi")], &Overrides::default(), &[]);
        assert_eq!(
            bare,
            json!({"threadId": "t", "input": [{"type": "text", "text": "hi"}]})
        );
        let overrides = Overrides {
            model: Some("m".to_owned()),
            effort: Some("low".to_owned()),
            policy: Some(Policy {
                approval: Some(Approval::Never),
                sandbox: Some(Sandbox::WorkspaceWrite),
                danger: false,
            }),
        };
        let turn = turn("t", &[], &overrides, &["/more".to_owned()]);
        assert_eq!(
            (&turn["model"], &turn["effort"]),
            (&json!("m"), &json!("low"))
        );
        assert_eq!(turn["approvalPolicy"], "never");
        assert_eq!(
            turn["sandboxPolicy"],
            json!({"type": "workspaceWrite", "writableRoots": ["/more"]})
        );
    }

    #[test]
    fn files_without_words_are_an_input_too() {
        let path = Attachment::Path("[File uploaded: a] Path: /a".to_owned());
        assert_eq!(input("", &[path]), [words("[File uploaded: a] Path: /a")]);
        assert_eq!(input("", &[]), [words("")]);
    }
}
