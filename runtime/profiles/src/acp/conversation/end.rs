//! The end of a turn, by the answer to its prompt and by what came before.

use serde_json::Value;
use trunkline_sdk::{Category, Error, Status, TurnComplete};

use super::super::initialize::InitializeResponse;
use super::super::line::Command;
use super::super::process::failure;
use super::turn::AcpTurn;
use crate::agent::failure as failures;
use crate::agent::turn::EffectList;

/// The longest reason that is passed on, in characters.
const MAX_REASON_CHARS: usize = 100;

impl AcpTurn<'_> {
    /// The message of the turn's end. `why` is the reason for an early end.
    pub(super) fn end(
        &mut self,
        initialized: &InitializeResponse,
        why: Option<Error>,
        login_hint: Option<&str>,
        out: &mut EffectList<Command>,
    ) -> TurnComplete {
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
        let mut signs = std::mem::take(&mut self.signs);
        self.tell(told, out);
        let is_stopped = why
            .as_ref()
            .is_some_and(|why| why.status() == Status::Stopped);
        let reason = said["stopReason"].as_str().unwrap_or("end_turn");
        match &answer {
            None => {}
            // The answer to a cancelled prompt is no report of the end.
            Some(Ok(_)) if is_stopped => {}
            Some(Err(error)) => {
                let what = format!("{} failed", initialized.called());
                signs.report(Err(failure(error, &what, initialized, login_hint)));
            }
            Some(Ok(_)) => {
                // Some agents end a turn by themselves when a permission is denied.
                let is_denial = reason == "cancelled" && self.was_denied;
                signs.end_step(if is_denial { "end_turn" } else { reason });
                signs.report(match held {
                    Err(text) => {
                        let status = text
                            .split_whitespace()
                            .next()
                            .and_then(|word| word.parse().ok())
                            .filter(|status: &u16| (400..600).contains(status));
                        Err(failures::failed(text, status))
                    }
                    Ok(_) if was_cut_off => {
                        let text =
                            "the model's answer broke off: the agent counts no tokens for it";
                        Err(Error::new(Category::Overloaded, text))
                    }
                    Ok(_) if failed_in_silence => Err(Error::other(
                        "the agent ended the turn without a word, as it does when its model fails",
                    )),
                    Ok(_) => Ok(()),
                });
            }
        }
        signs.cut(why);
        let stop_reason = match answer {
            Some(Ok(_)) if is_stopped => Some("cancelled".to_owned()),
            Some(Ok(_)) => Some(reason.chars().take(MAX_REASON_CHARS).collect()),
            Some(Err(_)) | None => None,
        };
        signs.judge().complete(TurnComplete {
            stop_reason,
            model: usage.as_ref().and_then(|usage| usage.model.clone()),
            usage,
            ..TurnComplete::default()
        })
    }
}
