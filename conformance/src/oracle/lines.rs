//! O-LINE: every line is one JSON object in UTF-8, ended by LF alone ([frame.1], [frame.2], [frame.9]).

use super::Judgement;
use crate::{
    clauses::{Level, Side},
    history::{Event, Link, Record},
    verdict::{Finding, Ground},
    wire::Parsed,
};

/// Judges the lines that one side wrote on one link.
pub(super) fn judge(records: &[Record], link: Link, judged: Side, judgement: &mut Judgement) {
    let killed = records.iter().any(|record| matches!(record.event, Event::Exited { signal: Some(_), .. }));
    for (index, record) in records.iter().enumerate() {
        if record.link != link {
            continue;
        }
        let (line, parsed, ended) = match (&record.event, judged) {
            (Event::Adapter { bytes, parsed, ended, .. }, Side::Adapter) => (&bytes[..], parsed, *ended),
            (Event::Host { bytes, parsed, .. }, Side::Host) => match bytes.strip_suffix(b"\n") {
                Some(line) => (line, parsed, true),
                None => (&bytes[..], parsed, false),
            },
            _ => continue,
        };
        let mut found = |clause: &'static str, level, expected: &str, got: String, hint: Option<&str>| {
            judgement.findings.push(Finding {
                clause: clause.into(),
                level,
                check: "O-LINE",
                sent: String::new(),
                expected: expected.to_owned(),
                got,
                hint: hint.map(str::to_owned),
                ground: Ground::Seen,
                record: Some(index),
            });
        };
        if !ended {
            // The runner or the case killed it in the middle of a line: nothing is proved by that.
            if !killed {
                found(
                    "frame.1",
                    Level::Must,
                    "every message ends with LF",
                    format!("{} without LF", shown(line)),
                    None,
                );
            }
            continue;
        }
        match &**parsed {
            Parsed::Noise(reason) => {
                let bom = line.starts_with(b"\xef\xbb\xbf");
                let clause = if bom || line.starts_with(b"{") { "frame.1" } else { "frame.9" };
                let hint = if bom {
                    "it begins with a byte order mark"
                } else if clause == "frame.1" {
                    "a message that is cut or mixed with another: write each whole, in one write, under one lock"
                } else {
                    "logs and banners belong on stderr; libraries that print must be told so"
                };
                let expected = "every line on stdout is one JSON object in UTF-8";
                found(clause, Level::Must, expected, format!("{} ({reason})", shown(line)), Some(hint));
            }
            Parsed::Blank => {
                found("frame.1", Level::Should, "no blank lines", "a blank line".to_owned(), None);
            }
            Parsed::Message(_) => {
                if line.last() == Some(&b'\r') {
                    let hint = "a text stream turned LF into CRLF; write bytes";
                    found("frame.1", Level::Should, "lines end with LF alone", "CRLF".to_owned(), Some(hint));
                }
                if contains_separator(line) {
                    let expected = "U+2028 and U+2029 are written as escapes";
                    found("frame.2", Level::Should, expected, shown(line), None);
                }
            }
        }
    }
}

/// Whether U+2028 or U+2029 stands in a line.
fn contains_separator(mut line: &[u8]) -> bool {
    while let Some(at) = line.iter().position(|byte| *byte == 0xe2) {
        line = &line[at + 1..];
        if matches!(line, [0x80, 0xa8 | 0xa9, ..]) {
            return true;
        }
    }
    false
}

/// A line as a report shows it.
pub(crate) fn shown(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(&line[..line.len().min(120)]);
    let more = if line.len() > 120 { format!("… ({} bytes)", line.len()) } else { String::new() };
    format!("{:?}{more}", text)
}
