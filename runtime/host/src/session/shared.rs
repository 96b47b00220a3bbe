//! State shared by a session's handles and its link.

use std::{
    io,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use trunkline_protocol::{
    Category, ClosedReason, ErrorEvent, Failure, FileInput, Json, Large, LargeMember, SessionId,
};
use trunkline_redact::HeldSecrets;

use super::EventDelivery;
use crate::{
    Cause, Event, EventKind, SessionEnd, TurnEnd, TurnNo, TurnScope,
    agent::AgentShared,
    counters::LiveSessionCounters,
    error::{FileError, SendError},
    files::{self, Announced, Exchange, Pinned, Refusal},
    link::{Command, Inbox},
    mailbox::Mailbox,
};

/// State shared by a session's handles and its link.
#[derive(Debug)]
pub(crate) struct SessionShared {
    /// The id that its user knows.
    pub(crate) id: SessionId,
    pub(crate) agent: Arc<AgentShared>,
    pub(crate) inbox: Arc<Inbox>,
    /// Events outside turns; every event where delivery is merged. Made with the first, or for the
    /// first look.
    mailbox: OnceLock<Mailbox>,
    /// The exchange folder, made when it is first needed ([file.6]).
    exchange: OnceLock<Exchange>,
    /// The working directory that it asked for: files may come from there.
    cwd: Option<Box<Pinned>>,
    /// The copies of its files.
    copies: Mutex<Copies>,
    /// Secrets in its options, until its close.
    secrets: Mutex<HeldSecrets>,
    pub(crate) delivery: EventDelivery,
    /// The session's place in the core; set by the link when it takes the session.
    pub(crate) key: AtomicU64,
    /// Counters.
    pub(crate) counted: LiveSessionCounters,
    /// Inputs that were accepted and have not been written.
    pub(crate) waiting: AtomicU32,
    /// Steers, updates and files that were accepted and have no answer, or have not been written.
    asked: AtomicU32,
    pub(super) turns: AtomicU64,
    closed: AtomicBool,
    /// The cause of its end and its failure, known before `closed` is set.
    ended: OnceLock<Box<(Cause, Option<Failure>)>>,
}

impl SessionShared {
    pub(crate) fn new(
        id: SessionId,
        agent: Arc<AgentShared>,
        inbox: Arc<Inbox>,
        delivery: EventDelivery,
        cwd: Option<Pinned>,
        secrets: HeldSecrets,
    ) -> Self {
        Self {
            id,
            agent,
            inbox,
            mailbox: OnceLock::new(),
            exchange: OnceLock::new(),
            cwd: cwd.map(Box::new),
            copies: Mutex::default(),
            secrets: Mutex::new(secrets),
            delivery,
            key: AtomicU64::new(u64::MAX),
            counted: LiveSessionCounters::default(),
            waiting: AtomicU32::new(0),
            asked: AtomicU32::new(0),
            turns: AtomicU64::new(0),
            closed: AtomicBool::new(false),
            ended: OnceLock::new(),
        }
    }

    /// Sends a command that is bounded by what it answers or ends.
    pub(crate) fn command(&self, command: Command) {
        self.inbox.push(command);
    }

    /// Takes a steer, an update or a file into account, or refuses it.
    pub(crate) fn admit(self: &Arc<Self>, bytes: usize) -> Result<Admitted, SendError> {
        self.inbox.admit(&self.asked, bytes)?;
        Ok(Admitted {
            session: self.clone(),
            bytes,
        })
    }

    /// Events outside turns; every event where delivery is merged.
    pub(crate) fn mailbox(&self) -> &Mailbox {
        self.mailbox
            .get_or_init(|| Mailbox::new(self.inbox.store()))
    }

    /// Bytes of events outside turns that were not read; of every event where delivery is merged.
    pub(crate) fn unread(&self) -> u64 {
        self.mailbox.get().map_or(0, Mailbox::unread)
    }

    /// The exchange folder, made now if it is not there.
    pub(crate) fn exchange(&self) -> io::Result<&Exchange> {
        if self.exchange.get().is_none() {
            // Of two that race one is removed again.
            let _ = self.exchange.set(self.inbox.exchanges().make()?);
        }
        self.exchange
            .get()
            .ok_or_else(|| io::Error::other("the exchange folder was just made"))
    }

    /// The folders of its own that files may come from: the working directory that it chose, and
    /// the exchange folder if it was made.
    pub(crate) fn roots(&self) -> impl Iterator<Item = Pinned> {
        let exchange = self
            .exchange
            .get()
            .map(|exchange| Pinned::exactly(exchange.path()));
        self.cwd.as_deref().cloned().into_iter().chain(exchange)
    }

    /// Returns the working directory that it chose, with links resolved.
    pub(crate) fn real_cwd(&self) -> Option<&Path> {
        self.cwd.as_deref().map(Pinned::real)
    }

    /// Copies a file in and returns its announcement. Blocks on the file system.
    pub(super) fn place(
        &self,
        path: &Path,
        name: Option<&str>,
        mime_type: Option<&str>,
        announced: Announced,
    ) -> Result<FileInput, FileError> {
        // Before the room: more of it would not help.
        let seen = std::fs::symlink_metadata(path);
        let limit = self.inbox.max_file_bytes();
        if let Ok(size) = seen.map(|seen| if seen.is_file() { seen.len() } else { 0 })
            && size > limit
        {
            return Err(Refusal::TooLarge { size, limit }.into());
        }
        // What cannot be looked at has no size, and is refused by name below.
        let room = self.room_for(std::fs::metadata(path).map_or(0, |seen| seen.len()))?;
        let placed = self.exchange()?.place(path, name, announced, limit)?;
        room.keep_with_folder();
        Ok(FileInput {
            file_name: Some(placed.file_name),
            file_mime_type: Some(files::mime_type(mime_type).to_owned()),
            file_path: placed.path.to_string_lossy().into_owned(),
            size: Some(placed.size),
            sha256: Some(placed.sha256),
        })
    }

    /// Puts the text of an input into a file of the exchange folder ([large.2]). Blocks on the file system.
    pub(crate) fn keep_text(&self, text: &str) -> Result<LargeMember, String> {
        let json = Json::from_serialize(text).map_err(|error| error.to_string())?;
        let keep = || -> Result<LargeMember, FileError> {
            let room = self.room_for(json.get().len() as u64)?;
            let kept = self.exchange()?.keep(json.get())?;
            room.keep_with_folder();
            Ok(kept)
        };
        keep()
            .map_err(|error| format!("the input is too long for a line, and has no file: {error}"))
    }

    /// Returns the event with its members from files, and an error for one that cannot be read
    /// ([large.3]). Blocks on the file system.
    pub(crate) fn with_large(&self, event: Event, large: &Large) -> (Option<Event>, Event) {
        let mut members = Vec::new();
        let mut why = None;
        for (name, member) in large {
            let taken = self.exchange.get().ok_or(Refusal::Outside);
            match taken.and_then(|exchange| exchange.take(member)) {
                Ok(json) => members.push((name.clone(), json)),
                Err(refusal) => why = Some(format!("`{name}` was not taken: {refusal}")),
            }
        }
        if why.is_some() {
            members.push(("truncated".to_owned(), "true".to_owned()));
        }
        let scope = event.scope;
        let (event, bad) = event.filled(&members);
        let error = why.or(bad).map(|why| {
            let error = ErrorEvent {
                category: Some(Category::FileRefused),
                message: trunkline_redact::text(&why).into_owned(),
                fatal: Some(false),
                ..ErrorEvent::default()
            };
            Event::new(scope, EventKind::Error(error))
        });
        (error, event)
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
        let most = store
            .limits
            .session_files
            .max(self.inbox.max_file_bytes())
            .max(LEAST_OF_A_FILE);
        if kept.saturating_add(bytes) > most || !store.take_disk(kept, bytes) {
            return Err(Refusal::NoRoom { size, kept });
        }
        copies.bytes += bytes;
        Ok(Room {
            session: self,
            bytes,
        })
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// The end of a turn whose input came when the session had ended: with the failure by which it ended.
    pub(crate) fn end_of_late_turn(&self, turn: TurnNo) -> TurnEnd {
        let (cause, failure) = self
            .ended
            .get()
            .map_or((Cause::Closed, None), |ended| (ended.0, ended.1.as_ref()));
        TurnEnd::unsent(turn, cause, failure)
    }

    /// Accepts nothing more, makes room for another session and releases the secrets.
    pub(crate) fn set_closed(&self, cause: Cause, failure: Option<Failure>) {
        // The first end counts.
        let _ = self.ended.set(Box::new((cause, failure)));
        if !self.closed.swap(true, Ordering::AcqRel) {
            self.agent.opened.fetch_sub(1, Ordering::AcqRel);
            drop(std::mem::take(
                &mut *self.secrets.lock().unwrap_or_else(PoisonError::into_inner),
            ));
        }
    }
}

impl SessionShared {
    /// The link is gone without a word: the session ends here.
    pub(crate) fn lose(&self) {
        self.set_closed(Cause::Shutdown, None);
        let end = Box::new(SessionEnd {
            reason: ClosedReason::Shutdown,
            error: None,
        });
        self.mailbox()
            .finish_now(Event::new(TurnScope::Outside, EventKind::Closed(end)));
    }
}

impl Drop for SessionShared {
    fn drop(&mut self) {
        let copies = self
            .copies
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner);
        for copy in copies.paths.drain(..) {
            // Gone already is as good.
            let _ = std::fs::remove_file(copy);
        }
        self.inbox.store().give_disk_back(copies.bytes);
    }
}

/// A steer, an update or a file that counts until it is dropped.
#[derive(Debug)]
pub(crate) struct Admitted {
    session: Arc<SessionShared>,
    bytes: usize,
}

impl Admitted {
    /// Records that it has left the queue: its bytes count with the writer's, if at all.
    pub(crate) fn unqueued(&mut self) {
        self.session
            .inbox
            .release_bytes(std::mem::take(&mut self.bytes));
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.session.inbox.release(&self.session.asked, self.bytes);
    }
}

/// The least that a copy counts, in bytes: an empty one has a name, too.
const LEAST_OF_A_FILE: u64 = 4096;

/// Copies of a session's files, which are removed with this value.
#[derive(Debug, Default)]
struct Copies {
    /// Copies outside of its exchange folder.
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
        self.session
            .copies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .paths
            .push(path);
        self.keep_with_folder();
    }

    /// There is a copy, which goes with its folder.
    fn keep_with_folder(mut self) {
        self.bytes = 0;
    }
}

impl Drop for Room<'_> {
    fn drop(&mut self) {
        self.session
            .copies
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .bytes -= self.bytes;
        self.session.inbox.store().give_disk_back(self.bytes);
    }
}
