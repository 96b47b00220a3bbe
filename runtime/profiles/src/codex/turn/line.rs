//! Share of a thread in the app server: its incoming messages, and the commands to the server.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use futures_util::stream::FuturesUnordered;
use serde_json::{Value, json};
use tokio::time::timeout;

use super::super::conversation::ThreadLink;
use crate::agent::process::{InputClosed, ProcessEnd};
use crate::agent::rpc::{CallError, Id, InboxArrival};
use crate::agent::turn::Pipe;

/// Time for a turn to end that was interrupted for another reason than a stop, including the answer
/// to the interrupt.
pub(super) const INTERRUPT: Duration = Duration::from_secs(10);

/// Time for a stopped turn to end, within the host's grace.
pub(super) const STOP: Duration = Duration::from_millis(1500);

/// Timeout of the app server's login status.
const ACCOUNT: Duration = Duration::from_secs(15);

/// A call, by what it is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ServerCall {
    Begin,
    Interrupt,
    /// The login status.
    Account,
    /// An input that the user added, by its number.
    Steer(u64),
    /// A person's text to a denial, which has no member for it.
    Word,
}

impl ServerCall {
    fn method(self) -> &'static str {
        match self {
            Self::Begin => "turn/start",
            Self::Interrupt => "turn/interrupt",
            Self::Account => "account/read",
            Self::Steer(_) | Self::Word => "turn/steer",
        }
    }
}

/// Command to the app server, or an action on it.
#[derive(Debug)]
pub(super) enum Command {
    /// A call and its longest time. Its answer is a message.
    Call(ServerCall, Value, Duration),
    /// The answer to a request.
    Answer(Id, Value),
    /// A request cannot be asked, and why.
    Refuse(Id, &'static str),
    /// The app server is given no further turn.
    Retire,
}

impl Command {
    /// Asks whether someone has logged in.
    pub(super) fn account() -> Self {
        Self::Call(
            ServerCall::Account,
            json!({ "refreshToken": false }),
            ACCOUNT,
        )
    }

    /// Interrupts a turn of a thread.
    pub(super) fn interrupt(thread: &str, turn: &str) -> Self {
        Self::Call(
            ServerCall::Interrupt,
            json!({ "threadId": thread, "turnId": turn }),
            INTERRUPT,
        )
    }
}

/// Incoming message of a thread.
#[derive(Debug)]
pub(super) enum Message {
    Arrival(InboxArrival),
    /// The app server has ended.
    Gone(ProcessEnd),
    Called(ServerCall, Result<Value, CallError>),
}

/// Reads and writes for one turn.
pub(super) struct ThreadLine<'l> {
    link: &'l ThreadLink,
    /// Calls without an answer, and answers that are being sent.
    open: FuturesUnordered<BoxFuture<'l, Option<Message>>>,
}

impl<'l> ThreadLine<'l> {
    pub(super) fn new(link: &'l ThreadLink) -> Self {
        Self {
            link,
            open: FuturesUnordered::new(),
        }
    }
}

/// Interrupts a turn of a thread that another session has resumed. By its id, so it is not a turn
/// of that one.
pub(super) async fn give_up(link: &ThreadLink, turn: &str) {
    if !turn.is_empty() {
        let params = json!({ "threadId": link.thread, "turnId": turn });
        let call = link
            .server
            .peer
            .call::<_, Value>("turn/interrupt", &params, None);
        // An app server that does not answer has no turn to answer for.
        let _ = timeout(STOP, call).await;
    }
}

impl Pipe for ThreadLine<'_> {
    type Message = Message;
    type Command = Command;

    /// Answers come before the messages that follow them.
    async fn next(&mut self) -> Option<Message> {
        loop {
            tokio::select! {
                biased;
                Some(done) = self.open.next() => if done.is_some() {
                    return done;
                },
                arrival = self.link.inbox.next() => return Some(Message::Arrival(arrival)),
                ended = self.link.server.peer.wait_for_end() => {
                    return Some(Message::Gone(ended.clone()));
                }
            }
        }
    }

    async fn send(&mut self, command: Command) -> Result<(), InputClosed> {
        let peer = &self.link.server.peer;
        match command {
            Command::Call(call, params, within) => self.open.push(Box::pin(async move {
                Some(Message::Called(
                    call,
                    peer.call(call.method(), &params, Some(within)).await,
                ))
            })),
            Command::Answer(id, answer) => self.open.push(Box::pin(async move {
                // If it could not be sent, the process has ended, which is the next message.
                let _ = peer.answer(&id, Ok(answer)).await;
                None
            })),
            Command::Refuse(id, why) => peer.refuse(&id, -32000, why),
            Command::Retire => self.link.server.peer.retire(),
        }
        Ok(())
    }

    fn stderr(&self) -> String {
        self.link.server.peer.stderr()
    }
}
