//! Requests that the hub leaves open: each is settled with its turn, never by an approval.

use super::{answer_of, ask, asked, demand_answers, demand_no_approval};
use crate::cases::prelude::*;

pub(super) fn undecided(t: &mut Trial) -> Outcome {
    let [stopped, ended] = t.open_each()?;
    let (first, second) = (t.token(), t.token());
    let from_stopped = t.instruct(&stopped, &json!([ask("r-1", &first)]))?;
    let from_ended = t.instruct(
        &ended,
        &json!([ask("r-2", &second), ["until", "asked"], ["complete"]]),
    )?;
    asked(t, &stopped, from_stopped, &first)?;
    asked(t, &ended, from_ended, &second)?;
    t.cue("asked")?;
    t.end_of(&ended, from_ended)?;
    let (lower, lower_ended) = (t.lower(&stopped)?, t.lower(&ended)?);
    t.expect_told(from_ended, &lower_ended, "permission.response")
        .hint("a request is denied at the end of its turn")?;
    // Longer than a deadline that a host may have invented: without a configured one there is none.
    t.pass_time(std::time::Duration::from_millis(2_500));
    demand_no_approval(t)?;
    t.stop(&stopped)?;
    t.expect_told(from_stopped, &lower, "permission.response")
        .hint("a request is denied at the stop of its turn")?;
    t.end_of(&stopped, from_stopped)?;
    t.settle()?;
    demand_answers(t, &lower, "r-1", &[false])?;
    demand_answers(t, &lower_ended, "r-2", &[false])
}

pub(super) fn settled_otherwise(t: &mut Trial) -> Outcome {
    let [stopped, closed, crashed] = t.open_each()?;
    let tokens = [t.token(), t.token(), t.token()];
    let mut pending = Vec::new();
    for (s, token) in [&stopped, &closed].into_iter().zip(&tokens) {
        let from = t.instruct(s, &json!([ask("r-1", token)]))?;
        pending.push((from, asked(t, s, from, token)?));
    }
    let (from, request) = &pending[0];
    let lower = t.lower(&stopped)?;
    t.stop(&stopped)?;
    t.send_deviant(answer_of(&stopped, request, true))?;
    t.end_of(&stopped, *from)?;
    let lower_closed = t.lower(&closed)?;
    t.close(&closed)?;
    t.send_deviant(answer_of(&closed, &pending[1].1, true))?;
    t.settle()?;
    demand_answers(t, &lower, "r-1", &[false])?;
    let kinds = |lower| -> Vec<String> {
        t.written_to(lower)
            .iter()
            .map(|seen| seen.kind().to_owned())
            .collect()
    };
    let told = kinds(&lower);
    let place = |kind: &str| told.iter().position(|told| told == kind);
    t.demand(
        place("stop") < place("permission.response"),
        "the `stop`, then the denial",
        told.join(", "),
    )?;
    let told = kinds(&lower_closed);
    t.demand(
        told.last().is_some_and(|kind| kind == "session.close"),
        "nothing after `session.close`",
        told.join(", "),
    )?;

    let from = t.instruct(
        &crashed,
        &json!([ask("r-1", &tokens[2]), ["until", "asked"], ["exit", 0]]),
    )?;
    let request = asked(t, &crashed, from, &tokens[2])?;
    t.cue("asked")?;
    t.end_of(&crashed, from)?;
    t.send_deviant(answer_of(&crashed, &request, true))?;
    t.settle()?;
    demand_no_approval(t)
}

pub(super) fn outside_a_turn(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let turn = t.act(
        &s,
        &json!([["complete"], ["delay", 200], ask("r-1", &token)]),
    )?;
    let request = asked(t, &s, turn.end.index, &token)?;
    t.demand_served(&s, "served")?;
    let from = t.begin_busy(&s)?;
    t.stop(&s)?;
    t.end_of(&s, from)?;
    t.settle()?;
    let lower = t.lower(&s)?;
    demand_answers(t, &lower, "r-1", &[]).hint(
        "a request that was made outside a turn stands until it is answered, whatever turns end",
    )?;
    let sent = t.send(answer_of(&s, &request, true))?;
    t.expect_told(sent, &lower, "permission.response")?;
    t.settle()?;
    demand_answers(t, &lower, "r-1", &[true])
}
