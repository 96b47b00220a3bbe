//! A history as JSON lines, for `replay`, `check` and people. A host's wire log has the same form,
//! and reports its missing parts.

use std::{
    io::{self, BufRead, Write},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};

use super::{
    Intent, PipePair, Record, RecordedEvent,
    log::{Gap, Log, Recording},
};
use crate::wire::Parsed;

/// Error of a transcript that could not be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TranscriptError {
    /// The file could not be read.
    #[error("could not read the transcript")]
    Io(#[from] io::Error),
    /// A line is not a record.
    #[error("line {line} of the transcript is not a record: {reason}")]
    Line {
        /// Counted from 1.
        line: usize,
        /// Problem.
        reason: String,
    },
}

/// A record, as in a file.
#[derive(Debug, Serialize, Deserialize)]
struct RecordLine {
    /// Nanoseconds since the case began.
    t: u64,
    /// Process of the stub, from 1; absent on the runner's own link.
    #[serde(skip_serializing_if = "Option::is_none")]
    stub: Option<u32>,
    /// Hub of a journal, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hub: Option<u32>,
    /// Run of an adapter, in a wire log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    process: Option<u32>,
    /// The session that a line names, in a wire log.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    session: Option<String>,
    /// Number of the line's bytes that a wire log omits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    omitted: Option<u64>,
    #[serde(flatten)]
    what: RecordContent,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
enum RecordContent {
    Host {
        #[serde(flatten)]
        bytes: Option<Bytes>,
        #[serde(default, skip_serializing_if = "is_false")]
        deviant: bool,
    },
    Adapter {
        #[serde(flatten)]
        bytes: Option<Bytes>,
        #[serde(default, skip_serializing_if = "is_false")]
        cut: bool,
        #[serde(default, skip_serializing_if = "is_false")]
        deviant: bool,
    },
    Stderr {
        #[serde(flatten)]
        bytes: Option<Bytes>,
    },
    Started {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        pid: Option<u32>,
    },
    Exited {
        code: Option<i32>,
        signal: Option<i32>,
    },
    StdinClosed,
    StdoutEnded,
    Fence {
        upto: usize,
    },
    Act {
        act: serde_json::Value,
    },
    Note {
        note: String,
    },
    /// The beginning of a file of a wire log.
    #[serde(skip_serializing)]
    Header {
        complete: bool,
        content: String,
        #[serde(default)]
        sessions: Vec<OpenSession>,
    },
    #[serde(skip_serializing)]
    Dropped {
        lines: u64,
    },
    #[serde(skip_serializing)]
    Rotated {},
}

/// A session that is open where a file of a wire log begins.
#[derive(Debug, Serialize, Deserialize)]
struct OpenSession {
    process: u32,
    session: String,
}

/// Bytes as text where they are text.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Bytes {
    Line(String),
    Base64(String),
}

fn is_false(flag: &bool) -> bool {
    !flag
}

impl Bytes {
    fn from_bytes(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Line(text.to_owned()),
            Err(_) => Self::Base64(BASE64.encode(bytes)),
        }
    }

    fn decode(self) -> Result<Arc<[u8]>, String> {
        match self {
            Self::Line(text) => Ok(text.into_bytes().into()),
            Self::Base64(text) => BASE64
                .decode(text)
                .map(Into::into)
                .map_err(|error| error.to_string()),
        }
    }
}

/// Writes records as JSON lines.
///
/// # Errors
///
/// The writer's error.
pub(crate) fn write_transcript(records: &[Record], to: &mut impl Write) -> io::Result<()> {
    for record in records {
        let what = match &record.event {
            RecordedEvent::Host { bytes, intent, .. } => RecordContent::Host {
                bytes: Some(Bytes::from_bytes(bytes)),
                deviant: *intent == Intent::Deviant,
            },
            RecordedEvent::Adapter {
                bytes,
                ended,
                intent,
                ..
            } => RecordContent::Adapter {
                bytes: Some(Bytes::from_bytes(bytes)),
                cut: !ended,
                deviant: *intent == Intent::Deviant,
            },
            RecordedEvent::Stderr(bytes) => RecordContent::Stderr {
                bytes: Some(Bytes::from_bytes(bytes)),
            },
            RecordedEvent::Started { pid } => RecordContent::Started { pid: *pid },
            RecordedEvent::Exited { code, signal } => RecordContent::Exited {
                code: *code,
                signal: *signal,
            },
            RecordedEvent::StdinClosed => RecordContent::StdinClosed,
            RecordedEvent::StdoutEnded => RecordContent::StdoutEnded,
            RecordedEvent::Fence { upto } => RecordContent::Fence { upto: *upto },
            RecordedEvent::Act(act) => RecordContent::Act { act: act.clone() },
            RecordedEvent::Note(note) => RecordContent::Note { note: note.clone() },
        };
        let (stub, hub) = match record.link {
            PipePair::Upper => (None, None),
            PipePair::Lower(process) => (Some(process), None),
            PipePair::Hub(hub) => (None, Some(hub)),
        };
        let t = u64::try_from(record.at.as_nanos()).unwrap_or(u64::MAX);
        let line = RecordLine {
            t,
            stub,
            hub,
            process: None,
            session: None,
            omitted: None,
            what,
        };
        serde_json::to_writer(&mut *to, &line)?;
        to.write_all(b"\n")?;
    }
    Ok(())
}

/// Reads what [`write_transcript`] wrote, or a host's wire log.
///
/// # Errors
///
/// When the file cannot be read or a line is not a record. Of a wire log such a line is a gap; its
/// last one may be cut.
pub(crate) fn read_recording(from: impl BufRead) -> Result<Recording, TranscriptError> {
    let mut records: Vec<Record> = Vec::new();
    let mut log: Option<Log> = None;
    let mut unread: Option<TranscriptError> = None;
    for (index, line) in from.lines().enumerate() {
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        if let Some(error) = unread.take() {
            // It was not the last one.
            let Some(log) = &mut log else {
                return Err(error);
            };
            log.lose(
                Gap {
                    at: records.len() - 1,
                    process: None,
                },
                error.to_string(),
            );
        }
        let at = records.len();
        let read = serde_json::from_str(&line).map_err(|error| error.to_string());
        let record = read
            .and_then(|line: RecordLine| line.record(index + 1, at, &mut log))
            .unwrap_or_else(|reason| {
                unread = Some(TranscriptError::Line {
                    line: index + 1,
                    reason,
                });
                let at = records.last().map_or(Duration::ZERO, |record| record.at);
                Record {
                    at,
                    link: PipePair::Upper,
                    event: RecordedEvent::Note("no record".to_owned()),
                }
            });
        records.push(record);
    }
    match (unread, &log) {
        (Some(error), None) => Err(error),
        _ => Ok(Recording { records, log }),
    }
}

impl RecordLine {
    /// Converts this line, counted from 1, to the record at this place; adds a wire log's
    /// information about itself to `log`.
    fn record(self, number: usize, at: usize, log: &mut Option<Log>) -> Result<Record, String> {
        let intent = |deviant| {
            if deviant {
                Intent::Deviant
            } else {
                Intent::Valid
            }
        };
        if let (Some(omitted), Some(log)) = (self.omitted, log.as_mut())
            && !matches!(self.what, RecordContent::Stderr { .. })
        {
            let why = format!("{omitted} bytes are left out of line {number}");
            match (self.process, &self.session) {
                (Some(process), Some(session)) => log.leave_out(process, session.clone(), why),
                (process, _) => log.lose(Gap { at, process }, why),
            }
        }
        let event = match self.what {
            RecordContent::Host { .. } | RecordContent::Adapter { .. }
                if self.omitted.is_some() =>
            {
                RecordedEvent::Note("a line is left out".to_owned())
            }
            RecordContent::Host { bytes, deviant } => {
                let bytes = decoded(bytes)?;
                let parsed = Arc::new(Parsed::lenient(bytes.strip_suffix(b"\n").unwrap_or(&bytes)));
                RecordedEvent::Host {
                    bytes,
                    parsed,
                    intent: intent(deviant),
                }
            }
            RecordContent::Adapter {
                bytes,
                cut,
                deviant,
            } => {
                let bytes = decoded(bytes)?;
                let parsed = Arc::new(Parsed::parse(&bytes));
                RecordedEvent::Adapter {
                    bytes,
                    parsed,
                    ended: !cut,
                    intent: intent(deviant),
                }
            }
            RecordContent::Stderr { bytes: None } if self.omitted.is_some() => {
                RecordedEvent::Stderr(Arc::default())
            }
            RecordContent::Stderr { bytes } => RecordedEvent::Stderr(decoded(bytes)?),
            RecordContent::Started { pid } => RecordedEvent::Started { pid },
            RecordContent::Exited { code, signal } => RecordedEvent::Exited { code, signal },
            RecordContent::StdinClosed => RecordedEvent::StdinClosed,
            RecordContent::StdoutEnded => RecordedEvent::StdoutEnded,
            RecordContent::Fence { upto } => RecordedEvent::Fence { upto },
            RecordContent::Act { act } => RecordedEvent::Act(act),
            RecordContent::Note { note } => RecordedEvent::Note(note),
            RecordContent::Header {
                complete,
                content,
                sessions,
            } => {
                let log = log.get_or_insert_with(Log::default);
                if content != "full" {
                    log.lose(
                        Gap { at, process: None },
                        format!("its content is `{content}`"),
                    );
                } else if !complete {
                    log.lose(
                        Gap { at, process: None },
                        "its beginning is in an older file".to_owned(),
                    );
                }
                for OpenSession { process, session } in sessions {
                    log.leave_out(
                        process,
                        session,
                        format!("a session was open at line {number}"),
                    );
                }
                RecordedEvent::Note("a file of a wire log begins".to_owned())
            }
            RecordContent::Dropped { lines } => {
                let why = format!("{lines} lines are missing at line {number}");
                log.get_or_insert_with(Log::default).lose(
                    Gap {
                        at,
                        process: self.process,
                    },
                    why,
                );
                RecordedEvent::Note("lines are missing".to_owned())
            }
            RecordContent::Rotated {} => RecordedEvent::Note("the next file begins".to_owned()),
        };
        let lower = self.stub.or(self.process).map(PipePair::Lower);
        let link = lower
            .or(self.hub.map(PipePair::Hub))
            .unwrap_or(PipePair::Upper);
        Ok(Record {
            at: Duration::from_nanos(self.t),
            link,
            event,
        })
    }
}

fn decoded(bytes: Option<Bytes>) -> Result<Arc<[u8]>, String> {
    bytes.ok_or_else(|| "it has no `line`".to_owned())?.decode()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_read_back_as_it_was_written() {
        let host = |bytes: &[u8], intent| RecordedEvent::Host {
            bytes: bytes.into(),
            parsed: Arc::new(Parsed::parse(bytes.strip_suffix(b"\n").unwrap_or(bytes))),
            intent,
        };
        let records: Vec<Record> = [
            (PipePair::Upper, RecordedEvent::Started { pid: Some(7) }),
            (PipePair::Lower(9), RecordedEvent::Started { pid: None }),
            (
                PipePair::Upper,
                host(b"{\"type\":\"stop\"}\n", Intent::Valid),
            ),
            (PipePair::Upper, host(b"\xff\n", Intent::Deviant)),
            (
                PipePair::Hub(2),
                host(b"{\"type\":\"stop\"}\n", Intent::Valid),
            ),
            (
                PipePair::Lower(9),
                RecordedEvent::Act(serde_json::json!(["exit", 3])),
            ),
            (PipePair::Upper, RecordedEvent::Fence { upto: 4 }),
            (
                PipePair::Upper,
                RecordedEvent::Exited {
                    code: Some(0),
                    signal: None,
                },
            ),
        ]
        .into_iter()
        .enumerate()
        .map(|(at, (link, event))| Record {
            at: Duration::from_millis(at as u64),
            link,
            event,
        })
        .collect();
        let mut first = Vec::new();
        write_transcript(&records, &mut first).unwrap();
        let mut second = Vec::new();
        write_transcript(&read_recording(&first[..]).unwrap().records, &mut second).unwrap();
        assert_eq!(
            String::from_utf8(first).unwrap(),
            String::from_utf8(second).unwrap()
        );
    }
}
