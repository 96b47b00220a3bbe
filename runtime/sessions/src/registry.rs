//! The registry of sessions in memory: at most one task serves a session, and every other caller
//! joins it or waits.
//!
//! Each session id has a slot. A caller that finds it vacant reserves it, reads the journal, and
//! publishes the task that serves the session from then on. The task gives the slot back when its
//! last block is stored.
//!
//! ```text
//!          reserve            publish           leave             vacate
//! vacant ──────────▶ opening ─────────▶ live ─────────▶ leaving ─────────▶ vacant
//!                       └── cancel ──▶ vacant              live ── vacate ──▶ vacant
//! ```
//!
//! The registry is a [`DashMap`]. Each method takes one guard, holds it for one read and one
//! change, and calls nothing of the registry meanwhile; no guard is held over an `.await`
//! (`clippy.toml` checks that).

use std::sync::{
    Arc, Mutex, MutexGuard, PoisonError, Weak,
    atomic::{AtomicBool, Ordering},
};

use dashmap::DashMap;
use tokio::task::{AbortHandle, JoinSet};
use tokio_util::sync::CancellationToken;
use trunkline_journal::SessionKey;
use trunkline_protocol::SessionId;

use crate::{
    activity::ActivityCell,
    actor::CommandSender,
    sessions::SessionsState,
    tail::{EntryTail, StreamEnd},
};

/// Phases of a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotPhase {
    /// The session is not in memory.
    Vacant,
    /// A caller reads the session from the journal, creates it or removes it.
    Opening,
    /// A task serves the session.
    Live,
    /// The task accepts nothing more and stores its remaining entries.
    Leaving,
}

/// Events that move a slot from one phase to the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SlotEvent {
    /// A caller takes the vacant slot.
    Reserve,
    /// The caller that reserved it starts the task.
    Publish,
    /// The caller that reserved it gives up.
    Cancel,
    /// The task accepts nothing more.
    Leave,
    /// The task has ended.
    Vacate,
}

impl SlotPhase {
    /// Returns the phase after an event, or `None` if the event is illegal in this phase.
    pub(crate) fn after(self, event: SlotEvent) -> Option<Self> {
        use SlotEvent::{Cancel, Leave, Publish, Reserve, Vacate};
        match (self, event) {
            (Self::Vacant, Reserve) => Some(Self::Opening),
            (Self::Opening, Publish) => Some(Self::Live),
            (Self::Opening, Cancel) => Some(Self::Vacant),
            (Self::Live, Leave) => Some(Self::Leaving),
            // A task that was aborted has not left in order.
            (Self::Live | Self::Leaving, Vacate) => Some(Self::Vacant),
            (Self::Vacant, Publish | Cancel | Leave | Vacate)
            | (Self::Opening, Reserve | Leave | Vacate)
            | (Self::Live, Reserve | Publish | Cancel)
            | (Self::Leaving, Reserve | Publish | Cancel | Leave) => None,
        }
    }
}

/// Handle of a session in memory. Clones are the same session.
#[derive(Debug, Clone)]
pub(crate) struct SessionHandle {
    pub(crate) key: SessionKey,
    /// The epoch in which the session writes.
    pub(crate) epoch: u64,
    /// The owner and the agent, which decide who may see the session.
    pub(crate) origin: Arc<SessionOrigin>,
    pub(crate) tail: Arc<EntryTail>,
    pub(crate) shown: ActivityCell,
    pub(crate) commands: CommandSender,
}

/// The visitor that opened a session, and its agent.
#[derive(Debug)]
pub(crate) struct SessionOrigin {
    pub(crate) owner: Option<String>,
    pub(crate) agent: String,
}

/// The right of this host to a session whose record other hosts share.
#[derive(Debug)]
pub(crate) struct OwnedSession {
    pub(crate) epoch: u64,
    /// Set if the session waits to be opened for the first time.
    pub(crate) is_new: bool,
    /// Set if the session is closed to new callers because it is about to move.
    pub(crate) is_shut: bool,
}

#[derive(Debug, Default)]
struct RegistrySlot {
    state: SlotState,
    /// `None` if the journal is the only record, or if another host owns the session.
    ownership: Option<OwnedSession>,
}

#[derive(Debug, Default)]
enum SlotState {
    #[default]
    Vacant,
    Opening {
        /// Cancelled when the slot is live or vacant.
        opened: CancellationToken,
    },
    Live {
        handle: SessionHandle,
        task: AbortHandle,
        /// Cancelled when the slot is vacant.
        vacated: CancellationToken,
    },
    Leaving {
        /// Cancelled when the slot is vacant.
        vacated: CancellationToken,
    },
}

impl SlotState {
    fn phase(&self) -> SlotPhase {
        match self {
            Self::Vacant => SlotPhase::Vacant,
            Self::Opening { .. } => SlotPhase::Opening,
            Self::Live { .. } => SlotPhase::Live,
            Self::Leaving { .. } => SlotPhase::Leaving,
        }
    }

    fn live_handle(&self) -> Option<&SessionHandle> {
        match self {
            Self::Live { handle, .. } => Some(handle),
            Self::Vacant | Self::Opening { .. } | Self::Leaving { .. } => None,
        }
    }
}

impl RegistrySlot {
    /// Moves to the next state if the table allows the event. Returns `true` if it does.
    fn advance(&mut self, event: SlotEvent, next: SlotState) -> bool {
        let is_legal = self.state.phase().after(event) == Some(next.phase());
        if is_legal {
            self.state = next;
        }
        is_legal
    }

    fn is_empty(&self) -> bool {
        self.ownership.is_none() && matches!(self.state, SlotState::Vacant)
    }
}

/// Outcome of [`Registry::enter`].
pub(crate) enum SlotEntry {
    /// A task serves the session: see [`Registry::live`].
    Live,
    /// The slot was vacant, and this caller has it now.
    Reserved(SlotReservation),
    /// Another caller opens the session, or its task leaves: enter again when this is cancelled.
    Busy(CancellationToken),
}

/// Reason that a session was not published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PublishError {
    /// The host ends.
    HostEnding,
    /// The session moves, or another host owns it.
    NotOwned,
}

/// The sessions in memory, and the sessions that this host owns.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    slots: DashMap<SessionId, RegistrySlot>,
    /// Aborted when the registry is dropped.
    tasks: Mutex<JoinSet<()>>,
    is_ending: AtomicBool,
}

impl Registry {
    fn tasks(&self) -> MutexGuard<'_, JoinSet<()>> {
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the session if it is live and accepts commands.
    pub(crate) fn live_handle(&self, id: &str) -> Option<SessionHandle> {
        let slot = self.slots.get(id)?;
        slot.state
            .live_handle()
            .filter(|handle| !handle.commands.is_closed())
            .cloned()
    }

    pub(crate) fn all_live(&self) -> Vec<SessionHandle> {
        self.slots
            .iter()
            .filter_map(|slot| slot.state.live_handle().cloned())
            .collect()
    }

    /// Returns the live session, reserves the vacant slot, or returns a token to wait for.
    pub(crate) fn enter(self: &Arc<Self>, id: &SessionId) -> SlotEntry {
        let mut slot = self.slots.entry(id.clone()).or_default();
        match &slot.state {
            SlotState::Live { handle, .. } if !handle.commands.is_closed() => SlotEntry::Live,
            // A task whose inbox is closed is about to end.
            SlotState::Live { vacated, .. } | SlotState::Leaving { vacated } => {
                SlotEntry::Busy(vacated.clone())
            }
            SlotState::Opening { opened } => SlotEntry::Busy(opened.clone()),
            SlotState::Vacant => {
                let opened = CancellationToken::new();
                let opening = SlotState::Opening {
                    opened: opened.clone(),
                };
                slot.advance(SlotEvent::Reserve, opening);
                SlotEntry::Reserved(SlotReservation {
                    registry: self.clone(),
                    id: id.clone(),
                    opened,
                })
            }
        }
    }

    /// Reserves the slot of a session that is not in memory, and waits until earlier callers have
    /// left. `None` if the session is live.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the slot as it is.
    pub(crate) async fn reserve(self: &Arc<Self>, id: &SessionId) -> Option<SlotReservation> {
        loop {
            match self.enter(id) {
                SlotEntry::Live => return None,
                SlotEntry::Reserved(reservation) => return Some(reservation),
                SlotEntry::Busy(until) => until.cancelled().await,
            }
        }
    }

    /// Waits until the task of a session that leaves has ended. Returns at once if none leaves.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub(crate) async fn wait_until_left(&self, id: &str) {
        loop {
            let vacated = match self.slots.get(id).as_deref() {
                Some(RegistrySlot {
                    state: SlotState::Leaving { vacated },
                    ..
                }) => vacated.clone(),
                _ => return,
            };
            vacated.cancelled().await;
        }
    }

    /// Marks that the host ends: nothing is published from now on. Returns the live sessions and
    /// their tasks.
    pub(crate) fn end(&self) -> (Vec<SessionHandle>, JoinSet<()>) {
        // A slot is published under its guard, after a check of this flag: it is either seen below
        // or refused.
        self.is_ending.store(true, Ordering::SeqCst);
        let live = self.all_live();
        let tasks = std::mem::take(&mut *self.tasks());
        (live, tasks)
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.load(Ordering::SeqCst)
    }

    /// Reads the ownership of a session.
    pub(crate) fn ownership<T>(
        &self,
        id: &str,
        look: impl FnOnce(Option<&OwnedSession>) -> T,
    ) -> T {
        let slot = self.slots.get(id);
        look(slot.as_deref().and_then(|slot| slot.ownership.as_ref()))
    }

    /// Changes the ownership of a session that is owned. `None` if it is not.
    pub(crate) fn change_ownership<T>(
        &self,
        id: &str,
        change: impl FnOnce(&mut OwnedSession) -> T,
    ) -> Option<T> {
        let mut slot = self.slots.get_mut(id)?;
        slot.ownership.as_mut().map(change)
    }

    /// Notes that this host owns a session.
    pub(crate) fn own(&self, id: &SessionId, owned: OwnedSession) {
        self.slots.entry(id.clone()).or_default().ownership = Some(owned);
    }

    /// Forgets that this host owns a session, if it is owned under this epoch.
    pub(crate) fn disown(&self, id: &str, epoch: u64) {
        if let Some(mut slot) = self.slots.get_mut(id)
            && slot
                .ownership
                .as_ref()
                .is_some_and(|own| own.epoch == epoch)
        {
            slot.ownership = None;
        }
        self.drop_if_empty(id);
    }

    /// Forgets a session of this host at once: nothing more of it is written, and its listeners get
    /// this end when its task has ended.
    pub(crate) fn release(&self, id: &str, end: StreamEnd) {
        if let Some(mut slot) = self.slots.get_mut(id) {
            slot.ownership = None;
            if let SlotState::Live {
                handle,
                task,
                vacated,
            } = &slot.state
            {
                handle.tail.set_end(end);
                task.abort();
                let leaving = SlotState::Leaving {
                    vacated: vacated.clone(),
                };
                slot.advance(SlotEvent::Leave, leaving);
            }
        }
        self.drop_if_empty(id);
    }

    /// Returns the sessions that this host owns, each with its live handle.
    pub(crate) fn owned<T>(
        &self,
        show: impl Fn(&SessionId, &OwnedSession, Option<&SessionHandle>) -> T,
    ) -> Vec<T> {
        self.slots
            .iter()
            .filter_map(|slot| {
                let owned = slot.ownership.as_ref()?;
                Some(show(slot.key(), owned, slot.state.live_handle()))
            })
            .collect()
    }

    /// Frees the memory of a slot without state and owner.
    fn drop_if_empty(&self, id: &str) {
        self.slots.remove_if(id, |_, slot| slot.is_empty());
    }
}

/// The right to open, create or remove a session that is not in memory. Dropping it makes the slot
/// vacant again.
#[derive(Debug)]
pub(crate) struct SlotReservation {
    registry: Arc<Registry>,
    id: SessionId,
    opened: CancellationToken,
}

impl SlotReservation {
    /// Starts the task that serves the session and makes the slot live.
    ///
    /// # Errors
    /// [`PublishError`]; the slot is vacant then.
    pub(crate) fn publish<F>(
        self,
        handle: SessionHandle,
        has_record: bool,
        shared: Weak<SessionsState>,
        serve: impl FnOnce(SlotLease) -> F,
    ) -> Result<SessionHandle, PublishError>
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let Some(mut slot) = self.registry.slots.get_mut(&self.id) else {
            return Err(PublishError::NotOwned);
        };
        if self.registry.is_ending() {
            return Err(PublishError::HostEnding);
        }
        let is_owned = |own: &OwnedSession| own.epoch == handle.epoch && !own.is_shut;
        if has_record && !slot.ownership.as_ref().is_some_and(is_owned) {
            return Err(PublishError::NotOwned);
        }
        let vacated = CancellationToken::new();
        let lease = SlotLease {
            shared,
            id: self.id.clone(),
            tail: handle.tail.clone(),
            vacated: vacated.clone(),
        };
        let mut tasks = self.registry.tasks();
        let task = tasks.spawn(serve(lease));
        // Forget tasks that have ended.
        while tasks.try_join_next().is_some() {}
        drop(tasks);
        let live = SlotState::Live {
            handle: handle.clone(),
            task,
            vacated,
        };
        slot.advance(SlotEvent::Publish, live);
        drop(slot);
        // Wake the waiting callers; the slot no longer belongs to this reservation.
        self.opened.cancel();
        Ok(handle)
    }
}

impl Drop for SlotReservation {
    fn drop(&mut self) {
        if self.opened.is_cancelled() {
            return;
        }
        if let Some(mut slot) = self.registry.slots.get_mut(&self.id) {
            slot.advance(SlotEvent::Cancel, SlotState::Vacant);
        }
        self.registry.drop_if_empty(self.id.as_str());
        self.opened.cancel();
    }
}

/// The slot of a session, owned by its task. Dropping it makes the slot vacant and ends the
/// listeners, so the task drops it last.
#[derive(Debug)]
pub(crate) struct SlotLease {
    shared: Weak<SessionsState>,
    id: SessionId,
    tail: Arc<EntryTail>,
    vacated: CancellationToken,
}

impl SlotLease {
    pub(crate) fn id(&self) -> &SessionId {
        &self.id
    }

    /// Returns the sessions of this host, unless all their handles are dropped.
    pub(crate) fn shared(&self) -> Option<Arc<SessionsState>> {
        self.shared.upgrade()
    }

    /// Makes callers wait from now on until the slot is vacant: the task accepts nothing more.
    pub(crate) fn leave(&self) {
        let Some(shared) = self.shared.upgrade() else {
            return;
        };
        if let Some(mut slot) = shared.registry.slots.get_mut(&self.id) {
            let leaving = SlotState::Leaving {
                vacated: self.vacated.clone(),
            };
            slot.advance(SlotEvent::Leave, leaving);
        }
    }

    /// Sets the reason that listeners get at the end of their stream.
    pub(crate) fn set_end(&self, end: StreamEnd) {
        self.tail.set_end(end);
    }
}

impl Drop for SlotLease {
    fn drop(&mut self) {
        if let Some(shared) = self.shared.upgrade() {
            if let Some(mut slot) = shared.registry.slots.get_mut(&self.id) {
                slot.advance(SlotEvent::Vacate, SlotState::Vacant);
            }
            shared.registry.drop_if_empty(self.id.as_str());
        }
        self.tail.finish();
        self.vacated.cancel();
    }
}

#[cfg(test)]
mod tests {
    use trunkline_journal::{Journal, Options};

    use super::*;

    const PHASES: [SlotPhase; 4] = [
        SlotPhase::Vacant,
        SlotPhase::Opening,
        SlotPhase::Live,
        SlotPhase::Leaving,
    ];

    const EVENTS: [SlotEvent; 5] = [
        SlotEvent::Reserve,
        SlotEvent::Publish,
        SlotEvent::Cancel,
        SlotEvent::Leave,
        SlotEvent::Vacate,
    ];

    #[test]
    fn a_slot_is_reserved_only_while_it_has_neither_opener_nor_writer() {
        for phase in PHASES {
            let has_opener_or_writer = phase != SlotPhase::Vacant;
            assert_eq!(
                phase.after(SlotEvent::Reserve).is_none(),
                has_opener_or_writer
            );
            // Each phase ends: at least one event leads out of it.
            assert!(EVENTS.iter().any(|event| phase.after(*event).is_some()));
            // A writer stays until the slot is vacated.
            if matches!(phase, SlotPhase::Live | SlotPhase::Leaving) {
                for event in EVENTS {
                    let after = phase.after(event);
                    let still_writes =
                        matches!(after, None | Some(SlotPhase::Live | SlotPhase::Leaving));
                    assert!(
                        still_writes || event == SlotEvent::Vacate,
                        "{phase:?} {event:?}"
                    );
                }
            }
        }
    }

    /// A caller of the registry, one of several, with its reservation or lease.
    #[derive(Default)]
    struct Caller {
        reservation: Option<SlotReservation>,
        lease: Option<SlotLease>,
    }

    impl Caller {
        /// Takes the first or the second of the two steps that the caller can take now.
        fn step(&mut self, shared: &Arc<SessionsState>, handle: &SessionHandle, second: bool) {
            let id = SessionId::new("s").unwrap();
            if let Some(reservation) = self.reservation.take() {
                if second {
                    return drop(reservation);
                }
                let lease = &mut self.lease;
                let serve = |given| {
                    *lease = Some(given);
                    std::future::ready(())
                };
                reservation
                    .publish(handle.clone(), false, Arc::downgrade(shared), serve)
                    .unwrap();
            } else if let Some(lease) = self.lease.take() {
                if second {
                    return drop(lease);
                }
                lease.leave();
                self.lease = Some(lease);
            } else if let SlotEntry::Reserved(reservation) = shared.registry.enter(&id) {
                self.reservation = Some(reservation);
            }
        }
    }

    /// Tries every order of the steps of three callers: no two of them have the session at the same
    /// moment.
    #[tokio::test]
    async fn callers_in_every_order_get_one_opener_or_writer() {
        const CALLERS: usize = 3;
        const STEPS: u32 = 5;
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path(), Options::default()).unwrap();
        let (key, _) = journal.create("s", b"{}").unwrap();
        let (commands, _inbox) = tokio::sync::mpsc::channel(1);
        let origin = SessionOrigin {
            owner: None,
            agent: "a".to_owned(),
        };
        let handle = SessionHandle {
            key,
            epoch: 1,
            origin: Arc::new(origin),
            tail: Arc::new(EntryTail::new(0)),
            shown: ActivityCell::new(),
            commands,
        };
        let choices = 2 * CALLERS;
        for order in 0..choices.pow(STEPS) {
            let shared = SessionsState::for_tests(journal.clone());
            let mut callers: [Caller; CALLERS] = Default::default();
            let mut rest = order;
            for _ in 0..STEPS {
                let choice = rest % choices;
                rest /= choices;
                callers[choice / 2].step(&shared, &handle, choice % 2 == 1);
                let held = callers.iter().filter(|caller| {
                    assert!(caller.reservation.is_none() || caller.lease.is_none());
                    caller.reservation.is_some() || caller.lease.is_some()
                });
                assert!(held.count() <= 1, "order {order}");
            }
            drop(callers);
            assert!(
                shared.registry.slots.is_empty(),
                "order {order}: a slot is left"
            );
        }
    }
}
