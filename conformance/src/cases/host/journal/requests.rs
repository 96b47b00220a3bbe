//! Requests and roles: who decides, and what the others learn.

use super::{answers, asked, attach, instruct, open};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-JRN-17", race)];

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
