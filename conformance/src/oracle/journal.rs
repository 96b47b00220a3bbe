//! O-JOURNAL: every hub of a journal receives the same row of entries, each once and the same each
//! time ([journal.1], [journal.3], [journal.5], [journal.8]).

use std::{
    collections::{HashMap, HashSet, VecDeque},
    sync::Arc,
};

use serde_json::Value;

use super::OracleJudgement;
use crate::{
    clauses::Level,
    history::{PipePair, Record, RecordedEvent},
    verdict::{EvidenceGround, Finding},
    wire::{self, Message},
};

/// A hub's knowledge of a session.
#[derive(Debug, Default)]
struct HubView {
    /// The entries behind which it asked to attach or to fork, and was not answered yet.
    asked: VecDeque<u64>,
    /// Next number; `None` while it receives nothing.
    next: Option<u64>,
    /// The last entry that there was when it attached.
    upto: u64,
}

/// All hubs' knowledge of a session.
#[derive(Debug, Default)]
struct SessionKnowledge {
    lines: HashMap<u64, Arc<[u8]>>,
    /// The last entry that is known, and its epoch.
    last: (u64, u64),
}

/// Judges the entries that the hubs received.
pub(super) fn judge(records: &[Record], judgement: &mut OracleJudgement) {
    let mut listening: HashMap<(PipePair, String), HubView> = HashMap::new();
    let mut rows: HashMap<String, SessionKnowledge> = HashMap::new();
    let mut plain: HashSet<(PipePair, String)> = HashSet::new();
    for (index, record) in records.iter().enumerate() {
        if !matches!(record.link, PipePair::Hub(_)) {
            continue;
        }
        let key = |message: &Message| (record.link, wire::session(message).to_owned());
        if let Some(message) = record.host_message() {
            match wire::kind(message) {
                "session.attach" | "session.fork" => {
                    let after = message
                        .get("after")
                        .and_then(Value::as_u64)
                        .unwrap_or_default();
                    listening
                        .entry(key(message))
                        .or_default()
                        .asked
                        .push_back(after);
                }
                "session.start" if !names_journal(message) => drop(plain.insert(key(message))),
                _ => {}
            }
        }
        let RecordedEvent::Adapter {
            bytes,
            parsed,
            ended: true,
            ..
        } = &record.event
        else {
            continue;
        };
        let Some(message) = parsed.message() else {
            continue;
        };
        let mut found = |clause: &'static str, expected: &str, got: String| {
            judgement.findings.push(finding(
                index,
                clause,
                expected,
                format!("{got} ({})", wire::session(message)),
            ));
        };
        let number = |member: &str| message.get(member).and_then(Value::as_u64);
        let heard = listening.entry(key(message)).or_default();
        match (wire::kind(message), message.get("seq")) {
            ("session.ready", _) if names_journal(message) => {
                *heard = HubView {
                    next: Some(1),
                    ..HubView::default()
                }
            }
            ("session.attached", _) => {
                heard.next = heard.asked.pop_front().map(|after| after + 1);
                heard.upto = number("last_seq").unwrap_or_default();
            }
            ("session.refused", _) => drop(heard.asked.pop_front()),
            ("lag", _) => {
                let from = number("from").unwrap_or_default();
                let to = number("to").unwrap_or_default();
                if heard.next != Some(from) || to < from {
                    let next = heard.next.unwrap_or_default();
                    found(
                        "journal.8",
                        "a `lag` begins behind the last entry",
                        format!("{from} to {to}, and {next} was next"),
                    );
                }
                heard.next = Some(to + 1);
            }
            ("input.result", _) | (_, None) => {}
            (kind, Some(_)) if plain.contains(&key(message)) => {
                found(
                    "journal.1",
                    "no `seq` for a hub that did not ask for the journal",
                    format!("one in a `{kind}`"),
                );
            }
            (kind, Some(seq)) => {
                let Some(seq) = seq.as_u64().filter(|seq| *seq > 0) else {
                    found(
                        "journal.3",
                        "a `seq` from 1",
                        format!("{seq} in a `{kind}`"),
                    );
                    continue;
                };
                if let Some(next) = heard.next.filter(|next| *next != seq) {
                    let clause = if next <= heard.upto {
                        "journal.5"
                    } else {
                        "journal.3"
                    };
                    found(
                        clause,
                        "each entry once, in order and without a gap",
                        format!("{seq} where {next} was next"),
                    );
                }
                heard.next = Some(seq + 1);
                let row = rows.entry(wire::session(message).to_owned()).or_default();
                let known = row.lines.entry(seq).or_insert_with(|| Arc::clone(bytes));
                if known != bytes {
                    let got = format!("entry {seq} as another line");
                    found("journal.3", "an entry is the same line each time", got);
                }
                match number("epoch") {
                    Some(epoch) if seq > row.last.0 && epoch < row.last.1 => {
                        let got = format!("{epoch} in entry {seq}, behind {}", row.last.1);
                        found("journal.3", "an `epoch` that grows", got);
                    }
                    Some(epoch) => row.last = row.last.max((seq, epoch)),
                    None => found(
                        "journal.3",
                        "an `epoch` in each entry",
                        format!("none in entry {seq}"),
                    ),
                }
                if !is_time(wire::text(message, "time")) {
                    let got = format!(
                        "{} in entry {seq}",
                        message.get("time").unwrap_or(&Value::Null)
                    );
                    found("journal.3", "a `time` by RFC 3339, with milliseconds", got);
                }
            }
        }
    }
}

fn names_journal(message: &Message) -> bool {
    let names = message.get("extensions").and_then(Value::as_array);
    names.is_some_and(|names| names.iter().any(|name| name == "journal"))
}

/// Returns true if a text is a time such as `2026-03-01T12:00:00.000Z`.
fn is_time(text: &str) -> bool {
    const FORM: &[u8] = b"0000-00-00T00:00:00.000";
    let zone = text.get(FORM.len()..).unwrap_or_default();
    let zoned = zone == "Z" || zone.len() == 6 && zone.starts_with(['+', '-']);
    let fits = |(byte, form): (u8, &u8)| {
        if *form == b'0' {
            byte.is_ascii_digit()
        } else {
            byte == *form
        }
    };
    zoned && text.bytes().zip(FORM).all(fits)
}

fn finding(index: usize, clause: &'static str, expected: &str, got: String) -> Finding {
    Finding {
        clause: clause.into(),
        level: Level::Must,
        check: "O-JOURNAL",
        sent: String::new(),
        expected: expected.to_owned(),
        got,
        hint: None,
        ground: EvidenceGround::Seen,
        record: Some(index),
    }
}
