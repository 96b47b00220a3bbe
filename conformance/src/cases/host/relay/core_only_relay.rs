//! What a core-only hub sees of each thing that happens below.

use super::{
    super::full_hub,
    extended_relay::{demand_noise_ignored, refusals},
};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-RLY-08", turn_ended),
    ("H-RLY-10", process_ended),
    ("H-RLY-12", request_settled),
    ("H-RLY-14", refused),
    ("H-RLY-16", noise),
    ("H-RLY-18", session_ended),
];

fn system(s: &Session) -> impl Fn(&Seen) -> bool {
    let id = s.id().to_owned();
    move |seen| {
        seen.session() == id
            && seen.is_with("output", "channel", "system")
            && !seen.text("content").is_empty()
    }
}

fn turn_ended(t: &mut Trial) -> Outcome {
    let s = t.open_known()?;
    let turn = t.act(&s, &json!([["say", "busy"], ["delay", 100], ["exit", 3]]))?;
    t.demand_text(&turn, "busy")?;
    let told = turn.on_channel("system");
    t.demand(
        !told.is_empty(),
        "what happened on channel `system`, before the end",
        "nothing",
    )?;
    t.demand_ends(&s, 2)
}

fn process_ended(t: &mut Trial) -> Outcome {
    let (s, other) = (t.open_known()?, t.open_known()?);
    let (lower, lower_other) = (t.lower(&s)?, t.lower(&other)?);
    let turn = t.act(&s, &json!([["complete"], ["delay", 100], ["exit", 4]]))?;
    full_hub::expect_gone(t, 0, &lower)?;
    let both = lower.process == lower_other.process;
    for s in [&s, &other].into_iter().take(if both { 2 } else { 1 }) {
        if t.wait(turn.end.index, t.bounds.secs(1.0), system(s))
            .is_none()
        {
            return t.late(
                "`output` on `system` within 1 s",
                t.what_came(turn.end.index, s),
            );
        }
    }
    Ok(())
}

fn request_settled(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns", "control"])?;
    let [s, other] = t.open_each()?;
    let from = t.instruct(
        &s,
        &json!([["ask", {"request_id":"r-1","tool":"Shell","description":"d","resource":"r"}]]),
    )?;
    let asked = t.expect(from, &s, "permission.request")?;
    let lower = t.lower(&s)?;
    full_hub::act_in(t, &other, &s, &json!([["complete"]]))?;
    t.end_of(&s, from)?;
    t.tell_deviant(
        &s,
        "permission.response",
        &json!({"request_id":"r-1","approved":true}),
    )?;
    t.settle()?;
    let answer = full_hub::demand_delivered(t, &lower, "permission.response", 1)?.remove(0);
    t.demand_member(&answer, "approved", false)?;
    let more = t
        .since(asked.index, &s)
        .into_iter()
        .find(|seen| !matches!(seen.kind(), "permission.request" | "turn.complete"));
    t.demand(
        more.is_none(),
        "nothing for the hub",
        more.map_or(String::new(), |seen| format!("`{}`", seen.kind())),
    )
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

fn noise(t: &mut Trial) -> Outcome {
    let s = t.open_known()?;
    demand_noise_ignored(t, &s)
}

fn session_ended(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns", "control"])?;
    let s = t.open()?;
    let closed = json!({"type":"session.closed","reason":"limit","error":{"message":"no more"}});
    let turn = t.act(&s, &json!([["complete"], ["delay", 50], ["emit", closed]]))?;
    let lower = t.lower(&s)?;
    full_hub::demand_offer(t, &lower, "control")?;
    t.expect_that(
        turn.end.index,
        &s,
        "`output` on `system` that says why",
        system(&s),
    )?;
    let below = full_hub::expect_written(t, 0, &lower, "session.closed")?;
    for _ in 0..2 {
        let from = t.input(&s, "Is anyone there?")?;
        let turn = t.end_of(&s, from)?;
        let told = turn.on_channel("system");
        t.demand(
            !told.is_empty(),
            "each input is answered by `output` on `system` and an end",
            "an end alone",
        )?;
    }
    t.close(&s)?;
    t.demand_ends(&s, 3)?;
    let after = full_hub::delivered_since(t, &lower, &below);
    let kind = after
        .first()
        .map_or(String::new(), |after| format!("`{}`", after.seen.kind()));
    t.demand(
        after.is_empty(),
        "nothing more for the id at the adapter",
        kind,
    )?;
    let asked = t
        .written()
        .iter()
        .any(|below| below.seen.text("content") == "Is anyone there?");
    t.demand(!asked, "no input reaches an adapter", "one does")
}
