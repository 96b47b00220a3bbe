//! H-LIF: the life of the adapter's process.

use rustix::process::Signal;

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
    ("H-LIF-09", will_not_go),
    ("H-LIF-10", crash_after_crash),
    ("H-LIF-13", begun_anew),
    ("H-LIF-14", no_storm),
    ("H-LIF-17", host_killed),
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

fn begun_anew(t: &mut Trial) -> Outcome {
    let (closed, s) = (t.open_known()?, t.open_known()?);
    let (before, before_closed) = (t.lower(&s)?, t.lower(&closed)?);
    let from = t.close(&closed)?;
    t.expect_told(from, &before_closed, "session.close")?;
    t.act(&s, &json!([["say", "last words"], ["abort"]]))?;
    t.demand_served(&s, "anew")?;
    let after = t.lower(&s)?;
    t.demand(
        after.process != before.process,
        "a new process",
        "the one that died",
    )?;
    let mut begun = HashSet::new();
    let told = |below: &Below| below.by == Side::Host && below.process == after.process;
    for below in t
        .below()
        .into_iter()
        .filter(told)
        .filter(|below| !below.seen.session().is_empty())
    {
        let (id, kind) = (
            below.seen.session().to_owned(),
            below.seen.kind().to_owned(),
        );
        t.demand(
            id != before_closed.id,
            "nothing of the closed session in the new process",
            format!("`{kind}` of {id}"),
        )?;
        let start = kind == "session.start";
        t.demand(
            begun.insert(id.clone()) == start,
            format!("`session.start` of {id} first and once"),
            format!("`{kind}`"),
        )?;
    }
    Ok(())
}

fn no_storm(t: &mut Trial) -> Outcome {
    const MOST: usize = 10;
    t.stub_script(&json!({"at_start":[["exit", 3]]}))?;
    let s = t.open()?;
    let mut inputs = Vec::new();
    for round in 0..30 {
        inputs.push(t.input(&s, format!("input {round}"))?);
        t.pass_time(Duration::from_millis(150));
        let starts = t.stub_processes().len();
        t.demand(
            starts <= MOST,
            format!("at most {MOST} starts in 4.5 s"),
            starts,
        )
        .hint("restarts want back-off, and an end after some of them")?;
    }
    for from in inputs {
        let turn = t.end_within(&s, from, t.bounds.secs(10.0))?;
        t.demand_text(&turn, "")?;
    }
    let told = t.of(&s).iter().any(|seen| seen.text("channel") == "system");
    t.demand(told, "the hub learns why, on channel `system`", "it is not")
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

fn will_not_go(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"at_start":[["ignore_eof"], ["ignore_term"]]}))?;
    t.open_known()?;
    let processes = t.stub_processes();
    let began = Instant::now();
    t.close_stdin()?;
    let within = t.bounds.secs(15.0);
    t.exit_within(within)?;
    // The runner reaps what has no parent left.
    let left = within
        .saturating_sub(began.elapsed())
        .min(Duration::from_secs(1));
    demand_gone(t, &processes, left).hint("the host leaves without its adapter")
}

fn host_killed(t: &mut Trial) -> Outcome {
    let mut sessions = vec![t.open()?, t.open()?];
    if t.subject
        .lacks(&[Need::SecondAdapter, Need::Extension("options")])
        .is_none()
    {
        // A later child may hold a copy of an earlier one's pipe.
        sessions.push(t.open_offering(&["options"], &json!({"agent_id":"second"}))?);
    }
    for s in &sessions {
        t.introduce(s)?;
    }
    let processes = t.stub_processes();
    t.demand(!processes.is_empty(), "an adapter", "none was started")?;
    t.with_process(|process| process.signal(Signal::KILL))?;
    t.exit_within(Duration::from_secs(5))?;
    demand_gone(t, &processes, t.bounds.secs(5.0)).hint(
        "another process seems to hold a copy of the adapter's stdin: close descriptors on exec",
    )
}
