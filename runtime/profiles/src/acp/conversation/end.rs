//! How a turn ended, by the answer to its prompt and by what came before.

use serde_json::Value;
use trunkline_sdk::{Category, Error, Status, TurnComplete};

use super::super::initialize::InitializeResponse;
use super::super::line::Command;
use super::super::process::failure;
use super::turn::Running;
use crate::agent::failure as failures;
use crate::agent::turn::Out;

impl Running<'_> {
    /// How the turn ended. `why` is the reason of an early end.
    pub(super) fn end(
        &mut self,
        initialized: &InitializeResponse,
        why: Option<Error>,
        login_hint: Option<&str>,
        out: &mut Out<Command>,
    ) -> Result<TurnComplete, Error> {
        let answer = self.prompted.take();
        let mut told = Vec::new();
        self.reader
            .end(why.is_none() && matches!(&answer, Some(Ok(_))), &mut told);
        let nothing = Value::Null;
        let said = answer
            .as_ref()
            .and_then(|answer| answer.as_ref().ok())
            .unwrap_or(&nothing);
        let usage = self
            .reader
            .totals
            .of_turn(said, initialized.quirks.running_usage);
        let has_usage = usage
            .as_ref()
            .is_some_and(|usage| usage.output_tokens.is_some_and(|tokens| tokens > 0));
        let held = self.answer.end(said, has_usage);
        if let Ok(Some(held)) = &held {
            self.say(held.clone(), out);
        }
        self.tell(told, out);
        let is_nothing = self
            .reader
            .totals
            .is_nothing(usage.as_ref(), initialized.quirks.running_usage);
        let was_cut_off =
            initialized.quirks.hides_cuts && self.asks_model && self.said && is_nothing;
        let failed_in_silence = initialized.quirks.fails_in_silence
            && self.asks_model
            && !self.said
            && !self.reader.has_called()
            && said["stopReason"].as_str() == Some("end_turn");
        let base = TurnComplete {
            model: usage.as_ref().and_then(|usage| usage.model.clone()),
            usage,
            ..TurnComplete::default()
        };
        match why {
            Some(why) if why.status() == Status::Stopped => {
                let answered = matches!(&answer, Some(Ok(_)));
                let stop_reason = answered.then(|| "cancelled".to_owned());
                return Ok(TurnComplete {
                    status: Some(Status::Stopped),
                    stop_reason,
                    ..base
                });
            }
            Some(why) => return Err(why),
            None => {}
        }
        match answer {
            None => Err(Error::new(
                Category::Timeout,
                "the agent did not end its turn",
            )),
            Some(Err(error)) => {
                let what = format!("{} failed", initialized.called());
                Err(failure(&error, &what, initialized, login_hint))
            }
            Some(Ok(_)) if held.is_err() => {
                let text = held.err().unwrap_or_default();
                let status = text
                    .split_whitespace()
                    .next()
                    .and_then(|word| word.parse().ok());
                let status = status.filter(|status: &u16| (400..600).contains(status));
                Err(failures::failed(text, status))
            }
            Some(Ok(_)) if was_cut_off => {
                let text = "the model's answer broke off: the agent counts no tokens for it";
                Err(Error::new(Category::Overloaded, text))
            }
            Some(Ok(_)) if failed_in_silence => {
                let text =
                    "the agent ended the turn without a word, as it does when its model fails";
                Err(Error::other(text))
            }
            Some(Ok(answer)) => Ok(stopped_by(&answer, base, self.was_denied)),
        }
    }

    /// A silence explained by what the agent has said on stderr, if that names a cause.
    pub(super) fn explained(&self, error: Error, stderr: &str) -> Error {
        if error.failure().category != Some(Category::Timeout) {
            return error;
        }
        if self.repeated {
            let text = format!(
                "the model's answer breaks off, and each time the same comes again: {error}"
            );
            return Error::new(Category::Overloaded, text);
        }
        match failures::classify(stderr, None) {
            Category::Other => error,
            category => {
                let last = stderr
                    .lines()
                    .rev()
                    .find(|line| !line.trim().is_empty())
                    .unwrap_or_default();
                failures::of(category, format!("{error}; it said: {last}"), None)
            }
        }
    }
}

/// The end that a stop reason means.
fn stopped_by(answer: &Value, base: TurnComplete, was_denied: bool) -> TurnComplete {
    let reason = answer["stopReason"].as_str().unwrap_or("end_turn");
    let failure = |category: Category, message: &str| {
        Some(trunkline_sdk::protocol::Failure::new(category, message))
    };
    let (status, error) = match reason {
        // Some agents end a turn by themselves when a permission is denied.
        "cancelled" if was_denied => (Status::Completed, None),
        "cancelled" => (Status::Stopped, None),
        "refusal" => (
            Status::Refused,
            failure(Category::Other, "the model refused to go on"),
        ),
        "max_tokens" => (
            Status::Limit,
            failure(
                Category::ContextExhausted,
                "the model has used up its tokens",
            ),
        ),
        "max_turn_requests" => (
            Status::Limit,
            failure(
                Category::MaxTurns,
                "the model was asked as often as it may be in one turn",
            ),
        ),
        _ => (Status::Completed, None),
    };
    TurnComplete {
        status: Some(status),
        stop_reason: Some(reason.chars().take(100).collect()),
        error,
        ..base
    }
}
