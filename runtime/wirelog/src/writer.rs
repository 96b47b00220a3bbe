//! The thread's work: lines out of what was queued, secrets hidden, records in the file.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
    io,
    time::SystemTime,
};

use serde::de::IgnoredAny;
use serde_json::Map;
use trunkline_protocol::{Head, session_named_in};
use trunkline_redact as redact;

use crate::{
    Content, Header, OpenSession, RecordEvent, RunningProcess, VERSION, WireLogOptions,
    content::head,
    file::LogFile,
    lines::{Lines, MARGIN, Piece},
    log::{Batch, LogContent, LogEntry, Lost},
    queue::MissingCount,
    record::{self, LineOf},
    secrets::{self, Secrets},
};

/// Bytes of records per write, approximately.
const BLOCK: usize = 64 * 1024;

/// Limit of open sessions that a header lists; others are counted.
const SESSIONS: usize = 1000;

/// Makes records of batches.
pub(crate) struct Writer {
    file: LogFile,
    path: std::path::PathBuf,
    content: Content,
    began: String,
    /// Number of the current file, from 1.
    number: u64,
    block: Vec<u8>,
    processes: BTreeMap<u32, AdapterRun>,
    open: BTreeSet<(u32, String)>,
    secrets: Secrets,
    /// Records that could not be written since the last that could.
    unwritten: Lost,
    /// The time of the latest record.
    latest: u64,
    missing: MissingCount,
}

/// A run of an adapter that has not ended.
#[derive(Default)]
struct AdapterRun {
    agent: String,
    output: Lines,
}

/// A line on its way into a record.
struct WireLine<'a> {
    t: u64,
    process: u32,
    of: LineOf,
    bytes: &'a [u8],
    omitted: u64,
    /// True if it was searched and contains no secrets.
    is_clean: bool,
}

impl Writer {
    pub(crate) fn new(file: LogFile, options: &WireLogOptions, began: SystemTime) -> Self {
        Self {
            file,
            path: options.path().to_owned(),
            content: options.kept(),
            began: humantime::format_rfc3339_millis(began).to_string(),
            number: 1,
            block: Vec::new(),
            processes: BTreeMap::new(),
            open: BTreeSet::new(),
            secrets: Secrets::default(),
            unwritten: Lost::default(),
            latest: 0,
            missing: MissingCount::default(),
        }
    }

    /// Writes the first header.
    pub(crate) fn begin(&mut self) {
        self.header(0);
        self.flush();
    }

    /// Writes what was queued.
    pub(crate) fn write(&mut self, batch: &Batch) {
        let tells = |(entry, bytes): (&LogEntry, &[u8])| {
            matches!(entry.what, LogContent::ToAdapter) && secrets::may_tell(bytes)
        };
        // One search for all, unless a secret becomes known among them.
        let is_clean =
            !batch.each().any(tells) && matches!(redact::bytes(&batch.bytes), Cow::Borrowed(_));
        for (entry, bytes) in batch.each() {
            if self.file.is_full_with(self.block.len()) {
                self.rotate(entry.t);
            }
            self.latest = entry.t;
            self.take(entry, bytes, is_clean);
            if self.block.len() >= BLOCK {
                self.flush();
            }
        }
        self.flush();
    }

    fn take(&mut self, entry: &LogEntry, bytes: &[u8], is_clean: bool) {
        let LogEntry {
            t,
            process,
            omitted,
            ..
        } = *entry;
        let mut other = |event| record::other(&mut self.block, t, Some(process), &event);
        match &entry.what {
            LogContent::Started { agent, pid } => {
                other(RecordEvent::Started {
                    agent: Some(agent.to_string()),
                    pid: *pid,
                });
                self.processes.insert(
                    process,
                    AdapterRun {
                        agent: agent.to_string(),
                        output: Lines::default(),
                    },
                );
            }
            LogContent::NotStarted => {
                let why = redact::bytes(bytes);
                let why = String::from_utf8_lossy(&why);
                other(RecordEvent::Note {
                    note: format!("the adapter did not start: {why}"),
                });
            }
            LogContent::ToAdapter => {
                let line = if omitted == 0 {
                    bytes.strip_suffix(b"\n").unwrap_or(bytes)
                } else {
                    bytes
                };
                self.line(&WireLine {
                    t,
                    process,
                    of: LineOf::Host,
                    bytes: line,
                    omitted,
                    is_clean,
                });
            }
            LogContent::FromAdapter => {
                let mut running = self.processes.remove(&process).unwrap_or_default();
                running
                    .output
                    .push(bytes, |piece| self.output(t, process, &piece, is_clean));
                self.processes.insert(process, running);
            }
            LogContent::Stderr => self.line(&WireLine {
                t,
                process,
                of: LineOf::Stderr,
                bytes,
                omitted,
                is_clean,
            }),
            LogContent::ToAgent(agent_process) => self.line(&WireLine {
                t,
                process,
                of: LineOf::ToAgent {
                    agent_process: *agent_process,
                },
                bytes,
                omitted,
                is_clean,
            }),
            LogContent::FromAgent(agent_process) => self.line(&WireLine {
                t,
                process,
                of: LineOf::FromAgent {
                    agent_process: *agent_process,
                },
                bytes,
                omitted,
                is_clean,
            }),
            LogContent::AgentLinesLost {
                agent_process,
                lines,
            } => {
                let lines = format!("{lines} {}", if *lines == 1 { "line" } else { "lines" });
                other(RecordEvent::Note {
                    note: format!("{lines} of agent process {agent_process} are missing here"),
                });
            }
            LogContent::StdinClosed => other(RecordEvent::StdinClosed),
            LogContent::StdoutEnded => {
                let mut running = self.processes.remove(&process).unwrap_or_default();
                running
                    .output
                    .finish(|piece| self.output(t, process, &piece, is_clean));
                let event = RecordEvent::StdoutEnded;
                record::other(&mut self.block, t, Some(process), &event);
                self.processes.insert(process, running);
            }
            LogContent::Exited { code, signal } => {
                other(RecordEvent::Exited {
                    code: *code,
                    signal: *signal,
                });
                self.processes.remove(&process);
                self.open.retain(|(of, _)| *of != process);
                self.secrets.end(process);
            }
            LogContent::Lost(lost) => {
                other(lost.event());
                if let Some(running) = self.processes.get_mut(&process).filter(|_| lost.of_output) {
                    running.output.lose();
                }
                if lost.of_secrets {
                    self.secrets.lose(process);
                    let note = "a message that may list secrets is missing: later lines of this process have no content";
                    let event = RecordEvent::Note {
                        note: note.to_owned(),
                    };
                    record::other(&mut self.block, t, Some(process), &event);
                }
                self.miss(lost.lines, None);
            }
        }
    }

    fn output(&mut self, t: u64, process: u32, piece: &Piece<'_>, is_clean: bool) {
        self.line(&WireLine {
            t,
            process,
            of: LineOf::Adapter {
                cut: !piece.is_ended,
            },
            bytes: piece.line,
            omitted: piece.omitted,
            is_clean: is_clean && piece.is_whole,
        });
    }

    fn line(&mut self, line: &WireLine<'_>) {
        let head = std::str::from_utf8(line.bytes)
            .ok()
            .filter(|_| line.of.is_message());
        let head = head.and_then(|text| Head::read(text).ok());
        let session = match &head {
            Some(head) => Cow::Borrowed(&*head.session_id),
            None if line.omitted > 0 && line.of.is_message() => {
                let named = session_named_in(
                    &line.bytes[..line.bytes.len().min(trunkline_protocol::FIRST_BYTES)],
                );
                Cow::Owned(named.map(|id| id.as_str().to_owned()).unwrap_or_default())
            }
            None => Cow::Borrowed(""),
        };
        let mut hidden = Some(Cow::Borrowed(line.bytes));
        if line.of == LineOf::Host && secrets::may_tell(line.bytes) {
            hidden = self.secrets.told(line.process, &session, line.bytes);
        }
        let hidden = hidden.and_then(|bytes| {
            if line.is_clean {
                Some(bytes)
            } else {
                without_secrets(bytes)
            }
        });
        self.put(line, &session, hidden.as_deref());
        if let Some(head) = &head {
            self.follow(line, head);
        }
    }

    /// Appends the record of a line: what of it is kept, and how much is left out.
    fn put(&mut self, line: &WireLine<'_>, session: &str, hidden: Option<&[u8]>) {
        let length = line.bytes.len() as u64 + line.omitted;
        let content = if self.secrets.is_blind(line.process) {
            Content::None
        } else {
            self.content
        };
        let kept = match (hidden, content) {
            // A secret may be cut at the end of the line. In stderr, secrets were hidden before the
            // cut.
            (Some(bytes), Content::Full) if line.omitted > 0 && line.of != LineOf::Stderr => {
                Some(Cow::Borrowed(&bytes[..bytes.len().saturating_sub(MARGIN)]))
            }
            (Some(bytes), Content::Full) => Some(Cow::Borrowed(bytes)),
            (Some(bytes), Content::Head) if line.of.is_message() || line.of == LineOf::Stderr => {
                head(bytes).map(Cow::Owned)
            }
            // Its protocol is another one.
            (Some(_), Content::Head) => None,
            (_, Content::None) | (None, _) => None,
        };
        let is_all = content == Content::Full && hidden.is_some() && line.omitted == 0;
        let omitted = match &kept {
            _ if is_all => 0,
            Some(kept) => length.saturating_sub(kept.len() as u64).max(1),
            None => length.max(1),
        };
        let session = match redact::text(session) {
            clean if *clean == *session => clean,
            // An id that holds a secret is in the line, hidden.
            _ => Cow::Borrowed(""),
        };
        record::line(
            &mut self.block,
            (line.t, line.process),
            &session,
            line.of,
            kept.as_deref(),
            omitted,
        );
    }

    /// Follows which sessions are open, and which questions ask for a secret.
    fn follow(&mut self, line: &WireLine<'_>, head: &Head<'_>) {
        let session = || (line.process, head.session_id.to_string());
        match (line.of, &*head.kind) {
            (LineOf::Host, "session.start") => {
                self.open.insert(session());
            }
            (LineOf::Host, "session.close") | (LineOf::Adapter { .. }, "session.closed") => {
                self.open.remove(&session());
                self.secrets.close(line.process, &head.session_id);
            }
            (LineOf::Adapter { .. }, "input.request") => {
                self.secrets.asked(line.process, head, line.bytes)
            }
            _ => {}
        }
    }

    fn header(&mut self, t: u64) {
        let sessions = self.open.iter().take(SESSIONS);
        let processes = self.processes.iter();
        let header = Header {
            version: VERSION,
            began: self.began.clone(),
            file: self.number,
            complete: self.number == 1 && self.content == Content::Full,
            redacted: true,
            content: self.content,
            processes: processes
                .map(|(process, running)| RunningProcess {
                    process: *process,
                    agent: running.agent.clone(),
                })
                .collect(),
            sessions: sessions
                .map(|(process, session)| OpenSession {
                    process: *process,
                    session: redact::text(session).into_owned(),
                })
                .collect(),
            more_sessions: self.open.len().saturating_sub(SESSIONS) as u64,
        };
        record::other(&mut self.block, t, None, &RecordEvent::Header(header));
    }

    fn rotate(&mut self, t: u64) {
        let file = self.number + 1;
        record::other(&mut self.block, t, None, &RecordEvent::Rotated { file });
        self.flush();
        match self.file.rotate() {
            Ok(()) => {
                self.number += 1;
                self.header(t);
            }
            Err(why) => self.miss(0, Some(&why)),
        }
    }

    /// Writes the gathered records, preceded by one with the number of records that could not be
    /// written.
    fn flush(&mut self) {
        if self.block.is_empty() {
            return;
        }
        let mut block = std::mem::take(&mut self.block);
        let done = self.say_unwritten().and_then(|()| {
            if self.file.is_far_too_full() {
                return Err((
                    0,
                    io::Error::other("it is full, and cannot be kept as the older one"),
                ));
            }
            self.file.append(&block)
        });
        if let Err((written, why)) = done {
            let lines = |bytes: &[u8]| memchr::memchr_iter(b'\n', bytes).count() as u64;
            let lost = lines(&block) - lines(&block[..written]);
            self.unwritten.lines += lost;
            self.unwritten.bytes += (block.len() - written) as u64;
            self.miss(lost, Some(&why));
        }
        block.clear();
        block.shrink_to(4 * BLOCK);
        self.block = block;
    }

    fn say_unwritten(&mut self) -> Result<(), (usize, io::Error)> {
        if self.unwritten.lines > 0 {
            let mut said = Vec::new();
            record::other(&mut said, self.latest, None, &self.unwritten.event());
            self.file.append(&said).map_err(|(_, why)| (0, why))?;
            self.unwritten = Lost::default();
        }
        Ok(())
    }

    /// Counts lines that are not in the file, and warns whenever there are twice as many.
    fn miss(&mut self, lines: u64, why: Option<&io::Error>) {
        let Some(lines) = self.missing.add(lines) else {
            return;
        };
        let why = why.map_or_else(
            || "more passed than could be written".to_owned(),
            ToString::to_string,
        );
        tracing::warn!(lines, path = ?self.path, why, "lines are missing from the wire log");
    }
}

#[cfg(test)]
impl Writer {
    pub(crate) fn replace_file(&mut self, file: std::fs::File) -> std::fs::File {
        self.file.replace(file)
    }
}

/// The line without what is known to be secret. `None` where hiding it breaks a message.
fn without_secrets(line: Cow<'_, [u8]>) -> Option<Cow<'_, [u8]>> {
    let shown = match redact::bytes(&line) {
        Cow::Borrowed(_) => return Some(line),
        Cow::Owned(shown) => shown,
    };
    let is_object =
        |bytes: &[u8]| serde_json::from_slice::<Map<String, serde_json::Value>>(bytes).is_ok();
    let is_json = |bytes: &[u8]| serde_json::from_slice::<IgnoredAny>(bytes).is_ok();
    (!is_json(&line) || is_object(&shown)).then_some(Cow::Owned(shown))
}
