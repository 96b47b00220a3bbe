//! H-STP: a stop reaches the adapter, and ends one turn.

use serde_json::json;

use super::{demand_answer, demand_ends};
use crate::{case::Case, clauses::Basis, trial::Trial, verdict::Outcome};

/// The family.
pub(in crate::cases) static CASES: &[Case] = &[
    Case {
        id: "H-STP-01",
        title: "one stop at the adapter",
        clause: "turn.4",
        basis: Basis::Derived,
        smoke: true,
        stimulus: "`stop` during a turn, while another session has one too",
        expected: "exactly one `stop` with the right id within 1 s, and one end",
        run: one_stop,
        ..Case::NEW
    },
    Case {
        id: "H-STP-02",
        title: "the session lives on",
        clause: "turn.4",
        stimulus: "a turn is stopped; the next input",
        expected: "it is served in the same session; `session.close` was not sent",
        run: lives_on,
        ..Case::NEW
    },
];

fn one_stop(t: &mut Trial<'_>) -> Outcome {
    let (s, other) = (t.open()?, t.open()?);
    let from_other = t.instruct(&other, &json!([["say", "busy"]]))?;
    t.expect(from_other, &other, "output", t.bounds.patience)?;
    let from = t.instruct(&s, &json!([["say", "busy"]]))?;
    t.expect(from, &s, "output", t.bounds.patience)?;
    let (lower, lower_other) = (t.lower(&s)?, t.lower(&other)?);
    let stopped = t.stop(&s)?;
    t.expect_told(stopped, &lower, "stop", t.bounds.secs(1.0))?;
    t.end_of(&s, from)?;
    t.settle()?;
    demand_ends(t, &s, 1)?;
    demand_ends(t, &other, 0)?;
    let (stops, others) = (t.told(&lower, "stop").len(), t.told(&lower_other, "stop").len());
    t.demand(stops == 1, "one `stop` at the adapter", format!("{stops}"))?;
    t.demand(others == 0, "no `stop` for the other session", format!("{others}"))?;
    t.stop(&other)?;
    t.end_of(&other, from_other)?;
    Ok(())
}

fn lives_on(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let from = t.instruct(&s, &json!([["say", "busy"]]))?;
    t.expect(from, &s, "output", t.bounds.patience)?;
    let before = t.lower(&s)?;
    t.stop(&s)?;
    t.end_of(&s, from)?;
    let turn = t.act(&s, &json!([["say", "again"], ["complete"]]))?;
    demand_answer(t, &turn, "again")?;
    let after = t.lower(&s)?;
    t.demand(before == after, "the same session at the adapter", format!("{before:?}, then {after:?}"))?;
    let closes = t.told(&before, "session.close").len();
    t.demand(closes == 0, "no `session.close`", format!("{closes}"))
}
