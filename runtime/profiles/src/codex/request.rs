//! Requests to the app server, as JSON. Pure.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use trunkline_sdk::{Error, SessionUpdate};

use super::Settings;
use super::policy::{Approval, Policy, Sandbox};
use crate::agent::attachment::{self, Attachment, Image};
use crate::agent::model;
use crate::agent::options::filled;
use crate::agent::read::without_nulls;

/// Parameters with which a thread is begun or resumed.
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
    /// JSON Schema of the last message of each turn.
    pub(super) output_schema: Option<Value>,
}

impl ThreadOptions {
    /// `thread/start`.
    pub(super) fn start(&self) -> Map<String, Value> {
        let config = self.config();
        without_nulls(json!({
            "cwd": self.cwd,
            "model": self.model,
            "approvalPolicy": self.policy.approval.map(Approval::name),
            "sandbox": self.policy.sandbox.map(Sandbox::name),
            "baseInstructions": self.base,
            "developerInstructions": self.developer,
            "config": (!config.is_empty()).then_some(config),
        }))
    }

    /// `thread/resume`.
    pub(super) fn resume(&self, thread: &str) -> Map<String, Value> {
        let mut params = self.start();
        params.insert("threadId".to_owned(), thread.into());
        params.insert("excludeTurns".to_owned(), true.into());
        params
    }

    /// `thread/fork`, up to a turn, or of the whole thread.
    pub(super) fn fork(&self, thread: &str, last_turn: Option<&str>) -> Map<String, Value> {
        let mut params = self.resume(thread);
        params.extend(last_turn.map(|turn| ("lastTurnId".to_owned(), turn.into())));
        params
    }

    /// Overrides of Codex's configuration, for this thread only.
    fn config(&self) -> Map<String, Value> {
        let roots = Some(&self.add_dirs).filter(|folders| !folders.is_empty());
        let mut config = without_nulls(json!({
            "model_reasoning_effort": self.effort,
            "sandbox_workspace_write.writable_roots": roots,
        }));
        for (name, value) in &self.tool_env {
            let key = format!("shell_environment_policy.set.{name}");
            config.insert(key, value.as_str().into());
        }
        for (name, server) in &self.mcp_servers {
            config.insert(format!("mcp_servers.{name}"), server.clone());
        }
        config
    }
}

/// Changes of a turn to its thread, for itself and later turns.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Overrides {
    pub(super) model: Option<String>,
    pub(super) effort: Option<String>,
    pub(super) policy: Option<Policy>,
}

impl Overrides {
    /// Reads the changes of a session's options.
    ///
    /// # Errors
    /// As of [`Policy::choose`].
    pub(super) fn read(
        update: SessionUpdate,
        mut policy: Policy,
        settings: &Settings,
    ) -> Result<Self, Error> {
        let mode = filled(update.mode);
        let permission_mode = filled(update.permission_mode);
        policy.choose(mode.as_deref(), permission_mode.as_deref())?;
        let is_chosen = mode.is_some() || permission_mode.is_some();
        let model = filled(update.model);
        Ok(Self {
            model: model.map(|name| model::resolve(&name, &settings.model_aliases)),
            effort: filled(update.reasoning_effort),
            policy: is_chosen.then_some(policy),
        })
    }
}

/// `turn/start`.
pub(super) fn turn(
    thread: &str,
    input: &[Value],
    overrides: &Overrides,
    options: &ThreadOptions,
) -> Map<String, Value> {
    let policy = overrides.policy.unwrap_or_default();
    let sandbox = policy.sandbox.map(|sandbox| {
        let mut params = sandbox.policy();
        if sandbox == Sandbox::WorkspaceWrite && !options.add_dirs.is_empty() {
            params["writableRoots"] = json!(options.add_dirs);
        }
        params
    });
    without_nulls(json!({
        "threadId": thread,
        "input": input,
        "model": overrides.model,
        "effort": overrides.effort,
        "approvalPolicy": policy.approval.map(Approval::name),
        "sandboxPolicy": sandbox,
        "outputSchema": options.output_schema,
    }))
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

/// Returns true if a started thread has no sandbox.
pub(super) fn is_unconfined(started: &Value) -> bool {
    started["sandbox"]["type"].as_str() == Some("dangerFullAccess")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_is_begun_with_what_the_session_asks_and_nothing_else() {
        assert_eq!(ThreadOptions::default().start(), Map::new());
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
            output_schema: None,
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
        assert_eq!(Value::Object(options.start()), expected);
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
        let bare = turn(
            "t",
            &[words("hi")],
            &Overrides::default(),
            &ThreadOptions::default(),
        );
        assert_eq!(
            Value::Object(bare),
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
        let options = ThreadOptions {
            add_dirs: vec!["/more".to_owned()],
            output_schema: Some(json!({"type": "object"})),
            ..ThreadOptions::default()
        };
        let turn = turn("t", &[], &overrides, &options);
        assert_eq!(turn["outputSchema"], json!({"type": "object"}));
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
