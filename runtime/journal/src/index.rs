//! The index: the state of all sessions of a journal, in memory and in a checkpoint on disk.
//!
//! Pure: blocks in, answers out. The blocks are the truth; a checkpoint only saves reading them all
//! again.

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use crate::{
    SessionKey,
    block::{BlockHeader, ChunkHeader, ChunkKind, u32_at, u64_at},
    segment::ChunkLocation,
};

/// The state of one session. About 100 bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SessionSlot {
    /// The hash of its id.
    pub(crate) id: u64,
    pub(crate) life: SessionLife,
    /// The number of its last entry; 0 before the first.
    pub(crate) last: u64,
    /// The epoch under which it was written last; 0 if none was noted.
    pub(crate) epoch: u64,
    /// The location of its facts, if they were written.
    pub(crate) facts: Option<FactsLocation>,
    /// True if the session has entries or marks behind its facts, or these note that something is open.
    pub(crate) is_unsettled: bool,
    /// The time of its last entry, before the first one of its creation: milliseconds since 1970.
    pub(crate) active: u64,
    /// The same time in the list of sessions, up to [`LIST_GRANULARITY`] older.
    listed: u64,
    /// The length of all that was written of it, in bytes.
    pub(crate) bytes: u64,
    /// The first and the last segment that may have something of it.
    pub(crate) segments: (u32, u32),
}

impl SessionSlot {
    /// Returns the time by which the session is listed, if it is kept.
    pub(crate) fn listed_at(&self) -> Option<u64> {
        (self.life == SessionLife::Kept).then_some(self.listed)
    }
}

/// The state of a session's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SessionLife {
    Kept,
    /// Removed, and its bytes may still exist.
    Removed,
    /// Erased: no byte is left. The slot only records that the id was used.
    Erased,
}

/// The location of a session's facts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FactsLocation {
    pub(crate) segment: u32,
    pub(crate) at: u64,
    pub(crate) bytes: u32,
    pub(crate) sum: u32,
}

/// The use of one segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct SegmentUsage {
    /// The offset of its next block.
    pub(crate) size: u64,
    /// The bytes of chunks that are not removed.
    pub(crate) kept: u64,
}

/// Resolution of the times by which sessions are listed, in milliseconds.
const LIST_GRANULARITY: u64 = 1000;

/// The state of all sessions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct SessionIndex {
    slots: HashMap<SessionKey, SessionSlot>,
    ids: HashMap<u64, SessionKey>,
    by_time: BTreeSet<(u64, SessionKey)>,
    /// The chunks in the newest segment; those in older ones are on disk.
    newest: HashMap<SessionKey, Vec<ChunkLocation>>,
    pub(crate) segments: BTreeMap<u32, SegmentUsage>,
    /// The number of the last block.
    pub(crate) block: u64,
    /// The epoch of the last block.
    pub(crate) epoch: u64,
    /// The last key that was given.
    last_key: u64,
}

impl SessionIndex {
    /// Returns a key for a new session.
    pub(crate) fn next_key(&mut self) -> SessionKey {
        self.last_key += 1;
        SessionKey(self.last_key)
    }

    pub(crate) fn slot(&self, key: SessionKey) -> Option<&SessionSlot> {
        self.slots.get(&key)
    }

    /// Returns the session of an id, by its hash.
    pub(crate) fn find_id(&self, id: u64) -> Option<SessionKey> {
        self.ids.get(&id).copied()
    }

    /// Reserves an id before anything is written of its session.
    pub(crate) fn reserve_id(&mut self, key: SessionKey, id: u64) {
        self.ids.insert(id, key);
    }

    /// Releases the ids of sessions whose first chunk was not stored.
    pub(crate) fn release_ids(&mut self, chunks: &[ChunkHeader]) {
        for chunk in chunks.iter().filter(|chunk| chunk.is_of_session()) {
            let is_reserved = self
                .ids
                .get(&chunk.id)
                .is_some_and(|key| !self.slots.contains_key(key));
            if is_reserved {
                self.ids.remove(&chunk.id);
            }
        }
    }

    /// Returns the number of kept sessions.
    pub(crate) fn count_kept(&self) -> usize {
        self.by_time.len()
    }

    /// Iterates over the kept sessions behind a position, the last active first.
    pub(crate) fn newest_first(
        &self,
        behind: Option<(u64, SessionKey)>,
    ) -> impl Iterator<Item = (u64, SessionKey)> {
        let end = behind.unwrap_or((u64::MAX, SessionKey(u64::MAX)));
        self.by_time.range(..end).rev().copied()
    }

    /// Iterates over the kept sessions, the longest inactive first.
    pub(crate) fn oldest_first(&self) -> impl Iterator<Item = (u64, SessionKey)> {
        self.by_time.iter().copied()
    }

    /// Iterates over the kept sessions behind a key, in the order of their keys.
    pub(crate) fn kept_keys(&self, behind: Option<SessionKey>) -> impl Iterator<Item = SessionKey> {
        let first = behind.map_or(1, |behind| behind.0 + 1);
        (first..=self.last_key).map(SessionKey).filter(|key| {
            self.slot(*key)
                .is_some_and(|slot| slot.life == SessionLife::Kept)
        })
    }

    /// Returns the kept sessions that are not settled.
    pub(crate) fn find_unsettled(&self) -> Vec<SessionKey> {
        self.filter_slots(|slot| slot.life == SessionLife::Kept && slot.is_unsettled)
    }

    /// Returns the removed sessions whose bytes may still exist.
    pub(crate) fn find_removed(&self) -> Vec<SessionKey> {
        self.filter_slots(|slot| slot.life == SessionLife::Removed)
    }

    /// Returns the last epoch under which any session was written.
    pub(crate) fn last_session_epoch(&self) -> u64 {
        let epochs = self.slots.values().map(|slot| slot.epoch);
        epochs.max().unwrap_or_default()
    }

    fn filter_slots(&self, is_wanted: impl Fn(&SessionSlot) -> bool) -> Vec<SessionKey> {
        let mut keys: Vec<_> = self
            .slots
            .iter()
            .filter(|(_, slot)| is_wanted(slot))
            .map(|(key, _)| *key)
            .collect();
        keys.sort_unstable();
        keys
    }

    /// Returns the number of the newest segment; 0 if there is none.
    pub(crate) fn newest_segment(&self) -> u32 {
        self.segments
            .last_key_value()
            .map_or(0, |(number, _)| *number)
    }

    /// Returns the chunks of a session in the newest segment.
    pub(crate) fn chunks_in_newest(&self, key: SessionKey) -> &[ChunkLocation] {
        self.newest.get(&key).map_or(&[], Vec::as_slice)
    }

    /// Takes all chunks of the newest segment, which gets no more.
    pub(crate) fn take_newest(&mut self) -> Vec<ChunkLocation> {
        std::mem::take(&mut self.newest)
            .into_values()
            .flatten()
            .collect()
    }

    /// Counts bytes of a segment as erased. Returns whether nothing in it is kept.
    pub(crate) fn count_erased(&mut self, segment: u32, bytes: u64) -> bool {
        let Some(usage) = self.segments.get_mut(&segment) else {
            return false;
        };
        usage.kept = usage.kept.saturating_sub(bytes);
        usage.kept == 0
    }

    /// Forgets the chunks of a session, which were erased.
    pub(crate) fn forget_chunks(&mut self, key: SessionKey) {
        self.newest.remove(&key);
    }

    /// Adds a block that was written, or read from the log.
    pub(crate) fn add_block(
        &mut self,
        segment: u32,
        block_at: u64,
        header: &BlockHeader,
        chunks: &[ChunkHeader],
    ) {
        self.block = header.number;
        self.epoch = header.epoch;
        self.segments.entry(segment).or_default().size = block_at + header.bytes();
        for chunk in chunks {
            if let Some((session, epoch)) = chunk.noted_epoch() {
                if let Some(slot) = self.slots.get_mut(&session) {
                    slot.epoch = slot.epoch.max(epoch);
                }
            } else if chunk.is_of_session() {
                self.add_chunk(segment, block_at, header.time, chunk);
            }
        }
    }

    fn add_chunk(&mut self, segment: u32, block_at: u64, time: u64, chunk: &ChunkHeader) {
        let location = ChunkLocation::new(chunk, block_at);
        self.segments.entry(segment).or_default().kept += u64::from(chunk.bytes);
        self.newest.entry(chunk.session).or_default().push(location);
        self.last_key = self.last_key.max(chunk.session.0);
        let slot = self
            .slots
            .entry(chunk.session)
            .or_insert_with(|| SessionSlot {
                id: chunk.id,
                life: SessionLife::Kept,
                last: 0,
                epoch: 0,
                facts: None,
                is_unsettled: false,
                active: time,
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
            ChunkKind::Entries => {
                slot.last = slot.last.max(chunk.end().saturating_sub(1));
                slot.is_unsettled = true;
                slot.active = slot.active.max(time);
            }
            ChunkKind::Mark => slot.is_unsettled = true,
            ChunkKind::Facts => {
                slot.facts = Some(FactsLocation {
                    segment,
                    at: location.at,
                    bytes: location.bytes,
                    sum: location.sum,
                });
                slot.is_unsettled = chunk.count > 0 || slot.last > chunk.first;
            }
            ChunkKind::Removed if slot.life == SessionLife::Kept => {
                slot.life = SessionLife::Removed;
            }
            ChunkKind::Removed => {}
            ChunkKind::Erased => slot.life = SessionLife::Erased,
        }
        if slot.life != SessionLife::Kept {
            self.by_time.remove(&(slot.listed, chunk.session));
            slot.facts = None;
            slot.is_unsettled = false;
        } else if slot.listed == 0 || slot.active >= slot.listed + LIST_GRANULARITY {
            self.by_time.remove(&(slot.listed, chunk.session));
            slot.listed = slot.active.max(1);
            self.by_time.insert((slot.listed, chunk.session));
        }
    }
}

/// The first bytes of a checkpoint.
const CHECKPOINT: [u8; 8] = *b"TLJI\x01\0\0\0";
/// Length before the segments: first bytes, checksum, block, epoch, last key, number of segments,
/// number of slots.
const CHECKPOINT_HEADER: usize = 56;
const SEGMENT: usize = 24;
const SLOT: usize = 96;

/// Returns whether the bytes are a checkpoint that is what was written.
pub(crate) fn is_whole_checkpoint(bytes: &[u8]) -> bool {
    bytes.len() >= CHECKPOINT_HEADER
        && bytes[..8] == CHECKPOINT
        && u32_at(bytes, 8) == crc32fast::hash(&bytes[16..])
        && bytes[12..16] == [0; 4]
}

impl SessionIndex {
    /// Makes the bytes of a checkpoint, without the chunks of the newest segment.
    pub(crate) fn to_checkpoint(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(
            CHECKPOINT_HEADER + SEGMENT * self.segments.len() + SLOT * self.slots.len(),
        );
        bytes.extend_from_slice(&CHECKPOINT);
        bytes.extend_from_slice(&[0; 8]);
        let counts = [self.segments.len() as u64, self.slots.len() as u64];
        for number in [self.block, self.epoch, self.last_key]
            .into_iter()
            .chain(counts)
        {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for (number, usage) in &self.segments {
            for number in [u64::from(*number), usage.size, usage.kept] {
                bytes.extend_from_slice(&number.to_le_bytes());
            }
        }
        for (key, slot) in &self.slots {
            let facts = slot.facts.unwrap_or_default();
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
                SessionLife::Kept => 0,
                SessionLife::Removed => 1,
                SessionLife::Erased => 2,
            };
            bytes.extend_from_slice(&[
                life,
                u8::from(slot.is_unsettled),
                u8::from(slot.facts.is_some()),
            ]);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
            bytes.extend_from_slice(&slot.epoch.to_le_bytes());
            bytes.extend_from_slice(&[0; 8]);
        }
        let sum = crc32fast::hash(&bytes[16..]);
        bytes[8..12].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// Parses a checkpoint; `None` if it is not what was written. Older programs wrote an epoch of
    /// 0.
    pub(crate) fn from_checkpoint(bytes: &[u8]) -> Option<Self> {
        if !is_whole_checkpoint(bytes) {
            return None;
        }
        let count = |at| usize::try_from(u64_at(bytes, at)).ok();
        let segments = count(40)?;
        let slots = count(48)?;
        let slots_at = CHECKPOINT_HEADER + segments.checked_mul(SEGMENT)?;
        if bytes.len() != slots_at + slots.checked_mul(SLOT)? {
            return None;
        }
        let mut index = Self {
            block: u64_at(bytes, 16),
            epoch: u64_at(bytes, 24),
            last_key: u64_at(bytes, 32),
            slots: HashMap::with_capacity(slots),
            ids: HashMap::with_capacity(slots),
            ..Self::default()
        };
        for segment in bytes[CHECKPOINT_HEADER..slots_at].chunks_exact(SEGMENT) {
            let usage = SegmentUsage {
                size: u64_at(segment, 8),
                kept: u64_at(segment, 16),
            };
            index
                .segments
                .insert(u32::try_from(u64_at(segment, 0)).ok()?, usage);
        }
        for bytes in bytes[slots_at..].chunks_exact(SLOT) {
            let key = SessionKey(u64_at(bytes, 0));
            let slot = parse_slot(bytes)?;
            // The id of a removed session may have been taken again since.
            index
                .ids
                .entry(slot.id)
                .and_modify(|known| *known = key.max(*known))
                .or_insert(key);
            if slot.life == SessionLife::Kept {
                index.by_time.insert((slot.listed, key));
            }
            index.slots.insert(key, slot);
        }
        Some(index)
    }
}

fn parse_slot(bytes: &[u8]) -> Option<SessionSlot> {
    let facts = FactsLocation {
        segment: u32_at(bytes, 64),
        at: u64_at(bytes, 48),
        bytes: u32_at(bytes, 68),
        sum: u32_at(bytes, 72),
    };
    let lives = [SessionLife::Kept, SessionLife::Removed, SessionLife::Erased];
    Some(SessionSlot {
        id: u64_at(bytes, 8),
        last: u64_at(bytes, 16),
        epoch: u64_at(bytes, 80),
        active: u64_at(bytes, 24),
        listed: u64_at(bytes, 32),
        bytes: u64_at(bytes, 40),
        segments: (u32_at(bytes, 56), u32_at(bytes, 60)),
        facts: (bytes[78] != 0).then_some(facts),
        is_unsettled: bytes[77] != 0,
        life: lives.get(usize::from(bytes[76])).copied()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::block::{BlockBuilder, NewChunk};

    fn add(index: &mut SessionIndex, time: u64, records: &[(u64, ChunkKind, u64, u32)]) {
        let mut builder = BlockBuilder::default();
        for (session, kind, first, count) in records.iter().copied() {
            let id = if index.slot(SessionKey(session)).is_none() {
                session + 100
            } else {
                0
            };
            let session = SessionKey(session);
            builder.push_chunk(NewChunk {
                session,
                kind,
                first,
                count,
                id,
                bytes: b"{}\n",
            });
        }
        let number = index.block + 1;
        let (header, _, chunks) = builder.seal(number, 1, time);
        let at = index.segments.get(&1).map_or(0, |usage| usage.size);
        index.add_block(1, at, &header, chunks);
    }

    fn recent(index: &SessionIndex) -> Vec<u64> {
        index.newest_first(None).map(|(_, key)| key.0).collect()
    }

    #[test]
    fn sessions_are_listed_by_activity_and_settle_by_their_facts() {
        let mut index = SessionIndex::default();
        add(
            &mut index,
            1000,
            &[
                (1, ChunkKind::Facts, 0, 0),
                (1, ChunkKind::Entries, 1, 1),
                (2, ChunkKind::Facts, 0, 0),
            ],
        );
        assert_eq!(recent(&index), [2, 1]);
        assert_eq!(index.find_unsettled(), [SessionKey(1)]);
        add(&mut index, 1500, &[(1, ChunkKind::Entries, 2, 3)]);
        assert_eq!(recent(&index), [2, 1], "the order is that of whole moments");
        add(&mut index, 2500, &[(1, ChunkKind::Entries, 5, 1)]);
        assert_eq!(recent(&index), [1, 2]);
        assert_eq!(index.slot(SessionKey(1)).unwrap().last, 5);

        add(&mut index, 2600, &[(1, ChunkKind::Facts, 5, 1)]);
        assert_eq!(
            index.find_unsettled(),
            [SessionKey(1)],
            "its facts say that something is open"
        );
        add(&mut index, 2600, &[(1, ChunkKind::Facts, 4, 0)]);
        assert_eq!(
            index.find_unsettled(),
            [SessionKey(1)],
            "these facts are older than the last entry"
        );
        add(&mut index, 2600, &[(1, ChunkKind::Facts, 5, 0)]);
        assert_eq!(index.find_unsettled(), []);
        add(&mut index, 2600, &[(1, ChunkKind::Mark, 5, 0)]);
        assert_eq!(index.find_unsettled(), [SessionKey(1)]);
        let behind = index.newest_first(None).next();
        assert_eq!(
            index
                .newest_first(behind)
                .map(|(_, key)| key.0)
                .collect::<Vec<_>>(),
            [2]
        );
    }

    #[test]
    fn facts_and_marks_do_not_move_a_session_in_the_list() {
        let mut index = SessionIndex::default();
        for (time, session) in [(1000, 1), (3000, 2), (5000, 3)] {
            add(
                &mut index,
                time,
                &[
                    (session, ChunkKind::Facts, 0, 0),
                    (session, ChunkKind::Entries, 1, 1),
                ],
            );
        }
        add(&mut index, 7000, &[(4, ChunkKind::Facts, 0, 0)]);
        assert_eq!(recent(&index), [4, 3, 2, 1]);
        // Each page begins behind the last session of the page before.
        let mut behind = None;
        let mut pages = Vec::new();
        for page in 0..4 {
            let first = index.newest_first(behind).next();
            pages.extend(first.map(|(_, key)| key.0));
            behind = first;
            let time = 9000 + page * 2000;
            add(
                &mut index,
                time,
                &[
                    (1, ChunkKind::Facts, 1, 0),
                    (2, ChunkKind::Mark, 1, 0),
                    (4, ChunkKind::Facts, 0, 0),
                ],
            );
        }
        assert_eq!(pages, [4, 3, 2, 1]);
        assert_eq!(index.slot(SessionKey(1)).unwrap().active, 1000);
        assert_eq!(index.slot(SessionKey(4)).unwrap().active, 7000);
        let reread = SessionIndex::from_checkpoint(&index.to_checkpoint()).unwrap();
        assert_eq!(recent(&reread), [4, 3, 2, 1]);
        add(&mut index, 90_000, &[(1, ChunkKind::Entries, 2, 1)]);
        assert_eq!(recent(&index), [1, 4, 3, 2]);
    }

    #[test]
    fn a_noted_epoch_stays_with_its_session() {
        let mut index = SessionIndex::default();
        add(&mut index, 1000, &[(1, ChunkKind::Facts, 0, 0)]);
        for (epoch, expected) in [(5, 5), (3, 5), (9, 9)] {
            let mut builder = BlockBuilder::default();
            builder.push_chunk(NewChunk::epoch_note(SessionKey(1), epoch));
            let (header, _, chunks) = builder.seal(index.block + 1, 1, 1000);
            index.add_block(1, 0, &header, chunks);
            assert_eq!(index.slot(SessionKey(1)).unwrap().epoch, expected);
        }
        assert_eq!(index.last_session_epoch(), 9);
        index.take_newest();
        let reread = SessionIndex::from_checkpoint(&index.to_checkpoint()).unwrap();
        assert_eq!(reread, index);
    }

    #[test]
    fn a_removed_session_leaves_its_id_alone() {
        let mut index = SessionIndex::default();
        add(
            &mut index,
            1,
            &[
                (1, ChunkKind::Facts, 0, 0),
                (2, ChunkKind::Facts, 0, 0),
                (1, ChunkKind::Removed, 0, 0),
            ],
        );
        assert_eq!(recent(&index), [2]);
        assert_eq!(index.find_removed(), [SessionKey(1)]);
        assert_eq!(index.find_id(101), Some(SessionKey(1)));
        add(&mut index, 9000, &[(1, ChunkKind::Erased, 0, 0)]);
        assert_eq!(
            (index.find_removed(), recent(&index)),
            (Vec::new(), vec![2])
        );
        assert_eq!(index.slot(SessionKey(1)).unwrap().life, SessionLife::Erased);
    }

    #[test]
    fn a_checkpoint_keeps_all_but_the_newest_places() {
        let mut index = SessionIndex::default();
        add(
            &mut index,
            1000,
            &[
                (1, ChunkKind::Facts, 0, 0),
                (1, ChunkKind::Entries, 1, 7),
                (2, ChunkKind::Entries, 1, 1),
            ],
        );
        add(
            &mut index,
            2000,
            &[
                (2, ChunkKind::Facts, 1, 0),
                (3, ChunkKind::Facts, 0, 0),
                (3, ChunkKind::Removed, 0, 0),
            ],
        );
        let bytes = index.to_checkpoint();
        assert_eq!(index.take_newest().len(), 6);
        assert_eq!(SessionIndex::from_checkpoint(&bytes).unwrap(), index);
        assert_eq!(index.next_key(), SessionKey(4));
        for at in [0, 9, 20, 60, bytes.len() - 1] {
            let mut flipped = bytes.clone();
            flipped[at] ^= 4;
            assert!(
                SessionIndex::from_checkpoint(&flipped).is_none(),
                "byte {at}"
            );
        }
        assert!(SessionIndex::from_checkpoint(&bytes[..bytes.len() - 1]).is_none());
    }
}
