//! A host's wire log, and the part of it that can be judged if lines are missing.

use std::collections::BTreeSet;

use super::{PipePair, Record};
use crate::wire;

/// A recording, as in a file.
#[derive(Debug)]
pub(crate) struct Recording {
    /// Each line.
    pub records: Vec<Record>,
    /// Missing parts; `None` if the file is not a wire log.
    pub(super) log: Option<Log>,
}

/// Information of a wire log about itself.
#[derive(Debug, Default)]
pub(crate) struct Log {
    /// Reasons why it is not complete.
    missing: Vec<String>,
    gaps: Vec<Gap>,
    /// Sessions of which a part is missing, by the run of their adapter.
    left_out: BTreeSet<(u32, String)>,
}

/// A place at which lines are missing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gap {
    /// Index of the record that reports it.
    pub at: usize,
    /// Of which run of which adapter; of all where it is absent.
    pub process: Option<u32>,
}

/// One run of one adapter, extracted from a recording.
#[derive(Debug)]
pub(crate) struct ProcessRun {
    /// Events, as if recorded separately.
    pub records: Vec<Record>,
    /// The place of each record in the recording.
    pub places: Vec<usize>,
    /// Number in a wire log.
    pub process: Option<u32>,
    /// Number of sessions that are left out, because a part of each is missing.
    pub left_out: usize,
}

impl Log {
    pub(super) fn lose(&mut self, gap: Gap, why: String) {
        self.gaps.push(gap);
        self.missing.push(why);
    }

    pub(super) fn leave_out(&mut self, process: u32, session: String, why: String) {
        if self.left_out.insert((process, session)) {
            self.missing.push(why);
        }
    }
}

impl Gap {
    fn is_of(&self, process: u32) -> bool {
        self.process.is_none_or(|of| of == process)
    }
}

impl Recording {
    /// Returns true if it is a host's wire log, which may end at any point.
    pub(crate) fn is_log(&self) -> bool {
        self.log.is_some()
    }

    /// Returns why it is not complete: the first reason, and the number of others.
    pub(crate) fn missing(&self) -> Option<String> {
        let missing = &self.log.as_ref()?.missing;
        let first = missing.first()?;
        Some(match missing.len() {
            1 => first.clone(),
            all => format!("{first}, and {} more", all - 1),
        })
    }

    /// Each run of an adapter by itself; of an incomplete log, the sessions that are whole.
    pub(crate) fn runs(&self) -> Vec<ProcessRun> {
        let Some(log) = &self.log else {
            let places = (0..self.records.len()).collect();
            return vec![ProcessRun {
                records: self.records.clone(),
                places,
                process: None,
                left_out: 0,
            }];
        };
        let process = |record: &Record| match record.link {
            PipePair::Lower(process) => Some(process),
            PipePair::Upper | PipePair::Hub(_) => None,
        };
        let processes: BTreeSet<u32> = self.records.iter().filter_map(process).collect();
        processes
            .into_iter()
            .map(|process| self.run(log, process))
            .collect()
    }

    fn run(&self, log: &Log, process: u32) -> ProcessRun {
        let left_out = if log.missing.is_empty() {
            BTreeSet::new()
        } else {
            self.left_out(log, process)
        };
        let has_gap = log.gaps.iter().any(|gap| gap.is_of(process));
        let is_judged = |record: &Record| {
            record.link == PipePair::Lower(process)
                && said(record).is_none_or(|(_, message)| match wire::session(message) {
                    // A message of the pipe may answer one that is missing.
                    "" => !has_gap,
                    session => !left_out.contains(session),
                })
        };
        let judged = self
            .records
            .iter()
            .enumerate()
            .filter(|(_, record)| is_judged(record));
        let (places, records) = judged
            .map(|(place, record)| {
                (
                    place,
                    Record {
                        link: PipePair::Upper,
                        ..record.clone()
                    },
                )
            })
            .unzip();
        ProcessRun {
            records,
            places,
            process: Some(process),
            left_out: left_out.len(),
        }
    }

    /// The sessions of a run of which a part is missing: those that a gap fell into, or whose start
    /// is not there.
    fn left_out(&self, log: &Log, process: u32) -> BTreeSet<String> {
        let own = log.left_out.iter().filter(|(of, _)| *of == process);
        let mut left_out: BTreeSet<String> = own.map(|(_, session)| session.clone()).collect();
        let mut started = BTreeSet::new();
        let mut open = BTreeSet::new();
        let mut gaps = log.gaps.iter().filter(|gap| gap.is_of(process)).peekable();
        for (index, record) in self.records.iter().enumerate() {
            while gaps.next_if(|gap| gap.at <= index).is_some() {
                left_out.extend(open.iter().cloned());
            }
            let Some((is_host, message)) =
                said(record).filter(|_| record.link == PipePair::Lower(process))
            else {
                continue;
            };
            let session = wire::session(message).to_owned();
            match (is_host, wire::kind(message)) {
                (true, "session.start") => {
                    started.insert(session.clone());
                    open.insert(session);
                }
                // Messages missing behind its end are not owed.
                (true, "session.close") | (false, "session.closed")
                    if started.contains(&session) =>
                {
                    open.remove(&session);
                }
                _ if !session.is_empty() && !started.contains(&session) => {
                    left_out.insert(session);
                }
                _ => {}
            }
        }
        left_out
    }
}

/// The message of a record, and whether it is the host's.
fn said(record: &Record) -> Option<(bool, &wire::Message)> {
    let of_host = record.host_message().map(|message| (true, message));
    of_host.or_else(|| record.adapter_message().map(|message| (false, message)))
}

#[cfg(test)]
mod tests {
    use crate::{
        history::{Recording, read_recording},
        oracle::{HistoryEnd, judge_both},
    };

    /// Returns a log of these lines: `>` and `<` are messages of a session, by its letter; other
    /// lines are used unchanged.
    fn log(lines: &str) -> Recording {
        let header = r#"{"t":0,"ev":"header","version":1,"began":"x","file":1,"complete":true,"redacted":true,"content":"full"}"#;
        let mut text = String::new();
        for line in lines.split(" | ").map(str::trim) {
            let (mark, rest) = line.split_at(1);
            let message = |end: &str| {
                let (session, kind) = rest.trim().split_once(' ').unwrap();
                let more = match kind {
                    "user.input" | "output" => ",\"content\":\"x\"",
                    _ => "",
                };
                let message =
                    format!("{{\"type\":\"{kind}\",\"session_id\":\"{session}\"{more}}}{end}");
                (session.to_owned(), serde_json::Value::from(message))
            };
            text.push_str(&match mark {
                ">" => {
                    let (session, line) = message("\n");
                    format!("{{\"t\":1,\"process\":1,\"session\":\"{session}\",\"ev\":\"host\",\"line\":{line}}}")
                }
                "<" => {
                    let (session, line) = message("");
                    format!("{{\"t\":1,\"process\":1,\"session\":\"{session}\",\"ev\":\"adapter\",\"line\":{line}}}")
                }
                _ => line.to_owned(),
            });
            text.push('\n');
        }
        read_recording(format!("{header}\n{text}").as_bytes()).unwrap()
    }

    /// Returns the number of judged messages, of sessions left out, and of broken rules.
    fn judged(recording: &Recording) -> (usize, usize, usize) {
        let run = recording.runs().into_iter().next().unwrap();
        let findings = judge_both(&run.records, HistoryEnd::Cut).findings;
        (
            run.records
                .iter()
                .filter(|record| super::said(record).is_some())
                .count(),
            run.left_out,
            findings.len(),
        )
    }

    const TURN: &str = "> a session.start | > a user.input | < a output | < a turn.complete";

    #[test]
    fn a_complete_log_is_judged_whole() {
        let good = log(TURN);
        assert_eq!((good.missing(), judged(&good)), (None, (4, 0, 0)));
        assert_eq!(
            judged(&log(&format!("{TURN} | < a turn.complete"))),
            (5, 0, 1)
        );
        let stranger = log(&format!("{TURN} | < z output"));
        assert_eq!(
            judged(&stranger),
            (5, 0, 1),
            "what was never started is a fault where nothing is missing"
        );
    }

    #[test]
    fn a_gap_leaves_out_the_sessions_that_it_may_concern_and_no_other() {
        let dropped = r#"{"t":1,"process":1,"ev":"dropped","lines":2,"bytes":9}"#;
        let later = "> b session.start | > b user.input | < b output | < b turn.complete";
        let gap = log(&format!(
            "{TURN} | {dropped} | < a turn.complete | < c output | {later}"
        ));
        assert_eq!(gap.missing().unwrap(), "2 lines are missing at line 6");
        assert_eq!(judged(&gap), (4, 2, 0), "b alone is whole");
        let closed = log(&format!("{TURN} | > a session.close | {dropped} | {later}"));
        assert_eq!(judged(&closed), (9, 0, 0), "a had ended before");
        let other = dropped.replace("\"process\":1", "\"process\":2");
        assert_eq!(
            judged(&log(&format!("{TURN} | {other} | > a session.close"))),
            (5, 0, 0)
        );
    }

    #[test]
    fn a_line_that_is_cut_leaves_out_its_session() {
        let cut = r#"{"t":1,"process":1,"session":"b","ev":"adapter","line":"{\"type\":\"outp","omitted":99}"#;
        let recording = log(&format!(
            "> b session.start | > b user.input | {cut} | {TURN}"
        ));
        assert_eq!(
            recording.missing().unwrap(),
            "99 bytes are left out of line 4"
        );
        assert_eq!(judged(&recording), (4, 1, 0));
    }

    #[test]
    fn a_later_file_and_one_without_content_are_incomplete() {
        let text = r#"{"t":0,"ev":"header","version":1,"began":"x","file":2,"complete":false,"redacted":true,"content":"full","sessions":[{"process":1,"session":"b"}]}
{"t":1,"process":1,"session":"b","ev":"adapter","line":"{\"type\":\"turn.complete\",\"session_id\":\"b\"}"}
{"t":2,"process":1,"ev":"exi"#;
        let recording = read_recording(text.as_bytes()).unwrap();
        assert!(
            recording.is_log() && recording.missing().is_some(),
            "its last line may be cut"
        );
        assert_eq!(judged(&recording), (0, 1, 0));
        let head = text.replace("\"full\"", "\"head\"");
        assert!(
            read_recording(head.as_bytes())
                .unwrap()
                .missing()
                .unwrap()
                .contains("`head`")
        );
    }

    #[test]
    fn what_is_no_log_must_be_read_to_its_end() {
        let error = read_recording(&b"{\"t\":1,\"ev\":\"stdin_closed\"}\n{\"t\""[..]).unwrap_err();
        assert!(error.to_string().starts_with("line 2 "), "{error}");
    }
}
