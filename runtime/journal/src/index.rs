//! What is known of all sessions of a journal: in memory, and in a checkpoint of it on disk.
//!
//! Pure: blocks in, answers out. The blocks are the truth; a checkpoint only saves reading them all again.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use crate::{
    SessionKey,
    block::{Chunk, Head, Kind, u32_at, u64_at},
    segment::Place,
};

/// What is known of one session. About 100 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Slot {
    /// The hash of its id.
    pub(crate) id: u64,
    pub(crate) life: Life,
    /// The number of its last entry; 0 before the first.
    pub(crate) last: u64,
    /// Where its facts are, once there are some.
    pub(crate) facts: Option<FactsAt>,
    /// Whether it has entries or marks behind its facts, or these say that something is open.
    pub(crate) is_unsettled: bool,
    /// When something was last written of it: milliseconds since 1970.
    pub(crate) active: u64,
    /// The same as the list has it, some moments older.
    listed: u64,
    /// What was written of it, in bytes.
    pub(crate) bytes: u64,
    /// The segments that may have something of it.
    pub(crate) segments: (u32, u32),
}

impl Slot {
    /// The time at which the list has it, where that has it.
    pub(crate) fn listed(&self) -> Option<u64> {
        (self.life == Life::Kept).then_some(self.listed)
    }
}

/// Whether a session is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Life {
    Kept,
    /// Removed, and its bytes may still be there.
    Removed,
    /// Its bytes are gone. What is left says that the id was used.
    Erased,
}

/// Where the facts of a session are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FactsAt {
    pub(crate) segment: u32,
    pub(crate) at: u64,
    pub(crate) bytes: u32,
    pub(crate) sum: u32,
}

/// What is known of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Filled {
    /// Where its next block goes.
    pub(crate) size: u64,
    /// The bytes of chunks that are not removed.
    pub(crate) kept: u64,
}

/// How far apart the times are by which sessions are listed: 1 s.
const LISTED: u64 = 1000;

/// All sessions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Index {
    slots: HashMap<SessionKey, Slot>,
    ids: HashMap<u64, SessionKey>,
    by_time: BTreeSet<(u64, SessionKey)>,
    /// The places in the newest segment; those of older ones are on disk.
    newest: HashMap<SessionKey, Vec<Place>>,
    pub(crate) segments: BTreeMap<u32, Filled>,
    /// The number of the last block, its epoch, and the last key that was given.
    pub(crate) block: u64,
    pub(crate) epoch: u64,
    keys: u64,
}

impl Index {
    /// A key for a new session.
    pub(crate) fn next_key(&mut self) -> SessionKey {
        self.keys += 1;
        SessionKey(self.keys)
    }

    pub(crate) fn slot(&self, key: SessionKey) -> Option<&Slot> {
        self.slots.get(&key)
    }

    /// The session of an id, by its hash.
    pub(crate) fn find(&self, id: u64) -> Option<SessionKey> {
        self.ids.get(&id).copied()
    }

    /// Takes an id before anything is written of its session.
    pub(crate) fn reserve(&mut self, key: SessionKey, id: u64) {
        self.ids.insert(id, key);
    }

    /// Gives an id back of which nothing was written.
    pub(crate) fn release(&mut self, id: u64) {
        if self
            .ids
            .get(&id)
            .is_some_and(|key| !self.slots.contains_key(key))
        {
            self.ids.remove(&id);
        }
    }

    /// How many sessions are kept.
    pub(crate) fn kept(&self) -> usize {
        self.by_time.len()
    }

    /// The kept sessions, the last active first, from behind a position in this order.
    pub(crate) fn recent(
        &self,
        behind: Option<(u64, SessionKey)>,
    ) -> impl Iterator<Item = (u64, SessionKey)> {
        let end = behind.unwrap_or((u64::MAX, SessionKey(u64::MAX)));
        self.by_time.range(..end).rev().copied()
    }

    /// The kept sessions, the longest inactive first.
    pub(crate) fn oldest(&self) -> impl Iterator<Item = (u64, SessionKey)> {
        self.by_time.iter().copied()
    }

    /// The sessions that are kept and not settled.
    pub(crate) fn unsettled(&self) -> Vec<SessionKey> {
        self.with(|slot| slot.life == Life::Kept && slot.is_unsettled)
    }

    /// The removed sessions whose bytes may still be there.
    pub(crate) fn to_erase(&self) -> Vec<SessionKey> {
        self.with(|slot| slot.life == Life::Removed)
    }

    fn with(&self, is: impl Fn(&Slot) -> bool) -> Vec<SessionKey> {
        let mut keys: Vec<_> = self
            .slots
            .iter()
            .filter(|(_, slot)| is(slot))
            .map(|(key, _)| *key)
            .collect();
        keys.sort_unstable();
        keys
    }

    /// The places of a session in the newest segment.
    pub(crate) fn newest(&self, key: SessionKey) -> &[Place] {
        self.newest.get(&key).map_or(&[], Vec::as_slice)
    }

    /// All places in the newest segment, which gets no more.
    pub(crate) fn take_newest(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.newest)
            .into_values()
            .flatten()
            .collect()
    }

    /// Counts bytes of a segment as erased. Whether nothing of it is kept any more.
    pub(crate) fn erase(&mut self, segment: u32, bytes: u64) -> bool {
        let Some(filled) = self.segments.get_mut(&segment) else {
            return false;
        };
        filled.kept = filled.kept.saturating_sub(bytes);
        filled.kept == 0
    }

    /// Forgets the places of a session, which were erased.
    pub(crate) fn forget_places(&mut self, key: SessionKey) {
        self.newest.remove(&key);
    }

    /// Takes a block that has been written, or was found.
    pub(crate) fn take(&mut self, segment: u32, block: u64, head: &Head, chunks: &[Chunk]) {
        (self.block, self.epoch) = (head.number, head.epoch);
        let filled = self.segments.entry(segment).or_default();
        filled.size = block + head.bytes();
        // The mark that an epoch begins with is no session's.
        for chunk in chunks.iter().filter(|chunk| chunk.session != SessionKey(0)) {
            filled.kept += u64::from(chunk.bytes);
            let place = Place::of(chunk, block);
            self.newest.entry(chunk.session).or_default().push(place);
            self.keys = self.keys.max(chunk.session.0);
            let slot = self.slots.entry(chunk.session).or_insert_with(|| Slot {
                id: chunk.id,
                life: Life::Kept,
                last: 0,
                facts: None,
                is_unsettled: false,
                active: head.time,
                listed: 0,
                bytes: 0,
                segments: (segment, segment),
            });
            if chunk.id != 0 {
                slot.id = chunk.id;
                self.ids.insert(chunk.id, chunk.session);
            }
            slot.segments.1 = segment;
            slot.bytes += u64::from(chunk.bytes);
            match chunk.kind {
                Kind::Entries => {
                    slot.last = slot.last.max(chunk.end().saturating_sub(1));
                    slot.is_unsettled = true;
                }
                Kind::Mark => slot.is_unsettled = true,
                Kind::Facts => {
                    let (at, bytes, sum) = (place.at, place.bytes, place.sum);
                    slot.facts = Some(FactsAt {
                        segment,
                        at,
                        bytes,
                        sum,
                    });
                    slot.is_unsettled = chunk.count > 0 || slot.last > chunk.first;
                }
                Kind::Removed if slot.life == Life::Kept => slot.life = Life::Removed,
                Kind::Removed => {}
                Kind::Erased => slot.life = Life::Erased,
            }
            if slot.life != Life::Kept {
                self.by_time.remove(&(slot.listed, chunk.session));
                (slot.facts, slot.is_unsettled) = (None, false);
                continue;
            }
            slot.active = slot.active.max(head.time);
            if slot.active >= slot.listed + LISTED || slot.listed == 0 {
                self.by_time.remove(&(slot.listed, chunk.session));
                slot.listed = slot.active.max(1);
                self.by_time.insert((slot.listed, chunk.session));
            }
        }
    }
}

/// The first bytes of a checkpoint.
const CHECKPOINT: [u8; 8] = *b"TLJI\x01\0\0\0";
/// First bytes, checksum, block, epoch, keys, how many segments, how many slots.
const HEAD: usize = 56;
const SEGMENT: usize = 24;
const SLOT: usize = 96;

impl Index {
    /// Its bytes, without the places of the newest segment.
    pub(crate) fn to_checkpoint(&self) -> Vec<u8> {
        let mut bytes =
            Vec::with_capacity(HEAD + SEGMENT * self.segments.len() + SLOT * self.slots.len());
        bytes.extend_from_slice(&CHECKPOINT);
        bytes.extend_from_slice(&[0; 8]);
        let counts = [self.segments.len() as u64, self.slots.len() as u64];
        for number in [self.block, self.epoch, self.keys]
            .into_iter()
            .chain(counts)
        {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for (number, filled) in &self.segments {
            for number in [u64::from(*number), filled.size, filled.kept] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        for (key, slot) in &self.slots {
            let facts = slot.facts.unwrap_or(FactsAt {
                segment: 0,
                at: 0,
                bytes: 0,
                sum: 0,
            });
            for number in [
                key.0,
                slot.id,
                slot.last,
                slot.active,
                slot.listed,
                slot.bytes,
                facts.at,
            ] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            for number in [
                slot.segments.0,
                slot.segments.1,
                facts.segment,
                facts.bytes,
                facts.sum,
            ] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
            let life = match slot.life {
                Life::Kept => 0,
                Life::Removed => 1,
                Life::Erased => 2,
            };
            bytes.extend_from_slice(&[
                life,
                u8::from(slot.is_unsettled),
                u8::from(slot.facts.is_some()),
            ]);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes.extend_from_slice(&[0; 16]);
        }
        let sum = crc32fast::hash(&bytes[16..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Reads a checkpoint; `None` where it is not what was written.
    pub(crate) fn of_checkpoint(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < HEAD
            || bytes[..8] != CHECKPOINT
            || u32_at(bytes, 8) != crc32fast::hash(&bytes[16..])
        {
            return None;
        }
        let count = |at| usize::try_from(u64_at(bytes, at)).ok();
        let (segments, slots) = (count(40)?, count(48)?);
        let behind = HEAD + segments.checked_mul(SEGMENT)?;
        if bytes.len() != behind + slots.checked_mul(SLOT)? {
            return None;
        }
        let mut index = Self {
            block: u64_at(bytes, 16),
            epoch: u64_at(bytes, 24),
            keys: u64_at(bytes, 32),
            slots: HashMap::with_capacity(slots),
            ids: HashMap::with_capacity(slots),
            ..Self::default()
        };
        for segment in bytes[HEAD..behind].chunks_exact(SEGMENT) {
            let filled = Filled {
                size: u64_at(segment, 8),
                kept: u64_at(segment, 16),
            };
            index
                .segments
                .insert(u32::try_from(u64_at(segment, 0)).ok()?, filled);
        }
        for slot in bytes[behind..].chunks_exact(SLOT) {
            let key = SessionKey(u64_at(slot, 0));
            let facts = FactsAt {
                segment: u32_at(slot, 64),
                at: u64_at(slot, 48),
                bytes: u32_at(slot, 68),
                sum: u32_at(slot, 72),
            };
            let read = Slot {
                id: u64_at(slot, 8),
                last: u64_at(slot, 16),
                active: u64_at(slot, 24),
                listed: u64_at(slot, 32),
                bytes: u64_at(slot, 40),
                segments: (u32_at(slot, 56), u32_at(slot, 60)),
                facts: (slot[78] != 0).then_some(facts),
                is_unsettled: slot[77] != 0,
                life: [Life::Kept, Life::Removed, Life::Erased]
                    .get(usize::from(slot[76]))
                    .copied()?,
            };
            // The id of a removed session may have been taken again since.
            index
                .ids
                .entry(read.id)
                .and_modify(|known| *known = key.max(*known))
                .or_insert(key);
            if read.life == Life::Kept {
                index.by_time.insert((read.listed, key));
            }
            index.slots.insert(key, read);
        }
        Some(index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{Builder, Record};

    fn take(index: &mut Index, time: u64, records: &[(u64, Kind, u64, u32)]) {
        let mut builder = Builder::default();
        for (session, kind, first, count) in records.iter().copied() {
            let id = if index.slot(SessionKey(session)).is_none() {
                session + 100
            } else {
                0
            };
            let session = SessionKey(session);
            builder.push(Record {
                session,
                kind,
                first,
                count,
                id,
                bytes: b"{}\n",
            });
        }
        let number = index.block + 1;
        let (head, _, chunks) = builder.seal(number, 1, time);
        let at = index.segments.get(&1).map_or(0, |filled| filled.size);
        index.take(1, at, &head, chunks);
    }

    fn recent(index: &Index) -> Vec<u64> {
        index.recent(None).map(|(_, key)| key.0).collect()
    }

    #[test]
    fn sessions_are_listed_by_activity_and_settle_by_their_facts() {
        let mut index = Index::default();
        take(
            &mut index,
            1000,
            &[
                (1, Kind::Facts, 0, 0),
                (1, Kind::Entries, 1, 1),
                (2, Kind::Facts, 0, 0),
            ],
        );
        assert_eq!(recent(&index), [2, 1]);
        assert_eq!(index.unsettled(), [SessionKey(1)]);
        take(&mut index, 1500, &[(1, Kind::Entries, 2, 3)]);
        assert_eq!(recent(&index), [2, 1], "the order is that of whole moments");
        take(&mut index, 2500, &[(1, Kind::Entries, 5, 1)]);
        assert_eq!(recent(&index), [1, 2]);
        assert_eq!(index.slot(SessionKey(1)).unwrap().last, 5);

        take(&mut index, 2600, &[(1, Kind::Facts, 5, 1)]);
        assert_eq!(
            index.unsettled(),
            [SessionKey(1)],
            "its facts say that something is open"
        );
        take(&mut index, 2600, &[(1, Kind::Facts, 4, 0)]);
        assert_eq!(
            index.unsettled(),
            [SessionKey(1)],
            "these facts are older than the last entry"
        );
        take(&mut index, 2600, &[(1, Kind::Facts, 5, 0)]);
        assert_eq!(index.unsettled(), []);
        take(&mut index, 2600, &[(1, Kind::Mark, 5, 0)]);
        assert_eq!(index.unsettled(), [SessionKey(1)]);
        let behind = index.recent(None).next();
        assert_eq!(
            index
                .recent(behind)
                .map(|(_, key)| key.0)
                .collect::<Vec<_>>(),
            [2]
        );
    }

    #[test]
    fn a_removed_session_leaves_its_id_alone() {
        let mut index = Index::default();
        take(
            &mut index,
            1,
            &[
                (1, Kind::Facts, 0, 0),
                (2, Kind::Facts, 0, 0),
                (1, Kind::Removed, 0, 0),
            ],
        );
        assert_eq!(recent(&index), [2]);
        assert_eq!(index.to_erase(), [SessionKey(1)]);
        assert_eq!(index.find(101), Some(SessionKey(1)));
        take(&mut index, 9000, &[(1, Kind::Erased, 0, 0)]);
        assert_eq!((index.to_erase(), recent(&index)), (Vec::new(), vec![2]));
        assert_eq!(index.slot(SessionKey(1)).unwrap().life, Life::Erased);
    }

    #[test]
    fn a_checkpoint_keeps_all_but_the_newest_places() {
        let mut index = Index::default();
        take(
            &mut index,
            1000,
            &[
                (1, Kind::Facts, 0, 0),
                (1, Kind::Entries, 1, 7),
                (2, Kind::Entries, 1, 1),
            ],
        );
        take(
            &mut index,
            2000,
            &[
                (2, Kind::Facts, 1, 0),
                (3, Kind::Facts, 0, 0),
                (3, Kind::Removed, 0, 0),
            ],
        );
        let bytes = index.to_checkpoint();
        assert_eq!(index.take_newest().len(), 6);
        assert_eq!(Index::of_checkpoint(&bytes).unwrap(), index);
        assert_eq!(index.next_key(), SessionKey(4));
        for at in [0, 9, 20, 60, bytes.len() - 1] {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            assert!(Index::of_checkpoint(&flipped).is_none(), "byte {at}");
        }
        assert!(Index::of_checkpoint(&bytes[..bytes.len() - 1]).is_none());
    }
}
