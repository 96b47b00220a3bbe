//! H-RLY and H-EXT: what a host is as a relay, and what it does with extensions.

use std::{
    cell::RefCell,
    collections::HashMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use rustix::process::Signal;

use super::full_hub;
use crate::{cases::prelude::*, history::Record};

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-EXT-06", late_output),
    ("H-RLY-24", much_held),
    ("H-RLY-28", withhold_environment),
    ("H-RLY-29", offer_private_folders),
    ("H-RLY-19", end_of_stdin),
    ("H-RLY-20", end_by_sigterm),
    ("H-RLY-21", broken_stdout),
    ("H-RLY-22", adapter_stays),
];

/// Opens a session, names it to the stub, and pauses it.
fn paused(t: &mut Trial) -> Outcome<Session> {
    let s = full_hub::open(t)?;
    t.introduce(&s)?;
    t.tell(&s, "flow.pause", &json!({}))?;
    // The answer of another session shows that the pause was read.
    t.settle()?;
    Ok(s)
}

/// The byte at a place of a flood: each piece begins with its number in eight digits.
fn byte_of_flood(place: usize, piece: usize) -> u8 {
    let (number, within) = (place / piece + 1, place % piece);
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
    let (other, third) = (t.open_known()?, t.open_known()?);
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
    let (mut bytes, mut ordered) = (0, true);
    t.history.scan(resumed, |_, record| {
        let message = record
            .adapter_message()
            .filter(|_| record.link == Link::Upper)?;
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

/// The permissions of a folder for others than its owner.
fn open_to_others(folder: &Path) -> Option<u32> {
    let meta = fs::metadata(folder).ok().filter(fs::Metadata::is_dir)?;
    Some(meta.permissions().mode() & 0o077)
}

/// Returns the folder for a session's files, if the host names one.
fn exchange_dir(t: &Trial, lower: &crate::trial::Lower) -> Option<PathBuf> {
    let start = t.told(lower, "session.start");
    let dir = start.first()?.text("exchange_dir").to_owned();
    (!dir.is_empty()).then(|| PathBuf::from(dir))
}

fn offer_private_folders(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &["turns", "options"])?;
    let s = t.open()?;
    t.act(&s, &json!([["env"], ["complete"]]))?;
    let lower = t.lower(&s)?;
    let values = t
        .logged("env")
        .into_iter()
        .map(|(_, env)| env["values"].clone())
        .next()
        .unwrap_or_default();
    let tmp = PathBuf::from(values["TMPDIR"].as_str().unwrap_or_default());
    t.demand(
        tmp.is_absolute() && tmp.is_dir(),
        "a TMPDIR that is there",
        format!("{tmp:?}"),
    )?;
    let own = t.path("tmp");
    t.demand(
        tmp != own && tmp != Path::new("/tmp"),
        "a TMPDIR of the process's own",
        format!("{tmp:?}"),
    )?;
    // It may be in a folder that is private itself.
    let above = tmp.ancestors().take_while(|folder| *folder != t.folder());
    let private = above
        .into_iter()
        .any(|folder| open_to_others(folder) == Some(0));
    t.demand(
        private,
        "a TMPDIR that no one else enters",
        format!("{:?}", open_to_others(&tmp)),
    )?;
    let exchange = exchange_dir(t, &lower);
    let mut places = vec!["tmpdir"];
    if let Some(exchange) = &exchange {
        let mode = open_to_others(exchange);
        t.demand(
            exchange.is_absolute() && mode == Some(0),
            "an exchange folder with mode 0700",
            format!("{exchange:?}, open to others: {mode:?}"),
        )?;
        places.push("exchange_dir");
    } else if full_hub::demand_offer(t, &lower, "options").is_ok() {
        return t.fail(
            "`exchange_dir` in `session.start`, where `options` is offered",
            "none",
        );
    }
    for place in places {
        let turn = t.act(
            &s,
            &json!([
                ["file", "x.bin", "application/x-test", 1000, place],
                ["complete"]
            ]),
        )?;
        let taken = turn
            .messages
            .iter()
            .any(|seen| seen.kind() == "file.output");
        t.demand(
            taken,
            format!("a file from {place} is taken"),
            t.what_came(turn.end.index, &s),
        )?;
    }
    t.close(&s)?;
    t.settle()?;
    if let Some(exchange) = exchange {
        let deadline = Instant::now() + t.bounds.deadline;
        while exchange.exists() && Instant::now() < deadline {
            t.pass_time(Duration::from_millis(20));
        }
        if exchange.exists() {
            return t.late(
                "the exchange folder is removed after the close",
                "it is there",
            );
        }
    }
    Ok(())
}

/// Tolerance of a stated bound: for the runner's own start of the clock, and the scheduling of many
/// processes.
const SLACK: Duration = Duration::from_millis(500);

/// Sessions of both kinds of hub with a turn in each.
fn busy(t: &mut Trial) -> Outcome<Vec<Session>> {
    full_hub::agreeing(t, &["turns"])?;
    let core = t.open()?;
    t.begin_busy(&core)?;
    let mut sessions = vec![core];
    if t.subject.extensions.contains("turns") {
        let s = full_hub::open(t)?;
        t.begin_busy(&s)?;
        sessions.push(s);
    }
    Ok(sessions)
}

/// Demands that it ends in time, with status 0, and leaves nothing behind.
fn demand_gone(t: &mut Trial, began: Instant) -> Outcome {
    let within = (t.bounds.secs(4.0) + SLACK).saturating_sub(began.elapsed());
    let exit = t.exit_within(within)?;
    let text = t.exit_text().unwrap_or_default();
    t.demand(exit.code == Some(0), "an end with status 0", text)?;
    let ended = |_, record: &Record| {
        (record.link == Link::Upper && matches!(record.event, Event::StdoutEnded)).then_some(())
    };
    t.history.wait(0, t.bounds.secs(1.0), ended);
    let left = t.left_behind();
    t.demand(left.is_empty(), "no process left behind", left.join(", "))
        .under("process.2")
}

fn demand_ended(t: &Trial, sessions: &[Session]) -> Outcome {
    for s in sessions {
        let all = t.of(s);
        let ends: Vec<_> = all
            .iter()
            .filter(|seen| seen.kind() == "turn.complete")
            .collect();
        t.demand(
            ends.len() == 1,
            format!("one `turn.complete` for {}", s.id()),
            ends.len(),
        )?;
        let ready = all.iter().any(|seen| seen.kind() == "session.ready");
        if ready {
            let (status, reason) = (ends[0].text("status"), ends[0].text("stop_reason"));
            t.demand(
                status == "stopped" && reason == "shutdown",
                "status `stopped` with reason `shutdown`",
                format!("{status:?}, {reason:?}"),
            )?;
        }
        full_hub::demand_delivered(t, &t.lower(s)?, "session.close", 1)?;
    }
    Ok(())
}

fn end_of_stdin(t: &mut Trial) -> Outcome {
    let sessions = busy(t)?;
    let began = Instant::now();
    t.close_stdin()?;
    demand_gone(t, began)?;
    demand_ended(t, &sessions)?;
    let closed = |_, record: &Record| {
        (matches!(record.link, Link::Lower(_)) && matches!(record.event, Event::StdinClosed))
            .then_some(())
    };
    let closed = t.history.wait(0, t.bounds.secs(1.0), closed).is_some();
    t.demand(closed, "the adapter's stdin is closed", "it is not")
        .under("process.2")
}

fn end_by_sigterm(t: &mut Trial) -> Outcome {
    let sessions = busy(t)?;
    let began = Instant::now();
    t.with_process(|process| process.signal(Signal::TERM))?;
    demand_gone(t, began)?;
    demand_ended(t, &sessions)
}

fn broken_stdout(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.begin(
        &s,
        &json!([
            ["repeat", 400, [["say", "tick"], ["delay", 20]]],
            ["complete"]
        ]),
    )?;
    t.with_process(crate::process::Process::close_stdout)?;
    demand_gone(t, Instant::now())
}

fn adapter_stays(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"at_start":[["ignore_eof"], ["ignore_term"]]}))?;
    let s = t.open()?;
    t.begin(&s, &json!([["ignore_stop"], ["say", "busy"]]))?;
    let began = Instant::now();
    t.close_stdin()?;
    demand_gone(t, began)
}

fn late_output(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns"])?;
    let (from, first) = full_hub::instruct_named(t, &s, &json!([["complete"]]))?;
    t.end_of(&s, from)?;
    let lower = t.lower(&s)?;
    full_hub::demand_offer(t, &lower, "turns")?;
    let below = t
        .told(&lower, "user.input")
        .first()
        .map(|seen| seen.text("turn_id").to_owned());
    let token = t.token();
    let (from, second) = full_hub::instruct_named(
        t,
        &s,
        &json!([
            ["say", "mine"],
            ["emit", {"type":"output","turn_id":below,"content":token}],
            ["say", "too"],
            ["complete"]
        ]),
    )?;
    t.end_of(&s, from)?;
    // The host may cut it; its pieces are of one turn.
    let said = RefCell::new(HashMap::<String, String>::new());
    let late = |seen: &Seen| {
        let mut said = said.borrow_mut();
        let text = said.entry(seen.text("turn_id").to_owned()).or_default();
        if seen.session() == s.id() {
            text.push_str(seen.on_channel("stdout"));
        }
        text.contains(&token)
    };
    let Some(late) = t.wait(from, t.bounds.deadline, late) else {
        return t.late("the late output is delivered", "it is not");
    };
    let of = late.text("turn_id").to_owned();
    t.demand(
        of.is_empty() || of == first,
        format!("the late output is of {first}, or of no turn"),
        format!("it is of {of}"),
    )?;
    for seen in t
        .of(&s)
        .into_iter()
        .filter(|seen| matches!(seen.text("content"), "mine" | "too"))
    {
        let of = seen.text("turn_id").to_owned();
        t.demand(
            of == second,
            format!("what the second turn says is of {second}"),
            format!("of {of:?}"),
        )?;
    }
    Ok(())
}
