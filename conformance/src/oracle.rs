//! Oracles, which judge every history, whatever its case is about.
//!
//! An oracle is a function of a history, so it works on a case that has just been run, on a
//! transcript, and on a recording between two real programs. The suite's own writes are judged too:
//! an unintended breach there is an error of the suite (O-SELF).

use std::collections::HashMap;

use crate::{
    clauses::{Level, Side},
    history::{Intent, PipePair, Record, RecordedEvent},
    model::{Breach, Mark, Model, ModelKind},
    verdict::{EvidenceGround, Finding},
};

mod deliver;
mod journal;
mod lines;

pub(crate) use self::lines::shown;

/// Meaning of the end of a history.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HistoryEnd {
    /// A fence and a quiet window stood at its end: what is owed then is missing.
    AtRest,
    /// Cut off: owed messages might have come.
    Cut,
}

/// Judgement of the oracles.
#[derive(Debug, Default)]
pub(crate) struct OracleJudgement {
    /// Rules that the program under test broke.
    pub findings: Vec<Finding>,
    /// Rules that the suite itself broke: it cannot be trusted here.
    pub own: Vec<String>,
}

/// Judges the program under test by everything that a history holds.
///
/// `side` is what the program is: an adapter is judged by what it wrote to the runner; a host (a
/// relay) by that and by what it wrote to each process of the stub.
pub(crate) fn judge(records: &[Record], side: Side, ending: HistoryEnd) -> OracleJudgement {
    let mut judgement = OracleJudgement::default();
    // Hosts of a journal are killed at any moment, and no fence is written among their hubs.
    let of_journal = records
        .iter()
        .any(|record| matches!(record.link, PipePair::Hub(_)));
    let ending = if of_journal { HistoryEnd::Cut } else { ending };
    let mut links: Vec<PipePair> = records.iter().map(|record| record.link).collect();
    links.sort_unstable();
    links.dedup();
    for link in links {
        let (judged, kind) = match (link, side) {
            (PipePair::Upper, Side::Adapter) => (Side::Adapter, ModelKind::Adapter),
            (PipePair::Upper, Side::Host) => (Side::Adapter, ModelKind::Relay),
            (PipePair::Lower(_), _) => (Side::Host, ModelKind::Adapter),
            (PipePair::Hub(_), _) => {
                lines::judge(records, link, Side::Adapter, &mut judgement);
                continue;
            }
        };
        lines::judge(records, link, judged, &mut judgement);
        follow(records, link, judged, kind, ending, &mut judgement);
    }
    if side == Side::Host {
        deliver::judge(records, ending, &mut judgement);
        journal::judge(records, &mut judgement);
    }
    orphans(records, side, &mut judgement);
    judgement
}

/// Judges both sides of one tapped connection: nothing is the suite's own.
pub(crate) fn judge_both(records: &[Record], ending: HistoryEnd) -> OracleJudgement {
    let mut judgement = OracleJudgement::default();
    for judged in [Side::Adapter, Side::Host] {
        lines::judge(records, PipePair::Upper, judged, &mut judgement);
    }
    let mut both = OracleJudgement::default();
    follow(
        records,
        PipePair::Upper,
        Side::Adapter,
        ModelKind::Adapter,
        ending,
        &mut both,
    );
    judgement.findings.append(&mut both.findings);
    let mut both = OracleJudgement::default();
    follow(
        records,
        PipePair::Upper,
        Side::Host,
        ModelKind::Adapter,
        ending,
        &mut both,
    );
    judgement.findings.append(&mut both.findings);
    judgement
}

/// Walks the model along one link.
fn follow(
    records: &[Record],
    link: PipePair,
    judged: Side,
    kind: ModelKind,
    ending: HistoryEnd,
    judgement: &mut OracleJudgement,
) {
    let mut order: Vec<usize> = (0..records.len())
        .filter(|&index| records[index].link == link)
        .collect();
    order.sort_by_key(|&index| records[index].at);
    let mut fenced: Vec<usize> = records
        .iter()
        .filter_map(|record| match record.event {
            RecordedEvent::Fence { upto } => Some(upto),
            _ => None,
        })
        .collect();
    fenced.sort_unstable();
    let mut fenced = fenced.into_iter().peekable();
    let mut model = Model::new(kind);
    let mut marks: HashMap<usize, Mark> = HashMap::new();
    let mut ended = false;
    let mut broken = false;
    for index in order {
        // The record at that place may be on another link.
        while let Some(upto) = fenced.next_if(|upto| *upto <= index) {
            marks.insert(upto, model.mark());
        }
        let (by, breaches, intent) = match &records[index].event {
            RecordedEvent::Host { parsed, intent, .. } => match parsed.message() {
                Some(message) => (Side::Host, model.host_says(message), *intent),
                None => continue,
            },
            RecordedEvent::Adapter {
                parsed,
                intent,
                ended: true,
                ..
            } => match parsed.message() {
                Some(message) => (Side::Adapter, model.adapter_says(message), *intent),
                None => continue,
            },
            RecordedEvent::Fence { upto } => {
                if let Some(mark) = marks.get(upto) {
                    model.fence_at(Side::Adapter, *mark);
                }
                continue;
            }
            RecordedEvent::Exited { .. }
            | RecordedEvent::StdoutEnded
            | RecordedEvent::StdinClosed => {
                ended = true;
                continue;
            }
            _ => continue,
        };
        if intent == Intent::Deviant && by != judged {
            continue;
        }
        for breach in breaches {
            // A relay passes on its adapter's late messages and those between turns; O-DELIVER
            // judges whether they are that.
            if kind == ModelKind::Relay && breach.clause == "turn.2" {
                continue;
            }
            broken |= breach.by == judged;
            take(&breach, by, judged, link, index, judgement);
        }
    }
    // One breach disturbs the accounts, so that missing messages at the end would repeat it.
    if ending == HistoryEnd::AtRest && !ended && !broken {
        for breach in model.finish() {
            if breach.by == judged {
                judgement.findings.push(finding(&breach, None));
            }
        }
    }
}

fn take(
    breach: &Breach,
    by: Side,
    judged: Side,
    link: PipePair,
    index: usize,
    judgement: &mut OracleJudgement,
) {
    if breach.by == judged {
        judgement.findings.push(finding(breach, Some(index)));
    } else if by != judged && link == PipePair::Upper && breach.level == Level::Must {
        judgement.own.push(format!(
            "O-SELF: {} at record {index}: [{}]",
            breach.text, breach.clause
        ));
    }
}

fn finding(breach: &Breach, record: Option<usize>) -> Finding {
    let of = if breach.session.is_empty() {
        String::new()
    } else {
        format!(" ({})", breach.session)
    };
    Finding {
        clause: breach.clause.into(),
        level: breach.level,
        check: oracle_of(breach),
        sent: String::new(),
        expected: crate::clauses::find(breach.clause).map_or_else(
            || "the rule is kept".to_owned(),
            |clause| clause.wording.clone(),
        ),
        got: format!("{}{of}", breach.text),
        hint: None,
        ground: if record.is_some() {
            EvidenceGround::Seen
        } else {
            EvidenceGround::Late
        },
        record,
    }
}

/// The oracle that a rule of the model belongs to.
fn oracle_of(breach: &Breach) -> &'static str {
    match (breach.by, breach.clause) {
        (Side::Host, "session.1") => "O-START",
        (Side::Host, "permission.2" | "permission.3" | "permission.4") => "O-APPROVED",
        (_, "session.4") => "O-QUIET",
        (_, clause) if clause.starts_with("msg.") => "O-SHAPE",
        (_, clause) if clause.starts_with("frame.") => "O-LINE",
        (_, "turn.2") => "O-TAIL",
        (_, clause) if clause.starts_with("turn.") => "O-LEDGER",
        (_, clause) if clause.starts_with("permission.") => "O-PAIR",
        (_, clause) if clause.starts_with("session.") => "O-KNOWN",
        _ => "O-SHAPE",
    }
}

/// Judges the runner's notes about processes that were left behind (O-PROC).
fn orphans(records: &[Record], side: Side, judgement: &mut OracleJudgement) {
    for (index, record) in records.iter().enumerate() {
        let RecordedEvent::Note(note) = &record.event else {
            continue;
        };
        if !note.starts_with("left behind") {
            continue;
        }
        let (clause, level) = match side {
            Side::Adapter => ("process.1", Level::Should),
            Side::Host => ("process.2", Level::Must),
        };
        judgement.findings.push(Finding {
            clause: clause.into(),
            level,
            check: "O-PROC",
            sent: String::new(),
            expected: "nothing that it started outlives it".to_owned(),
            got: note.clone(),
            hint: None,
            ground: EvidenceGround::Seen,
            record: Some(index),
        });
    }
}
