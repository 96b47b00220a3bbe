//! A-FLW: back-pressure, floods, many turns ([session.3], [turn.1]).

use crate::cases::prelude::*;

pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-FLW-03", flood_beside_a_conversation),
    ("A-FLW-04", many_turns),
    ("A-FLW-05", memory_is_bounded),
];

/// Maximum growth of a process by an unread flood, in MiB.
const GROWTH: u64 = 256;

fn flood_beside_a_conversation(t: &mut Trial) -> Outcome {
    const ECHOES: usize = 20;
    let [flood, talk] = t.open_each()?;
    t.quick_turn(&talk)?;
    let from = t.probe(&flood, &json!([["burst", 1_600, 20_000]]))?;
    t.expect(from, &flood, "output")?;
    let mut took = Vec::new();
    for _ in 0..ECHOES {
        let began = Instant::now();
        t.probe_echo(&talk, "echo")?;
        took.push(began.elapsed());
        t.pass_time(Duration::from_millis(100).saturating_sub(began.elapsed()));
    }
    t.end_within(&flood, from, t.bounds.secs(20.0))?;
    took.sort_unstable();
    let slowest = took[ECHOES - 2];
    let bound = t.bounds.secs(2.0);
    t.demand(
        slowest <= bound,
        format!("19 of 20 echoes within {bound:.1?}"),
        format!("within {slowest:.1?}"),
    )
    .hint("let the sessions share the pipe in turn; one queue for all lets a flood go first")
}

fn many_turns(t: &mut Trial) -> Outcome {
    let sessions: Vec<CaseSession> = (0..32).map(|_| t.open()).collect::<Outcome<_>>()?;
    let mut order: Vec<usize> = (0..sessions.len()).collect();
    for round in 0..50 {
        t.rng.shuffle(&mut order);
        let mut waiting = Vec::new();
        for place in &order {
            let word = format!("[{}/{round}]", sessions[*place].id());
            let content = Trial::echo(&word);
            waiting.push((*place, word, t.input(&sessions[*place], content)?));
        }
        for (place, word, from) in waiting {
            let turn = t.end_of(&sessions[place], from)?;
            let said = turn.text();
            // A greeting or background work may be in the output too ([turn.6]).
            let only = said.contains(&word) && said.matches("[s-").count() == 1;
            t.demand(
                only,
                format!("the turn outputs {word:?}"),
                format!("{said:?}"),
            )
            .under("session.3")?;
        }
    }
    for s in &sessions {
        let ends = t.count(s, "turn.complete");
        t.demand(
            ends == 50,
            "50 `turn.complete` in each session",
            format!("{ends} for {}", s.id()),
        )?;
    }
    Ok(())
}

/// Watches the memory of a process that cannot write its output, until it stops growing, or for a
/// minute. It may grow by this many MiB.
pub(super) fn watch_growth(t: &mut Trial, limit: u64) -> Outcome {
    let pid = t.process()?.pid();
    let before = crate::process::usage_of(pid).resident;
    let began = Instant::now();
    let mut most = 0;
    let mut grew = Instant::now();
    while began.elapsed() < Duration::from_secs(60) && grew.elapsed() < Duration::from_millis(1_500)
    {
        t.pass_time(Duration::from_millis(50));
        let growth = crate::process::usage_of(pid)
            .resident
            .saturating_sub(before);
        if growth > most + (1 << 20) {
            most = growth;
            grew = Instant::now();
        }
        if growth > limit << 20 {
            // It may continue until the machine has no memory left.
            t.expect_gone();
            return t
                .fail(
                    format!("memory grows by less than {limit} MiB"),
                    format!("{} MiB", growth >> 20),
                )
                .hint(
                    "wait where the outgoing queue is full, so that the agent is read no further",
                );
        }
    }
    if grew.elapsed() < Duration::from_millis(1_500) {
        let why = format!(
            "memory has grown by {} MiB in a minute, and still grows",
            most >> 20
        );
        return t.inconclusive(why);
    }
    Ok(())
}

fn memory_is_bounded(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.quick_turn(&s)?;
    t.with_process(|process| process.pause_reading(true))?;
    t.probe(&s, &json!([["burst", 2_000, 200_000]]))?;
    watch_growth(t, GROWTH)?;
    // All that need not be read.
    t.expect_gone();
    Ok(())
}
