//! The trait that an author implements.

use std::future::Future;

use trunkline_protocol::{
    FileInput, SessionEntry, SessionInfo, SessionStart, SessionUpdate, SessionsList,
};

use crate::{Check, Description, Error, Input, Session, Turn};

/// An adapter: how a turn is served, and what else differs from the defaults.
///
/// One value serves every session of the process. Sessions run at the same time; within one session
/// everything runs one after the other in the host's order, so `state` needs no lock. Methods may
/// be written as `async fn`.
///
/// A panic in any of them ends what it was for (the turn, the start) as failed and nothing else.
pub trait Adapter: Send + Sync + 'static {
    /// The author's state of a session.
    type State: Default + Send + 'static;

    /// Serves one turn: the input in, outputs out. Its return is the turn's end ([turn.1]).
    ///
    /// Watch [`Turn::stopped`]: after a stop the future is dropped when it has not returned within the grace.
    fn turn(
        &self,
        turn: Turn,
        input: Input,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), Error>> + Send;

    /// Makes the session's state when it is opened. Inputs wait for it; the host does not.
    ///
    /// An error ends the session ([session.8]).
    fn start(
        &self,
        session: &Session,
        options: SessionStart,
    ) -> impl Future<Output = Result<Self::State, Error>> + Send {
        let _ = (session, options);
        async { Ok(Self::State::default()) }
    }

    /// Changes options of the session between turns (`options`). Returns the values now in force;
    /// an error leaves them as they were. Either is answered by one `session.info`.
    fn update(
        &self,
        session: &Session,
        update: SessionUpdate,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<SessionInfo, Error>> + Send {
        let _ = (session, update, state);
        async { Ok(SessionInfo::default()) }
    }

    /// Takes note of a file as soon as it is announced. It comes with the next [`Input`] too ([file.2]).
    fn file(
        &self,
        session: &Session,
        file: FileInput,
        state: &mut Self::State,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        let _ = (session, file, state);
        async { Ok(()) }
    }

    /// Frees the resources of the session, after its last turn. Called once for each state, even
    /// when the adapter shuts down; it has less than a second then.
    fn close(&self, session: &Session, state: Self::State) -> impl Future<Output = ()> + Send {
        let _ = (session, state);
        async {}
    }

    /// Lists sessions that can be resumed. Needs [`Description::resumes`].
    fn sessions(
        &self,
        list: SessionsList,
    ) -> impl Future<Output = Result<Vec<SessionEntry>, Error>> + Send {
        let _ = list;
        async { Ok(Vec::new()) }
    }

    /// Says what the adapter is and can. Called once; it must not block.
    fn describe(&self) -> Description {
        Description::default()
    }

    /// Returns the options that this session honours, and other information that is known at once
    /// ([ext.2]). It must not block: `session.ready` is sent with its result.
    ///
    /// By default the requested options that [`Description::honours`] names.
    fn greet(&self, options: &SessionStart) -> SessionInfo {
        let _ = options;
        SessionInfo::default()
    }

    /// Ends the login that the agent keeps (`--log-out`, [ext.8]).
    ///
    /// # Errors
    /// The reason why the agent is still logged in. By default that it has no logout.
    ///
    /// # Cancel safety
    /// Never dropped: the program ends after it.
    fn log_out(&self) -> impl Future<Output = Result<(), Error>> + Send {
        async { Err(Error::refused("its adapter knows no logout")) }
    }

    /// Checks what the adapter needs (`--diagnose`, [ext.8]).
    fn diagnose(&self) -> impl Future<Output = Vec<Check>> + Send {
        async { vec![Check::info("start", "the adapter starts")] }
    }
}
