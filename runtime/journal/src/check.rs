//! Checks a journal: reads every byte, and names what is missing or not as it was written.

use std::{
    collections::{BTreeSet, HashMap},
    fmt,
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::Path,
};

use crate::{
    SessionKey,
    block::{BlockHeader, ChunkKind},
    format::{self, FormatState},
    head::{self, HeadState},
    index::is_whole_checkpoint,
    opening::{read_if_exists, segment_numbers},
    segment::{self, ChunkLocation, ScanItem, SegmentScan},
    writer::CHECKPOINT,
};

/// A part of a journal that is not as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// Entries of the session are lost.
    Entries {
        /// The number of the first.
        from: u64,
        /// The number of the last.
        to: u64,
    },
    /// Entries of the session were stored more than once: two writers continued it at once. The
    /// lines that were stored first are read.
    #[non_exhaustive]
    RepeatedEntries {
        /// The number of the first.
        from: u64,
        /// The number of the last.
        to: u64,
    },
    /// A block of the session is of an older epoch than the block before it: the writer of that
    /// epoch had lost the session.
    #[non_exhaustive]
    FallingEpoch {
        /// The number of the next entry there.
        at: u64,
        /// The epoch before.
        from: u64,
        /// The older epoch.
        to: u64,
    },
    /// Facts of the session are damaged. Later facts replace them, if there are any.
    Facts,
    /// The last blocks of the log are missing. Their sessions are not known.
    #[non_exhaustive]
    MissingEnd {
        /// The number of the first.
        from: u64,
        /// The number of the last.
        to: u64,
    },
    /// Blocks in the midst of the log are missing.
    #[non_exhaustive]
    MissingBlocks {
        /// The number of the first.
        from: u64,
        /// The number of the last.
        to: u64,
    },
    /// Bytes of a segment are no block.
    #[non_exhaustive]
    Unreadable {
        /// The segment's number.
        segment: u32,
        /// The offset of the first byte.
        from: u64,
        /// The offset behind the last byte.
        to: u64,
    },
    /// The file `format` is missing or damaged.
    #[non_exhaustive]
    FormatFile {
        /// True if the log has a copy, from which the next opening makes the file again.
        has_copy: bool,
    },
    /// The file `head` is missing or damaged. The next opening makes it again; whether the end of
    /// the log is complete cannot be checked.
    HeadFile,
    /// The file `checkpoint` is damaged. The log is read instead, and the next opening makes the
    /// file again.
    CheckpointFile,
    /// The directory file of a segment is damaged. The blocks are read instead.
    #[non_exhaustive]
    DirectoryFile {
        /// The segment's number.
        segment: u32,
    },
}

/// Damage, and the session that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damaged {
    /// The session. `None`: the log, or another file of the journal.
    pub session: Option<SessionKey>,
    /// The damage.
    pub damage: Damage,
}

/// Writes a range of numbers, with its noun in singular or plural.
fn write_range(f: &mut fmt::Formatter<'_>, noun: [&str; 2], from: u64, to: u64) -> fmt::Result {
    if from == to {
        write!(f, "{} {from}", noun[0])
    } else {
        write!(f, "{} {from} to {to}", noun[1])
    }
}

const ENTRIES: [&str; 2] = ["entry", "entries"];
const BLOCKS: [&str; 2] = ["block", "blocks"];

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let are = |from, to| if from == to { "is" } else { "are" };
        match *self {
            Self::Entries { from, to } => {
                write_range(f, ENTRIES, from, to)?;
                write!(f, " {} lost", are(from, to))
            }
            Self::RepeatedEntries { from, to } => {
                write_range(f, ENTRIES, from, to)?;
                write!(
                    f,
                    " {} stored more than once, as two writers continued the session; the first stored is read",
                    are(from, to)
                )
            }
            Self::FallingEpoch { at, from, to } => write!(
                f,
                "the epoch falls from {from} to {to} at entry {at}: a writer that had lost the session continued it"
            ),
            Self::Facts => f.write_str("a summary of the state (agent, title, options) is damaged"),
            Self::MissingEnd { from, to } => {
                write_range(f, BLOCKS, from, to)?;
                write!(f, ", at the end of the log, {} missing", are(from, to))
            }
            Self::MissingBlocks { from, to } => {
                write_range(f, BLOCKS, from, to)?;
                write!(f, " {} missing", are(from, to))
            }
            Self::Unreadable { segment, from, to } => write!(
                f,
                "bytes {from} to {to} of segment {segment} cannot be read"
            ),
            Self::FormatFile { has_copy: true } => f.write_str(
                "the file `format` is missing or damaged; the next host that opens the journal makes it again from the log",
            ),
            Self::FormatFile { has_copy: false } => f.write_str(
                "the file `format` is missing or damaged, and the log has no copy of it; restore the file from a backup",
            ),
            Self::HeadFile => f.write_str(
                "the file `head` is missing or damaged; the next host that opens the journal makes it again",
            ),
            Self::CheckpointFile => {
                f.write_str("the file `checkpoint` is damaged; the log is read instead")
            }
            Self::DirectoryFile { segment } => write!(
                f,
                "the file `{segment:08}.dir` is damaged; the log is read instead"
            ),
        }
    }
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Report {
    /// The number of sessions, without removed ones.
    pub sessions: u64,
    /// The number of entries that can be read.
    pub entries: u64,
    /// The number of blocks.
    pub blocks: u64,
    /// The length of the log, in bytes.
    pub bytes: u64,
    /// All damage: of the log and the other files first, then by session.
    pub damaged: Vec<Damaged>,
}

impl Report {
    fn add(&mut self, damage: Damage) {
        self.damaged.push(Damaged {
            session: None,
            damage,
        });
    }
}

/// The state of a session while the log is read.
#[derive(Debug)]
struct SessionCheck {
    /// The number of the next entry.
    next: u64,
    /// The last epoch that was noted for the session.
    epoch: u64,
    /// The last opening of the journal that wrote it.
    opening: u64,
    is_removed: bool,
    damaged: Vec<Damage>,
}

impl Default for SessionCheck {
    fn default() -> Self {
        Self {
            next: 1,
            epoch: 0,
            opening: 0,
            is_removed: false,
            damaged: Vec::new(),
        }
    }
}

/// Reads the whole journal of a folder and compares it with its checksums, numbers and epochs.
/// Changes nothing and takes no lock: in a journal that is in use it checks what was written until
/// then.
///
/// # Errors
/// Why the folder cannot be read.
pub fn check(folder: &Path) -> io::Result<Report> {
    let mut report = Report::default();
    let numbers = segment_numbers(folder)?;
    let mut log = LogCheck::default();
    for number in numbers.iter().copied() {
        let file = match segment::open_to_read(&segment::path(folder, number)) {
            // Removed since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        let is_newest = numbers.last() == Some(&number);
        log.check_segment(number, &file, is_newest, &mut report)?;
    }
    let last_block = log.last_block.map_or(0, |(number, _)| number);
    check_files(folder, &numbers, last_block, &mut report)?;
    let mut sessions: Vec<_> = log
        .sessions
        .into_iter()
        .filter(|(_, session)| !session.is_removed)
        .collect();
    sessions.sort_unstable_by_key(|(key, _)| *key);
    report.sessions = sessions.len() as u64;
    for (key, session) in sessions {
        let to_damaged = |damage| Damaged {
            session: Some(key),
            damage,
        };
        report
            .damaged
            .extend(session.damaged.into_iter().map(to_damaged));
    }
    Ok(report)
}

/// Checks the files beside the log.
fn check_files(
    folder: &Path,
    numbers: &BTreeSet<u32>,
    last_block: u64,
    report: &mut Report,
) -> io::Result<()> {
    let copy = format::find_copy(folder)?;
    let is_whole = match format::read_format(folder)? {
        FormatState::Sealed(record) => copy.as_ref().is_none_or(|copy| *copy == record),
        // An older program wrote neither checksum nor copy.
        FormatState::Unsealed(_) => copy.is_none(),
        FormatState::Damaged | FormatState::Missing => false,
    };
    if !is_whole {
        report.add(Damage::FormatFile {
            has_copy: copy.is_some(),
        });
    }
    match head::read_head(folder)? {
        HeadState::Whole(head) if head.block > last_block => report.add(Damage::MissingEnd {
            from: last_block + 1,
            to: head.block,
        }),
        HeadState::Whole(_) => {}
        HeadState::Missing | HeadState::Damaged => report.add(Damage::HeadFile),
    }
    if read_if_exists(&folder.join(CHECKPOINT))?.is_some_and(|bytes| !is_whole_checkpoint(&bytes)) {
        report.add(Damage::CheckpointFile);
    }
    for number in numbers.iter().copied() {
        let directory = read_if_exists(&segment::directory_path(folder, number))?;
        if directory.is_some_and(|bytes| !segment::is_whole_directory(&bytes)) {
            report.add(Damage::DirectoryFile { segment: number });
        }
    }
    Ok(())
}

/// The state of the check of a log.
#[derive(Debug, Default)]
struct LogCheck {
    sessions: HashMap<SessionKey, SessionCheck>,
    /// The number of the last block, and its segment.
    last_block: Option<(u64, u32)>,
}

impl LogCheck {
    fn check_segment(
        &mut self,
        number: u32,
        file: &File,
        is_newest: bool,
        report: &mut Report,
    ) -> io::Result<()> {
        let size = file.metadata()?.len();
        let mut scan = SegmentScan::new(file, 0)?;
        let mut buffer = Vec::new();
        loop {
            match scan.next_item()? {
                ScanItem::Block(block) => {
                    report.blocks += 1;
                    self.check_number(number, &block.header, report);
                    for chunk in &block.chunks {
                        if let Some((session, epoch)) = chunk.noted_epoch() {
                            if let Some(session) = self.sessions.get_mut(&session) {
                                session.check_epoch(epoch);
                            }
                        } else if chunk.is_of_session() {
                            let location = ChunkLocation::new(chunk, block.at);
                            buffer.resize(location.bytes as usize, 0);
                            file.read_exact_at(&mut buffer, location.at)?;
                            let session = self.sessions.entry(chunk.session).or_default();
                            session.check_opening(block.header.epoch);
                            session.check_chunk(&location, location.is_whole(&buffer), report);
                        }
                    }
                }
                ScanItem::Damaged { to, .. } if to == size && is_newest => {}
                ScanItem::Damaged { from, to } => report.add(Damage::Unreadable {
                    segment: number,
                    from,
                    to,
                }),
                ScanItem::End => break,
            }
        }
        report.bytes += size;
        Ok(())
    }

    fn check_number(&mut self, segment: u32, header: &BlockHeader, report: &mut Report) {
        let before = self.last_block.replace((header.number, segment));
        let (last, last_segment) = before.unwrap_or_default();
        // A missing segment held nothing but removed sessions.
        let follows = segment <= last_segment + 1;
        if header.number > last + 1 && follows {
            report.add(Damage::MissingBlocks {
                from: last + 1,
                to: header.number - 1,
            });
        }
    }
}

impl SessionCheck {
    fn check_chunk(&mut self, chunk: &ChunkLocation, is_whole: bool, report: &mut Report) {
        match chunk.kind {
            ChunkKind::Removed | ChunkKind::Erased => self.is_removed = true,
            ChunkKind::Facts if !is_whole => self.damaged.push(Damage::Facts),
            ChunkKind::Facts | ChunkKind::Mark => {}
            ChunkKind::Entries if chunk.count == 0 => {}
            ChunkKind::Entries => {
                let last = chunk.end() - 1;
                if chunk.first > self.next {
                    self.damaged.push(Damage::Entries {
                        from: self.next,
                        to: chunk.first - 1,
                    });
                }
                if chunk.first < self.next {
                    self.damaged.push(Damage::RepeatedEntries {
                        from: chunk.first,
                        to: last.min(self.next - 1),
                    });
                }
                let new = chunk.first.max(self.next);
                if is_whole {
                    report.entries += (last + 1).saturating_sub(new);
                } else if new <= last {
                    self.damaged.push(Damage::Entries {
                        from: new,
                        to: last,
                    });
                }
                self.next = self.next.max(chunk.end());
            }
        }
    }

    fn check_epoch(&mut self, epoch: u64) {
        let last = std::mem::replace(&mut self.epoch, epoch);
        self.note_falling(last, epoch);
    }

    fn check_opening(&mut self, opening: u64) {
        let last = std::mem::replace(&mut self.opening, opening);
        self.note_falling(last, opening);
    }

    fn note_falling(&mut self, from: u64, to: u64) {
        if to < from {
            let at = self.next;
            self.damaged.push(Damage::FallingEpoch { at, from, to });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        Journal, Options,
        block::{BlockBuilder, NewChunk},
    };

    /// A journal with one session of one block for each of these entries, openings and noted
    /// epochs.
    fn forge(blocks: &[(u64, u32, u64, Option<u64>)]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path(), Options::default()).unwrap();
        let (session, created) = journal.create("s", b"{}").unwrap();
        created.detach();
        let mut number = {
            journal.clone().close().unwrap();
            journal.state.lock_index().block
        };
        let mut bytes = std::fs::read(folder.path().join("00000001.log")).unwrap();
        for (first, count, opening, epoch) in blocks.iter().copied() {
            let mut block = BlockBuilder::default();
            if let Some(epoch) = epoch {
                block.push_chunk(NewChunk::epoch_note(session, epoch));
            }
            block.push_chunk(NewChunk {
                session,
                kind: ChunkKind::Entries,
                first,
                count,
                id: 0,
                bytes: "line\n".repeat(count as usize).as_bytes(),
            });
            number += 1;
            bytes.extend_from_slice(block.seal(number, opening, 1000).1);
        }
        std::fs::write(folder.path().join("00000001.log"), bytes).unwrap();
        folder
    }

    fn check_forged(blocks: &[(u64, u32, u64, Option<u64>)]) -> (u64, Vec<Damage>) {
        let folder = forge(blocks);
        let report = check(folder.path()).unwrap();
        assert!(report.damaged.iter().all(|found| found.session.is_some()));
        let damage = report.damaged.iter().map(|found| found.damage);
        (report.entries, damage.collect())
    }

    #[test]
    fn blocks_that_do_not_continue_their_session_are_named() {
        assert_eq!(
            check_forged(&[(1, 3, 1, None), (4, 2, 1, None)]),
            (5, vec![])
        );
        assert_eq!(
            check_forged(&[(1, 3, 1, None), (2, 4, 1, None), (6, 1, 1, None)]),
            (6, vec![Damage::RepeatedEntries { from: 2, to: 3 }])
        );
        assert_eq!(
            check_forged(&[(1, 3, 1, None), (7, 1, 1, None)]),
            (4, vec![Damage::Entries { from: 4, to: 6 }])
        );
        assert_eq!(
            check_forged(&[(1, 3, 2, None), (4, 1, 1, None), (5, 1, 2, None)]),
            (
                5,
                vec![Damage::FallingEpoch {
                    at: 4,
                    from: 2,
                    to: 1
                }]
            )
        );
        assert_eq!(
            check_forged(&[(1, 3, 1, Some(7)), (4, 1, 1, Some(6)), (5, 1, 1, Some(7))]),
            (
                5,
                vec![Damage::FallingEpoch {
                    at: 4,
                    from: 7,
                    to: 6
                }]
            )
        );
    }
}
