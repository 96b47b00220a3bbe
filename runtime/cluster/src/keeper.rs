//! Keeps batches of this host's sessions in the journal of the cluster, each once.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use tokio::{
    sync::{Semaphore, watch},
    time::sleep,
};
use trunkline_process::BootInstant;
use trunkline_protocol::SessionId;
use trunkline_sessions::{Batch, NotRecorded};

use crate::{
    contents,
    counters::Counters,
    lock,
    marks::Marks,
    placement::jitter,
    row::{Row, SessionRow},
    store::{NotKept, Space, Store, StoredMessage, key_of},
    wire,
};

/// Delay before the first retry; it doubles each time.
pub(crate) const AGAIN: Duration = Duration::from_millis(50);
const AGAIN_MOST: Duration = Duration::from_secs(2);

/// Identity of a writer and its message, as others see it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mine {
    /// This run of the host.
    pub writer: String,
    /// The epoch in which it has the session.
    pub epoch: u64,
    /// Number of the batch, and of its part.
    pub batch: u64,
    /// See `batch`.
    pub part: u32,
    /// Expected previous sequence number.
    pub last: u64,
    /// True if a message of this epoch was stored before.
    pub has_begun: bool,
}

/// Outcome of a message, or its next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Stored under this number.
    Kept(u64),
    /// Not stored: retry behind this number.
    Again(u64),
    /// Somebody else has the session.
    Fenced,
    /// The previous owner was faster: read its messages first.
    Behind,
}

/// Decides, after an inconclusive reply, by the last stored message of the session.
#[must_use]
pub fn verdict(mine: &Mine, last: Option<(u64, &wire::Head)>) -> Verdict {
    let Some((number, head)) = last else {
        // Nothing is stored. If something should be, the journal was lost, and its numbers begin
        // anew.
        return if mine.last == 0 {
            Verdict::Again(0)
        } else {
            Verdict::Fenced
        };
    };
    if number < mine.last {
        // An older copy of the journal.
        return Verdict::Fenced;
    }
    let is_own = head.writer == mine.writer && head.epoch == mine.epoch;
    if is_own && (head.batch, head.part) == (mine.batch, mine.part) {
        return Verdict::Kept(number);
    }
    if is_own && (head.batch, head.part) > (mine.batch, mine.part) {
        // Two tasks write as one, which the rules of this program do not allow.
        return Verdict::Fenced;
    }
    match (head.epoch.cmp(&mine.epoch), number == mine.last) {
        (std::cmp::Ordering::Greater, _) => Verdict::Fenced,
        (_, true) => Verdict::Again(number),
        // Another run with the same epoch, which was the first to write in it: a row that was restored.
        (std::cmp::Ordering::Equal, false) if !mine.has_begun => Verdict::Fenced,
        // From before this epoch began.
        (std::cmp::Ordering::Less, false) if !mine.has_begun => Verdict::Behind,
        // From a writer without the right to write, or a copy: readers skip it, but it takes a
        // number.
        (std::cmp::Ordering::Less | std::cmp::Ordering::Equal, false) => Verdict::Again(number),
    }
}

/// Position of a session's next batch.
#[derive(Debug, Clone, Copy)]
struct SessionLocation {
    epoch: u64,
    last: u64,
    batch: u64,
}

/// Keeps the batches of this host's sessions.
#[derive(Debug)]
pub struct Keeper {
    pub(crate) store: Arc<dyn Store>,
    /// For the contents of files that are on their way, either way.
    pub(crate) ways: Semaphore,
    writer: String,
    places: Mutex<HashMap<SessionId, SessionLocation>>,
    /// Until when this host may act.
    lease: watch::Receiver<Option<BootInstant>>,
    /// True if nothing can be stored now.
    is_silent: AtomicBool,
    pub(crate) marks: Marks,
    /// Fenced sessions whose owner has not been looked up.
    fenced: Mutex<HashSet<SessionId>>,
    pub(crate) counters: Counters,
}

impl Keeper {
    /// Creates a keeper that writes as this run of a host.
    #[must_use]
    pub fn new(
        store: Arc<dyn Store>,
        writer: String,
        lease: watch::Receiver<Option<BootInstant>>,
        marks: Marks,
    ) -> Arc<Self> {
        Arc::new(Self {
            store,
            ways: Semaphore::new(contents::AT_ONCE),
            writer,
            places: Mutex::default(),
            lease,
            is_silent: AtomicBool::default(),
            marks,
            fenced: Mutex::default(),
            counters: Counters::default(),
        })
    }

    fn places(&self) -> MutexGuard<'_, HashMap<SessionId, SessionLocation>> {
        lock(&self.places)
    }

    /// From now on this host writes the session, behind the message `last`.
    pub fn begin(&self, session: &SessionId, epoch: u64, last: u64) {
        self.places().insert(
            session.clone(),
            SessionLocation {
                epoch,
                last,
                batch: 0,
            },
        );
    }

    /// Returns true if this host writes the session.
    pub(crate) fn has(&self, session: &SessionId) -> bool {
        self.places().contains_key(session)
    }

    /// Stops writing the session.
    pub fn end(&self, session: &SessionId) {
        self.places().remove(session);
    }

    /// The sessions that were fenced since it was asked last.
    pub(crate) fn fenced(&self) -> HashSet<SessionId> {
        std::mem::take(&mut *lock(&self.fenced))
    }

    /// Schedules a lookup of a session's owner.
    pub(crate) fn note_fenced(&self, session: SessionId) {
        lock(&self.fenced).insert(session);
    }

    /// Stops writing under this epoch.
    fn leave(&self, session: &SessionId, epoch: u64) {
        let mut places = self.places();
        if places
            .get(session)
            .is_some_and(|place| place.epoch == epoch)
        {
            places.remove(session);
        }
    }

    /// Returns true if this host may act.
    pub fn may_act(&self) -> bool {
        self.lease
            .borrow()
            .is_some_and(|until| BootInstant::now() < until)
    }

    /// Returns the reason why this host may not act, if there is one.
    pub(crate) fn idle(&self) -> Option<String> {
        let lost = || {
            self.marks
                .lost()
                .unwrap_or_else(|| "this host has lost its lease".to_owned())
        };
        (!self.may_act()).then(lost)
    }

    /// Returns the reason why nothing is stored now, if there is one.
    pub(crate) fn trouble(&self) -> Option<String> {
        let is_silent = || self.is_silent.load(Ordering::Relaxed);
        let silent =
            || is_silent().then(|| "the cluster's store does not answer, or is full".to_owned());
        self.idle().or_else(silent)
    }

    /// Waits before a retry, longer each time.
    pub(crate) async fn pause(&self, session: &SessionId, wait: &mut Duration, why: &str) {
        tracing::debug!(%session, "the cluster's store keeps nothing: {why}");
        let so_far = u64::try_from(wait.as_millis()).unwrap_or(u64::MAX);
        sleep(*wait + jitter(session.as_str(), so_far, *wait)).await;
        *wait = (*wait * 2).min(AGAIN_MOST);
    }

    /// Keeps one message, however often it has to be tried.
    async fn keep(
        &self,
        session: &SessionId,
        key: &str,
        mine: &mut Mine,
        message: Bytes,
    ) -> Result<(), NotRecorded> {
        let mut wait = AGAIN;
        loop {
            let is_own = self
                .places()
                .get(session)
                .is_some_and(|place| place.epoch == mine.epoch);
            if !is_own || !self.may_act() {
                return Err(NotRecorded::Fenced);
            }
            let before = self.marks.last(Space::Journal);
            let put = self
                .store
                .put(Space::Journal, key, mine.last, message.clone())
                .await;
            let number = match put {
                Ok(number) => match self.marks.gave(Space::Journal, before, number) {
                    Ok(()) => Verdict::Kept(number),
                    // No client has seen it, and none will.
                    Err(_) => Verdict::Fenced,
                },
                Err(NotKept::Refused(why)) => {
                    self.counters.puts_refused.add(1);
                    return Err(NotRecorded::Refused(why));
                }
                Err(why @ NotKept::Full(_)) => {
                    self.is_silent.store(true, Ordering::Relaxed);
                    self.pause(session, &mut wait, &why.to_string()).await;
                    continue;
                }
                Err(why @ (NotKept::Other | NotKept::Unknown(_))) => {
                    match self.look(key, mine).await {
                        Ok(verdict) => {
                            tracing::debug!(%session, ?verdict, "a batch was not acknowledged: {why}");
                            verdict
                        }
                        Err(error) => {
                            self.is_silent.store(true, Ordering::Relaxed);
                            self.pause(session, &mut wait, &error).await;
                            continue;
                        }
                    }
                }
            };
            match number {
                Verdict::Kept(number) => {
                    self.is_silent.store(false, Ordering::Relaxed);
                    mine.last = number;
                    mine.has_begun = true;
                    return Ok(());
                }
                Verdict::Again(last) => mine.last = last,
                Verdict::Fenced => {
                    self.counters.sessions_fenced.add(1);
                    self.note_fenced(session.clone());
                    return Err(NotRecorded::Fenced);
                }
                Verdict::Behind => return Err(NotRecorded::Behind),
            }
        }
    }

    async fn look(&self, key: &str, mine: &Mine) -> Result<Verdict, String> {
        let last = self.store.last(Space::Journal, key).await?;
        let head = last
            .as_ref()
            .map(|StoredMessage { number, bytes }| (*number, wire::head(bytes)));
        match head {
            None => Ok(verdict(mine, None)),
            Some((number, Ok((head, _)))) => Ok(verdict(mine, Some((number, &head)))),
            // Another writer has stored a message that is no batch: readers skip it, but it takes a
            // number.
            Some((number, Err(wire::Broken::Unreadable(_)))) if mine.has_begun => {
                Ok(Verdict::Again(number))
            }
            Some((_, Err(wire::Broken::Unreadable(_)))) => Ok(Verdict::Behind),
            // A host with a later version of this program has taken the session over, or a writer
            // pretends so.
            Some((number, Err(_))) if mine.has_begun && self.has_row(key, mine).await? => {
                Ok(Verdict::Again(number))
            }
            Some((_, Err(_))) => Ok(Verdict::Fenced),
        }
    }

    /// Returns true if the session's row still assigns it to this run under this epoch.
    async fn has_row(&self, key: &str, mine: &Mine) -> Result<bool, String> {
        let kept = self.store.last(Space::Sessions, key).await?;
        let row = kept.and_then(|kept| SessionRow::parse(&kept.bytes));
        Ok(row.is_some_and(|row| row.incarnation == mine.writer && row.epoch == mine.epoch))
    }

    /// Keeps a batch, in as many messages as it needs.
    pub(crate) async fn keep_all(&self, batch: Batch) -> Result<(), NotRecorded> {
        let session = batch.session.clone();
        let place = self
            .places()
            .get(&session)
            .copied()
            .filter(|place| place.epoch == batch.epoch);
        let Some(place) = place else {
            return Err(NotRecorded::Fenced);
        };
        let key = key_of(session.as_str());
        let mut mine = Mine {
            writer: self.writer.clone(),
            epoch: batch.epoch,
            batch: place.batch,
            part: 1,
            last: place.last,
            has_begun: place.batch > 0,
        };
        for message in wire::messages(&batch, &self.writer, place.batch, self.store.most()) {
            if let Err(why) = self.keep(&session, &key, &mut mine, message).await {
                if matches!(why, NotRecorded::Fenced) {
                    self.leave(&session, batch.epoch);
                }
                return Err(why);
            }
            mine.part += 1;
        }
        if let Some(place) = self
            .places()
            .get_mut(&session)
            .filter(|place| place.epoch == batch.epoch)
        {
            (place.last, place.batch) = (mine.last, place.batch + 1);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Memory;

    #[tokio::test]
    async fn a_batch_that_gets_a_number_of_before_counts_as_not_kept() {
        let memory = Memory::default();
        let store = Arc::new(memory.access_for("a"));
        let (_lease, held) = watch::channel(Some(BootInstant::now() + Duration::from_secs(3600)));
        let marks = Marks::default();
        marks.look(&*store).await.unwrap();
        let keeper = Keeper::new(store, "w".to_owned(), held, marks);
        let batch = |session: &str| Batch {
            session: SessionId::new(session).unwrap(),
            epoch: 1,
            first: 1,
            count: 1,
            lines: Bytes::from_static(b"l"),
            facts: None,
            is_settled: true,
            marks: Vec::new(),
        };
        for session in ["s", "t"] {
            keeper.begin(&SessionId::new(session).unwrap(), 1, 0);
        }
        let copy = memory.copy(Space::Journal);
        assert_eq!(keeper.keep_all(batch("s")).await, Ok(()));
        memory.restore(copy);
        // Nothing is missing of this session, and it goes where the other's entry was.
        assert_eq!(keeper.keep_all(batch("t")).await, Err(NotRecorded::Fenced));
        assert!(keeper.marks.lost().is_some());
    }

    #[test]
    fn what_was_kept_last_tells_what_became_of_a_message() {
        let mine = |last, has_begun| Mine {
            writer: "me".to_owned(),
            epoch: 5,
            batch: 2,
            part: 1,
            last,
            has_begun,
        };
        let head = |writer: &str, epoch, batch, part| wire::Head {
            v: 1,
            writer: writer.to_owned(),
            epoch,
            batch,
            part,
            parts: 1,
            first: 1,
            count: 1,
            lines: 0,
            marks: Vec::new(),
            facts: None,
            settled: false,
        };
        for (mine, last, expected) in [
            // The answer was lost, the message was not.
            (
                mine(7, true),
                Some((8, head("me", 5, 2, 1))),
                Verdict::Kept(8),
            ),
            // It was, too.
            (
                mine(7, true),
                Some((7, head("me", 5, 1, 1))),
                Verdict::Again(7),
            ),
            (
                mine(7, false),
                Some((7, head("a", 4, 9, 1))),
                Verdict::Again(7),
            ),
            (mine(0, false), None, Verdict::Again(0)),
            // Another has it.
            (
                mine(7, true),
                Some((8, head("a", 6, 0, 1))),
                Verdict::Fenced,
            ),
            (
                mine(7, true),
                Some((7, head("a", 6, 0, 1))),
                Verdict::Fenced,
            ),
            // With the same epoch: rows were restored, and who wrote first has it.
            (
                mine(7, false),
                Some((8, head("a", 5, 0, 1))),
                Verdict::Fenced,
            ),
            (
                mine(7, true),
                Some((8, head("a", 5, 0, 1))),
                Verdict::Again(8),
            ),
            // A copy of what was kept before.
            (
                mine(7, true),
                Some((8, head("me", 5, 1, 1))),
                Verdict::Again(8),
            ),
            // The one before was quicker than the take-over.
            (
                mine(7, false),
                Some((8, head("a", 4, 9, 1))),
                Verdict::Behind,
            ),
            // A forged one from before takes a number and no more.
            (
                mine(7, true),
                Some((8, head("a", 4, 9, 1))),
                Verdict::Again(8),
            ),
            // Two of one run, which cannot be; and a journal that was lost.
            (
                mine(7, true),
                Some((9, head("me", 5, 3, 1))),
                Verdict::Fenced,
            ),
            (mine(7, true), None, Verdict::Fenced),
            // It was restored from before the last batch: what is between is missing.
            (
                mine(7, true),
                Some((5, head("me", 5, 0, 1))),
                Verdict::Fenced,
            ),
            (
                mine(7, false),
                Some((5, head("a", 4, 8, 1))),
                Verdict::Fenced,
            ),
        ] {
            let last = last.as_ref().map(|(number, head)| (*number, head));
            assert_eq!(verdict(&mine, last), expected, "{mine:?} {last:?}");
        }
    }
}
