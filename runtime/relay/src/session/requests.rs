//! The permissions and questions that the hub was asked, by the id that it knows ([permission.*]).

use std::collections::{HashMap, VecDeque};

use trunkline_host::{Permission, Question, TurnNo};
use trunkline_protocol::RequestId;

/// How many requests are remembered that were settled without a way to report it to the hub. Of an older one the id
/// is never used again, so that its late answer answers nothing.
const SETTLED: usize = 1024;

/// What waits for the hub's answer. Dropped unanswered, it is denied or cancelled.
#[derive(Debug)]
pub(super) enum PendingRequest {
    Permission(Permission),
    Question(Question),
}

/// A request that the hub counts as pending.
#[derive(Debug)]
struct Request<A> {
    /// The adapter's own id.
    own: RequestId,
    turn: Option<TurnNo>,
    /// Nothing where it was settled and the hub could not learn of it: its answer will be late.
    asked: Option<A>,
}

/// The requests that the hub counts as pending. Each step costs the same, however many there are.
#[derive(Debug)]
pub(super) struct Requests<A = PendingRequest> {
    /// By the id that the hub knows.
    pending: HashMap<RequestId, Request<A>>,
    /// The hub's ids of those that wait, by the adapter's own.
    hub_ids: HashMap<RequestId, RequestId>,
    /// The hub's ids of those that were settled, oldest first; some have gone since.
    settled: VecDeque<RequestId>,
    /// Whether the ids of all settled ones are known. If not, each request gets a fresh id.
    forgot: bool,
    renamed: u64,
}

impl<A> Default for Requests<A> {
    fn default() -> Self {
        Self {
            pending: HashMap::new(),
            hub_ids: HashMap::new(),
            settled: VecDeque::new(),
            forgot: false,
            renamed: 0,
        }
    }
}

impl<A> Requests<A> {
    /// Takes a request and says under which id the hub is asked: the adapter's own, unless the hub may still have one
    /// pending under it whose end it could not learn.
    pub(super) fn ask(&mut self, own: &RequestId, turn: Option<TurnNo>, asked: A) -> RequestId {
        let mut hub = own.clone();
        // An own id in the form of a fresh one could be given twice.
        let mut taken = self.forgot || is_fresh_form(own) || self.pending.contains_key(&hub);
        while taken {
            self.renamed += 1;
            let text = own.as_str();
            // An id has 256 bytes at most; the number needs 21 of them.
            let kept = text.floor_char_boundary(text.len().min(230));
            if let Ok(id) = RequestId::new(format!("{}~{}", &text[..kept], self.renamed)) {
                taken = self.pending.contains_key(&id);
                hub = id;
            }
        }
        self.hub_ids.insert(own.clone(), hub.clone());
        self.pending.insert(
            hub.clone(),
            Request {
                own: own.clone(),
                turn,
                asked: Some(asked),
            },
        );
        hub
    }

    /// Takes out what the hub answers; nothing where none waits for an answer.
    pub(super) fn answered(&mut self, hub: &RequestId) -> Option<A> {
        let request = self.pending.remove(hub)?;
        if request.asked.is_some() {
            self.hub_ids.remove(&request.own);
        }
        request.asked
    }

    /// The request has been settled without the hub. Says under which id the hub knows it, where it waits for it.
    pub(super) fn withdraw(&mut self, own: &RequestId, informed: HubInformed) -> Option<RequestId> {
        let hub = self.hub_ids.remove(own)?;
        match informed {
            HubInformed::Yes => {
                self.pending.remove(&hub);
            }
            HubInformed::No => {
                if let Some(request) = self.pending.get_mut(&hub) {
                    request.asked = None;
                    self.settled.push_back(hub.clone());
                }
                self.forget_oldest();
            }
        }
        Some(hub)
    }

    fn forget_oldest(&mut self) {
        if self.settled.len() > SETTLED
            && let Some(oldest) = self.settled.pop_front()
            && self
                .pending
                .get(&oldest)
                .is_some_and(|request| request.asked.is_none())
        {
            self.pending.remove(&oldest);
            self.forgot = true;
        }
    }

    /// The turn has ended: hub and adapter settle its requests by themselves ([permission.3]).
    pub(super) fn turn_ended(&mut self, turn: TurnNo) {
        if self.pending.is_empty() {
            return;
        }
        let ended = |_: &RequestId, request: &mut Request<A>| request.turn == Some(turn);
        for (hub, request) in self.pending.extract_if(ended) {
            // One that was settled may have given its own id to a later one.
            if self.hub_ids.get(&request.own) == Some(&hub) {
                self.hub_ids.remove(&request.own);
            }
        }
    }
}

/// Whether an id ends as fresh ones do: in `~` and a number.
fn is_fresh_form(id: &RequestId) -> bool {
    let number = id.as_str().rsplit_once('~').map(|(_, number)| number);
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Whether the hub learns that a request was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HubInformed {
    Yes,
    No,
}

#[cfg(test)]
mod tests;
