//! The same plan again and again, each time with another seed: what fails only at times shows.

use super::{CaseResult, Observer, Plan, run};
use crate::{
    subject::{Bounds, Subject},
    verdict::Verdict,
};

/// Number of runs of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rounds {
    /// So many times.
    Times(u32),
    /// Until something fails, and at most so many times.
    UntilFailure(u32),
}

/// Result of a case over all rounds.
#[derive(Debug, Clone)]
pub(crate) struct Repeated {
    /// The worst of its results.
    pub result: CaseResult,
    /// The seed of the round that the result is of.
    pub run_seed: u64,
    /// Number of runs.
    pub rounds: u32,
    /// In how many rounds it did not pass.
    pub failed: u32,
}

/// Runs a plan in rounds. The first uses the plan's seed, so that one round is a plain run.
pub(crate) fn run_rounds(
    plan: &Plan,
    rounds: Rounds,
    subject: &Subject,
    bounds: &Bounds,
    observer: &dyn Observer,
) -> Vec<Repeated> {
    let (most, until_failure) = match rounds {
        Rounds::Times(times) => (times.max(1), false),
        Rounds::UntilFailure(most) => (most.max(1), true),
    };
    let mut merged: Vec<Repeated> = Vec::new();
    for round in 0..most {
        let plan = Plan {
            seed: plan.seed.wrapping_add(u64::from(round)),
            ..plan.clone()
        };
        let results = run(&plan, subject, bounds, observer);
        let over = until_failure
            && results
                .iter()
                .any(|result| result.scored && is_red(result.verdict));
        for result in results {
            let held = merged
                .iter_mut()
                .find(|held| held.result.case.id == result.case.id);
            match held {
                Some(held) => held.take(result, plan.seed),
                None => merged.push(Repeated {
                    run_seed: plan.seed,
                    rounds: 1,
                    failed: u32::from(is_red(result.verdict)),
                    result,
                }),
            }
        }
        if over {
            break;
        }
    }
    for held in &mut merged {
        held.conclude();
    }
    merged
}

impl Repeated {
    fn take(&mut self, mut result: CaseResult, seed: u64) {
        self.rounds += 1;
        self.failed += u32::from(is_red(result.verdict));
        let took = self.result.took + result.took;
        let attempts = self.result.attempts.saturating_add(result.attempts);
        if result.verdict > self.result.verdict {
            std::mem::swap(&mut self.result, &mut result);
            self.run_seed = seed;
        }
        (self.result.took, self.result.attempts) = (took, attempts);
    }

    fn conclude(&mut self) {
        if self.failed > 0 && self.rounds > 1 {
            self.result.notes.push(format!(
                "it did not pass in {} of {} rounds",
                self.failed, self.rounds
            ));
        }
        if self.failed > 0 && self.failed < self.rounds && self.result.verdict == Verdict::Fail {
            self.result.verdict = Verdict::Flaky;
        }
    }
}

fn is_red(verdict: Verdict) -> bool {
    verdict >= Verdict::Unsupported
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::case::Case;
    use crate::clauses::Level;
    use crate::verdict::Tier;

    static CASE: Case = Case::unlisted(Level::Must, "A-X-01", "", "");

    fn ended(verdict: Verdict) -> CaseResult {
        CaseResult {
            case: &CASE,
            verdict,
            findings: Vec::new(),
            reason: None,
            notes: Vec::new(),
            tier: Tier::BlackBox,
            took: Duration::from_secs(1),
            attempts: 1,
            choices: 0,
            records: Vec::new(),
            scored: true,
        }
    }

    fn over(verdicts: &[Verdict]) -> Repeated {
        let failed = u32::from(is_red(verdicts[0]));
        let mut held = Repeated {
            result: ended(verdicts[0]),
            run_seed: 0,
            rounds: 1,
            failed,
        };
        for (round, verdict) in verdicts.iter().enumerate().skip(1) {
            held.take(ended(*verdict), round as u64);
        }
        held.conclude();
        held
    }

    #[test]
    fn what_fails_in_some_rounds_is_flaky_and_shows_the_round() {
        let held = over(&[Verdict::Pass, Verdict::Fail, Verdict::Pass]);
        assert_eq!(
            (held.result.verdict, held.run_seed, held.failed),
            (Verdict::Flaky, 1, 1)
        );
        assert_eq!(
            (held.result.took, held.result.attempts),
            (Duration::from_secs(3), 3)
        );
        assert_eq!(held.result.notes, ["it did not pass in 1 of 3 rounds"]);
    }

    #[test]
    fn what_fails_in_all_rounds_fails() {
        assert_eq!(
            over(&[Verdict::Fail, Verdict::Fail]).result.verdict,
            Verdict::Fail
        );
        assert_eq!(
            over(&[Verdict::Pass, Verdict::Pass]).result.verdict,
            Verdict::Pass
        );
        assert_eq!(over(&[Verdict::Fail]).result.notes.len(), 0);
    }
}
