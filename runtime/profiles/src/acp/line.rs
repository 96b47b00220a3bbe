//! A session's share of an agent: its incoming messages, and the commands to the agent.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::pin::Pin;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use serde_json::{Value, json};

use super::files::RequestResult;
use super::media::LARGEST;
use super::process::COMPLETE;
use super::session::{AcpSession, MOST_REQUESTS};
use super::terminals::TerminalRequest;
use crate::agent::process::InputClosed;
use crate::agent::rpc::{CallError, INTERNAL_ERROR, Id, Inbox, InboxArrival, InboxMessage};
use crate::agent::turn::Pipe;

/// Refusal of a request that is still open when its turn has ended.
pub(super) const TURN_OVER: &str = "the turn is over";

/// The answer to a prompt.
pub(crate) type Prompt = Pin<Box<dyn Future<Output = Result<Value, CallError>> + Send>>;

/// Incoming message of a session.
#[derive(Debug)]
pub(crate) enum Message {
    /// An update's parameters.
    Update(Value),
    /// A request that a person may be asked about.
    Request(Id, AgentRequest),
    /// The parameters of an `elicitation/complete`.
    Complete(Value),
    /// A request that this side has refused.
    Refused,
    /// So many updates were lost.
    Lost(u64),
    /// Another session has resumed this one.
    Taken,
    /// The answer to the prompt.
    Prompted(Result<Value, CallError>),
    /// The content of a requested file, if it may be read.
    Read(Option<Vec<u8>>),
    /// The agent no longer answers.
    Mute,
}

/// A request that a person may be asked about.
#[derive(Debug)]
pub(crate) enum AgentRequest {
    /// The parameters of `session/request_permission`.
    Tool(Value),
    /// `terminal/create`, in this directory.
    Terminal(Box<TerminalRequest>, Option<PathBuf>),
    /// The parameters of `elicitation/create`.
    Elicitation(Value),
}

/// Command to an agent, or an action on its behalf.
#[derive(Debug)]
pub(crate) enum Command {
    /// `session/prompt` with these blocks. Its answer is a message.
    Prompt(Value),
    /// Cancels what runs.
    Cancel,
    Answer(Id, RequestResult),
    /// Runs a program, and answers.
    Run(Id, Box<TerminalRequest>, Option<PathBuf>),
    /// Reads a file within the session's directories. Its content is the next message.
    Read(PathBuf),
    /// Asks whether the agent answers at all.
    Alive,
}

/// Reads and writes for one session.
pub(crate) struct SessionLine<'s> {
    session: &'s AcpSession,
    /// Requests about files and terminals are served; else they are refused, since the turn is over.
    is_serving: bool,
    /// A prompt that is not answered.
    pub(crate) prompt: Option<Prompt>,
    /// Messages that precede the waiting ones.
    first: VecDeque<Message>,
    /// The prompt's answer: all that was sent before it comes first.
    answer: Option<Result<Value, CallError>>,
    work: FuturesUnordered<BoxFuture<'s, WorkResult>>,
    /// Requests for programs that are being started.
    starting: HashMap<String, Id>,
}

/// Result of work besides reading.
enum WorkResult {
    Nothing,
    /// The request for a program was answered.
    Ran(Id),
    /// The agent no longer answers.
    Mute,
}

impl Drop for SessionLine<'_> {
    fn drop(&mut self) {
        for id in self.starting.values() {
            self.session.link.peer.refuse(id, INTERNAL_ERROR, TURN_OVER);
        }
    }
}

impl<'s> SessionLine<'s> {
    pub(crate) fn new(session: &'s AcpSession) -> Self {
        Self {
            session,
            is_serving: true,
            prompt: None,
            first: VecDeque::new(),
            answer: None,
            work: FuturesUnordered::new(),
            starting: HashMap::new(),
        }
    }

    /// After a turn whose prompt is not answered yet.
    pub(crate) fn after(session: &'s AcpSession, prompt: Prompt) -> Self {
        let mut line = Self::new(session);
        (line.prompt, line.is_serving) = (Some(prompt), false);
        line
    }

    /// Returns the queue of incoming messages.
    pub(crate) fn inbox(&self) -> &'s Inbox {
        &self.session.inbox
    }

    /// Returns the message of an arrival, unless it is handled here.
    pub(crate) fn read(&self, arrival: InboxArrival) -> Option<Message> {
        let peer = &self.session.link.peer;
        match arrival {
            InboxArrival::Mail(InboxMessage::Notification { method, params }) => {
                let params = serde_json::from_str(params.get()).ok()?;
                Some(if method == COMPLETE {
                    Message::Complete(params)
                } else {
                    Message::Update(params)
                })
            }
            InboxArrival::Mail(InboxMessage::Alive) => None,
            InboxArrival::Mail(InboxMessage::Request { id, .. }) if !self.is_serving => {
                peer.refuse(&id, INTERNAL_ERROR, TURN_OVER);
                Some(Message::Refused)
            }
            InboxArrival::Mail(InboxMessage::Request { id, method, params }) => {
                let params = serde_json::from_str(params.get()).unwrap_or(Value::Null);
                let request = match method.as_str() {
                    "session/request_permission" => Ok(AgentRequest::Tool(params)),
                    "elicitation/create" => Ok(AgentRequest::Elicitation(params)),
                    "terminal/create" => {
                        TerminalRequest::from_params(&params).and_then(|mut order| {
                            let directories = &self.session.directories;
                            let cwd = directories.directory(order.cwd())?;
                            if cwd == directories.directory(None)? {
                                order.set_session_folder(cwd.clone());
                            }
                            Ok(AgentRequest::Terminal(Box::new(order), cwd))
                        })
                    }
                    _ => {
                        self.session.serve(id, method, params);
                        return Some(Message::Refused);
                    }
                };
                match request {
                    Ok(request) => Some(Message::Request(id, request)),
                    Err((code, why)) => {
                        peer.refuse(&id, code, why);
                        Some(Message::Refused)
                    }
                }
            }
            InboxArrival::Lost(lost) => Some(Message::Lost(lost)),
            InboxArrival::Taken => Some(Message::Taken),
        }
    }
}

impl Pipe for SessionLine<'_> {
    type Message = Message;
    type Command = Command;

    async fn next(&mut self) -> Option<Message> {
        loop {
            if let Some(message) = self.first.pop_front() {
                return Some(message);
            }
            let arrival = match &self.answer {
                Some(_) => match self.session.inbox.take() {
                    Some(arrival) => arrival,
                    None => return self.answer.take().map(Message::Prompted),
                },
                None => tokio::select! {
                    biased;
                    Some(done) = self.work.next() => {
                        match done {
                            WorkResult::Nothing => {}
                            WorkResult::Ran(id) => drop(self.starting.remove(id.text())),
                            WorkResult::Mute => return Some(Message::Mute),
                        }
                        continue;
                    }
                    arrival = self.session.inbox.next() => arrival,
                    answer = answered(&mut self.prompt) => {
                        (self.prompt, self.answer) = (None, Some(answer));
                        continue;
                    }
                },
            };
            if let Some(message) = self.read(arrival) {
                return Some(message);
            }
        }
    }

    async fn send(&mut self, command: Command) -> Result<(), InputClosed> {
        let AcpSession {
            link,
            id: session,
            directories,
            terminals,
            launch,
            ..
        } = self.session;
        let peer = &link.peer;
        match command {
            Command::Prompt(blocks) => {
                let peer = peer.clone();
                let params = json!({ "sessionId": session, "prompt": blocks });
                let call = async move { peer.call("session/prompt", &params, None).await };
                self.prompt = Some(Box::pin(call));
            }
            // Another session that has taken this one's has cancelled what ran, and may have a turn
            // of its own by now.
            Command::Cancel if self.session.inbox.is_taken() => {}
            Command::Cancel => link.cancel(session).await,
            Command::Run(id, ..) if self.starting.len() >= MOST_REQUESTS => {
                peer.refuse(&id, INTERNAL_ERROR, "too many programs are being started");
            }
            Command::Run(id, order, cwd) => {
                self.starting.insert(id.text().to_owned(), id.clone());
                self.work.push(Box::pin(async move {
                    // An agent that has ended needs no answer.
                    let _ = peer
                        .answer(&id, terminals.create(&order, cwd, launch).await)
                        .await;
                    WorkResult::Ran(id)
                }));
            }
            Command::Answer(id, answer) => {
                let mut sending: BoxFuture<'_, WorkResult> = Box::pin(async move {
                    let _ = peer.answer(&id, answer).await;
                    WorkResult::Nothing
                });
                // At once where it can be, since the turn may end now.
                if (&mut sending).now_or_never().is_none() {
                    self.work.push(sending);
                }
            }
            Command::Read(path) => {
                let directories = directories.clone();
                let read = move || path.to_str().map(|path| directories.file(path));
                let read = tokio::task::spawn_blocking(read).await;
                let content = read
                    .ok()
                    .flatten()
                    .and_then(Result::ok)
                    .filter(|read| read.len() <= LARGEST);
                self.first.push_back(Message::Read(content));
            }
            Command::Alive => self.work.push(Box::pin(async move {
                if link.retire_if_mute().await {
                    WorkResult::Mute
                } else {
                    WorkResult::Nothing
                }
            })),
        }
        Ok(())
    }

    fn stderr(&self) -> String {
        self.session.link.peer.stderr()
    }
}

async fn answered(prompt: &mut Option<Prompt>) -> Result<Value, CallError> {
    match prompt {
        Some(prompt) => prompt.await,
        None => std::future::pending().await,
    }
}
