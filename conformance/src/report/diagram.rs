//! Events of a case as a sequence of rows: the source of the plain text and of the drawing.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{
    history::{PipePair, Record, RecordedEvent},
    printable::{cut, short},
    verdict::Finding,
    wire::{self, Message, Parsed},
};

/// Shown length of a message's text.
const TEXT: usize = 48;
/// A run of rows that is longer than this and of one kind is folded.
const RUN: usize = 6;

/// A row: a message, or an event of the process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct DiagramRow {
    /// Milliseconds since the case began.
    pub t_ms: f64,
    /// Direction.
    pub way: RowDirection,
    /// The adapter's place among those under a host, from 1; absent on the pipe to the program
    /// under test.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub adapter: Option<usize>,
    /// The type of the message, or what happened.
    pub what: String,
    /// The session.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub session: String,
    /// Further details.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Fault.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

/// Direction of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum RowDirection {
    /// To the adapter's side.
    Down,
    /// To the host's side.
    Up,
    /// Nowhere: it happened to the program.
    Here,
}

/// The rows of a history, at most `most` of them, those around what the findings point at kept first.
pub(super) fn rows(records: &[Record], findings: &[Finding], most: usize) -> Vec<DiagramRow> {
    let mut order: Vec<usize> = (0..records.len()).collect();
    order.sort_by_key(|&index| records[index].at);
    let mut adapters: Vec<u32> = Vec::new();
    let mut all = Vec::new();
    for index in order {
        let record = &records[index];
        let adapter = match record.link {
            PipePair::Upper | PipePair::Hub(_) => None,
            PipePair::Lower(process) => {
                Some(match adapters.iter().position(|known| *known == process) {
                    Some(place) => place + 1,
                    None => {
                        adapters.push(process);
                        adapters.len()
                    }
                })
            }
        };
        let Some((way, what, mut session, detail)) = cells(records, record) else {
            continue;
        };
        if let PipePair::Hub(hub @ 2..) = record.link {
            session = format!("{session} (hub {hub})");
        }
        let mark = findings
            .iter()
            .find(|finding| finding.record == Some(index));
        let mark = mark.map(|finding| format!("[{}] {}", finding.clause, short(&finding.got, 90)));
        all.push(DiagramRow {
            t_ms: millis(record.at),
            way,
            adapter,
            what,
            session,
            detail,
            mark,
        });
    }
    window(fold(&all), most)
}

type Cells = (RowDirection, String, String, String);

fn cells(records: &[Record], record: &Record) -> Option<Cells> {
    let here = |what: &str, detail: String| {
        Some((RowDirection::Here, what.to_owned(), String::new(), detail))
    };
    match &record.event {
        RecordedEvent::Host { bytes, parsed, .. } => Some(line(
            RowDirection::Down,
            bytes,
            parsed,
            bytes.ends_with(b"\n"),
        )),
        RecordedEvent::Adapter {
            bytes,
            parsed,
            ended,
            ..
        } => Some(line(RowDirection::Up, bytes, parsed, *ended)),
        RecordedEvent::Stderr(bytes) => here("stderr", quoted(&String::from_utf8_lossy(bytes))),
        RecordedEvent::Started { pid } => here(
            "started",
            pid.map(|pid| format!("process {pid}")).unwrap_or_default(),
        ),
        RecordedEvent::Exited { code, signal } => here(
            "exited",
            match (code, signal) {
                (Some(code), _) => format!("status {code}"),
                (None, Some(signal)) => format!("signal {signal}"),
                (None, None) => String::new(),
            },
        ),
        RecordedEvent::StdinClosed => here("stdin closed", String::new()),
        RecordedEvent::StdoutEnded => here("stdout ended", String::new()),
        RecordedEvent::Fence { upto } => {
            let since = upto
                .checked_sub(1)
                .and_then(|last| records.get(last))
                .map(|last| last.at);
            let since = since.unwrap_or_default().as_secs_f64();
            here(
                "fence",
                format!("answered: all written by t={since:.3} has been read"),
            )
        }
        RecordedEvent::Act(act) => here("act", short(&act.to_string(), 2 * TEXT)),
        RecordedEvent::Note(note) => here("note", short(note, 3 * TEXT)),
    }
}

fn line(way: RowDirection, bytes: &[u8], parsed: &Parsed, ended: bool) -> Cells {
    let mut detail = match parsed {
        Parsed::Message(message) => of_message(message),
        Parsed::Blank => String::new(),
        Parsed::Noise(reason) => {
            let head = bytes.get(..TEXT * 4).unwrap_or(bytes);
            format!(
                "{} ({})",
                quoted(String::from_utf8_lossy(head).trim_end()),
                short(reason, 80)
            )
        }
    };
    if bytes.len() > 1_024 {
        detail.push_str(&format!("  ({} bytes)", bytes.len()));
    }
    if !ended {
        detail.push_str("  (no LF)");
    }
    match parsed {
        Parsed::Message(message) => {
            let kind = match wire::kind(message) {
                "" => "no type".to_owned(),
                kind => short(kind, 40),
            };
            (way, kind, short(wire::session(message), 24), detail)
        }
        Parsed::Blank => (way, "blank line".to_owned(), String::new(), detail),
        Parsed::Noise(_) => (way, "no message".to_owned(), String::new(), detail),
    }
}

/// Returns the details of a message besides its type and session.
fn of_message(message: &Message) -> String {
    let mut parts = Vec::new();
    for (member, value) in message {
        let shown = match value {
            _ if member == "type" || member == "session_id" => continue,
            serde_json::Value::String(text) if member == "content" => {
                parts.insert(0, quoted(text));
                continue;
            }
            serde_json::Value::String(text) => short(text, TEXT),
            other => short(&other.to_string(), TEXT),
        };
        parts.push(format!("{}={shown}", short(member, 24)));
    }
    let more = parts.len().saturating_sub(5);
    parts.truncate(5);
    if more > 0 {
        parts.push(format!("and {more} more"));
    }
    parts.join(" ")
}

fn quoted(text: &str) -> String {
    format!("\"{}\"", short(text, TEXT))
}

fn millis(at: Duration) -> f64 {
    (at.as_secs_f64() * 1e6).round() / 1e3
}

/// Folds long runs of rows of one kind.
fn fold(rows: &[DiagramRow]) -> Vec<DiagramRow> {
    let alike = |a: &DiagramRow, b: &DiagramRow| {
        (a.way, a.adapter, &a.what, &a.session) == (b.way, b.adapter, &b.what, &b.session)
            && a.mark.is_none()
            && b.mark.is_none()
    };
    let mut folded: Vec<DiagramRow> = Vec::new();
    for run in rows.chunk_by(alike) {
        if run.len() <= RUN {
            folded.extend_from_slice(run);
            continue;
        }
        folded.extend_from_slice(&run[..2]);
        let what = format!("{} more", run.len() - 4);
        let detail = String::new();
        folded.push(DiagramRow {
            what: format!("… {what} of {}", run[2].what),
            way: RowDirection::Here,
            detail,
            ..run[2].clone()
        });
        folded.extend_from_slice(&run[run.len() - 2..]);
    }
    folded
}

/// Returns at most `most` rows: the last ones, or a marked one with its predecessors, if there is
/// one.
fn window(rows: Vec<DiagramRow>, most: usize) -> Vec<DiagramRow> {
    if rows.len() <= most {
        return rows;
    }
    let marked = rows.iter().position(|row| row.mark.is_some());
    let after = most / 4;
    let end = marked
        .map_or(rows.len(), |marked| (marked + 1 + after).min(rows.len()))
        .max(most);
    let start = end - most;
    let gap = |count: usize, at: &DiagramRow| DiagramRow {
        what: format!("… {count} rows left out"),
        way: RowDirection::Here,
        adapter: None,
        session: String::new(),
        detail: String::new(),
        mark: None,
        t_ms: at.t_ms,
    };
    let mut kept = Vec::with_capacity(most + 2);
    if start > 0 {
        kept.push(gap(start, &rows[start]));
    }
    kept.extend_from_slice(&rows[start..end]);
    if end < rows.len() {
        kept.push(gap(rows.len() - end, &rows[end]));
    }
    kept
}

/// Returns the rows as lines of text: arrows to the right go to the adapter's side; a second column
/// of arrows shows the pipes between a host under test and its adapters.
pub(super) fn lines(rows: &[DiagramRow]) -> Vec<String> {
    let below = rows.iter().any(|row| row.adapter.is_some());
    let session = rows
        .iter()
        .map(|row| row.session.chars().count())
        .max()
        .unwrap_or_default();
    let what = rows
        .iter()
        .map(|row| row.what.chars().count())
        .max()
        .unwrap_or_default()
        .min(24);
    rows.iter()
        .map(|row| {
            let arrow = match row.way {
                RowDirection::Down => "->",
                RowDirection::Up => "<-",
                RowDirection::Here => "--",
            };
            let arrow = match (below, row.adapter) {
                (false, _) => arrow.to_owned(),
                (true, None) => format!("{arrow}     "),
                (true, Some(place)) => format!("   {arrow} {place}"),
            };
            let seconds = row.t_ms / 1e3;
            let text = format!(
                "t={seconds:.3}  {arrow}  {:<what$}  {:<session$}  {}",
                cut(&row.what, 60),
                row.session,
                row.detail
            );
            match &row.mark {
                Some(mark) => format!("{}   <-- {mark}", text.trim_end()),
                None => text.trim_end().to_owned(),
            }
        })
        .collect()
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{clauses::Level, history::Intent, verdict::EvidenceGround};

    pub(in crate::report) fn host(ms: u64, line: &str) -> Record {
        let event = RecordedEvent::Host {
            bytes: format!("{line}\n").into_bytes().into(),
            parsed: Arc::new(Parsed::lenient(line.as_bytes())),
            intent: Intent::Valid,
        };
        Record {
            at: Duration::from_millis(ms),
            link: PipePair::Upper,
            event,
        }
    }

    pub(in crate::report) fn adapter(ms: u64, line: &str) -> Record {
        let event = RecordedEvent::Adapter {
            bytes: line.as_bytes().into(),
            parsed: Arc::new(Parsed::parse(line.as_bytes())),
            ended: true,
            intent: Intent::Valid,
        };
        Record {
            at: Duration::from_millis(ms),
            link: PipePair::Upper,
            event,
        }
    }

    pub(in crate::report) fn finding(record: Option<usize>) -> Finding {
        Finding {
            clause: "turn.1".into(),
            level: Level::Must,
            check: "O-LEDGER",
            sent: String::new(),
            expected: "one end".to_owned(),
            got: "2 ends for 1 input".to_owned(),
            hint: None,
            ground: EvidenceGround::Seen,
            record,
        }
    }

    #[test]
    fn a_history_reads_like_a_dialogue() {
        let records = [
            host(0, r#"{"type":"session.start","session_id":"s1"}"#),
            host(
                1,
                r#"{"type":"user.input","session_id":"s1","content":"a\u001b[2Jb"}"#,
            ),
            adapter(51, r#"{"type":"turn.complete","session_id":"s1"}"#),
            adapter(52, r#"{"type":"turn.complete","session_id":"s1"}"#),
            adapter(53, "Traceback"),
        ];
        let rows = rows(&records, &[finding(Some(3))], 100);
        assert_eq!(
            lines(&rows),
            [
                "t=0.000  ->  session.start  s1",
                "t=0.001  ->  user.input     s1  \"a\\u{1b}[2Jb\"",
                "t=0.051  <-  turn.complete  s1",
                "t=0.052  <-  turn.complete  s1   <-- [turn.1] 2 ends for 1 input",
                "t=0.053  <-  no message         \"Traceback\" (no JSON: expected value at line 1 column 1)",
            ]
        );
    }

    #[test]
    fn a_flood_is_folded_and_the_marked_row_is_kept() {
        let mut records = vec![host(0, r#"{"type":"user.input","session_id":"s1"}"#)];
        records.extend(
            (0..500).map(|ms| adapter(ms, r#"{"type":"output","session_id":"s1","content":"x"}"#)),
        );
        let folded = rows(&records, &[], 100);
        assert_eq!(folded.len(), 6);
        assert_eq!(folded[3].what, "… 496 more of output");

        let records: Vec<Record> = (0..500)
            .map(|n| adapter(n, &format!(r#"{{"type":"t{n}","session_id":"s"}}"#)))
            .collect();
        let shown = rows(&records, &[finding(Some(100))], 20);
        assert_eq!(shown.len(), 22);
        assert!(shown.iter().any(|row| row.mark.is_some()));
        assert!(rows(&records, &[finding(Some(0))], 20)[0].mark.is_some());
        assert_eq!(rows(&records, &[], 20).last().unwrap().what, "t499");
    }
}
