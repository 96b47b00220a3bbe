//! A session that moves to another host: it is attached again there, and goes on behind the last entry that was heard.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};
use trunkline_host::protocol::{
    AttachRefusal, HostBody, HostMessage, RelayBody, RelayMessage, Role, SessionRefused, TurnId,
};

use super::{Access, Answered, Journaled};
use crate::hub::{Message, Told};

/// How long after a refusal a session is attached again.
const PAUSE: Duration = Duration::from_millis(200);

/// For how long a session is attached again and again that no host serves: the lease of a host that is gone has ended then.
const UNSERVED: Duration = Duration::from_secs(60);

/// When a session is attached again.
#[derive(Debug, Default)]
pub(super) struct Again {
    due: Option<Instant>,
    /// When it was not served first, since it was last.
    since: Option<Instant>,
}

/// Waits until the session is to be attached again.
pub(super) async fn is_due(again: Option<&Again>) {
    match again.and_then(|again| again.due) {
        Some(due) => sleep_until(due).await,
        None => std::future::pending().await,
    }
}

impl Again {
    /// Notes that no host serves it. Whether it is to be waited for.
    fn refused(&mut self, now: Instant) -> bool {
        self.due = Some(now + PAUSE);
        now - *self.since.get_or_insert(now) < UNSERVED
    }
}

impl Journaled {
    /// Whether a line says that the session moves, or has moved.
    pub(super) fn moves(&mut self, told: &Told) -> bool {
        let Message::Relay(RelayMessage { body, .. }) = &told.message else {
            return false;
        };
        let Some(again) = &mut self.again else {
            return false;
        };
        match body {
            RelayBody::SessionRefused(SessionRefused {
                reason: Some(AttachRefusal::Unavailable),
                ..
            }) => {
                self.is_lost = !again.refused(Instant::now());
                !self.is_lost
            }
            RelayBody::SessionAttached(attached) => {
                *again = Again::default();
                self.now = (**attached).clone();
                for message in &self.unanswered {
                    self.hub.say(message);
                }
                true
            }
            _ => false,
        }
    }

    /// Attaches again behind the last entry that was heard.
    pub(super) fn attach_again(&mut self) {
        if let Some(again) = &mut self.again {
            again.due = None;
        }
        let role = if self.access == Access::Observed {
            Role::Observe
        } else {
            Role::Control
        };
        self.say_attach(self.seq, role);
    }

    /// Notes what an answer is for.
    pub(super) fn note_answer(&mut self, turn: Option<&TurnId>, answered: &Answered) {
        let is_for = |message: &HostMessage| match (answered, &message.body) {
            (Answered::Input(result), HostBody::UserInput(input)) => {
                input.message_id == result.message_id
            }
            (Answered::Refused(_), _) if turn.is_some() => message.turn_id.as_ref() == turn,
            (Answered::File | Answered::Refused(_), HostBody::FileInput(_))
            | (Answered::Info(_) | Answered::Refused(_), HostBody::SessionUpdate(_)) => true,
            _ => false,
        };
        if let Some(at) = self.unanswered.iter().position(is_for) {
            self.unanswered.remove(at);
        }
    }
}
