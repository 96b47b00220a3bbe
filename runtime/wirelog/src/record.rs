//! The records: how they are written, and what a reader gets.

use std::io::Write;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde::{Deserialize, Serialize};
use trunkline_protocol::{AdapterBody, Head, HostBody, Unread};

use crate::Content;

/// The version of the format that a header names.
pub const VERSION: u32 = 1;

/// A line of a log.
#[derive(Debug, Clone, Deserialize)]
pub struct Record {
    /// Nanoseconds since the log began.
    pub t: u64,
    /// Number of the adapter's run, from 1.
    #[serde(default)]
    pub process: Option<u32>,
    /// The session that a message names.
    #[serde(default)]
    pub session: Option<String>,
    /// The event.
    #[serde(flatten)]
    pub event: RecordEvent,
}

/// The event of a record.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "ev", rename_all = "snake_case")]
#[non_exhaustive]
pub enum RecordEvent {
    /// The first record of a file.
    Header(Header),
    /// The adapter runs.
    Started {
        /// The agent's id.
        #[serde(default)]
        agent: Option<String>,
        /// Process id.
        #[serde(default)]
        pid: Option<u32>,
    },
    /// A message of the host.
    Host {
        /// The line, with its LF.
        #[serde(flatten)]
        text: Text,
    },
    /// A line of the adapter.
    Adapter {
        /// The line without its LF.
        #[serde(flatten)]
        text: Text,
        /// True if no LF ended it.
        #[serde(default)]
        cut: bool,
    },
    /// A line of stderr.
    Stderr {
        /// The line without its LF.
        #[serde(flatten)]
        text: Text,
    },
    /// A line of a built-in adapter to the agent that it wraps.
    ToAgent {
        /// The number of the agent process, counted from 1 in this run of the adapter.
        #[serde(default)]
        agent_process: u32,
        /// The line without its LF.
        #[serde(flatten)]
        text: Text,
    },
    /// A line of the agent that a built-in adapter wraps.
    FromAgent {
        /// As above.
        #[serde(default)]
        agent_process: u32,
        /// As above.
        #[serde(flatten)]
        text: Text,
    },
    /// The host has closed the adapter's input.
    StdinClosed,
    /// The adapter's output has ended.
    StdoutEnded,
    /// The process has ended.
    Exited {
        /// Exit status.
        #[serde(default)]
        code: Option<i32>,
        /// The signal that ended it.
        #[serde(default)]
        signal: Option<i32>,
    },
    /// Lines are missing here: the log was behind, or the file could not be written.
    Dropped {
        /// Number of lines, or parts of lines.
        lines: u64,
        /// Their bytes.
        bytes: u64,
    },
    /// The last record of a full file: the log continues in the next one.
    Rotated {
        /// The number of the next file of this log.
        file: u64,
    },
    /// A remark of the log.
    Note {
        /// The remark.
        note: String,
    },
    /// A record of another writer.
    #[serde(other)]
    Unknown,
}

/// Bytes, as text where they are text.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Text {
    #[serde(default)]
    line: Option<String>,
    #[serde(default)]
    base64: Option<String>,
    /// Number of omitted bytes; the rest is the beginning of the line, or its head.
    #[serde(default)]
    pub omitted: u64,
}

/// The content of a file's first record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Header {
    /// The version of the format.
    pub version: u32,
    /// When the log began, as RFC 3339.
    pub began: String,
    /// Number of this file, from 1.
    pub file: u64,
    /// True if nothing before this record is missing from this file, and lines are kept in full.
    pub complete: bool,
    /// True if secrets are hidden.
    pub redacted: bool,
    /// Logged part of each line.
    pub content: Content,
    /// The adapters that run at this point.
    #[serde(default)]
    pub processes: Vec<RunningProcess>,
    /// The sessions that are open at this point.
    #[serde(default)]
    pub sessions: Vec<OpenSession>,
    /// Number of open sessions that are not listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_sessions: u64,
}

/// An adapter that runs where a file begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunningProcess {
    /// Number of the run.
    pub process: u32,
    /// The agent's id.
    pub agent: String,
}

/// A session that is open where a file begins.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenSession {
    /// The number of its adapter's run.
    pub process: u32,
    /// Id on the wire.
    pub session: String,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "serde passes a reference"
)]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

impl Text {
    /// The bytes that were kept.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        match (&self.line, &self.base64) {
            (Some(line), _) => line.clone().into_bytes(),
            // What does not decode was not written by a log.
            (None, Some(base64)) => BASE64.decode(base64).unwrap_or_default(),
            (None, None) => Vec::new(),
        }
    }

    /// The text that was kept, what is not UTF-8 replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes()).into_owned()
    }
}

/// Returns the reason why a whole line of the adapter or the host is not a message that this
/// version understands, or `None` if it is one or blank.
#[must_use]
pub fn not_understood(line: &[u8], from_host: bool) -> Option<String> {
    let Ok(text) = std::str::from_utf8(line) else {
        return Some("it is not UTF-8".to_owned());
    };
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).trim_ascii();
    if text.is_empty() {
        return None;
    }
    let read = |head: Head<'_>| {
        if from_host {
            head.message::<HostBody>().map(drop)
        } else {
            head.message::<AdapterBody>().map(drop)
        }
    };
    let why: Unread = Head::read(text).and_then(read).err()?;
    Some(why.to_string())
}

/// The kinds of records that hold a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineOf {
    Host,
    Adapter { cut: bool },
    Stderr,
    ToAgent { agent_process: u32 },
    FromAgent { agent_process: u32 },
}

impl LineOf {
    /// Returns true for a line of the protocol.
    pub(crate) fn is_message(self) -> bool {
        matches!(self, Self::Host | Self::Adapter { .. })
    }
}

/// Appends the record of a line. `kept` is empty if the content is not logged.
pub(crate) fn line(
    out: &mut Vec<u8>,
    (t, process): (u64, u32),
    session: &str,
    of: LineOf,
    kept: Option<&[u8]>,
    omitted: u64,
) {
    let (name, end) = match of {
        LineOf::Host => ("host", "\n"),
        LineOf::Adapter { .. } => ("adapter", ""),
        LineOf::Stderr => ("stderr", ""),
        LineOf::ToAgent { .. } => ("to_agent", ""),
        LineOf::FromAgent { .. } => ("from_agent", ""),
    };
    begin(out, t, process);
    if !session.is_empty() {
        out.extend_from_slice(b",\"session\":");
        string(out, session);
    }
    out.extend_from_slice(b",\"ev\":\"");
    out.extend_from_slice(name.as_bytes());
    out.push(b'"');
    match kept.map(std::str::from_utf8) {
        Some(Ok(text)) => {
            out.extend_from_slice(b",\"line\":");
            string(out, text);
            if !end.is_empty() && omitted == 0 {
                out.pop();
                out.extend_from_slice(b"\\n\"");
            }
        }
        Some(Err(_)) => {
            out.extend_from_slice(b",\"base64\":\"");
            out.extend_from_slice(
                BASE64
                    .encode([kept.unwrap_or_default(), end.as_bytes()].concat())
                    .as_bytes(),
            );
            out.push(b'"');
        }
        None => {}
    }
    if omitted > 0 {
        number(out, "omitted", omitted);
    }
    match of {
        LineOf::Adapter { cut: true } => out.extend_from_slice(b",\"cut\":true"),
        LineOf::ToAgent { agent_process } | LineOf::FromAgent { agent_process } => {
            number(out, "agent_process", agent_process.into());
        }
        _ => {}
    }
    out.extend_from_slice(b"}\n");
}

/// Appends another record.
pub(crate) fn other(out: &mut Vec<u8>, t: u64, process: Option<u32>, event: &RecordEvent) {
    let Ok(serde_json::Value::Object(members)) = serde_json::to_value(event) else {
        return;
    };
    match process {
        Some(process) => begin(out, t, process),
        None => integer(out, b"{\"t\":", t),
    }
    for (name, value) in members {
        out.push(b',');
        string(out, &name);
        out.push(b':');
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(&mut *out, &value);
    }
    out.extend_from_slice(b"}\n");
}

fn begin(out: &mut Vec<u8>, t: u64, process: u32) {
    integer(out, b"{\"t\":", t);
    integer(out, b",\"process\":", process.into());
}

fn number(out: &mut Vec<u8>, name: &str, value: u64) {
    out.extend_from_slice(b",\"");
    out.extend_from_slice(name.as_bytes());
    integer(out, b"\":", value);
}

fn integer(out: &mut Vec<u8>, before: &[u8], value: u64) {
    out.extend_from_slice(before);
    // As above.
    let _ = write!(out, "{value}");
}

fn string(out: &mut Vec<u8>, text: &str) {
    // As above.
    let _ = serde_json::to_writer(out, text);
}
