//! A session, as its adapter holds it.

mod core;
mod ending;
mod job;
mod queue;
mod request;
mod running;
mod turning;

use std::{fmt, path::PathBuf, sync::Arc};

use trunkline_protocol::{
    AdapterBody, Channel, ClosedReason, Extensions, Failure, Output, SessionId, SessionInfo,
};

pub(crate) use self::{
    core::{Core, Ground, Keeper, State},
    job::{BegunTurn, Job, Next, QueuedTurn},
    running::{EndOrigin, Steer as QueuedSteer, ended},
    turning::Late,
};
use crate::{Answer, Decision, Permission, Question};

/// A conversation. A handle: clones are the same session, and dropping them does nothing.
///
/// It outlives turns: its own messages belong to none of them ([turn.6]). After the session's end
/// it sends nothing.
#[derive(Clone)]
pub struct Session(pub(crate) Arc<Core>);

impl Session {
    /// The host's id of the session.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.0.id
    }

    /// The extensions that both sides use. Nothing has to be asked of it before sending: what the
    /// host did not offer is folded down or left out ([ext.3]).
    #[must_use]
    pub fn agreed(&self) -> Extensions {
        self.0.agreed
    }

    /// The folder for files of this session: the host's exchange folder, else the private temporary folder
    /// ([file.6]).
    #[must_use]
    pub fn scratch_dir(&self) -> PathBuf {
        self.0
            .exchange_dir
            .as_ref()
            .map_or_else(std::env::temp_dir, |path| path.to_path_buf())
    }

    /// Returns true if the session has ended, by either side.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.is_over()
    }

    /// Sends text outside any turn: a greeting, news of background work.
    ///
    /// # Cancel safety
    /// It is sent whole or not at all.
    pub async fn output(&self, content: impl Into<String>) {
        self.emit(Output::text(content)).await;
    }

    /// Sends text outside any turn on a channel.
    ///
    /// # Cancel safety
    /// As [`Session::output`].
    pub async fn output_on(&self, channel: Channel, content: impl Into<String>) {
        self.emit(Output::on(channel, content)).await;
    }

    /// Sends an event outside any turn. Waits while the session holds more than its share of the pipe.
    ///
    /// Kinds that the SDK answers for itself (ends, requests, `session.ready`) are not sent.
    ///
    /// # Cancel safety
    /// As [`Session::output`].
    pub async fn emit(&self, event: impl Into<AdapterBody>) {
        self.0.ground.wire.room(self.0.key, 0).await;
        self.0.emit(None, event.into()).await;
    }

    /// Reports what became known of the session since it began ([ext.2]): a model, modes, a native
    /// session id.
    pub fn info(&self, info: SessionInfo) {
        self.0.put(None, info.into());
    }

    /// Asks for permission for an action that belongs to no turn. The request stays open until it
    /// is answered or the session ends ([permission.3]).
    ///
    /// # Cancel safety
    /// Dropping it withdraws the request.
    pub async fn ask_permission(&self, permission: Permission) -> Decision {
        self.0.ask_permission(None, permission).await
    }

    /// Asks the user outside any turn.
    ///
    /// # Cancel safety
    /// Dropping it withdraws the question.
    pub async fn ask(&self, question: Question) -> Answer {
        self.0.ask(None, question).await
    }

    /// Ends the session by the adapter's own will, after ending its turns ([session.8]). A second
    /// call does nothing.
    ///
    /// A host without `control` gets a text, and its further inputs are answered by the same text.
    pub fn end(&self, reason: ClosedReason, error: Option<Failure>) {
        self.0.finish(reason, error);
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Session").field(self.id()).finish()
    }
}
