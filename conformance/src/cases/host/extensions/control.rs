//! Sessions that end from below, pauses, and signs of life.

use super::super::full_hub;
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-EXT-08", closed_from_below),
    ("H-EXT-15", paused),
    ("H-EXT-16", ping_under_load),
];

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

fn paused(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns"])?;
    let other = t.open()?;
    let from = t.begin(&s, &json!([["say", "first "]]))?;
    let lower = t.lower(&s)?;
    t.tell(&s, "flow.pause", &json!({}))?;
    // The answer of another session shows that the pause was read.
    t.settle()?;
    let paused = t.history.len();
    full_hub::act_in(
        t,
        &other,
        &s,
        &json!([["burst", 500, 64], ["say", " last"], ["complete"]]),
    )?;
    full_hub::expect_written(t, paused, &lower, "turn.complete")?;
    t.settle()?;
    t.demand_silence(&s, paused, "nothing of a session that is paused")?;
    t.tell(&s, "flow.resume", &json!({}))?;
    let turn = t.end_of(&s, from)?;
    let burst: String = (1..=500)
        .map(|n| format!("{n:08}{}", "x".repeat(56)))
        .collect();
    t.demand_text(&turn, &format!("first {burst} last"))?;
    t.demand_ends(&s, 1)
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
