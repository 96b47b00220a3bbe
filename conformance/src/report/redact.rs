//! Secrets of the author's stay out of evidence and reports: the values of configured variables, and what the
//! patterns of `redact` match.

use std::sync::Arc;

use crate::{
    history::{PipePair, Record, RecordedEvent},
    run::CaseResult,
    subject::Subject,
    wire::Parsed,
};

/// Stands where something was taken out.
const MASK: &str = "[redacted]";
/// Minimum length of a variable's value to redact: `1` or `true` occurs everywhere and is not a
/// secret.
const SHORTEST: usize = 6;

/// Values to redact.
#[derive(Debug, Clone, Default)]
pub(crate) struct Redactor {
    needles: Vec<Needle>,
}

/// Literals with a `*` between each two of them.
#[derive(Debug, Clone)]
struct Needle {
    pieces: Vec<Vec<u8>>,
}

impl Redactor {
    /// Returns the values that the author of this program wants redacted.
    pub(crate) fn for_subject(subject: &Subject) -> Self {
        let values = subject
            .env
            .values()
            .filter(|value| value.len() >= SHORTEST)
            .map(|value| vec![value.as_str()]);
        let patterns = subject
            .redact
            .iter()
            .map(|pattern| pattern.trim_start_matches('*').split('*').collect());
        let mut needles = Vec::new();
        for pieces in values.chain(patterns) {
            // On the wire a text is escaped as in JSON.
            let escaped = pieces
                .iter()
                .map(|piece| in_json(piece))
                .collect::<Vec<_>>();
            needles.push(Needle::new(
                pieces.iter().map(|piece| piece.as_bytes().to_vec()),
            ));
            needles.push(Needle::new(escaped.into_iter().map(String::into_bytes)));
        }
        // A literal that is empty would be found everywhere.
        needles.retain(|needle| needle.pieces.first().is_some_and(|first| !first.is_empty()));
        Self { needles }
    }

    /// Returns true if there is nothing to redact.
    pub(crate) fn is_idle(&self) -> bool {
        self.needles.is_empty()
    }

    /// A text without what is taken out.
    pub(crate) fn text(&self, text: &str) -> String {
        String::from_utf8_lossy(&self.bytes(text.as_bytes())).into_owned()
    }

    fn bytes(&self, bytes: &[u8]) -> Vec<u8> {
        masked(bytes, &self.ranges(bytes), 0..bytes.len())
    }

    /// Returns the ranges to redact, in order and without overlap.
    fn ranges(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let mut found: Vec<(usize, usize)> = self
            .needles
            .iter()
            .flat_map(|needle| needle.found_in(bytes))
            .collect();
        found.sort_unstable();
        let mut apart: Vec<(usize, usize)> = Vec::new();
        for (start, end) in found {
            match apart.last_mut() {
                Some(last) if start < last.1 => last.1 = last.1.max(end),
                _ => apart.push((start, end)),
            }
        }
        apart
    }

    /// Takes it out of everything that is reported of a case.
    pub(crate) fn result(&self, result: &mut CaseResult) {
        if self.is_idle() {
            return;
        }
        for finding in &mut result.findings {
            for text in [&mut finding.sent, &mut finding.expected, &mut finding.got] {
                *text = self.text(text);
            }
            finding.hint = finding.hint.as_deref().map(|hint| self.text(hint));
        }
        result.reason = result.reason.as_deref().map(|reason| self.text(reason));
        for note in &mut result.notes {
            *note = self.text(note);
        }
        self.records(&mut result.records);
    }

    /// Takes it out of a history, even where a secret is cut over two reads of stderr or two writes.
    fn records(&self, records: &mut [Record]) {
        let links: std::collections::BTreeSet<PipePair> =
            records.iter().map(|record| record.link).collect();
        for link in links {
            for pick in [
                stderr_of as fn(&Record) -> Option<&Arc<[u8]>>,
                host_of,
                adapter_of,
            ] {
                self.stream(records, link, pick);
            }
        }
        for record in records {
            match &mut record.event {
                RecordedEvent::Note(note) => *note = self.text(note),
                RecordedEvent::Act(act) => {
                    let text = self.text(&act.to_string());
                    *act = serde_json::from_str(&text).unwrap_or(serde_json::Value::String(text));
                }
                _ => {}
            }
        }
    }

    fn stream(
        &self,
        records: &mut [Record],
        link: PipePair,
        pick: fn(&Record) -> Option<&Arc<[u8]>>,
    ) {
        let mut whole = Vec::new();
        let mut parts = Vec::new();
        for (index, record) in records
            .iter()
            .enumerate()
            .filter(|(_, record)| record.link == link)
        {
            let Some(bytes) = pick(record) else { continue };
            parts.push((index, whole.len()..whole.len() + bytes.len()));
            whole.extend_from_slice(bytes);
            // The lines of an adapter are kept without their ends.
            if matches!(record.event, RecordedEvent::Adapter { .. }) {
                whole.push(b'\n');
            }
        }
        let ranges = self.ranges(&whole);
        if ranges.is_empty() {
            return;
        }
        for (index, part) in parts {
            if ranges
                .iter()
                .any(|(start, end)| *start < part.end && *end > part.start)
            {
                put(&mut records[index].event, masked(&whole, &ranges, part));
            }
        }
    }
}

impl Needle {
    fn new(pieces: impl Iterator<Item = Vec<u8>>) -> Self {
        Self {
            pieces: pieces.collect(),
        }
    }

    fn found_in(&self, bytes: &[u8]) -> Vec<(usize, usize)> {
        let Some((first, rest)) = self.pieces.split_first() else {
            return Vec::new();
        };
        let mut found = Vec::new();
        let mut from = 0;
        while let Some(start) = position(&bytes[from..], first).map(|at| from + at) {
            from = start + 1;
            if let Some(end) = rest
                .iter()
                .try_fold(start + first.len(), |at, piece| gap(bytes, at, piece))
            {
                found.push((start, end));
                from = end.max(from);
            }
        }
        found
    }
}

/// The end of `piece` behind a gap that begins at `at` and holds no space and no quote; of the
/// longest gap where the piece is empty.
fn gap(bytes: &[u8], at: usize, piece: &[u8]) -> Option<usize> {
    let in_word = |byte: &u8| !byte.is_ascii_whitespace() && !b"\"'\\,;<>{}[]()".contains(byte);
    let longest = bytes[at..].iter().take_while(|byte| in_word(byte)).count();
    if piece.is_empty() {
        return Some(at + longest);
    }
    let within = &bytes[at..bytes.len().min(at + longest + piece.len())];
    position(within, piece).map(|found| at + found + piece.len())
}

fn position(bytes: &[u8], piece: &[u8]) -> Option<usize> {
    // An empty piece matches nothing.
    (!piece.is_empty())
        .then(|| memchr::memmem::find(bytes, piece))
        .flatten()
}

/// A part of the bytes, with a mask where a range begins in it and nothing for the rest of the range.
fn masked(bytes: &[u8], ranges: &[(usize, usize)], part: std::ops::Range<usize>) -> Vec<u8> {
    let mut kept = Vec::with_capacity(part.len());
    let mut at = part.start;
    for &(start, end) in ranges
        .iter()
        .filter(|(start, end)| *start < part.end && *end > part.start)
    {
        kept.extend_from_slice(&bytes[at..start.clamp(at, part.end)]);
        if start >= part.start {
            kept.extend_from_slice(MASK.as_bytes());
        }
        at = end.clamp(at, part.end);
    }
    kept.extend_from_slice(&bytes[at..part.end]);
    kept
}

fn stderr_of(record: &Record) -> Option<&Arc<[u8]>> {
    match &record.event {
        RecordedEvent::Stderr(bytes) => Some(bytes),
        _ => None,
    }
}

fn host_of(record: &Record) -> Option<&Arc<[u8]>> {
    match &record.event {
        RecordedEvent::Host { bytes, .. } => Some(bytes),
        _ => None,
    }
}

fn adapter_of(record: &Record) -> Option<&Arc<[u8]>> {
    match &record.event {
        RecordedEvent::Adapter { bytes, .. } => Some(bytes),
        _ => None,
    }
}

fn put(event: &mut RecordedEvent, new: Vec<u8>) {
    match event {
        RecordedEvent::Stderr(bytes) => *bytes = new.into(),
        RecordedEvent::Host { bytes, parsed, .. } => {
            *parsed = Arc::new(Parsed::lenient(new.strip_suffix(b"\n").unwrap_or(&new)));
            *bytes = new.into();
        }
        RecordedEvent::Adapter { bytes, parsed, .. } => {
            *parsed = Arc::new(Parsed::parse(&new));
            *bytes = new.into();
        }
        _ => {}
    }
}

fn in_json(text: &str) -> String {
    serde_json::Value::from(text)
        .to_string()
        .trim_matches('"')
        .to_owned()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn redactor(env: &[&str], patterns: &[&str]) -> Redactor {
        let mut subject = Subject::adapter(["x"]);
        subject.env = env
            .iter()
            .enumerate()
            .map(|(n, value)| (format!("V{n}"), (*value).to_owned()))
            .collect();
        subject.redact = patterns
            .iter()
            .map(|pattern| (*pattern).to_owned())
            .collect();
        Redactor::for_subject(&subject)
    }

    #[test]
    fn values_and_patterns_are_taken_out_of_texts() {
        let redactor = redactor(
            &["hunter2-hunter2", "true", "line\nbreak"],
            &["sk-*", "id=*;", "*"],
        );
        for (from, to) in [
            ("a hunter2-hunter2b", "a [redacted]b"),
            ("it is true", "it is true"),
            ("{\"k\":\"sk-abc123\"}", "{\"k\":\"[redacted]\"}"),
            ("x id=7; y id=8", "x [redacted] y id=8"),
            ("line\\nbreak line\nbreak", "[redacted] [redacted]"),
            ("sk-sk-1", "[redacted]"),
        ] {
            assert_eq!(redactor.text(from), to, "{from}");
        }
        assert!(super::Redactor::for_subject(&Subject::adapter(["x"])).is_idle());
    }

    #[test]
    fn a_secret_that_is_cut_over_records_is_taken_out() {
        let redactor = redactor(&["hunter2-hunter2"], &[]);
        let at = Duration::ZERO;
        let stderr = |text: &str| Record {
            at,
            link: PipePair::Upper,
            event: RecordedEvent::Stderr(text.as_bytes().into()),
        };
        let line = |text: &str| RecordedEvent::Adapter {
            bytes: text.as_bytes().into(),
            parsed: Arc::new(Parsed::parse(text.as_bytes())),
            ended: true,
            intent: crate::history::Intent::Valid,
        };
        let mut records = vec![
            stderr("key hunter2-"),
            Record {
                at,
                link: PipePair::Upper,
                event: line("{\"a\":\"hunter2-hunter2\"}"),
            },
            stderr("hunter2 end"),
            Record {
                at,
                link: PipePair::Upper,
                event: RecordedEvent::Note("hunter2-hunter2".to_owned()),
            },
            Record {
                at,
                link: PipePair::Lower(1),
                event: RecordedEvent::Act(serde_json::json!({"k": "hunter2-hunter2"})),
            },
        ];
        redactor.records(&mut records);
        let mut written = Vec::new();
        crate::history::write_transcript(&records, &mut written).unwrap();
        let written = String::from_utf8(written).unwrap();
        assert!(!written.contains("hunter2"), "{written}");
        assert_eq!(written.matches("[redacted]").count(), 4, "{written}");
        assert!(written.contains(" end"), "{written}");
        assert_eq!(records[1].adapter_message().unwrap()["a"], "[redacted]");
    }
}
