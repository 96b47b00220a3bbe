//! An adapter behind one type: what serves it is compiled once, not again for every adapter of a program.

use std::{future::Future, pin::Pin};

use trunkline_protocol::{
    FileInput, SessionEntry, SessionInfo, SessionStart, SessionUpdate, SessionsList,
};

use crate::{Adapter, Check, Description, Error, Input, Session, Turn, session::State};

type Hook<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// [`Adapter`] with its futures boxed and its state erased. A session without a state yet gets the
/// default one.
pub(crate) trait AnyAdapter: Send + Sync + 'static {
    fn turn<'a>(
        &'a self,
        turn: Turn,
        input: Input,
        state: &'a mut Option<State>,
    ) -> Hook<'a, Result<(), Error>>;

    fn start<'a>(
        &'a self,
        session: &'a Session,
        options: SessionStart,
    ) -> Hook<'a, Result<State, Error>>;

    fn update<'a>(
        &'a self,
        session: &'a Session,
        update: SessionUpdate,
        state: &'a mut Option<State>,
    ) -> Hook<'a, Result<SessionInfo, Error>>;

    fn file<'a>(
        &'a self,
        session: &'a Session,
        file: FileInput,
        state: &'a mut Option<State>,
    ) -> Hook<'a, Result<(), Error>>;

    fn close<'a>(&'a self, session: &'a Session, state: State) -> Hook<'a, ()>;

    fn sessions(&self, list: SessionsList) -> Hook<'_, Result<Vec<SessionEntry>, Error>>;

    fn log_out(&self) -> Hook<'_, Result<(), Error>>;

    fn diagnose(&self) -> Hook<'_, Vec<Check>>;

    fn describe(&self) -> Description;

    fn greet(&self, options: &SessionStart) -> SessionInfo;
}

impl<A: Adapter> AnyAdapter for A {
    fn turn<'a>(
        &'a self,
        turn: Turn,
        input: Input,
        state: &'a mut Option<State>,
    ) -> Hook<'a, Result<(), Error>> {
        Box::pin(async move { Adapter::turn(self, turn, input, own::<A>(state)).await })
    }

    fn start<'a>(
        &'a self,
        session: &'a Session,
        options: SessionStart,
    ) -> Hook<'a, Result<State, Error>> {
        Box::pin(
            async move { Ok(Box::new(Adapter::start(self, session, options).await?) as State) },
        )
    }

    fn update<'a>(
        &'a self,
        session: &'a Session,
        update: SessionUpdate,
        state: &'a mut Option<State>,
    ) -> Hook<'a, Result<SessionInfo, Error>> {
        Box::pin(async move { Adapter::update(self, session, update, own::<A>(state)).await })
    }

    fn file<'a>(
        &'a self,
        session: &'a Session,
        file: FileInput,
        state: &'a mut Option<State>,
    ) -> Hook<'a, Result<(), Error>> {
        Box::pin(async move { Adapter::file(self, session, file, own::<A>(state)).await })
    }

    fn close<'a>(&'a self, session: &'a Session, state: State) -> Hook<'a, ()> {
        Box::pin(async move {
            if let Ok(state) = state.downcast::<A::State>() {
                Adapter::close(self, session, *state).await;
            }
        })
    }

    fn sessions(&self, list: SessionsList) -> Hook<'_, Result<Vec<SessionEntry>, Error>> {
        Box::pin(Adapter::sessions(self, list))
    }

    fn log_out(&self) -> Hook<'_, Result<(), Error>> {
        Box::pin(Adapter::log_out(self))
    }

    fn diagnose(&self) -> Hook<'_, Vec<Check>> {
        Box::pin(Adapter::diagnose(self))
    }

    fn describe(&self) -> Description {
        Adapter::describe(self)
    }

    fn greet(&self, options: &SessionStart) -> SessionInfo {
        Adapter::greet(self, options)
    }
}

/// The state as the adapter's own type. A session is served by one adapter, so there is no other.
fn own<A: Adapter>(state: &mut Option<State>) -> &mut A::State {
    let state = state.get_or_insert_with(|| Box::new(A::State::default()));
    state
        .downcast_mut()
        .expect("the state of a session has the type of its adapter")
}
