//! What a core-only hub sees of each thing that happens below.

use super::extended_relay::refusals;
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-RLY-14", refused)];

fn system(s: &Session) -> impl Fn(&Seen) -> bool {
    let id = s.id().to_owned();
    move |seen| {
        seen.session() == id
            && seen.is_with("output", "channel", "system")
            && !seen.text("content").is_empty()
    }
}

fn refused(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    for (category, actions) in refusals(t) {
        let from = t.instruct(&s, &actions)?;
        t.end_within(&s, from, t.bounds.secs(20.0))?;
        let limit = t.subject.limits.max_line;
        let told = system(&s);
        let delivered = |seen: &Seen| {
            category == "oversize" && seen.session() == s.id() && seen.text("content").len() > limit
        };
        if t.wait(from, t.bounds.deadline, |seen| {
            told(seen) || delivered(seen)
        })
        .is_none()
        {
            return t.late(
                format!("`output` on `system`: {category}"),
                t.what_came(from, &s),
            );
        }
    }
    t.settle()
}
