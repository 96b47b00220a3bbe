//! Input of a turn.

use trunkline_protocol::{FileInput, MessageId, Meta};

/// The user's input: one `user.input`.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Input {
    /// The text. May be empty.
    pub content: String,
    /// The files that were announced since the session's previous input ([file.2]), in order.
    pub files: Vec<FileInput>,
    /// The input's own id, if the host gave one (`turns`).
    pub message_id: Option<MessageId>,
    /// Data that passes through untouched ([ext.4]).
    pub meta: Option<Meta>,
}

impl Input {
    /// Creates an input with only this text.
    #[must_use]
    pub fn text(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            ..Self::default()
        }
    }
}
