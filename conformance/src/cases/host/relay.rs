//! H-RLY: what a host is as a relay.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use rustix::process::Signal;

use super::{demand_unheard, full_hub};
use crate::{cases::prelude::*, history::Record};

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-RLY-13", report_refusals),
    ("H-RLY-14", refused_in_the_core),
    ("H-RLY-23", share_pipe_fairly),
    ("H-RLY-24", much_held),
    ("H-RLY-28", withhold_environment),
    ("H-RLY-29", offer_private_folders),
    ("H-RLY-30", copy_files),
    ("H-RLY-19", end_of_stdin),
    ("H-RLY-20", end_by_sigterm),
    ("H-RLY-21", broken_stdout),
    ("H-RLY-22", adapter_stays),
];

fn error_of(
    t: &Trial,
    s: &Session,
    from: usize,
    category: &str,
    within: std::time::Duration,
) -> Outcome<Seen> {
    let wanted = |seen: &Seen| seen.is_of(s, "error") && seen.text("category") == category;
    match t.wait(from, within, wanted) {
        None => t.late(
            format!("`error` with `{category}` within {within:.1?}"),
            t.what_came(from, s),
        ),
        Some(seen) if seen.get("fatal") == Some(&Value::Bool(true)) => {
            t.fail("`fatal: false`", "`fatal: true`")
        }
        Some(seen) if seen.text("message").is_empty() => t.fail("an error with a text", "no text"),
        Some(seen) => Ok(seen),
    }
}

/// A file that is not there, a message without its content, and a line that is too long, each
/// naming the session.
fn refusals(t: &Trial) -> [(&'static str, Value); 3] {
    let bad = "{\"type\":\"output\",\"session_id\":\"{session_id}\",\"content\":7}\n";
    let long = t.subject.limits.max_line + (1 << 20);
    [
        (
            "file_refused",
            json!([
                ["file_at", "{tmpdir}/not-there", "x.txt", "text/plain"],
                ["complete"]
            ]),
        ),
        ("protocol", json!([["raw", bad], ["complete"]])),
        (
            "oversize",
            json!([["endless", long], ["raw", "\"}\n"], ["complete"]]),
        ),
    ]
}

fn report_refusals(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, &["turns"])?;
    for (category, actions) in refusals(t) {
        let from = t.instruct(&s, &actions)?;
        t.end_within(&s, from, t.bounds.secs(20.0))?;
        let told = error_of(t, &s, from, category, t.bounds.deadline);
        // A host whose limit is higher delivers the line.
        let delivered = |seen: &Seen| {
            seen.session() == s.id() && seen.text("content").len() > t.subject.limits.max_line
        };
        if category == "oversize"
            && told.is_err()
            && t.wait(from, t.bounds.quiet, delivered).is_some()
        {
            t.note("its limit is higher than what it declares");
            continue;
        }
        match category {
            "file_refused" => told.under("file.4")?,
            _ => told?,
        };
    }
    t.settle()
}

/// Lines that must leave no trace.
fn noises(token: &str) -> Value {
    let unknown = json!({"type":"output","session_id":"never-opened","content":token});
    json!([
        ["raw", format!("{token}\n[\"{token}\"]\n\"{token}\"\n{{\"type\":\"output\",\"session_id\":\"{{session_id}}\",\"content\":\"{token}\n")],
        ["raw64", "/////wo="],
        ["emit", unknown],
        ["emit", {"type":"of.no one","content":token}],
        ["emit", {"type":"turn.complete","session_id":"never-opened"}],
        ["say", "mine"],
        ["complete"]
    ])
}

/// Has the adapter write lines that must leave no trace, and demands that none does.
pub(in crate::cases) fn demand_noise_ignored(t: &mut Trial, s: &Session) -> Outcome {
    let known = t.history.len();
    let token = t.token();
    let turn = t.act(s, &noises(&token))?;
    t.demand_text(&turn, "mine")?;
    t.settle()?;
    demand_unheard(t, &token)?;
    t.demand_no_strangers()?;
    demand_no_report(t, s, known)
}

/// Demands that nothing was reported since a place. Messages of a relay about its work or its use
/// are not reports.
fn demand_no_report(t: &Trial, s: &Session, from: usize) -> Outcome {
    let report = t.since(from, s).into_iter().find(|seen| {
        let beside = seen.kind() == "output" && !matches!(seen.text("channel"), "" | "stdout");
        beside || matches!(seen.kind(), "error" | "log")
    });
    match report {
        None => Ok(()),
        Some(seen) => {
            let text = format!("{}{}", seen.text("content"), seen.text("message"));
            t.fail(
                "nothing of it on the wire",
                format!("`{}`: {text:?}", seen.kind()),
            )
        }
    }
}

fn system(s: &Session) -> impl Fn(&Seen) -> bool {
    let id = s.id().to_owned();
    move |seen| {
        seen.session() == id
            && seen.is_with("output", "channel", "system")
            && !seen.text("content").is_empty()
    }
}

fn refused_in_the_core(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    for (category, actions) in refusals(t) {
        let from = t.instruct(&s, &actions)?;
        t.end_within(&s, from, t.bounds.secs(20.0))?;
        let limit = t.subject.limits.max_line;
        let told = system(&s);
        let delivered = |seen: &Seen| {
            category == "oversize" && seen.session() == s.id() && seen.text("content").len() > limit
        };
        if t.wait(from, t.bounds.deadline, |seen| {
            told(seen) || delivered(seen)
        })
        .is_none()
        {
            return t.late(
                format!("`output` on `system`: {category}"),
                t.what_came(from, &s),
            );
        }
    }
    t.settle()
}

/// Opens a session, names it to the stub, and pauses it.
fn paused(t: &mut Trial) -> Outcome<Session> {
    let s = full_hub::open(t)?;
    t.introduce(&s)?;
    t.tell(&s, "flow.pause", &json!({}))?;
    // The answer of another session shows that the pause was read.
    t.settle()?;
    Ok(s)
}

fn share_pipe_fairly(t: &mut Trial) -> Outcome {
    const EACH: usize = 4 << 20;
    let (long, short, third) = (t.open_known()?, t.open_known()?, t.open_known()?);
    // This waits for what the stub has logged of the turns before.
    let lowers = [t.lower(&long)?, t.lower(&short)?];
    let lower_third = t.lower(&third)?;
    t.with_process(|process| process.pause_reading(true))?;
    let begun = [
        t.instruct(&long, &json!([["flood", EACH, 32 << 10], ["complete"]]))?,
        t.instruct(&short, &json!([["flood", EACH, 512], ["complete"]]))?,
    ];
    for lower in lowers {
        // A host may read no more than it can hold; then less waits, and this takes its time.
        t.wait_written(begun[0], &lower, "turn.complete", t.bounds.secs(2.0));
    }
    let token = t.token();
    let from = t.instruct(&third, &say_and_complete(&token))?;
    t.wait_written(from, &lower_third, "turn.complete", t.bounds.secs(2.0));
    t.pass_time(t.quiet().max(t.bounds.turn * 10));
    let resumed = t.history.len();
    t.with_process(|process| process.pause_reading(false))?;
    for (s, from) in [(&third, from), (&long, begun[0]), (&short, begun[1])] {
        t.end_within(s, from, t.bounds.secs(20.0))?;
    }
    let (mut all, mut of_long, mut of_short) = (0, 0, 0);
    let (mut before_token, mut when_long_ended) = (None, None);
    t.history.scan(resumed, |_, record| {
        let (Link::Upper, Event::Adapter { bytes, .. }, Some(message)) =
            (record.link, &record.event, record.adapter_message())
        else {
            return None::<()>;
        };
        let id = wire::session(message);
        if id == third.id() {
            before_token.get_or_insert(all);
        }
        all += bytes.len();
        if id == long.id() {
            of_long += bytes.len();
            if wire::kind(message) == "turn.complete" {
                when_long_ended.get_or_insert(of_short);
            }
        }
        if id == short.id() {
            of_short += bytes.len();
        }
        None::<()>
    });
    let before = before_token.unwrap_or(all);
    t.demand(
        before <= 2 << 20,
        "the word of the third session within the first 2 MiB",
        format!("after {before} bytes"),
    )?;
    // Lines of 512 bytes take some 100 more on the wire, so the short ones have more to send.
    let share = when_long_ended.unwrap_or_default();
    t.demand(
        share >= EACH / 3,
        "the session of short lines has had a third of its bytes when that of long ones is done",
        format!("{share} bytes"),
    )
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

fn copy_files(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let turn = t.act(
        &s,
        &json!([["file", "x.bin", "application/x-test", 5000], ["complete"]]),
    )?;
    let Some(file) = turn
        .messages
        .iter()
        .find(|seen| seen.kind() == "file.output")
    else {
        return t.fail("a `file.output`", t.what_came(turn.end.index, &s));
    };
    let announced = PathBuf::from(file.text("file_path"));
    let written = t
        .logged("file")
        .into_iter()
        .map(|(_, file)| file)
        .next()
        .unwrap_or_default();
    let original = PathBuf::from(written["path"].as_str().unwrap_or_default());
    let inode = |path: &Path| fs::metadata(path).ok().map(|meta| (meta.dev(), meta.ino()));
    let copy = inode(&announced);
    t.demand(
        copy.is_some(),
        "a path that the hub can open",
        format!("{announced:?}"),
    )?;
    t.demand(copy != inode(&original), "a copy", "the adapter's own file")?;
    let before = fs::read(&announced)?;
    t.act(&s, &json!([["write_file", original, 7], ["complete"]]))?;
    let after = fs::read(&announced).unwrap_or_default();
    t.demand(
        before.len() == 5000 && before == after,
        "a content that stays",
        format!("{} bytes, then {}", before.len(), after.len()),
    )?;

    if !t.subject.abilities.contains(&Ability::FilesIn) {
        return Ok(());
    }
    let mine = t.path("mine.txt");
    fs::write(&mine, "mine\n")?;
    t.announce(&s, "mine.txt", "text/plain", &mine)?;
    t.introduce(&s)?;
    let lower = t.lower(&s)?;
    let told = full_hub::demand_delivered(t, &lower, "file.input", 1)?.remove(0);
    let given = PathBuf::from(told.text("file_path"));
    let content = fs::read(&given).unwrap_or_default();
    t.demand(
        content == b"mine\n",
        "the content of the hub's file",
        format!("{} bytes", content.len()),
    )?;
    if let Some(exchange) = exchange_dir(t, &lower) {
        let inside = match (given.canonicalize(), exchange.canonicalize()) {
            (Ok(given), Ok(exchange)) => given.starts_with(exchange),
            _ => false,
        };
        t.demand(
            inside,
            format!("a file in {exchange:?}"),
            Value::from(told.text("file_path")),
        )?;
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
