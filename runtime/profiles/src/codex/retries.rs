//! Codex while it does nothing but retry. Pure.

use tokio::time::Instant;
use trunkline_sdk::protocol::{AdapterBody, Progress};
use trunkline_sdk::{Category, Error};

use super::Settings;
use super::fault::CodexError;
use super::translate::CodexEvent;
use crate::agent::deadlines::limit_text;
use crate::agent::end::EndSigns;
use crate::agent::failure;
use crate::agent::turn::EffectList;

/// Time for which Codex has done nothing but retry.
pub(super) struct Retries<'s> {
    settings: &'s Settings,
    /// Since when, and why.
    since: Option<(Instant, CodexError)>,
    /// True if Codex reports that it has no login: a retry cannot help.
    has_no_login: bool,
}

impl<'s> Retries<'s> {
    pub(super) fn new(settings: &'s Settings) -> Self {
        Self {
            settings,
            since: None,
            has_no_login: false,
        }
    }

    /// Codex reports that it has no login.
    pub(super) fn has_no_login(&mut self) {
        self.has_no_login = true;
    }

    /// Returns true if Codex does nothing but retry.
    pub(super) fn is_trying(&self) -> bool {
        self.since.is_some()
    }

    /// Emits an event of the turn, and notes it as a sign of the turn's end. Returns true once
    /// Codex has ended the turn.
    pub(super) fn take<C>(
        &mut self,
        event: CodexEvent,
        now: Instant,
        signs: &mut EndSigns,
        out: &mut EffectList<C>,
    ) -> bool {
        match event {
            CodexEvent::Tell(body) => {
                signs.note_event(&body);
                if is_work(&body) {
                    self.works(out);
                }
                out.emit(body);
            }
            CodexEvent::Retries(fault) => {
                let message = failure::message(&fault.told());
                signs.note_error(fault.error());
                let since = self.since.as_ref().map_or(now, |(since, _)| *since);
                self.since = Some((since, fault));
                out.emit(Progress {
                    message,
                    ..Progress::default()
                });
            }
            CodexEvent::Error(fault) => signs.note_error(fault.error()),
            CodexEvent::Ended(end) => {
                end.sign(signs);
                return true;
            }
        }
        false
    }

    /// Codex works.
    pub(super) fn works<C>(&mut self, out: &mut EffectList<C>) {
        out.alive();
        self.since = None;
    }

    /// When the turn has failed.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let (since, _) = self.since.as_ref()?;
        if self.has_no_login {
            Some(*since)
        } else {
            Some(*since + self.settings.retry_timeout.0?)
        }
    }

    /// The failure of a turn in which Codex did nothing but try again.
    pub(super) fn gave_up(&self) -> Error {
        let fault = self
            .since
            .as_ref()
            .map(|(_, fault)| fault.clone())
            .unwrap_or_default();
        if self.has_no_login {
            let why = format!(
                "codex is not logged in, and does not reach its model: {}",
                fault.told()
            );
            return failure::with_category(Category::Auth, why, None);
        }
        let category = match fault.category() {
            Category::Other => Category::Timeout,
            category => category,
        };
        let wait = self.settings.retry_timeout.0.unwrap_or_default();
        let what = format!("codex did nothing but try again: {}", fault.told());
        failure::with_category(category, limit_text("retry_timeout", wait, &what), None)
    }
}

/// Returns true if an event shows that Codex works, rather than that it tries to.
fn is_work(body: &AdapterBody) -> bool {
    !matches!(
        body,
        AdapterBody::Log(_) | AdapterBody::Progress(_) | AdapterBody::RateLimit(_)
    )
}
