//! Commands between turns: model, mode, new conversation, export and help.

use std::{path::Path, time::Duration};

use anyhow::anyhow;
use trunkline_host::protocol::{SessionInfo, SessionUpdate};

use super::{
    ExportTranscript, slash_command,
    talk::{ChatSession, NextStep},
};
use crate::{
    error::CliError,
    interrupt::{InterruptSignal, InterruptSignals},
    paint,
    session_backend::SessionBackend,
    terminal::one_line,
};

/// Timeout for a change of model or mode.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(30);

/// Limit of listed models, modes or commands.
const MAX_LISTED: usize = 50;

/// Returns the agent's own commands: the text to type, and the description.
pub(super) fn agent_commands(learned: &SessionInfo) -> impl Iterator<Item = (String, String)> {
    learned
        .commands
        .iter()
        .flatten()
        .take(MAX_LISTED)
        .map(|command| {
            let typed = command
                .text
                .as_deref()
                .map_or_else(|| format!("/{}", command.name), str::to_owned);
            let about = [&command.hint, &command.description].into_iter().flatten();
            (
                one_line(&typed),
                about
                    .map(|text| one_line(text))
                    .collect::<Vec<_>>()
                    .join(" · "),
            )
        })
}

impl ChatSession {
    pub(super) fn show_help(&mut self) {
        let of_agent: Vec<_> = agent_commands(&self.conversation.learned).collect();
        let screen = &mut self.conversation.screen;
        slash_command::HELP
            .lines()
            .for_each(|line| screen.remark(line));
        if !of_agent.is_empty() {
            screen.remark("Commands of the agent:");
        }
        for (typed, about) in of_agent {
            screen.remark(format!("{typed:13} {about}").trim_end());
        }
    }

    pub(super) fn list_models(&mut self) {
        let learned = self.conversation.learned.clone();
        let models = learned.models.iter().flatten();
        self.list(
            "model",
            learned.model.as_deref(),
            models.map(|model| (&*model.id, &model.label)),
        );
    }

    pub(super) fn list_modes(&mut self) {
        let learned = self.conversation.learned.clone();
        let modes = learned.modes.iter().flatten();
        self.list(
            "mode",
            learned.mode.as_deref(),
            modes.map(|mode| (&*mode.id, &mode.name)),
        );
    }

    fn list<'a>(
        &mut self,
        what: &str,
        current: Option<&str>,
        list: impl Iterator<Item = (&'a str, &'a Option<String>)>,
    ) {
        let screen = &mut self.conversation.screen;
        match current {
            Some(current) => screen.remark(&format!("{what} {}", one_line(current))),
            None => screen.remark(&format!("the agent has not reported its {what}")),
        }
        for (id, label) in list.take(MAX_LISTED) {
            screen.remark(
                format!(
                    "  {:20} {}",
                    one_line(id),
                    one_line(label.as_deref().unwrap_or_default())
                )
                .trim_end(),
            );
        }
    }

    /// Changes the model or the mode of the live session, and shows the result.
    pub(super) async fn change_options(
        &mut self,
        model: Option<String>,
        mode: Option<String>,
        session: &mut SessionBackend,
        interrupts: &mut InterruptSignals,
    ) -> Result<NextStep, CliError> {
        let update = SessionUpdate {
            model: model.clone(),
            mode: mode.clone(),
            ..SessionUpdate::default()
        };
        let changed = tokio::select! {
            biased;
            interrupt = interrupts.next() => match interrupt {
                InterruptSignal::Key => Err("interrupted by Ctrl-C".to_owned()),
                InterruptSignal::Terminate => return Ok(NextStep::Leave(interrupt.exit_code())),
            },
            changed = session.update(update) => changed.map_err(|error| error.to_string()),
            () = tokio::time::sleep(CHANGE_TIMEOUT) => Err(format!("no answer within {} s", CHANGE_TIMEOUT.as_secs())),
        };
        match changed {
            Ok(info) => {
                for (what, asked, now) in [("model", model, info.model), ("mode", mode, info.mode)]
                {
                    let Some(asked) = asked else { continue };
                    self.show_change(what, &asked, now.as_deref());
                }
            }
            Err(why) => {
                self.conversation
                    .screen
                    .note("✗", paint::BAD, &format!("not changed: {why}"))
            }
        }
        // Events of the change belong above the prompt.
        let closed = self.conversation.catch_up(session).await?;
        self.conversation.screen.space();
        Ok(closed.map_or(NextStep::Talk, |end| NextStep::Leave(self.code_of(&end))))
    }

    fn show_change(&mut self, what: &str, asked: &str, now: Option<&str>) {
        let (mark, style, text) = match now {
            Some(now) if now == asked => ("✓", paint::GOOD, format!("{what} {}", one_line(now))),
            Some(now) => {
                let text = format!("{what} {}, not {}", one_line(now), one_line(asked));
                ("!", paint::CARE, text)
            }
            None => {
                let text = format!("the agent does not report its new {what}");
                ("!", paint::CARE, text)
            }
        };
        self.conversation.screen.note(mark, style, &text);
    }

    /// Resets the state for a new session.
    pub(super) fn reset_conversation(&mut self, session: &SessionBackend) {
        self.conversation.learned = SessionInfo::default();
        self.conversation.transcript = Some(ExportTranscript::new(&self.name_of(session)));
        self.conversation.screen.forget_usage();
        let id = session.is_kept().then(|| format!(": {}", session.id()));
        let text = format!("a new conversation{}", id.unwrap_or_default());
        self.conversation.screen.remark(&text);
        self.conversation.screen.space();
    }

    pub(super) fn export(&mut self, path: &Path) {
        let Some(transcript) = &self.conversation.transcript else {
            return;
        };
        let exported = transcript.export(path);
        let screen = &mut self.conversation.screen;
        match exported {
            Ok(()) => screen.note("↓", paint::ACT, &format!("wrote {}", path.display())),
            Err(error) => {
                let error = anyhow!(error);
                screen.note(
                    "✗",
                    paint::BAD,
                    &format!("failed to write {}: {error:#}", path.display()),
                );
            }
        }
    }
}
