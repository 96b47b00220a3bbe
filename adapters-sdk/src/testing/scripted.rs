//! An adapter that follows a script, for tests of what runs adapters.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use trunkline_protocol::{SessionStart, SessionUpdate};

use crate::{Adapter, Error, Input, Session, SessionInfo, Turn};

/// Answers each input with a fixed text or its echo, after a delay; fails if the script demands it.
#[derive(Debug, Clone, Default)]
pub struct Scripted {
    answers: Arc<Mutex<VecDeque<String>>>,
    delay: Duration,
    fails: Option<String>,
    captured: Arc<Mutex<Captured>>,
}

/// The inputs that a [`Scripted`] adapter was given.
#[derive(Debug, Clone, Default)]
pub struct Captured {
    /// The starts, in order.
    pub starts: Vec<SessionStart>,
    /// The updates, in order.
    pub updates: Vec<SessionUpdate>,
    /// The inputs, in order.
    pub inputs: Vec<Input>,
    /// The number of sessions that were closed.
    pub closed: usize,
}

impl Scripted {
    /// Creates an adapter that echoes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Answers the next inputs by these texts; then it echoes.
    #[must_use]
    pub fn answering<S: Into<String>>(self, answers: impl IntoIterator<Item = S>) -> Self {
        let answers = answers.into_iter().map(Into::into).collect();
        Self {
            answers: Arc::new(Mutex::new(answers)),
            ..self
        }
    }

    /// Waits before each answer.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }

    /// Fails each turn, after its answer.
    #[must_use]
    pub fn failing(self, message: impl Into<String>) -> Self {
        Self {
            fails: Some(message.into()),
            ..self
        }
    }

    /// The inputs that it was given so far. Clones share them.
    #[must_use]
    pub fn captured(&self) -> Captured {
        self.captured
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn capture(&self, note: impl FnOnce(&mut Captured)) {
        note(&mut self.captured.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Adapter for Scripted {
    type State = ();

    async fn start(&self, _: &Session, options: SessionStart) -> Result<(), Error> {
        self.capture(|captured| captured.starts.push(options));
        Ok(())
    }

    async fn turn(&self, turn: Turn, input: Input, (): &mut ()) -> Result<(), Error> {
        self.capture(|captured| captured.inputs.push(input.clone()));
        tokio::select! {
            biased;
            () = turn.stopped() => return Err(Error::stopped()),
            () = tokio::time::sleep(self.delay) => {}
        }
        let answer = self
            .answers
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .pop_front();
        turn.output(answer.unwrap_or(input.content)).await;
        match &self.fails {
            Some(message) => Err(Error::other(message.clone())),
            None => Ok(()),
        }
    }

    async fn update(
        &self,
        _: &Session,
        update: SessionUpdate,
        (): &mut (),
    ) -> Result<SessionInfo, Error> {
        let info = SessionInfo {
            model: update.model.clone(),
            mode: update.mode.clone(),
            ..SessionInfo::default()
        };
        self.capture(|captured| captured.updates.push(update));
        Ok(info)
    }

    async fn close(&self, _: &Session, (): ()) {
        self.capture(|captured| captured.closed += 1);
    }
}
