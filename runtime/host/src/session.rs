//! A session, as its user holds it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use tokio::sync::oneshot;
use trunkline_protocol::{
    ClosedReason, FileInput, InputMode, MessageId, Meta, SessionId, SessionInfo, SessionStart, SessionUpdate,
    StopReason, UserInput,
};
use trunkline_redact::HeldSecrets;

use crate::{
    Event, EventKind, SessionEnd, SteerError, Turn, TurnNo, TurnScope,
    agent::AgentShared,
    counters::{LiveSessionCounters, SessionCounters},
    error::{FileError, SendError, UpdateError},
    files::{self, Exchange, Pinned, Refusal},
    link::{Command, Inbox},
    mailbox::Mailbox,
};

/// An open session. Clones are handles to the same one; dropping the last closes it.
///
/// The session outlives the process below it: after a crash its next input starts the process again and the user
/// learns whether the agent remembers ([process.5]).
#[derive(Debug, Clone)]
pub struct Session {
    handle: Arc<Handle>,
}

/// How a session is opened.
#[derive(Debug, Default)]
pub struct SessionOptions {
    /// The id on the wire; absent: a fresh one. An id that was used in the adapter's process before is replaced.
    pub id: Option<SessionId>,
    /// The options for the agent ([ext.5] `options`, `resume`). `protocol`, `extensions` and `exchange_dir` are the host's.
    pub start: SessionStart,
    /// What passes through with `session.start`.
    pub meta: Option<Meta>,
    /// How events are read.
    pub delivery: EventDelivery,
}

/// How a session's events are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EventDelivery {
    /// Each turn's by its [`Turn`], the others by [`Session::next_event`].
    #[default]
    PerTurn,
    /// All by [`Session::next_event`], in the order in which they came; each [`Turn`] is an empty handle. For relays.
    Merged,
}

/// What the user says: a text, perhaps with ids and what passes through.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Input {
    /// The text.
    pub content: String,
    /// The input's own id.
    pub message_id: Option<MessageId>,
    /// What passes through untouched.
    pub meta: Option<Meta>,
}

impl<T: Into<String>> From<T> for Input {
    fn from(content: T) -> Self {
        Self { content: content.into(), ..Self::default() }
    }
}

/// What the clones of a session share; the last one closes it.
#[derive(Debug)]
struct Handle {
    shared: Arc<SessionShared>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        if !self.shared.is_closed() {
            self.shared.command(Command::Close { session: self.shared.clone(), done: None });
        }
        // Nothing reads it any more, though a turn or the link may hold the session for a while. After the close, so that
        // requests among it are answered to a session that is gone.
        self.shared.mailbox().discard();
    }
}

/// What a session's handles and its link share.
#[derive(Debug)]
pub(crate) struct SessionShared {
    /// The id that its user knows.
    pub(crate) id: SessionId,
    pub(crate) agent: Arc<AgentShared>,
    pub(crate) inbox: Arc<Inbox>,
    /// Events outside turns; every event where delivery is merged. Made with the first, or for the first look.
    mailbox: OnceLock<Mailbox>,
    /// The exchange folder, made when it is first needed ([file.6]).
    exchange: OnceLock<Exchange>,
    /// The working directory that it asked for: files may come from there.
    cwd: Option<Box<Pinned>>,
    /// The copies of its files.
    copies: Mutex<Copies>,
    /// What its options handed over in secret, up to its close.
    secrets: Mutex<HeldSecrets>,
    pub(crate) delivery: EventDelivery,
    /// The session's place in the core; set by the link when it takes the session.
    pub(crate) key: AtomicU64,
    /// What was counted of it.
    pub(crate) counted: LiveSessionCounters,
    /// Inputs that were accepted and have not been written.
    pub(crate) waiting: AtomicU32,
    turns: AtomicU64,
    closed: AtomicBool,
}

impl SessionShared {
    pub(crate) fn new(
        id: SessionId,
        agent: Arc<AgentShared>,
        delivery: EventDelivery,
        cwd: Option<Pinned>,
        secrets: HeldSecrets,
    ) -> Self {
        Self {
            id,
            inbox: agent.inbox.clone(),
            agent,
            mailbox: OnceLock::new(),
            exchange: OnceLock::new(),
            cwd: cwd.map(Box::new),
            copies: Mutex::default(),
            secrets: Mutex::new(secrets),
            delivery,
            key: AtomicU64::new(u64::MAX),
            counted: LiveSessionCounters::default(),
            waiting: AtomicU32::new(0),
            turns: AtomicU64::new(0),
            closed: AtomicBool::new(false),
        }
    }

    /// Sends a command that is bounded by what it answers or ends.
    pub(crate) fn command(&self, command: Command) {
        self.inbox.push(command);
    }

    /// Events outside turns; every event where delivery is merged.
    pub(crate) fn mailbox(&self) -> &Mailbox {
        self.mailbox.get_or_init(|| Mailbox::new(self.inbox.store()))
    }

    /// The exchange folder, made now if it is not there.
    pub(crate) fn exchange(&self) -> io::Result<&Exchange> {
        if self.exchange.get().is_none() {
            // Of two that race one is removed again.
            let _ = self.exchange.set(self.inbox.exchanges().make()?);
        }
        self.exchange.get().ok_or_else(|| io::Error::other("the exchange folder was just made"))
    }

    /// The folders of its own that files may come from: the working directory that it chose, and the exchange folder
    /// if it was made.
    pub(crate) fn roots(&self) -> impl Iterator<Item = Pinned> {
        let exchange = self.exchange.get().map(|exchange| Pinned::exactly(exchange.path()));
        self.cwd.as_deref().cloned().into_iter().chain(exchange)
    }

    /// Where the links in the working directory that it chose lead.
    pub(crate) fn real_cwd(&self) -> Option<&Path> {
        self.cwd.as_deref().map(Pinned::real)
    }

    /// Copies a file in and says how it is announced. Blocks on the file system.
    fn place(
        &self,
        path: &Path,
        name: Option<&str>,
        mime_type: Option<&str>,
    ) -> Result<FileInput, FileError> {
        // What cannot be looked at has no size, and is refused by name below.
        let room = self.room_for(std::fs::metadata(path).map_or(0, |seen| seen.len()))?;
        let placed = self.exchange()?.place(path, name, self.inbox.max_file_bytes())?;
        room.keep_with_folder();
        Ok(FileInput {
            file_name: Some(placed.file_name),
            file_mime_type: Some(files::mime_type(mime_type).to_owned()),
            file_path: placed.path.to_string_lossy().into_owned(),
        })
    }

    /// Takes room for a copy of this many bytes: the session's and the host's.
    ///
    /// # Errors
    /// [`Refusal::NoRoom`] when there is none.
    pub(crate) fn room_for(&self, size: u64) -> Result<Room<'_>, Refusal> {
        let bytes = size.max(LEAST_OF_A_FILE);
        let store = self.inbox.store();
        let mut copies = self.copies.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = copies.bytes;
        // One file of the largest size always fits.
        let most = store.limits.session_files.max(self.inbox.max_file_bytes()).max(LEAST_OF_A_FILE);
        if kept.saturating_add(bytes) > most || !store.take_disk(kept, bytes) {
            return Err(Refusal::NoRoom { size, kept });
        }
        copies.bytes += bytes;
        Ok(Room { session: self, bytes })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Says that nothing more is accepted, makes room for another session and releases the secrets.
    pub(crate) fn set_closed(&self) {
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.agent.opened.fetch_sub(1, Ordering::AcqRel);
            drop(std::mem::take(&mut *self.secrets.lock().unwrap_or_else(PoisonError::into_inner)));
        }
    }
}

impl SessionShared {
    /// The link is gone without a word: the session ends here.
    pub(crate) fn lose(&self) {
        self.set_closed();
        let end = Box::new(SessionEnd { reason: ClosedReason::Shutdown, error: None });
        self.mailbox().finish_now(Event {
            scope: TurnScope::Outside,
            kind: EventKind::Closed(end),
            meta: None,
        });
    }
}

impl Drop for SessionShared {
    fn drop(&mut self) {
        let copies = self.copies.get_mut().unwrap_or_else(PoisonError::into_inner);
        for copy in copies.paths.drain(..) {
            // Gone already is as good.
            let _ = std::fs::remove_file(copy);
        }
        self.inbox.store().give_disk_back(copies.bytes);
    }
}

/// The least that a copy counts, in bytes: an empty one has a name, too.
const LEAST_OF_A_FILE: u64 = 4096;

/// What the copies of a session's files take, until it is gone.
#[derive(Debug, Default)]
struct Copies {
    /// Those that do not lie in its exchange folder.
    paths: Vec<PathBuf>,
    bytes: u64,
}

/// Room for one copy of a session; dropped unkept, it is given back.
#[derive(Debug)]
pub(crate) struct Room<'a> {
    session: &'a SessionShared,
    bytes: u64,
}

impl Room<'_> {
    /// There is a copy, to be removed with the session.
    pub(crate) fn keep(self, path: PathBuf) {
        self.session.copies.lock().unwrap_or_else(PoisonError::into_inner).paths.push(path);
        self.keep_with_folder();
    }

    /// There is a copy, which goes with its folder.
    fn keep_with_folder(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.session.copies.lock().unwrap_or_else(PoisonError::into_inner).bytes -= self.bytes;
        self.session.inbox.store().give_disk_back(self.bytes);
    }
}

impl Session {
    pub(crate) fn new(shared: Arc<SessionShared>) -> Self {
        Self { handle: Arc::new(Handle { shared }) }
    }

    fn shared(&self) -> &Arc<SessionShared> {
        &self.handle.shared
    }

    /// The session's id.
    #[must_use]
    pub fn id(&self) -> &SessionId {
        &self.shared().id
    }

    /// Says something to the agent: begins a turn, after those under way ([turn.3]).
    ///
    /// Never waits. An accepted input has exactly one end, whatever happens ([turn.7]).
    ///
    /// # Errors
    /// [`SendError::Busy`] when `queued_inputs` wait already or `outbox` bytes do, [`SendError::Closed`] after the
    /// session's end.
    pub fn send(&self, input: impl Into<Input>) -> Result<Turn, SendError> {
        let Input { content, message_id, meta } = input.into();
        let shared = self.shared();
        if shared.is_closed() {
            return Err(SendError::Closed);
        }
        shared.inbox.admit(&shared.waiting, content.len())?;
        let mailbox = Mailbox::new(shared.inbox.store());
        let input = UserInput { content, message_id, mode: None };
        let no = shared.inbox.push_numbered(|| {
            let turn = TurnNo::new(shared.turns.fetch_add(1, Ordering::Relaxed) + 1);
            let command =
                Command::Send { session: shared.clone(), turn, mailbox: mailbox.clone(), input, meta };
            (turn, command)
        });
        Ok(Turn::new(no, mailbox, shared.clone()))
    }

    /// Adds to the running turn ([turn.10]).
    ///
    /// # Errors
    /// [`SteerError`] when no turn is running, the agent cannot, or the session has ended; nothing has happened then.
    ///
    /// # Cancel safety
    /// Dropping the future does not take the input back.
    pub async fn steer(&self, input: impl Into<Input>) -> Result<(), SteerError> {
        let Input { content, message_id, meta } = input.into();
        let shared = self.shared();
        if shared.is_closed() {
            return Err(SteerError::Closed);
        }
        let (reply, answer) = oneshot::channel();
        // Its answer names it by this ([turn.10]).
        let message_id =
            message_id.or_else(|| MessageId::new(uuid::Uuid::new_v4().simple().to_string()).ok());
        let input = Box::new(UserInput { content, message_id, mode: Some(InputMode::Steer) });
        shared.command(Command::Steer { session: shared.clone(), input, meta, reply });
        answer.await.unwrap_or(Err(SteerError::Closed))
    }

    /// Stops the running turn, if any ([turn.4], [turn.5]).
    pub fn stop(&self) {
        self.shared().command(Command::Stop {
            session: self.shared().clone(),
            turn: None,
            reason: StopReason::User,
        });
    }

    /// Stops one turn: ends it unwritten where it waits, stops it where it runs ([turn.9], [turn.11]).
    pub fn stop_turn(&self, turn: TurnNo, reason: StopReason) {
        self.shared().command(Command::Stop { session: self.shared().clone(), turn: Some(turn), reason });
    }

    /// Changes options of the live session ([ext.5] `options`); resolves with the values now in force.
    ///
    /// # Errors
    /// [`UpdateError`] when the adapter does not know `options`, the session ends first, or the value would widen what
    /// the configuration allows ([ext.7]).
    ///
    /// # Cancel safety
    /// Dropping the future does not take the change back.
    pub async fn update(&self, update: SessionUpdate) -> Result<SessionInfo, UpdateError> {
        let shared = self.shared();
        let (reply, answer) = oneshot::channel();
        shared.command(Command::Update { session: shared.clone(), update: Box::new(update), reply });
        answer.await.unwrap_or(Err(UpdateError::Closed))
    }

    /// Gives the agent a file: copies it into the session's exchange folder and announces it before the next input
    /// ([file.2], [file.7]).
    ///
    /// # Errors
    /// [`FileError`] when it cannot be copied or is too large.
    ///
    /// # Cancel safety
    /// Dropping the future before it resolves may or may not announce the file.
    pub async fn deliver_file(
        &self,
        path: impl AsRef<Path>,
        name: Option<String>,
        mime_type: Option<String>,
    ) -> Result<(), FileError> {
        let shared = self.shared().clone();
        if shared.is_closed() {
            return Err(FileError::Closed);
        }
        let path = std::path::absolute(path)?;
        let place = move || shared.place(&path, name.as_deref(), mime_type.as_deref());
        let placed = tokio::task::spawn_blocking(place).await.map_err(|_| FileError::Closed)??;
        self.shared().command(Command::File { session: self.shared().clone(), file: Box::new(placed) });
        Ok(())
    }

    /// The next event outside turns; with merged delivery, of every turn too. Nothing after [`Closed`](crate::EventKind::Closed).
    ///
    /// For one task: of several that wait, only the last is woken.
    ///
    /// # Cancel safety
    /// Dropping the future loses no event.
    pub async fn next_event(&self) -> Option<Event> {
        std::future::poll_fn(|cx| self.shared().mailbox().poll_next(cx)).await
    }

    /// Says that the user reads no events of the session for now: the inactivity deadline rests until
    /// [`Session::resume`] ([flow.2]).
    pub fn pause(&self) {
        self.shared().command(Command::Pause(self.shared().clone()));
    }

    /// Says that the user reads on after [`Session::pause`].
    pub fn resume(&self) {
        self.shared().command(Command::Resume(self.shared().clone()));
    }

    /// Closes the session: its turns end, its requests are settled, the adapter frees it ([session.4]). Closing twice is
    /// closing once. Resolves when `session.close` was handed to the pipe's writer.
    ///
    /// # Cancel safety
    /// Dropping the future closes the session all the same.
    pub async fn close(&self) {
        let (done, closed) = oneshot::channel();
        self.shared().command(Command::Close { session: self.shared().clone(), done: Some(done) });
        // An error means that the link is gone, and the session with it.
        let _ = closed.await;
    }

    /// What was counted of this session's messages.
    #[must_use]
    pub fn counters(&self) -> SessionCounters {
        self.shared().counted.snapshot()
    }

    /// Whether the session has ended.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared().is_closed()
    }
}
