//! Codex's requests to its client, as permission requests and questions, and their answers in its
//! format. Pure.

mod question;

use serde_json::{Value, json};
use trunkline_sdk::preview::cut;
use trunkline_sdk::protocol::{Diff, OptionKind};
use trunkline_sdk::{Decision, Json, Permission, Question};

pub(super) use self::question::ValueEncoding;
use self::question::{elicitation, questions};
use super::shell;
use super::translate::{Translator, call};
use crate::agent::read::{list, without_nulls};

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

/// Conversion of a request.
#[derive(Debug)]
pub(super) enum ApprovalRequest {
    /// A person decides.
    Permission(Box<Permission>, DecisionEncoding),
    /// A person is asked for values.
    Question(Question, ValueEncoding),
    /// No one is asked: the method is unknown.
    Unknown,
}

/// Encoding of a decision.
#[derive(Debug, PartialEq)]
pub(super) struct DecisionEncoding {
    /// Answer of each option.
    options: Vec<(String, Value)>,
    allow: Value,
    deny: Value,
    /// The denial that ends the turn.
    end: Value,
}

impl ApprovalRequest {
    /// Reads a request of the app server.
    pub(super) fn from_request(method: &str, params: &Value, translator: &Translator) -> Self {
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

impl DecisionEncoding {
    /// The answer to a person's decision; without an answer a denial.
    pub(super) fn reply(&self, decision: &Decision) -> Value {
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

/// A permission request, and the answer of each of its options.
struct ApprovalOffer {
    permission: Permission,
    options: Vec<(String, Value)>,
}

impl ApprovalOffer {
    fn new(tool: impl Into<String>, description: &str, resource: &str) -> Self {
        Self {
            permission: Permission::new(tool, description, resource),
            options: Vec::new(),
        }
    }

    /// Names the tool call that waits.
    fn for_call(mut self, id: &str) -> Self {
        if let Some(call) = call(id) {
            self.permission = self.permission.tool_call(call);
        }
        self
    }

    fn input(mut self, input: impl Into<Value>) -> Self {
        if let Ok(input) = Json::from_serialize(&input.into()) {
            self.permission = self.permission.input(input);
        }
        self
    }

    fn option(mut self, id: &str, label: &str, kind: OptionKind, answer: Value) -> Self {
        self.permission = self.permission.option(id, label, kind);
        self.options.push((id.to_owned(), answer));
        self
    }

    /// Asks a person. Without a known option, a permission answers `allow`, and a denial `deny`;
    /// one that ends the turn answers `end`.
    fn ask(self, allow: Value, deny: Value, end: Value) -> ApprovalRequest {
        let answers = DecisionEncoding {
            options: self.options,
            allow,
            deny,
            end,
        };
        ApprovalRequest::Permission(Box::new(self.permission), answers)
    }

    /// Offers to decline, and asks as a thread's items do.
    fn ask_of_item(self) -> ApprovalRequest {
        let decline = decision("decline");
        self.option("decline", "Deny", OptionKind::RejectOnce, decline.clone())
            .ask(decision("accept"), decline, decision("cancel"))
    }

    /// Offers the options of the protocol before threads, and asks as it does.
    fn ask_of_conversation(self) -> ApprovalRequest {
        let allow = decision("approved");
        let always = decision("approved_for_session");
        let deny = decision(json!({ "denied": { "rejection": "denied" } }));
        let label = "Allow for this session";
        self.option("approved", "Allow", OptionKind::AllowOnce, allow.clone())
            .option(
                "approved_for_session",
                label,
                OptionKind::AllowAlways,
                always,
            )
            .option("denied", "Deny", OptionKind::RejectOnce, deny.clone())
            .ask(allow, deny, decision("abort"))
    }
}

fn decision(decision: impl Into<Value>) -> Value {
    json!({ "decision": decision.into() })
}

/// Codex's reason for a request, or a description of it.
fn reason_or(params: &Value, description: String) -> String {
    match text(params, "reason") {
        "" => description,
        reason => reason.to_owned(),
    }
}

/// A command, or input to a running one. All decisions are offered that codex takes, whatever
/// `availableDecisions` has: it takes `acceptForSession` and `decline` when it does not name them,
/// too.
fn command(params: &Value) -> ApprovalRequest {
    let script = shell::script(text(params, "command"));
    let (tool, resource, description) = match params["networkApprovalContext"]["host"].as_str() {
        Some(host) => ("network", host, format!("Reach {host}")),
        None if params["kind"].as_str() == Some("writeStdin") => (
            "bash",
            script.as_str(),
            "Type into a running command".to_owned(),
        ),
        None => ("bash", script.as_str(), "Run a command".to_owned()),
    };
    let description = format!("{description}: {}", reason_or(params, script.clone()));
    let mut offer = ApprovalOffer::new(tool, &description, resource)
        .for_call(text(params, "itemId"))
        .input(without_nulls(json!({
            "command": script,
            "cwd": params["cwd"].as_str(),
            "additional_permissions": params.get("additionalPermissions"),
        })))
        .option("accept", "Allow", OptionKind::AllowOnce, decision("accept"))
        .option(
            "acceptForSession",
            "Allow for this session",
            OptionKind::AllowAlways,
            decision("acceptForSession"),
        );
    if let Some(words) = params["proposedExecpolicyAmendment"].as_array() {
        let shown: Vec<_> = words.iter().filter_map(Value::as_str).collect();
        let label = format!("Always allow `{}`", cut(&shown.join(" "), 200));
        let id = "acceptWithExecpolicyAmendment";
        let answer = decision(json!({ id: { "execpolicy_amendment": words } }));
        offer = offer.option(id, &label, OptionKind::AllowAlways, answer);
    }
    let rules = list(params, "proposedNetworkPolicyAmendments").iter();
    for (number, rule) in rules.take(8).enumerate() {
        let host = text(rule, "host");
        let (label, kind) = if text(rule, "action") == "allow" {
            (format!("Always allow {host}"), OptionKind::AllowAlways)
        } else {
            (format!("Always deny {host}"), OptionKind::RejectAlways)
        };
        let amendment = json!({ "network_policy_amendment": rule });
        let answer = decision(json!({ "applyNetworkPolicyAmendment": amendment }));
        let id = format!("applyNetworkPolicyAmendment-{number}");
        offer = offer.option(&id, &label, kind, answer);
    }
    offer.ask_of_item()
}

fn file_change(params: &Value, translator: &Translator) -> ApprovalRequest {
    let diffs = translator.changes(text(params, "itemId"));
    let root = text(params, "grantRoot");
    let resource = if diffs.is_empty() {
        root.to_owned()
    } else {
        paths(&diffs)
    };
    let mut description = reason_or(
        params,
        match root {
            "" => format!("Change {resource}"),
            root => format!("Change files below {root}"),
        },
    );
    description.truncate(description.floor_char_boundary(4096));
    let tool = match diffs.first() {
        Some(diff) if diff.patch.is_none() && diff.old_text.is_none() => "Write",
        Some(diff) if diff.patch.is_none() && diff.new_text.is_none() => "Delete",
        _ => "Edit",
    };
    let always = "Allow such changes for this session";
    let mut offer = ApprovalOffer::new(tool, &description, &resource)
        .for_call(text(params, "itemId"))
        .option("accept", "Allow", OptionKind::AllowOnce, decision("accept"))
        .option(
            "acceptForSession",
            always,
            OptionKind::AllowAlways,
            decision("acceptForSession"),
        );
    offer.permission = offer.permission.diffs(diffs);
    offer.ask_of_item()
}

/// Codex asks for more than its sandbox allows; what is granted is written whole.
fn permissions(params: &Value) -> ApprovalRequest {
    let wanted = params
        .get("permissions")
        .cloned()
        .unwrap_or_else(|| json!({}));
    let description = reason_or(params, "Allow more than the sandbox does".to_owned());
    let grant = |scope: &str| json!({ "permissions": wanted, "scope": scope });
    let deny = json!({ "permissions": {}, "scope": "turn" });
    let once = "Allow for this turn";
    let always = "Allow for this session";
    ApprovalOffer::new(
        "request_permissions",
        &description,
        &cut(&wanted.to_string(), 1000),
    )
    .for_call(text(params, "itemId"))
    .option("turn", once, OptionKind::AllowOnce, grant("turn"))
    .option("session", always, OptionKind::AllowAlways, grant("session"))
    .option("deny", "Deny", OptionKind::RejectOnce, deny.clone())
    .input(wanted.clone())
    .ask(grant("turn"), deny.clone(), deny)
}

fn old_command(params: &Value) -> ApprovalRequest {
    let words: Vec<_> = list(params, "command")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let line = match words[..] {
        [shell, "-lc" | "-c", script] if shell.ends_with("sh") => script.to_owned(),
        _ => words.join(" "),
    };
    let description = reason_or(params, format!("Run a command: {line}"));
    ApprovalOffer::new("bash", &description, &line)
        .for_call(text(params, "callId"))
        .input(json!({ "command": line, "cwd": params.get("cwd") }))
        .ask_of_conversation()
}

fn old_patch(params: &Value) -> ApprovalRequest {
    let files = params["fileChanges"].as_object();
    let change = |(path, change): (&String, &Value)| {
        let diff = change.get("content").or_else(|| change.get("unified_diff"));
        json!({ "path": path, "kind": change.get("type"), "diff": diff })
    };
    let changes: Vec<_> = files.into_iter().flatten().take(1000).map(change).collect();
    let diffs = super::item::diffs(&json!({ "changes": changes }));
    let resource = paths(&diffs);
    let description = reason_or(params, format!("Change {resource}"));
    let mut offer =
        ApprovalOffer::new("Edit", &description, &resource).for_call(text(params, "callId"));
    offer.permission = offer.permission.diffs(diffs);
    offer.ask_of_conversation()
}

fn paths(diffs: &[Diff]) -> String {
    let paths: Vec<_> = diffs.iter().map(|diff| diff.path.as_str()).collect();
    paths.join(", ")
}

fn consent(params: &Value, message: &str, server: &str) -> ApprovalRequest {
    let persist = &params["_meta"]["persist"];
    let persists = |scope: &str| {
        let scopes = persist.as_array().map_or(&[][..], Vec::as_slice);
        persist == scope || scopes.iter().any(|one| one == scope)
    };
    let action = |action: &str| json!({ "action": action, "content": null, "_meta": null });
    let accept = |meta: Value| json!({ "action": "accept", "content": {}, "_meta": meta });
    let mut offer = ApprovalOffer::new(format!("mcp__{server}"), message, server).option(
        "accept",
        "Allow",
        OptionKind::AllowOnce,
        accept(Value::Null),
    );
    for (scope, label) in [
        ("session", "Allow for this session"),
        ("always", "Always allow"),
    ] {
        if persists(scope) {
            let answer = accept(json!({ "persist": scope }));
            offer = offer.option(scope, label, OptionKind::AllowAlways, answer);
        }
    }
    offer
        .option("decline", "Deny", OptionKind::RejectOnce, action("decline"))
        .ask(accept(Value::Null), action("decline"), action("cancel"))
}

#[cfg(test)]
mod tests;
