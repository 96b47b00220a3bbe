//! From a run to its document.

use std::path::Path;

use super::{
    FinishedRun,
    diagram::rows,
    document::{
        CaseData, Document, FindingData, NotCovered, PlanData, Platform, RunOutcome,
        SCHEMA_VERSION, SubjectData, Tiers, Timing, Totals,
    },
    evidence::{self, files_of},
};
use crate::{
    baseline::CaseStanding,
    cases,
    clauses::{self, Basis, Side},
    printable::cut,
    run::Repeated,
    subject::Recipes,
    verdict::{Finding, Tier, Verdict},
};

/// The most findings of a case that are shown; the transcript shows the rest.
const FINDINGS: usize = 20;
/// Reason why a clause was not judged: its cases were not selected.
pub(super) const NOT_SELECTED: &str = "its cases were not selected";
/// The most bytes of a text of a finding.
const TEXT: usize = 4 << 10;
/// The most rows of a diagram in the document.
const ROWS: usize = 80;

/// Makes the document of a run, not yet compared with any baseline.
pub(super) fn document(run: &FinishedRun<'_>, folder: Option<&Path>) -> Document {
    let texts =
        |texts: &mut dyn Iterator<Item = &str>| texts.map(str::to_owned).collect::<Vec<_>>();
    let subject = run.subject;
    let (cases, calibration): (Vec<CaseData>, _) = (
        run.results
            .iter()
            .map(|held| case(run, held, folder))
            .collect(),
        run.calibration,
    );
    let said = |tier| {
        let counts = |case: &&CaseData| case.tier == tier && case.verdict != Verdict::Skip;
        cases.iter().filter(counts).count()
    };
    Document {
        schema_version: SCHEMA_VERSION,
        suite: env!("CARGO_PKG_VERSION").to_owned(),
        protocol: 1,
        started_at: run.started.to_string(),
        duration_ms: millis(run.took),
        plan: PlanData {
            class: run.plan.class,
            selection: run.selection.to_vec(),
            seed: format!("{:x}", run.plan.seed),
            time_scale: run.time_scale,
            jobs: run.plan.jobs,
        },
        platform: Platform {
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
        },
        subject: SubjectData {
            side: subject.side,
            command: subject
                .command
                .iter()
                .map(|word| run.redactor.text(word))
                .collect(),
            program: calibration
                .program
                .as_deref()
                .map(|program| cut(program, 200)),
            abilities: texts(&mut subject.abilities.iter().map(|ability| ability.name())),
            recipes: texts(
                &mut Recipes::NAMES
                    .into_iter()
                    .filter(|name| subject.recipes.get(name).is_some()),
            ),
            probe: texts(&mut calibration.probe.iter().map(String::as_str)),
            extensions: texts(&mut calibration.extensions.iter().map(String::as_str)),
        },
        calibration: Timing {
            start_ms: round(calibration.start_ms),
            turn_ms: round(calibration.turn_ms),
            quiet_ms: round(calibration.quiet_ms),
        },
        totals: Totals::from_cases(&cases),
        tiers: Tiers {
            black_box: said(Tier::BlackBox),
            recipe: said(Tier::Recipe),
            probe: said(Tier::Probe),
        },
        not_covered: not_covered(subject.side, &cases),
        cases,
        baseline: None,
        outcome: RunOutcome::default(),
    }
}

fn case(run: &FinishedRun<'_>, held: &Repeated, folder: Option<&Path>) -> CaseData {
    let result = &held.result;
    let case = held.result.case;
    let kept = evidence::worth_keeping(result.verdict);
    CaseData {
        id: case.id.to_owned(),
        family: case.family().to_owned(),
        title: case.title.to_owned(),
        clause: case.clause.to_owned(),
        level: case.level,
        basis: case.basis,
        side: case.side(),
        tier: result.tier,
        verdict: result.verdict,
        standing: CaseStanding::NotScored,
        known: None,
        scored: result.scored,
        stimulus: case.stimulus.to_owned(),
        expected: case.expected.to_owned(),
        findings: result.findings.iter().take(FINDINGS).map(finding).collect(),
        more_findings: result.findings.len().saturating_sub(FINDINGS),
        reason: result.reason.as_deref().map(|reason| cut(reason, TEXT)),
        notes: result
            .notes
            .iter()
            .take(FINDINGS)
            .map(|note| cut(note, TEXT))
            .collect(),
        duration_ms: millis(result.took),
        attempts: result.attempts,
        seed: format!("{:x}", held.run_seed),
        again: again(run, held),
        artefacts: folder
            .map(|folder| files_of(folder, case.id))
            .unwrap_or_default(),
        diagram: if kept {
            rows(&result.records, &result.findings, ROWS)
        } else {
            Vec::new()
        },
    }
}

fn finding(finding: &Finding) -> FindingData {
    FindingData {
        clause: finding.clause.clone().into_owned(),
        level: finding.level,
        basis: clauses::find(&finding.clause).map_or(Basis::Choice, |clause| clause.basis),
        check: finding.check.to_owned(),
        sent: cut(&finding.sent, TEXT),
        expected: cut(&finding.expected, TEXT),
        got: cut(&finding.got, TEXT),
        hint: finding.hint.as_deref().map(|hint| cut(hint, TEXT)),
        ground: finding.ground,
        line: finding.record.map(|record| record + 1),
    }
}

/// The command that runs just this case again.
fn again(run: &FinishedRun<'_>, held: &Repeated) -> String {
    let mut words = vec![
        "trunkline-conformance".to_owned(),
        run.subject.side.to_string(),
    ];
    words.push(held.result.case.id.to_owned());
    words.push(format!("--seed {:x}", held.run_seed));
    words.extend(
        run.again
            .iter()
            .map(|word| shell_words::quote(word).into_owned()),
    );
    if run.from_arguments {
        words.push("--".to_owned());
        words.extend(
            run.subject
                .command
                .iter()
                .map(|word| shell_words::quote(word).into_owned()),
        );
    }
    run.redactor.text(&words.join(" "))
}

/// The clauses that bind a side and were not judged, each with the reason.
fn not_covered(side: Side, results: &[CaseData]) -> Vec<NotCovered> {
    let judged = |case: &&CaseData| {
        !matches!(
            case.verdict,
            Verdict::Skip | Verdict::Inconclusive | Verdict::Harness
        )
    };
    let mut open = Vec::new();
    for clause in clauses::all()
        .iter()
        .filter(|clause| clause.binds.includes(side))
    {
        let ran: Vec<&CaseData> = results
            .iter()
            .filter(|case| case.clause == clause.id)
            .collect();
        if ran.iter().any(judged) {
            continue;
        }
        let exists = cases::cases_of_side(side).any(|case| case.clause == clause.id);
        let reason = match (ran.first(), clause.excuse(side)) {
            (Some(case), _) => {
                let reason = case.reason.as_deref().unwrap_or(case.verdict.name());
                format!("{}: {reason}", case.id)
            }
            (None, Some(excuse)) => format!("not testable from outside: {excuse}"),
            (None, None) if exists => NOT_SELECTED.to_owned(),
            (None, None) => "no case tests it".to_owned(),
        };
        open.push(NotCovered {
            clause: clause.id.clone(),
            level: clause.level,
            basis: clause.basis,
            reason,
        });
    }
    open
}

fn millis(duration: std::time::Duration) -> f64 {
    round(duration.as_secs_f64() * 1e3)
}

/// To a thousandth: more is noise.
fn round(number: f64) -> f64 {
    (number * 1e3).round() / 1e3
}
