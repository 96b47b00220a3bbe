//! A wrapped agent's state of a session: its conversation, once it was started.

use trunkline_sdk::{Category, Error};

/// The conversation.
///
/// # Errors
/// Before the session's start, which the host does not do.
pub(crate) fn started<C>(conversation: &mut Option<C>) -> Result<&mut C, Error> {
    conversation
        .as_mut()
        .ok_or_else(|| Error::new(Category::Protocol, "the session was not started"))
}
