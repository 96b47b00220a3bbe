//! Requests that the hub must never see.

use serde_json::json;

use super::{super::demand_unheard, ask, demand_no_approval};
use crate::{
    trial::{Seen, Trial},
    verdict::Outcome,
};

pub(super) fn strangers(t: &mut Trial<'_>) -> Outcome {
    let token = t.token();
    t.stub_script(&json!({"on":{"session.close":[ask("late", &token)]}}))?;
    let (closed, s) = (t.open_known()?, t.open()?);
    let lower = t.lower(&closed)?;
    let from = t.close(&closed)?;
    t.expect_told(from, &lower, "session.close", t.bounds.deadline)?;
    t.demand_answer(
        &s,
        &json!([["session", "never-opened", [ask("lost", &token)]], ["say", "mine"], ["complete"]]),
        "mine",
    )?;
    t.settle()?;
    demand_no_one_asked(t, &token)?;
    demand_no_approval(t)?;
    let lost = t.written().iter().any(|below| ["late", "lost"].contains(&below.seen.text("request_id")));
    t.demand(!lost, "no answer for a session that is not open", "a `permission.response`")
}

fn demand_no_one_asked(t: &Trial<'_>, token: &str) -> Outcome {
    let requests: Vec<Seen> =
        t.seen_from(0).into_iter().filter(|seen| seen.kind() == "permission.request").collect();
    match requests.iter().find(|seen| seen.text("resource").contains(token)) {
        None => demand_unheard(t, token),
        Some(seen) => t.fail("no one is asked", format!("a `permission.request` in {:?}", seen.session())),
    }
}

pub(super) fn bad_requests(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let whole = json!({"request_id":"r-1","tool":"shell","description":"run it","resource":token});
    let mut actions = Vec::new();
    for (member, values) in [
        ("request_id", json!([null, 7, "", {"a":1}])),
        ("tool", json!([null, 7, ["shell"]])),
        ("description", json!([null, false])),
        ("resource", json!([null, {"path":token}])),
    ] {
        for value in values.as_array().into_iter().flatten() {
            let mut request = whole.clone();
            request["request_id"] = json!(format!("bad-{}", actions.len()));
            request[member].clone_from(value);
            actions.push(json!(["ask", request]));
        }
    }
    actions.push(json!(["say", "went on"]));
    actions.push(json!(["complete"]));
    t.demand_answer(&s, &json!(actions), "went on")?;
    t.settle()?;
    demand_no_approval(t)?;
    demand_no_one_asked(t, &token)
}
