//! The same conversations with a host under test: the stub below it does the work.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::Work;
use crate::{
    trial::{GuardedAction, Trial},
    verdict::{FailureContext, Outcome},
};

/// Everything that the stub can be asked for.
pub(super) const WORKS: [Work; 7] = [
    Work::Quick,
    Work::Echo,
    Work::Sleep(0),
    Work::Burst(0),
    Work::Ask(0),
    Work::Fail,
    Work::UntilStop,
];

/// The actions of the stub that do this work.
pub(super) fn actions(work: &Work, token: &str, asks: &[GuardedAction]) -> Value {
    let mut actions = match work {
        Work::Quick => vec![json!(["say", "ok"])],
        Work::Echo => vec![json!(["say", token])],
        Work::Sleep(millis) => vec![json!(["delay", millis])],
        Work::Burst(pieces) => vec![json!(["burst", pieces, 1_000])],
        Work::Ask(_) => {
            let request = |ask| {
                json!(["ask", {"request_id":id_of(ask),"tool":"shell","description":"create a file",
                    "resource":ask.effect}])
            };
            let answer = |ask| json!(["wait", "permission.response", id_of(ask)]);
            asks.iter()
                .map(request)
                .chain(asks.iter().rev().map(answer))
                .collect()
        }
        // What an adapter gets wrong, and no other session may suffer from.
        Work::Fail => vec![
            json!([
                "raw",
                "Traceback (most recent call last):\n{\"type\":\"output\",\"sess\n"
            ]),
            json!(["emit", {"type":"x-unknown","content":"?"}]),
            json!(["emit", {"type":"output","content":7}]),
            json!(["session", "never-opened", [["say", "lost"], ["complete"]]]),
            json!(["say", "it failed", "stderr"]),
        ],
        Work::UntilStop => return json!([["say", "busy"]]),
    };
    actions.push(json!(["complete"]));
    json!(actions)
}

/// Below, a request is called after the file that it would create, which no other one creates.
fn id_of(ask: &GuardedAction) -> String {
    ask.effect
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned()
}

/// Demands that the host approved nothing that its hub had not.
pub(super) fn judge(t: &Trial, asks: &[&GuardedAction], approved: &HashSet<&str>) -> Outcome {
    let allowed: HashSet<String> = asks
        .iter()
        .filter(|ask| approved.contains(ask.effect.display().to_string().as_str()))
        .map(|ask| id_of(ask))
        .collect();
    let stray = t.written().into_iter().find(|below| {
        below.seen.kind() == "permission.response"
            && below.seen.get("approved") == Some(&Value::Bool(true))
            && !allowed.contains(below.seen.text("request_id"))
    });
    let got = stray
        .as_ref()
        .map_or("", |below| below.seen.text("request_id"));
    t.demand(
        stray.is_none(),
        "only what the hub approved is approved",
        format!("{got:?} is as well"),
    )
    .under("permission.3")
}
