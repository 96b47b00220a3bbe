//! What a run says: to a person while it runs, and as data when it is over.

use std::time::Duration;

use crate::{
    cli::exit,
    run::{Calibration, CaseResult, Plan},
    subject::Subject,
    verdict::Verdict,
};

mod evidence;
mod json;
mod text;

pub use self::{json::result_json, text::Progress};

/// Everything about a run that is over.
#[derive(Debug)]
pub struct Run<'a> {
    /// What was asked for.
    pub plan: &'a Plan,
    /// What was tested.
    pub subject: &'a Subject,
    /// What was measured first.
    pub calibration: &'a Calibration,
    /// What became of each case.
    pub results: &'a [CaseResult],
    /// How long it took.
    pub took: Duration,
}

impl Run<'_> {
    /// How many cases ended so.
    pub fn count(&self, verdict: Verdict) -> usize {
        self.results.iter().filter(|result| result.verdict == verdict).count()
    }

    /// The exit status that the results mean.
    pub fn status(&self) -> u8 {
        let any = |verdicts: &[Verdict]| {
            self.results.iter().any(|result| result.scored && verdicts.contains(&result.verdict))
        };
        if any(&[Verdict::Harness]) {
            exit::HARNESS
        } else if any(&[Verdict::Fail, Verdict::Flaky, Verdict::Unsupported]) {
            exit::FAILED
        } else if any(&[Verdict::Inconclusive]) {
            exit::INCONCLUSIVE
        } else {
            exit::CONFORMANT
        }
    }
}

/// What went wrong in a case, in plain text.
pub fn failure_text(result: &CaseResult) -> String {
    let case = result.case;
    let mut text = format!("{} {}: {} [{}]\n", case.id, case.title, result.verdict, case.clause);
    text.push_str(&format!("sent      {}\n", case.stimulus));
    for finding in &result.findings {
        text.push_str(&format!("[{}] {} ({})\n", finding.clause, finding.level, finding.check));
        text.push_str(&format!("expected  {}\ngot       {}\n", finding.expected, finding.got));
        if let Some(hint) = &finding.hint {
            text.push_str(&format!("hint      {hint}\n"));
        }
    }
    if let Some(reason) = &result.reason {
        text.push_str(&format!("{reason}\n"));
    }
    text
}

/// Writes the evidence and the report, and returns the exit status.
pub fn conclude(run: &Run<'_>, as_json: bool) -> u8 {
    let kept = evidence::keep(run);
    if as_json {
        anstream::println!("{}", result_json(run));
    } else {
        text::conclude(run, kept.as_deref());
    }
    run.status()
}
