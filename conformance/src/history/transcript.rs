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
    Event, Intent, Link, Record,
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
struct Line {
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
    what: What,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
enum What {
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
            Event::Host { bytes, intent, .. } => What::Host {
                bytes: Some(Bytes::from_bytes(bytes)),
                deviant: *intent == Intent::Deviant,
            },
            Event::Adapter {
                bytes,
                ended,
                intent,
                ..
            } => What::Adapter {
                bytes: Some(Bytes::from_bytes(bytes)),
                cut: !ended,
                deviant: *intent == Intent::Deviant,
            },
            Event::Stderr(bytes) => What::Stderr {
                bytes: Some(Bytes::from_bytes(bytes)),
            },
            Event::Started { pid } => What::Started { pid: *pid },
            Event::Exited { code, signal } => What::Exited {
                code: *code,
                signal: *signal,
            },
            Event::StdinClosed => What::StdinClosed,
            Event::StdoutEnded => What::StdoutEnded,
            Event::Fence { upto } => What::Fence { upto: *upto },
            Event::Act(act) => What::Act { act: act.clone() },
            Event::Note(note) => What::Note { note: note.clone() },
        };
        let (stub, hub) = match record.link {
            Link::Upper => (None, None),
            Link::Lower(process) => (Some(process), None),
            Link::Hub(hub) => (None, Some(hub)),
        };
        let t = u64::try_from(record.at.as_nanos()).unwrap_or(u64::MAX);
        let line = Line {
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
            .and_then(|line: Line| line.record(index + 1, at, &mut log))
            .unwrap_or_else(|reason| {
                unread = Some(TranscriptError::Line {
                    line: index + 1,
                    reason,
                });
                let at = records.last().map_or(Duration::ZERO, |record| record.at);
                Record {
                    at,
                    link: Link::Upper,
                    event: Event::Note("no record".to_owned()),
                }
            });
        records.push(record);
    }
    match (unread, &log) {
        (Some(error), None) => Err(error),
        _ => Ok(Recording { records, log }),
    }
}

impl Line {
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
            && !matches!(self.what, What::Stderr { .. })
        {
            let why = format!("{omitted} bytes are left out of line {number}");
            match (self.process, &self.session) {
                (Some(process), Some(session)) => log.leave_out(process, session.clone(), why),
                (process, _) => log.lose(Gap { at, process }, why),
            }
        }
        let event = match self.what {
            What::Host { .. } | What::Adapter { .. } if self.omitted.is_some() => {
                Event::Note("a line is left out".to_owned())
            }
            What::Host { bytes, deviant } => {
                let bytes = decoded(bytes)?;
                let parsed = Arc::new(Parsed::lenient(bytes.strip_suffix(b"\n").unwrap_or(&bytes)));
                Event::Host {
                    bytes,
                    parsed,
                    intent: intent(deviant),
                }
            }
            What::Adapter {
                bytes,
                cut,
                deviant,
            } => {
                let bytes = decoded(bytes)?;
                let parsed = Arc::new(Parsed::parse(&bytes));
                Event::Adapter {
                    bytes,
                    parsed,
                    ended: !cut,
                    intent: intent(deviant),
                }
            }
            What::Stderr { bytes: None } if self.omitted.is_some() => Event::Stderr(Arc::default()),
            What::Stderr { bytes } => Event::Stderr(decoded(bytes)?),
            What::Started { pid } => Event::Started { pid },
            What::Exited { code, signal } => Event::Exited { code, signal },
            What::StdinClosed => Event::StdinClosed,
            What::StdoutEnded => Event::StdoutEnded,
            What::Fence { upto } => Event::Fence { upto },
            What::Act { act } => Event::Act(act),
            What::Note { note } => Event::Note(note),
            What::Header {
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
                Event::Note("a file of a wire log begins".to_owned())
            }
            What::Dropped { lines } => {
                let why = format!("{lines} lines are missing at line {number}");
                log.get_or_insert_with(Log::default).lose(
                    Gap {
                        at,
                        process: self.process,
                    },
                    why,
                );
                Event::Note("lines are missing".to_owned())
            }
            What::Rotated {} => Event::Note("the next file begins".to_owned()),
        };
        let lower = self.stub.or(self.process).map(Link::Lower);
        let link = lower.or(self.hub.map(Link::Hub)).unwrap_or(Link::Upper);
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
        let host = |bytes: &[u8], intent| Event::Host {
            bytes: bytes.into(),
            parsed: Arc::new(Parsed::parse(bytes.strip_suffix(b"\n").unwrap_or(bytes))),
            intent,
        };
        let records: Vec<Record> = [
            (Link::Upper, Event::Started { pid: Some(7) }),
            (Link::Lower(9), Event::Started { pid: None }),
            (Link::Upper, host(b"{\"type\":\"stop\"}\n", Intent::Valid)),
            (Link::Upper, host(b"\xff\n", Intent::Deviant)),
            (Link::Hub(2), host(b"{\"type\":\"stop\"}\n", Intent::Valid)),
            (Link::Lower(9), Event::Act(serde_json::json!(["exit", 3]))),
            (Link::Upper, Event::Fence { upto: 4 }),
            (
                Link::Upper,
                Event::Exited {
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
