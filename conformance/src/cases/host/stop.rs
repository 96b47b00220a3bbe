//! H-STP: a stop reaches the adapter, and ends one turn.

use crate::cases::prelude::*;

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-STP-05", behind_inputs)];

/// Begins a turn that has said something.
fn begun(t: &mut Trial, s: &Session, actions: &Value) -> Outcome<usize> {
    let from = t.begin(s, actions)?;
    Ok(from)
}

fn behind_inputs(t: &mut Trial) -> Outcome {
    let [s, holder] = t.open_each()?;
    let others = t.open_many(8)?;
    t.introduce(&s)?;
    let lower = t.lower(&s)?;
    let from = t.instruct(&s, &json!([["delay", 60_000]]))?;
    t.expect_told(from, &lower, "user.input")?;
    let held = json!([
        ["hold_stdin", true],
        ["say", "held"],
        ["delay", 1_200],
        ["hold_stdin", false],
        ["complete"]
    ]);
    let holding = begun(t, &holder, &held)?;
    let text = "t".repeat(128 << 10);
    let mut inputs = Vec::new();
    for other in &others {
        inputs.push(t.input(other, text.as_str())?);
    }
    let stopped = t.stop(&s)?;
    t.flushed(t.bounds.secs(2.0))
        .hint("the host does not read its hub while an adapter does not read")?;
    t.expect_told_within(
        stopped,
        &lower,
        "stop",
        t.bounds.deadline.max(t.bounds.secs(5.0)),
    )?;
    t.end_of(&s, from)?;
    t.end_of(&holder, holding)?;
    for (other, from) in others.iter().zip(inputs) {
        t.end_of(other, from)?;
    }
    Ok(())
}
