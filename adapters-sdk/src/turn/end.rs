//! Content of a turn's end.

use trunkline_protocol::{Status, TurnComplete};

use crate::{Error, session::ended};

/// The end of a turn: made from a [`Status`], a whole [`TurnComplete`], or an [`Error`].
#[derive(Debug, Clone, PartialEq, Default)]
pub struct End(pub(crate) TurnComplete);

impl From<Status> for End {
    fn from(status: Status) -> Self {
        Self(ended(status, None))
    }
}

impl From<TurnComplete> for End {
    fn from(end: TurnComplete) -> Self {
        Self(end)
    }
}

impl From<Error> for End {
    fn from(error: Error) -> Self {
        Self(error.into_end())
    }
}
