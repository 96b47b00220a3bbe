//! A turn, as its handler holds it.

mod end;
mod events;
mod files;
mod steer;

use std::fmt;

use trunkline_protocol::{AdapterBody, Channel, Output, TurnId};

pub(crate) use self::files::{differs, digest};
pub use self::{end::End, events::ToolOutcome, files::file_type_of, steer::Steer};
use crate::{
    Answer, Decision, Permission, Question, Session,
    session::{BegunTurn, EndOrigin},
    wire::Wire,
};

/// Bytes beyond its share that a stopped turn may hold, so that its handler can finish.
const LAST_WORDS: usize = 256 * 1024;

/// The longest text that one message carries, in bytes: with its escapes it stays under 1 MiB but
/// for odd texts.
const PIECE: usize = 512 * 1024;

/// A turn: an input, and everything that follows until its one end ([turn.1]).
///
/// The end is the handler's result: `Ok` completes the turn, `Err` and a panic fail it, and a
/// handler whose future is dropped (it did not return within the grace after a stop) leaves it
/// stopped. [`Turn::finish`] ends it earlier. Calls after the end are harmless: they send nothing.
///
/// Every method that sends waits only while the session holds more than its share of the pipe, or
/// is paused.
pub struct Turn {
    session: Session,
    begun: BegunTurn,
}

impl Turn {
    pub(crate) fn new(session: Session, begun: BegunTurn) -> Self {
        Self { session, begun }
    }

    /// The turn's session.
    #[must_use]
    pub fn session(&self) -> &Session {
        &self.session
    }

    /// Returns the host's id of the turn, if the host assigns ids (`turns`).
    #[must_use]
    pub fn id(&self) -> Option<&TurnId> {
        self.begun.id.as_ref()
    }

    /// Sends a piece of the answer; a long one as several, since not every host reads lines over 1
    /// MiB ([frame.5]).
    ///
    /// # Cancel safety
    /// Each piece of 512 KiB is sent whole or not at all.
    pub async fn output(&self, content: impl Into<String>) {
        for piece in pieces(content.into()) {
            self.emit(Output::text(piece)).await;
        }
    }

    /// Sends text on a channel.
    ///
    /// # Cancel safety
    /// As [`Turn::output`].
    pub async fn output_on(&self, channel: Channel, content: impl Into<String>) {
        for piece in pieces(content.into()) {
            self.emit(Output::on(channel.clone(), piece)).await;
        }
    }

    /// Sends any event of the turn as one message, folded down to what the host offered ([ext.3]).
    ///
    /// Kinds that the SDK sends itself (ends, requests, `session.ready`) are left out with a
    /// warning. A `tool.end` without its start and a second start of one call are left out too.
    ///
    /// # Cancel safety
    /// As [`Turn::output`].
    pub async fn emit(&self, event: impl Into<AdapterBody>) {
        self.room().await;
        self.session
            .0
            .emit(Some(self.begun.serial), event.into())
            .await;
        // A loop of outputs that nothing holds back would else never let a stop in.
        tokio::task::consume_budget().await;
    }

    /// Waits for room in the session's share of the pipe; after a stop there is some more, once.
    async fn room(&self) {
        let core = &self.session.0;
        let wire: &Wire = &core.ground.wire;
        if !self.begun.stop.is_cancelled() {
            tokio::select! {
                biased;
                () = wire.room(core.key, 0) => return,
                () = self.begun.stop.cancelled() => {}
            }
        }
        wire.room(core.key, LAST_WORDS).await;
    }

    /// Asks for permission for an action, and waits for the decision.
    ///
    /// The host asks a person or a rule. A stop, the turn's end, the session's end and the end of
    /// input settle it as denied ([permission.3]); there is no other deadline. Other requests of
    /// this and of other sessions continue meanwhile.
    ///
    /// # Cancel safety
    /// Dropping it withdraws the request.
    pub async fn ask_permission(&self, permission: Permission) -> Decision {
        self.session
            .0
            .ask_permission(Some(self.begun.serial), permission)
            .await
    }

    /// Asks the user for values, and waits for them. If the host cannot ask, the question is shown
    /// as text and cancelled at once ([ext.3]).
    ///
    /// # Cancel safety
    /// Dropping it withdraws the question.
    pub async fn ask(&self, question: Question) -> Answer {
        self.session.0.ask(Some(self.begun.serial), question).await
    }

    /// Returns true if the turn must end: it was stopped, or has ended.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.begun.stop.is_cancelled()
    }

    /// Waits until the turn must end. Return soon after: a handler that has not returned within the
    /// grace (2 s by default) is dropped.
    ///
    /// # Cancel safety
    /// It can be dropped and called again, also in several places at once.
    pub async fn stopped(&self) {
        self.begun.stop.cancelled().await;
    }

    /// The next input that the user adds to this turn ([turn.10]); nothing once the turn must end.
    ///
    /// Needs [`Description::steerable`](crate::Description::steerable). Steers that the turn does
    /// not take are answered as not delivered.
    ///
    /// # Cancel safety
    /// No steer is lost.
    pub async fn next_steer(&self) -> Option<Steer> {
        loop {
            if let Some(steer) = self.session.0.next_steer(self.begun.serial) {
                return Some(Steer::new(self.session.clone(), self.begun.serial, steer));
            }
            tokio::select! {
                biased;
                () = self.begun.steered.notified() => {}
                () = self.begun.stop.cancelled() => return None,
            }
        }
    }

    /// Ends the turn now. What the handler returns afterwards changes nothing.
    ///
    /// A result that is too long for the host's lines goes by file where that was agreed on:
    /// written here, so this blocks for as long as the file system takes.
    pub fn finish(self, end: impl Into<End>) {
        self.session
            .0
            .end_turn(self.begun.serial, end.into().0, EndOrigin::Said);
    }

    pub(crate) fn serial(&self) -> u64 {
        self.begun.serial
    }
}

/// Cuts a text where characters end.
fn pieces(text: String) -> impl Iterator<Item = String> + Send {
    let mut rest = Some(text);
    std::iter::from_fn(move || {
        let mut piece = rest.take()?;
        if piece.len() > PIECE {
            rest = Some(piece.split_off(piece.floor_char_boundary(PIECE)));
        }
        Some(piece)
    })
}

impl fmt::Debug for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Turn")
            .field("session", self.session.id())
            .field("id", &self.begun.id)
            .finish_non_exhaustive()
    }
}
