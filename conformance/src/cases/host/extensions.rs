//! H-EXT: what hosts do with extensions, agreed on or not.

use std::{cell::RefCell, collections::HashMap};

use super::full_hub;
use crate::cases::prelude::*;

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-EXT-01", whole_offer),
    ("H-EXT-03", not_before_ready),
    ("H-EXT-06", late_output),
    ("H-EXT-08", closed_from_below),
    ("H-EXT-16", ping_under_load),
];

fn whole_offer(t: &mut Trial) -> Outcome {
    t.open_known()?;
    if !t.subject.extensions.is_empty() {
        let s = full_hub::open(t)?;
        t.introduce(&s)?;
    }
    t.settle()?;
    for below in t
        .written()
        .into_iter()
        .filter(|below| below.seen.kind() == "session.start")
    {
        let (protocol, extensions) = (below.seen.get("protocol"), below.seen.get("extensions"));
        let names = extensions.and_then(Value::as_array);
        let whole = match (protocol, extensions) {
            (None, None) => true,
            (Some(protocol), Some(_)) => {
                *protocol == json!(1)
                    && names.is_some_and(|names| names.iter().all(Value::is_string))
            }
            _ => false,
        };
        let got = format!("protocol {protocol:?}, extensions {extensions:?}");
        t.demand(
            whole,
            "`protocol` 1 and an array of `extensions`, or neither",
            got,
        )?;
    }
    Ok(())
}

fn not_before_ready(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"extensions":["options"],"ready_delay_ms":400}))?;
    let s = full_hub::open(t)?;
    let id = s.id().to_owned();
    t.send(json!({"type":"session.update","session_id":id,"model":"model-2"}))?;
    if t.subject.extensions.contains("flow") {
        t.send(json!({"type":"flow.pause","session_id":id}))?;
        t.send(json!({"type":"flow.resume","session_id":id}))?;
    }
    if t.subject.extensions.contains("control") {
        t.send(json!({"type":"ping","session_id":"","nonce":1}))?;
    }
    t.demand_served(&s, "served")?;
    t.expect(0, &s, "session.info")?;
    t.settle()?;
    let lower = t.lower(&s)?;
    let mut agreed = false;
    let mut below = t.below();
    // The stub may log what it has written behind what that set off.
    below.sort_by_key(|below| below.seen.at);
    for below in below {
        let of_session = below.process == lower.process && below.seen.session() == lower.id;
        match below.by {
            Side::Adapter => agreed |= of_session && below.seen.kind() == "session.ready",
            Side::Host if super::CORE.contains(&below.seen.kind()) => {}
            Side::Host => {
                let allowed = of_session && agreed && below.seen.kind() == "session.update";
                let got = format!(
                    "`{}`, and `session.ready` has come: {agreed}",
                    below.seen.kind()
                );
                t.demand(allowed, "only `session.update`, after `session.ready`", got)?;
            }
        }
    }
    Ok(())
}

fn late_output(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns"])?;
    let (from, first) = full_hub::instruct_named(t, &s, &json!([["complete"]]))?;
    t.end_of(&s, from)?;
    let lower = t.lower(&s)?;
    full_hub::demand_offer(t, &lower, "turns")?;
    let below = t
        .told(&lower, "user.input")
        .first()
        .map(|seen| seen.text("turn_id").to_owned());
    let token = t.token();
    let (from, second) = full_hub::instruct_named(
        t,
        &s,
        &json!([
            ["say", "mine"],
            ["emit", {"type":"output","turn_id":below,"content":token}],
            ["say", "too"],
            ["complete"]
        ]),
    )?;
    t.end_of(&s, from)?;
    // The host may cut it; its pieces are of one turn.
    let said = RefCell::new(HashMap::<String, String>::new());
    let late = |seen: &Seen| {
        let mut said = said.borrow_mut();
        let text = said.entry(seen.text("turn_id").to_owned()).or_default();
        if seen.session() == s.id() {
            text.push_str(seen.on_channel("stdout"));
        }
        text.contains(&token)
    };
    let Some(late) = t.wait(from, t.bounds.deadline, late) else {
        return t.late("the late output is delivered", "it is not");
    };
    let of = late.text("turn_id").to_owned();
    t.demand(
        of.is_empty() || of == first,
        format!("the late output is of {first}, or of no turn"),
        format!("it is of {of}"),
    )?;
    for seen in t
        .of(&s)
        .into_iter()
        .filter(|seen| matches!(seen.text("content"), "mine" | "too"))
    {
        let of = seen.text("turn_id").to_owned();
        t.demand(
            of == second,
            format!("what the second turn says is of {second}"),
            format!("of {of:?}"),
        )?;
    }
    Ok(())
}

fn closed_from_below(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns", "control"])?;
    let core = t.open()?;
    let extended = if t.subject.extensions.contains("control") {
        Some(full_hub::open(t)?)
    } else {
        None
    };
    for s in std::iter::once(&core).chain(&extended) {
        let is_core = *s == core;
        let cue = if is_core { "held-core" } else { "held-rich" };
        let closes = json!([["say", "busy"], ["until", cue], ["emit", {"type":"session.closed","reason":"finished"}]]);
        let from = t.begin(s, &closes)?;
        let lower = t.lower(s)?;
        full_hub::demand_offer(t, &lower, "control")?;
        let held = t.input(s, "held")?;
        // The host has read the second input when the session is closed below.
        t.fence()?;
        t.cue(cue)?;
        let closed = full_hub::expect_written(t, from, &lower, "session.closed")?;
        t.end_of(s, from)?;
        t.end_of(s, held)?;
        if is_core {
            t.close(s)?;
        } else {
            let end = t.expect(from, s, "session.closed")?;
            let ends = t
                .of_kind(s, "turn.complete")
                .iter()
                .filter(|seen| seen.index < end.index)
                .count();
            t.demand(ends == 2, "both turns end before `session.closed`", ends)?;
        }
        t.demand_ends(s, 2)?;
        let after = full_hub::delivered_since(t, &lower, &closed);
        if let Some(after) = after.first() {
            // What the host wrote in the moment of the end it could not know.
            let crossed = after.seen.at.saturating_sub(closed.at)
                < std::time::Duration::from_millis(20)
                && after.seen.kind() == "user.input";
            t.demand(
                crossed,
                "nothing more for the id",
                format!("`{}`", after.seen.kind()),
            )?;
        }
    }
    Ok(())
}

fn ping_under_load(t: &mut Trial) -> Outcome {
    const LOAD: usize = 8 << 20;
    const DEADLINE: usize = 2 << 20;
    let (a, b) = (t.open_known()?, t.open_known()?);
    t.with_process(|process| process.pause_reading(true))?;
    let flood = json!([["flood", LOAD / 2, 4096], ["complete"]]);
    let begun = [t.instruct(&a, &flood)?, t.instruct(&b, &flood)?];
    for s in [&a, &b] {
        let lower = t.lower(s)?;
        // A host may read no more than it can hold; then less waits.
        t.wait_written(begun[0], &lower, "turn.complete", t.bounds.secs(2.0));
    }
    let nonce = json!({"n":[1,null]});
    let sent = t.send(json!({"type":"ping","session_id":"","nonce":nonce}))?;
    t.flushed(t.bounds.deadline)?;
    t.pass_time(t.quiet());
    let resumed = t.history.len();
    t.with_process(|process| process.pause_reading(false))?;
    let Some(pong) = t.wait(sent, t.bounds.secs(20.0), |seen| seen.kind() == "pong") else {
        return t.late("a `pong`", "none");
    };
    let mut before = 0;
    t.history.scan(resumed, |index, record| {
        if let (Link::Upper, Event::Adapter { bytes, .. }, true) =
            (record.link, &record.event, index < pong.index)
        {
            before += bytes.len();
        }
        None::<()>
    });
    t.demand(
        before <= DEADLINE,
        format!("the `pong` before {DEADLINE} bytes of what waited"),
        before,
    )?;
    let same = pong.get("nonce") == Some(&nonce)
        && pong.get("session_id") == Some(&Value::String(String::new()));
    t.demand(
        same,
        format!("the nonce {nonce}"),
        wire::text(pong.message(), "nonce"),
    )?;
    for (s, from) in [(&a, begun[0]), (&b, begun[1])] {
        t.end_within(s, from, t.bounds.secs(20.0))?;
    }
    t.settle()?;
    let pongs = t
        .seen_from(0)
        .iter()
        .filter(|seen| seen.kind() == "pong")
        .count();
    t.demand(pongs == 1, "one `pong`", pongs)
}

/// Returns the reports to the hub about the context since a place, and the first answer since then.
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

pub(in crate::cases) fn demand_context(
    t: &Trial,
    s: &Session,
    from: usize,
    wanted: &str,
) -> Outcome {
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
pub(in crate::cases) fn die(t: &mut Trial, s: &Session) -> Outcome {
    let from = t.history.len();
    t.act(s, &json!([["complete"], ["delay", 50], ["exit", 3]]))?;
    full_hub::expect_gone(t, from, &t.lower(s)?)?;
    t.pass_time(t.bounds.quiet);
    Ok(())
}
