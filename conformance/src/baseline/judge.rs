//! Comparison of results with a baseline.

use serde::{Deserialize, Serialize};

use super::{Baseline, Expect};
use crate::{calendar::Day, exit, verdict::Verdict};

/// A case and its end, for the comparison.
#[derive(Debug, Clone)]
pub(crate) struct Fact<'a> {
    /// The id of the case.
    pub case: &'a str,
    /// Verdict.
    pub verdict: Verdict,
    /// True if it counts in the class of the run.
    pub scored: bool,
    /// The checks that failed.
    pub checks: Vec<&'a str>,
}

/// Standing of a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum CaseStanding {
    /// Passed, perhaps with a warning.
    Met,
    /// Not passed, as listed in the baseline.
    Known,
    /// Failed, and not listed in the baseline.
    Unexpected,
    /// Passed, although listed in the baseline.
    Stale,
    /// Inconclusive.
    Undecided,
    /// Not run, or not required by the class.
    NotScored,
    /// The suite went wrong.
    Harness,
}

/// The results of a run in the light of a baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BaselineJudgement {
    /// Standing of each case, in the order of the facts.
    pub standings: Vec<CaseStanding>,
    /// Notes about the baseline itself, for a person.
    pub notices: Vec<String>,
    /// The exit status of the run.
    pub exit: u8,
}

/// Compares results with what is known to fail.
pub(crate) fn judge(
    facts: &[Fact<'_>],
    baseline: Option<&Baseline>,
    today: Day,
    os: &str,
) -> BaselineJudgement {
    let mut notices = Vec::new();
    let standings: Vec<CaseStanding> = facts
        .iter()
        .map(|fact| standing(fact, baseline, today, os, &mut notices))
        .collect();
    let any = |standing| standings.contains(&standing);
    let exit = if any(CaseStanding::Harness) {
        exit::HARNESS
    } else if any(CaseStanding::Unexpected) {
        exit::FAILED
    } else if any(CaseStanding::Undecided) {
        exit::INCONCLUSIVE
    } else if any(CaseStanding::Stale) {
        exit::STALE
    } else {
        exit::CONFORMANT
    };
    BaselineJudgement {
        standings,
        notices,
        exit,
    }
}

fn standing(
    fact: &Fact<'_>,
    baseline: Option<&Baseline>,
    today: Day,
    os: &str,
    notices: &mut Vec<String>,
) -> CaseStanding {
    let listed = baseline
        .and_then(|baseline| baseline.find(fact.case, os))
        .filter(|known| {
            let over = known.expires.filter(|expires| *expires <= today);
            if let Some(expires) = over {
                notices.push(format!(
                    "the entry for {} has expired on {expires} and is ignored",
                    fact.case
                ));
            }
            over.is_none()
        });
    if fact.verdict == Verdict::Harness {
        return CaseStanding::Harness;
    }
    if !fact.scored || fact.verdict == Verdict::Skip {
        return CaseStanding::NotScored;
    }
    let Some(known) = listed else {
        return match fact.verdict {
            Verdict::Pass | Verdict::Warn | Verdict::Skip => CaseStanding::Met,
            Verdict::Inconclusive => CaseStanding::Undecided,
            Verdict::Fail | Verdict::Flaky | Verdict::Unsupported => CaseStanding::Unexpected,
            Verdict::Harness => CaseStanding::Harness,
        };
    };
    let within = known.checks.is_empty()
        || fact
            .checks
            .iter()
            .all(|failed| known.checks.iter().any(|check| check == failed));
    match (known.expect, fact.verdict) {
        (Expect::Flaky, Verdict::Pass | Verdict::Warn) => CaseStanding::Met,
        (Expect::Fail | Expect::Inconclusive, Verdict::Pass | Verdict::Warn) => {
            notices.push(format!(
                "{} passes: remove its entry from the baseline",
                fact.case
            ));
            CaseStanding::Stale
        }
        (Expect::Inconclusive | Expect::Flaky, Verdict::Inconclusive) => CaseStanding::Known,
        (Expect::Fail, Verdict::Inconclusive) => CaseStanding::Undecided,
        (Expect::Inconclusive, _) => CaseStanding::Unexpected,
        (Expect::Fail | Expect::Flaky, _) if within => {
            if known.expect == Expect::Fail && fact.verdict == Verdict::Flaky {
                notices.push(format!(
                    "{} fails only at times; its entry could be `flaky`",
                    fact.case
                ));
            }
            CaseStanding::Known
        }
        (Expect::Fail | Expect::Flaky, _) => {
            let more: Vec<&str> = fact
                .checks
                .iter()
                .copied()
                .filter(|failed| !known.checks.iter().any(|check| check == failed))
                .collect();
            notices.push(format!(
                "{} fails by more than its entry allows: {}",
                fact.case,
                more.join(", ")
            ));
            CaseStanding::Unexpected
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TODAY: &str = "2026-09-21";

    /// Judges a case with this end against the lines of one entry for it.
    fn one(verdict: Verdict, checks: &[&str], entry: Option<&str>) -> (CaseStanding, u8, usize) {
        judge_case(verdict, true, checks, entry)
    }

    fn judge_case(
        verdict: Verdict,
        scored: bool,
        checks: &[&str],
        entry: Option<&str>,
    ) -> (CaseStanding, u8, usize) {
        let baseline = entry.map(|lines| {
            let text = format!("suite = \"1\"\n[[known]]\ncase = \"A-1\"\nreason = \"r\"\n{lines}");
            Baseline::parse(&text, |_| true).unwrap()
        });
        let fact = Fact {
            case: "A-1",
            verdict,
            scored,
            checks: checks.to_vec(),
        };
        let judgement = judge(&[fact], baseline.as_ref(), TODAY.parse().unwrap(), "linux");
        (
            judgement.standings[0],
            judgement.exit,
            judgement.notices.len(),
        )
    }

    #[test]
    fn without_an_entry_only_pass_warn_and_skip_are_quiet() {
        use CaseStanding::*;
        for (verdict, standing, exit) in [
            (Verdict::Pass, Met, 0),
            (Verdict::Warn, Met, 0),
            (Verdict::Skip, NotScored, 0),
            (Verdict::Inconclusive, Undecided, 4),
            (Verdict::Unsupported, Unexpected, 1),
            (Verdict::Flaky, Unexpected, 1),
            (Verdict::Fail, Unexpected, 1),
            (Verdict::Harness, Harness, 6),
        ] {
            assert_eq!(
                one(verdict, &["case"], None),
                (standing, exit, 0),
                "{verdict}"
            );
        }
    }

    #[test]
    fn an_entry_decides_by_what_it_expects() {
        use CaseStanding::*;
        use Verdict::{Fail, Flaky, Inconclusive, Pass, Skip, Unsupported, Warn};
        let fail = "expect = \"fail\"";
        let flaky = "expect = \"flaky\"";
        let unclear = "expect = \"inconclusive\"";
        for (entry, verdict, standing, exit, notices) in [
            (fail, Fail, Known, 0, 0),
            (fail, Unsupported, Known, 0, 0),
            (fail, Flaky, Known, 0, 1),
            (fail, Pass, Stale, 5, 1),
            (fail, Warn, Stale, 5, 1),
            (fail, Inconclusive, Undecided, 4, 0),
            (fail, Skip, NotScored, 0, 0),
            (fail, Verdict::Harness, CaseStanding::Harness, 6, 0),
            (flaky, Fail, Known, 0, 0),
            (flaky, Flaky, Known, 0, 0),
            (flaky, Inconclusive, Known, 0, 0),
            (flaky, Pass, Met, 0, 0),
            (unclear, Inconclusive, Known, 0, 0),
            (unclear, Fail, Unexpected, 1, 0),
            (unclear, Flaky, Unexpected, 1, 0),
            (unclear, Pass, Stale, 5, 1),
        ] {
            assert_eq!(
                one(verdict, &["case"], Some(entry)),
                (standing, exit, notices),
                "{entry}: {verdict}"
            );
        }
    }

    #[test]
    fn only_the_named_checks_may_fail() {
        let entry = Some("expect = \"fail\"\nchecks = [\"O-RES\", \"case\"]");
        assert_eq!(one(Verdict::Fail, &["O-RES"], entry).0, CaseStanding::Known);
        assert_eq!(
            one(Verdict::Fail, &["O-RES", "case"], entry).0,
            CaseStanding::Known
        );
        assert_eq!(
            one(Verdict::Fail, &["O-RES", "O-LEDGER"], entry),
            (CaseStanding::Unexpected, 1, 1)
        );
    }

    #[test]
    fn an_entry_counts_only_on_its_system_and_until_it_expires() {
        let fail = "expect = \"fail\"\n";
        let expires = |day: &str| format!("{fail}expires = \"{day}\"");
        assert_eq!(one(Verdict::Fail, &[], Some(&expires("2026-09-22"))).1, 0);
        assert_eq!(
            one(Verdict::Fail, &[], Some(&expires(TODAY))),
            (CaseStanding::Unexpected, 1, 1)
        );
        assert_eq!(
            one(Verdict::Pass, &[], Some(&expires("2026-01-01"))).0,
            CaseStanding::Met
        );
        assert_eq!(
            one(
                Verdict::Fail,
                &[],
                Some(&format!("{fail}when = {{ os = \"linux\" }}"))
            )
            .1,
            0
        );
        assert_eq!(
            one(
                Verdict::Fail,
                &[],
                Some(&format!("{fail}when = {{ os = \"macos\" }}"))
            )
            .1,
            1
        );
    }

    #[test]
    fn what_the_class_does_not_ask_for_decides_nothing() {
        for verdict in [Verdict::Fail, Verdict::Pass, Verdict::Inconclusive] {
            let entry = Some("expect = \"fail\"");
            assert_eq!(
                judge_case(verdict, false, &["case"], entry),
                (CaseStanding::NotScored, 0, 0),
                "{verdict}"
            );
        }
    }

    #[test]
    fn the_gravest_case_decides_the_status() {
        let fact = |verdict| Fact {
            case: "A-1",
            verdict,
            scored: true,
            checks: vec![],
        };
        let status = |verdicts: &[Verdict]| {
            let text =
                "suite = \"1\"\n[[known]]\ncase = \"A-2\"\nexpect = \"fail\"\nreason = \"r\"";
            let baseline = Baseline::parse(text, |_| true).unwrap();
            let mut facts: Vec<Fact<'_>> = verdicts.iter().copied().map(fact).collect();
            facts.push(Fact {
                case: "A-2",
                ..fact(Verdict::Pass)
            });
            judge(&facts, Some(&baseline), TODAY.parse().unwrap(), "linux").exit
        };
        assert_eq!(status(&[]), 5);
        assert_eq!(status(&[Verdict::Inconclusive]), 4);
        assert_eq!(status(&[Verdict::Inconclusive, Verdict::Fail]), 1);
        assert_eq!(status(&[Verdict::Fail, Verdict::Harness]), 6);
    }
}
