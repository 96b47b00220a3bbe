//! A session, as its user holds it.

mod shared;
mod status;

use std::{
    path::{Path, PathBuf},
    sync::{Arc, atomic::Ordering},
};

use tokio::sync::oneshot;
use tracing::Span;
use trunkline_protocol::{
    FileInput, InputMode, MessageId, Meta, SessionId, SessionInfo, SessionStart, SessionUpdate,
    StopReason, UserInput, json_len,
};

pub(crate) use self::shared::{Admitted, SessionShared};
pub use self::status::SessionStatus;
use crate::{
    Event, SteerError, Turn, TurnNo,
    counters::SessionCounters,
    error::{FileError, SendError, UpdateError},
    files::Announced,
    link::Command,
    mailbox::Mailbox,
};

/// An open session. Clones are handles to the same one; dropping the last closes it.
///
/// The session outlives the process below it: after a crash its next input starts the process again
/// and the user learns whether the agent remembers ([process.5]).
#[derive(Debug, Clone)]
pub struct Session {
    handle: Arc<Handle>,
}

/// The options of a new session.
#[derive(Debug, Default)]
pub struct SessionOptions {
    /// The id on the wire; absent: a fresh one. An id that was used in the adapter's process before
    /// is replaced.
    pub id: Option<SessionId>,
    /// The options for the agent ([ext.5] `options`, `resume`). `protocol`, `extensions` and
    /// `exchange_dir` are the host's.
    pub start: SessionStart,
    /// Data that passes through with `session.start`.
    pub meta: Option<Meta>,
    /// The way in which events are read.
    pub delivery: EventDelivery,
}

/// The way in which a session's events are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EventDelivery {
    /// Each turn's by its [`Turn`], the others by [`Session::next_event`].
    #[default]
    PerTurn,
    /// All by [`Session::next_event`], in the order in which they came; each [`Turn`] is an empty
    /// handle. For relays.
    Merged,
}

/// The user's input: a text; or, with more, the protocol's input and data that passes through.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    /// The text, the input's own id, and the limits of its turn. The host sets the `mode`, by the
    /// call that takes it.
    pub message: UserInput,
    /// Data that passes through untouched.
    pub meta: Option<Meta>,
}

/// A file that was copied for the agent of a session and is not announced yet. Dropped, it never is.
#[derive(Debug)]
pub struct PlacedFile {
    file: Box<FileInput>,
    admitted: Admitted,
}

impl PlacedFile {
    /// The name under which the agent gets the file.
    #[must_use]
    pub fn name(&self) -> &str {
        self.file.file_name.as_deref().unwrap_or_default()
    }
}

impl<T: Into<String>> From<T> for Input {
    fn from(content: T) -> Self {
        Self {
            message: UserInput::text(content),
            meta: None,
        }
    }
}

/// State shared by the clones of a session; dropping the last one closes it.
#[derive(Debug)]
struct Handle {
    shared: Arc<SessionShared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.shared.is_closed() {
            self.shared.command(Command::Close {
                session: self.shared.clone(),
                done: None,
            });
        }
        // It has no reader any longer, though a turn or the link may hold the session for a while.
        // After the close, so that requests in it are answered to a closed session.
        self.shared.mailbox().discard();
    }
}

impl Session {
    pub(crate) fn new(shared: Arc<SessionShared>) -> Self {
        Self {
            handle: Arc::new(Handle { shared }),
        }
    }

    pub(crate) fn shared(&self) -> &Arc<SessionShared> {
        &self.handle.shared
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.shared().id
    }

    /// Sends an input to the agent: it begins a turn, after those under way ([turn.3]).
    ///
    /// Never waits. An accepted input has exactly one end, whatever happens ([turn.7]). Its
    /// `limits` narrow the limits of the session and of the configuration for its turn ([ext.7]).
    /// Where traces are read, the turn's span follows from the one that is current here.
    ///
    /// # Errors
    /// [`SendError::Busy`] when `queued_inputs` wait already or `outbox` bytes do,
    /// [`SendError::Closed`] after the session's end.
    pub fn send(&self, input: impl Into<Input>) -> Result<Turn, SendError> {
        let Input {
            message: mut input,
            meta,
        } = input.into();
        input.mode = None;
        let shared = self.shared();
        if shared.is_closed() {
            return Err(SendError::Closed);
        }
        shared.inbox.admit(&shared.waiting, input.content.len())?;
        let mailbox = Mailbox::new(shared.inbox.store());
        let no = shared.inbox.push_numbered(|| {
            let turn = TurnNo::new(shared.turns.fetch_add(1, Ordering::Relaxed) + 1);
            let session = shared.clone();
            let mailbox = mailbox.clone();
            (
                turn,
                Command::Send {
                    session,
                    turn,
                    mailbox,
                    input,
                    meta,
                    from: Span::current(),
                },
            )
        });
        Ok(Turn::new(no, mailbox, shared.clone()))
    }

    /// Adds to the running turn ([turn.10]).
    ///
    /// # Errors
    /// [`SteerError`] when no turn is running, the agent cannot, too much waits already, or the
    /// session has ended; nothing has happened then.
    ///
    /// # Cancel safety
    /// Dropping the future does not take the input back.
    pub async fn steer(&self, input: impl Into<Input>) -> Result<(), SteerError> {
        let Input {
            message: mut input,
            meta,
        } = input.into();
        let shared = self.shared();
        if shared.is_closed() {
            return Err(SteerError::Closed);
        }
        let admitted = shared
            .admit(input.content.len())
            .map_err(|_| SteerError::Busy)?;
        input.mode = Some(InputMode::Steer);
        // The limits of the running turn hold.
        input.limits = None;
        let (reply, answer) = oneshot::channel();
        // Its answer names it by this ([turn.10]).
        let fresh = || MessageId::new(uuid::Uuid::new_v4().simple().to_string()).ok();
        input.message_id = input.message_id.or_else(fresh);
        shared.command(Command::Steer {
            session: shared.clone(),
            input: Box::new(input),
            meta,
            admitted,
            reply,
        });
        answer.await.unwrap_or(Err(SteerError::Closed))
    }

    /// Stops the running turn ([turn.4], [turn.5]). Does nothing when none runs, and does not wait
    /// for its end.
    pub fn stop(&self) {
        self.shared().command(Command::Stop {
            session: self.shared().clone(),
            turn: None,
            reason: StopReason::User,
        });
    }

    /// Stops one turn: ends it unwritten where it waits, stops it where it runs ([turn.9],
    /// [turn.11]). Does nothing for a turn that has ended.
    pub fn stop_turn(&self, turn: TurnNo, reason: StopReason) {
        self.shared().command(Command::Stop {
            session: self.shared().clone(),
            turn: Some(turn),
            reason,
        });
    }

    /// Changes options of the live session ([ext.5] `options`); resolves with the values now in
    /// force.
    ///
    /// # Errors
    /// [`UpdateError`] when the adapter does not know `options`, the session ends first, too much
    /// waits already, or the value would widen what the configuration allows ([ext.7]).
    ///
    /// # Cancel safety
    /// Dropping the future does not take the change back.
    pub async fn update(&self, update: SessionUpdate) -> Result<SessionInfo, UpdateError> {
        let shared = self.shared();
        let admitted = shared
            .admit(json_len(&update))
            .map_err(|_| UpdateError::Busy)?;
        let (reply, answer) = oneshot::channel();
        let update = Box::new(update);
        shared.command(Command::Update {
            session: shared.clone(),
            update,
            admitted,
            reply,
        });
        answer.await.unwrap_or(Err(UpdateError::Closed))
    }

    /// Gives the agent a file: copies it into the session's exchange folder and announces it before
    /// the next input ([file.2], [file.7]).
    ///
    /// # Errors
    /// [`FileError::Refused`] when it is not a regular file, is too large, or cannot be read or copied,
    /// [`FileError::Busy`] when too much waits already,
    /// [`FileError::Io`] when its path cannot be made absolute or the exchange folder cannot be made,
    /// [`FileError::Closed`] after the session's end, and when the task that copies it panics or is given up.
    ///
    /// # Panics
    /// When it is polled outside a Tokio runtime: the copy runs on its threads for blocking work.
    ///
    /// # Cancel safety
    /// Dropping the future before it resolves may or may not announce the file.
    pub async fn deliver_file(
        &self,
        path: impl AsRef<Path>,
        name: Option<String>,
        mime_type: Option<String>,
    ) -> Result<(), FileError> {
        let path = std::path::absolute(path)?;
        let placed = self.place(path, name, mime_type, Announced::default());
        placed.await.map(|placed| self.announce(placed))
    }

    /// Delivers a file as another peer announced it: as [`Session::deliver_file`], and the file is
    /// refused too if its size or its digest is not the announced one.
    ///
    /// # Errors
    /// As [`Session::deliver_file`].
    ///
    /// # Panics
    /// As [`Session::deliver_file`].
    ///
    /// # Cancel safety
    /// As [`Session::deliver_file`].
    pub async fn deliver_announced(&self, file: FileInput) -> Result<(), FileError> {
        self.place_file(file)
            .await
            .map(|placed| self.announce(placed))
    }

    /// Copies a file for the agent as another peer announced it, and leaves it to
    /// [`Session::announce`] when the agent learns of it.
    ///
    /// # Errors
    /// As [`Session::deliver_file`].
    ///
    /// # Panics
    /// As [`Session::deliver_file`].
    ///
    /// # Cancel safety
    /// A copy that was dropped before it resolves stays until the session ends, and is never
    /// announced.
    pub async fn place_file(&self, file: FileInput) -> Result<PlacedFile, FileError> {
        let FileInput {
            file_name,
            file_mime_type,
            file_path,
            size,
            sha256,
        } = file;
        let path = std::path::absolute(file_path)?;
        self.place(path, file_name, file_mime_type, Announced { size, sha256 })
            .await
    }

    /// Announces a file that [`Session::place_file`] of this session copied, behind all inputs that
    /// were sent before.
    pub fn announce(&self, placed: PlacedFile) {
        let PlacedFile { file, admitted } = placed;
        self.shared().command(Command::File {
            session: self.shared().clone(),
            file,
            admitted,
        });
    }

    async fn place(
        &self,
        path: PathBuf,
        name: Option<String>,
        mime_type: Option<String>,
        announced: Announced,
    ) -> Result<PlacedFile, FileError> {
        let shared = self.shared().clone();
        if shared.is_closed() {
            return Err(FileError::Closed);
        }
        let admitted = shared
            .admit(path.as_os_str().len())
            .map_err(|_| FileError::Busy)?;
        let place = move || shared.place(&path, name.as_deref(), mime_type.as_deref(), announced);
        let placed = tokio::task::spawn_blocking(place)
            .await
            .map_err(|_| FileError::Closed)??;
        Ok(PlacedFile {
            file: Box::new(placed),
            admitted,
        })
    }

    /// The next event outside turns; with merged delivery, of every turn too. `None`
    /// after [`Closed`](crate::EventKind::Closed).
    ///
    /// For one task: of several that wait, only the last is woken.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next_event(&self) -> Option<Event> {
        std::future::poll_fn(|cx| self.shared().mailbox().poll_next(cx, self.shared())).await
    }

    /// Pauses the session, as the user reads no events of it for now: the inactivity deadline rests until
    /// [`Session::resume`] ([flow.2]). An adapter that knows `flow` is asked to hold back each turn that runs
    /// meanwhile, unless it is stopped ([flow.1]).
    pub fn pause(&self) {
        self.shared().command(Command::Pause(self.shared().clone()));
    }

    /// Continues after [`Session::pause`]: the user reads events again.
    pub fn resume(&self) {
        self.shared()
            .command(Command::Resume(self.shared().clone()));
    }

    /// Closes the session: its turns end, its requests are settled, the adapter frees it
    /// ([session.4]). Closing twice is closing once. Resolves when `session.close` was handed to
    /// the pipe's writer.
    ///
    /// # Cancel safety
    /// Dropping the future closes the session all the same.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        self.shared().command(Command::Close {
            session: self.shared().clone(),
            done: Some(done),
        });
        // An error means that the link is gone, and the session with it.
        let _ = closed.await;
    }

    /// The counters of this session's messages.
    #[must_use]
    pub fn counters(&self) -> SessionCounters {
        self.shared().counted.snapshot()
    }

    /// Returns the present status of the session. `None` after its end.
    ///
    /// # Cancel safety
    /// It changes nothing.
    pub async fn status(&self) -> Option<SessionStatus> {
        let (reply, answer) = oneshot::channel();
        self.shared().command(Command::Status {
            of: Some(self.shared().clone()),
            reply,
        });
        // An error means that the link is gone, and the session with it.
        answer.await.ok()?.pop()
    }

    /// Returns true if the session has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared().is_closed()
    }
}
