//! A-SES: sessions ([session.3] to [session.7]).

use crate::{cases::prelude::*, process::Usage};

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-SES-02", keep_tokens_apart),
    ("A-SES-10", one_of_two),
    ("A-SES-11", the_last),
    ("A-SES-13", level_off_after_cycles),
];

fn keep_tokens_apart(t: &mut Trial) -> Outcome {
    let mut sessions = Vec::new();
    for _ in 0..4 {
        sessions.push((t.open()?, t.token()));
    }
    for _ in 0..2 {
        let mut begun = Vec::new();
        for (s, token) in &sessions {
            let Some(content) = t.asking_back(token) else {
                return t.skip("recipe `nonce` or probe operation `echo`");
            };
            begun.push(t.input(s, content)?);
        }
        let mut silent = 0;
        for ((s, token), from) in sessions.iter().zip(begun) {
            let turn = t.end_of(s, from)?;
            Trial::supported(&turn.messages)?;
            let all: String = turn
                .messages
                .iter()
                .map(|seen| Value::from(seen.message().clone()).to_string())
                .collect();
            let strange = sessions
                .iter()
                .find(|(_, other)| other != token && all.contains(other.as_str()));
            if let Some((other, _)) = strange {
                return t.fail(
                    format!("in {} its own token alone", s.id()),
                    format!("the token of {}", other.id()),
                );
            }
            silent += usize::from(!turn.text().contains(token.as_str()));
        }
        if silent > 0 && t.tier() == Tier::Recipe {
            return t.inconclusive("recipe `nonce` did not say its text back");
        }
        t.demand(
            silent == 0,
            "each token in its session",
            format!("{silent} of 4 without theirs"),
        )?;
    }
    Ok(())
}

/// Returns the value that `get` outputs.
pub(in crate::cases) fn value_of(t: &mut Trial, session: &Session, key: &str) -> Outcome<Value> {
    let turn = t.probe_turn(session, &json!([["get", key]]))?;
    match Trial::probe_answer(&turn.messages, "key") {
        Some(answer) => Ok(answer.get("value").cloned().unwrap_or_default()),
        None => t.fail("the probe's answer to `get`", format!("{:?}", turn.text())),
    }
}

/// Number of sessions that are opened and closed.
const CYCLES: usize = 2_000;
/// The longest that they are opened and closed for; a program that starts something for each needs its time.
const CYCLING: Duration = Duration::from_secs(15);

fn level_off_after_cycles(t: &mut Trial) -> Outcome {
    cycle(t, CYCLES / 4, CYCLING / 4)?;
    let before = t.usage()?;
    let done = cycle(t, CYCLES, CYCLING)?;
    let after = t.usage()?;
    let Some(grown) = grown(before, after) else {
        return Ok(());
    };
    // What levels off does not grow so again: memory that waits to be collected does, what leaks does not.
    let more = cycle(t, CYCLES, CYCLING)?;
    let last = t.usage()?;
    let Some(again) = self::grown(after, last) else {
        t.note(format!(
            "after {done} sessions {grown}, after {more} more it had levelled off"
        ));
        return Ok(());
    };
    t.should(
        false,
        "memory, descriptors and processes level off",
        format!("{grown} after {done} sessions, and {again} after {more} more"),
    );
    Ok(())
}

/// Opens and closes this many sessions, in batches that a slow program can follow, and returns the
/// number reached.
fn cycle(t: &mut Trial, wanted: usize, within: Duration) -> Outcome<usize> {
    let began = Instant::now();
    let (mut done, mut batch) = (0, 25);
    while done < wanted && began.elapsed() < within {
        let batch_began = Instant::now();
        for _ in 0..batch.min(wanted - done) {
            let s = t.open()?;
            t.close(&s)?;
        }
        done += batch.min(wanted - done);
        t.fence()?;
        if batch_began.elapsed() < Duration::from_secs(1) {
            batch *= 2;
        }
    }
    Ok(done)
}

/// Describes the growth between two samples.
fn grown(before: Usage, after: Usage) -> Option<String> {
    let mib = |bytes: u64| bytes >> 20;
    if after.resident > before.resident + (8 << 20) {
        return Some(format!(
            "{} MiB became {} MiB",
            mib(before.resident),
            mib(after.resident)
        ));
    }
    if after.descriptors > before.descriptors + 20 {
        return Some(format!(
            "{} descriptors became {}",
            before.descriptors, after.descriptors
        ));
    }
    (after.processes > before.processes + 5)
        .then(|| format!("{} processes became {}", before.processes, after.processes))
}

fn one_of_two(t: &mut Trial) -> Outcome {
    let [kept, closed] = t.open_each()?;
    let mut begun = 0;
    for s in [&kept, &closed] {
        let at = if t.has_probe(&["sleep"]) {
            t.sleeping(s, 500)?
        } else {
            let quick = t.quick();
            t.input(s, quick)?
        };
        if s == &kept {
            begun = at;
        }
    }
    t.close(&closed)?;
    let turn = t.end_of(&kept, begun)?;
    Trial::supported(&turn.messages)?;
    if t.has_probe(&["sleep"]) {
        let took = turn.end.at.saturating_sub(t.sent_at(begun));
        t.demand(
            took >= Duration::from_millis(450),
            "the whole of a turn that sleeps for 500 ms",
            format!("its end after {took:.1?}"),
        )?;
    }
    t.demand_ends(&kept, 1)?;
    t.quick_turn(&kept)?;
    Ok(())
}

fn the_last(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.quick_turn(&s)?;
    t.close(&s)?;
    t.pass_time(Duration::from_secs(2));
    if let Some(exit) = t.exit_text() {
        return t.fail("the process outlives its last session", exit);
    }
    let s = t.open()?;
    t.quick_turn(&s)?;
    Ok(())
}
