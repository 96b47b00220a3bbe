//! The conversations that Claude Code has kept: transcripts in folders of projects, read a little
//! and never changed.
//!
//! A transcript is `projects/FOLDER/ID.jsonl` beneath Claude's own folder, and FOLDER its working
//! directory with a dash for each sign. Each is opened beneath a handle of the folder above, and no
//! link is followed.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use trunkline_sdk::protocol::SessionEntry;

use super::transcript_summary::TranscriptSummary;
use crate::agent::native_id;

/// The most folders and transcripts that are looked at.
const MOST_FOLDERS: usize = 10_000;
const MOST_FILES: usize = 100_000;

/// Limit and default of listed conversations.
const MOST_LISTED: usize = 500;
const LISTED: usize = 100;

/// Limit of transcripts that are read per listed one: some are empty.
const READ_FOR_ONE: usize = 4;

/// Bytes of a transcript that are read at its beginning and at its end.
const HEAD: u64 = 64 * 1024;
const TAIL: u64 = 32 * 1024;

/// The longest name of a folder that is nothing but its directory's.
const LONGEST_PLAIN: usize = 200;

/// Characters of a directory's name that its folder's name contains in any case.
const KEPT: usize = 100;

/// The last second that a time is reported.
const LAST: u64 = 253_402_300_799;

/// A transcript that was found.
struct FoundTranscript {
    folder: usize,
    id: String,
    changed: Duration,
}

/// Returns Claude's own folder: `CLAUDE_CONFIG_DIR`, or the one in the home. `value` reads
/// variables.
pub(super) fn home(value: impl Fn(&str) -> Option<String>) -> Option<PathBuf> {
    let set = |name: &str| {
        value(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    set("CLAUDE_CONFIG_DIR").or_else(|| Some(set("HOME")?.join(".claude")))
}

/// Returns the conversations, newest first; only those of a directory, if one is named. A missing
/// folder has none.
pub(super) fn list(home: &Path, cwd: Option<&str>, limit: Option<u32>) -> Vec<SessionEntry> {
    let most = limit
        .map_or(LISTED, |limit| limit as usize)
        .min(MOST_LISTED);
    // A path of the user may contain links; paths below it may not.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let Ok(projects) = rustix::fs::open(home.join("projects"), flags, Mode::empty()) else {
        return Vec::new();
    };
    let mut directories: Vec<String> = cwd.map(str::to_owned).into_iter().collect();
    // Claude goes by where it is in truth.
    let real = cwd
        .and_then(|cwd| Path::new(cwd).canonicalize().ok())
        .and_then(|cwd| cwd.to_str().map(str::to_owned));
    directories.extend(real);
    let mut folders: Vec<String> = directories.iter().map(|cwd| dashed(cwd)).collect();
    folders.sort();
    folders.dedup();
    // Long names are cut and distinguished by something else.
    if folders.is_empty() || folders.iter().any(|name| name.len() > LONGEST_PLAIN) {
        let beginnings: Vec<_> = folders
            .iter()
            .map(|name| name[..name.len().min(KEPT)].to_owned())
            .collect();
        folders = names(projects.as_fd(), MOST_FOLDERS);
        let is_near = |name: &String| {
            beginnings
                .iter()
                .any(|beginning| name.starts_with(beginning))
        };
        folders.retain(|name| beginnings.is_empty() || is_near(name));
    }
    let mut found = Vec::new();
    for (number, name) in folders.iter().enumerate() {
        if let Some(folder) = folder(projects.as_fd(), name) {
            transcripts(folder.as_fd(), number, &mut found);
        }
    }
    found.sort_by(|one, other| {
        other
            .changed
            .cmp(&one.changed)
            .then_with(|| one.id.cmp(&other.id))
    });
    let read = found.iter().take(most.saturating_mul(READ_FOR_ONE));
    let entries =
        read.filter_map(|found| entry(projects.as_fd(), folders.get(found.folder)?, found));
    let is_meant = |entry: &SessionEntry| {
        directories.is_empty()
            || entry
                .cwd
                .as_ref()
                .is_some_and(|cwd| directories.contains(cwd))
    };
    entries.filter(is_meant).take(most).collect()
}

/// A directory as the name of its folder.
fn dashed(cwd: &str) -> String {
    let one = |char: char| {
        if char.is_ascii_alphanumeric() {
            String::from(char)
        } else {
            "-".repeat(char.len_utf16())
        }
    };
    cwd.chars().map(one).collect()
}

fn folder(projects: BorrowedFd<'_>, name: &str) -> Option<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    rustix::fs::openat(projects, name, flags, Mode::empty()).ok()
}

/// The names in a folder, but for hidden ones.
fn names(folder: BorrowedFd<'_>, most: usize) -> Vec<String> {
    let Ok(entries) = Dir::read_from(folder) else {
        return Vec::new();
    };
    let name = |entry: rustix::fs::DirEntry| entry.file_name().to_str().ok().map(str::to_owned);
    let names = entries
        .map_while(Result::ok)
        .filter_map(name)
        .filter(|name| !name.starts_with('.'));
    names.take(most).collect()
}

fn transcripts(folder: BorrowedFd<'_>, number: usize, found: &mut Vec<FoundTranscript>) {
    for name in names(folder, MOST_FILES.saturating_sub(found.len())) {
        let Some(id) = name
            .strip_suffix(".jsonl")
            .filter(|id| native_id::is_uuid(id))
        else {
            continue;
        };
        let Ok(stat) = rustix::fs::statat(folder, name.as_str(), AtFlags::SYMLINK_NOFOLLOW) else {
            continue;
        };
        if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
            let seconds = u64::try_from(stat.st_mtime).unwrap_or_default().min(LAST);
            let nanoseconds = u32::try_from(stat.st_mtime_nsec)
                .unwrap_or_default()
                .min(999_999_999);
            found.push(FoundTranscript {
                folder: number,
                id: id.to_owned(),
                changed: Duration::new(seconds, nanoseconds),
            });
        }
    }
}

/// Converts a transcript to a conversation that can be resumed, if it is not empty.
fn entry(projects: BorrowedFd<'_>, name: &str, found: &FoundTranscript) -> Option<SessionEntry> {
    let folder = folder(projects, name)?;
    let (head, tail) = ends(folder.as_fd(), &format!("{}.jsonl", found.id)).ok()?;
    let summary = TranscriptSummary::from_head_and_tail(&head, &tail);
    let time = |time: SystemTime| humantime::format_rfc3339_seconds(time).to_string();
    summary.is_conversation().then(|| SessionEntry {
        native_session_id: found.id.clone(),
        title: summary.title(),
        created_at: summary.began.map(time),
        cwd: summary.cwd,
        updated_at: Some(time(UNIX_EPOCH + found.changed)),
        ..SessionEntry::default()
    })
}

/// Returns the beginning of a file, and its end, if that is beyond.
fn ends(folder: BorrowedFd<'_>, name: &str) -> io::Result<(Vec<u8>, Vec<u8>)> {
    // Without blocking: it may have become a FIFO meanwhile.
    let flags =
        OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::openat(folder, name, flags, Mode::empty())?);
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let mut head = Vec::new();
    let mut tail = Vec::new();
    file.by_ref().take(HEAD).read_to_end(&mut head)?;
    if metadata.len() > HEAD {
        file.seek(SeekFrom::Start(
            metadata.len().saturating_sub(TAIL).max(HEAD),
        ))?;
        file.take(TAIL).read_to_end(&mut tail)?;
    }
    Ok((head, tail))
}

#[cfg(test)]
mod tests;
