//! The turn that something belongs to.

use std::fmt;

use serde::{Serialize, Serializer};
use trunkline_protocol::TurnId;

/// Numbers the turns of one session, from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TurnNo(pub(crate) u64);

impl TurnNo {
    /// The turn of this number; the first is 1.
    #[must_use]
    #[inline]
    pub const fn new(number: u64) -> Self {
        Self(number)
    }

    /// The number.
    #[must_use]
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Returns its id on the wire: `t` and its number, so that it is read back without a table.
    pub(crate) fn to_id(self) -> Option<TurnId> {
        TurnId::new(self.to_string()).ok()
    }

    /// The turn that an id on the wire names, if it may be ours.
    pub(crate) fn named(id: &str) -> Option<Self> {
        let digits = id.strip_prefix('t')?;
        // Ids are compared byte for byte; a number reads other spellings, too.
        if digits.starts_with(['+', '0']) {
            None
        } else {
            digits.parse().ok().map(Self)
        }
    }
}

impl fmt::Display for TurnNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "t{}", self.0)
    }
}

/// Id on the wire.
impl Serialize for TurnNo {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// The turn that an event belongs to ([turn.6], [turn.9]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TurnScope {
    /// This turn, which has not ended.
    Running(TurnNo),
    /// No turn: background work, news of the session.
    Outside,
    /// This turn, which has ended already.
    Ended(TurnNo),
}
