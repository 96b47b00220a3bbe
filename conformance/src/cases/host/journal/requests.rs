//! Requests and roles: who decides, and what the others learn.

use super::{answers, asked, attach, catch_up, instruct, open};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-JRN-16", observer),
    ("H-JRN-17", race),
    ("H-JRN-18", late_answer),
    ("H-JRN-19", unheard),
];

/// A turn that waits for a permission, and then says what it was answered.
fn ask(t: &Trial, hub: &Hub, s: &Session) -> Outcome<usize> {
    let request = json!({"request_id":"r-1","tool":"Shell","description":"d","resource":"r"});
    let from = instruct(
        hub,
        s,
        "a",
        &json!([
            ["ask", request],
            ["wait", "permission.response"],
            ["complete"]
        ]),
    )?;
    asked(t, hub, s, from, "r-1")?;
    Ok(from)
}

fn answer(hub: &Hub, s: &Session, approved: bool) -> usize {
    hub.tell(
        s,
        "permission.response",
        json!({"request_id":"r-1","approved":approved}),
    )
}

/// Demands that the adapter had one answer, and which.
fn demand_answer(t: &Trial, s: &Session, approved: bool) -> Outcome {
    let answers = answers(t, &t.lower(s)?, "r-1");
    t.demand(
        answers.len() == 1,
        "one answer at the adapter",
        answers.len(),
    )?;
    t.demand_member(&answers[0], "approved", approved)
}

fn observer(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    ask(t, &hub, &s)?;
    t.rest(&hub)?;
    let observes = attach(t, &hub, &s, 0, json!({"role":"observe"}))?;
    answer(&hub, &s, true);
    instruct(&hub, &s, "b", &say_and_complete("b"))?;
    hub.tell(&s, "stop", json!({}));
    hub.tell(&s, "session.update", json!({"model":"m-2"}));
    t.rest(&hub)?;
    let lower = t.lower(&s)?;
    let written: Vec<String> = t
        .written_to(&lower)
        .iter()
        .map(|seen| seen.kind().to_owned())
        .collect();
    let wanted = ["session.start", "user.input"];
    t.demand(
        written == wanted,
        "nothing of an observer at the adapter",
        written.join(", "),
    )?;
    let last = observes.number("last_seq");
    let more: Vec<Seen> = hub
        .entries(&s, observes.index)
        .into_iter()
        .filter(|e| e.number("seq") > last)
        .collect();
    t.demand(
        more.is_empty(),
        "no entry of what an observer said",
        more.first().map_or("", Seen::kind),
    )?;
    hub.tell(&s, "session.close", json!({}));
    let controls = attach(t, &hub, &s, last, json!({}))?;
    t.demand_member(&controls, "state", "running")?;
    t.demand_member(&controls, "requests", json!(["r-1"]))?;
    answer(&hub, &s, false);
    t.hear_end(&hub, &s, controls.index, "a")?;
    demand_answer(t, &s, false)
}

fn race(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let other = t.further_hub()?;
    attach(t, &other, &s, 0, json!({}))?;
    let from = ask(t, &hub, &s)?;
    asked(t, &other, &s, 0, "r-1")?;
    answer(&other, &s, true);
    answer(&hub, &s, false);
    t.hear_end(&hub, &s, from, "a")?;
    t.hear_end(&other, &s, from, "a")?;
    t.rest(&hub)?;
    let decided = |hub: &Hub| -> (Vec<Seen>, Vec<Seen>) {
        let mut heard = hub.heard(&s, from);
        heard.retain(|seen| seen.kind() == "request.decided");
        heard.into_iter().partition(Seen::is_entry)
    };
    let ((entries, alone), (entries_2, alone_2)) = (decided(&hub), decided(&other));
    for entries in [&entries, &entries_2] {
        t.demand(
            entries.len() == 1,
            "one entry `request.decided` for each hub",
            entries.len(),
        )?;
    }
    let approved = entries[0].get("approved") == Some(&json!(true));
    demand_answer(t, &s, approved)?;
    let (won, lost) = if approved {
        (alone_2, alone)
    } else {
        (alone, alone_2)
    };
    t.demand(
        won.is_empty(),
        "nothing more for the hub that decided",
        won.len(),
    )?;
    t.demand(
        lost.len() == 1,
        "`request.decided` without `seq` for the other hub",
        lost.len(),
    )?;
    demand_same(t, &entries[0], &lost[0])
}

/// Demands that a late answer was answered by the first, without its number.
fn demand_same(t: &Trial, first: &Seen, again: &Seen) -> Outcome {
    for member in ["request_id", "approved", "by"] {
        t.demand_member(
            again,
            member,
            first.get(member).cloned().unwrap_or(Value::Null),
        )?;
    }
    Ok(())
}

fn late_answer(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let from = ask(t, &hub, &s)?;
    answer(&hub, &s, true);
    t.hear_end(&hub, &s, from, "a")?;
    let first = t.hear_kind(&hub, &s, from, "request.decided")?;
    t.demand_member(&first, "approved", true)?;
    let from = answer(&hub, &s, false);
    let again = t.hear_kind(&hub, &s, from, "request.decided")?;
    t.demand(
        again.get("seq").is_none(),
        "no `seq`: it is for its sender alone",
        "one",
    )?;
    demand_same(t, &first, &again)?;
    demand_answer(t, &s, true)
}

fn unheard(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let request = json!({"request_id":"r-1","tool":"Shell","description":"d","resource":"r"});
    let actions = json!([
        ["ask", request],
        ["until", "go"],
        ["say", "meanwhile"],
        ["wait", "permission.response"],
        ["complete"]
    ]);
    let from = instruct(&hub, &s, "a", &actions)?;
    asked(t, &hub, &s, from, "r-1")?;
    t.rest(&hub)?;
    let last = super::last_of(&hub, &s);
    hub.tell(&s, "session.detach", json!({}));
    t.rest(&hub)?;
    let left = t.history.len();
    t.cue("go")?;
    t.expect_told(0, &t.lower(&s)?, "user.input")?;
    t.rest(&hub)?;
    let heard = hub.heard(&s, left);
    t.demand(
        heard.is_empty(),
        "nothing on a pipe that has left",
        heard.first().map_or("", Seen::kind),
    )?;
    let undecided = answers(t, &t.lower(&s)?, "r-1");
    t.demand(
        undecided.is_empty(),
        "leaving decides nothing",
        "an answer at the adapter",
    )?;
    let (attached, entries) = catch_up(t, &hub, &s, last)?;
    t.demand_member(&attached, "state", "running")?;
    t.demand_member(&attached, "requests", json!(["r-1"]))?;
    let said = entries
        .iter()
        .any(|entry| entry.text("content") == "meanwhile");
    t.demand(said, "what the adapter said meanwhile", "it is missing")?;
    answer(&hub, &s, true);
    t.hear_end(&hub, &s, attached.index, "a")?;
    demand_answer(t, &s, true)
}
