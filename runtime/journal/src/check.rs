//! Checking a journal: reads every byte, and names what is missing or not what was written.

use std::{collections::HashMap, fmt, io, os::unix::fs::FileExt, path::Path};

use crate::{
    SessionKey,
    block::Kind,
    head, opening,
    segment::{self, Found, Place, Scan},
};

/// What is not as it was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Damage {
    /// Entries of the session, by their numbers.
    Entries {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
    /// The facts of the session.
    Facts,
    /// The last blocks of the log: the sessions that were written then are not known.
    #[non_exhaustive]
    MissingEnd {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
    /// Blocks in the midst of the log.
    #[non_exhaustive]
    MissingBlocks {
        /// The first.
        from: u64,
        /// The last.
        to: u64,
    },
    /// Bytes of a segment that are no block.
    #[non_exhaustive]
    Unreadable {
        /// The segment's number.
        segment: u32,
        /// The first byte.
        from: u64,
        /// The byte behind the last.
        to: u64,
    },
}

/// Damage, and the session that has it where that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damaged {
    /// Which session.
    pub session: Option<SessionKey>,
    /// What.
    pub damage: Damage,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Entries { from, to } => write!(f, "entries {from} to {to} are lost"),
            Self::Facts => write!(f, "its facts are damaged"),
            Self::MissingEnd { from, to } => {
                write!(
                    f,
                    "blocks {from} to {to}, the last that were written, are missing"
                )
            }
            Self::MissingBlocks { from, to } => write!(f, "blocks {from} to {to} are missing"),
            Self::Unreadable { segment, from, to } => {
                write!(
                    f,
                    "bytes {from} to {to} of segment {segment} cannot be read"
                )
            }
        }
    }
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Report {
    /// How many sessions there are, removed ones apart.
    pub sessions: u64,
    /// How many entries were read.
    pub entries: u64,
    /// How many blocks.
    pub blocks: u64,
    /// How many bytes.
    pub bytes: u64,
    /// What is wrong: of the log first, then by session.
    pub damaged: Vec<Damaged>,
}

/// What is known of a session while the log is read.
#[derive(Debug, Default)]
struct Seen {
    /// The number that comes next.
    next: u64,
    is_removed: bool,
    damaged: Vec<Damage>,
}

/// Reads the whole journal of a folder and compares it with its checksums and numbers. Changes nothing and takes no
/// lock: of a journal in use it sees what was written until then.
///
/// # Errors
/// Why the folder cannot be read.
pub fn check(folder: &Path) -> io::Result<Report> {
    let mut report = Report::default();
    let mut sessions: HashMap<SessionKey, Seen> = HashMap::new();
    let numbers = opening::numbers(folder)?;
    let (mut last_block, mut last_segment) = (0, 0);
    for number in numbers.iter().copied() {
        let file = match segment::open_to_read(&segment::path(folder, number)) {
            // Removed since.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            file => file?,
        };
        let size = file.metadata()?.len();
        let mut scan = Scan::new(&file, 0)?;
        let mut buffer = Vec::new();
        loop {
            match scan.next()? {
                Found::Block(block) => {
                    report.blocks += 1;
                    // A segment that is not there held nothing but removed sessions.
                    let follows = number <= last_segment + 1;
                    if last_block > 0 && block.head.number > last_block + 1 && follows {
                        let damage = Damage::MissingBlocks {
                            from: last_block + 1,
                            to: block.head.number - 1,
                        };
                        report.damaged.push(Damaged {
                            session: None,
                            damage,
                        });
                    }
                    (last_block, last_segment) = (block.head.number, number);
                    for chunk in block
                        .chunks
                        .iter()
                        .filter(|chunk| chunk.session != SessionKey(0))
                    {
                        let place = Place::of(chunk, block.at);
                        buffer.resize(place.bytes as usize, 0);
                        file.read_exact_at(&mut buffer, place.at)?;
                        let seen = sessions.entry(chunk.session).or_insert_with(|| Seen {
                            next: 1,
                            ..Seen::default()
                        });
                        seen.take(&place, place.is_whole(&buffer), &mut report);
                    }
                }
                Found::Damaged { to, .. } if to == size && numbers.last() == Some(&number) => {}
                Found::Damaged { from, to } => {
                    let damage = Damage::Unreadable {
                        segment: number,
                        from,
                        to,
                    };
                    report.damaged.push(Damaged {
                        session: None,
                        damage,
                    });
                }
                Found::End => break,
            }
        }
        report.bytes += size;
    }
    if let Some(head) = head::read(folder)?.filter(|head| head.block > last_block) {
        let damage = Damage::MissingEnd {
            from: last_block + 1,
            to: head.block,
        };
        report.damaged.push(Damaged {
            session: None,
            damage,
        });
    }
    let mut sessions: Vec<_> = sessions
        .into_iter()
        .filter(|(_, seen)| !seen.is_removed)
        .collect();
    sessions.sort_unstable_by_key(|(key, _)| *key);
    report.sessions = sessions.len() as u64;
    for (session, seen) in sessions {
        let own = |damage| Damaged {
            session: Some(session),
            damage,
        };
        report.damaged.extend(seen.damaged.into_iter().map(own));
    }
    Ok(report)
}

impl Seen {
    fn take(&mut self, place: &Place, is_whole: bool, report: &mut Report) {
        match place.kind {
            Kind::Removed | Kind::Erased => self.is_removed = true,
            Kind::Facts if !is_whole => self.damaged.push(Damage::Facts),
            Kind::Facts | Kind::Mark => {}
            Kind::Entries => {
                if place.first > self.next {
                    self.damaged.push(Damage::Entries {
                        from: self.next,
                        to: place.first - 1,
                    });
                }
                if is_whole {
                    report.entries += u64::from(place.count);
                } else {
                    self.damaged.push(Damage::Entries {
                        from: place.first,
                        to: place.end() - 1,
                    });
                }
                self.next = self.next.max(place.end());
            }
        }
    }
}
