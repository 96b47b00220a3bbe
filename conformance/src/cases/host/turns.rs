//! H-TRN: a turn ends when the adapter ends it, once.

use std::cell::RefCell;

use crate::cases::prelude::*;

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] =
    &[("H-TRN-05", idle_end), ("H-TRN-06", between_turns)];

fn idle_end(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.act(
        &s,
        &json!([
            ["complete"],
            ["delay", 150],
            ["complete"],
            ["complete"],
            ["pid"]
        ]),
    )?;
    if t.wait_logged(0, t.bounds.secs(20.0), |act| act["ev"] == "pid")
        .is_none()
    {
        return t.late(
            "the adapter can write `turn.complete`",
            "no one reads its stdout",
        );
    }
    // Read before the next input is written; otherwise no host could assign them.
    t.demand_ends(&s, 1)?;
    t.demand_served(&s, "next")?;
    t.demand_ends(&s, 2)
}

fn between_turns(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let turn = t.act(&s, &json!([["complete"], ["delay", 200], ["say", token]]))?;
    let text = RefCell::new(String::new());
    let heard = |seen: &crate::trial::Seen| {
        if seen.session() == s.id() {
            text.borrow_mut().push_str(seen.on_channel("stdout"));
        }
        text.borrow().contains(&token)
    };
    let heard = t.wait(turn.end.index, t.bounds.deadline, heard).is_some();
    t.demand(heard, "the output between turns is delivered", "it is not")
}
