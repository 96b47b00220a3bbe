//! Several requests at once: each has its own answer, and none holds up anything else.

use std::collections::HashMap;

use super::{answer_of, answered, ask, asked, demand_answers};
use crate::cases::prelude::*;

pub(super) fn two_pending(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let (first, second) = (t.token(), t.token());
    let actions = json!([
        ask("r-1", &first),
        ask("r-2", &second),
        answered("r-2"),
        answered("r-1"),
        ["say", "went on"],
        ["complete"]
    ]);
    let from = t.instruct(&s, &actions)?;
    let (one, two) = (asked(t, &s, from, &first)?, asked(t, &s, from, &second)?);
    t.send(answer_of(&s, &two, false))?;
    t.send(answer_of(&s, &one, true))?;
    t.demand_end(&s, from, "went on")?;
    let lower = t.lower(&s)?;
    demand_answers(t, &lower, "r-1", &[true])?;
    demand_answers(t, &lower, "r-2", &[false])
}

pub(super) fn two_sessions(t: &mut Trial) -> Outcome {
    let [a, b] = t.open_each()?;
    let (first, second) = (t.token(), t.token());
    let from_a = t.instruct(
        &a,
        &json!([ask("same", &first), answered("same"), ["complete"]]),
    )?;
    let from_b = t.instruct(
        &b,
        &json!([ask("same", &second), answered("same"), ["complete"]]),
    )?;
    let (of_a, of_b) = (
        asked(t, &a, from_a, &first)?,
        asked(t, &b, from_b, &second)?,
    );
    t.send(answer_of(&a, &of_a, true))?;
    t.end_of(&a, from_a)?;
    t.send(answer_of(&b, &of_b, false))?;
    t.end_of(&b, from_b)?;
    t.settle()?;
    demand_answers(t, &t.lower(&a)?, "same", &[true])?;
    demand_answers(t, &t.lower(&b)?, "same", &[false])
        .hint("a pending request is known by its session and its id together")
}

pub(super) fn id_again(t: &mut Trial) -> Outcome {
    let [s, pending] = t.open_each()?;
    let (first, second) = (t.token(), t.token());
    let again = json!([
        ask("r-1", &first),
        answered("r-1"),
        ask("r-1", &second),
        answered("r-1"),
        ["complete"]
    ]);
    let from = t.instruct(&s, &again)?;
    let one = asked(t, &s, from, &first)?;
    t.send(answer_of(&s, &one, true))?;
    let two = asked(t, &s, from, &second).hint("the second request was not shown to the hub")?;
    t.send(answer_of(&s, &two, false))?;
    t.end_of(&s, from)?;
    demand_answers(t, &t.lower(&s)?, "r-1", &[true, false])?;

    let (first, second) = (t.token(), t.token());
    let twice = json!([
        ask("r-2", &first),
        ask("r-2", &second),
        ["say", "both"],
        answered("r-2"),
        ["complete"]
    ]);
    let from = t.instruct(&pending, &twice)?;
    let one = asked(t, &pending, from, &first)?;
    // The host has taken both when what follows them is there.
    t.expect(from, &pending, "output")?;
    t.send(answer_of(&pending, &one, true))?;
    t.end_of(&pending, from)?;
    t.settle()?;
    demand_answers(t, &t.lower(&pending)?, "r-2", &[true])
}

pub(super) fn meanwhile(t: &mut Trial) -> Outcome {
    let (s, other) = (t.open()?, t.open_known()?);
    let token = t.token();
    let actions = json!([
        ask("r-1", &token),
        ["say", "while it waits"],
        answered("r-1"),
        ["complete"]
    ]);
    let from = t.instruct(&s, &actions)?;
    let request = asked(t, &s, from, &token)?;
    t.expect(from, &s, "output")
        .hint("the output of a session waits for its own permission")?;
    let turn = t
        .act(&other, &say_and_complete("served"))
        .hint("a pending permission holds up other sessions")?;
    t.demand_text(&turn, "served")?;
    t.send(answer_of(&s, &request, false))?;
    t.end_of(&s, from)?;
    Ok(())
}

pub(super) fn a_thousand(t: &mut Trial) -> Outcome {
    const REQUESTS: usize = 1_000;
    let id = |n: usize| format!("r-{n}");
    let members = |n: usize| {
        json!({"type":"permission.request","request_id":id(n),"tool":"shell","description":"d",
            "resource":n.to_string()})
    };
    let all: Vec<Value> = (0..REQUESTS).map(members).collect();
    t.stub_script(&json!({"lists":{"all":[["many", all]]}}))?;
    let (s, other) = (t.open()?, t.open_known()?);
    let from = t.instruct(&s, &json!([["do", "all"], ["say", "all asked"]]))?;
    t.expect_within(
        from,
        &s,
        "output",
        t.bounds.deadline.max(t.bounds.secs(5.0)),
    )?;
    t.demand_served(&other, "served")?;
    let approve = |n: usize| n.is_multiple_of(2);
    let mut reached = 0;
    for seen in t.seen_from(from) {
        if seen.is_of(&s, "permission.request") {
            let number = seen.text("resource").parse().unwrap_or_default();
            t.send(answer_of(&s, &seen, approve(number)))?;
            reached += 1;
        }
    }
    t.note(format!("{reached} of {REQUESTS} requests reached the hub"));
    t.settle()?;
    let lower = t.lower(&s)?;
    let mut got: HashMap<String, Vec<bool>> = HashMap::new();
    for seen in t.told(&lower, "permission.response") {
        let approved = seen.get("approved") == Some(&Value::Bool(true));
        got.entry(seen.text("request_id").to_owned())
            .or_default()
            .push(approved);
    }
    for n in 0..REQUESTS {
        let answers = got.remove(&id(n)).unwrap_or_default();
        t.demand(
            answers.len() == 1,
            format!("one answer to request {n}"),
            answers.len(),
        )?;
        t.demand(
            approve(n) || !answers[0],
            format!("no approval of request {n}"),
            "it is approved",
        )?;
    }
    t.stop(&s)?;
    t.end_of(&s, from)?;
    Ok(())
}
