//! H-LIF: the life of the adapter's process.

use crate::{
    cases::prelude::*,
    process::{descendants, usage_of},
};

/// Waits until these processes of the stub have ended.
pub(in crate::cases) fn demand_gone(t: &Trial, processes: &[u32], within: Duration) -> Outcome {
    let deadline = Instant::now() + within;
    loop {
        if !processes.iter().any(|process| t.is_running(*process)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return t.late(
                format!("the adapter ends within {within:.1?}"),
                "it is still running",
            );
        }
        t.pass_time(Duration::from_millis(10));
    }
}

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-LIF-04", no_such_program),
    ("H-LIF-05", last_words),
    ("H-LIF-08", orderly_end),
    ("H-LIF-10", crash_after_crash),
];

fn no_such_program(t: &mut Trial) -> Outcome {
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

fn last_words(t: &mut Trial) -> Outcome {
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

fn crash_after_crash(t: &mut Trial) -> Outcome {
    const CRASHES: usize = 12;
    let group = t.with_process(crate::process::Process::pid)?;
    let s = t.open_known()?;
    t.settle()?;
    let (children, descriptors) = (descendants(group).len(), usage_of(group).descriptors);
    for round in 0..CRASHES {
        let turn = t.act(&s, &say_and_complete("here"))?;
        if turn.text().is_empty() && !turn.on_channel("system").is_empty() {
            t.note(format!(
                "after {round} crashes it does not start its adapter again"
            ));
            break;
        }
        t.act(&s, &json!([["say", "last words"], ["abort"]]))?;
    }
    t.settle()?;
    // One in three would be a leak; a process more or less, warm or on its way out, is none.
    let most = CRASHES / 3;
    let deadline = Instant::now() + t.bounds.secs(3.0);
    loop {
        let more = descendants(group).len().saturating_sub(children);
        let lost = usage_of(group).descriptors.saturating_sub(descriptors);
        if more <= most && lost <= most {
            return Ok(());
        }
        if Instant::now() > deadline {
            return t.fail(
                "after the crashes as many processes and descriptors as before",
                format!("{more} processes and {lost} descriptors more"),
            );
        }
        t.pass_time(Duration::from_millis(50));
    }
}

fn orderly_end(t: &mut Trial) -> Outcome {
    // It does not go at once, so that a signal would be seen.
    t.stub_script(&json!({"on":{"eof":[["delay", 1_300]]}}))?;
    let (idle, busy) = (t.open_known()?, t.open()?);
    t.begin_busy(&busy)?;
    let lowers = [t.lower(&idle)?, t.lower(&busy)?];
    t.close_stdin()?;
    let exit = t.exit_within(t.bounds.secs(15.0))?;
    t.demand(
        exit.code == Some(0),
        "the host ends with status 0",
        format!("{exit:?}"),
    )?;
    for lower in &lowers {
        let closed = t.told(lower, "session.close");
        t.demand(
            closed.len() == 1,
            format!("one `session.close` of {}", lower.id),
            closed.len(),
        )?;
        let on_link = |wanted: fn(&Event) -> bool| {
            t.history.scan(0, |_, record| {
                (record.link == Link::Lower(lower.process) && wanted(&record.event))
                    .then_some(record.at)
            })
        };
        let Some(ended) = on_link(|event| matches!(event, Event::StdinClosed)) else {
            return t.fail(
                "the end of stdin before the process is ended",
                "none was seen",
            );
        };
        t.demand(
            closed[0].at <= ended,
            "`session.close` before the end of stdin",
            "it came after",
        )?;
        // SIGKILL leaves no trace but a missing end.
        let exited =
            on_link(|event| matches!(event, Event::Exited { code: Some(_), .. })).is_some();
        let signalled = t
            .logged("term")
            .iter()
            .any(|(process, _)| *process == lower.process);
        t.demand(
            exited && !signalled,
            "at least 1 s between the end of stdin and a signal",
            if signalled { "SIGTERM" } else { "SIGKILL" },
        )?;
    }
    Ok(())
}
