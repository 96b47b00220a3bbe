//! Category of Codex's failures: by its error's `codexErrorInfo`, otherwise by its text.

use serde_json::Value;
use trunkline_sdk::{Category, Error};

use crate::agent::failure;

/// An error as Codex reports it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct CodexError {
    pub(super) message: String,
    details: String,
    /// The name of the error, such as `usageLimitExceeded`.
    info: String,
    http: Option<u16>,
}

/// Names that determine the category by themselves. All others (`other`, `httpConnectionFailed`, …)
/// leave it to the status and the text.
const KINDS: &[(&str, Category)] = &[
    ("contextWindowExceeded", Category::ContextExhausted),
    ("sessionBudgetExceeded", Category::UsageLimit),
    ("usageLimitExceeded", Category::UsageLimit),
    ("rateLimitExceeded", Category::RateLimit),
    ("flexUnavailable", Category::Overloaded),
    ("serverOverloaded", Category::Overloaded),
    ("policyCapacityUnavailable", Category::Overloaded),
    ("modelNotFound", Category::ModelNotFound),
    ("unauthorized", Category::Auth),
    ("tooManyDenials", Category::PermissionDenied),
];

/// The names of a model or provider that declines.
const REFUSALS: &[&str] = &[
    "cyberPolicy",
    "misalignmentPolicyViolation",
    "inferenceHookDenied",
];

impl CodexError {
    /// Reads an error object of any shape: `{message, codexErrorInfo, additionalDetails}`,
    /// `{message}`, or a text.
    pub(super) fn from_error(error: &Value) -> Self {
        let text = |key: &str| error[key].as_str().unwrap_or_default().to_owned();
        let message = match error.as_str() {
            Some(message) => message.to_owned(),
            None => text("message"),
        };
        let info = error
            .get("codexErrorInfo")
            .or_else(|| error.get("codex_error_info"));
        let (info, http) = match info {
            Some(Value::String(name)) => (name.clone(), None),
            Some(Value::Object(members)) => {
                let (name, inner) = members
                    .iter()
                    .next()
                    .map_or(("", &Value::Null), |(n, i)| (n, i));
                let status = ["httpStatusCode", "http_status_code"]
                    .iter()
                    .find_map(|key| inner.get(*key));
                let status = status
                    .and_then(Value::as_u64)
                    .and_then(|status| u16::try_from(status).ok());
                (name.to_owned(), status)
            }
            _ => (String::new(), None),
        };
        Self {
            message,
            details: text("additionalDetails"),
            info: camel(&info),
            http,
        }
    }

    /// Returns the text for a person: the message, and additional details.
    pub(super) fn told(&self) -> String {
        match (self.message.trim(), self.details.trim()) {
            ("", "") => "codex gives no reason".to_owned(),
            ("", text) | (text, "") => text.to_owned(),
            (message, details) if message.contains(details) => message.to_owned(),
            (message, details) => format!("{message} ({details})"),
        }
    }

    /// Returns the variable that Codex's configuration requires (`env_key`) and that is not set. A
    /// login does not replace it.
    fn missing_variable(&self) -> Option<&str> {
        let (_, rest) = self.message.split_once("Missing environment variable: `")?;
        let (name, _) = rest.split_once('`')?;
        let is_part = |char: char| char.is_ascii_alphanumeric() || char == '_';
        name.chars().all(is_part).then_some(name)
    }

    /// The kind of failure.
    pub(super) fn category(&self) -> Category {
        if self.missing_variable().is_some() {
            return Category::Other;
        }
        let known = KINDS
            .iter()
            .find(|(name, _)| *name == self.info)
            .map(|(_, category)| *category);
        known.unwrap_or_else(|| match failure::classify(&self.told(), self.http) {
            Category::Other if self.info == "internalServerError" => Category::Overloaded,
            category => category,
        })
    }

    /// The end of a turn that failed with it.
    pub(super) fn error(&self) -> Error {
        if REFUSALS.contains(&self.info.as_str()) {
            return Error::refused(failure::message(&self.told())).code(self.info.clone());
        }
        if let Some(name) = self.missing_variable() {
            let told = self.told();
            let next = format!(
                "{}, which Codex's configuration requires; pass it on by `--env {name}`, or name it in \
                 `env_passthrough` of the agent's configuration",
                told.trim_end_matches('.')
            );
            return Error::new(Category::Other, next);
        }
        let error = failure::with_category(self.category(), self.told(), self.http);
        match self.http {
            None if !self.info.is_empty() && self.info != "other" => error.code(self.info.clone()),
            _ => error,
        }
    }
}

/// `usage_limit_exceeded` as `usageLimitExceeded`: older versions write so.
fn camel(name: &str) -> String {
    let mut parts = name.split('_');
    let mut camel = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let mut chars = part.chars();
        camel.extend(chars.next().map(|first| first.to_ascii_uppercase()));
        camel.push_str(chars.as_str());
    }
    camel
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use trunkline_sdk::Status;

    use super::*;

    #[test]
    fn the_kind_comes_from_the_name_the_status_and_the_words() {
        let of = |info: Value, message: &str| {
            CodexError::from_error(
                &json!({"message": message, "codexErrorInfo": info, "additionalDetails": null}),
            )
        };
        for (info, message, category, code) in [
            (
                json!({"httpConnectionFailed": {"httpStatusCode": 401}}),
                "unexpected status 401",
                Category::Auth,
                Some("401"),
            ),
            (
                json!({"responseTooManyFailedAttempts": {"httpStatusCode": 429}}),
                "exceeded retry limit",
                Category::RateLimit,
                Some("429"),
            ),
            (
                json!("internalServerError"),
                "it broke",
                Category::Overloaded,
                Some("internalServerError"),
            ),
            (
                json!("usageLimitExceeded"),
                "x",
                Category::UsageLimit,
                Some("usageLimitExceeded"),
            ),
            (
                json!("context_window_exceeded"),
                "x",
                Category::ContextExhausted,
                Some("contextWindowExceeded"),
            ),
            (
                json!("other"),
                "Missing environment variable: `FAKE_KEY`.",
                Category::Other,
                None,
            ),
            (
                json!("other"),
                "stream disconnected before completion",
                Category::Other,
                None,
            ),
            (json!(7), "x", Category::Other, None),
            (json!({}), "x", Category::Other, None),
        ] {
            let error = of(info.clone(), message).error();
            let failure = error.failure();
            assert_eq!(
                (failure.category, failure.code.as_deref()),
                (Some(category), code),
                "{info}"
            );
        }
        let missing = of(json!("other"), "Missing environment variable: `FAKE_KEY`.").error();
        let message = missing.failure().message.clone().unwrap();
        assert!(message.contains("`--env FAKE_KEY`"), "{message}");
        assert!(message.contains("`env_passthrough`"), "{message}");
        assert!(!message.contains("log in"), "{message}");
        assert_eq!(
            of(json!("cyberPolicy"), "no").error().status(),
            Status::Refused
        );
        assert_eq!(
            of(json!("usageLimitExceeded"), "x").error().status(),
            Status::Limit
        );
    }

    #[test]
    fn any_shape_is_read() {
        for (error, told) in [
            (json!("words"), "words"),
            (json!({"message": 5}), "codex gives no reason"),
            (json!(null), "codex gives no reason"),
            (json!({"message": "a", "additionalDetails": "b"}), "a (b)"),
            (json!({"message": "a b", "additionalDetails": "b"}), "a b"),
        ] {
            assert_eq!(CodexError::from_error(&error).told(), told, "{error}");
        }
    }
}
