//! Pauses ([flow.1], [flow.3]), and what a stop does meanwhile.

use crate::cases::{
    adapter::{back_pressure, stop::TICK},
    prelude::*,
};

/// The most by which a paused session may make a process grow, in MiB.
const GROWTH: u64 = 128;

/// A session that is idle and paused; the place from which on it is silent.
fn paused(t: &mut Trial) -> Outcome<(Session, usize)> {
    let s = t.agree_on(&["flow"])?;
    t.quick_turn(&s)?;
    t.tell(&s, "flow.pause", &json!({}))?;
    // What was in the pipe already still comes.
    t.settle()?;
    Ok((s, t.history.len()))
}

/// Demands that these words stand in a text in this order; a greeting or work in the background may
/// stand between.
pub(in crate::cases) fn demand_order(t: &Trial, text: &str, words: &[&str]) -> Outcome {
    let rest = words.iter().try_fold(text, |rest, word| {
        rest.split_once(word).map(|(_, rest)| rest)
    });
    let once = words.iter().all(|word| text.matches(word).count() == 1);
    t.demand(
        rest.is_some() && once,
        format!("{words:?} once and in order"),
        format!("{text:?}"),
    )
}

/// Nothing of the session has come since a place in the history.
fn silent(t: &Trial, s: &Session, from: usize, while_what: &str) -> Outcome {
    t.demand_silence(s, from, format!("nothing {while_what}"))
        .hint("hold back every message of a paused session, its `turn.complete` and requests too")
}

pub(super) fn bounded(t: &mut Trial) -> Outcome {
    let (s, from) = paused(t)?;
    t.fence()?;
    t.probe(&s, &json!([["burst", 2_000, 200_000]]))?;
    back_pressure::watch_growth(t, GROWTH)?;
    silent(t, &s, from, "while the session is paused").under("flow.1")?;
    // All that need not be read.
    t.expect_gone();
    Ok(())
}

pub(super) fn stop_while_paused(t: &mut Trial) -> Outcome {
    let prompt = ticks_while_paused(t, Duration::ZERO)?;
    if prompt.came <= prompt.most {
        return Ok(());
    }
    // A stop may take its time, and the turn ticks meanwhile: now the resume comes after all that
    // it may take.
    let Ticks { came, most } = ticks_while_paused(t, t.bounds.stop)?;
    t.demand(
        came <= most,
        format!("at most {most} ticks, those from before the stop took effect"),
        format!("{came}: the turn went on until the resume"),
    )
    .hint("a pause holds messages back, and nothing else")
}

/// How often a turn has ticked, and how often at most if it ended in time.
struct Ticks {
    came: usize,
    most: usize,
}

/// Stops a turn in a paused session, and resumes 1.5 s after the time that the stop may take.
fn ticks_while_paused(t: &mut Trial, stop: Duration) -> Outcome<Ticks> {
    /// How often the script ticks.
    const EVERY: Duration = Duration::from_millis(50);
    let s = t.agree_on(&["flow"])?;
    let from = t.busy(&s)?;
    let paused = t.tell(&s, "flow.pause", &json!({}))?;
    let began = Instant::now();
    t.pass_time(t.quiet());
    t.stop(&s)?;
    t.pass_time(stop);
    let most =
        usize::try_from(began.elapsed().as_millis() / EVERY.as_millis()).unwrap_or_default() + 12;
    t.pass_time(Duration::from_millis(1_500));
    t.tell(&s, "flow.resume", &json!({}))?;
    t.end_within(&s, from, t.bounds.stop)?;
    let came = answer_of(&t.since(paused, &s)).matches(TICK).count();
    t.settle_ledger(&s)?;
    Ok(Ticks { came, most })
}
