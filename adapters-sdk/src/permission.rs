//! Asking whether an action may happen.

use trunkline_protocol::{
    Diff, Json, OptionKind, PermissionOption, PermissionRequest, PermissionResponse, RequestId,
    StopReason, ToolCallId, rules::approves,
};

/// An action that waits for a person's word.
///
/// What a host without `control` cannot take (`input`, `title`, `diffs`, `options`) is left out for it.
#[derive(Debug, Clone)]
pub struct Permission {
    request: PermissionRequest,
}

impl Permission {
    /// Asks for `tool` to act on `resource`: a command, a path, an address. `description` is what a
    /// person reads.
    ///
    /// # Panics
    /// Never: the id it carries until it is sent is a fixed one.
    #[must_use]
    pub fn new(
        tool: impl Into<String>,
        description: impl Into<String>,
        resource: impl Into<String>,
    ) -> Self {
        Self {
            request: PermissionRequest {
                request_id: RequestId::new("unsent").expect("six bytes are an id"),
                tool: tool.into(),
                description: Some(description.into()),
                resource: Some(resource.into()),
                input: None,
                title: None,
                tool_call_id: None,
                diffs: None,
                expires_at: None,
                options: None,
                truncated: None,
                message_id: None,
                parent_tool_call_id: None,
                history: None,
            },
        }
    }

    /// Adds the tool's input.
    #[must_use]
    pub fn input(mut self, input: Json) -> Self {
        self.request.input = Some(input);
        self
    }

    /// Adds a headline.
    #[must_use]
    pub fn title(mut self, title: impl Into<String>) -> Self {
        self.request.title = Some(title.into());
        self
    }

    /// Names the tool call that waits.
    #[must_use]
    pub fn tool_call(mut self, call: ToolCallId) -> Self {
        self.request.tool_call_id = Some(call);
        self
    }

    /// Names the tool call of the sub-agent that asks.
    #[must_use]
    pub fn parent(mut self, call: ToolCallId) -> Self {
        self.request.parent_tool_call_id = Some(call);
        self
    }

    /// Shows what the action would change in files.
    #[must_use]
    pub fn diffs(mut self, diffs: Vec<Diff>) -> Self {
        self.request.diffs = Some(diffs);
        self
    }

    /// Sets the time at which the agent gives up, in RFC 3339.
    #[must_use]
    pub fn expires_at(mut self, time: impl Into<String>) -> Self {
        self.request.expires_at = Some(time.into());
        self
    }

    /// Adds a way to answer.
    #[must_use]
    pub fn option(
        mut self,
        id: impl Into<String>,
        label: impl Into<String>,
        kind: OptionKind,
    ) -> Self {
        self.request
            .options
            .get_or_insert_default()
            .push(PermissionOption {
                id: id.into(),
                label: Some(label.into()),
                kind: Some(kind),
            });
        self
    }

    pub(crate) fn into_request(self, id: RequestId) -> PermissionRequest {
        PermissionRequest {
            request_id: id,
            ..self.request
        }
    }
}

/// Reason why an approval of a changed input denies.
pub(crate) const UNCHANGEABLE: &str = "the input was changed, and this agent cannot run a changed one, so it was denied; approve it as it is, or deny it";

/// Returns true if an answer changes the input of a request. The same value in another notation is
/// no change.
pub(crate) fn changes(updated: Option<&Json>, input: Option<&Json>) -> bool {
    let value = |json: &Json| json.to::<serde_json::Value>().ok();
    updated.is_some_and(|updated| input.and_then(value) != value(updated))
}

/// The answer to a [`Permission`]. Without an answer it denies ([permission.3]).
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Decision {
    approved: bool,
    /// The option that was chosen, by its id.
    pub option_id: Option<String>,
    /// The tool's input as the user changed it, if the adapter's capabilities allow it.
    pub updated_input: Option<Json>,
    /// The user's message about it.
    pub message: Option<String>,
    /// True if the turn must end with this denial.
    pub end_turn: bool,
    /// Origin of the decision.
    pub reason: Option<StopReason>,
}

impl Decision {
    /// Returns true if the action may happen.
    #[must_use]
    pub fn is_approved(&self) -> bool {
        self.approved
    }

    /// A denial without an answer: the turn or the session ended first.
    pub(crate) fn denied(reason: Option<StopReason>) -> Self {
        Self {
            reason,
            ..Self::default()
        }
    }

    /// An approval of an input that the tool cannot be run with.
    pub(crate) fn unchangeable(reason: Option<StopReason>) -> Self {
        Self {
            message: Some(UNCHANGEABLE.to_owned()),
            ..Self::denied(reason)
        }
    }

    /// Judges an answer against what was offered ([`approves`]). `always_allow` is short for an option.
    pub(crate) fn from_response(
        response: PermissionResponse,
        options: &[PermissionOption],
    ) -> Self {
        let always = || {
            options
                .iter()
                .find(|option| option.kind == Some(OptionKind::AllowAlways))
        };
        let option_id = response.option_id.or_else(|| {
            let short = response.approved && response.always_allow == Some(true);
            short.then(always).flatten().map(|option| option.id.clone())
        });
        Self {
            approved: approves(response.approved, option_id.as_deref(), options),
            option_id,
            updated_input: response.updated_input,
            message: response.message,
            end_turn: response.end_turn.unwrap_or(false),
            reason: response.reason,
        }
    }
}
