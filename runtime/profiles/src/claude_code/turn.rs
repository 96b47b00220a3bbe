//! A turn, from the input to Claude's `result` for it. Pure.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;
use trunkline_sdk::protocol::{AdapterBody, Context, Output, StopReason, Usage};
use trunkline_sdk::{Error, SessionInfo, TurnComplete};
use uuid::Uuid;

use super::command_line::STEERS;
use super::control;
use super::event::ClaudeEvent;
use super::outcome::ResultLine;
use super::talk::{ProcessDialogue, whole};
use super::translate::Translator;
use super::usage::{self, Total};
use crate::agent::deadlines::limit_reached;
use crate::agent::end::EndSigns;
use crate::agent::lines::AgentLine;
use crate::agent::turn::{Dialect, EffectList, Grace, LineOut, UserReply};

/// Timeout for the end of an interrupted turn. The next turn then has another process.
pub(super) const INTERRUPT: Duration = Duration::from_secs(5);

/// The part of the conversation that Claude's lines change.
#[derive(Debug)]
pub(super) struct Memory {
    /// Claude's id of the conversation.
    pub(super) native: String,
    /// True if there is something to resume under that id.
    pub(super) has_begun: bool,
    /// True until the host knows whether the conversation that it named is continued.
    pub(super) resumes: bool,
    /// True until Claude has copied the conversation `native`, which stays as it is.
    pub(super) copies: bool,
    /// The last message of Claude's, by which a copy of the conversation up to it is made.
    pub(super) last_message: Option<String>,
    pub(super) cost: Total,
    /// The model and the mode in force, as they were last reported to the host.
    pub(super) model: Option<String>,
    pub(super) mode: Option<String>,
}

impl Memory {
    /// A conversation of which nothing is known yet but what it is called.
    pub(super) fn new(native: String) -> Self {
        Self {
            native,
            has_begun: false,
            resumes: false,
            copies: false,
            last_message: None,
            cost: Total::NEW,
            model: None,
            mode: None,
        }
    }

    /// Keeps what a process has reported.
    pub(super) fn heard(&mut self, translator: &Translator) {
        let told = |told: &Option<String>, known: &mut Option<String>| {
            if told.is_some() {
                known.clone_from(told);
            }
        };
        told(&translator.told.model, &mut self.model);
        told(&translator.told.mode, &mut self.mode);
        told(&translator.last_message, &mut self.last_message);
    }

    /// The conversation is continued.
    fn remembered(&mut self, out: &mut EffectList<LineOut>) {
        if std::mem::take(&mut self.resumes) {
            out.info(SessionInfo {
                context: Some(Context::Kept),
                ..SessionInfo::default()
            });
        }
    }

    /// Claude works on the conversation of this id.
    fn works_on(&mut self, native: String, out: &mut EffectList<LineOut>) {
        self.has_begun = true;
        if self.native != native {
            self.native = native;
            if !std::mem::take(&mut self.copies) {
                self.last_message = None;
            }
            out.info(self.info());
        }
    }

    /// Returns the id of the session's own conversation. `None` before Claude has made the copy.
    pub(super) fn own_id(&self) -> Option<&str> {
        (!self.copies).then_some(&*self.native)
    }

    pub(super) fn info(&self) -> SessionInfo {
        SessionInfo {
            native_session_id: self.own_id().map(str::to_owned),
            ..SessionInfo::default()
        }
    }
}

/// Limits of a turn.
#[derive(Debug, Clone, Copy)]
pub(super) struct Allowed {
    /// True if this version takes inputs during a turn.
    pub(super) steers: bool,
    /// True if the host can keep a sub-agent's text apart from the answer.
    pub(super) sub_agents: bool,
    /// Deadline for the first line of a process, and its length.
    pub(super) first_sign: Option<(Instant, Duration)>,
}

/// A running turn.
pub(super) struct ClaudeTurn<'c> {
    talk: &'c mut ProcessDialogue,
    pub(super) memory: &'c mut Memory,
    allowed: Allowed,
    /// Inputs that are not answered yet: the turn's own, and those that were added to it.
    open: Vec<String>,
    /// True if Claude was at work before the input came. The end of that work is not this turn's.
    is_foreign: bool,
    /// True if the process has served a turn before this one.
    pub(super) was_idle: bool,
    /// True if the process has written anything in this turn.
    pub(super) has_heard: bool,
    is_cut: bool,
    /// The process has never written anything, and is not asked to end the turn.
    is_mute: bool,
    pub(super) used: Option<Usage>,
    signs: EndSigns,
    /// The `result` that ended the turn.
    pub(super) outcome: Option<ResultLine>,
}

impl<'c> ClaudeTurn<'c> {
    /// A turn, and the line of its input.
    pub(super) fn begin(
        talk: &'c mut ProcessDialogue,
        memory: &'c mut Memory,
        allowed: Allowed,
        content: &[Value],
    ) -> (Self, Value) {
        talk.translator.begin();
        let uuid = Uuid::new_v4().to_string();
        let line = control::user(&uuid, content);
        let running = Self {
            is_foreign: talk.translator.is_busy,
            was_idle: talk.has_spoken,
            talk,
            memory,
            allowed,
            open: vec![uuid],
            has_heard: false,
            is_cut: false,
            is_mute: false,
            used: None,
            signs: EndSigns::default(),
            outcome: None,
        };
        (running, line)
    }

    /// Notes what was reported in the turn.
    pub(super) fn note(&mut self) {
        self.memory.heard(&self.talk.translator);
    }

    /// Asks what was kept for the turn.
    pub(super) fn ask_again(&mut self, out: &mut EffectList<LineOut>) {
        self.talk.ask_again(out);
    }

    fn send_interrupt(&mut self, out: &mut EffectList<LineOut>) {
        let (_, line) = self.talk.request(&json!({"subtype": "interrupt"}));
        out.send((&line).into());
    }

    /// Returns true if Claude knows no session of the resumed id.
    pub(super) fn is_unknown(&self, outcome: &ResultLine) -> bool {
        self.memory.has_begun && outcome.is_unknown_session()
    }

    fn result(&mut self, result: &Value, out: &mut EffectList<LineOut>) {
        let Translator {
            api_error,
            resets_at,
            model,
            ..
        } = &self.talk.translator;
        let outcome = ResultLine::read(result, api_error.clone(), resets_at.clone());
        if self.is_unknown(&outcome) {
            self.outcome = Some(outcome);
            return out.end();
        }
        let used = self.memory.cost.turn(result, model.as_deref());
        if !self.ends_with(&outcome, used) {
            if self.is_cut {
                self.send_interrupt(out);
            }
            return;
        }
        let translator = &self.talk.translator;
        let answer = [&outcome.text, &translator.printed];
        let answer = answer.into_iter().find(|answer| !answer.is_empty());
        if let Some(answer) = answer.filter(|_| !translator.answered && outcome.is_good()) {
            let output = Output::text(answer.clone());
            self.signs.note_event(&output.clone().into());
            out.output(output);
        }
        outcome.sign(&mut self.signs);
        self.outcome = Some(outcome);
        out.end();
    }

    /// Takes note of a `result`. Says whether it ends the turn: it does once every input is
    /// answered, the turn's own and those that were added to it.
    fn ends_with(&mut self, outcome: &ResultLine, used: Usage) -> bool {
        let names_ours = self.open.iter().any(|uuid| outcome.answers.contains(uuid));
        if std::mem::take(&mut self.is_foreign) && !names_ours {
            return false;
        }
        match &mut self.used {
            Some(sum) => usage::add(sum, used),
            None => self.used = Some(used),
        }
        if outcome.answers.is_empty() {
            // This version names none: one result for each input.
            self.open.remove(0);
        } else {
            self.open.retain(|uuid| !outcome.answers.contains(uuid));
        }
        self.open.is_empty()
    }

    /// The end of a turn that Claude has ended. `why` is the reason of an early end.
    pub(super) fn end(mut self, outcome: &ResultLine, why: Option<Error>) -> TurnComplete {
        self.signs.cut(why);
        TurnComplete {
            model: self.talk.translator.model.clone(),
            usage: self.used.filter(|_| outcome.tells_usage()),
            ..outcome.complete(self.signs.judge())
        }
    }
}

impl Dialect for ClaudeTurn<'_> {
    type Message = AgentLine;
    type Command = LineOut;

    fn message(&mut self, line: AgentLine, _: Instant, out: &mut EffectList<LineOut>) {
        let Some(line) = whole(line, out) else {
            return;
        };
        self.has_heard = true;
        out.alive();
        let events = self.talk.hear(&line, true, out);
        if std::mem::take(&mut self.talk.translator.is_unread) {
            self.signs.note_noise(&line);
            out.log_line(line.clone());
        }
        for event in events {
            match event {
                ClaudeEvent::Event(event) => {
                    self.signs.note_event(&event);
                    self.memory.remembered(out);
                    let is_a_sub_agents = matches!(
                        &event, AdapterBody::Output(output) if output.parent_tool_call_id.is_some());
                    // Without its mark it would be taken for a part of the answer.
                    if !is_a_sub_agents || self.allowed.sub_agents {
                        out.emit(event);
                    }
                }
                ClaudeEvent::Info(info) => {
                    self.memory.remembered(out);
                    out.info(*info);
                }
                ClaudeEvent::Native(native) => {
                    self.memory.remembered(out);
                    self.memory.works_on(native, out);
                }
                ClaudeEvent::Ended(result) => self.result(&result, out),
                _ => {}
            }
        }
    }

    fn last_error(&self) -> Option<&Error> {
        self.signs.last_error()
    }

    fn interrupt(&mut self, _: &Error, out: &mut EffectList<LineOut>) -> Grace {
        if self.is_mute {
            return Grace::None;
        }
        self.is_cut = true;
        self.send_interrupt(out);
        Grace::For(INTERRUPT)
    }

    fn steer(&mut self, number: u64, text: &str, out: &mut EffectList<LineOut>) {
        if !self.allowed.steers {
            let why = format!("claude takes inputs during a turn since version {STEERS}");
            return out.steered(number, Err(why));
        }
        let uuid = Uuid::new_v4().to_string();
        let line = control::user(&uuid, &[json!({"type": "text", "text": text})]);
        self.open.push(uuid);
        out.steer(number, (&line).into());
    }

    fn not_steered(&mut self) {
        self.open.pop();
    }

    /// The end of its stdout is its end.
    fn needs_input(&self) -> bool {
        false
    }

    fn replied(&mut self, id: &str, reply: UserReply, out: &mut EffectList<LineOut>) {
        // An interrupt withdraws what is open; and what the end of the turn has settled is not a
        // reply of the user.
        let settled =
            matches!(&reply, UserReply::Decision(it) if it.reason == Some(StopReason::Stopped));
        if !self.is_cut && !settled {
            if matches!(&reply, UserReply::Decision(it) if !it.is_approved()) {
                self.signs.note_denial();
            }
            self.talk.reply(id, &reply, out);
        }
    }

    fn deadline(&self) -> Option<Instant> {
        self.allowed
            .first_sign
            .filter(|_| !self.talk.has_spoken)
            .map(|(due, _)| due)
    }

    fn late(&mut self) -> Error {
        self.is_mute = true;
        let wait = self
            .allowed
            .first_sign
            .map_or(Duration::ZERO, |(_, wait)| wait);
        let what = "the agent gave no sign of life after its start";
        limit_reached("start_timeout", wait, what)
    }
}

#[cfg(test)]
mod tests;
