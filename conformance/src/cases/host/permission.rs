//! H-PRM: permissions, each answered once, and never approved but by the hub.

use std::collections::HashMap;

use crate::cases::prelude::*;

/// Returns the hub's answer to a request, under the id that it received.
fn answer_of(s: &Session, request: &Seen, approved: bool) -> Value {
    let id = request.text("request_id");
    json!({"type":"permission.response","session_id":s.id(),"request_id":id,"approved":approved})
}

/// Returns the answers at the adapter: `true`, `false`, or any other value.
fn answers(t: &Trial, lower: &Lower, id: &str) -> Vec<Value> {
    t.told(lower, "permission.response")
        .iter()
        .filter(|seen| seen.text("request_id") == id)
        .map(|seen| seen.get("approved").cloned().unwrap_or(json!("absent")))
        .collect()
}

pub(in crate::cases) fn demand_answers(
    t: &Trial,
    lower: &Lower,
    id: &str,
    wanted: &[bool],
) -> Outcome {
    let (got, wanted) = (json!(answers(t, lower, id)), json!(wanted));
    t.demand(
        got == wanted,
        format!("`approved` of {id} at the adapter: {wanted}"),
        got,
    )
}

/// Demands that nothing was approved at the adapter, for any session.
pub(in crate::cases) fn demand_no_approval(t: &Trial) -> Outcome {
    let approval = t.written().into_iter().find(|below| {
        below.seen.kind() == "permission.response"
            && below.seen.get("approved") == Some(&Value::Bool(true))
    });
    match approval {
        None => Ok(()),
        Some(below) => t.fail(
            "nothing is approved: the hub approved nothing",
            format!("`approved: true` for {:?}", below.seen.text("request_id")),
        ),
    }
}

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-PRM-12", a_thousand)];

fn a_thousand(t: &mut Trial) -> Outcome {
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
