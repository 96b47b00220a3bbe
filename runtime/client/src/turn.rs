//! A turn that this client began, from its input to its end.

use tokio::sync::watch;
use trunkline_protocol::{FileInput, MessageId, Meta, TurnComplete, TurnId};

use crate::{ClientError, Session};

/// An input: text, and files of the host's machine.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Input {
    /// The text.
    pub content: String,
    /// Its id in the session, by which it counts once ([journal.7]). `None` for a fresh one.
    pub message_id: Option<MessageId>,
    /// Files that go with it, announced in this order ([file.2]).
    pub files: Vec<FileInput>,
    /// The `_meta` of the message.
    pub meta: Option<Meta>,
}

impl Input {
    /// An input of this text.
    #[must_use]
    pub fn text(content: impl Into<String>) -> Self {
        Self {
            content: content.into(),
            ..Self::default()
        }
    }

    /// Adds a file. Its path must be absolute, and name a regular file that stays readable until
    /// the session closes.
    #[must_use]
    pub fn with_file(mut self, file: FileInput) -> Self {
        self.files.push(file);
        self
    }
}

impl From<&str> for Input {
    fn from(content: &str) -> Self {
        Self::text(content)
    }
}

impl From<String> for Input {
    fn from(content: String) -> Self {
        Self::text(content)
    }
}

/// The host's acceptance of an input ([journal.7]).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Acceptance {
    /// The turn that it begins.
    pub turn_id: TurnId,
    /// The number of its `turn.begin`. `None` without a journal: an input counts as accepted when
    /// it is written.
    pub seq: Option<u64>,
    /// True if the journal had it before: it was sent again, on a new connection or by its caller.
    /// In the latter case its turn may have ended, and [`Turn::end`] fails.
    pub duplicate: bool,
}

/// The state of a turn, as its handle sees it.
#[derive(Debug, Clone)]
pub(crate) struct TurnProgress {
    pub(crate) turn_id: TurnId,
    pub(crate) accepted: Option<Acceptance>,
    pub(crate) end: Option<Result<Box<TurnComplete>, ClientError>>,
}

/// A turn of this client: its id, its acceptance, its end. Its events come from
/// [`Events`](crate::Events), with its id.
///
/// Dropping it changes nothing: the turn continues, and its input is sent until it is accepted.
/// Clones share it.
#[derive(Debug, Clone)]
pub struct Turn {
    pub(crate) requested_id: TurnId,
    pub(crate) message_id: MessageId,
    pub(crate) progress: watch::Receiver<TurnProgress>,
    pub(crate) session: Session,
}

impl Turn {
    /// The turn's id. The host may replace it when it accepts the input ([journal.7]).
    #[must_use]
    pub fn id(&self) -> TurnId {
        self.progress.borrow().turn_id.clone()
    }

    /// The input's own id, by which it counts once.
    #[must_use]
    pub fn message_id(&self) -> &MessageId {
        &self.message_id
    }

    /// Waits until the host has the input. After that neither its death nor a lost connection loses
    /// it, if the host keeps a journal.
    ///
    /// # Errors
    /// [`ClientError::RequestFailed`] with the host's reason if it refuses the input, and the cause
    /// of the session's end.
    ///
    /// # Cancel safety
    /// Cancelling changes nothing.
    pub async fn accepted(&mut self) -> Result<Acceptance, ClientError> {
        let progress = self
            .wait(|progress| progress.accepted.is_some() || progress.end.is_some())
            .await?;
        match (progress.accepted, progress.end) {
            (Some(accepted), _) => Ok(accepted),
            (None, Some(Err(cause))) => Err(cause),
            (None, end) => {
                let failure = end.and_then(Result::ok).and_then(|end| end.error);
                let message = failure.and_then(|failure| failure.message);
                let message = message.unwrap_or_else(|| "the input was not taken".to_owned());
                Err(ClientError::RequestFailed(message))
            }
        }
    }

    /// Waits for the end of the turn ([turn.7]), also of a turn that failed or whose input was
    /// refused: the status is in the value. The events of the session must be read meanwhile, or
    /// dropped.
    ///
    /// # Errors
    /// The cause of the session's end if that comes before the turn's, and
    /// [`ClientError::RequestFailed`] if the turn had ended before the input was sent again.
    ///
    /// # Cancel safety
    /// Cancelling changes nothing.
    pub async fn end(&mut self) -> Result<TurnComplete, ClientError> {
        let progress = self.wait(|progress| progress.end.is_some()).await?;
        match progress.end {
            Some(end) => end.map(|end| *end),
            None => Err(self.session.cause()),
        }
    }

    /// Stops the turn, running or queued ([turn.4], [turn.9]). Its end follows as for every turn.
    ///
    /// # Errors
    /// As [`Session::stop`].
    ///
    /// # Cancel safety
    /// Cancelling sends nothing.
    pub async fn stop(&self) -> Result<(), ClientError> {
        self.session.stop(self.id()).await
    }

    /// Returns true if this is the turn's id, or the one that its input was sent with.
    pub(crate) fn is_called(&self, id: &TurnId) -> bool {
        self.requested_id == *id || self.progress.borrow().turn_id == *id
    }

    async fn wait(
        &mut self,
        is_reached: impl FnMut(&TurnProgress) -> bool,
    ) -> Result<TurnProgress, ClientError> {
        match self.progress.wait_for(is_reached).await {
            Ok(progress) => Ok(progress.clone()),
            Err(_) => Err(self.session.cause()),
        }
    }
}
