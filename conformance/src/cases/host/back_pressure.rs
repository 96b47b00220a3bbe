//! H-FLW: pipes that are full.

use crate::{cases::prelude::*, process::usage_of};

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-FLW-04", many_outputs),
    ("H-FLW-05", bound_memory),
    ("H-FLW-06", deliver_ticks_in_time),
];

/// A turn of a session that must not be held up.
fn prompt_turn(t: &mut Trial, s: &Session, hint: &str) -> Outcome {
    let from = t.instruct(s, &say_and_complete("served"))?;
    t.expect_within(from, s, "output", t.bounds.secs(2.0))
        .hint(hint)?;
    t.demand_end(s, from, "served")
}

/// Opens a session that can be paused, and pauses it.
fn open_paused(t: &mut Trial) -> Outcome<Session> {
    let s = t.open_offering(&["flow"], &json!({}))?;
    t.expect(0, &s, "session.ready").under("relay.8")?;
    t.introduce(&s)?;
    t.tell(&s, "flow.pause", &json!({}))?;
    // What is in the pipe already may still come.
    t.settle()?;
    Ok(s)
}

fn many_outputs(t: &mut Trial) -> Outcome {
    const OUTPUTS: usize = 100_000;
    let s = t.open()?;
    let from = t.instruct(&s, &json!([["burst", OUTPUTS, 8], ["complete"]]))?;
    // A hub that reads as fast as the host writes leaves nothing to wait in the host.
    t.with_process(|process| process.pause_reading(true))?;
    t.pass_time(Duration::from_millis(500));
    t.with_process(|process| process.pause_reading(false))?;
    let turn = t.end_within(&s, from, t.bounds.secs(20.0))?;
    let text = turn.text();
    for n in 1..=OUTPUTS {
        let wanted = format!("{n:08}");
        let got = text.get(8 * (n - 1)..8 * n).unwrap_or("nothing more");
        t.demand(got == wanted, format!("output {wanted}"), got)?;
    }
    t.demand(
        text.len() == 8 * OUTPUTS,
        format!("{OUTPUTS} outputs"),
        text.len() / 8,
    )
}

fn bound_memory(t: &mut Trial) -> Outcome {
    const FLOOD: u64 = 256 << 20;
    const MOST: u64 = 128 << 20;
    let other = t.open_known()?;
    let s = open_paused(t)?;
    let group = t.with_process(crate::process::Process::pid)?;
    let before = usage_of(group).resident;
    let from = t.instruct(&s, &json!([["flood", FLOOD, 65_536], ["pid"]]))?;
    let deadline = Instant::now() + t.bounds.secs(6.0);
    let mut most = 0;
    loop {
        most = most.max(usage_of(group).resident.saturating_sub(before));
        // A host may also stop reading, and the adapter with it.
        let done = t
            .wait_logged(from, Duration::from_millis(20), |act| act["ev"] == "pid")
            .is_some();
        if done || most > MOST || Instant::now() > deadline {
            break;
        }
    }
    most = most.max(usage_of(group).resident.saturating_sub(before));
    t.demand(
        most <= MOST,
        format!("at most {} MiB more memory", MOST >> 20),
        format!("{} MiB", most >> 20),
    )
    .hint("what a paused session holds belongs on disk, or stays with the adapter")?;
    prompt_turn(t, &other, "a flood into a paused session holds up another")?;
    t.close(&s)?;
    Ok(())
}

fn deliver_ticks_in_time(t: &mut Trial) -> Outcome {
    const FLOOD: u64 = 40 << 20;
    const WORDS: usize = 25;
    const WORD: &str = "word ";
    let (flood, tick) = (t.open_known()?, t.open_known()?);
    let from_flood = t.instruct(&flood, &json!([["flood", FLOOD, 16_384], ["complete"]]))?;
    let words = json!([
        ["repeat", WORDS, [["say", WORD], ["delay", 100]]],
        ["complete"]
    ]);
    let from_tick = t.instruct(&tick, &words)?;
    read_slowly(t, from_flood, &tick)?;
    let turn = t.end_of(&tick, from_tick)?;
    let (came, lower) = (turn.messages, t.lower(&tick)?);
    t.end_of_burst(&flood, from_flood)?;
    // The nth word below is the nth above: O-DELIVER judges that.
    let said = t.below_of(&lower).into_iter();
    let said = said.filter(|below| below.by == Side::Adapter && below.seen.text("content") == WORD);
    // A host may join words or cut them: a word has come when the text is long enough.
    let mut length = 0;
    let came = came.iter().flat_map(|seen| {
        let before = length / WORD.len();
        length += seen.on_channel("stdout").len();
        std::iter::repeat_n(seen.at, length / WORD.len() - before)
    });
    let mut lags: Vec<Duration> = said
        .zip(came)
        .map(|(said, came)| came.saturating_sub(said.seen.at))
        .collect();
    lags.sort_unstable();
    let within = t.bounds.secs(2.0);
    let late = lags.iter().filter(|lag| **lag > within).count() + WORDS.saturating_sub(lags.len());
    let worst = lags.last().copied().unwrap_or_default();
    t.demand(
        late * 20 <= WORDS,
        format!("at most one in 20 words later than {within:.1?}"),
        format!("{late} of {WORDS}, the slowest after {worst:.1?}"),
    )
    .hint("a session that floods should share the hub's pipe with the others, by bytes")
}

/// Reads as a hub does that takes 10 MB a second, until a turn of the session has ended that began at `from`.
fn read_slowly(t: &mut Trial, from: usize, s: &Session) -> Outcome {
    const A_SECOND: f64 = 10e6;
    let (began, mut next, mut bytes, mut ended) = (Instant::now(), from, 0, false);
    let enough = began + t.bounds.secs(20.0);
    t.with_process(|process| process.pause_reading(true))?;
    while !ended && Instant::now() < enough {
        let due = Duration::from_secs_f64(f64::from(bytes) / A_SECOND);
        match due.checked_sub(began.elapsed()) {
            Some(early) => t.pass_time(early.min(Duration::from_millis(100))),
            None => {
                t.with_process(|process| process.pause_reading(false))?;
                t.pass_time(Duration::from_millis(1));
                t.with_process(|process| process.pause_reading(true))?;
            }
        }
        let upto = t.history.len();
        t.history.scan(next, |index, record| {
            if let (
                true,
                Link::Upper,
                Event::Adapter {
                    bytes: line,
                    parsed,
                    ..
                },
            ) = (index < upto, record.link, &record.event)
            {
                bytes += u32::try_from(line.len()).unwrap_or_default();
                ended |= parsed.message().is_some_and(|message| {
                    wire::kind(message) == "turn.complete" && wire::session(message) == s.id()
                });
            }
            None::<()>
        });
        next = upto;
    }
    t.with_process(|process| process.pause_reading(false))
}
