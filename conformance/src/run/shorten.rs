//! A failure of a random conversation, brought down to the shortest one that still fails.

use std::{collections::BTreeSet, time::Duration};

use super::{CaseResult, Plan, run_part};
use crate::{
    shrink::shortest,
    subject::{Bounds, Subject},
    verdict::Verdict,
};

/// Timeout of the search.
const WITHIN: Duration = Duration::from_secs(60);

/// Time that a candidate waits for the ends of stopped turns: short, because the whole list has
/// shown the failure already.
const STOP: Duration = Duration::from_secs(2);

/// The result of the shortest part of a case's list that breaks one of the same clauses; the result
/// itself where the case has no list or did not fail.
pub(super) fn shortened(
    result: CaseResult,
    subject: &Subject,
    bounds: &Bounds,
    plan: &Plan,
) -> CaseResult {
    if result.verdict != Verdict::Fail || result.choices < 2 {
        return result;
    }
    let broken: BTreeSet<String> = result
        .findings
        .iter()
        .map(|finding| finding.clause.to_string())
        .collect();
    let all: Vec<usize> = (0..result.choices).collect();
    let bounds = Bounds {
        stop: bounds.stop.min(STOP),
        ..*bounds
    };
    let mut last = None;
    let kept = shortest(&all, WITHIN, |part| {
        let attempt = result.attempts + 1;
        let candidate = run_part(result.case, subject, &bounds, plan, attempt, Some(part));
        let same = candidate.verdict == Verdict::Fail
            && candidate
                .findings
                .iter()
                .any(|finding| broken.contains(&*finding.clause));
        if same {
            last = Some(candidate);
        }
        same
    });
    let Some(shorter) = last else { return result };
    let mut notes = shorter.notes;
    notes.push(format!(
        "shortest list that fails: {} of {} actions",
        kept.len(),
        result.choices
    ));
    CaseResult {
        notes,
        took: result.took,
        attempts: result.attempts,
        ..shorter
    }
}
