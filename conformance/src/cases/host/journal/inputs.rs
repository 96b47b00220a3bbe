//! Inputs: what is accepted once is one turn, however often it is sent.

use super::{act, again, attach, catch_up, demand_completed, instruct, open};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-JRN-24", stored_first),
    ("H-JRN-25", answered),
    ("H-JRN-26", same_again),
    ("H-JRN-27", turn_ids),
];

fn stored_first(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    act(t, &hub, &s, "a", &say_and_complete("a"))?;
    let lower = t.lower(&s)?;
    let from = instruct(&hub, &s, "b", &json!([["ignore_stop"]]))?;
    t.expect_told(from, &lower, "user.input")?;
    let hub = again(t)?;
    let (_, entries) = catch_up(t, &hub, &s, 0)?;
    let begun = entries
        .iter()
        .any(|entry| entry.is_with("turn.begin", "turn_id", "b"));
    t.demand(
        begun,
        "the `turn.begin` of an input that the adapter had",
        "it is missing",
    )
}

fn result(t: &Trial, hub: &Hub, s: &Session, from: usize, message: &str) -> Outcome<Seen> {
    t.hear(
        hub,
        s,
        from,
        format!("the `input.result` of {message}"),
        |seen| seen.is_with("input.result", "message_id", message),
    )
}

fn answered(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let other = t.further_hub()?;
    attach(t, &other, &s, 0, json!({}))?;
    let from = instruct(
        &hub,
        &s,
        "a",
        &json!([["say", "a"], ["until", "go"], ["complete"]]),
    )?;
    t.hear_kind(&hub, &s, from, "output")?;
    hub.tell(
        &s,
        "user.input",
        json!({"content":"and more","message_id":"m-steer","mode":"steer"}),
    );
    for (message, kind) in [("m-a", "turn.begin"), ("m-steer", "input.steered")] {
        let result = result(t, &hub, &s, from, message)?;
        let entry = t.hear(&hub, &s, from, format!("the entry `{kind}`"), |seen| {
            seen.kind() == kind && seen.is_entry()
        })?;
        t.demand_member(&result, "seq", entry.number("seq"))?;
        t.demand_member(&result, "turn_id", "a")?;
        t.demand(
            result.get("duplicate") != Some(&json!(true)),
            "no duplicate",
            "one",
        )?;
    }
    let repeated = hub.tell(
        &s,
        "user.input",
        json!({"content":"and more","message_id":"m-steer","mode":"steer"}),
    );
    let repeated = result(t, &hub, &s, repeated, "m-steer")?;
    t.demand_member(&repeated, "duplicate", true)?;
    t.cue("go")?;
    t.hear_end(&hub, &s, from, "a")?;
    t.rest(&hub)?;
    for (hub, wanted) in [(&hub, 3), (&other, 0)] {
        let count = hub
            .heard(&s, from)
            .iter()
            .filter(|seen| seen.kind() == "input.result")
            .count();
        t.demand(
            count == wanted,
            format!("{wanted} `input.result`: they are for the sender alone"),
            count,
        )?;
    }
    Ok(())
}

fn same_again(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let actions = say_and_complete("a");
    let from = instruct(&hub, &s, "a", &actions)?;
    instruct(&hub, &s, "a", &actions)?;
    let first = result(t, &hub, &s, from, "m-a")?;
    t.demand(
        first.get("duplicate") != Some(&json!(true)),
        "the first is no duplicate",
        "it is",
    )?;
    let again_at_once = result(t, &hub, &s, first.index + 1, "m-a")?;
    t.hear_end(&hub, &s, from, "a")?;
    let from = instruct(&hub, &s, "a", &actions)?;
    let behind = result(t, &hub, &s, from, "m-a")?;
    t.rest(&hub)?;
    let lower = t.lower(&s)?;
    let hub = again(t)?;
    let (attached, entries) = catch_up(t, &hub, &s, 0)?;
    let from = instruct(&hub, &s, "a", &actions)?;
    let after_all = result(t, &hub, &s, from, "m-a")?;
    for result in [again_at_once, behind, after_all] {
        t.demand_member(&result, "duplicate", true)?;
        t.demand_member(&result, "seq", first.number("seq"))?;
        t.demand_member(&result, "turn_id", "a")?;
    }
    let from = hub.input(&s, "b", "m-a", "another text");
    let end = super::hear_refusal(t, &hub, &s, from, "b")?;
    super::demand_refused(t, &end)?;
    let category = end
        .get("error")
        .map(|error| error["category"].clone())
        .unwrap_or_default();
    t.demand(category == "protocol", "category `protocol`", category)?;
    t.rest(&hub)?;
    let begun = entries
        .iter()
        .filter(|entry| entry.kind() == "turn.begin")
        .count();
    let more = hub.entries(&s, attached.index).len() - entries.len();
    t.demand(
        begun == 1 && more == 0,
        "one turn, and no further entry",
        format!("{begun} turns, {more} entries"),
    )?;
    let inputs = t.told(&lower, "user.input").len();
    t.demand(inputs == 1, "one input at the adapter", inputs)
}

fn turn_ids(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let actions = say_and_complete("a");
    act(t, &hub, &s, "mine", &actions)?;
    let content = Trial::instructions(&s, &actions)?;
    let mut seen = vec!["mine".to_owned()];
    for (message, members) in [("m-1", json!({"turn_id":"mine"})), ("m-2", json!({}))] {
        let input = crate::wire::with(json!({"message_id":message,"content":content}), &members);
        let from = hub.tell(&s, "user.input", input);
        let turn = result(t, &hub, &s, from, message)?
            .text("turn_id")
            .to_owned();
        let new = !turn.is_empty() && !seen.contains(&turn);
        t.demand(
            new,
            "a `turn_id` that no turn of the session has had",
            &turn,
        )?;
        let end = t.hear_end(&hub, &s, from, &turn)?;
        demand_completed(t, &end)?;
        let begin = t.hear_kind(&hub, &s, from, "turn.begin")?;
        t.demand_member(&begin, "turn_id", turn.as_str())?;
        seen.push(turn);
    }
    Ok(())
}
