//! A turn: the processes that it takes, and the outcome of each.

use serde_json::{Value, json};
use tokio::time::Instant;
use trunkline_sdk::protocol::Usage;
use trunkline_sdk::{Category, Error, Extensions, Input, Turn, TurnComplete};

use super::super::command_line::STEERS;
use super::super::outcome::is_unknown;
use super::super::process::RunningProcess;
use super::super::turn::{Allowed, ClaudeTurn, Memory};
use super::ClaudeConversation;
use crate::agent::attachment::{self, Image, Native};
use crate::agent::deadlines::{Watch, limit_reached, until_stopped, within};
use crate::agent::end::{end_by, undelivered};
use crate::agent::process::ProcessEnd;
use crate::agent::turn::{self, EndCause, Engine, Pipe, TurnFinish};

/// Limit for the processes of a turn: one that has ended unnoticed, one without anything to resume,
/// and a new one.
const MOST_STARTS: usize = 3;

/// Outcome of a turn of a process.
enum ServeOutcome {
    /// To its end; the process can serve the next one.
    Ended(Box<TurnComplete>, Box<RunningProcess>),
    /// The process is gone.
    Lost(Box<TurnComplete>),
    /// The process had ended between turns, unnoticed: it has not taken the input.
    Untaken,
    /// There was nothing to resume.
    Unknown(String),
}

impl ClaudeConversation {
    /// Serves a turn, and gives what is left of the process.
    pub(super) async fn serve(
        &mut self,
        turn: &Turn,
        input: Input,
    ) -> (TurnComplete, Option<RunningProcess>) {
        let content = self.content(input).await;
        let mut unknown = String::new();
        for _ in 0..MOST_STARTS {
            let mut process = match until_stopped(turn, self.at_hand()).await {
                Ok(process) => process,
                Err(error) => return (undelivered(&error), None),
            };
            for event in std::mem::take(&mut process.talk.unsent) {
                turn.emit(event).await;
            }
            match self.serve_with(process, turn, &content).await {
                ServeOutcome::Ended(end, process) => return (*end, Some(*process)),
                ServeOutcome::Lost(end) => return (*end, None),
                ServeOutcome::Untaken => {}
                ServeOutcome::Unknown(why) => {
                    self.forget(&why).await;
                    unknown = why;
                }
            }
        }
        let text = format!("claude begins no session: {unknown}");
        (
            undelivered(&Error::new(Category::SessionNotFound, text)),
            None,
        )
    }

    /// The process of the last turn, or a new one.
    async fn at_hand(&mut self) -> Result<RunningProcess, Error> {
        if let Some(mut idle) = self.idle.take()
            && let Some(process) = idle.end().await.flatten()
        {
            return Ok(process);
        }
        let start = self.options.deadlines.start;
        within(start, self.start()).await.unwrap_or_else(|wait| {
            Err(limit_reached("start_timeout", wait, "claude did not start"))
        })
    }

    /// The input as Claude takes it: images as they are, other files by their paths.
    async fn content(&self, input: Input) -> Vec<Value> {
        let words = self.options.words(&input.content, &self.session);
        let attachments = attachment::read_all(input.files, Native::Images).await;
        let words = attachment::with_paths(&words, &attachments);
        let mut content: Vec<_> = attachment::images(&attachments)
            .map(Image::claude)
            .collect();
        content.push(json!({"type": "text", "text": words}));
        content
    }

    async fn serve_with(
        &mut self,
        mut process: RunningProcess,
        turn: &Turn,
        content: &[Value],
    ) -> ServeOutcome {
        let deadlines = self.options.deadlines;
        let allowed = Allowed {
            steers: self.version.is_none_or(|version| version >= STEERS),
            sub_agents: self.session.agreed().contains(Extensions::EVENTS),
            first_sign: deadlines.start.map(|wait| (Instant::now() + wait, wait)),
        };
        let (mut running, input) =
            ClaudeTurn::begin(&mut process.talk, &mut self.memory, allowed, content);
        let finish = match process.agent.send((&input).into()).await {
            Ok(()) => {
                let engine =
                    Engine::new(running, Watch::new(deadlines)).begin(ClaudeTurn::ask_again);
                let finish;
                (running, finish) =
                    turn::run(engine, &mut process.agent, turn, &mut self.report).await;
                finish
            }
            Err(_) => TurnFinish {
                how: EndCause::Closed,
                why: None,
            },
        };
        running.note();
        match (finish.how, running.outcome.take()) {
            (EndCause::Ended, Some(outcome)) if running.is_unknown(&outcome) => {
                process.kill().await;
                ServeOutcome::Unknown(outcome.message("claude does not know the session"))
            }
            (EndCause::Ended, Some(outcome)) => {
                let end = running.end(&outcome, finish.why);
                ServeOutcome::Ended(Box::new(end), Box::new(process))
            }
            (EndCause::Closed, _) => {
                let is_untaken = finish.why.is_none() && running.was_idle && !running.has_heard;
                let used = running.used;
                if is_untaken {
                    process.end().await;
                    return ServeOutcome::Untaken;
                }
                self.gone(&process.end().await, finish.why, used)
            }
            // The next turn resumes the conversation.
            (EndCause::Late | EndCause::Ended, _) => {
                let used = running.used;
                process.kill().await;
                let why = finish.why.unwrap_or_else(Error::stopped);
                ServeOutcome::Lost(Box::new(TurnComplete {
                    usage: used,
                    ..end_by(&why)
                }))
            }
        }
    }

    /// The process has ended within the turn.
    fn gone(&self, ended: &ProcessEnd, why: Option<Error>, used: Option<Usage>) -> ServeOutcome {
        let Memory {
            resumes, has_begun, ..
        } = self.memory;
        if why.is_none() && resumes && is_unknown(&ended.stderr) {
            return ServeOutcome::Unknown("claude does not know the session".to_owned());
        }
        if why.is_none() && !has_begun && ended.stderr.contains("already in use") {
            // Somebody else has taken the id that was chosen.
            let said = ended
                .stderr
                .lines()
                .find(|line| line.contains("already in use"))
                .unwrap_or_default();
            return ServeOutcome::Unknown(format!(
                "the id that was chosen is taken ({})",
                said.trim()
            ));
        }
        let error = why.unwrap_or_else(|| explained(ended));
        ServeOutcome::Lost(Box::new(TurnComplete {
            exit_code: ended.exit.code,
            signal: ended.exit.signal,
            usage: used,
            ..end_by(&error)
        }))
    }
}

/// The failure of a process, with advice that Claude's own words lack.
fn explained(ended: &ProcessEnd) -> Error {
    let error = ended.error();
    if ended.stderr.contains("cannot be used with root") {
        return Error::refused(
            "claude runs no tool unasked as root: run it as another user, or set IS_SANDBOX=1 in `env` where it is in a sandbox",
        );
    }
    error
}
