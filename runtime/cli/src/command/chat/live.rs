//! What a person changes or asks for between turns: model, mode, a new conversation, an export, help.

use std::{path::Path, time::Duration};

use anyhow::anyhow;
use trunkline_host::protocol::{SessionInfo, SessionUpdate};

use super::{
    Transcript,
    talk::{Next, Talk},
    word,
};
use crate::{
    error::CliError,
    interrupt::{Interrupt, Interrupts},
    paint,
    session_backend::SessionBackend,
    terminal::one_line,
};

/// How long a change may take.
const CHANGE: Duration = Duration::from_secs(30);

/// Models, modes or commands that are shown.
const SHOWN: usize = 50;

/// The agent's own commands: what is typed, and what it does.
pub(super) fn commands(learned: &SessionInfo) -> impl Iterator<Item = (String, String)> {
    learned
        .commands
        .iter()
        .flatten()
        .take(SHOWN)
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

impl Talk {
    pub(super) fn help(&mut self) {
        let of_agent: Vec<_> = commands(&self.conversation.learned).collect();
        let screen = &mut self.conversation.screen;
        word::HELP.lines().for_each(|line| screen.remark(line));
        if !of_agent.is_empty() {
            screen.remark("The agent's own commands:");
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
            None => screen.remark(&format!("the agent has not said which {what} it uses")),
        }
        for (id, label) in list.take(SHOWN) {
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

    /// Changes the live session, and shows what is in force then.
    pub(super) async fn change(
        &mut self,
        update: SessionUpdate,
        session: &mut SessionBackend,
        interrupts: &mut Interrupts,
    ) -> Result<Next, CliError> {
        let asked = update.clone();
        let changed = tokio::select! {
            biased;
            interrupt = interrupts.next() => match interrupt {
                Interrupt::Key => Err("it was not waited for".to_owned()),
                Interrupt::Terminate => return Ok(Next::Leave(interrupt.exit_code())),
            },
            changed = session.update(update) => changed.map_err(|error| error.to_string()),
            () = tokio::time::sleep(CHANGE) => Err(format!("no answer within {} s", CHANGE.as_secs())),
        };
        match changed {
            Ok(info) => {
                for (what, asked, now) in [
                    ("model", asked.model, info.model),
                    ("mode", asked.mode, info.mode),
                ] {
                    let Some(asked) = asked else { continue };
                    self.changed(what, &asked, now.as_deref());
                }
            }
            Err(why) => {
                self.conversation
                    .screen
                    .note("✗", paint::BAD, &format!("not changed: {why}"))
            }
        }
        // What the session reports of it belongs above the prompt.
        let closed = self.conversation.catch_up(session).await?;
        self.conversation.screen.space();
        Ok(closed.map_or(Next::Talk, |end| Next::Leave(self.code_of(&end))))
    }

    fn changed(&mut self, what: &str, asked: &str, now: Option<&str>) {
        let screen = &mut self.conversation.screen;
        match now {
            Some(now) if now == asked => {
                screen.note("✓", paint::GOOD, &format!("{what} {}", one_line(now)))
            }
            Some(now) => screen.note(
                "!",
                paint::CARE,
                &format!("{what} {}, not {}", one_line(now), one_line(asked)),
            ),
            None => screen.note(
                "!",
                paint::CARE,
                &format!("the agent does not say which {what} it uses now"),
            ),
        }
    }

    /// Begins anew: nothing is known of the session yet.
    pub(super) fn anew(&mut self, session: &SessionBackend) {
        self.conversation.learned = SessionInfo::default();
        self.conversation.transcript = Some(Transcript::new(&self.name_of(session)));
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
            Ok(()) => screen.note("↓", paint::ACT, &format!("written into {}", path.display())),
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
