//! H-STP: a stop reaches the adapter, and ends one turn.

use crate::cases::prelude::*;

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-STP-01", one_stop),
    ("H-STP-02", lives_on),
    ("H-STP-03", unanswered),
    ("H-STP-04", during_a_flood),
    ("H-STP-05", behind_inputs),
    ("H-STP-06", output_after),
];

/// Begins a turn that has said something.
fn begun(t: &mut Trial, s: &Session, actions: &Value) -> Outcome<usize> {
    let from = t.begin(s, actions)?;
    Ok(from)
}

fn one_stop(t: &mut Trial) -> Outcome {
    let [s, other] = t.open_each()?;
    let from_other = t.begin_busy(&other)?;
    let from = t.begin_busy(&s)?;
    let (lower, lower_other) = (t.lower(&s)?, t.lower(&other)?);
    let stopped = t.stop(&s)?;
    t.expect_told_within(stopped, &lower, "stop", t.bounds.secs(1.0))?;
    t.end_of(&s, from)?;
    t.demand_ends(&s, 1)?;
    t.demand_ends_now(&other, 0)?;
    let (stops, others) = (
        t.told(&lower, "stop").len(),
        t.told(&lower_other, "stop").len(),
    );
    // A host may repeat itself when it ends the turn.
    t.demand(
        (1..=2).contains(&stops),
        "one `stop` at the adapter, or one more",
        stops,
    )?;
    t.demand(others == 0, "no `stop` for the other session", others)?;
    t.stop(&other)?;
    t.end_of(&other, from_other)?;
    Ok(())
}

fn lives_on(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let from = t.begin_busy(&s)?;
    let before = t.lower(&s)?;
    t.stop(&s)?;
    t.end_of(&s, from)?;
    t.demand_served(&s, "again")?;
    let after = t.lower(&s)?;
    t.demand(
        before == after,
        "the same session at the adapter",
        format!("{before:?}, then {after:?}"),
    )?;
    let closes = t.told(&before, "session.close").len();
    t.demand(closes == 0, "no `session.close`", closes)
}

fn unanswered(t: &mut Trial) -> Outcome {
    let [s, closed, other] = t.open_each()?;
    let deaf = json!([
        ["ignore_stop"],
        ["say", "on "],
        ["wait", "stop"],
        ["say", "and on"]
    ]);
    let from = begun(t, &s, &deaf)?;
    begun(t, &closed, &deaf)?;
    let (lower, lower_closed) = (t.lower(&s)?, t.lower(&closed)?);
    for (session, lower) in [(&s, &lower), (&closed, &lower_closed)] {
        let stopped = t.stop(session)?;
        t.expect_told_within(stopped, lower, "stop", t.bounds.secs(2.0))
            .under("turn.4")?;
    }
    t.demand_served(&other, "served")?;
    let close = t.close(&closed)?;
    t.expect_told_within(close, &lower_closed, "session.close", t.bounds.secs(2.0))
        .hint("the host seems to handle nothing of a session while its stop is unanswered")?;

    let turn = t
        .end_within(&s, from, t.bounds.stop + t.bounds.secs(2.0))
        .hint(
            "no end is made when a stop stays unanswered; limit `stop_s` is the host's deadline",
        )?;
    t.demand_text(&turn, "on and on")?;
    t.demand_told(&turn, "why the turn ended")?;
    let turn = t.act(&s, &say_and_complete("anew"))?;
    t.demand_text(&turn, "anew")?;
    let after = t.lower(&s)?;
    t.demand(
        after != lower,
        "a new session below after the unanswered stop",
        format!("{lower:?} again"),
    )
    .under("turn.8")
}

fn during_a_flood(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    // 8 GiB, if no one stopped it.
    let flood = json!([
        ["say", "begun"],
        ["repeat", 60_000, [["burst", 8, 16_384], ["delay", 2]]]
    ]);
    let from = begun(t, &s, &flood)?;
    let lower = t.lower(&s)?;
    t.pass_time(Duration::from_millis(300));
    let stopped = t.stop(&s)?;
    t.expect_told_within(stopped, &lower, "stop", t.bounds.secs(2.0))
        .hint("the stop seems to wait behind the adapter's output")?;
    t.end_of(&s, from)?;
    t.demand_ends_now(&s, 1)
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

fn output_after(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let talk = json!([
        ["say", "a"],
        ["wait", "stop"],
        ["say", "b"],
        ["delay", 300],
        ["say", "c"],
        ["complete"]
    ]);
    let from = begun(t, &s, &talk)?;
    t.stop(&s)?;
    t.demand_end(&s, from, "abc")
        .hint("a turn ends when the adapter says so, not when it is stopped")?;
    t.demand_ends(&s, 1)
}
