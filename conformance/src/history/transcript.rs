//! A history as JSON lines: what `replay`, `check` and people read.

use std::{
    io::{self, BufRead, Write},
    sync::Arc,
    time::Duration,
};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};

use super::{Event, Intent, Link, Record};
use crate::wire::Parsed;

/// Why a transcript could not be read.
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
        /// What is wrong with it.
        reason: String,
    },
}

/// One record as it stands in a file.
#[derive(Debug, Serialize, Deserialize)]
struct Line {
    /// Nanoseconds since the case began.
    t: u64,
    /// Which process of the stub, counted from 1; absent on the runner's own link.
    #[serde(skip_serializing_if = "Option::is_none")]
    stub: Option<u32>,
    /// Which hub of a journal, counted from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hub: Option<u32>,
    #[serde(flatten)]
    what: What,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
enum What {
    Host {
        #[serde(flatten)]
        bytes: Bytes,
        #[serde(default, skip_serializing_if = "is_false")]
        deviant: bool,
    },
    Adapter {
        #[serde(flatten)]
        bytes: Bytes,
        #[serde(default, skip_serializing_if = "is_false")]
        cut: bool,
        #[serde(default, skip_serializing_if = "is_false")]
        deviant: bool,
    },
    Stderr {
        #[serde(flatten)]
        bytes: Bytes,
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
    fn of(bytes: &[u8]) -> Self {
        match std::str::from_utf8(bytes) {
            Ok(text) => Self::Line(text.to_owned()),
            Err(_) => Self::Base64(BASE64.encode(bytes)),
        }
    }

    fn decode(self) -> Result<Arc<[u8]>, String> {
        match self {
            Self::Line(text) => Ok(text.into_bytes().into()),
            Self::Base64(text) => BASE64.decode(text).map(Into::into).map_err(|error| error.to_string()),
        }
    }
}

/// Writes records as JSON lines.
///
/// # Errors
///
/// What the writer says.
pub(crate) fn write_transcript(records: &[Record], to: &mut impl Write) -> io::Result<()> {
    for record in records {
        let what = match &record.event {
            Event::Host { bytes, intent, .. } => {
                What::Host { bytes: Bytes::of(bytes), deviant: *intent == Intent::Deviant }
            }
            Event::Adapter { bytes, ended, intent, .. } => {
                What::Adapter { bytes: Bytes::of(bytes), cut: !ended, deviant: *intent == Intent::Deviant }
            }
            Event::Stderr(bytes) => What::Stderr { bytes: Bytes::of(bytes) },
            Event::Started { pid } => What::Started { pid: *pid },
            Event::Exited { code, signal } => What::Exited { code: *code, signal: *signal },
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
        let line = Line { t: u64::try_from(record.at.as_nanos()).unwrap_or(u64::MAX), stub, hub, what };
        serde_json::to_writer(&mut *to, &line)?;
        to.write_all(b"\n")?;
    }
    Ok(())
}

/// Reads what [`write_transcript`] wrote.
///
/// # Errors
///
/// When the file cannot be read or a line is not a record.
pub(crate) fn read_transcript(from: impl BufRead) -> Result<Vec<Record>, TranscriptError> {
    let mut records = Vec::new();
    for (index, line) in from.lines().enumerate() {
        let bad = |reason: String| TranscriptError::Line { line: index + 1, reason };
        let line = line?;
        if line.trim().is_empty() {
            continue;
        }
        let line: Line = serde_json::from_str(&line).map_err(|error| bad(error.to_string()))?;
        let intent = |deviant| if deviant { Intent::Deviant } else { Intent::Valid };
        let event = match line.what {
            What::Host { bytes, deviant } => {
                let bytes = bytes.decode().map_err(bad)?;
                let parsed = Arc::new(Parsed::lenient(bytes.strip_suffix(b"\n").unwrap_or(&bytes)));
                Event::Host { bytes, parsed, intent: intent(deviant) }
            }
            What::Adapter { bytes, cut, deviant } => {
                let bytes = bytes.decode().map_err(bad)?;
                let parsed = Arc::new(Parsed::of(&bytes));
                Event::Adapter { bytes, parsed, ended: !cut, intent: intent(deviant) }
            }
            What::Stderr { bytes } => Event::Stderr(bytes.decode().map_err(bad)?),
            What::Started { pid } => Event::Started { pid },
            What::Exited { code, signal } => Event::Exited { code, signal },
            What::StdinClosed => Event::StdinClosed,
            What::StdoutEnded => Event::StdoutEnded,
            What::Fence { upto } => Event::Fence { upto },
            What::Act { act } => Event::Act(act),
            What::Note { note } => Event::Note(note),
        };
        let link = line.stub.map(Link::Lower).or(line.hub.map(Link::Hub)).unwrap_or(Link::Upper);
        records.push(Record { at: Duration::from_nanos(line.t), link, event });
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_is_read_back_as_it_was_written() {
        let host = |bytes: &[u8], intent| Event::Host {
            bytes: bytes.into(),
            parsed: Arc::new(Parsed::of(bytes.strip_suffix(b"\n").unwrap_or(bytes))),
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
            (Link::Upper, Event::Exited { code: Some(0), signal: None }),
        ]
        .into_iter()
        .enumerate()
        .map(|(at, (link, event))| Record { at: Duration::from_millis(at as u64), link, event })
        .collect();
        let mut first = Vec::new();
        write_transcript(&records, &mut first).unwrap();
        let mut second = Vec::new();
        write_transcript(&read_transcript(&first[..]).unwrap(), &mut second).unwrap();
        assert_eq!(String::from_utf8(first).unwrap(), String::from_utf8(second).unwrap());
    }
}
