//! The order of ends for a hub that cannot distinguish one turn from another ([relay.6]).

use std::collections::VecDeque;

use trunkline_protocol::{TurnComplete, TurnId};

/// Number of turns from which ends that wait are merged although they differ.
const MAX_TURNS: usize = 4096;

/// The turns that a hub without `turns` waits for, in the order of its inputs. An end is sent when
/// the turns before it have ended.
#[derive(Debug, Default)]
pub(crate) struct TurnOrder(VecDeque<OrderedTurn>);

/// A turn that the hub waits for.
#[derive(Debug)]
enum OrderedTurn {
    Open(TurnId),
    /// A number of ends, all alike, that wait for the turns before them.
    Ended(Box<TurnComplete>, u64),
}

impl TurnOrder {
    /// Adds a turn.
    pub(crate) fn begin(&mut self, turn: TurnId) {
        self.0.push_back(OrderedTurn::Open(turn));
    }

    /// Returns true if the turn is open.
    pub(crate) fn contains(&self, turn: &TurnId) -> bool {
        self.position(turn).is_some()
    }

    fn position(&self, turn: &TurnId) -> Option<usize> {
        let is_it = |ordered: &OrderedTurn| matches!(ordered, OrderedTurn::Open(id) if id == turn);
        self.0.iter().position(is_it)
    }

    /// Returns true if the hub waits for no turn.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Ends a turn. Returns the end if it is its turn to be sent.
    pub(crate) fn end(
        &mut self,
        turn: &TurnId,
        end: Box<TurnComplete>,
    ) -> Option<Box<TurnComplete>> {
        match self.position(turn)? {
            0 => {
                self.0.pop_front();
                Some(end)
            }
            at => {
                self.0[at] = OrderedTurn::Ended(end, 1);
                // With the later neighbour first: its place does not move.
                self.merge(at + 1);
                self.merge(at);
                None
            }
        }
    }

    /// Adds the end of an input that was refused.
    pub(crate) fn refuse(&mut self, end: Box<TurnComplete>) {
        self.0.push_back(OrderedTurn::Ended(end, 1));
        self.merge(self.0.len() - 1);
    }

    /// Merges an end with the one before it if both are alike, so that a million of them take no
    /// room. If too many turns are open, the reason of the first serves both.
    fn merge(&mut self, at: usize) {
        let before = at.checked_sub(1).and_then(|before| self.0.get(before));
        let (Some(OrderedTurn::Ended(first, count)), Some(OrderedTurn::Ended(second, more))) =
            (before, self.0.get(at))
        else {
            return;
        };
        if first == second || self.0.len() > MAX_TURNS {
            let merged = count + more;
            self.0.remove(at);
            if let OrderedTurn::Ended(_, count) = &mut self.0[at - 1] {
                *count = merged;
            }
        }
    }

    /// Returns true if the next end may be sent: the turns before it have ended.
    pub(crate) fn has_next(&self) -> bool {
        matches!(self.0.front(), Some(OrderedTurn::Ended(..)))
    }

    /// Removes the next end, if the turns before it have ended.
    pub(crate) fn next(&mut self) -> Option<Box<TurnComplete>> {
        match self.0.front_mut()? {
            OrderedTurn::Open(_) => None,
            OrderedTurn::Ended(end, count) if *count > 1 => {
                *count -= 1;
                Some(end.clone())
            }
            OrderedTurn::Ended(..) => match self.0.pop_front()? {
                OrderedTurn::Ended(end, _) => Some(end),
                OrderedTurn::Open(_) => None,
            },
        }
    }

    /// Removes the next ends and returns their number, if the turns before them have ended.
    pub(crate) fn drop_next(&mut self) -> Option<u64> {
        match self.0.front()? {
            OrderedTurn::Open(_) => None,
            OrderedTurn::Ended(_, count) => {
                let count = *count;
                self.0.pop_front();
                Some(count)
            }
        }
    }
}
