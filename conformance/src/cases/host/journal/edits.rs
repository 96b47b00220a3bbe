//! Edits and forks of a session.

use super::{act, attach::refusal, catch_up, demand_completed, last_of, open};
use crate::{cases::prelude::*, trial};

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-JRN-34", forked)];

/// The types that answer `session.fork`.
const ANSWERS: [&str; 2] = ["session.attached", "session.refused"];

/// Sends `session.fork`, and returns its answer.
fn fork(t: &Trial, hub: &Hub, copy: &Session, source: &str, more: &Value) -> Outcome<Seen> {
    let asked = json!({"source":source,"after":0,"protocol":1,"extensions":trial::JOURNAL});
    let from = hub.tell(copy, "session.fork", wire::with(asked, more));
    t.hear(hub, copy, from, "an answer to `session.fork`", |seen| {
        ANSWERS.contains(&seen.kind())
    })
}

fn forked(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let actions = say_and_complete("a");
    act(t, &hub, &s, "a", &actions)?;
    t.rest(&hub)?;
    let last = last_of(&hub, &s);
    let from = t.history.len();
    let copy = t.journaled();
    let ahead = t.journaled();
    let orphan = t.journaled();
    let answer = fork(t, &hub, &copy, s.id(), &json!({}))?;
    let past = fork(t, &hub, &ahead, s.id(), &json!({"seq":last + 40}))?;
    let unknown = fork(t, &hub, &orphan, "no-session-has-this-id", &json!({}))?;
    for (refused, reason) in [(&past, "ahead"), (&unknown, "unknown")] {
        let known = [reason, "unsupported"].contains(&refused.text("reason"));
        t.demand(
            refused.kind() == "session.refused" && known,
            format!("`session.refused` with `{reason}` or `unsupported`"),
            Value::Object(refused.message().clone()),
        )?;
    }
    let is_copied = answer.kind() == "session.attached";
    if is_copied {
        demand_copy(t, &hub, &s, &copy, &answer)?;
        act(t, &hub, &copy, "b", &actions)?;
    }
    t.rest(&hub)?;
    for s in [&copy, &ahead, &orphan] {
        let mut answers = hub.heard(s, from);
        answers.retain(|seen| ANSWERS.contains(&seen.kind()));
        t.demand(
            answers.len() == 1,
            "one answer to each `session.fork`",
            answers.len(),
        )?;
    }
    let refused = [&ahead, &orphan].into_iter();
    for s in refused.chain(Some(&copy).filter(|_| !is_copied)) {
        let from = hub.attach(s, 0, json!({}));
        refusal(t, &hub, s, from, "unknown")?;
    }
    let (attached, _) = catch_up(t, &hub, &s, 0)?;
    t.demand_member(&attached, "last_seq", last)?;
    let end = act(t, &hub, &s, "b", &actions)?;
    demand_completed(t, &end)
}

/// Demands the entries of the source in the copy, and then the fact that it is one.
fn demand_copy(t: &Trial, hub: &Hub, s: &Session, copy: &Session, answer: &Seen) -> Outcome {
    t.demand_member(answer, "role", "control")?;
    let fact = t.hear(hub, copy, answer.index, "`forked_from`", |seen| {
        seen.is_with("host.fact", "fact", "forked_from")
    })?;
    let entries = |s: &Session| -> Vec<Value> {
        let mut entries = hub.entries(s, 0);
        entries.retain(|entry| s != copy || entry.index < fact.index);
        let same_id = |entry: &Seen| {
            let message = Value::Object(entry.message().clone());
            wire::with(message, &json!({"session_id":copy.id()}))
        };
        entries.iter().map(same_id).collect()
    };
    let copied = entries(copy);
    t.demand(
        copied == entries(s),
        "the entries of the source with the id of the copy",
        Value::from(copied.clone()),
    )
}
