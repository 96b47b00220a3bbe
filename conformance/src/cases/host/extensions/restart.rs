//! A user's session outlives the process beneath it.

use super::super::{demand_fresh_ids, full_hub};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-EXT-20", resumed),
    ("H-EXT-21", lost),
    ("H-EXT-22", never_again),
    ("H-EXT-23", fresh_ids),
];

/// What the hub was reported of the context since a place, and the first answer since then.
fn told(t: &Trial, s: &Session, from: usize) -> (Vec<Seen>, Option<Seen>) {
    let all: Vec<Seen> = t
        .of(s)
        .into_iter()
        .filter(|seen| seen.index >= from)
        .collect();
    let contexts = all
        .iter()
        .filter(|seen| seen.get("context").is_some())
        .cloned()
        .collect();
    let answer = all
        .iter()
        .find(|seen| {
            seen.kind() == "output" && !matches!(seen.text("channel"), "system" | "stderr")
        })
        .cloned();
    (contexts, answer)
}

fn demand_context(t: &Trial, s: &Session, from: usize, wanted: &str) -> Outcome {
    let (contexts, answer) = told(t, s, from);
    let words: Vec<&str> = contexts.iter().map(|seen| seen.text("context")).collect();
    t.demand(
        words == [wanted],
        format!("`context: {wanted}` once"),
        format!("{words:?}"),
    )?;
    let first = answer.is_none_or(|answer| contexts[0].index < answer.index);
    t.demand(
        first,
        "the context before the first answer of the new process",
        "after it",
    )
}

/// Has the stub die while nothing runs, and gives the host time to see it.
fn die(t: &mut Trial, s: &Session) -> Outcome {
    let from = t.history.len();
    t.act(s, &json!([["complete"], ["delay", 50], ["exit", 3]]))?;
    full_hub::expect_gone(t, from, &t.lower(s)?)?;
    t.pass_time(t.bounds.quiet);
    Ok(())
}

fn resumed(t: &mut Trial) -> Outcome {
    let native = json!({"native_session_id":"native-1","context":"kept"});
    t.stub_script(&json!({
        "extensions":["turns","resume"],
        "ready":{"native_session_id":"native-1"},
        "starts":[null, {"ready":native}]
    }))?;
    let s = full_hub::open(t)?;
    let params = json!({"step":[2],"at":"x"});
    t.act(
        &s,
        &json!([["say", "one"], ["complete", {"session_params":params}]]),
    )?;
    let before = t.lower(&s)?;
    full_hub::demand_offer(t, &before, "resume")?;
    die(t, &s)?;
    let from = t.history.len();
    let turn = t.act(&s, &say_and_complete("two"))?;
    t.demand_text(&turn, "two")?;
    let after = t.lower(&s)?;
    t.demand(
        before.process != after.process,
        "another process",
        "the same",
    )?;
    let start = full_hub::demand_delivered(t, &after, "session.start", 1)?.remove(0);
    let got = start.value("resume");
    let whole = got["native_session_id"] == "native-1" && got["params"] == params;
    t.demand(whole, "`resume` with the adapter's id and parameters", got)?;
    t.settle()?;
    demand_context(t, &s, from.min(turn.end.index), "kept")?;
    t.demand_ends_now(&s, 3)
}

fn lost(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns"])?;
    t.act(&s, &say_and_complete("one"))?;
    let before = t.history.len();
    die(t, &s)?;
    t.demand_served(&s, "two")?;
    t.demand_served(&s, "three")?;
    t.settle()?;
    demand_context(t, &s, before, "lost")
}

fn never_again(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"starts":[{"on":{"user.input":[["delay", 200], ["abort"]]}}]}))?;
    let s = t.open_known()?;
    let (first, second) = (t.token(), t.token());
    let from = t.input(&s, first.as_str())?;
    let held = t.input(&s, second.as_str())?;
    t.end_of(&s, from)?;
    let end = t.end_of(&s, held)?.end;
    t.demand_served(&s, "third")?;
    t.settle()?;
    let written = |token: &str| -> Vec<_> {
        let below = t.below().into_iter();
        below
            .filter(|below| {
                below.by == Side::Host && below.seen.is_with("user.input", "content", token)
            })
            .collect()
    };
    let times = written(&first).len();
    t.demand(
        times == 1,
        "the input that it died of reaches the adapter once",
        format!("{times} times"),
    )?;
    let late = written(&second)
        .iter()
        .filter(|below| below.seen.at > end.at)
        .count();
    t.demand(
        late == 0,
        "an input that has ended is not written afterwards",
        "it is",
    )?;
    t.demand_ends_now(&s, 4)
}

fn fresh_ids(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns", "control"])?;
    let (a, b, c) = (t.open_known()?, t.open_known()?, t.open_known()?);
    // Only where the host has offered `control` may the adapter end a session.
    if full_hub::demand_offer(t, &t.lower(&a)?, "control").is_ok() {
        t.act(
            &a,
            &json!([["emit", {"type":"session.closed","reason":"finished"}], ["complete"]]),
        )?;
        let from = t.input(&a, "again")?;
        t.end_of(&a, from)?;
    }
    t.close(&b)?;
    if t.subject.abilities.contains(&Ability::Restarts) {
        let from = t.instruct(&c, &json!([["exit", 0]]))?;
        t.end_of(&c, from)?;
        t.introduce(&c)?;
    }
    t.settle()?;
    demand_fresh_ids(t, "an id once in a process").map(drop)
}
