//! O-LINE: every line is one JSON object in UTF-8, ended by a single LF ([frame.1], [frame.2],
//! [frame.9]).

use super::OracleJudgement;
use crate::{
    clauses::{Level, Side},
    history::{PipePair, Record, RecordedEvent},
    verdict::{EvidenceGround, Finding},
    wire::Parsed,
};

/// Judges the lines that one side wrote on one link.
pub(super) fn judge(
    records: &[Record],
    link: PipePair,
    judged: Side,
    judgement: &mut OracleJudgement,
) {
    let killed = records.iter().any(|record| {
        matches!(
            record.event,
            RecordedEvent::Exited {
                signal: Some(_),
                ..
            }
        )
    });
    for (index, record) in records.iter().enumerate() {
        if record.link != link {
            continue;
        }
        let (line, parsed, ended) = match (&record.event, judged) {
            (
                RecordedEvent::Adapter {
                    bytes,
                    parsed,
                    ended,
                    ..
                },
                Side::Adapter,
            ) => (&bytes[..], parsed, *ended),
            (RecordedEvent::Host { bytes, parsed, .. }, Side::Host) => {
                match bytes.strip_suffix(b"\n") {
                    Some(line) => (line, parsed, true),
                    None => (&bytes[..], parsed, false),
                }
            }
            _ => continue,
        };
        let mut found =
            |clause: &'static str, level, expected: &str, got: String, hint: Option<&str>| {
                judgement.findings.push(Finding {
                    clause: clause.into(),
                    level,
                    check: "O-LINE",
                    sent: String::new(),
                    expected: expected.to_owned(),
                    got,
                    hint: hint.map(str::to_owned),
                    ground: EvidenceGround::Seen,
                    record: Some(index),
                });
            };
        if !ended {
            // The runner or the case killed it in the middle of a line, or a host gave up on an
            // adapter that did not read: nothing is proved by that.
            let given_up = judged == Side::Host && parsed.message().is_none();
            if !killed && !given_up {
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
                let clause = if bom || line.starts_with(b"{") {
                    "frame.1"
                } else {
                    "frame.9"
                };
                let hint = if bom {
                    "it begins with a byte order mark"
                } else if clause == "frame.1" {
                    "a message that is cut or mixed with another: write each whole, in one write, under one lock"
                } else {
                    "logs and banners belong on stderr; configure libraries that print"
                };
                let expected = "every line on stdout is one JSON object in UTF-8";
                found(
                    clause,
                    Level::Must,
                    expected,
                    format!("{} ({reason})", shown(line)),
                    Some(hint),
                );
            }
            Parsed::Blank => {
                found(
                    "frame.1",
                    Level::Should,
                    "no blank lines",
                    "a blank line".to_owned(),
                    None,
                );
            }
            Parsed::Message(_) => {
                if line.last() == Some(&b'\r') {
                    let hint = "a text stream turned LF into CRLF; write bytes";
                    found(
                        "frame.1",
                        Level::Should,
                        "lines end with a single LF",
                        "CRLF".to_owned(),
                        Some(hint),
                    );
                }
                if contains_separator(line) {
                    let expected = "U+2028 and U+2029 are written as escapes";
                    found("frame.2", Level::Should, expected, shown(line), None);
                }
            }
        }
    }
}

/// Returns true if a line contains U+2028 or U+2029.
fn contains_separator(mut line: &[u8]) -> bool {
    while let Some(at) = memchr::memchr(0xe2, line) {
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
    let more = if line.len() > 120 {
        format!("… ({} bytes)", line.len())
    } else {
        String::new()
    };
    format!("{:?}{more}", text)
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::*;
    use crate::history::Intent;

    #[test]
    fn a_host_that_gives_up_in_the_middle_of_a_line_breaks_nothing() {
        let found = |line: &str| {
            let event = RecordedEvent::Host {
                bytes: line.as_bytes().into(),
                parsed: Arc::new(Parsed::lenient(line.trim_end_matches('\n').as_bytes())),
                intent: Intent::Valid,
            };
            let mut judgement = OracleJudgement::default();
            let records = [Record {
                at: Duration::ZERO,
                link: PipePair::Lower(1),
                event,
            }];
            judge(&records, PipePair::Lower(1), Side::Host, &mut judgement);
            judgement.findings.len()
        };
        assert_eq!(found("{\"type\":\"stop\",\"session_id\":\"s\"}\n"), 0);
        assert_eq!(found("{\"type\":\"stop\",\"sess"), 0, "cut");
        assert_eq!(
            found("{\"type\":\"stop\",\"session_id\":\"s\"}"),
            1,
            "whole, without LF"
        );
        assert_eq!(found("stop\n"), 1, "noise");
    }
}
