//! The text of a turn, watched for a failure that comes as text.

use serde_json::Value;
use trunkline_sdk::protocol::Output;

use super::initialize::FailuresAsText;

/// The longest text that is held back for a look, in bytes.
const LONGEST: usize = 16 * 1024;

/// Answer of a turn so far.
#[derive(Debug, Default)]
pub(crate) struct TurnAnswer {
    watched: FailuresAsText,
    /// Text that may be a failure, until other output follows.
    held: Option<Output>,
    /// True if the agent itself has reported that its model failed.
    failed: bool,
}

impl TurnAnswer {
    pub(crate) fn new(watched: FailuresAsText) -> Self {
        Self {
            watched,
            ..Self::default()
        }
    }

    /// Records the agent's report that its model failed.
    pub(crate) fn system_error(&mut self) {
        self.failed = true;
    }

    /// Takes text. What comes back is the answer; what does not may be a failure.
    pub(crate) fn say(&mut self, output: Output) -> Vec<Output> {
        let held = self.held.take();
        if output.content.len() <= LONGEST && self.looks_like_failure(&output.content) {
            self.held = Some(output);
            return held.into_iter().collect();
        }
        held.into_iter().chain([output]).collect()
    }

    /// Something else than text comes: what was held back is not a failure, since those come last.
    pub(crate) fn goes_on(&mut self) -> Option<Output> {
        self.held.take()
    }

    /// Ends the turn that the agent reports as successful: held text is passed on, unless it is the
    /// failure that it looks like.
    pub(crate) fn end(
        &mut self,
        answer: &Value,
        has_usage: bool,
    ) -> Result<Option<Output>, String> {
        let Some(held) = self.held.take() else {
            return Ok(None);
        };
        let is_failure = match self.watched {
            FailuresAsText::Never => false,
            FailuresAsText::Prefixed => !has_usage,
            FailuresAsText::RawJson | FailuresAsText::Status => {
                self.failed || answer.get("usage").is_none_or(Value::is_null)
            }
        };
        if is_failure {
            Err(failure_text(&held.content))
        } else {
            Ok(Some(held))
        }
    }

    fn looks_like_failure(&self, text: &str) -> bool {
        match self.watched {
            FailuresAsText::Never => false,
            FailuresAsText::Prefixed => text.starts_with("Error: "),
            FailuresAsText::RawJson => self.failed || error_of(text).is_some(),
            FailuresAsText::Status => {
                text.starts_with("HTTP ") || text.starts_with("API call failed after ")
            }
        }
    }
}

/// Returns the provider's error, if the text consists only of that.
fn error_of(text: &str) -> Option<Value> {
    let text = text.trim();
    if !text.starts_with('{') {
        return None;
    }
    let mut json: Value = serde_json::from_str(text).ok()?;
    json.get_mut("error")
        .map(Value::take)
        .filter(|error| !error.is_null())
}

/// Returns the text of a failure for a person.
fn failure_text(text: &str) -> String {
    let text = text.trim();
    let text = text.strip_prefix("Error: ").unwrap_or(text);
    let message = error_of(text).and_then(|error| {
        let message = error
            .get("message")
            .or(Some(&error))
            .and_then(Value::as_str)?;
        let kind = error["type"].as_str().map(|kind| format!(" ({kind})"));
        Some(format!("{message}{}", kind.unwrap_or_default()))
    });
    message.unwrap_or_else(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(watched: FailuresAsText, pieces: &[&str]) -> (String, TurnAnswer) {
        let mut answer = TurnAnswer::new(watched);
        let mut told = String::new();
        for piece in pieces {
            answer
                .say(Output::text(*piece))
                .into_iter()
                .for_each(|output| told.push_str(&output.content));
        }
        (told, answer)
    }

    #[test]
    fn an_error_that_is_all_and_used_no_tokens_is_a_failure() {
        let (told, mut answer) = said(FailuresAsText::Prefixed, &["Error: 400 fake error 400"]);
        assert_eq!(told, "");
        assert_eq!(
            answer.end(&json!({}), false),
            Err("400 fake error 400".to_owned())
        );
    }

    #[test]
    fn text_that_looks_like_an_error_is_text_where_a_model_wrote_it() {
        let (_, mut answer) = said(FailuresAsText::Prefixed, &["Error: handling in Rust"]);
        assert_eq!(
            answer.end(&json!({}), true).unwrap().unwrap().content,
            "Error: handling in Rust"
        );
        let (told, mut answer) = said(FailuresAsText::Prefixed, &["Error: ", "handling"]);
        assert_eq!(told, "Error: handling");
        assert_eq!(answer.end(&json!({}), false), Ok(None));
        let (told, mut answer) = said(FailuresAsText::Never, &["Error: 400"]);
        assert_eq!(
            (told.as_str(), answer.end(&json!({}), false)),
            ("Error: 400", Ok(None))
        );
        let (_, mut answer) = said(FailuresAsText::Prefixed, &["Error: 1"]);
        assert_eq!(answer.goes_on().unwrap().content, "Error: 1");
        assert_eq!(answer.end(&json!({}), false), Ok(None));
    }

    #[test]
    fn raw_json_is_a_failure_where_the_usage_is_null() {
        let text = "{\"error\": {\"message\": \"fake error 400\", \"type\": \"server_error\", \"code\": null}}\n\n";
        let (told, mut answer) = said(FailuresAsText::RawJson, &[text]);
        assert_eq!(told, "");
        assert_eq!(
            answer.end(&json!({"usage": null}), false),
            Err("fake error 400 (server_error)".to_owned())
        );
        let (_, mut answer) = said(FailuresAsText::RawJson, &[text]);
        let usage = json!({"usage": {"inputTokens": 3}});
        assert_eq!(answer.end(&usage, true).unwrap().unwrap().content, text);
        let mut answer = TurnAnswer::new(FailuresAsText::RawJson);
        answer.system_error();
        assert!(answer.say(Output::text("stream disconnected")).is_empty());
        assert_eq!(
            answer.end(&usage, true),
            Err("stream disconnected".to_owned())
        );
    }
}
