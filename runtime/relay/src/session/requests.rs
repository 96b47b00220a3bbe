//! The permissions and questions sent to the hub, by the id that it knows ([permission.*]).

use std::collections::{HashMap, VecDeque};

use trunkline_host::{Permission, Question, TurnNo};
use trunkline_protocol::RequestId;

/// Number of remembered requests that were settled without a way to report it to the hub. The id of
/// an older one is never used again, so that its late answer answers nothing.
const SETTLED: usize = 1024;

/// A request that waits for the hub's answer. Dropping it unanswered denies or cancels it.
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
    /// `None` if it was settled and the hub could not be informed: its answer will be late.
    asked: Option<A>,
}

/// The requests that the hub counts as pending. Each step costs the same, however many exist.
#[derive(Debug)]
pub(super) struct Requests<A = PendingRequest> {
    /// Requests by the id that the hub knows.
    pending: HashMap<RequestId, Request<A>>,
    /// The hub's ids of waiting requests, by the adapter's own.
    hub_ids: HashMap<RequestId, RequestId>,
    /// The hub's ids of settled requests, oldest first; some are no longer pending.
    settled: VecDeque<RequestId>,
    /// Set if some ids of settled requests were forgotten. Then each request gets a fresh id.
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
    /// Adds a request and returns its id for the hub: the adapter's own, unless the hub may still
    /// have one pending under it whose end could not be reported.
    pub(super) fn ask(&mut self, own: &RequestId, turn: Option<TurnNo>, asked: A) -> RequestId {
        let mut hub = own.clone();
        // An own id in the form of a fresh one could be assigned twice.
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

    /// Removes the request that the hub answers; `None` if none waits for an answer.
    pub(super) fn answered(&mut self, hub: &RequestId) -> Option<A> {
        let request = self.pending.remove(hub)?;
        if request.asked.is_some() {
            self.hub_ids.remove(&request.own);
        }
        request.asked
    }

    /// Removes a request that was settled without the hub. Returns the id under which the hub waits
    /// for it, if it does.
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

    /// Removes the requests of an ended turn: hub and adapter settle them by themselves
    /// ([permission.3]).
    pub(super) fn turn_ended(&mut self, turn: TurnNo) {
        if self.pending.is_empty() {
            return;
        }
        let ended = |_: &RequestId, request: &mut Request<A>| request.turn == Some(turn);
        for (hub, request) in self.pending.extract_if(ended) {
            // A settled request may have passed its own id to a later one.
            if self.hub_ids.get(&request.own) == Some(&hub) {
                self.hub_ids.remove(&request.own);
            }
        }
    }
}

/// Returns true if an id ends as fresh ones do: in `~` and a number.
fn is_fresh_form(id: &RequestId) -> bool {
    let number = id.as_str().rsplit_once('~').map(|(_, number)| number);
    number.is_some_and(|number| {
        !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

/// Flag for reporting to the hub that a request was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HubInformed {
    Yes,
    No,
}

#[cfg(test)]
mod tests;
