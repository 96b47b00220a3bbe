//! `result.json`: the complete result of a run, as data. Every report is a function of it.

use serde::{Deserialize, Serialize};

use super::diagram::DiagramRow;
use crate::{
    baseline::{BaselineJudgement, CaseStanding, Fact},
    class::Class,
    clauses::{Basis, Level, Side},
    exit,
    printable::short,
    verdict::{EvidenceGround, Tier, Verdict},
};

/// The version of the schema, `conformance/schema/result.schema.json`. A field that is added leaves
/// it as it is.
///
/// Version 1 called the class `profile`, in `plan` and as a basis; such results are still read.
pub(crate) const SCHEMA_VERSION: u32 = 2;

/// A run that is over.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Document {
    /// The version of the schema that it follows.
    pub schema_version: u32,
    /// The version of the suite.
    pub suite: String,
    /// The version of the protocol.
    pub protocol: u32,
    /// When it began, in UTC.
    pub started_at: String,
    /// Duration, in milliseconds.
    pub duration_ms: f64,
    /// The plan.
    pub plan: PlanData,
    /// The platform.
    pub platform: Platform,
    /// Subject of the test.
    pub subject: SubjectData,
    /// First measurements.
    pub calibration: Timing,
    /// Result of each case.
    pub cases: Vec<CaseData>,
    /// Number of cases by verdict.
    pub totals: Totals,
    /// Number of conclusive verdicts by tier.
    pub tiers: Tiers,
    /// The clauses of this side that no case of this run has judged, with the reason.
    pub not_covered: Vec<NotCovered>,
    /// The baseline, if there was one.
    pub baseline: Option<BaselineData>,
    /// Outcome of the run.
    pub outcome: RunOutcome,
}

/// Plan of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct PlanData {
    /// Demands that count as failures.
    #[serde(alias = "profile")]
    pub class: Class,
    /// Selection of cases: `all`, `smoke`, or the selectors.
    pub selection: Vec<String>,
    /// Seed of all random choices, in hexadecimal.
    pub seed: String,
    /// Factor of every bound.
    pub time_scale: f64,
    /// Number of simultaneous cases.
    pub jobs: usize,
}

/// Platform of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Platform {
    /// The operating system.
    pub os: String,
    /// The processor.
    pub arch: String,
}

/// Subject of the test.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SubjectData {
    /// Adapter or host.
    pub side: Side,
    /// Command.
    pub command: Vec<String>,
    /// Name that the program reports, if it does.
    pub program: Option<String>,
    /// Declared abilities.
    pub abilities: Vec<String>,
    /// The recipes that its author gave.
    pub recipes: Vec<String>,
    /// The probe's operations.
    pub probe: Vec<String>,
    /// The extensions that it agreed on.
    pub extensions: Vec<String>,
}

/// First measurements, in milliseconds.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Timing {
    /// From the start of the process to the end of its first turn.
    pub start_ms: f64,
    /// An ordinary turn.
    pub turn_ms: f64,
    /// The quiet window.
    pub quiet_ms: f64,
}

/// Result of a case.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct CaseData {
    /// The id.
    pub id: String,
    /// The family: the middle of the id.
    pub family: String,
    /// Title.
    pub title: String,
    /// The clause that it reports under.
    pub clause: String,
    /// Level of the clause for this case.
    pub level: Level,
    /// Source of the demand.
    pub basis: Basis,
    /// Judged side.
    pub side: Side,
    /// Tier of the verdict.
    pub tier: Tier,
    /// Verdict.
    pub verdict: Verdict,
    /// Standing with the baseline.
    pub standing: CaseStanding,
    /// Reason why the baseline tolerates it.
    pub known: Option<String>,
    /// True if it counts in the class of the run.
    pub scored: bool,
    /// Stimulus.
    pub stimulus: String,
    /// Accepted reactions.
    pub expected: String,
    /// Broken rules, the gravest first.
    pub findings: Vec<FindingData>,
    /// Number of omitted findings.
    pub more_findings: usize,
    /// Reason why it was skipped or inconclusive, or the error of the suite.
    pub reason: Option<String>,
    /// Remarks.
    pub notes: Vec<String>,
    /// Duration, in milliseconds.
    pub duration_ms: f64,
    /// Number of runs.
    pub attempts: u32,
    /// The seed of the run that shows this result again, in hexadecimal.
    pub seed: String,
    /// The command that runs it again.
    pub again: String,
    /// The files of its evidence, from the folder of the result.
    pub artefacts: Vec<String>,
    /// Events, shortened; empty if none is worth showing.
    pub diagram: Vec<DiagramRow>,
}

/// A broken rule.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct FindingData {
    /// The clause.
    pub clause: String,
    /// Level for this case.
    pub level: Level,
    /// Source of the demand.
    pub basis: Basis,
    /// Finder: `case`, or the oracle's id.
    pub check: String,
    /// Sent message.
    pub sent: String,
    /// Expected reaction.
    pub expected: String,
    /// Observed reaction.
    pub got: String,
    /// Likely cause, if known.
    pub hint: Option<String>,
    /// Kind of evidence.
    pub ground: EvidenceGround,
    /// The line of the transcript that shows it, from 1.
    pub line: Option<usize>,
}

/// Number of cases by verdict.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Totals {
    /// All that was demanded was seen.
    pub pass: usize,
    /// A MUST was broken.
    pub fail: usize,
    /// Only a SHOULD was broken.
    pub warn: usize,
    /// The program lacks what the case needs, such as a recipe.
    pub skip: usize,
    /// A declared ability was refused.
    pub unsupported: usize,
    /// The case could not find out.
    pub inconclusive: usize,
    /// Failed sometimes.
    pub flaky: usize,
    /// The suite went wrong.
    pub harness: usize,
}

/// Number of verdicts by tier.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tiers {
    /// By the pipe.
    pub black_box: usize,
    /// By a text of the author's.
    pub recipe: usize,
    /// By the probe.
    pub probe: usize,
}

/// A clause that no case of this run has judged.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotCovered {
    /// The clause.
    pub clause: String,
    /// Level.
    pub level: Level,
    /// Source of the demand.
    pub basis: Basis,
    /// Reason why it was not judged.
    pub reason: String,
}

/// The baseline of a run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct BaselineData {
    /// The file.
    pub file: String,
    /// Notes for a person.
    pub notices: Vec<String>,
}

/// Outcome of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunOutcome {
    /// In a word or two.
    pub result: String,
    /// The cases that failed and were not known to.
    pub failed: usize,
    /// Number of cases that did not pass, as listed in the baseline.
    pub known: usize,
    /// The exit status.
    pub exit: u8,
}

impl Document {
    /// Returns the facts to compare with a baseline.
    pub(crate) fn facts(&self) -> Vec<Fact<'_>> {
        self.cases
            .iter()
            .map(|case| Fact {
                case: &case.id,
                verdict: case.verdict,
                scored: case.scored,
                checks: case.failed_checks(self.plan.class),
            })
            .collect()
    }

    /// Applies the result of the comparison. `why` returns the reason of an entry.
    pub(crate) fn take(
        &mut self,
        judgement: &BaselineJudgement,
        why: impl Fn(&str) -> Option<String>,
    ) {
        for (case, standing) in self.cases.iter_mut().zip(&judgement.standings) {
            case.standing = *standing;
            case.known = (*standing == CaseStanding::Known)
                .then(|| why(&case.id))
                .flatten();
        }
        let count = |standing| {
            self.cases
                .iter()
                .filter(|case: &&CaseData| case.standing == standing)
                .count()
        };
        let mut exit = judgement.exit;
        if exit == exit::CONFORMANT && self.is_all_skipped() {
            exit = exit::USAGE;
        }
        let result = match exit {
            exit::CONFORMANT => "CONFORMANT",
            exit::USAGE => "NOTHING JUDGED",
            exit::INCONCLUSIVE => "INCONCLUSIVE",
            exit::HARNESS => "HARNESS ERROR",
            exit::STALE => "STALE BASELINE",
            _ => "NOT CONFORMANT",
        };
        self.outcome = RunOutcome {
            result: result.to_owned(),
            failed: count(CaseStanding::Unexpected),
            known: count(CaseStanding::Known),
            exit,
        };
    }

    /// Returns true if there were cases and none of them ran, which proves nothing about the
    /// program.
    fn is_all_skipped(&self) -> bool {
        !self.cases.is_empty() && self.cases.iter().all(|case| case.verdict == Verdict::Skip)
    }

    /// The last line of the text: stable, for machines that read lines.
    pub(crate) fn last_line(&self) -> String {
        let outcome = &self.outcome;
        let noun = if outcome.failed == 1 {
            "failure"
        } else {
            "failures"
        };
        let known = if outcome.known > 0 {
            format!(", {} known", outcome.known)
        } else {
            String::new()
        };
        let scope = match self.plan.selection.join(" ").as_str() {
            "all" => String::new(),
            some => format!(", {}", short(some, 60)),
        };
        format!(
            "result: {} ({} {}{scope}): {} {noun}{known}   exit {}",
            outcome.result,
            self.plan.class.name(),
            self.protocol,
            outcome.failed,
            outcome.exit
        )
    }

    /// The notes of the cases that need no other word: those that passed or were skipped.
    pub(crate) fn quiet_notes(&self) -> impl Iterator<Item = (&CaseData, &str)> {
        let quiet = self
            .cases
            .iter()
            .filter(|case| matches!(case.verdict, Verdict::Pass | Verdict::Skip));
        quiet.flat_map(|case| case.notes.iter().map(move |note| (case, note.as_str())))
    }

    /// The families in the order of the catalogue, each with its cases.
    pub(crate) fn families(&self) -> Vec<(&str, Vec<&CaseData>)> {
        let mut families: Vec<(&str, Vec<&CaseData>)> = Vec::new();
        for case in &self.cases {
            match families
                .iter_mut()
                .find(|(family, _)| *family == case.family)
            {
                Some((_, cases)) => cases.push(case),
                None => families.push((&case.family, vec![case])),
            }
        }
        families
    }
}

impl CaseData {
    /// The checks that failed in a class, each once.
    pub(crate) fn failed_checks(&self, class: Class) -> Vec<&str> {
        let decides =
            |level| level == Level::Must || level == Level::Should && class == Class::Strict;
        let mut checks: Vec<&str> = Vec::new();
        for finding in self
            .findings
            .iter()
            .filter(|finding| decides(finding.level))
        {
            if !checks.contains(&finding.check.as_str()) {
                checks.push(&finding.check);
            }
        }
        checks
    }

    /// Returns the level of the broken rule: a case of a MUST may have found only a broken SHOULD.
    pub(crate) fn level_shown(&self) -> Level {
        self.findings
            .iter()
            .map(|finding| finding.level)
            .max()
            .unwrap_or(self.level)
    }

    /// Returns true if the case did not pass and the class of the run does not score it.
    pub(crate) fn is_outside(&self) -> bool {
        self.standing == CaseStanding::NotScored
            && !matches!(self.verdict, Verdict::Pass | Verdict::Skip)
    }

    /// Returns the result for people.
    pub(crate) fn verdict_shown(&self) -> String {
        let outside = if self.is_outside() {
            ", outside of this class"
        } else {
            ""
        };
        format!("{}{outside}", self.verdict)
    }

    /// In one line, why it ended so.
    pub(crate) fn because(&self) -> &str {
        let finding = self.findings.first().map(|finding| finding.got.as_str());
        match self.verdict {
            Verdict::Fail | Verdict::Flaky | Verdict::Warn => finding.or(self.reason.as_deref()),
            _ => self.reason.as_deref().or(finding),
        }
        .unwrap_or_default()
    }

    /// Returns the few most relevant rows, for the terminal.
    pub(crate) fn gist(&self) -> &[DiagramRow] {
        const SHORT: usize = 12;
        let rows = &self.diagram;
        if rows.len() <= SHORT {
            return rows;
        }
        match rows.iter().position(|row| row.mark.is_some()) {
            Some(marked) => &rows[marked.saturating_sub(6)..rows.len().min(marked + 3)],
            None => &rows[rows.len() - 8..],
        }
    }
}

impl Totals {
    /// Counts the cases by verdict.
    pub(crate) fn from_cases<'a>(cases: impl IntoIterator<Item = &'a CaseData>) -> Self {
        let mut totals = Self::default();
        for case in cases {
            *totals.slot(case.verdict) += 1;
        }
        totals
    }

    /// Counts the cases by verdict: the ones that this class scores or that passed, and the others.
    pub(crate) fn split<'a>(cases: impl IntoIterator<Item = &'a CaseData>) -> (Self, Self) {
        let (outside, inside): (Vec<_>, Vec<_>) =
            cases.into_iter().partition(|case| case.is_outside());
        (Self::from_cases(inside), Self::from_cases(outside))
    }

    /// Returns the number of cases with this verdict.
    pub(crate) fn get(&self, verdict: Verdict) -> usize {
        *self.clone().slot(verdict)
    }

    fn slot(&mut self, verdict: Verdict) -> &mut usize {
        match verdict {
            Verdict::Pass => &mut self.pass,
            Verdict::Skip => &mut self.skip,
            Verdict::Warn => &mut self.warn,
            Verdict::Inconclusive => &mut self.inconclusive,
            Verdict::Unsupported => &mut self.unsupported,
            Verdict::Flaky => &mut self.flaky,
            Verdict::Fail => &mut self.fail,
            Verdict::Harness => &mut self.harness,
        }
    }
}
