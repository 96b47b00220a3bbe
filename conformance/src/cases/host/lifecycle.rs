//! H-LIF: the life of the adapter's process.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::{Value, json};

use super::demand_answer;
use crate::{
    case::Case,
    clauses::{Basis, Level, Side},
    history::{Event, Link},
    needs::{Ability, Need},
    process::{descendants, usage_of},
    trial::{Below, Session, Trial, TurnSeen},
    verdict::{FailureContext, Outcome},
};

/// The family.
pub(in crate::cases) static CASES: &[Case] = &[
    Case {
        id: "H-LIF-01",
        title: "an exit in mid-turn",
        clause: "process.4",
        smoke: true,
        stimulus: "the adapter exits with status 0 in the middle of two turns",
        expected: "both turns are ended within 5 s, and the hub is told why",
        run: exit_in_turn,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-02",
        title: "a death in mid-turn",
        clause: "process.4",
        stimulus: "the adapter is killed by a signal in the middle of two turns",
        expected: "both turns are ended within 5 s; the hub is told why, and should be told of the signal",
        run: killed_in_turn,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-03",
        title: "dead before it reads",
        clause: "process.4",
        stimulus: "the first two processes of the adapter exit before they read anything; an input",
        expected: "it is ended within 10 s and the hub is told why, or a later process serves it",
        run: never_reads,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-04",
        title: "no such program",
        clause: "process.4",
        stimulus: "the adapter's command does not exist; an input",
        expected: "within 5 s it is ended and the hub is told why, or the host has ended with an error",
        run: no_such_program,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-05",
        title: "last words",
        clause: "process.3",
        stimulus: "the adapter writes 20,000 short outputs and `turn.complete` and exits at once, three times",
        expected: "all of it is delivered, then the end of the turn",
        run: last_words,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-06",
        title: "stdout closed",
        clause: "process.3",
        level: Level::Should,
        stimulus: "the adapter closes its stdout in mid-turn and lives on",
        expected: "the turn is ended within 5 s, and so is the process",
        run: stdout_closed,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-07",
        title: "a grandchild holds stdout",
        clause: "process.3",
        level: Level::Should,
        stimulus: "the adapter exits in mid-turn, and a child of it keeps stdout open",
        expected: "the turn is ended within 5 s",
        run: stdout_held,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-08",
        title: "an orderly end",
        clause: "process.2",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "the host's stdin ends while two sessions are open, one of them in a turn",
        expected: "`session.close` of each, then the end of stdin, then at least 1 s before a signal",
        run: orderly_end,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-09",
        title: "an adapter that will not go",
        clause: "process.2",
        basis: Basis::Choice,
        stimulus: "the host's stdin ends; the adapter ignores the end of its own and SIGTERM",
        expected: "host and adapter are gone within 15 s",
        run: will_not_go,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-10",
        title: "crash after crash",
        clause: "process.2",
        basis: Basis::Choice,
        stimulus: "twelve times: a turn, then the adapter dies in the next one",
        expected: "no zombies and no lost descriptors",
        run: crash_after_crash,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-11",
        title: "writing to the dead",
        clause: "process.4",
        stimulus: "the adapter stops reading, 1 MiB of inputs waits for it, it dies; inputs at once after that",
        expected: "each input is ended, and the host lives",
        run: writing_to_the_dead,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-12",
        title: "stderr is drained",
        clause: "frame.9",
        basis: Basis::Derived,
        smoke: true,
        stimulus: "4 MiB on stderr without an LF before the first answer",
        expected: "the answer arrives",
        run: much_on_stderr,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-13",
        title: "a new process, begun anew",
        clause: "process.5",
        basis: Basis::Choice,
        needs: &[Need::Ability(Ability::Restarts)],
        stimulus: "one session is closed, another one's process dies; then an input",
        expected: "the new process sees `session.start` first, and nothing of the closed session",
        run: begun_anew,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-14",
        title: "no storm of starts",
        clause: "process.5",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "the adapter always exits at once; 30 inputs in 4.5 s",
        expected: "at most 10 starts; each input is ended, and the hub is told why",
        run: no_storm,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-15",
        title: "a slow start",
        clause: "process.5",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "the adapter reads nothing for 4 s after its start; an input",
        expected: "it is served by that process",
        run: slow_start,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-16",
        title: "one adapter dies, the other does not",
        clause: "process.4",
        needs: &[Need::SecondAdapter, Need::Extension("options")],
        stimulus: "sessions with two adapters, both in a turn; one adapter dies",
        expected: "the other's turn goes on as if nothing had happened",
        run: other_undisturbed,
        ..Case::NEW
    },
    Case {
        id: "H-LIF-17",
        title: "the host is killed",
        clause: "process.2",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "SIGKILL of the host while adapters run",
        expected: "each adapter sees the end of its stdin within 5 s",
        run: host_killed,
        ..Case::NEW
    },
];

fn exit_in_turn(t: &mut Trial<'_>) -> Outcome {
    let turn = end_in_turn(t, &json!(["exit", 0]))?;
    demand_answer(t, &turn, "last words")
}

/// Ends the process in the middle of two turns, and returns the turn in which it ended.
fn end_in_turn(t: &mut Trial<'_>, end: &Value) -> Outcome<TurnSeen> {
    let (a, b) = (t.open()?, t.open()?);
    t.act(&a, &json!([["complete"]]))?;
    let from_b = t.instruct(&b, &json!([["say", "busy"]]))?;
    t.expect(from_b, &b, "output", t.bounds.patience)?;
    let one_process = t.lower(&a)?.process == t.lower(&b)?.process;
    let from_a = t.instruct(&a, &json!([["say", "last words"], end]))?;
    let mut turns = Vec::new();
    let ended = [(&a, from_a), (&b, from_b)];
    for (s, from) in ended.into_iter().take(if one_process { 2 } else { 1 }) {
        t.expect(from, s, "turn.complete", t.bounds.secs(5.0))?;
        let turn = t.end_of(s, from)?;
        demand_delivered(t, &turn)?;
        turns.push(turn);
    }
    Ok(turns.swap_remove(0))
}

/// Demands that a core-only hub was told why the host ended a turn ([relay.7]).
fn demand_delivered(t: &Trial<'_>, turn: &TurnSeen) -> Outcome {
    let told = !turn.on_channel("system").is_empty();
    t.demand(told, "the hub is told why the turn ended, on channel `system`", "it is not")
}

fn much_on_stderr(t: &mut Trial<'_>) -> Outcome {
    t.stub_script(&json!({"at_start":[["stderr", 4 << 20]]}))?;
    let s = t.open()?;
    let turn = t.act(&s, &json!([["say", "one"], ["stderr", 4 << 20], ["say", " two"], ["complete"]]))?;
    demand_answer(t, &turn, "one two")
}

fn killed_in_turn(t: &mut Trial<'_>) -> Outcome {
    let turn = end_in_turn(t, &json!(["abort"]))?;
    demand_answer(t, &turn, "last words")?;
    let told = turn.on_channel("system").to_lowercase();
    let names_it = told.contains('9') || told.contains("kill") || told.contains("signal");
    t.should(names_it, "the hub is told of the signal", super::shown(&told));
    Ok(())
}

fn never_reads(t: &mut Trial<'_>) -> Outcome {
    let dead = json!({"at_start":[["exit", 3]]});
    t.stub_script(&json!({"starts":[dead, dead]}))?;
    let s = t.open()?;
    let from = t.input(&s, "Are you there?")?;
    t.expect(from, &s, "turn.complete", t.bounds.secs(10.0))
        .hint("the host seems to wait for a process that has ended")?;
    let turn = t.end_of(&s, from)?;
    if turn.text() == "Are you there?" {
        t.note("a later process served the input");
        return Ok(());
    }
    demand_answer(t, &turn, "")?;
    demand_delivered(t, &turn)
}

fn no_such_program(t: &mut Trial<'_>) -> Outcome {
    let mut launch = t.launch();
    let missing = t.path("no-such-program").display().to_string();
    let fill = |argument: &String| argument.replace("{adapter}", &missing).replace("{adapter2}", &missing);
    launch.command = t.subject.command.iter().map(fill).collect();
    t.start_with(&launch)?;
    let s = t.open()?;
    let from = t.input(&s, "Are you there?")?;
    let within = t.bounds.secs(5.0).max(t.bounds.start * 5);
    match t.expect(from, &s, "turn.complete", within) {
        Ok(_) => {
            let turn = t.end_of(&s, from)?;
            demand_delivered(t, &turn)
        }
        Err(late) => match t.with_process(crate::process::Process::exit)? {
            Some(exit) => {
                t.expect_gone();
                t.demand(exit.code != Some(0), "an end with a status that says so", "status 0")
            }
            None => Err(late),
        },
    }
}

fn last_words(t: &mut Trial<'_>) -> Outcome {
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
        t.demand(text.len() == 8 * LINES, format!("{LINES} outputs before the end"), text.len() / 8)
            .hint("after the exit a pipe still holds what was written: read it to its end")?;
        gone_within(t, &s)?;
    }
    Ok(())
}

/// Waits until the process of a session, which ends itself, has ended.
fn gone_within(t: &Trial<'_>, s: &Session) -> Outcome {
    let process = t.lower(s)?.process;
    demand_gone(t, &[process], Duration::from_secs(5))
}

/// Waits until these processes of the stub have ended.
fn demand_gone(t: &Trial<'_>, processes: &[u32], within: Duration) -> Outcome {
    let deadline = Instant::now() + within;
    loop {
        if !processes.iter().any(|process| t.is_running(*process)) {
            return Ok(());
        }
        if Instant::now() > deadline {
            return t.late(format!("the adapter ends within {within:.1?}"), "it is still running");
        }
        t.pass_time(Duration::from_millis(10));
    }
}

fn stdout_closed(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let from = t.instruct(&s, &json!([["say", "last words"], ["close_stdout"]]))?;
    t.expect(from, &s, "turn.complete", t.bounds.secs(5.0))?;
    let turn = t.end_of(&s, from)?;
    demand_answer(t, &turn, "last words")?;
    demand_delivered(t, &turn)?;
    let process = t.lower(&s)?.process;
    demand_gone(t, &[process], t.bounds.secs(10.0)).hint("a process that closed its stdout is left running")
}

fn stdout_held(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let from = t.instruct(&s, &json!([["grandchild", 30, "hold"], ["say", "last words"], ["exit", 0]]))?;
    t.expect(from, &s, "turn.complete", t.bounds.secs(5.0))
        .hint("the host waits for the end of the stream, and a grandchild holds it open")?;
    let turn = t.end_of(&s, from)?;
    demand_answer(t, &turn, "last words")?;
    demand_delivered(t, &turn)?;
    t.settle()?;
    // Who ends the grandchild, and when, is not what this is about.
    t.expect_gone();
    Ok(())
}

fn orderly_end(t: &mut Trial<'_>) -> Outcome {
    // It does not go at once, so that a signal would be seen.
    t.stub_script(&json!({"on":{"eof":[["delay", 1_300]]}}))?;
    let (idle, busy) = (t.open()?, t.open()?);
    t.act(&idle, &json!([["complete"]]))?;
    let from = t.instruct(&busy, &json!([["say", "busy"]]))?;
    t.expect(from, &busy, "output", t.bounds.patience)?;
    let lowers = [t.lower(&idle)?, t.lower(&busy)?];
    t.close_stdin()?;
    let exit = t.exit_within(t.bounds.secs(15.0))?;
    t.demand(exit.code == Some(0), "the host ends with status 0", format!("{exit:?}"))?;
    for lower in &lowers {
        let closed = t.told(lower, "session.close");
        t.demand(closed.len() == 1, format!("one `session.close` of {}", lower.id), closed.len())?;
        let on_link = |wanted: fn(&Event) -> bool| {
            t.history.scan(0, |_, record| {
                (record.link == Link::Lower(lower.process) && wanted(&record.event)).then_some(record.at)
            })
        };
        let Some(ended) = on_link(|event| matches!(event, Event::StdinClosed)) else {
            return t.fail("the end of stdin before the process is ended", "none was seen");
        };
        t.demand(closed[0].at <= ended, "`session.close` before the end of stdin", "it came after")?;
        // SIGKILL leaves no trace but a missing end.
        let exited = on_link(|event| matches!(event, Event::Exited { code: Some(_), .. })).is_some();
        let signalled = t.logged("term").iter().any(|(process, _)| *process == lower.process);
        t.demand(
            exited && !signalled,
            "at least 1 s between the end of stdin and a signal",
            if signalled { "SIGTERM" } else { "SIGKILL" },
        )?;
    }
    Ok(())
}

fn will_not_go(t: &mut Trial<'_>) -> Outcome {
    t.stub_script(&json!({"at_start":[["ignore_eof"], ["ignore_term"]]}))?;
    let s = t.open()?;
    t.act(&s, &json!([["complete"]]))?;
    let processes = t.stub_processes();
    let began = Instant::now();
    t.close_stdin()?;
    let within = t.bounds.secs(15.0);
    t.exit_within(within)?;
    // What nobody reaps any more is the runner's to reap.
    let left = within.saturating_sub(began.elapsed()).min(Duration::from_secs(1));
    demand_gone(t, &processes, left).hint("the host leaves without its adapter")
}

fn crash_after_crash(t: &mut Trial<'_>) -> Outcome {
    const CRASHES: usize = 12;
    let group = t.with_process(crate::process::Process::pid)?;
    let s = t.open()?;
    t.act(&s, &json!([["complete"]]))?;
    t.settle()?;
    let (children, descriptors) = (descendants(group).len(), usage_of(group).descriptors);
    for round in 0..CRASHES {
        let turn = t.act(&s, &json!([["say", "here"], ["complete"]]))?;
        if turn.text().is_empty() && !turn.on_channel("system").is_empty() {
            t.note(format!("after {round} crashes it does not start its adapter again"));
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

fn writing_to_the_dead(t: &mut Trial<'_>) -> Outcome {
    let mut others = Vec::new();
    for _ in 0..8 {
        let other = t.open()?;
        t.act(&other, &json!([["complete"]]))?;
        others.push(other);
    }
    let s = t.open()?;
    let held = json!([["hold_stdin", true], ["say", "held"], ["delay", 400], ["abort"]]);
    let from = t.instruct(&s, &held)?;
    t.expect(from, &s, "output", t.bounds.patience)?;
    let text = "t".repeat(128 << 10);
    let mut inputs = Vec::new();
    for other in &others {
        inputs.push((other, t.input(other, text.as_str())?));
    }
    t.end_of(&s, from)?;
    // At once, when some host's pipe is broken and its process not yet missed.
    inputs.push((&s, t.input(&s, "Are you there?")?));
    for (session, from) in inputs {
        t.end_of(session, from).hint("a write to a broken pipe must not end the host, nor lose the turn")?;
    }
    for _ in 0..3 {
        let (dying, other) = (t.open()?, t.open()?);
        t.act(&dying, &json!([["complete"], ["exit", 0]]))?;
        let mut inputs = Vec::new();
        for session in [&dying, &other] {
            inputs.push((session, t.input(session, text.as_str())?));
        }
        for (session, from) in inputs {
            t.end_of(session, from)?;
        }
    }
    Ok(())
}

fn begun_anew(t: &mut Trial<'_>) -> Outcome {
    let (closed, s) = (t.open()?, t.open()?);
    t.act(&closed, &json!([["complete"]]))?;
    t.act(&s, &json!([["complete"]]))?;
    let (before, before_closed) = (t.lower(&s)?, t.lower(&closed)?);
    let from = t.close(&closed)?;
    t.expect_told(from, &before_closed, "session.close", t.bounds.patience)?;
    t.act(&s, &json!([["say", "last words"], ["abort"]]))?;
    let turn = t.act(&s, &json!([["say", "anew"], ["complete"]]))?;
    demand_answer(t, &turn, "anew")?;
    let after = t.lower(&s)?;
    t.demand(after.process != before.process, "a new process", "the one that died")?;
    let mut begun = HashSet::new();
    let told = |below: &Below| below.by == Side::Host && below.process == after.process;
    for below in t.below().into_iter().filter(told).filter(|below| !below.seen.session().is_empty()) {
        let (id, kind) = (below.seen.session().to_owned(), below.seen.kind().to_owned());
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

fn no_storm(t: &mut Trial<'_>) -> Outcome {
    const MOST: usize = 10;
    t.stub_script(&json!({"at_start":[["exit", 3]]}))?;
    let s = t.open()?;
    let mut inputs = Vec::new();
    for round in 0..30 {
        inputs.push(t.input(&s, format!("input {round}"))?);
        t.pass_time(Duration::from_millis(150));
        let starts = t.stub_processes().len();
        t.demand(starts <= MOST, format!("at most {MOST} starts in 4.5 s"), format!("{starts}"))
            .hint("restarts want back-off, and an end after some of them")?;
    }
    for from in inputs {
        let turn = t.end_within(&s, from, t.bounds.secs(10.0))?;
        demand_answer(t, &turn, "")?;
    }
    let told = t.of(&s).iter().any(|seen| seen.text("channel") == "system");
    t.demand(told, "the hub is told why, on channel `system`", "it is not")
}

fn slow_start(t: &mut Trial<'_>) -> Outcome {
    t.stub_script(&json!({"starts":[{"at_start":[["delay", 4_000]]}]}))?;
    let s = t.open()?;
    let from = t.instruct(&s, &json!([["say", "awake"], ["complete"]]))?;
    let turn = t.end_within(&s, from, t.bounds.secs(4.0) + t.bounds.patience)?;
    demand_answer(t, &turn, "awake").hint("a start may take long: package launchers download")
}

fn other_undisturbed(t: &mut Trial<'_>) -> Outcome {
    let first = t.open()?;
    t.act(&first, &json!([["complete"]]))?;
    let second = t.open_offering(&["options"], &json!({"agent_id":"second"}))?;
    t.act(&second, &json!([["complete"]]))?;
    let (lower, other) = (t.lower(&first)?, t.lower(&second)?);
    if lower.process == other.process {
        return t.fail("two processes: the session asks for `agent_id` \"second\"", "one");
    }
    let from =
        t.instruct(&second, &json!([["say", "one "], ["delay", 1_500], ["say", "two"], ["complete"]]))?;
    t.expect(from, &second, "output", t.bounds.patience)?;
    t.act(&first, &json!([["say", "last words"], ["abort"]]))?;
    let turn = t.end_of(&second, from)?;
    demand_answer(t, &turn, "one two").hint("the end of one adapter ends turns of the other")?;
    let told = turn.on_channel("system");
    t.demand(told.is_empty(), "nothing on channel `system` of the other", super::shown(&told))?;
    let turn = t.act(&second, &json!([["say", "still"], ["complete"]]))?;
    demand_answer(t, &turn, "still")?;
    t.demand(t.lower(&second)? == other, "the same process and session", "another")
}

fn host_killed(t: &mut Trial<'_>) -> Outcome {
    let mut sessions = vec![t.open()?, t.open()?];
    if t.subject.lacks(&[Need::SecondAdapter, Need::Extension("options")]).is_none() {
        // A later child may hold a copy of an earlier one's pipe.
        sessions.push(t.open_offering(&["options"], &json!({"agent_id":"second"}))?);
    }
    for s in &sessions {
        t.act(s, &json!([["complete"]]))?;
    }
    let processes = t.stub_processes();
    t.demand(!processes.is_empty(), "an adapter", "none was started")?;
    t.with_process(|process| process.signal(Signal::KILL))?;
    t.exit_within(Duration::from_secs(5))?;
    demand_gone(t, &processes, t.bounds.secs(5.0))
        .hint("another process seems to hold a copy of the adapter's stdin: close descriptors on exec")
}
