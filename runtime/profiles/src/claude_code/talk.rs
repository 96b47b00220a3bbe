//! The dialogue between a process and this side, in turns and between them: pure.

use std::collections::{HashMap, VecDeque};

use serde_json::{Value, json};
use tokio::time::Instant;
use trunkline_sdk::protocol::AdapterBody;

use super::allow_list::AllowList;
use super::control::{self, ControlRequest};
use super::event::ClaudeEvent;
use super::translate::Translator;
use crate::agent::lines::AgentLine;
use crate::agent::turn::{Dialect, EffectList, LineOut, UserReply};

/// The most requests for permission that are open at a time. Further ones are denied.
const MOST_ASKS: usize = 64;

/// The most events that wait for a turn because the host was not reading.
const MOST_UNSENT: usize = 4_096;

/// State of the dialogue with a process.
#[derive(Debug)]
pub(super) struct ProcessDialogue {
    pub(super) translator: Translator,
    /// Unanswered requests, by their ids.
    asks: HashMap<String, ControlRequest>,
    /// Events that could not be sent yet.
    pub(super) unsent: VecDeque<AdapterBody>,
    /// True if it has sent anything.
    pub(super) has_spoken: bool,
    /// Requests of ours so far.
    requests: u64,
    initialize: String,
    /// Judges each call of a tool; `None` if the session does not restrict them.
    allow_list: Option<AllowList>,
}

impl ProcessDialogue {
    /// Begins with a process that starts, and returns the first request to it. Inputs may follow at once.
    pub(super) fn begin(allow_list: Option<AllowList>) -> (Self, Value) {
        let mut talk = Self {
            translator: Translator::default(),
            asks: HashMap::new(),
            unsent: VecDeque::new(),
            has_spoken: false,
            requests: 0,
            initialize: String::new(),
            allow_list,
        };
        let mut request = json!({"subtype": "initialize"});
        if talk.allow_list.is_some() {
            request["hooks"] = AllowList::hooks();
        }
        let (id, line) = talk.request(&request);
        talk.initialize = id;
        (talk, line)
    }

    /// A request of ours: its id, and its line.
    pub(super) fn request(&mut self, request: &Value) -> (String, Value) {
        self.requests += 1;
        let id = format!("trunkline-{}", self.requests);
        let line = control::request(&id, request);
        (id, line)
    }

    /// Returns the events of a line, except those handled here: requests, which `asks` passes on,
    /// and their withdrawal. Unknown requests are refused.
    pub(super) fn hear(
        &mut self,
        line: &[u8],
        asks: bool,
        out: &mut EffectList<LineOut>,
    ) -> impl Iterator<Item = ClaudeEvent> + use<> {
        self.has_spoken = true;
        let mut rest = Vec::new();
        let mut said = VecDeque::from(self.translator.line(line));
        while let Some(one) = said.pop_front() {
            match one {
                ClaudeEvent::Request(ask) if self.asks.len() >= MOST_ASKS => {
                    refuse(&ask.request_id, "too many open requests", out);
                }
                ClaudeEvent::Request(ask) => {
                    if asks {
                        out.ask(ask.request_id.as_str(), ask.of_user());
                    }
                    self.asks.insert(ask.request_id.clone(), *ask);
                }
                ClaudeEvent::Withdrawn(id) => {
                    if self.asks.remove(&id).is_some() {
                        out.withdraw(id);
                    }
                }
                ClaudeEvent::Hook {
                    request_id,
                    request,
                } => match &self.allow_list {
                    Some(allow_list) => {
                        let judgement = allow_list.judge(&request);
                        out.send((&control::response(&request_id, &judgement)).into());
                    }
                    None => refuse(&request_id, "hook_callback", out),
                },
                ClaudeEvent::Unsupported {
                    request_id,
                    subtype,
                } => refuse(&request_id, &subtype, out),
                ClaudeEvent::Answered { request_id, answer } if request_id == self.initialize => {
                    if let Ok(answer) = answer {
                        said.extend(self.translator.initialized(&answer));
                    }
                }
                ClaudeEvent::Event(_)
                | ClaudeEvent::Info(_)
                | ClaudeEvent::Native(_)
                | ClaudeEvent::Answered { .. }
                | ClaudeEvent::Ended(_) => rest.push(one),
            }
        }
        rest.into_iter()
    }

    /// Asks what is open.
    pub(super) fn ask_again(&self, out: &mut EffectList<LineOut>) {
        for (id, ask) in &self.asks {
            out.ask(id.as_str(), ask.of_user());
        }
    }

    /// Passes on a reply.
    pub(super) fn reply(&mut self, id: &str, reply: &UserReply, out: &mut EffectList<LineOut>) {
        if let Some(ask) = self.asks.remove(id) {
            out.send((&ask.response(reply)).into());
        }
    }

    /// Keeps an event for the next turn.
    fn keep(&mut self, event: AdapterBody) {
        if self.unsent.len() < MOST_UNSENT {
            self.unsent.push_back(event);
        }
    }
}

/// Answers without waiting. Claude denies by itself what was not answered when it ends.
fn refuse(request_id: &str, what: &str, out: &mut EffectList<LineOut>) {
    out.send(LineOut::IfRoom(
        control::unsupported(request_id, what).to_string(),
    ));
}

/// A process between turns: it may send requests or reports of work in the background.
pub(super) struct Idle<'p> {
    pub(super) talk: &'p mut ProcessDialogue,
    /// A request of ours whose answer is waited for, and until when. Events are kept meanwhile.
    pub(super) awaited: Option<(String, Instant)>,
    pub(super) answer: Option<Result<Value, String>>,
}

impl Dialect for Idle<'_> {
    type Message = AgentLine;
    type Command = LineOut;

    fn message(&mut self, line: AgentLine, _: Instant, out: &mut EffectList<LineOut>) {
        let Some(line) = whole(line, out) else {
            return;
        };
        let events = self.talk.hear(&line, self.awaited.is_none(), out);
        if std::mem::take(&mut self.talk.translator.is_unread) {
            out.log_line(line);
        }
        for event in events {
            match event {
                ClaudeEvent::Event(event) if self.awaited.is_some() => self.talk.keep(event),
                ClaudeEvent::Event(event) => out.emit(event),
                ClaudeEvent::Info(info) => out.info(*info),
                ClaudeEvent::Answered { request_id, answer }
                    if self
                        .awaited
                        .as_ref()
                        .is_some_and(|(id, _)| *id == request_id) =>
                {
                    self.answer = Some(answer);
                    out.end();
                }
                // The host learns of an id by the end of the next turn.
                _ => {}
            }
        }
    }

    fn needs_input(&self) -> bool {
        false
    }

    fn replied(&mut self, id: &str, reply: UserReply, out: &mut EffectList<LineOut>) {
        self.talk.reply(id, &reply, out);
    }

    fn unsent(&mut self, event: AdapterBody) {
        self.talk.keep(event);
    }

    fn deadline(&self) -> Option<Instant> {
        self.awaited.as_ref().map(|(_, until)| *until)
    }
}

/// A line, unless it is too long, which is reported.
pub(super) fn whole(line: AgentLine, out: &mut EffectList<LineOut>) -> Option<bytes::Bytes> {
    match line {
        AgentLine::Whole(line) => Some(line),
        AgentLine::TooLong(bytes) => {
            out.left_out(bytes);
            None
        }
    }
}
