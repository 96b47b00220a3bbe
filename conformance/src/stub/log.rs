//! The stub's log: one JSON object a line, each appended by one write, so that several starts share a file.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use rustix::fs::{FlockOperation, flock};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Map, Value};

use super::life;

/// The append-only record of one start, which is known by its number in the file.
#[derive(Debug)]
pub(super) struct Log {
    path: PathBuf,
    start: u32,
    end: Mutex<StubLogFile>,
    /// Tells that this start runs.
    _life: File,
}

#[derive(Debug)]
struct StubLogFile {
    file: File,
    records: u64,
}

impl Log {
    /// Opens the log, counts the starts in it, and adds this one. A lock on the file keeps two
    /// starts at the same time apart: each has a number of its own, whatever their pids.
    pub(super) fn begin(path: &Path, argv: Vec<Value>) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).append(true).open(path)?;
        let reading = File::open(path)?;
        flock(&reading, FlockOperation::LockExclusive)?;
        let start = 1 + starts_in(&reading)?;
        let log = Self {
            path: path.to_owned(),
            start,
            end: Mutex::new(StubLogFile { file, records: 0 }),
            // Before the record, so that a reader of the record finds it running.
            _life: life::hold(path, start)?,
        };
        let names: Vec<Value> = environment_names();
        let cwd = std::env::current_dir().unwrap_or_default();
        // Without this record the next start would have the same number.
        log.write(
            None,
            "start",
            [
                ("argv", argv.into()),
                ("cwd", cwd.to_string_lossy().into()),
                ("env", names.into()),
            ],
        )?;
        Ok(log)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of this start, from 1.
    pub(super) fn start(&self) -> u32 {
        self.start
    }

    /// Appends a record of what happens now. A log that cannot be written is not a reason to fail:
    /// the runner misses the record.
    pub(super) fn add<const N: usize>(&self, event: &str, members: [(&str, Value); N]) {
        self.add_at(None, event, members);
    }

    /// Appends a record of an earlier event. A write is dated by its beginning, so that by time it
    /// precedes everything that its reader did because of it.
    pub(super) fn add_at<const N: usize>(
        &self,
        began: Option<u64>,
        event: &str,
        members: [(&str, Value); N],
    ) {
        let _ = self.write(began, event, members);
    }

    fn write<const N: usize>(
        &self,
        began: Option<u64>,
        event: &str,
        members: [(&str, Value); N],
    ) -> io::Result<()> {
        let mut record = Map::new();
        record.insert("ev".to_owned(), event.into());
        record.insert("start".to_owned(), self.start.into());
        for (key, value) in members {
            if !value.is_null() {
                record.insert(key.to_owned(), value);
            }
        }
        let mut end = self.end.lock().unwrap_or_else(PoisonError::into_inner);
        end.records += 1;
        record.insert("n".to_owned(), end.records.into());
        // Read inside the lock, so that times and places agree.
        record.insert("t".to_owned(), began.unwrap_or_else(now_ns).into());
        let mut line = Value::Object(record).to_string();
        line.push('\n');
        end.file.write_all(line.as_bytes())
    }
}

fn starts_in(file: &File) -> io::Result<u32> {
    let mut starts = 0;
    let mut lines = BufReader::new(file);
    let mut line = Vec::new();
    loop {
        line.clear();
        if lines.read_until(b'\n', &mut line)? == 0 {
            return Ok(starts);
        }
        let is_start = |text: &str| {
            text.contains("\"ev\":\"start\"")
                && serde_json::from_str::<Value>(text).is_ok_and(|r| r["ev"] == "start")
        };
        if std::str::from_utf8(&line).is_ok_and(is_start) {
            starts += 1;
        }
    }
}

/// The names of the environment's variables, never their values.
pub(super) fn environment_names() -> Vec<Value> {
    let name = |(name, _): (std::ffi::OsString, _)| name.to_string_lossy().into_owned();
    let mut names: Vec<String> = std::env::vars_os().map(name).collect();
    names.sort();
    names.into_iter().map(Value::from).collect()
}

/// The monotonic clock in nanoseconds, which the runner reads too.
pub(super) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    u64::try_from(now.tv_sec).unwrap_or(0) * 1_000_000_000 + u64::try_from(now.tv_nsec).unwrap_or(0)
}
