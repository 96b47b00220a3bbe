//! How a turn ended, by Claude's `result` and what it said before.

use serde_json::{Value, json};
use trunkline_sdk::protocol::Failure;
use trunkline_sdk::{Category, Error, Json, Status, TurnComplete};

use super::native::{count, is_true, list, text, texts};
use crate::agent::failure;

/// The longest result, in bytes: every host reads a line of 1 MiB.
const LONGEST_RESULT: usize = 256 * 1024;

/// What an assistant line says of an error of the API. Such a line is not part of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ApiError {
    /// Claude's name for it, such as `rate_limit`.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) status: Option<u16>,
}

/// A `result` line, as far as it says how the turn ended.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Outcome {
    /// The inputs that it answers; empty where this version does not tell.
    pub(super) answers: Vec<String>,
    subtype: String,
    is_error: bool,
    /// The text of the answer, or of the error.
    pub(super) text: String,
    errors: Vec<String>,
    terminal_reason: String,
    stop_reason: Option<String>,
    status: Option<u16>,
    pub(super) num_turns: Option<u64>,
    pub(super) duration_ms: Option<u64>,
    /// The tools that were denied without asking.
    pub(super) denials: usize,
    has_no_tokens: bool,
    api_error: Option<ApiError>,
    /// When a provider's limit begins anew.
    resets_at: Option<String>,
    /// An answer by a schema.
    structured: Option<Value>,
}

impl Outcome {
    pub(super) fn of(
        result: &Value,
        api_error: Option<ApiError>,
        resets_at: Option<String>,
    ) -> Self {
        let mut answers = texts(result, "user_message_uuids");
        if answers.is_empty() {
            answers.extend(text(result, "user_message_uuid").map(str::to_owned));
        }
        let owned = |name: &str| text(result, name).unwrap_or_default().to_owned();
        Self {
            answers,
            subtype: owned("subtype"),
            is_error: is_true(result, "is_error"),
            text: owned("result"),
            errors: texts(result, "errors"),
            terminal_reason: owned("terminal_reason"),
            stop_reason: text(result, "stop_reason").map(str::to_owned),
            status: http(result),
            num_turns: count(result, "num_turns"),
            duration_ms: count(result, "duration_ms"),
            denials: list(result, "permission_denials").len(),
            has_no_tokens: has_no_tokens(result),
            api_error,
            resets_at,
            structured: result
                .get("structured_output")
                .filter(|output| !output.is_null())
                .cloned(),
        }
    }

    /// Whether something cut the turn short: an interrupt, or a denial that ends it.
    pub(super) fn is_aborted(&self) -> bool {
        self.terminal_reason.starts_with("aborted")
    }

    /// Whether there is no session of the id that was to be resumed.
    pub(super) fn is_unknown_session(&self) -> bool {
        self.subtype == "error_during_execution"
            && self.num_turns.unwrap_or(0) == 0
            && failure::is_unknown_session(&self.errors.join("\n"))
    }

    /// Whether it is not an answer.
    pub(super) fn is_failure(&self) -> bool {
        self.error().is_some()
    }

    /// Whether its numbers are this turn's. Of one that was cut short older versions tell zeros.
    pub(super) fn tells_usage(&self) -> bool {
        !(self.is_aborted() && self.has_no_tokens)
    }

    /// The turn's end. A stop that was asked for is reported as such whatever else the result says of it.
    pub(super) fn end(&self, stopping: bool) -> TurnComplete {
        let told = TurnComplete {
            stop_reason: self.stop_reason.clone(),
            num_turns: self.num_turns,
            duration_ms: self.duration_ms,
            result: self.result(),
            ..TurnComplete::default()
        };
        let cut = self.is_aborted() || (self.is_error && self.subtype == "error_during_execution");
        if stopping && cut {
            // Why it was stopped is the host's to say.
            return TurnComplete {
                status: Some(Status::Stopped),
                stop_reason: None,
                ..told
            };
        }
        match self.error() {
            None => TurnComplete {
                status: Some(Status::Completed),
                ..told
            },
            Some(error) => TurnComplete {
                status: Some(error.status()),
                error: Some(error.failure().clone())
                    .filter(|failure| *failure != Failure::default()),
                ..told
            },
        }
    }

    /// What Claude says of the end beside its text: the kind, and an answer by a schema.
    fn result(&self) -> Option<Json> {
        if self.subtype.is_empty() {
            return None;
        }
        let mut result = json!({ "subtype": self.subtype });
        if !self.terminal_reason.is_empty() {
            result["terminal_reason"] = self.terminal_reason.as_str().into();
        }
        if self.denials > 0 {
            result["permission_denials"] = self.denials.into();
        }
        if let Some(output) = &self.structured {
            result["structured_output"] = output.clone();
        }
        Json::of(&result)
            .ok()
            .filter(|result| result.get().len() <= LONGEST_RESULT)
    }

    /// What went wrong, if anything. An error of the API calls itself a success and is known by `is_error`.
    fn error(&self) -> Option<Error> {
        if self.is_aborted() {
            return Some(Error::stopped());
        }
        match (self.subtype.as_str(), self.terminal_reason.as_str()) {
            ("error_max_turns", _) | (_, "max_turns") => {
                return Some(Error::limit(
                    Category::MaxTurns,
                    self.message("the most turns were taken"),
                ));
            }
            ("error_max_budget_usd", _) | (_, "budget_exhausted") => {
                return Some(Error::limit(
                    Category::UsageLimit,
                    self.message("the budget is used up"),
                ));
            }
            _ => {}
        }
        let failed = self.is_error || (!self.subtype.is_empty() && self.subtype != "success");
        if failed {
            return Some(self.api_failure());
        }
        match self.stop_reason.as_deref() {
            Some("refusal") => Some(Error::refused("the model declined to answer")),
            Some("max_tokens") => Some(Error::limit(
                Category::Other,
                "the answer is as long as the model may make one",
            )),
            Some("model_context_window_exceeded") => Some(Error::limit(
                Category::ContextExhausted,
                "the model's context is full",
            )),
            _ => None,
        }
    }

    fn api_failure(&self) -> Error {
        let fallback = ApiError::default();
        let api_error = self.api_error.as_ref().unwrap_or(&fallback);
        let message = match self.message("") {
            message if !message.is_empty() => message,
            _ if !api_error.text.is_empty() => api_error.text.clone(),
            _ => format!("claude ended the turn with {:?}", self.subtype),
        };
        let status = self.status.or(api_error.status);
        let said = failure::classify(&message, status);
        let category = match api_error.name.as_str() {
            "authentication_failed" | "oauth_org_not_allowed" => Category::Auth,
            "billing_error" => Category::Billing,
            "rate_limit" if said == Category::UsageLimit => said,
            "rate_limit" => Category::RateLimit,
            "overloaded" => Category::Overloaded,
            "model_not_found" => Category::ModelNotFound,
            "server_error" if said == Category::Other => Category::Overloaded,
            _ => said,
        };
        let error = failure::of(category, message, status);
        match &self.resets_at {
            Some(time) if matches!(category, Category::RateLimit | Category::UsageLimit) => {
                error.retry_at(time.clone())
            }
            _ => error,
        }
    }

    /// The text of the error, without what is for Claude's own makers.
    pub(super) fn message(&self, otherwise: &str) -> String {
        if !self.text.is_empty() {
            return self.text.clone();
        }
        let errors: Vec<_> = self
            .errors
            .iter()
            .filter(|error| !error.starts_with("[ede_diagnostic]"))
            .cloned()
            .collect();
        if errors.is_empty() {
            otherwise.to_owned()
        } else {
            errors.join("; ")
        }
    }
}

fn has_no_tokens(result: &Value) -> bool {
    let since = result["model_usage_since_last_result"].as_object();
    let used = &result["usage"];
    let none = |name: &str| count(used, name).unwrap_or(0) == 0;
    since.is_none_or(serde_json::Map::is_empty) && none("input_tokens") && none("output_tokens")
}

/// The HTTP status that an error names.
pub(super) fn http(value: &Value) -> Option<u16> {
    count(value, "api_error_status").and_then(|status| u16::try_from(status).ok())
}

#[cfg(test)]
mod tests;
