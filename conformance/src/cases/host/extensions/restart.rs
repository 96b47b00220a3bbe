//! A user's session outlives the process beneath it.

use super::super::{demand_fresh_ids, full_hub};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-EXT-23", fresh_ids)];

/// What the hub was reported of the context since a place, and the first answer since then.
fn told(t: &Trial, s: &Session, from: usize) -> (Vec<Seen>, Option<Seen>) {
    let all: Vec<Seen> = t
        .of(s)
        .into_iter()
        .filter(|seen| seen.index >= from)
        .collect();
    let contexts = all
        .iter()
        .filter(|seen| seen.get("context").is_some())
        .cloned()
        .collect();
    let answer = all
        .iter()
        .find(|seen| {
            seen.kind() == "output" && !matches!(seen.text("channel"), "system" | "stderr")
        })
        .cloned();
    (contexts, answer)
}

pub(in crate::cases) fn demand_context(
    t: &Trial,
    s: &Session,
    from: usize,
    wanted: &str,
) -> Outcome {
    let (contexts, answer) = told(t, s, from);
    let words: Vec<&str> = contexts.iter().map(|seen| seen.text("context")).collect();
    t.demand(
        words == [wanted],
        format!("`context: {wanted}` once"),
        format!("{words:?}"),
    )?;
    let first = answer.is_none_or(|answer| contexts[0].index < answer.index);
    t.demand(
        first,
        "the context before the first answer of the new process",
        "after it",
    )
}

/// Has the stub die while nothing runs, and gives the host time to see it.
pub(in crate::cases) fn die(t: &mut Trial, s: &Session) -> Outcome {
    let from = t.history.len();
    t.act(s, &json!([["complete"], ["delay", 50], ["exit", 3]]))?;
    full_hub::expect_gone(t, from, &t.lower(s)?)?;
    t.pass_time(t.bounds.quiet);
    Ok(())
}

fn fresh_ids(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns", "control"])?;
    let (a, b, c) = (t.open_known()?, t.open_known()?, t.open_known()?);
    // Only where the host has offered `control` may the adapter end a session.
    if full_hub::demand_offer(t, &t.lower(&a)?, "control").is_ok() {
        t.act(
            &a,
            &json!([["emit", {"type":"session.closed","reason":"finished"}], ["complete"]]),
        )?;
        let from = t.input(&a, "again")?;
        t.end_of(&a, from)?;
    }
    t.close(&b)?;
    if t.subject.abilities.contains(&Ability::Restarts) {
        let from = t.instruct(&c, &json!([["exit", 0]]))?;
        t.end_of(&c, from)?;
        t.introduce(&c)?;
    }
    t.settle()?;
    demand_fresh_ids(t, "an id once in a process").map(drop)
}
