//! The program's pipes: writes to its stdin, and its stdout and stderr, line by line.

use std::{
    collections::VecDeque,
    fs::File,
    io::{self, Read, Write},
    os::fd::OwnedFd,
    sync::Arc,
    thread,
    time::Duration,
};

use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{OFlags, fcntl_setfl},
};

use super::{Exit, requests::Denials};
use crate::{
    history::{Intent, RecordedEvent, Tape},
    watched::Watched,
    wire::{self, Message, Parsed, Splitter},
};

/// The most of a line that is kept: the program may write without an LF forever.
const LINE_KEPT: usize = 64 << 20;
/// The most of stderr that is kept.
const STDERR_KEPT: usize = 1 << 20;

/// Data that waits for the program's stdin.
#[derive(Debug, Default)]
pub(super) struct StdinState {
    pub(super) waiting: VecDeque<Write1>,
    pub(super) writing: bool,
    pub(super) close: bool,
    pub(super) broken: bool,
    /// True if the last write was a piece of a line, in which nothing may be inserted.
    mid_line: bool,
    pub(super) denials: Denials,
}

/// A line, or a piece of one, and the way to write it.
#[derive(Debug)]
pub(super) struct Write1 {
    pub(super) bytes: Vec<u8>,
    /// Offsets of cuts, ascending, and the pause at each cut.
    pub(super) cuts: Vec<usize>,
    pub(super) gap: Duration,
    pub(super) intent: Intent,
}

/// Reading state of stdout.
#[derive(Debug, Default)]
pub(super) struct StdoutState {
    pub(super) paused: bool,
    pub(super) close: bool,
    pub(super) closed: bool,
}

/// Writes what is queued until stdin is closed, the pipe breaks, or the program has ended.
pub(super) fn write_all(
    stdin: OwnedFd,
    input: &Watched<StdinState>,
    ended: &Watched<Option<Exit>>,
    tape: &Tape,
) {
    // Not blocking, so that a program that reads nothing holds no thread after its end.
    let quick = fcntl_setfl(&stdin, OFlags::NONBLOCK).is_ok();
    let mut stdin = File::from(stdin);
    loop {
        let next = input.wait(|input| {
            if let Some(denial) = (!input.mid_line).then(|| input.denials.next()).flatten() {
                input.writing = true;
                // Recorded under the lock: the program may use the id again at once.
                record_host(tape, &denial, Intent::Valid, |_| {});
                let cuts = Vec::new();
                let gap = Duration::ZERO;
                return Some(Some((
                    Write1 {
                        bytes: denial,
                        cuts,
                        gap,
                        intent: Intent::Valid,
                    },
                    true,
                )));
            }
            match input.waiting.pop_front() {
                Some(next) => {
                    input.writing = true;
                    input.mid_line = !next.bytes.ends_with(b"\n");
                    Some(Some((next, false)))
                }
                None => (input.close || input.broken).then_some(None),
            }
        });
        let Some((write, recorded)) = next else { break };
        if !recorded {
            let said = |message: &Message| input.change(|input| input.denials.said(message));
            record_host(tape, &write.bytes, write.intent, said);
        }
        let mut pieces = write.cuts;
        pieces.push(write.bytes.len());
        let mut from = 0;
        let mut whole = true;
        for to in pieces {
            if from > 0 && !write.gap.is_zero() {
                thread::sleep(write.gap);
            }
            whole = whole && write_piece(&mut stdin, &write.bytes[from..to], quick, input, ended);
            from = to;
        }
        let broken = input.change(|input| {
            input.writing = false;
            input.broken |= !whole;
            input.broken
        });
        if broken {
            break;
        }
    }
    drop(stdin);
    tape.push(RecordedEvent::StdinClosed);
}

/// Records what the host's side writes: a record for each line.
fn record_host(tape: &Tape, bytes: &[u8], intent: Intent, said: impl Fn(&Message)) {
    for line in wire::pieces(bytes) {
        let text = line.strip_suffix(b"\n").unwrap_or(line);
        // A reader skips a byte order mark ([frame.3]), so what follows it counts.
        let parsed = Arc::new(Parsed::lenient(
            text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text),
        ));
        parsed.message().into_iter().for_each(&said);
        tape.push(RecordedEvent::Host {
            bytes: line.into(),
            parsed,
            intent,
        });
    }
}

fn write_piece(
    stdin: &mut File,
    mut bytes: &[u8],
    quick: bool,
    input: &Watched<StdinState>,
    ended: &Watched<Option<Exit>>,
) -> bool {
    while !bytes.is_empty() {
        match stdin.write(bytes) {
            Ok(0) => return false,
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if quick && error.kind() == io::ErrorKind::WouldBlock => {
                if input.lock().broken || ended.lock().is_some() {
                    return false;
                }
                wait_for(stdin, PollFlags::OUT);
            }
            Err(_) => return false,
        }
    }
    true
}

/// Waits until a descriptor is ready, or a little while.
fn wait_for(file: &File, flags: PollFlags) {
    let tick = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: 50_000_000,
    };
    // An interrupted or failed poll only means another look.
    let _ = poll(&mut [PollFd::new(file, flags)], Some(&tick));
}

/// Reads stdout to its end, line by line.
pub(super) fn read_stdout(
    mut stdout: File,
    output: &Watched<StdoutState>,
    input: &Watched<StdinState>,
    tape: &Tape,
) {
    let mut splitter = Splitter::default();
    let mut buffer = vec![0; 64 << 10];
    loop {
        if output.wait(|output| (output.close || !output.paused).then_some(output.close)) {
            break;
        }
        wait_for(&stdout, PollFlags::IN);
        if !is_ready(&stdout) {
            continue;
        }
        let read = match stdout.read(&mut buffer) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        splitter.take(&buffer[..read], |line| {
            record_adapter(tape, input, line, true)
        });
        if splitter.rest().len() > LINE_KEPT {
            tape.push(RecordedEvent::Note(format!(
                "a line longer than {LINE_KEPT} bytes; no longer read"
            )));
            break;
        }
    }
    if !splitter.rest().is_empty() {
        record_adapter(tape, input, splitter.rest(), false);
    }
    drop(stdout);
    tape.push(RecordedEvent::StdoutEnded);
    output.change(|output| output.closed = true);
}

fn is_ready(file: &File) -> bool {
    let now = rustix::time::Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    matches!(poll(&mut [PollFd::new(file, PollFlags::IN)], Some(&now)), Ok(ready) if ready > 0)
}

fn record_adapter(tape: &Tape, input: &Watched<StdinState>, line: &[u8], ended: bool) {
    let parsed = Arc::new(Parsed::parse(line));
    let event = |parsed| RecordedEvent::Adapter {
        bytes: line.into(),
        parsed,
        ended,
        intent: Intent::Valid,
    };
    match parsed.message().map(wire::kind) {
        Some("turn.complete" | "permission.request" | "input.request" | "session.closed") => {
            input.change(|input| {
                tape.push(event(Arc::clone(&parsed)));
                parsed
                    .message()
                    .into_iter()
                    .for_each(|message| input.denials.heard(message));
            });
        }
        _ => tape.push(event(parsed)),
    }
}

/// Reads stderr to its end, whatever its size, and keeps the first of it.
pub(super) fn read_stderr(mut stderr: impl Read, tape: &Tape) {
    let mut buffer = vec![0; 16 << 10];
    let mut kept = 0;
    while let Ok(read) = stderr.read(&mut buffer) {
        if read == 0 {
            break;
        }
        if kept < STDERR_KEPT {
            kept += read;
            tape.push(RecordedEvent::Stderr(buffer[..read].into()));
        }
    }
}
