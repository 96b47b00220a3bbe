//! Reads the lines back.

use std::{
    fs::File,
    io::{self, BufRead, BufReader, Read},
    os::unix::fs::MetadataExt,
    path::Path,
};

use rustix::fs::{Mode, OFlags};
use serde::Deserialize;

use super::{FILE_NAME, OLDER_NAME, UsageRecord};

/// The longest line that is read, in bytes. Lines of this log are shorter.
const MAX_LINE: u64 = 256 * 1024;

/// The parts of the files that are not turns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Skipped {
    /// Lines that could not be read.
    pub bad: u64,
    /// Turns that are missing, by the count in the files.
    pub dropped: u64,
}

/// The members by which a turn differs from a count of missing turns.
#[derive(Deserialize)]
struct LineHead {
    dropped: Option<u64>,
    #[serde(default)]
    time: String,
    agent: Option<String>,
}

/// Reads the usage logs of a state folder, the older one first, and calls `each` with every turn. A
/// missing file counts as an empty one. Blocks on the file system.
///
/// # Errors
/// If a file exists and cannot be read.
pub fn read(folder: &Path, mut each: impl FnMut(UsageRecord)) -> io::Result<Skipped> {
    // The newer file is opened first. If it becomes the older one meanwhile, both are the same
    // file, and no line is missed.
    let newer = open(&folder.join(FILE_NAME))?;
    let older = open(&folder.join(OLDER_NAME))?;
    let same = match (&older, &newer) {
        (Some(older), Some(newer)) => id(older)? == id(newer)?,
        _ => false,
    };
    let mut skipped = Skipped::default();
    for file in older.filter(|_| !same).into_iter().chain(newer) {
        read_lines(BufReader::new(file), &mut skipped, &mut each)?;
    }
    Ok(skipped)
}

fn open(path: &Path) -> io::Result<Option<File>> {
    let flags =
        OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(file) => Ok(Some(File::from(file))),
        Err(rustix::io::Errno::NOENT) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn id(file: &File) -> io::Result<(u64, u64)> {
    let meta = file.metadata()?;
    Ok((meta.dev(), meta.ino()))
}

fn read_lines(
    mut file: impl BufRead,
    skipped: &mut Skipped,
    each: &mut impl FnMut(UsageRecord),
) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        if file.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)? == 0 {
            return Ok(());
        }
        if line.last() != Some(&b'\n') && line.len() as u64 == MAX_LINE {
            skipped.bad += 1;
            file.skip_until(b'\n')?;
            continue;
        }
        let text = line.trim_ascii();
        if text.is_empty() {
            continue;
        }
        match serde_json::from_slice::<LineHead>(text) {
            Ok(LineHead {
                dropped: Some(turns),
                ..
            }) => skipped.dropped = skipped.dropped.saturating_add(turns),
            Ok(LineHead {
                time,
                agent: Some(_),
                ..
            }) if !time.is_empty() => match serde_json::from_slice(text) {
                Ok(record) => each(record),
                Err(_) => skipped.bad += 1,
            },
            Ok(_) | Err(_) => skipped.bad += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, agents: &[&str], skipped: Skipped) {
        let mut found = Vec::new();
        let mut reported = Skipped::default();
        read_lines(
            text.as_bytes(),
            &mut reported,
            &mut |record: UsageRecord| found.push(record.agent),
        )
        .unwrap();
        assert_eq!(
            (found, reported),
            (
                agents.iter().map(|agent| (*agent).to_owned()).collect(),
                skipped
            )
        );
    }

    const A: &str =
        r#"{"time":"2026-03-01T12:00:00Z","agent":"a","session":"s","new":[1],"usage":{"new":1}}"#;

    #[test]
    fn bad_lines_are_counted_and_the_others_are_read() {
        let bad = |bad| Skipped {
            bad,
            ..Skipped::default()
        };
        check("", &[], bad(0));
        check(&format!("{A}\n\n  \n{A}"), &["a", "a"], bad(0));
        check(
            &format!("{A}\n{{\"time\":\"20\n[]\n7\nnull\n\"x\"\n\u{0}\n{{}}\n{A}\n"),
            &["a", "a"],
            bad(7),
        );
        for odd in [
            r#"{"time":1,"agent":"a"}"#,
            r#"{"time":"x","agent":["a"]}"#,
            r#"{"time":"x","agent":"a","usage":7}"#,
            r#"{"time":"x","agent":"a","cost_usd":"1"}"#,
            r#"{"agent":"a"}"#,
        ] {
            check(&format!("{odd}\n{A}\n"), &["a"], bad(1));
        }
        check(&format!("{}\n{A}\n", "[".repeat(100_000)), &["a"], bad(1));
        check(
            &format!("{A}\n{}\n{A}\n", "x".repeat(3 * 256 * 1024)),
            &["a", "a"],
            bad(1),
        );
    }

    #[test]
    fn counts_of_missing_turns_are_added_up() {
        let text = format!(
            "{{\"dropped\":2,\"time\":\"x\"}}\n{A}\n{{\"dropped\":{}}}\n",
            u64::MAX
        );
        check(
            &text,
            &["a"],
            Skipped {
                bad: 0,
                dropped: u64::MAX,
            },
        );
    }

    #[test]
    fn the_older_file_comes_first_and_none_is_read_twice() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let agents = || {
            let mut agents = String::new();
            read(folder.path(), |record| agents.push_str(&record.agent)).unwrap();
            agents
        };
        assert_eq!(agents(), "");
        std::fs::write(at(FILE_NAME), A).unwrap();
        std::fs::write(at(OLDER_NAME), A.replace("\"a\"", "\"b\"")).unwrap();
        assert_eq!(agents(), "ba");
        std::fs::remove_file(at(OLDER_NAME)).unwrap();
        std::fs::hard_link(at(FILE_NAME), at(OLDER_NAME)).unwrap();
        assert_eq!(agents(), "a");
    }
}
