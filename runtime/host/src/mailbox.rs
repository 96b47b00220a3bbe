//! Queue of events for their reader: in memory up to a budget, then on disk, in order.
//!
//! The link pushes and never waits; the reader polls. A mailbox belongs to one turn, or to one
//! session for events outside turns. Its last event, the end, is stored separately: it can neither
//! be lost nor overtake others.

use std::{
    collections::VecDeque,
    fmt,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    task::{Context, Poll, Waker},
};

use tokio::{runtime::Handle, task::JoinHandle};
use trunkline_protocol::{Large, json_len};

use crate::{
    Event,
    link::Command,
    session::SessionShared,
    spool::{Backlog, Pressure, Store},
};

/// A handle to a queue of events with one reader and one writer.
#[derive(Debug, Clone)]
pub(crate) struct Mailbox(Arc<Shared>);

struct Shared {
    state: Mutex<State>,
    store: Arc<Store>,
}

#[derive(Default)]
pub(crate) struct State {
    queue: Queue,
    /// The bytes of `queue`.
    bytes: usize,
    /// Events on disk, if there are any.
    backlog: Option<Box<Backlog>>,
    /// The event whose members are being read.
    reading: Option<Reading>,
    /// Runtime of the link, which reads them for a reader outside of any runtime.
    runtime: Option<Handle>,
    /// The end, delivered after all else.
    last: Option<Slot>,
    finished: bool,
    /// True if the reader was dropped: events are discarded.
    discarded: bool,
    /// True if the link has pushed since it last woke the reader.
    touched: bool,
    /// The session whose link learns when the reader has caught up, once it has fallen behind.
    watcher: Option<Arc<SessionShared>>,
    waker: Option<Waker>,
}

/// The reader is behind while this part of what memory may hold waits from earlier wakes, and has
/// caught up at half of that. What the pipe still holds then fits in memory, too.
const BEHIND: usize = 4;

/// Slots in order. The first has its place without an allocation: most turns have one event before their end.
#[derive(Debug, Default)]
struct Queue {
    first: Option<Slot>,
    rest: VecDeque<Slot>,
}

impl Queue {
    fn push_back(&mut self, slot: Slot) {
        if self.is_empty() {
            self.first = Some(slot);
        } else {
            if self.rest.capacity() == 0 {
                // Mostly one follows, and an idle session keeps the room.
                self.rest.reserve_exact(1);
            }
            self.rest.push_back(slot);
        }
    }

    fn push_front(&mut self, slot: Slot) {
        if let Some(second) = self.first.replace(slot) {
            self.rest.push_front(second);
        }
    }

    fn pop_front(&mut self) -> Option<Slot> {
        self.first.take().or_else(|| self.rest.pop_front())
    }

    fn is_empty(&self) -> bool {
        self.first.is_none() && self.rest.is_empty()
    }
}

/// A place in the queue.
#[derive(Debug)]
pub(crate) enum Slot {
    /// An event.
    Event(Event),
    /// An event with members in files of the session: they are read for its reader, so that memory
    /// holds only those of one event ([large.3]).
    Large(Box<Event>, Box<Large>),
    /// An event that is being made: a file that is checked and copied. Those behind it wait.
    Pending(Arc<OnceLock<Mutex<Option<Event>>>>),
}

/// An event whose members are being read.
struct Reading {
    task: Option<JoinHandle<Option<Read>>>,
    /// The event until its reading begins.
    unread: Arc<Unread>,
}

type Unread = Mutex<Option<(Event, Box<Large>)>>;

/// An event with its members, and the error that comes before it where one cannot be taken.
type Read = (Option<Event>, Event);

/// Reads the members of an event, once. Blocks on the file system.
fn read_members(unread: &Unread, session: &SessionShared) -> Option<Read> {
    let (event, large) = unread
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .take()?;
    Some(session.with_large(event, &large))
}

/// Result of a push.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pushed {
    /// Queued; the reader must be woken, and was not scheduled before.
    Touched,
    /// As above; and much waits that the reader was woken for before, and has not read.
    Behind,
    /// Queued.
    Quiet,
    /// Dropped and reported ([process.4]): the spool's limit is reached or the disk is full.
    Overflow,
}

impl Mailbox {
    pub(crate) fn new(store: &Arc<Store>) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::default(),
            store: store.clone(),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event. Never waits. The link of `watcher` learns when a reader that was behind has caught up.
    pub(crate) fn push(
        &self,
        event: Event,
        watcher: Option<&Arc<SessionShared>>,
        pressure: &Arc<Pressure>,
    ) -> Pushed {
        self.push_slot(Slot::Event(event), watcher, pressure)
    }

    /// Adds an event with members in files. Never waits.
    pub(crate) fn push_large(
        &self,
        event: Event,
        large: Box<Large>,
        watcher: Option<&Arc<SessionShared>>,
        pressure: &Arc<Pressure>,
    ) -> Pushed {
        self.lock().runtime = Handle::try_current().ok();
        self.push_slot(Slot::Large(Box::new(event), large), watcher, pressure)
    }

    /// Keeps a place for an event that will be made; fill it by [`Promise::keep`].
    pub(crate) fn promise(
        &self,
        watcher: Option<&Arc<SessionShared>>,
        pressure: &Arc<Pressure>,
    ) -> (Promise, Pushed) {
        let place = Arc::new(OnceLock::new());
        let pushed = self.push_slot(Slot::Pending(place.clone()), watcher, pressure);
        (
            Promise {
                place,
                mailbox: self.clone(),
            },
            pushed,
        )
    }

    fn push_slot(
        &self,
        slot: Slot,
        watcher: Option<&Arc<SessionShared>>,
        pressure: &Arc<Pressure>,
    ) -> Pushed {
        let mut state = self.lock();
        if state.discarded || state.finished {
            drop(state);
            // Dropped outside the lock: a request that is dropped answers itself.
            drop(slot);
            return Pushed::Quiet;
        }
        let weight = slot.weight();
        let behind =
            watcher.filter(|_| !state.touched && state.is_behind(self.0.store.limits.mailbox));
        if state.backlog.is_none() {
            let fits =
                state.bytes + weight <= self.0.store.limits.mailbox || state.queue.is_empty();
            if fits && self.0.store.reserve(weight) {
                state.bytes += weight;
                state.queue.push_back(slot);
                return state.touch(behind);
            }
            match self.0.store.open_backlog() {
                Ok(backlog) => state.backlog = Some(Box::new(backlog)),
                Err(_) => return Pushed::Overflow,
            }
        }
        let Some(backlog) = &mut state.backlog else {
            return Pushed::Overflow;
        };
        match backlog.push(slot, self, pressure, &self.0.store) {
            Ok(()) => state.touch(behind),
            Err(slot) => {
                drop(state);
                drop(slot);
                Pushed::Overflow
            }
        }
    }

    /// Sets the last event.
    pub(crate) fn finish(&self, last: Event) -> Pushed {
        self.finish_slot(Slot::Event(last))
    }

    /// Sets the last event, with members in files.
    pub(crate) fn finish_large(&self, last: Event, large: Box<Large>) -> Pushed {
        self.lock().runtime = Handle::try_current().ok();
        self.finish_slot(Slot::Large(Box::new(last), large))
    }

    fn finish_slot(&self, last: Slot) -> Pushed {
        let mut state = self.lock();
        if state.last.is_none() && !state.finished {
            state.last = Some(last);
        }
        state.touch(None)
    }

    /// Sets the last event and wakes the reader.
    pub(crate) fn finish_now(&self, last: Event) {
        self.finish(last);
        self.wake();
    }

    /// Wakes the reader after a chunk's events.
    pub(crate) fn wake(&self) {
        wake(self.lock());
    }

    /// The reader has gone: what waits and what comes is dropped.
    pub(crate) fn discard(&self) {
        let mut state = self.lock();
        state.discarded = true;
        state.finished = true;
        let mut dropped = (
            std::mem::take(&mut state.queue),
            state.backlog.take(),
            state.last.take(),
            state.waker.take(),
        );
        // The read in progress has lost its reader.
        state.reading = None;
        let blocked = dropped
            .1
            .as_mut()
            .map_or(0, |backlog| backlog.take_reserved());
        self.0
            .store
            .release(std::mem::take(&mut state.bytes) + blocked);
        let watcher = state.watcher.take();
        drop(state);
        drop(dropped);
        watcher.into_iter().for_each(tell_read_down);
    }

    /// Returns the number of unread bytes of events, in memory and on disk.
    pub(crate) fn unread(&self) -> u64 {
        let state = self.lock();
        state.bytes as u64 + state.backlog.as_ref().map_or(0, |backlog| backlog.unread())
    }

    /// The next event; nothing after the last.
    pub(crate) fn poll_next(
        &self,
        cx: &mut Context<'_>,
        session: &Arc<SessionShared>,
    ) -> Poll<Option<Event>> {
        let mut state = self.lock();
        let polled = self.poll_queue(&mut state, cx, session);
        let limit = self.0.store.limits.mailbox;
        if state.watcher.is_some() && state.backlog.is_none() && state.bytes <= limit / BEHIND / 2 {
            let watcher = state.watcher.take();
            drop(state);
            watcher.into_iter().for_each(tell_read_down);
        }
        polled
    }

    fn poll_queue(
        &self,
        state: &mut State,
        cx: &mut Context<'_>,
        session: &Arc<SessionShared>,
    ) -> Poll<Option<Event>> {
        loop {
            if let Some(reading) = &mut state.reading {
                let read = match &mut reading.task {
                    Some(task) => match Pin::new(task).poll(cx) {
                        Poll::Ready(read) => read.ok().flatten(),
                        Poll::Pending => return Poll::Pending,
                    },
                    None => None,
                };
                // Without a runtime, or with one that ended first, it is read here: no link waits
                // for this lock then.
                let read = read.or_else(|| read_members(&reading.unread, session));
                state.reading = None;
                let Some(read) = read else { continue };
                return Poll::Ready(Some(state.first_of(&self.0.store, read)));
            }
            match state.queue.pop_front() {
                Some(Slot::Large(event, large)) => {
                    let weight = weight_of(&event) + json_len(&large);
                    state.bytes -= weight;
                    self.0.store.release(weight);
                    state.read(session, *event, large);
                }
                Some(Slot::Event(event)) => {
                    let weight = weight_of(&event);
                    state.bytes -= weight;
                    self.0.store.release(weight);
                    return Poll::Ready(Some(event));
                }
                Some(Slot::Pending(place)) => match place.get() {
                    Some(event) => {
                        state.bytes -= Slot::PENDING_WEIGHT;
                        self.0.store.release(Slot::PENDING_WEIGHT);
                        if let Some(event) =
                            event.lock().unwrap_or_else(PoisonError::into_inner).take()
                        {
                            return Poll::Ready(Some(event));
                        }
                    }
                    None => {
                        state.queue.push_front(Slot::Pending(place));
                        break;
                    }
                },
                None => {
                    if let Some(backlog) = &mut state.backlog {
                        if !backlog.is_drained() {
                            backlog.load(self, &self.0.store);
                            break;
                        }
                        state.backlog = None;
                        continue;
                    }
                    match state.last.take() {
                        Some(Slot::Event(last)) => {
                            state.finished = true;
                            return Poll::Ready(Some(last));
                        }
                        Some(Slot::Large(last, large)) => {
                            state.finished = true;
                            state.read(session, *last, large);
                            continue;
                        }
                        Some(Slot::Pending(_)) | None => {}
                    }
                    if state.finished {
                        return Poll::Ready(None);
                    }
                    break;
                }
            }
        }
        if !state
            .waker
            .as_ref()
            .is_some_and(|waker| waker.will_wake(cx.waker()))
        {
            state.waker = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Takes back what was read from disk. Called by the spool's thread.
    pub(crate) fn loaded(&self, update: impl FnOnce(&mut Backlog) -> Vec<Slot>) {
        let mut state = self.lock();
        let Some(backlog) = &mut state.backlog else {
            return;
        };
        let slots = update(backlog);
        for slot in slots {
            let weight = slot.weight();
            self.0.store.reserve_always(weight);
            state.bytes += weight;
            state.queue.push_back(slot);
        }
        wake(state);
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let state = self.state.get_mut().unwrap_or_else(PoisonError::into_inner);
        let blocked = state
            .backlog
            .as_mut()
            .map_or(0, |backlog| backlog.take_reserved());
        self.store
            .release(std::mem::take(&mut state.bytes) + blocked);
    }
}

impl State {
    /// Starts reading the members of an event that are in files, beside its reader.
    fn read(&mut self, session: &Arc<SessionShared>, event: Event, large: Box<Large>) {
        let unread = Arc::new(Mutex::new(Some((event, large))));
        let runtime = Handle::try_current().ok().or_else(|| self.runtime.clone());
        let task = runtime.map(|runtime| {
            let unread = unread.clone();
            let session = session.clone();
            runtime.spawn_blocking(move || read_members(&unread, &session))
        });
        self.reading = Some(Reading { task, unread });
    }

    /// Returns the first part of an event that was read: its error, if there is one, or itself.
    fn first_of(&mut self, store: &Store, (error, event): Read) -> Event {
        let Some(error) = error else { return event };
        self.push_front(store, event);
        error
    }

    /// Puts an event back to the front.
    fn push_front(&mut self, store: &Store, event: Event) {
        let weight = weight_of(&event);
        store.reserve_always(weight);
        self.bytes += weight;
        self.queue.push_front(Slot::Event(event));
    }

    /// Returns true if many events are unread.
    fn is_behind(&self, limit: usize) -> bool {
        self.backlog.is_some() || self.bytes >= (limit / BEHIND).max(1)
    }

    fn touch(&mut self, behind: Option<&Arc<SessionShared>>) -> Pushed {
        let was_touched = std::mem::replace(&mut self.touched, true);
        match behind {
            Some(watcher) => {
                self.watcher.get_or_insert_with(|| watcher.clone());
                Pushed::Behind
            }
            None if was_touched => Pushed::Quiet,
            None => Pushed::Touched,
        }
    }
}

/// Tells the link of a session that its reader has caught up.
fn tell_read_down(session: Arc<SessionShared>) {
    let link = session.clone();
    link.command(Command::ReadDown(session));
}

fn wake(mut state: MutexGuard<'_, State>) {
    state.touched = false;
    let waker = state.waker.take();
    drop(state);
    if let Some(waker) = waker {
        waker.wake();
    }
}

impl Slot {
    /// A file that was taken or refused, with its names.
    const PENDING_WEIGHT: usize = 1024;

    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Event(event) => weight_of(event),
            Self::Large(event, large) => weight_of(event) + json_len(large),
            Self::Pending(_) => Self::PENDING_WEIGHT,
        }
    }
}

fn weight_of(event: &Event) -> usize {
    size_of::<Event>()
        + event.kind.weight()
        + event
            .meta
            .as_ref()
            .map_or(0, |meta| meta.json().get().len())
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mailbox").finish_non_exhaustive()
    }
}

/// A place in a mailbox for an event that is being made. If it is dropped without one, the place
/// stays empty and the mailbox continues.
#[derive(Debug)]
pub(crate) struct Promise {
    place: Arc<OnceLock<Mutex<Option<Event>>>>,
    mailbox: Mailbox,
}

impl Promise {
    /// Fills the place.
    pub(crate) fn keep(self, event: Event) {
        let _ = self.place.set(Mutex::new(Some(event)));
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let _ = self.place.set(Mutex::new(None));
        self.mailbox.wake();
    }
}
