//! Client of a session for the duration of one request: joins, sends a message, and waits for the
//! result.

use std::{collections::BTreeMap, time::Duration};

use tokio::time::timeout;
use trunkline_protocol::{
    Envelope, HostBody, HostMessage, SessionAttach, SessionAttached, SessionId, SessionState,
    TurnId,
};
use trunkline_sessions::{
    AnswerNote, Entry, EntryBody, EntryItem, EntryListener, Listener, OpenRequest, Sessions,
    StreamEnd, Submission,
};

use crate::http::problem::{Answer, Problem};

/// Timeout for a reply that should be immediate.
const REPLY_TIMEOUT: Duration = Duration::from_secs(15);

/// Returns an error for a message that the session cannot take.
fn accepted(is_accepted: bool) -> Answer<()> {
    let left = || Problem::unavailable("the session has just left the memory; try again");
    is_accepted.then_some(()).ok_or_else(left)
}

/// Received entry, or reply to this client.
#[derive(Debug)]
pub(crate) struct ReceivedMessage<'a> {
    pub(crate) turn_id: Option<&'a TurnId>,
    pub(crate) body: &'a EntryBody,
    /// `None` for a reply.
    pub(crate) entry: Option<&'a Entry>,
}

/// Session that a request has joined.
#[derive(Debug)]
pub(crate) struct SessionClient {
    pub(crate) attached: SessionAttached,
    entries: EntryListener,
}

impl SessionClient {
    /// Joins a session, from the next entry on.
    pub(crate) async fn join(sessions: &Sessions, id: &SessionId) -> Answer<Self> {
        Ok(Self::new(sessions.join(id).await?))
    }

    /// Joins a session that is not closed.
    pub(crate) async fn join_open(sessions: &Sessions, id: &SessionId) -> Answer<Self> {
        let client = Self::join(sessions, id).await?;
        client.check_open()?;
        Ok(client)
    }

    /// Refuses what a closed session never takes.
    pub(crate) fn check_open(&self) -> Answer<()> {
        if self.attached.state == Some(SessionState::Closed) {
            return Err(Problem::conflict(
                "the session is closed; open a new one, or fork this one",
            ));
        }
        Ok(())
    }

    /// Joins a session from behind an entry.
    pub(crate) async fn join_after(
        sessions: &Sessions,
        id: &SessionId,
        after: u64,
    ) -> Answer<Self> {
        let attach = SessionAttach {
            after,
            ..SessionAttach::default()
        };
        Ok(Self::new(sessions.attach(id, &attach).await?))
    }

    fn new((attached, listener): (SessionAttached, Listener)) -> Self {
        Self {
            attached,
            entries: listener.into_entries(),
        }
    }

    /// Returns the name of this client in entries.
    pub(crate) fn name(&self) -> Option<&str> {
        self.attached.listener.as_deref()
    }

    /// Sends a message to the session.
    pub(crate) async fn send(&self, turn: Option<TurnId>, body: impl Into<HostBody>) -> Answer<()> {
        let listener = self.entries.listener();
        let message = HostMessage {
            turn_id: turn,
            ..Envelope::new(listener.session().clone(), body.into())
        };
        accepted(listener.sender().send(message).await)
    }

    /// Answers a permission or a question.
    pub(crate) async fn answer(&self, body: HostBody, note: AnswerNote) -> Answer<()> {
        accepted(self.entries.listener().sender().answer(body, note).await)
    }

    /// Returns the open requests by their ids.
    pub(crate) async fn open_requests(&self) -> BTreeMap<String, OpenRequest> {
        if self.attached.requests.is_none() {
            return BTreeMap::new();
        }
        let requests = self.entries.listener().sender().open_requests().await;
        let requests = requests.into_iter();
        requests.map(|(id, open)| (id.to_string(), open)).collect()
    }

    /// Returns the pattern that allows exactly it for each open permission that has one, by the
    /// request's id.
    pub(crate) async fn exact_rules(&self) -> BTreeMap<String, String> {
        let requests = self.open_requests().await.into_iter();
        let rules = requests.filter_map(|(id, open)| match open {
            OpenRequest::Permission { exact_rule, .. } => Some((id, exact_rule?.to_string())),
            OpenRequest::Question(_) => None,
        });
        rules.collect()
    }

    /// Submits an input with its files.
    pub(crate) async fn submit(&self, submission: Submission) -> Answer<()> {
        accepted(self.entries.listener().sender().submit(submission).await)
    }

    /// Receives entries and replies until `find` returns something for one of them.
    pub(crate) async fn wait_for<T>(
        &mut self,
        mut find: impl FnMut(ReceivedMessage<'_>) -> Option<T>,
    ) -> Answer<T> {
        loop {
            let item = self.entries.next().await;
            let found = match item.map_err(Problem::failed)? {
                EntryItem::Entry(entry) => entry.content().and_then(|content| {
                    find(ReceivedMessage {
                        turn_id: content.turn_id.as_ref(),
                        body: &content.body,
                        entry: Some(&entry),
                    })
                }),
                EntryItem::Reply(reply) => find(ReceivedMessage {
                    turn_id: reply.turn_id.as_ref(),
                    body: &reply.body,
                    entry: None,
                }),
                EntryItem::Lag(_) => None,
                EntryItem::Ended(end) => {
                    return Err(Problem::unavailable(match end {
                        StreamEnd::HostEnding => "the host ends",
                        StreamEnd::Moved => "the session has just moved; try again",
                        StreamEnd::Interrupted => "the session was interrupted; try again",
                        StreamEnd::Overrun => "too many replies wait; try again",
                    }));
                }
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }

    /// Waits like [`SessionClient::wait_for`] for a reply that should be immediate.
    pub(crate) async fn wait_for_reply<T>(
        &mut self,
        find: impl FnMut(ReceivedMessage<'_>) -> Option<T>,
    ) -> Answer<T> {
        let late = || {
            Problem::unavailable("the session did not reply in time; what was sent may still count")
        };
        timeout(REPLY_TIMEOUT, self.wait_for(find))
            .await
            .unwrap_or_else(|_| Err(late()))
    }
}
