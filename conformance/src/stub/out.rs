//! The stub's stdout: every write is logged when it has succeeded, in the order of the wire.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use serde_json::Value;

use super::action::Message;
use super::log::{Log, now_ns};
use crate::wire::sha256;

/// The longest line that is logged as it is.
const SHORT_LINE: usize = 4096;
/// The longest raw piece that is logged as it is.
const SHORT_RAW: usize = 256 * 1024;
/// Time that an exit waits for a write in progress.
const EXIT_DEADLINE: Duration = Duration::from_millis(200);

/// Serialises all writes to stdout.
#[derive(Debug)]
pub(super) struct StdoutWriter {
    log: Arc<Log>,
    wire: Mutex<Wire>,
}

/// Stdout, held by one writer.
#[derive(Debug)]
pub(super) struct Wire {
    /// True if the last byte written was an LF.
    at_line_start: bool,
    closed: bool,
    /// When the write under way began.
    began: u64,
}

/// The reader of stdout is gone.
#[derive(Debug)]
pub(super) struct ClosedStdout;

impl StdoutWriter {
    pub(super) fn new(log: Arc<Log>) -> Self {
        Self {
            log,
            wire: Mutex::new(Wire {
                at_line_start: true,
                closed: false,
                began: 0,
            }),
        }
    }

    /// Writes whole lines in one go and logs each.
    pub(super) fn lines(&self, lines: &[String]) -> Result<(), ClosedStdout> {
        let mut bytes = Vec::new();
        for line in lines {
            bytes.extend_from_slice(line.as_bytes());
            bytes.push(b'\n');
        }
        let Some(mut wire) = self.hold_open(bytes.len()) else {
            return Ok(());
        };
        wire.write(&bytes)?;
        for line in lines {
            self.log_line(wire.began, line);
        }
        Ok(())
    }

    /// Writes bytes as they are. What turns out to be whole messages is logged as such.
    pub(super) fn raw(&self, bytes: &[u8]) -> Result<(), ClosedStdout> {
        self.in_pieces(bytes, |wire| wire.write(bytes))
    }

    /// Writes bytes by several writes, in which no other writer comes between.
    pub(super) fn in_pieces(
        &self,
        bytes: &[u8],
        write: impl FnOnce(&mut Wire) -> Result<(), ClosedStdout>,
    ) -> Result<(), ClosedStdout> {
        let Some(mut wire) = self.hold_open(bytes.len()) else {
            return Ok(());
        };
        let began_a_line = wire.at_line_start;
        write(&mut wire)?;
        match whole_messages(bytes).filter(|_| began_a_line) {
            Some(lines) => lines.for_each(|line| self.log_line(wire.began, line)),
            None => self.log_raw(wire.began, bytes),
        }
        Ok(())
    }

    /// Writes a part of a burst: the caller logs it in the given function, before anyone else writes.
    pub(super) fn part(
        &self,
        bytes: &[u8],
        log: impl FnOnce(&Log, u64),
    ) -> Result<(), ClosedStdout> {
        let Some(mut wire) = self.hold_open(bytes.len()) else {
            return Ok(());
        };
        wire.write(bytes)?;
        log(&self.log, wire.began);
        Ok(())
    }

    /// Puts `/dev/null` in the place of stdout, so that its reader sees the end.
    pub(super) fn close(&self) -> std::io::Result<()> {
        let mut wire = self.hold();
        let null = std::fs::OpenOptions::new().write(true).open("/dev/null")?;
        rustix::stdio::dup2_stdout(null)?;
        wire.closed = true;
        Ok(())
    }

    /// Waits a little for a writer in the middle of a line, so that an exit does not tear it without need.
    pub(super) fn settle(&self) -> Option<MutexGuard<'_, Wire>> {
        let until = Instant::now() + EXIT_DEADLINE;
        loop {
            match self.wire.try_lock() {
                Ok(wire) => return Some(wire),
                Err(TryLockError::Poisoned(poisoned)) => return Some(poisoned.into_inner()),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    thread::sleep(Duration::from_millis(1));
                }
                Err(TryLockError::WouldBlock) => return None,
            }
        }
    }

    /// Stdout for a write of that length, unless the stub has closed it.
    fn hold_open(&self, len: usize) -> Option<MutexGuard<'_, Wire>> {
        let mut wire = self.hold();
        if wire.closed {
            self.log.add("unsent", [("len", len.into())]);
            return None;
        }
        wire.began = now_ns();
        Some(wire)
    }

    fn hold(&self) -> MutexGuard<'_, Wire> {
        self.wire.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log_line(&self, began: u64, line: &str) {
        if line.len() <= SHORT_LINE {
            self.log.add_at(Some(began), "out", [("line", line.into())]);
            return;
        }
        let message: Message = serde_json::from_str(line).unwrap_or_default();
        let member = |key: &str| message.get(key).cloned().unwrap_or(Value::Null);
        let content = message.get("content").and_then(Value::as_str);
        self.log.add_at(
            Some(began),
            "out",
            [
                ("type", member("type")),
                ("session_id", member("session_id")),
                ("turn_id", member("turn_id")),
                ("channel", member("channel")),
                ("bytes", line.len().into()),
                ("len", content.map_or(Value::Null, |c| c.len().into())),
                (
                    "sha256",
                    content.map_or(Value::Null, |c| sha256(c.as_bytes()).into()),
                ),
            ],
        );
    }

    fn log_raw(&self, began: u64, bytes: &[u8]) {
        if bytes.len() > SHORT_RAW {
            let members = [
                ("len", bytes.len().into()),
                ("sha256", sha256(bytes).into()),
                ("lf", bytes.ends_with(b"\n").into()),
            ];
            self.log.add_at(Some(began), "raw", members);
        } else if let Ok(text) = std::str::from_utf8(bytes) {
            self.log.add_at(Some(began), "raw", [("text", text.into())]);
        } else {
            self.log.add_at(
                Some(began),
                "raw64",
                [("data", STANDARD.encode(bytes).into())],
            );
        }
    }
}

impl Wire {
    /// Writes everything, however the pipe takes it.
    pub(super) fn write(&mut self, mut bytes: &[u8]) -> Result<(), ClosedStdout> {
        if let Some(last) = bytes.last() {
            self.at_line_start = *last == b'\n';
        }
        while !bytes.is_empty() {
            match rustix::io::write(rustix::stdio::stdout(), bytes) {
                Ok(n) => bytes = &bytes[n..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => wait_for_room(),
                Err(_) => return Err(ClosedStdout),
            }
        }
        Ok(())
    }
}

fn wait_for_room() {
    let stdout = rustix::stdio::stdout();
    let _ = poll(&mut [PollFd::new(&stdout, PollFlags::OUT)], None);
}

/// The lines of some bytes, if each of them is a whole message.
fn whole_messages(bytes: &[u8]) -> Option<impl Iterator<Item = &str>> {
    let text = std::str::from_utf8(bytes).ok()?.strip_suffix('\n')?;
    let is_message = |line: &str| serde_json::from_str::<Message>(line).is_ok();
    text.split('\n').all(is_message).then(|| text.split('\n'))
}
