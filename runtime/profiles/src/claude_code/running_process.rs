//! A running `claude`: lines out, lines in, and what it has asked and nobody has answered yet.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout_at};
use trunkline_sdk::protocol::AdapterBody;
use trunkline_sdk::{Error, Session, SessionInfo};

use super::control::{self, Ask};
use super::event::ClaudeEvent;
use super::translate::Translator;
use crate::agent::launch::Launch;
use crate::agent::lines::Line;
use crate::agent::process::{Agent, AgentInput, Ended, InputClosed, Stdin};

/// The most requests for permission that are open at a time. Further ones are denied.
const MOST_ASKS: usize = 64;

/// The most events that wait for a turn because the host was not reading.
const MOST_UNSENT: usize = 4_096;

/// How long a request of ours may take.
const ANSWER: Duration = Duration::from_secs(10);

/// How long a process that is given up has after its stdin was closed, and after SIGTERM.
const END: (Duration, Duration) = (Duration::from_millis(400), Duration::from_millis(300));

/// One process.
#[derive(Debug)]
pub(super) struct RunningProcess {
    agent: Agent,
    input: AgentInput,
    pub(super) translator: Translator,
    /// What was asked, by its request.
    pub(super) asks: HashMap<String, Ask>,
    /// Events that could not be sent yet.
    pub(super) unsent: VecDeque<AdapterBody>,
    /// Whether it has said anything.
    pub(super) has_spoken: bool,
    /// Requests of ours so far.
    requests: u64,
    initialize: String,
}

/// What a line asks of whoever reads it.
#[derive(Debug)]
pub(super) enum ProcessEvent {
    Event(AdapterBody),
    Info(Box<SessionInfo>),
    Native(String),
    /// A request of this id is to be asked.
    Request(String),
    Withdrawn(String),
    Ended(Box<Value>),
    Answered {
        request_id: String,
        answer: Result<Value, String>,
    },
}

impl RunningProcess {
    /// Starts it, and asks for what it can do. Inputs may follow at once.
    pub(super) async fn start(launch: &Launch) -> Result<Self, Error> {
        let mut agent = Agent::start(launch, Stdin::Owned).await?;
        let Some(input) = agent.take_input() else { return Err(Error::other("claude has no stdin")) };
        let mut process = Self {
            agent,
            input,
            translator: Translator::default(),
            asks: HashMap::new(),
            unsent: VecDeque::new(),
            has_spoken: false,
            requests: 0,
            initialize: String::new(),
        };
        // Who cannot take it has ended, which its stdout tells.
        process.initialize = process.request(&json!({"subtype": "initialize"})).await.unwrap_or_default();
        Ok(process)
    }

    /// Writes a line.
    ///
    /// # Cancel safety
    /// It is written whole or not at all.
    pub(super) async fn write(&self, line: &Value) -> Result<(), InputClosed> {
        self.input.line(line.to_string()).await
    }

    /// Sends a request of ours, and returns its id.
    pub(super) async fn request(&mut self, request: &Value) -> Result<String, InputClosed> {
        self.requests += 1;
        let id = format!("trunkline-{}", self.requests);
        self.write(&control::request(&id, request)).await?;
        Ok(id)
    }

    /// The next line of its stdout; nothing once it has ended.
    ///
    /// # Cancel safety
    /// No line is lost.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        loop {
            match self.agent.next().await? {
                Line::Whole(line) => return Some(line),
                Line::TooLong(bytes) => tracing::warn!(bytes, "a line of claude is too long, and left out"),
            }
        }
    }

    /// What a line says, after what this takes note of by itself. What it asks for and is not known here is refused.
    pub(super) fn hear(&mut self, line: &[u8]) -> VecDeque<ProcessEvent> {
        self.has_spoken = true;
        let mut heard = VecDeque::new();
        let mut said = VecDeque::from(self.translator.line(line));
        while let Some(one) = said.pop_front() {
            match one {
                ClaudeEvent::Event(event) => heard.push_back(ProcessEvent::Event(event)),
                ClaudeEvent::Info(info) => heard.push_back(ProcessEvent::Info(info)),
                ClaudeEvent::Native(id) => heard.push_back(ProcessEvent::Native(id)),
                ClaudeEvent::Ended(result) => heard.push_back(ProcessEvent::Ended(result)),
                ClaudeEvent::Request(ask) => heard.extend(self.asked(*ask)),
                ClaudeEvent::Withdrawn(id) => {
                    if self.asks.remove(&id).is_some() {
                        heard.push_back(ProcessEvent::Withdrawn(id));
                    }
                }
                ClaudeEvent::Unsupported { request_id, subtype } => {
                    self.refuse(&control::unsupported(&request_id, &subtype));
                }
                ClaudeEvent::Answered { request_id, answer } if request_id == self.initialize => {
                    if let Ok(answer) = answer {
                        said.extend(self.translator.initialized(&answer));
                    }
                }
                ClaudeEvent::Answered { request_id, answer } => {
                    heard.push_back(ProcessEvent::Answered { request_id, answer });
                }
            }
        }
        heard
    }

    fn asked(&mut self, ask: Ask) -> Option<ProcessEvent> {
        let id = ask.request_id.clone();
        if self.asks.len() >= MOST_ASKS {
            self.refuse(&control::unsupported(&id, "too many open requests"));
            return None;
        }
        self.asks.insert(id.clone(), ask);
        Some(ProcessEvent::Request(id))
    }

    /// Answers without waiting. One that finds no room is missed by Claude, which then denies by itself when it ends.
    fn refuse(&self, line: &Value) {
        if self.input.try_line(line.to_string()).is_err() {
            tracing::debug!("a request of claude was not refused: it reads nothing");
        }
    }

    /// Keeps an event for the next turn.
    pub(super) fn keep(&mut self, event: AdapterBody) {
        if self.unsent.len() < MOST_UNSENT {
            self.unsent.push_back(event);
        }
    }

    /// Sends a request of ours between turns, and waits for the answer. What else is said meanwhile is kept.
    pub(super) async fn ask(&mut self, request: &Value, session: &Session) -> Result<Value, String> {
        let late = "claude did not answer".to_owned();
        let deadline = Instant::now() + ANSWER;
        let id = self.request(request).await.map_err(|_| "claude has ended".to_owned())?;
        loop {
            let Ok(line) = timeout_at(deadline, self.next()).await else { return Err(late) };
            let Some(line) = line else { return Err("claude has ended".to_owned()) };
            for heard in self.hear(&line) {
                match heard {
                    ProcessEvent::Answered { request_id, answer } if request_id == id => return answer,
                    ProcessEvent::Event(event) => self.keep(event),
                    ProcessEvent::Info(info) => session.info(*info),
                    _ => {}
                }
            }
        }
    }

    /// Ends it: closes its stdin, then signals.
    pub(super) async fn end(self) -> Ended {
        let Self { agent, input, .. } = self;
        drop(input);
        agent.end(END.0, END.1).await
    }

    /// Kills it, after what it still says to SIGTERM.
    pub(super) async fn kill(self) -> Ended {
        let Self { agent, input, .. } = self;
        drop(input);
        agent.end(Duration::ZERO, END.1).await
    }

    /// Waits for its end, which its stdout has told.
    pub(super) async fn ended(self) -> Ended {
        let Self { agent, input, .. } = self;
        drop(input);
        // Whoever closes its stdout and lives on is ended.
        agent.end(END.0, END.1).await
    }
}
