//! The state of a session behind its handles: its phase, its queue, its running turn.
//!
//! Everything that must keep an order is decided and put on the wire under one lock, so that all
//! output of a turn precedes its end and nothing follows a session's end. No lock is held during a
//! wait.

use std::{
    any::Any,
    collections::VecDeque,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use tokio_util::sync::CancellationToken;
use trunkline_pipe::{Key, place_large, place_large_aside};
use trunkline_protocol::{
    AdapterBody, AdapterKind, AdapterMessage, Category, Context, Envelope, ErrorEvent, Extensions,
    FileInput, Large, PermissionResponse, Recipient, SessionClosed, SessionId, SessionReady,
    SessionStart, TooLong, ToolsAsOutput, TurnComplete, TurnId, line_limit, rules::TurnStep,
};

use super::{job::Job, request::Pending, running::RunningTurn, turning::Late};
use crate::{probe::Ledger, wire::SharedWire};

/// The link's services for a session.
pub(crate) trait Keeper: Send + Sync {
    /// The session has ended by itself: its id is unknown from now on.
    fn forget(&self, core: &Core);
    /// The session has work and no worker.
    fn work(&self, core: Arc<Core>);
    /// A stop was asked for: the turn's time runs.
    fn count_down(&self, late: Late);
}

/// The author's state of a session, an [`Adapter::State`](crate::Adapter::State).
pub(crate) type State = Box<dyn Any + Send>;

/// Shared resources of all sessions.
pub(crate) struct Ground {
    pub(crate) tools: ToolsAsOutput,
    pub(crate) steerable: bool,
    pub(crate) takes_updated_input: bool,
    pub(crate) wire: SharedWire,
    pub(crate) keeper: Weak<dyn Keeper>,
    pub(crate) probing: bool,
    pub(crate) login_hint: Option<Arc<str>>,
}

pub(crate) struct Core {
    pub(crate) id: SessionId,
    pub(crate) key: Key,
    pub(crate) agreed: Extensions,
    pub(crate) ground: Ground,
    pub(crate) exchange_dir: Option<Box<Path>>,
    /// The longest line that the host reads, in bytes.
    pub(crate) max_line: usize,
    /// The host learned that the context is lost, and no end of a turn since: changed under the lock.
    has_lost: AtomicBool,
    pub(super) inner: Mutex<Inner>,
}

/// Mutable state of a session.
#[derive(Default)]
pub(super) struct Inner {
    pub(super) phase: CorePhase,
    pub(super) queue: VecDeque<Job>,
    pub(super) queued_turns: usize,
    pub(super) queued_bytes: usize,
    pub(super) next_serial: u64,
    pub(super) running: Option<RunningTurn>,
    pub(super) requests: Vec<Pending>,
    /// Announced since the last input ([file.2]).
    pub(super) files: Vec<FileInput>,
    /// Files among them, or among the next input's, that differ from their announcement.
    pub(super) refused: Vec<FileInput>,
    /// A worker is on; cancelled to cut what it does besides turns.
    pub(super) worker: Option<CancellationToken>,
    /// The author's state, while no worker holds it.
    pub(super) state: Option<State>,
    /// Observations of the probe, if it is on.
    pub(super) ledger: Option<Box<Ledger>>,
    /// Files made by the SDK, removed at the session's end ([file.3]).
    pub(super) made: Vec<PathBuf>,
}

#[derive(Default)]
pub(super) enum CorePhase {
    #[default]
    Open,
    /// The link shuts down: turns that wait are ended, not run.
    Shutting,
    /// Ended by the adapter, and the host understands only a text: every further input is answered so.
    Told(Box<SessionClosed>),
    /// Silent.
    Closed,
}

impl Inner {
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, CorePhase::Told(_) | CorePhase::Closed)
    }

    /// The id that a message carries: of the turn, if this is still the one that runs; nothing for
    /// a session that takes no more messages or a turn that has ended.
    pub(super) fn speaks_for(&mut self, turn: Option<u64>) -> Option<Option<TurnId>> {
        if self.is_over() {
            return None;
        }
        let Some(serial) = turn else {
            return Some(None);
        };
        let running = self
            .running
            .as_ref()
            .filter(|running| running.serial == serial)?;
        running.phase.after(TurnStep::Emit).ok()?;
        Some(running.id.clone())
    }

    pub(super) fn note_answer(&mut self, response: &PermissionResponse) {
        if let Some(ledger) = &mut self.ledger {
            ledger.answer(response);
        }
    }
}

impl Core {
    pub(crate) fn new(
        id: SessionId,
        key: Key,
        agreed: Extensions,
        start: &SessionStart,
        ground: Ground,
    ) -> Self {
        let exchange_dir = start
            .exchange_dir
            .as_deref()
            .map(Path::new)
            .filter(|path| path.is_absolute());
        let exchange_dir = exchange_dir.map(Into::into);
        let max_line = line_limit(start.max_line.filter(|_| !agreed.is_empty()));
        let ledger = ground.probing.then(Box::default);
        let inner = Mutex::new(Inner {
            ledger,
            ..Inner::default()
        });
        Self {
            id,
            key,
            agreed,
            ground,
            exchange_dir,
            max_line,
            has_lost: AtomicBool::new(false),
            inner,
        }
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    /// Writes a message, folded down to what the host offered and cut to what it reads
    /// ([frame.11]). Call it under the lock.
    pub(super) fn send(&self, turn_id: Option<TurnId>, body: AdapterBody) {
        self.try_send(self.message(turn_id, body));
    }

    pub(super) fn message(&self, turn_id: Option<TurnId>, body: AdapterBody) -> AdapterMessage {
        Envelope::new(self.id.clone(), body).of_turn(turn_id)
    }

    /// [`Core::send`]. Returns false if the message is too long however it is cut; the host learns of it.
    pub(super) fn try_send(&self, mut message: AdapterMessage) -> bool {
        if let Some(hint) = &self.ground.login_hint {
            add_login_hint(&mut message.body, hint);
        }
        self.clear_what_is_lost(&mut message.body);
        let kind = message.body.kind().as_str();
        let host = Recipient {
            agreed: self.agreed,
            tools: self.ground.tools,
            max_line: self.max_line,
        };
        match host.write(message, |line| self.ground.wire.put(self.key, line)) {
            Ok(lost) => {
                if !lost.is_empty() {
                    tracing::warn!(session = %self.id, kind, ?lost, "a message was cut to the host's longest line");
                }
                true
            }
            Err(TooLong { bytes }) => {
                tracing::warn!(session = %self.id, kind, bytes, "a message is too long for the host");
                false
            }
        }
    }

    /// A lost conversation must not be resumed again: the next end of a turn clears its parameters,
    /// unless the author sets others.
    fn clear_what_is_lost(&self, body: &mut AdapterBody) {
        let context = match body {
            AdapterBody::SessionInfo(info) => info.context,
            AdapterBody::SessionReady(ready) => ready.info.context,
            AdapterBody::TurnComplete(end) => {
                if self.has_lost.swap(false, Relaxed) {
                    end.clear_session.get_or_insert(true);
                }
                return;
            }
            _ => return,
        };
        if context == Some(Context::Lost) {
            self.has_lost.store(true, Relaxed);
        }
    }

    /// Sends an author's event as [`Core::put`] does; what of it is too long for a line may go by
    /// file before ([large.2]).
    pub(crate) async fn emit(&self, turn: Option<u64>, body: AdapterBody) {
        let Some(turn_id) = self.lock().speaks_for(turn) else {
            return;
        };
        let message = self.message(turn_id, body);
        let folder = self.exchange_dir.as_deref();
        if let Some(message) = place_large_aside(message, self.agreed, self.max_line, folder).await
        {
            self.put_with(turn, message.body, message.large);
        }
    }

    /// Returns the end of a turn, with members that are too long for a line in files ([large.2]).
    /// Not under the lock: it may block on the file system.
    pub(super) fn place_end(
        &self,
        serial: u64,
        end: TurnComplete,
    ) -> (TurnComplete, Option<Box<Large>>) {
        let Some(turn_id) = self.lock().speaks_for(Some(serial)) else {
            return (end, None);
        };
        let end = TurnComplete {
            status: Some(end.status_or_completed()),
            ..end
        };
        let message = self.message(turn_id, Box::new(end).into());
        let AdapterMessage { body, large, .. } = place_large(
            message,
            self.agreed,
            self.max_line,
            self.exchange_dir.as_deref(),
        );
        match body {
            AdapterBody::TurnComplete(end) => (*end, large),
            _ => (TurnComplete::default(), None),
        }
    }

    /// Sends the SDK's own `session.ready` ([ext.2]).
    pub(crate) fn greet(&self, ready: SessionReady) {
        let _inner = self.lock();
        self.send(None, ready.into());
    }

    /// Says that a line to this session was lost ([frame.5]).
    pub(crate) fn report(&self, error: ErrorEvent) {
        let inner = self.lock();
        if !inner.is_over() {
            self.send(None, error.into());
        }
    }

    /// Sends an author's event, of a turn or of none. Late ones are left out.
    pub(crate) fn put(&self, turn: Option<u64>, body: AdapterBody) {
        self.put_with(turn, body, None);
    }

    fn put_with(&self, turn: Option<u64>, body: AdapterBody, large: Option<Box<Large>>) {
        let send = |turn_id, body| {
            let mut message = self.message(turn_id, body);
            message.large = large;
            self.try_send(message);
        };
        if is_ours(body.kind()) {
            return tracing::warn!(
                kind = body.kind().as_str(),
                "the SDK sends this itself; left out"
            );
        }
        let mut inner = self.lock();
        let Some(turn_id) = inner.speaks_for(turn) else {
            return;
        };
        if body.is_history() {
            return send(None, body);
        }
        if let Some(running) = inner.running.as_mut().filter(|_| turn.is_some()) {
            let open = &mut running.open_tools;
            match &body {
                AdapterBody::ToolStart(start) if open.contains(&start.tool_call_id) => return,
                AdapterBody::ToolStart(start) => open.push(start.tool_call_id.clone()),
                AdapterBody::ToolEnd(end) => {
                    let Some(at) = open.iter().position(|id| *id == end.tool_call_id) else {
                        return;
                    };
                    open.remove(at);
                }
                _ => {}
            }
        }
        send(turn_id, body);
    }

    /// Takes a file for good, once it was looked at: what is not as it was announced belongs to no input.
    pub(crate) fn judge_file(&self, file: &FileInput, is_refused: bool) {
        let mut inner = self.lock();
        if is_refused {
            inner.refused.push(file.clone());
        } else if let Some(ledger) = &mut inner.ledger {
            ledger.file(file);
        }
    }

    /// Remembers a file that the SDK made for the session.
    pub(crate) fn made(&self, path: PathBuf) {
        self.lock().made.push(path);
    }

    /// The files to remove at the session's end.
    pub(crate) fn take_made(&self) -> Vec<PathBuf> {
        std::mem::take(&mut self.lock().made)
    }

    /// Works on what the probe has seen; nothing where it is off.
    pub(crate) fn with_ledger<T>(&self, work: impl FnOnce(&mut Ledger) -> T) -> Option<T> {
        self.lock().ledger.as_deref_mut().map(work)
    }
}

/// Adds the login hint to a failure of category `auth` without one.
fn add_login_hint(body: &mut AdapterBody, hint: &str) {
    let failure = match body {
        AdapterBody::TurnComplete(end) => end.error.as_mut(),
        AdapterBody::SessionClosed(closed) => closed.error.as_mut(),
        _ => None,
    };
    let Some(failure) = failure.filter(|failure| failure.category == Some(Category::Auth)) else {
        return;
    };
    let message = failure.message.get_or_insert_default();
    if message.is_empty() {
        message.push_str(hint);
    } else if !message.contains(hint) {
        let said = message.trim_end().trim_end_matches('.').len();
        message.truncate(said);
        message.push_str("; ");
        message.push_str(hint);
    }
}

/// Returns true if only the SDK sends messages of this kind.
fn is_ours(kind: AdapterKind) -> bool {
    use AdapterKind as K;
    matches!(
        kind,
        K::TurnComplete
            | K::PermissionRequest
            | K::PermissionCancel
            | K::InputRequest
            | K::SessionReady
            | K::SessionClosed
            | K::SteerResult
            | K::SessionsListResult
            | K::AgentsListResult
            | K::Pong
    )
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::{Failure, TurnComplete};

    use super::*;

    #[test]
    fn a_failed_login_says_once_how_to_log_in() {
        let told = |category, message: &str| {
            let error = Some(Failure::new(category, message));
            let mut body = TurnComplete {
                error,
                ..TurnComplete::default()
            }
            .into();
            add_login_hint(&mut body, "run `login`");
            let AdapterBody::TurnComplete(end) = body else {
                panic!("{body:?}")
            };
            end.error.unwrap().message.unwrap()
        };
        for (message, expected) in [
            ("no key.", "no key; run `login`"),
            ("", "run `login`"),
            ("no key; run `login` there", "no key; run `login` there"),
        ] {
            assert_eq!(told(Category::Auth, message), expected);
        }
        assert_eq!(told(Category::Timeout, "late"), "late");
    }
}
