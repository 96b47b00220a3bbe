//! A-SES, A-TRN and A-STP: sessions, turns, how they end, and `stop` ([session.3] to [session.7], [turn.1]
//! to [turn.5]).

use std::cell::Cell;

use crate::{
    cases::prelude::*,
    process::{Usage, descendants},
};

/// Output each 50 ms of a turn that lasts until it is stopped.
pub(super) const TICK: &str = "tick";

pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-SES-02", keep_tokens_apart),
    ("A-SES-13", level_off_after_cycles),
    ("A-TRN-08", queued_in_order),
    ("A-STP-01", stop_ends_the_turn),
    ("A-STP-07", stop_races_completion),
    ("A-STP-10", stop_in_a_flood),
    ("A-STP-13", children_end),
];

fn queued_in_order(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let words: Vec<String> = (1..=5).map(|n| format!("word-{n}")).collect();
    let mut from = t.history.len();
    for (n, word) in words.iter().enumerate() {
        let at = t.probe(&s, &json!([["say", word]]))?;
        if n == 0 {
            from = at;
        }
    }
    for _ in &words {
        t.end_of(&s, from)?;
    }
    let all = t.of_session(&s);
    let turns = all
        .split_inclusive(|seen| seen.kind() == "turn.complete")
        .map(answer_of);
    let said: Vec<String> = turns.take(words.len()).collect();
    // A greeting or background work may be beside a word ([turn.6]).
    let ordered = said.iter().enumerate().all(|(place, text)| {
        words
            .iter()
            .enumerate()
            .all(|(wanted, word)| text.contains(word) == (wanted == place))
    });
    t.demand(
        ordered,
        format!("one turn for each of {}", words.join(", ")),
        said.join(" | "),
    )
}

/// Stops the running turn and waits for its end, for the time that the author declared.
pub(in crate::cases) fn stop(
    t: &mut Trial,
    s: &CaseSession,
    from: usize,
) -> Outcome<crate::trial::TurnSeen> {
    t.stop(s)?;
    t.end_within(s, from, t.bounds.stop)
        .hint("stdin must be read while a turn runs, and `stop` must reach the turn, which then ends by `turn.complete`")
}

fn stop_ends_the_turn(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let from = t.busy(&s)?;
    let stopped = t.history.len();
    let turn = match stop(t, &s, from) {
        Ok(turn) => turn,
        Err(failure) => {
            // If the turn does become silent it was stopped, and only its end is missing.
            let last = t
                .of_session(&s)
                .into_iter()
                .rfind(|seen| seen.index >= stopped)
                .map(|seen| seen.at);
            let since = t
                .history
                .began()
                .elapsed()
                .saturating_sub(last.unwrap_or_default());
            if last.is_none() || since > Duration::from_secs(1) {
                t.found(
                    "turn.1",
                    Level::Must,
                    "one `turn.complete` for a turn that is stopped",
                    "none",
                );
            }
            return Err(failure);
        }
    };
    let bound = t.bounds.secs(5.0);
    t.should(
        turn.took <= bound,
        format!("the end within {bound:.1?} of the stop"),
        format!("{:.1?}", turn.took),
    );
    t.settle_ledger(&s)?;
    match t.tier() {
        Tier::Recipe => outlives_a_stopped_turn(t, turn.end.at.saturating_sub(t.sent_at(from))),
        Tier::BlackBox | Tier::Probe => Ok(()),
    }
}

/// Checks that an unstopped turn of recipe `long` lasts longer than the stopped one: the stop has
/// ended that one.
fn outlives_a_stopped_turn(t: &mut Trial, stopped_after: Duration) -> Outcome {
    let s = t.open()?;
    let from = t.busy(&s)?;
    let within = stopped_after * 2 + t.quiet();
    let ended = |seen: &ReceivedMessage| seen.is_of(&s, "turn.complete");
    if t.wait(from, within, ended).is_some() {
        return Err(Stop::Inconclusive(format!(
            "recipe `long` ended by itself within {within:.1?}, so it does not show what the stop did; it should last a minute"
        )));
    }
    stop(t, &s, from)?;
    Ok(())
}

/// The next turn of a session is served as if there had been no stop.
pub(in crate::cases) fn ordinary_turn(t: &mut Trial, s: &CaseSession) -> Outcome {
    if !t.has_probe(&["echo"]) {
        return t.quick_turn(s).map(|_| ());
    }
    let token = t.token();
    let said = t.probe_echo(s, &token)?;
    t.demand(
        said.contains(&token),
        format!("the next turn outputs {token:?}"),
        format!("{said:?}"),
    )
    .hint("the stop seems to be kept for the next turn")
}

fn stop_races_completion(t: &mut Trial) -> Outcome {
    const RUNS: usize = 200;
    let s = t.open()?;
    let mut natural = Vec::new();
    for _ in 0..5 {
        let from = t.sleeping(&s, 5)?;
        natural.push(t.end_of(&s, from)?.took);
    }
    natural.sort_unstable();
    let span = (natural[2] * 3 / 2).min(Duration::from_millis(40));
    let mut runs = Vec::new();
    let began = Instant::now();
    for _ in 0..RUNS {
        // Where each stop takes its time, fewer have to do.
        if runs.len() >= 5 && began.elapsed() > Duration::from_secs(15) {
            t.note(format!(
                "{} turns instead of {RUNS}, since a stop takes so long",
                runs.len()
            ));
            break;
        }
        let offset = span.mul_f64(t.rng.below(1_000) as f64 / 1_000.0);
        let from = t.sleeping(&s, 5)?;
        t.pass_time(offset);
        t.stop(&s)?;
        t.end_within(&s, from, t.bounds.stop)?;
        runs.push((from, offset));
    }
    t.settle()?;
    let ends: Vec<usize> = t
        .of_session(&s)
        .iter()
        .filter(|seen| seen.kind() == "turn.complete")
        .map(|seen| seen.index)
        .collect();
    let mut doubles = Vec::new();
    for (run, (from, offset)) in runs.iter().enumerate() {
        let until = runs.get(run + 1).map_or(usize::MAX, |(next, _)| *next);
        if ends
            .iter()
            .filter(|end| (*from..until).contains(*end))
            .count()
            != 1
        {
            doubles.push(format!("{offset:.1?}"));
        }
    }
    doubles.truncate(5);
    t.demand(
        ends.len() == runs.len() + 5 && doubles.is_empty(),
        format!(
            "exactly one `turn.complete` for each of {} inputs",
            runs.len() + 5
        ),
        format!(
            "{}; not one each where the stop came after {}",
            ends.len(),
            doubles.join(", ")
        ),
    )
    .hint("decide under one lock whether the turn ends by itself or by the stop")
}

fn stop_in_a_flood(t: &mut Trial) -> Outcome {
    const PIECES: usize = 10_000;
    const SIZE: usize = 20_000;
    /// Outputs that may be in flight when the stop arrives.
    const AHEAD: usize = 3_000;
    let s = t.open()?;
    // A stop may take time, and the burst continues meanwhile.
    let usual = match t.has_probe(&["until_stop"]) {
        true => {
            let from = t.busy(&s)?;
            stop(t, &s, from)?.took
        }
        false => Duration::ZERO,
    };
    let from = t.probe(&s, &json!([["burst", PIECES, SIZE]]))?;
    let ended = |seen: &ReceivedMessage| seen.kind() == "turn.complete";
    t.expect(from, &s, "output")?;
    t.stop(&s)?;
    let due = t.history.began().elapsed() + usual * 2 + t.bounds.secs(0.5);
    let bytes = Cell::new(0);
    let decided = t.wait(from, t.bounds.longest, |seen| {
        if seen.session() != s.id() {
            return false;
        }
        bytes.set(bytes.get() + seen.on_channel("stdout").len());
        ended(seen) || (bytes.get() > AHEAD * SIZE && seen.at > due)
    });
    let pieces = bytes.get() / SIZE;
    match decided {
        Some(seen) if ended(&seen) && pieces < PIECES => {
            t.end_of(&s, from)?;
            t.settle_ledger(&s)
        }
        Some(seen) if ended(&seen) && seen.at <= due => t.inconclusive(format!(
            "all pieces of the burst came before a stop would have shown, which takes {usual:.1?} here"
        )),
        Some(_) => {
            t.expect_gone();
            t.fail(
                "the turn ends soon after its stop",
                format!("{pieces} pieces of the burst"),
            )
            .hint("look for a stop between the pieces of an answer, and read stdin meanwhile")
        }
        None => {
            let came = t.what_came(from, &s);
            t.expect_gone();
            t.late("the turn ends soon after its stop", came)
        }
    }
}

fn children_end(t: &mut Trial) -> Outcome {
    let Some(long) = t.subject.recipes.long.clone() else {
        return t.skip("recipe `long`");
    };
    let s = t.open()?;
    t.quick_turn(&s)?;
    let adapter = t.process()?.pid();
    let before = descendants(adapter);
    let from = t.input(&s, long)?;
    t.pass_time(t.quiet().max(Duration::from_millis(500)));
    let of_turn: Vec<u32> = descendants(adapter)
        .into_iter()
        .filter(|process| !before.contains(process))
        .collect();
    if of_turn.is_empty() {
        return t.skip("a turn of recipe `long` that starts a process");
    }
    stop(t, &s, from)?;
    let until = Instant::now() + t.bounds.secs(5.0);
    loop {
        let now = descendants(adapter);
        let left = of_turn
            .iter()
            .filter(|process| now.contains(process))
            .count();
        if left == 0 {
            return Ok(());
        }
        if Instant::now() > until {
            return t
                .fail(
                    "the processes of a stopped turn are gone within 5 s",
                    format!("{left} are running"),
                )
                .hint("start what a turn starts in its own process group, and end the group");
        }
        t.pass_time(Duration::from_millis(50));
    }
}

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
                    format!("in {} only its own token", s.id()),
                    format!("the token of {}", other.id()),
                );
            }
            silent += usize::from(!turn.text().contains(token.as_str()));
        }
        if silent > 0 && t.tier() == Tier::Recipe {
            return t.inconclusive("recipe `nonce` did not return its text");
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
pub(in crate::cases) fn value_of(
    t: &mut Trial,
    session: &CaseSession,
    key: &str,
) -> Outcome<Value> {
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
    let mut done = 0;
    let mut batch = 25;
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
