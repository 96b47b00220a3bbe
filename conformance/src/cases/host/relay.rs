//! H-RLY and H-LIF: what a host is as a relay, and the life of its adapters' processes.

use super::full_hub;
use crate::{
    cases::prelude::*,
    process::{descendants, usage_of},
};

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-LIF-04", no_such_program),
    ("H-LIF-08", orderly_end),
    ("H-LIF-10", crash_after_crash),
    ("H-RLY-24", much_held),
    ("H-RLY-28", withhold_environment),
];

/// Opens a session, names it to the stub, and pauses it.
fn paused(t: &mut Trial) -> Outcome<CaseSession> {
    let s = full_hub::open_with(t, &json!({}))?;
    t.introduce(&s)?;
    t.tell(&s, "flow.pause", &json!({}))?;
    // The answer of another session shows that the pause was read.
    t.settle()?;
    Ok(s)
}

/// The byte at a place of a flood: each piece begins with its number in eight digits.
fn byte_of_flood(place: usize, piece: usize) -> u8 {
    let number = place / piece + 1;
    let within = place % piece;
    let digit = 7_u32.checked_sub(u32::try_from(within).unwrap_or(u32::MAX));
    digit.map_or(b'x', |digit| {
        b'0' + u8::try_from(number / 10_usize.pow(digit) % 10).unwrap_or_default()
    })
}

fn much_held(t: &mut Trial) -> Outcome {
    const HELD: usize = 66 << 20;
    const PIECE: usize = 65_536;
    const ROOM: u64 = 40 << 20;
    full_hub::agreeing(t, &["turns"])?;
    let other = t.open_known()?;
    let third = t.open_known()?;
    let s = paused(t)?;
    let before = t.usage()?.resident;
    let lower = t.lower(&s)?;
    let from = t.history.len();
    full_hub::act_in(
        t,
        &other,
        &s,
        &json!([["flood", HELD, PIECE], ["emit", {"type":"working"}]]),
    )?;
    // The stub's own flood precedes its answer in the one pipe.
    let served = t.instruct(&third, &say_and_complete("served"))?;
    let turn = t.end_within(&third, served, t.bounds.secs(20.0))?;
    t.demand_text(&turn, "served")?;
    full_hub::expect_written(t, from, &lower, "working")?;
    t.demand_served(&third, "again")?;
    t.demand_silence(&s, from, "nothing of a session that is paused")?;
    let grown = t.usage()?.resident.saturating_sub(before);
    t.demand(
        grown < ROOM,
        format!("memory grows by less than {ROOM} bytes"),
        grown,
    )?;
    let resumed = t.tell(&s, "flow.resume", &json!({}))?;
    let from = t.instruct(&s, &json!([["complete"]]))?;
    t.end_of_burst(&s, from)?;
    let mut bytes = 0;
    let mut ordered = true;
    t.history.scan(resumed, |_, record| {
        let message = record
            .adapter_message()
            .filter(|_| record.link == PipePair::Upper)?;
        if wire::session(message) == s.id() && wire::kind(message) == "output" {
            // The relay may cut and join what it holds: each byte has its place in the whole.
            let content = wire::text(message, "content").as_bytes();
            ordered &= (bytes..)
                .zip(content)
                .all(|(place, byte)| *byte == byte_of_flood(place, PIECE));
            bytes += content.len();
        }
        None::<()>
    });
    t.demand(
        bytes == HELD && ordered,
        format!("{HELD} bytes in order"),
        format!("{bytes} bytes, ordered: {ordered}"),
    )
}

/// A variable that a host has without any configuration.
const UNASKED: &str = "CONFORMANCE_UNASKED";

fn withhold_environment(t: &mut Trial) -> Outcome {
    let mut launch = t.launch();
    launch.env.push((UNASKED.to_owned(), "1".to_owned()));
    t.start_with(&launch)?;
    t.open_known()?;
    t.settle()?;
    for (_, start) in t.logged("start") {
        let names = start["env"].as_array().cloned().unwrap_or_default();
        let passed = names
            .iter()
            .any(|name| *name == UNASKED || *name == crate::process::MARK);
        t.demand(
            !passed,
            "a variable of the host's own is not passed on",
            "it is",
        )?;
        let path = names.iter().any(|name| name == "PATH") || std::env::var_os("PATH").is_none();
        t.demand(path, "PATH is passed on", "it is not")?;
    }
    Ok(())
}

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
                    "an end with a status that names it",
                    "status 0",
                )
            }
            None => Err(late),
        },
    }
}

fn crash_after_crash(t: &mut Trial) -> Outcome {
    const CRASHES: usize = 12;
    let group = t.with_process(crate::process::Process::pid)?;
    let s = t.open_known()?;
    t.settle()?;
    let children = descendants(group).len();
    let descriptors = usage_of(group).descriptors;
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
    let idle = t.open_known()?;
    let busy = t.open()?;
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
        let on_link = |wanted: fn(&RecordedEvent) -> bool| {
            t.history.scan(0, |_, record| {
                (record.link == PipePair::Lower(lower.process) && wanted(&record.event))
                    .then_some(record.at)
            })
        };
        let Some(ended) = on_link(|event| matches!(event, RecordedEvent::StdinClosed)) else {
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
            on_link(|event| matches!(event, RecordedEvent::Exited { code: Some(_), .. })).is_some();
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
