//! A turn, as its user holds it.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_core::Stream;
use trunkline_protocol::{Channel, StopReason};

use crate::{
    Event, EventKind, TurnEnd, TurnNo, link::Command, mailbox::Mailbox, session::SessionShared,
};

/// A running or waiting turn: a stream of [`Event`]s, the last of which is its one
/// [`EventKind::End`].
///
/// Events wait for a slow reader: at the adapter, if it knows `flow` ([flow.1]); otherwise in
/// memory up to a budget, then on disk. They never hold up other sessions. While another input of
/// the session waits, no turn is held back, so that turns may be read in any order. Dropping a turn
/// that has not ended stops it and discards the rest; [`Turn::detach`] lets it run.
///
/// # Cancel safety
/// [`Turn::next`] loses nothing when its future is dropped.
#[derive(Debug)]
pub struct Turn {
    no: TurnNo,
    mailbox: Mailbox,
    session: Arc<SessionShared>,
    ended: bool,
    /// True if dropping it does not stop the turn.
    detached: bool,
}

impl Turn {
    pub(crate) fn new(no: TurnNo, mailbox: Mailbox, session: Arc<SessionShared>) -> Self {
        Self {
            no,
            mailbox,
            session,
            ended: false,
            detached: false,
        }
    }

    /// The turn's number within its session.
    #[must_use]
    pub fn no(&self) -> TurnNo {
        self.no
    }

    /// The next event. `None` after the end.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    #[inline]
    pub async fn next(&mut self) -> Option<Event> {
        std::future::poll_fn(|cx| self.poll_event(cx)).await
    }

    /// Waits for the end and lets the events before it go. Permissions among them are denied.
    ///
    /// # Cancel safety
    /// Dropping the future stops the turn, as dropping the turn does.
    pub async fn end(mut self) -> TurnEnd {
        loop {
            match self.next().await {
                Some(Event {
                    kind: EventKind::End(end),
                    ..
                }) => return *end,
                Some(_) => {}
                None => return TurnEnd::lost(self.no),
            }
        }
    }

    /// Waits for the end and gathers the answer: all `output` on stdout, with an empty line between
    /// two messages.
    ///
    /// # Cancel safety
    /// Dropping the future stops the turn, and loses the text.
    pub async fn text(mut self) -> (String, TurnEnd) {
        let mut text = String::new();
        let mut message = None;
        loop {
            match self.next().await {
                Some(Event {
                    kind: EventKind::Output(output),
                    ..
                }) if *output.channel() == Channel::Stdout => {
                    let id = output.message_id.or_else(|| message.clone());
                    if message.is_some() && id != message {
                        text.push_str("\n\n");
                    }
                    message = id;
                    text.push_str(&output.content);
                }
                Some(Event {
                    kind: EventKind::End(end),
                    ..
                }) => return (text, *end),
                Some(_) => {}
                None => return (text, TurnEnd::lost(self.no)),
            }
        }
    }

    /// Asks the agent to stop this turn. It ends by its one end all the same; keep reading ([turn.4]).
    pub fn stop(&self) {
        self.stop_for(StopReason::User);
    }

    /// Asks the agent to stop this turn for a reason.
    pub fn stop_for(&self, reason: StopReason) {
        let session = self.session.clone();
        self.session.command(Command::Stop {
            session,
            turn: Some(self.no),
            reason,
        });
    }

    /// Lets the turn run to its end, unread. Its requests are denied and its output is discarded.
    pub fn detach(mut self) {
        self.detached = true;
    }

    #[inline]
    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        if self.ended {
            return Poll::Ready(None);
        }
        let event = ready!(self.mailbox.poll_next(cx, &self.session));
        self.ended = event
            .as_ref()
            .is_none_or(|event| matches!(event.kind, EventKind::End(_)));
        Poll::Ready(event)
    }
}

impl Stream for Turn {
    type Item = Event;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Event>> {
        self.poll_event(cx)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        if self.ended {
            return;
        }
        self.mailbox.discard();
        if !self.detached {
            self.stop_for(StopReason::User);
        }
    }
}
