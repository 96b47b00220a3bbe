//! Pauses ([flow.1], [flow.3]), and what a stop does meanwhile.

use std::time::{Duration, Instant};

use serde_json::json;

use crate::{
    cases::adapter::back_pressure,
    trial::{Session, Trial},
    verdict::{FailureContext, Outcome},
};

/// The most by which a paused session may make a process grow, in MiB.
const GROWTH: u64 = 128;

/// A turn that says one thing, where it can be asked to; else an ordinary one.
fn saying(t: &mut Trial<'_>, s: &Session, words: &[&str]) -> Outcome<usize> {
    if !t.has_probe(&["say"]) {
        let quick = t.quick();
        return t.input(s, quick);
    }
    let script: Vec<_> = words.iter().map(|word| json!(["say", word])).collect();
    t.probe(s, &json!(script))
}

/// A session that is idle and paused; the place of the pause.
fn paused(t: &mut Trial<'_>) -> Outcome<(Session, usize)> {
    let (s, _) = t.agree(&["flow"], &json!({}))?;
    t.quick_turn(&s)?;
    let from = t.tell(&s, "flow.pause", &json!({}))?;
    Ok((s, from))
}

/// Nothing of the session has come since a place in the history.
fn silent(t: &Trial<'_>, s: &Session, from: usize, while_what: &str) -> Outcome {
    t.demand_silence(s, from, format!("nothing {while_what}"))
        .hint("hold back every message of a paused session, its `turn.complete` and requests too")
}

pub(super) fn pause(t: &mut Trial<'_>) -> Outcome {
    let (s, from) = paused(t)?;
    saying(t, &s, &["one ", "two ", "three"])?;
    t.settle()?;
    silent(t, &s, from, "while the session is paused")?;
    t.tell(&s, "flow.resume", &json!({}))?;
    let turn = t.end_of(&s, from)?;
    if t.has_probe(&["say"]) {
        let said = turn.text();
        t.demand(said == "one two three", "what was held back, in order", format!("{said:?}"))?;
    }
    t.settle_ledger(&s)
}

pub(super) fn close_while_paused(t: &mut Trial<'_>) -> Outcome {
    let (s, from) = paused(t)?;
    saying(t, &s, &["one"])?;
    t.settle()?;
    t.close(&s)?;
    t.settle()?;
    silent(t, &s, from, "for a session that was closed while paused")
}

pub(super) fn over_turns(t: &mut Trial<'_>) -> Outcome {
    let (s, from) = paused(t)?;
    t.tell(&s, "flow.pause", &json!({}))?;
    saying(t, &s, &["one"])?;
    saying(t, &s, &["two"])?;
    t.settle()?;
    silent(t, &s, from, "while the session is paused")?;
    t.tell(&s, "flow.resume", &json!({}))?;
    let first = t.end_of(&s, from).hint("pausing twice is pausing once")?;
    let second = t.end_of(&s, from)?;
    if t.has_probe(&["say"]) {
        let order: String = second.messages.iter().map(|seen| seen.text("content")).collect();
        t.demand(first.text() == "one" && order == "onetwo", "the turns in order", format!("{order:?}"))?;
    }
    t.quick_turn(&s)?;
    t.settle_ledger(&s)
}

pub(super) fn bounded(t: &mut Trial<'_>) -> Outcome {
    let (s, from) = paused(t)?;
    t.fence()?;
    t.probe(&s, &json!([["burst", 2_000, 200_000]]))?;
    back_pressure::watch_growth(t, GROWTH)?;
    silent(t, &s, from, "while the session is paused").under("flow.1")?;
    // All that need not be read.
    t.expect_gone();
    Ok(())
}

pub(super) fn stop_while_paused(t: &mut Trial<'_>) -> Outcome {
    /// How often the script ticks.
    const TICK: Duration = Duration::from_millis(50);
    let (s, _) = t.agree(&["flow"], &json!({}))?;
    let from = t.busy(&s)?;
    let paused = t.tell(&s, "flow.pause", &json!({}))?;
    let began = Instant::now();
    t.pass_time(t.quiet());
    t.stop(&s)?;
    let held = began.elapsed();
    t.pass_time(Duration::from_millis(1_500));
    t.tell(&s, "flow.resume", &json!({}))?;
    t.end_within(&s, from, t.bounds.stop)?;
    let ticks = t.since(paused, &s).iter().filter(|seen| seen.kind() == "output").count();
    let most = usize::try_from(held.as_millis() / TICK.as_millis()).unwrap_or_default() + 12;
    t.demand(
        ticks <= most,
        format!("at most {most} ticks, those from before the stop"),
        format!("{ticks}: the turn went on until the resume"),
    )
    .hint("a pause holds messages back, and nothing else")?;
    t.settle_ledger(&s)
}
