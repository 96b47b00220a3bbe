//! The permissions and questions that the hub was asked, by the id that it knows ([permission.*]).

use trunkline_host::{Permission, Question, TurnNo};
use trunkline_protocol::RequestId;

/// What waits for the hub's answer. Dropped unanswered, it is denied or cancelled.
#[derive(Debug)]
pub(super) enum Asked {
    Permission(Permission),
    Question(Question),
    /// It was settled and the hub could not be told: its answer will be late.
    Settled,
}

#[derive(Debug)]
struct Request {
    /// The id that the hub knows.
    hub: RequestId,
    /// The adapter's own.
    own: RequestId,
    turn: Option<TurnNo>,
    asked: Asked,
}

/// The requests that the hub counts as pending.
#[derive(Debug, Default)]
pub(super) struct Requests {
    pending: Vec<Request>,
    renamed: u64,
}

impl Requests {
    /// Takes a request and says under which id the hub is asked: the adapter's own, unless the hub still has one
    /// pending under it that it could not be told the end of.
    pub(super) fn ask(&mut self, own: &RequestId, turn: Option<TurnNo>, asked: Asked) -> RequestId {
        let mut hub = own.clone();
        while self.pending.iter().any(|request| request.hub == hub) {
            self.renamed += 1;
            let text = own.as_str();
            // An id has 256 bytes at most; the number needs 21 of them.
            let kept = text.floor_char_boundary(text.len().min(230));
            if let Ok(id) = RequestId::new(format!("{}~{}", &text[..kept], self.renamed)) {
                hub = id;
            }
        }
        self.pending.push(Request { hub: hub.clone(), own: own.clone(), turn, asked });
        hub
    }

    /// Takes out what the hub answers; nothing where nobody waits for an answer.
    pub(super) fn answered(&mut self, hub: &RequestId) -> Option<Asked> {
        let at = self.pending.iter().position(|request| request.hub == *hub)?;
        match self.pending.swap_remove(at).asked {
            Asked::Settled => None,
            asked => Some(asked),
        }
    }

    /// The request has been settled without the hub. Says under which id the hub knows it, where it waits for it.
    pub(super) fn withdraw(&mut self, own: &RequestId, told: Told) -> Option<RequestId> {
        let is_it = |request: &Request| request.own == *own && !matches!(request.asked, Asked::Settled);
        let at = self.pending.iter().position(is_it)?;
        match told {
            Told::Yes => Some(self.pending.swap_remove(at).hub),
            Told::No => {
                let request = &mut self.pending[at];
                request.asked = Asked::Settled;
                Some(request.hub.clone())
            }
        }
    }

    /// The turn has ended: hub and adapter settle its requests by themselves ([permission.3]).
    pub(super) fn turn_ended(&mut self, turn: TurnNo) {
        self.pending.retain(|request| request.turn != Some(turn));
    }
}

/// Whether the hub is told that a request was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Told {
    Yes,
    No,
}
