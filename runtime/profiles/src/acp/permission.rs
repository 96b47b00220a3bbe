//! `session/request_permission`: what the host is asked, and which option its answer chooses.

use serde_json::{Value, json};
use trunkline_sdk::protocol::{OptionKind, StopReason};
use trunkline_sdk::{Decision, Permission, ToolCallId};

use super::content::Content;
use super::read::{json, list, text};

/// The most options that are shown.
const MOST_OPTIONS: usize = 32;

/// The longest text of a request, in bytes.
const LONGEST: usize = 16 * 1024;

/// A way to answer that the agent offers. Options of an unknown kind are not shown, because their
/// effect is unknown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentChoice {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) kind: OptionKind,
}

/// Answer to an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PermissionOutcome {
    /// This option.
    Selected(String),
    /// No option: the turn is being stopped, or no option matches the answer.
    Cancelled,
}

impl PermissionOutcome {
    /// As the agent reads it.
    pub(crate) fn to_json(&self) -> Value {
        match self {
            Self::Selected(id) => json!({ "outcome": { "outcome": "selected", "optionId": id } }),
            Self::Cancelled => json!({ "outcome": { "outcome": "cancelled" } }),
        }
    }
}

/// The options of a request.
pub(crate) fn offered(params: &Value) -> Vec<AgentChoice> {
    let read = |option: &Value| {
        let kind = OptionKind::named(text(option, "kind")?)?;
        let id = text(option, "optionId")?;
        Some(AgentChoice {
            id: id.to_owned(),
            name: cut(text(option, "name").unwrap_or(id)),
            kind,
        })
    };
    list(params, "options")
        .iter()
        .take(MOST_OPTIONS)
        .filter_map(read)
        .collect()
}

/// Returns the request for the host. `tool` is the tool's name as far as it is known.
pub(crate) fn request(
    params: &Value,
    tool: &str,
    call: Option<ToolCallId>,
    offered: &[AgentChoice],
) -> Permission {
    let tool_call = &params["toolCall"];
    let input = &tool_call["rawInput"];
    let content = Content::from_tool_call(tool_call);
    let title = text(tool_call, "title");
    let resource = resource(tool_call, input).or(title).unwrap_or(tool);
    let description = match (title, content.text.as_str()) {
        (Some(title), "") => title.to_owned(),
        (Some(title), said) => format!("{title}\n{said}"),
        (None, "") => resource.to_owned(),
        (None, said) => said.to_owned(),
    };
    let mut permission = Permission::new(tool, cut(&description), cut(resource));
    if let Some(title) = title {
        permission = permission.title(cut(title));
    }
    if let Some(input) = json(input) {
        permission = permission.input(input);
    }
    if let Some(call) = call {
        permission = permission.tool_call(call);
    }
    if !content.diffs.is_empty() {
        permission = permission.diffs(content.diffs);
    }
    offered.iter().fold(permission, |permission, option| {
        permission.option(&option.id, &option.name, option.kind)
    })
}

/// Returns the target of the tool: its command, its path, its address.
pub(crate) fn resource<'v>(tool_call: &'v Value, input: &'v Value) -> Option<&'v str> {
    [
        "command",
        "cmd",
        "file_path",
        "filePath",
        "filepath",
        "path",
        "url",
        "uri",
        "query",
        "pattern",
    ]
    .iter()
    .find_map(|name| text(input, name))
    .or_else(|| {
        list(tool_call, "locations")
            .iter()
            .find_map(|location| text(location, "path"))
    })
}

/// Decision of the host.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HostDecision<'a> {
    approved: bool,
    option: Option<&'a str>,
    /// No one decided: the turn or the session ends.
    ends: bool,
}

impl<'a> HostDecision<'a> {
    pub(crate) fn from_decision(decision: &'a Decision) -> Self {
        Self {
            approved: decision.is_approved(),
            option: decision.option_id.as_deref(),
            ends: matches!(
                decision.reason,
                Some(StopReason::Stopped | StopReason::Shutdown)
            ),
        }
    }
}

/// Returns the option for a decision. A denial never chooses an option that allows; an approval for
/// once never one that allows forever.
pub(crate) fn outcome(word: HostDecision<'_>, offered: &[AgentChoice]) -> PermissionOutcome {
    if word.ends {
        return PermissionOutcome::Cancelled;
    }
    let of_kind = |kind: OptionKind| offered.iter().find(|option| option.kind == kind);
    let chosen = word
        .option
        .and_then(|id| offered.iter().find(|option| option.id == id))
        .filter(|option| option.kind.allows() == word.approved);
    let reject = || of_kind(OptionKind::RejectOnce).or_else(|| of_kind(OptionKind::RejectAlways));
    let by_default = || {
        if word.approved {
            of_kind(OptionKind::AllowOnce)
        } else {
            reject()
        }
    };
    // An approval that no option can express is not an approval.
    let denied = || reject().filter(|_| word.approved);
    chosen
        .or_else(by_default)
        .or_else(denied)
        .map_or(PermissionOutcome::Cancelled, |option| {
            PermissionOutcome::Selected(option.id.clone())
        })
}

/// The option of a policy: once, never forever.
pub(crate) fn by_policy(allowed: bool, offered: &[AgentChoice]) -> PermissionOutcome {
    let wanted = if allowed {
        OptionKind::AllowOnce
    } else {
        OptionKind::RejectOnce
    };
    let option = offered
        .iter()
        .find(|option| option.kind == wanted)
        .or_else(|| {
            offered
                .iter()
                .find(|option| option.kind.allows() == allowed)
        });
    option.map_or(PermissionOutcome::Cancelled, |option| {
        PermissionOutcome::Selected(option.id.clone())
    })
}

/// Returns true if an outcome lets the tool run.
pub(crate) fn allows(outcome: &PermissionOutcome, offered: &[AgentChoice]) -> bool {
    matches!(outcome, PermissionOutcome::Selected(id) if offered.iter().any(|option| option.id == *id && option.kind.allows()))
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(LONGEST)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(kinds: &[(&str, &str)]) -> Vec<AgentChoice> {
        let options: Vec<Value> = kinds
            .iter()
            .map(|(id, kind)| json!({ "optionId": id, "name": id, "kind": kind }))
            .collect();
        offered(&json!({ "options": options }))
    }

    fn chosen(approved: bool, option: Option<&str>, offered: &[AgentChoice]) -> PermissionOutcome {
        outcome(
            HostDecision {
                approved,
                option,
                ends: false,
            },
            offered,
        )
    }

    fn selected(id: &str) -> PermissionOutcome {
        PermissionOutcome::Selected(id.to_owned())
    }

    #[test]
    fn an_answer_chooses_an_option_of_its_own_kind() {
        let gemini = options(&[
            ("proceed_always", "allow_always"),
            ("proceed_once", "allow_once"),
            ("cancel", "reject_once"),
        ]);
        assert_eq!(chosen(true, None, &gemini), selected("proceed_once"));
        assert_eq!(
            chosen(true, Some("proceed_always"), &gemini),
            selected("proceed_always")
        );
        assert_eq!(chosen(false, None, &gemini), selected("cancel"));
        assert_eq!(
            chosen(false, Some("proceed_once"), &gemini),
            selected("cancel")
        );
        assert_eq!(
            chosen(true, Some("cancel"), &gemini),
            selected("proceed_once")
        );
        assert_eq!(
            outcome(
                HostDecision {
                    approved: true,
                    option: None,
                    ends: true
                },
                &gemini
            ),
            PermissionOutcome::Cancelled
        );
    }

    #[test]
    fn a_denial_never_allows_and_once_is_never_for_ever() {
        let allows = options(&[
            ("a", "allow_once"),
            ("b", "allow_always"),
            ("c", "of_unknown_kind"),
        ]);
        assert_eq!(allows.len(), 2);
        assert_eq!(chosen(false, None, &allows), PermissionOutcome::Cancelled);
        assert_eq!(
            chosen(false, Some("a"), &allows),
            PermissionOutcome::Cancelled
        );
        let always = options(&[("b", "allow_always"), ("r", "reject_always")]);
        assert_eq!(chosen(true, None, &always), selected("r"));
        assert_eq!(chosen(true, Some("b"), &always), selected("b"));
        assert_eq!(chosen(false, None, &always), selected("r"));
        assert_eq!(chosen(true, None, &[]), PermissionOutcome::Cancelled);
        assert!(!super::allows(&chosen(true, None, &always), &always));
    }

    #[test]
    fn a_policy_chooses_once_where_it_can() {
        let both = options(&[
            ("b", "allow_always"),
            ("a", "allow_once"),
            ("r", "reject_once"),
        ]);
        assert_eq!(by_policy(true, &both), selected("a"));
        assert_eq!(by_policy(false, &both), selected("r"));
        assert_eq!(
            by_policy(false, &options(&[("a", "allow_once")])),
            PermissionOutcome::Cancelled
        );
    }

    #[test]
    fn any_shape_is_asked_about() {
        for params in [
            json!(null),
            json!({"options": {}}),
            json!({"options": [1, {"kind": []}], "toolCall": "x"}),
        ] {
            let options = offered(&params);
            assert!(options.is_empty());
            drop(request(&params, "tool", None, &options));
        }
    }
}
