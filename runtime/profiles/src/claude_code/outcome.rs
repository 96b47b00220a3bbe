//! Claude's `result` line: what it reports of the end of a turn.

use serde_json::Value;
use trunkline_sdk::{Category, Error, Json, Status, TurnComplete};

use super::native::{count, is_true, text, texts};
use crate::agent::end::{EndSigns, TurnEnd};
use crate::agent::failure;

/// The longest result, in bytes: every host reads a line of 1 MiB.
const LONGEST_RESULT: usize = 256 * 1024;

/// Error of the API, as an assistant line reports it. Such a line is not part of the answer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct ApiError {
    /// Claude's name for it, such as `rate_limit`.
    pub(super) name: String,
    pub(super) text: String,
    pub(super) status: Option<u16>,
}

/// A `result` line, as far as the turn's end needs it.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct ResultLine {
    /// The inputs that it answers; empty if this version does not report them.
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
    has_no_tokens: bool,
    api_error: Option<ApiError>,
    /// When a provider's limit begins anew.
    resets_at: Option<String>,
    /// An answer by a schema.
    structured: Option<Value>,
}

/// Returns true if Claude reports that it does not know the session, or the message up to which it
/// copies one.
pub(super) fn is_unknown(text: &str) -> bool {
    failure::is_unknown_session(text) || text.contains("No message found with message.uuid")
}

impl ResultLine {
    pub(super) fn read(
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
            has_no_tokens: has_no_tokens(result),
            api_error,
            resets_at,
            structured: result
                .get("structured_output")
                .filter(|output| !output.is_null())
                .cloned(),
        }
    }

    /// Returns true if the turn was cut short: by an interrupt, or by a denial that ends it.
    pub(super) fn is_aborted(&self) -> bool {
        self.terminal_reason.starts_with("aborted")
    }

    /// Returns true if Claude knows no session of the resumed id.
    pub(super) fn is_unknown_session(&self) -> bool {
        self.subtype == "error_during_execution"
            && self.num_turns.unwrap_or(0) == 0
            && is_unknown(&self.errors.join("\n"))
    }

    /// Returns true if its numbers are this turn's. Older versions report zeros for a turn that was
    /// cut short.
    pub(super) fn tells_usage(&self) -> bool {
        !(self.is_aborted() && self.has_no_tokens)
    }

    /// Adds what it reports to the signs of the turn's end.
    pub(super) fn sign(&self, signs: &mut EndSigns) {
        // The tool that gives an answer by a schema asks for no further step.
        let is_answered = self.structured.is_some();
        signs.end_step(
            self.stop_reason
                .as_deref()
                .filter(|_| !is_answered)
                .unwrap_or_default(),
        );
        if self.api_error.is_some() {
            signs.note_error(self.api_failure());
        }
        signs.report(self.report());
    }

    /// The message of the turn's end, which ended so.
    pub(super) fn complete(&self, end: TurnEnd) -> TurnComplete {
        let reason = match &end {
            TurnEnd::Ended(error) if error.status() == Status::Stopped => None,
            TurnEnd::Ended(_) if !self.is_good() => [&self.terminal_reason, &self.subtype]
                .into_iter()
                .find(|reason| !reason.is_empty())
                .cloned(),
            _ => self.stop_reason.clone(),
        };
        end.complete(TurnComplete {
            stop_reason: reason,
            num_turns: self.num_turns,
            duration_ms: self.duration_ms,
            result: self.structured.as_ref().and_then(bounded),
            ..TurnComplete::default()
        })
    }

    /// The end of a turn by this result only.
    #[cfg(test)]
    pub(super) fn end(&self, is_stopped: bool) -> TurnComplete {
        let mut signs = EndSigns::default();
        self.sign(&mut signs);
        signs.cut(is_stopped.then(Error::stopped));
        self.complete(signs.judge())
    }

    /// Returns true if Claude reports a success. An error of the API has the subtype of a success
    /// and is known by `is_error`.
    pub(super) fn is_good(&self) -> bool {
        !self.is_error
            && matches!(self.subtype.as_str(), "" | "success")
            && matches!(self.terminal_reason.as_str(), "" | "completed")
    }

    fn report(&self) -> Result<(), Error> {
        let limit = |category, text| Err(Error::limit(category, self.message(text)));
        match (self.subtype.as_str(), self.terminal_reason.as_str()) {
            _ if self.is_aborted() => Err(Error::stopped()),
            ("error_max_turns", _) | (_, "max_turns") => {
                limit(Category::MaxTurns, "the most turns were taken")
            }
            ("error_max_budget_usd", _) | (_, "budget_exhausted") => {
                limit(Category::UsageLimit, "the budget is used up")
            }
            _ if self.is_good() => Ok(()),
            _ => Err(self.api_failure()),
        }
    }

    fn api_failure(&self) -> Error {
        let fallback = ApiError::default();
        let api_error = self.api_error.as_ref().unwrap_or(&fallback);
        // The text of a success is an answer, not a reason.
        let reported = if self.is_error {
            self.message("")
        } else {
            self.errors.join("; ")
        };
        let word = if matches!(self.subtype.as_str(), "" | "success") {
            &self.terminal_reason
        } else {
            &self.subtype
        };
        let message = match reported {
            message if !message.is_empty() => message,
            _ if !api_error.text.is_empty() => api_error.text.clone(),
            _ => format!("claude ended the turn with {word:?}"),
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
        let error = failure::with_category(category, message, status);
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

/// An answer by a schema as the protocol's JSON, unless it is too long.
fn bounded(output: &Value) -> Option<Json> {
    Json::from_serialize(output)
        .ok()
        .filter(|output| output.get().len() <= LONGEST_RESULT)
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
