//! The adapter's process ends in a turn, or never begins: the turn ends once, and what was written is kept.

use super::demand_gone;
use crate::cases::prelude::*;

pub(super) fn no_such_program(t: &mut Trial) -> Outcome {
    let mut launch = t.launch();
    let missing = t.path("no-such-program").display().to_string();
    let fill = |argument: &String| {
        argument
            .replace("{adapter}", &missing)
            .replace("{adapter2}", &missing)
    };
    launch.command = t.subject.command.iter().map(fill).collect();
    t.start_with(&launch)?;
    let s = t.open()?;
    let from = t.input(&s, "Are you there?")?;
    // It may try five times before the agent has failed, with up to 0.25 s, 0.5 s, 1 s, 2 s and 4 s between.
    let within = t.bounds.secs(10.0).max(t.bounds.start * 5);
    match t.expect_within(from, &s, "turn.complete", within) {
        Ok(_) => {
            let turn = t.end_of(&s, from)?;
            t.demand_told(&turn, "why the turn ended")
        }
        Err(late) => match t.with_process(crate::process::Process::exit)? {
            Some(exit) => {
                t.expect_gone();
                t.demand(
                    exit.code != Some(0),
                    "an end with a status that says so",
                    "status 0",
                )
            }
            None => Err(late),
        },
    }
}

pub(super) fn last_words(t: &mut Trial) -> Outcome {
    // Many short lines, which no reader takes as fast as they are written: at the exit the pipe is full.
    const LINES: usize = 20_000;
    for round in 0..3 {
        let s = t.open()?;
        let turn = t.act(&s, &json!([["burst", LINES, 8], ["complete"], ["exit", 0]]))?;
        let text = turn.text();
        if round > 0 && text.is_empty() && !turn.on_channel("system").is_empty() {
            t.note("it does not start its adapter again");
            return Ok(());
        }
        t.demand(
            text.len() == 8 * LINES,
            format!("{LINES} outputs before the end"),
            text.len() / 8,
        )
        .hint("after the exit a pipe still holds what was written: read it to its end")?;
        gone_within(t, &s)?;
    }
    Ok(())
}

/// Waits until the process of a session, which ends itself, has ended.
fn gone_within(t: &Trial, s: &Session) -> Outcome {
    let process = t.lower(s)?.process;
    demand_gone(t, &[process], Duration::from_secs(5))
}
