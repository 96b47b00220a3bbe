//! A pipe and its sessions.

mod deadline;
mod dispatch;
mod worker;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicU16, AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt},
    runtime::Handle,
    sync::Notify,
    time::Instant,
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};
use trunkline_pipe::Key;
use trunkline_protocol::{Extensions, LineReader, SessionId};

use crate::{
    Description, Session,
    erased::AnyAdapter,
    session::{Core, Ground, Keeper, Late},
    wire::SharedWire,
};

/// Settings of a link.
pub(crate) struct Terms {
    pub(crate) handlers: Handle,
    pub(crate) grace: Duration,
    pub(crate) max_line: usize,
    pub(crate) probing: bool,
}

/// The adapter, its sessions, and what runs for them.
pub(crate) struct Link {
    me: Weak<Self>,
    adapter: Box<dyn AnyAdapter>,
    description: Description,
    terms: Terms,
    pub(crate) wire: SharedWire,
    sessions: Mutex<HashMap<SessionId, Session>>,
    last_key: AtomicU64,
    /// The extensions that some `session.ready` has named: what the pipe's own messages need ([ext.9]).
    named: AtomicU16,
    late: Mutex<VecDeque<(Instant, Late)>>,
    late_added: Notify,
    pub(crate) workers: TaskTracker,
    /// Cancelled when nothing runs any longer.
    gone: CancellationToken,
}

impl Link {
    pub(crate) fn new(adapter: Box<dyn AnyAdapter>, terms: Terms) -> Arc<Self> {
        let description = adapter.describe();
        Arc::new_cyclic(|me| Self {
            me: me.clone(),
            adapter,
            description,
            terms,
            wire: SharedWire::default(),
            sessions: Mutex::default(),
            last_key: AtomicU64::new(0),
            named: AtomicU16::new(0),
            late: Mutex::default(),
            late_added: Notify::new(),
            workers: TaskTracker::new(),
            gone: CancellationToken::new(),
        })
    }

    /// Reads and dispatches until the end of input. Waits for nothing else.
    pub(crate) async fn read(&self, mut input: impl AsyncRead + Unpin) {
        let mut lines = LineReader::of_peer(self.terms.max_line);
        loop {
            match input.read(lines.space()).await {
                Ok(0) => break,
                Ok(bytes) => lines.filled(bytes),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    tracing::debug!(%error, "the input broke; taken for its end");
                    break;
                }
            }
            while let Some(item) = lines.next() {
                self.dispatch(item);
            }
        }
        if let Some(item) = lines.finish() {
            self.dispatch(item);
        }
    }

    fn ground(&self) -> Ground {
        let keeper: Weak<dyn Keeper> = self.me.clone();
        Ground {
            tools: self.description.tools(),
            steerable: self.description.is_steerable(),
            takes_updated_input: self.description.has_updated_input(),
            wire: self.wire.clone(),
            keeper,
            probing: self.terms.probing,
            login_hint: self.description.how_to_log_in(),
        }
    }

    fn next_key(&self) -> Key {
        Key(self.last_key.fetch_add(1, Ordering::Relaxed) + 1)
    }

    fn name(&self, extensions: Extensions) {
        self.named.fetch_or(extensions.bits(), Ordering::Relaxed);
    }

    fn has_named(&self, extensions: Extensions) -> bool {
        Extensions::from_bits_truncate(self.named.load(Ordering::Relaxed)).intersects(extensions)
    }

    fn sessions(&self) -> MutexGuard<'_, HashMap<SessionId, Session>> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn every_session(&self) -> Vec<Session> {
        self.sessions().values().cloned().collect()
    }

    /// Stops every turn; what waits is ended behind it.
    pub(crate) fn shut(&self) {
        self.every_session()
            .iter()
            .for_each(|session| session.0.shut());
        self.workers.close();
    }

    /// Ends every turn and drops its handler.
    pub(crate) fn shut_now(&self) {
        self.every_session()
            .iter()
            .for_each(|session| session.0.shut_now());
    }

    /// Drops what runs on after every turn has ended, and what will never be written.
    pub(crate) fn release(&self) {
        self.wire.fail();
        self.workers.close();
        self.gone.cancel();
    }
}

impl Keeper for Link {
    fn forget(&self, core: &Core) {
        let mut sessions = self.sessions();
        if sessions
            .get(&core.id)
            .is_some_and(|session| session.0.key == core.key)
        {
            sessions.remove(&core.id);
        }
    }

    fn work(&self, core: Arc<Core>) {
        if let Some(link) = self.me.upgrade() {
            drop(
                self.workers
                    .spawn_on(worker::work(link, Session(core)), &self.terms.handlers),
            );
        }
    }

    fn count_down(&self, late: Late) {
        self.add_late(late);
    }
}
