//! What Codex asks its client, as permission requests and questions, and their answers as it takes them. Pure.

mod question;

use serde_json::{Map, Value, json};
use trunkline_sdk::preview::cut;
use trunkline_sdk::protocol::OptionKind;
use trunkline_sdk::{Decision, Json, Permission, Question};

pub(super) use self::question::Form;
use self::question::{elicitation, questions};
use super::shell;
use super::translate::{Translator, call};
use crate::agent::read::list;

/// The requests that are known.
pub(super) const METHODS: &[&str] = &[
    "item/commandExecution/requestApproval",
    "item/fileChange/requestApproval",
    "item/permissions/requestApproval",
    "execCommandApproval",
    "applyPatchApproval",
    "item/tool/requestUserInput",
    "mcpServer/elicitation/request",
];

/// What is made of a request.
#[derive(Debug)]
pub(super) enum Ask {
    /// A person decides.
    Permission(Box<Permission>, Answers),
    /// A person is asked for values.
    Question(Question, Form),
    /// No one is asked: the method is unknown.
    Unknown,
}

/// How a decision is written.
#[derive(Debug, PartialEq)]
pub(super) struct Answers {
    /// What each option answers.
    options: Vec<(String, Value)>,
    allow: Value,
    deny: Value,
    /// The denial that ends the turn.
    end: Value,
}

impl Ask {
    /// Reads a request of the app server.
    pub(super) fn of(method: &str, params: &Value, translator: &Translator) -> Self {
        match method {
            "item/commandExecution/requestApproval" => command(params),
            "item/fileChange/requestApproval" => file_change(params, translator),
            "item/permissions/requestApproval" => permissions(params),
            "execCommandApproval" => old_command(params),
            "applyPatchApproval" => old_patch(params),
            "item/tool/requestUserInput" => questions(params),
            "mcpServer/elicitation/request" => elicitation(params),
            _ => Self::Unknown,
        }
    }
}

impl Answers {
    fn decisions(mut options: Vec<(String, Value)>) -> Self {
        let decision = |word: &str| json!({ "decision": word });
        for (_, answer) in &mut options {
            *answer = json!({ "decision": answer.take() });
        }
        Self {
            options,
            allow: decision("accept"),
            deny: decision("decline"),
            end: decision("cancel"),
        }
    }

    /// The answer to a person's decision; without an answer a denial.
    pub(super) fn of(&self, decision: &Decision) -> Value {
        let chosen = decision.option_id.as_ref();
        let option = chosen
            .and_then(|chosen| self.options.iter().find(|(id, _)| id == chosen))
            .map(|(_, answer)| answer);
        match (decision.is_approved(), option) {
            (true, Some(answer)) => answer.clone(),
            (true, None) => self.allow.clone(),
            (false, _) if decision.end_turn => self.end.clone(),
            // An option that allows does not deny.
            (false, Some(answer)) if !self.allows(answer) => answer.clone(),
            (false, _) => self.deny.clone(),
        }
    }

    fn allows(&self, answer: &Value) -> bool {
        *answer != self.deny
            && answer["decision"]["applyNetworkPolicyAmendment"]["network_policy_amendment"]["action"]
                != "deny"
    }
}

fn text<'v>(params: &'v Value, key: &str) -> &'v str {
    params[key].as_str().unwrap_or_default()
}

/// A command, or input to a running one. All decisions are offered that codex takes, whatever `availableDecisions` says:
/// it takes `acceptForSession` and `decline` where it does not name them, too.
fn command(params: &Value) -> Ask {
    let line = text(params, "command");
    let script = shell::script(line);
    let reason = text(params, "reason");
    let host = params["networkApprovalContext"]["host"].as_str();
    let (tool, resource, description) = match host {
        Some(host) => ("network", host.to_owned(), format!("Reach {host}")),
        None if params["kind"].as_str() == Some("writeStdin") => (
            "bash",
            script.clone(),
            "Type into a running command".to_owned(),
        ),
        None => ("bash", script.clone(), "Run a command".to_owned()),
    };
    let description = if reason.is_empty() {
        format!("{description}: {script}")
    } else {
        format!("{description}: {reason}")
    };
    let mut input = Map::new();
    input.insert("command".to_owned(), script.into());
    if let Some(cwd) = params["cwd"].as_str() {
        input.insert("cwd".to_owned(), cwd.into());
    }
    if let Some(more) = params
        .get("additionalPermissions")
        .filter(|more| !more.is_null())
    {
        input.insert("additional_permissions".to_owned(), more.clone());
    }
    let mut permission = asked(
        Permission::new(tool, description, resource),
        params,
        "itemId",
    );
    if let Ok(input) = Json::of(&input) {
        permission = permission.input(input);
    }
    permission = permission
        .option("accept", "Allow", OptionKind::AllowOnce)
        .option(
            "acceptForSession",
            "Allow for this session",
            OptionKind::AllowAlways,
        );
    let mut options = vec![
        ("accept".to_owned(), json!("accept")),
        ("acceptForSession".to_owned(), json!("acceptForSession")),
    ];
    let amendment = params
        .get("proposedExecpolicyAmendment")
        .filter(|words| words.is_array());
    if let Some(words) = amendment {
        let shown: Vec<_> = words
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect();
        let label = format!("Always allow `{}`", cut(&shown.join(" "), 200));
        permission = permission.option(
            "acceptWithExecpolicyAmendment",
            label,
            OptionKind::AllowAlways,
        );
        let answer = json!({ "acceptWithExecpolicyAmendment": { "execpolicy_amendment": words } });
        options.push(("acceptWithExecpolicyAmendment".to_owned(), answer));
    }
    let rules = params["proposedNetworkPolicyAmendments"].as_array();
    for (number, rule) in rules.into_iter().flatten().take(8).enumerate() {
        let (host, allows) = (text(rule, "host"), text(rule, "action") == "allow");
        let id = format!("applyNetworkPolicyAmendment-{number}");
        let (label, kind) = if allows {
            (format!("Always allow {host}"), OptionKind::AllowAlways)
        } else {
            (format!("Always deny {host}"), OptionKind::RejectAlways)
        };
        permission = permission.option(id.clone(), label, kind);
        let answer = json!({ "applyNetworkPolicyAmendment": { "network_policy_amendment": rule } });
        options.push((id, answer));
    }
    permission = permission.option("decline", "Deny", OptionKind::RejectOnce);
    options.push(("decline".to_owned(), json!("decline")));
    Ask::Permission(Box::new(permission), Answers::decisions(options))
}

fn file_change(params: &Value, translator: &Translator) -> Ask {
    let diffs = translator.changes(text(params, "itemId"));
    let paths: Vec<_> = diffs.iter().map(|diff| diff.path.as_str()).collect();
    let root = text(params, "grantRoot");
    let resource = if paths.is_empty() {
        root.to_owned()
    } else {
        paths.join(", ")
    };
    let reason = text(params, "reason");
    let mut description = match (reason, root) {
        ("", "") => format!("Change {resource}"),
        ("", root) => format!("Change files below {root}"),
        (reason, _) => reason.to_owned(),
    };
    description.truncate(description.floor_char_boundary(4096));
    let tool = match diffs.first() {
        Some(diff) if diff.patch.is_none() && diff.old_text.is_none() => "Write",
        Some(diff) if diff.patch.is_none() && diff.new_text.is_none() => "Delete",
        _ => "Edit",
    };
    let permission = asked(
        Permission::new(tool, description, resource),
        params,
        "itemId",
    )
    .diffs(diffs)
    .option("accept", "Allow", OptionKind::AllowOnce)
    .option(
        "acceptForSession",
        "Allow such changes for this session",
        OptionKind::AllowAlways,
    )
    .option("decline", "Deny", OptionKind::RejectOnce);
    let options =
        ["accept", "acceptForSession", "decline"].map(|word| (word.to_owned(), json!(word)));
    Ask::Permission(Box::new(permission), Answers::decisions(options.to_vec()))
}

/// Codex asks for more than its sandbox allows; what is granted is written whole.
fn permissions(params: &Value) -> Ask {
    let wanted = params
        .get("permissions")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let reason = text(params, "reason");
    let description = if reason.is_empty() {
        "Allow more than the sandbox does"
    } else {
        reason
    };
    let shown = cut(&wanted.to_string(), 1000);
    let mut permission = asked(
        Permission::new("request_permissions", description, shown),
        params,
        "itemId",
    )
    .option("turn", "Allow for this turn", OptionKind::AllowOnce)
    .option("session", "Allow for this session", OptionKind::AllowAlways)
    .option("deny", "Deny", OptionKind::RejectOnce);
    if let Ok(input) = Json::of(&wanted) {
        permission = permission.input(input);
    }
    let grant = |scope: &str| json!({ "permissions": wanted, "scope": scope });
    let deny = json!({ "permissions": {}, "scope": "turn" });
    let options = vec![
        ("turn".to_owned(), grant("turn")),
        ("session".to_owned(), grant("session")),
    ];
    let answers = Answers {
        options,
        allow: grant("turn"),
        deny: deny.clone(),
        end: deny,
    };
    Ask::Permission(Box::new(permission), answers)
}

/// The options and answers of the protocol before threads.
fn old_options(permission: Permission) -> Ask {
    let decision = |word: &str| json!({ "decision": word });
    let options =
        ["approved", "approved_for_session"].map(|word| (word.to_owned(), decision(word)));
    let deny = json!({ "decision": { "denied": { "rejection": "denied" } } });
    let allow = decision("approved");
    let answers = Answers {
        options: options.to_vec(),
        allow,
        deny,
        end: decision("abort"),
    };
    let permission = permission
        .option("approved", "Allow", OptionKind::AllowOnce)
        .option(
            "approved_for_session",
            "Allow for this session",
            OptionKind::AllowAlways,
        )
        .option("denied", "Deny", OptionKind::RejectOnce);
    Ask::Permission(Box::new(permission), answers)
}

fn old_command(params: &Value) -> Ask {
    let words: Vec<_> = list(params, "command")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let line = match words[..] {
        [shell, "-lc" | "-c", script] if shell.ends_with("sh") => script.to_owned(),
        _ => words.join(" "),
    };
    let reason = text(params, "reason");
    let description = if reason.is_empty() {
        format!("Run a command: {line}")
    } else {
        reason.to_owned()
    };
    let mut permission = asked(
        Permission::new("bash", description, line.clone()),
        params,
        "callId",
    );
    if let Ok(input) = Json::of(&json!({ "command": line, "cwd": params.get("cwd") })) {
        permission = permission.input(input);
    }
    old_options(permission)
}

fn old_patch(params: &Value) -> Ask {
    let files = params["fileChanges"].as_object();
    let change = |(path, change): (&String, &Value)| {
        let diff = change.get("content").or_else(|| change.get("unified_diff"));
        json!({ "path": path, "kind": change.get("type"), "diff": diff })
    };
    let changes: Vec<_> = files.into_iter().flatten().take(1000).map(change).collect();
    let diffs = super::item::diffs(&json!({ "changes": changes }));
    let resource = diffs
        .iter()
        .map(|diff| diff.path.as_str())
        .collect::<Vec<_>>()
        .join(", ");
    let reason = text(params, "reason");
    let description = if reason.is_empty() {
        format!("Change {resource}")
    } else {
        reason.to_owned()
    };
    old_options(
        asked(
            Permission::new("Edit", description, resource),
            params,
            "callId",
        )
        .diffs(diffs),
    )
}

/// Names the tool call that waits.
fn asked(permission: Permission, params: &Value, id: &str) -> Permission {
    match call(text(params, id)) {
        Some(call) => permission.tool_call(call),
        None => permission,
    }
}

fn consent(params: &Value, message: &str, server: &str) -> Ask {
    let meta = &params["_meta"];
    let persists = |scope: &str| {
        meta.get("persist").is_some_and(|persist| {
            persist == scope
                || persist
                    .as_array()
                    .is_some_and(|all| all.iter().any(|one| one == scope))
        })
    };
    let action = |action: &str| json!({ "action": action, "content": null, "_meta": null });
    let accept = json!({ "action": "accept", "content": {}, "_meta": null });
    let mut permission = Permission::new(format!("mcp__{server}"), message, server).option(
        "accept",
        "Allow",
        OptionKind::AllowOnce,
    );
    let mut options = vec![("accept".to_owned(), accept.clone())];
    for (scope, label) in [
        ("session", "Allow for this session"),
        ("always", "Always allow"),
    ] {
        if persists(scope) {
            permission = permission.option(scope, label, OptionKind::AllowAlways);
            let answer =
                json!({ "action": "accept", "content": {}, "_meta": { "persist": scope } });
            options.push((scope.to_owned(), answer));
        }
    }
    permission = permission.option("decline", "Deny", OptionKind::RejectOnce);
    let answers = Answers {
        options,
        allow: accept,
        deny: action("decline"),
        end: action("cancel"),
    };
    Ask::Permission(Box::new(permission), answers)
}

#[cfg(test)]
mod tests;
