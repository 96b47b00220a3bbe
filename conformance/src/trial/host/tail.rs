//! Follows the stub's log and adds its records to the history, on the lower link of the process.

use std::{
    collections::HashMap,
    fs::File,
    io::Read,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

use crate::{
    history::{History, Intent, PipePair, RecordedEvent},
    stub,
    wire::{self, Message, Parsed, Splitter},
};

/// Interval between reads of the log.
const LOOK: Duration = Duration::from_millis(2);
/// Time that a case waits for records that are in the log already.
const DEADLINE: Duration = Duration::from_secs(10);

/// The starts of the stubs of a case, over all of its logs.
#[derive(Debug, Default)]
pub(super) struct StubStarts(Mutex<Vec<StubStart>>);

/// A start: its log, and its number there.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StubStart {
    log: PathBuf,
    number: u32,
}

impl StubStarts {
    /// The place of a start among all of the case, counted from 1; a new one comes last.
    fn place(&self, log: &Path, number: u32) -> u32 {
        let mut starts = self.lock();
        let known = starts
            .iter()
            .position(|start| start.number == number && start.log == log);
        let place = known.unwrap_or_else(|| {
            starts.push(StubStart {
                log: log.to_owned(),
                number,
            });
            starts.len() - 1
        });
        u32::try_from(place + 1).unwrap_or(u32::MAX)
    }

    /// Returns true if the process at this place still runs, whatever its pid.
    pub(super) fn is_running(&self, place: u32) -> bool {
        let index = usize::try_from(place).unwrap_or_default().checked_sub(1);
        let start = index.and_then(|index| self.lock().get(index).cloned());
        start.is_some_and(|start| stub::is_running(&start.log, start.number))
    }

    fn lock(&self) -> MutexGuard<'_, Vec<StubStart>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A log that is being followed.
#[derive(Debug)]
pub(super) struct LogTail {
    path: PathBuf,
    state: Arc<TailState>,
    thread: JoinHandle<()>,
}

#[derive(Debug, Default)]
struct TailState {
    /// Number of the log's bytes in the history.
    read: AtomicU64,
    enough: AtomicBool,
}

impl LogTail {
    /// Begins to follow a log, which need not exist yet.
    pub(super) fn follow(path: PathBuf, history: Arc<History>, starts: Arc<StubStarts>) -> Self {
        let state = Arc::<TailState>::default();
        let log = path.clone();
        let told = Arc::clone(&state);
        let thread = thread::spawn(move || follow(&log, &history, &starts, &told));
        Self {
            path,
            state,
            thread,
        }
    }

    /// Waits until the history holds all that has been logged by now.
    pub(super) fn catch_up(&self) {
        let written = std::fs::metadata(&self.path).map_or(0, |log| log.len());
        let deadline = Instant::now() + DEADLINE;
        while self.state.read.load(Ordering::SeqCst) < written && Instant::now() < deadline {
            thread::sleep(LOOK / 4);
        }
    }

    /// Reads what is left, and ends.
    pub(super) fn finish(self) {
        self.state.enough.store(true, Ordering::SeqCst);
        // A panic there was printed already; its records remain.
        let _ = self.thread.join();
    }
}

fn follow(path: &Path, history: &History, starts: &StubStarts, state: &TailState) {
    let mut reader = LogReader::new(path);
    let mut splitter = Splitter::default();
    let mut buffer = vec![0; 256 << 10];
    let mut file = None;
    loop {
        // Asked before reading, so that nothing that was written before is missed.
        let last = state.enough.load(Ordering::SeqCst);
        if file.is_none() {
            file = File::open(path).ok();
        }
        let read = file
            .as_mut()
            .map_or(0, |file| file.read(&mut buffer).unwrap_or(0));
        splitter.take(&buffer[..read], |line| reader.record(line, history, starts));
        state.read.fetch_add(read as u64, Ordering::SeqCst);
        if read == 0 {
            if last {
                return;
            }
            thread::sleep(LOOK);
        }
    }
}

/// Turns the stub's nanoseconds into instants of the same clock.
#[derive(Debug, Clone, Copy)]
struct StubClock {
    instant: Instant,
    nanos: u64,
}

impl StubClock {
    fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        let part = |number: i64| u64::try_from(number).unwrap_or_default();
        Self {
            instant: Instant::now(),
            nanos: part(now.tv_sec) * 1_000_000_000 + part(now.tv_nsec),
        }
    }

    fn at(&self, nanos: u64) -> Instant {
        let later = self.instant + Duration::from_nanos(nanos.saturating_sub(self.nanos));
        let earlier = Duration::from_nanos(self.nanos.saturating_sub(nanos));
        later.checked_sub(earlier).unwrap_or(self.instant)
    }
}

/// Text on a process's stdout after its last LF.
#[derive(Debug)]
enum PartialOutput {
    Known(Vec<u8>),
    /// Too long for the log.
    Unknown,
}

/// Presence of an LF at the end of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LogLineEnd {
    ByLf,
    Not,
}

struct LogReader {
    log: PathBuf,
    clock: StubClock,
    partial: HashMap<u32, PartialOutput>,
}

impl LogReader {
    fn new(log: &Path) -> Self {
        Self {
            log: log.to_owned(),
            clock: StubClock::now(),
            partial: HashMap::new(),
        }
    }

    fn record(&mut self, line: &[u8], history: &History, starts: &StubStarts) {
        let Ok(record) = serde_json::from_slice::<Value>(line) else {
            return;
        };
        let number = record["start"]
            .as_u64()
            .and_then(|number| u32::try_from(number).ok());
        let process = starts.place(&self.log, number.unwrap_or_default());
        let at = self.clock.at(record["t"].as_u64().unwrap_or_default());
        for event in self.events(process, record) {
            history.push_at(at, PipePair::Lower(process), event);
        }
    }

    fn events(&mut self, process: u32, record: Value) -> Vec<RecordedEvent> {
        let text = |member: &str| record[member].as_str().unwrap_or_default();
        let data = || BASE64.decode(text("data")).unwrap_or_default();
        match text("ev") {
            "start" => vec![
                RecordedEvent::Started { pid: None },
                RecordedEvent::Act(record),
            ],
            "in" if record["over"].is_null() => vec![host(text("line").as_bytes(), &record)],
            "in64" => vec![host(&data(), &record)],
            "out" => vec![match record["line"].as_str() {
                Some(line) => adapter(line.as_bytes(), LogLineEnd::ByLf),
                None => summary(&record),
            }],
            "burst" => vec![summary(&record)],
            "raw" if record["len"].is_null() => self.raw(process, text("text").as_bytes()),
            "raw64" => self.raw(process, &data()),
            "raw" | "endless" => {
                let ended = record["lf"] == true;
                let rest = if ended {
                    PartialOutput::Known(Vec::new())
                } else {
                    PartialOutput::Unknown
                };
                self.partial.insert(process, rest);
                vec![RecordedEvent::Act(record)]
            }
            "broken" => vec![RecordedEvent::StdoutEnded],
            "eof" => vec![RecordedEvent::StdinClosed],
            "exit" => {
                let mut events = self.cut(process);
                let code = record["code"]
                    .as_i64()
                    .and_then(|code| i32::try_from(code).ok());
                events.push(RecordedEvent::Exited { code, signal: None });
                events
            }
            "act" if text("name") == "abort" => {
                let mut events = self.cut(process);
                events.extend([
                    RecordedEvent::Act(record),
                    RecordedEvent::Exited {
                        code: None,
                        signal: Some(9),
                    },
                ]);
                events
            }
            "act" if text("name") == "close_stdout" => {
                let mut events = self.cut(process);
                events.extend([RecordedEvent::Act(record), RecordedEvent::StdoutEnded]);
                events
            }
            _ => vec![RecordedEvent::Act(record)],
        }
    }

    /// Returns the text after the last LF when the output ends.
    fn cut(&mut self, process: u32) -> Vec<RecordedEvent> {
        match self.partial.remove(&process) {
            Some(PartialOutput::Known(line)) if !line.is_empty() => {
                vec![adapter(&line, LogLineEnd::Not)]
            }
            _ => Vec::new(),
        }
    }

    /// Puts raw pieces together to lines.
    fn raw(&mut self, process: u32, bytes: &[u8]) -> Vec<RecordedEvent> {
        let mut events = Vec::new();
        for piece in wire::pieces(bytes) {
            let partial = self
                .partial
                .entry(process)
                .or_insert(PartialOutput::Known(Vec::new()));
            let ended = piece.ends_with(b"\n");
            match partial {
                PartialOutput::Known(line) => {
                    line.extend_from_slice(piece);
                    if ended {
                        line.pop();
                        events.push(adapter(line, LogLineEnd::ByLf));
                    }
                }
                PartialOutput::Unknown if ended => {
                    events.push(RecordedEvent::Act(json!({"ev":"unknown_line"})));
                }
                PartialOutput::Unknown => {}
            }
            if ended {
                *partial = PartialOutput::Known(Vec::new());
            }
        }
        events
    }
}

fn host(line: &[u8], record: &Value) -> RecordedEvent {
    let mut bytes = line.to_vec();
    if record["lf"] != false {
        bytes.push(b'\n');
    }
    let parsed = Arc::new(Parsed::lenient(line));
    RecordedEvent::Host {
        bytes: bytes.into(),
        parsed,
        intent: Intent::Valid,
    }
}

fn adapter(line: &[u8], ended: LogLineEnd) -> RecordedEvent {
    let parsed = Arc::new(Parsed::lenient(line));
    let intent = match *parsed {
        Parsed::Message(_) => Intent::Valid,
        Parsed::Blank | Parsed::Noise(_) => Intent::Deviant,
    };
    RecordedEvent::Adapter {
        bytes: line.into(),
        parsed,
        ended: ended == LogLineEnd::ByLf,
        intent,
    }
}

/// Returns the event of outputs that the log sums up: one message without its content, and the
/// record.
fn summary(record: &Value) -> RecordedEvent {
    let mut message = Message::new();
    let burst = record["ev"] == "burst";
    if burst {
        message.insert("type".to_owned(), "output".into());
    }
    for member in ["type", "session_id", "turn_id", "channel"] {
        if let Some(value) = record.get(member) {
            message.insert(member.to_owned(), value.clone());
        }
    }
    message.insert("content".to_owned(), "".into());
    message.insert("$summary".to_owned(), record.clone());
    let bytes = Value::Object(message.clone()).to_string().into_bytes();
    RecordedEvent::Adapter {
        bytes: bytes.into(),
        parsed: Arc::new(Parsed::Message(message)),
        ended: true,
        intent: Intent::Valid,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(records: &[Value]) -> Vec<RecordedEvent> {
        let mut reader = LogReader::new(Path::new("log"));
        records
            .iter()
            .flat_map(|record| reader.events(7, record.clone()))
            .collect()
    }

    fn lines(records: &[Value]) -> Vec<String> {
        read(records)
            .iter()
            .filter_map(|event| match event {
                RecordedEvent::Adapter { bytes, .. } => {
                    Some(String::from_utf8_lossy(bytes).into_owned())
                }
                _ => None,
            })
            .collect()
    }

    #[test]
    fn raw_pieces_become_lines() {
        let text = |text: &str| json!({"ev":"raw","text":text});
        assert_eq!(
            lines(&[text("{\"a\":"), text("1}\n\n{"), text("}\n")]),
            ["{\"a\":1}", "", "{}"]
        );
    }

    #[test]
    fn a_line_that_the_log_cannot_tell_ends_at_its_lf() {
        let records = [
            json!({"ev":"raw","text":"{\"begin"}),
            json!({"ev":"endless","len":9}),
            json!({"ev":"raw","text":"\"}\n{}\n"}),
        ];
        assert_eq!(lines(&records), ["{}"]);
    }

    #[test]
    fn processes_are_told_apart_by_log_and_start_and_not_by_pid() {
        let history = History::begin();
        let starts = StubStarts::default();
        let mut readers = [
            LogReader::new(Path::new("a")),
            LogReader::new(Path::new("b")),
        ];
        for (reader, start) in [(0, 1), (1, 1), (0, 2), (1, 1), (0, 1)] {
            let record = json!({"ev":"eof","start":start,"pid":2}).to_string();
            readers[reader].record(record.as_bytes(), &history, &starts);
        }
        let links: Vec<PipePair> = history
            .snapshot()
            .iter()
            .map(|record| record.link)
            .collect();
        assert_eq!(links, [1, 2, 3, 2, 1].map(PipePair::Lower));
    }

    #[test]
    fn a_burst_is_one_record() {
        let burst = json!({"ev":"burst","session_id":"s","from":1,"count":9,"size":8});
        assert_eq!(lines(&[burst]).len(), 1);
    }

    #[test]
    fn instants_follow_the_stubs_clock() {
        let clock = StubClock::now();
        assert_eq!(
            clock.at(clock.nanos + 5) - clock.instant,
            Duration::from_nanos(5)
        );
        assert_eq!(
            clock.instant - clock.at(clock.nanos - 5),
            Duration::from_nanos(5)
        );
    }
}
