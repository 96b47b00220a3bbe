//! The commands that wait for a link, and the bounds of what may wait.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
};

use futures_util::task::AtomicWaker;
use tokio::sync::oneshot;
use trunkline_core::{Answer, EditRejected, Key, policy::Pattern};
use trunkline_protocol::{Json, PermissionRequest, RequestId};

use super::Command;
use crate::{TurnNo, error::SendError, files::Exchanges, request::Answers, spool::Store};

/// The queue from the users of a link to its driver.
///
/// Inputs are bounded by count a session and by bytes a link; so are steers, updates and files
/// together. Every other command answers or ends something that is bounded itself. No one waits
/// here.
#[derive(Debug)]
pub(crate) struct Inbox {
    /// The commands that wait; nothing once the driver has gone.
    commands: Mutex<Option<VecDeque<Command>>>,
    driver: AtomicWaker,
    /// Bytes that were accepted and have not been handed to the writer.
    accepted: AtomicUsize,
    /// Bytes that the writer has not written.
    pub(super) unwritten: AtomicUsize,
    limits: InboxLimits,
    store: Arc<Store>,
    exchanges: Arc<Exchanges>,
}

/// Bounds of an inbox.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InboxLimits {
    pub(crate) queued_inputs: usize,
    pub(crate) outbox: usize,
    pub(crate) max_file_bytes: u64,
}

impl Inbox {
    pub(crate) fn new(limits: InboxLimits, store: Arc<Store>, exchanges: Arc<Exchanges>) -> Self {
        Self {
            commands: Mutex::new(Some(VecDeque::new())),
            driver: AtomicWaker::new(),
            accepted: AtomicUsize::new(0),
            unwritten: AtomicUsize::new(0),
            limits,
            store,
            exchanges,
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<VecDeque<Command>>> {
        self.commands.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Accepts an input or another item among the waiting ones of its session, or refuses it.
    pub(crate) fn admit(&self, waiting: &AtomicU32, bytes: usize) -> Result<(), SendError> {
        let limit = u32::try_from(self.limits.queued_inputs).unwrap_or(u32::MAX);
        if waiting.fetch_add(1, Ordering::AcqRel) >= limit {
            waiting.fetch_sub(1, Ordering::AcqRel);
            return Err(SendError::Busy);
        }
        let accepted = self.accepted.fetch_add(bytes, Ordering::AcqRel);
        let before = accepted + self.unwritten.load(Ordering::Acquire);
        // If nothing waits, one input is accepted, however large: its maker bounds it.
        if before > 0 && before + bytes > self.limits.outbox {
            self.release(waiting, bytes);
            return Err(SendError::Busy);
        }
        Ok(())
    }

    /// Releases an accepted item that no longer waits.
    pub(crate) fn release(&self, waiting: &AtomicU32, bytes: usize) {
        waiting.fetch_sub(1, Ordering::AcqRel);
        self.release_bytes(bytes);
    }

    /// Releases the bytes of an accepted item that has left the queue.
    pub(crate) fn release_bytes(&self, bytes: usize) {
        self.accepted.fetch_sub(bytes, Ordering::AcqRel);
    }

    /// Adds a command. Once the driver has gone it is dropped, and what waits for its answer learns so.
    pub(crate) fn push(&self, command: Command) {
        self.add(self.lock(), command);
    }

    /// The driver takes all there is before it sleeps, so it is woken by the first command only.
    fn add(&self, mut commands: MutexGuard<'_, Option<VecDeque<Command>>>, command: Command) {
        let Some(waiting) = &mut *commands else {
            drop(commands);
            return command.lose();
        };
        let is_first = waiting.is_empty();
        waiting.push_back(command);
        drop(commands);
        if is_first {
            self.driver.wake();
        }
    }

    /// The driver has gone: drops what waits. Commands hold sessions and sessions hold their inbox,
    /// so nothing may stay.
    pub(super) fn close(&self) {
        let dropped = self.lock().take();
        dropped.into_iter().flatten().for_each(Command::lose);
    }

    /// Returns true if the driver has ended.
    pub(crate) fn is_closed(&self) -> bool {
        self.lock().is_none()
    }

    /// Adds an input whose turn is numbered in the order of the queue.
    pub(crate) fn push_numbered(&self, number: impl FnOnce() -> (TurnNo, Command)) -> TurnNo {
        let commands = self.lock();
        let (turn, command) = number();
        self.add(commands, command);
        turn
    }

    /// Moves up to this many commands out; ready when there are any.
    pub(super) fn poll_take(
        &self,
        most: usize,
        taken: &mut VecDeque<Command>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        self.driver.register(cx.waker());
        let mut commands = self.lock();
        let Some(commands) = commands.as_mut().filter(|commands| !commands.is_empty()) else {
            return Poll::Pending;
        };
        if commands.len() <= most {
            std::mem::swap(commands, taken);
        } else {
            taken.extend(commands.drain(..most));
        }
        Poll::Ready(())
    }

    /// Returns true if nothing waits.
    pub(super) fn is_empty(&self) -> bool {
        self.lock().as_ref().is_none_or(VecDeque::is_empty)
    }

    /// The memory budget and the spool of the host.
    pub(crate) fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// The largest file in either direction, in bytes.
    pub(crate) fn max_file_bytes(&self) -> u64 {
        self.limits.max_file_bytes
    }

    /// Returns the parent of the sessions' exchange folders.
    pub(crate) fn exchanges(&self) -> &Arc<Exchanges> {
        &self.exchanges
    }
}

impl Answers for Inbox {
    fn answer(&self, session: Key, request_id: RequestId, serial: u64, answer: Answer) {
        self.push(Command::Answer {
            session,
            request_id,
            serial,
            answer,
        });
    }

    fn check_edit(
        &self,
        session: Key,
        tool: String,
        input: Json,
        reply: oneshot::Sender<Option<EditRejected>>,
    ) {
        self.push(Command::CheckEdit {
            session,
            tool,
            input,
            names: None,
            reply,
        });
    }

    fn check_rule(
        &self,
        session: Key,
        request: Box<PermissionRequest>,
        rule: Pattern,
        reply: oneshot::Sender<Option<EditRejected>>,
    ) {
        self.push(Command::CheckRule {
            session,
            request,
            rule,
            names: None,
            reply,
        });
    }
}
