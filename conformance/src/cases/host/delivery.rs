//! H-FRM, H-SES, H-TRN and H-FLW: lines as adapters really write them, sessions that are kept apart, turns
//! that end once, and pipes that are full.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use super::demand_unheard;
use crate::{
    cases::{corpus, prelude::*},
    process::usage_of,
};

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-SES-11", similar_ids),
    ("H-FRM-07", malformed_lines),
    ("H-FRM-08", not_utf8),
    ("H-FRM-10", long_lines),
    ("H-FRM-11", very_long_line),
    ("H-FRM-12", endless_line),
    ("H-FLW-05", bound_memory),
    ("H-FLW-06", deliver_ticks_in_time),
];

fn malformed_lines(t: &mut Trial) -> Outcome {
    let lines = corpus::malformed("{session_id}");
    let mut actions: Vec<Value> = Vec::new();
    let mut wanted = String::new();
    for (n, line) in lines.iter().enumerate() {
        match std::str::from_utf8(&line.bytes) {
            Ok(text) => {
                // As an adapter would write them.
                let text = text
                    .replace("user.input", "output")
                    .replace("\"stop\"", "\"turn.complete\"");
                actions.push(json!(["raw", text + "\n"]));
            }
            Err(_) => actions.push(json!([
                "raw64",
                BASE64.encode([&line.bytes[..], b"\n"].concat())
            ])),
        }
        actions.push(json!(["say", format!("after {n} ({}); ", line.name)]));
        wanted.push_str(&format!("after {n} ({}); ", line.name));
    }
    t.stub_script(&json!({"lists":{"corpus":actions}}))?;
    let s = t.open()?;
    t.demand_answer(&s, &json!([["do", "corpus"], ["complete"]]), &wanted)?;
    t.demand_ends(&s, 1)
}

fn not_utf8(t: &mut Trial) -> Outcome {
    let s = t.open_known()?;
    let id = t.lower(&s)?.id;
    let mut line =
        format!("{{\"type\":\"output\",\"session_id\":\"{id}\",\"content\":\"bad ").into_bytes();
    line.extend_from_slice(b"\xff\"}\n");
    t.demand_answer(
        &s,
        &json!([
            ["raw64", BASE64.encode(line)],
            ["say", "good"],
            ["complete"]
        ]),
        "good",
    )
}

/// The actions that write output lines of these lengths, given the session's id below.
fn lines_of(id: &str, lengths: &[usize]) -> Vec<Value> {
    let empty = json!({"type":"output","session_id":id,"content":""})
        .to_string()
        .len();
    lengths
        .iter()
        .map(|length| json!(["burst", 1, length - empty]))
        .collect()
}

fn long_lines(t: &mut Trial) -> Outcome {
    deliver_lines(t, &[65_535, 65_536, 65_537, (1 << 20) - 1, 1 << 20])
}

fn very_long_line(t: &mut Trial) -> Outcome {
    deliver_lines(t, &[16 << 20])
}

fn deliver_lines(t: &mut Trial, lengths: &[usize]) -> Outcome {
    let s = t.open_known()?;
    let id = t.lower(&s)?.id;
    for (length, line) in lengths.iter().zip(lines_of(&id, lengths)) {
        let size = line[2].as_u64().unwrap_or_default();
        let turn = t.act(&s, &json!([line, ["complete"]]))?;
        let text = turn.text();
        let whole = text.len() as u64 == size
            && text.starts_with("00000001")
            && text[8..].bytes().all(|byte| byte == b'x');
        let expected = format!("the text of a line of {length} bytes, {size} bytes long");
        t.demand(whole, expected, super::shown(&text))?;
    }
    Ok(())
}

fn endless_line(t: &mut Trial) -> Outcome {
    const LENGTH: u64 = 256 << 20;
    let noisy = t.open_known()?;
    let other = t.open_known()?;
    let group = t.with_process(|process| process.pid())?;
    let before = usage_of(group).resident;
    let from = t.instruct(
        &noisy,
        &json!([["endless", LENGTH], ["raw", "\n"], ["complete"]]),
    )?;
    t.wait_logged(from, t.bounds.deadline, |act| act["name"] == "endless");
    let lower = t.lower(&other)?;
    let sent = t.input(&other, "meanwhile")?;
    t.expect_told_within(sent, &lower, "user.input", t.bounds.secs(2.0))?;
    let mut most = before;
    let limit = 4 * t.subject.limits.max_line as u64 + (64 << 20);
    let done = |t: &Trial| t.count(&noisy, "turn.complete") > 1;
    for _ in 0..400 {
        most = most.max(usage_of(group).resident);
        if done(t) || most.saturating_sub(before) > limit {
            break;
        }
        t.pass_time(Duration::from_millis(25));
    }
    let grew = most.saturating_sub(before) >> 20;
    t.demand(
        most.saturating_sub(before) <= limit,
        format!("at most {} MiB more memory", limit >> 20),
        format!("{grew} MiB"),
    )?;
    t.end_of(&noisy, from)?;
    Ok(())
}

fn similar_ids(t: &mut Trial) -> Outcome {
    let s = t.open_as("Session-aB-\u{e9}")?;
    t.introduce(&s)?;
    let id = t.lower(&s)?.id;
    let token = t.token();
    let swapped: String = id
        .chars()
        .map(|c| {
            if c.is_ascii_lowercase() {
                c.to_ascii_uppercase()
            } else {
                c.to_ascii_lowercase()
            }
        })
        .collect();
    let cut: String = id.chars().take(id.chars().count() - 1).collect();
    let similar = [
        format!("{id} "),
        format!(" {id}"),
        format!("{id}\0"),
        format!("{id}\n"),
        cut,
        swapped,
        id.replace('\u{e9}', "e\u{301}"),
    ];
    let mut actions = Vec::new();
    for other in similar.iter().filter(|other| **other != id) {
        actions.push(json!(["session", other, [["say", token], ["complete"]]]));
    }
    actions.push(json!(["say", "mine"]));
    actions.push(json!(["complete"]));
    t.demand_answer(&s, &json!(actions), "mine")?;
    t.settle()?;
    demand_unheard(t, &token)?;
    t.demand_ends_now(&s, 2)
}

/// A turn of a session that must not be held up.
fn prompt_turn(t: &mut Trial, s: &CaseSession, hint: &str) -> Outcome {
    let from = t.instruct(s, &say_and_complete("served"))?;
    t.expect_within(from, s, "output", t.bounds.secs(2.0))
        .hint(hint)?;
    t.demand_end(s, from, "served")
}

/// Opens a session that can be paused, and pauses it.
fn open_paused(t: &mut Trial) -> Outcome<CaseSession> {
    let s = t.open_offering(&["flow"], &json!({}))?;
    t.expect(0, &s, "session.ready").under("relay.8")?;
    t.introduce(&s)?;
    t.tell(&s, "flow.pause", &json!({}))?;
    // What is in the pipe already may still come.
    t.settle()?;
    Ok(s)
}

fn bound_memory(t: &mut Trial) -> Outcome {
    const FLOOD: u64 = 256 << 20;
    const MOST: u64 = 128 << 20;
    let other = t.open_known()?;
    let s = open_paused(t)?;
    let group = t.with_process(crate::process::Process::pid)?;
    let before = usage_of(group).resident;
    let from = t.instruct(&s, &json!([["flood", FLOOD, 65_536], ["pid"]]))?;
    let deadline = Instant::now() + t.bounds.secs(6.0);
    let mut most = 0;
    loop {
        most = most.max(usage_of(group).resident.saturating_sub(before));
        // A host may also stop reading, and the adapter with it.
        let done = t
            .wait_logged(from, Duration::from_millis(20), |act| act["ev"] == "pid")
            .is_some();
        if done || most > MOST || Instant::now() > deadline {
            break;
        }
    }
    most = most.max(usage_of(group).resident.saturating_sub(before));
    t.demand(
        most <= MOST,
        format!("at most {} MiB more memory", MOST >> 20),
        format!("{} MiB", most >> 20),
    )
    .hint("what a paused session holds belongs on disk, or stays with the adapter")?;
    prompt_turn(t, &other, "a flood into a paused session holds up another")?;
    t.close(&s)?;
    Ok(())
}

fn deliver_ticks_in_time(t: &mut Trial) -> Outcome {
    const FLOOD: u64 = 40 << 20;
    const WORDS: usize = 25;
    const WORD: &str = "word ";
    let flood = t.open_known()?;
    let tick = t.open_known()?;
    let from_flood = t.instruct(&flood, &json!([["flood", FLOOD, 16_384], ["complete"]]))?;
    let words = json!([
        ["repeat", WORDS, [["say", WORD], ["delay", 100]]],
        ["complete"]
    ]);
    let from_tick = t.instruct(&tick, &words)?;
    read_slowly(t, from_flood, &tick)?;
    let turn = t.end_of(&tick, from_tick)?;
    let came = turn.messages;
    let lower = t.lower(&tick)?;
    t.end_of_burst(&flood, from_flood)?;
    // The nth word below is the nth above: O-DELIVER judges that.
    let said = t.below_of(&lower).into_iter();
    let said = said.filter(|below| below.by == Side::Adapter && below.seen.text("content") == WORD);
    // A host may join words or cut them: a word has come when the text is long enough.
    let mut length = 0;
    let came = came.iter().flat_map(|seen| {
        let before = length / WORD.len();
        length += seen.on_channel("stdout").len();
        std::iter::repeat_n(seen.at, length / WORD.len() - before)
    });
    let mut lags: Vec<Duration> = said
        .zip(came)
        .map(|(said, came)| came.saturating_sub(said.seen.at))
        .collect();
    lags.sort_unstable();
    let within = t.bounds.secs(2.0);
    let late = lags.iter().filter(|lag| **lag > within).count() + WORDS.saturating_sub(lags.len());
    let worst = lags.last().copied().unwrap_or_default();
    t.demand(
        late * 20 <= WORDS,
        format!("at most one in 20 words later than {within:.1?}"),
        format!("{late} of {WORDS}, the slowest after {worst:.1?}"),
    )
    .hint("a session that floods should share the hub's pipe with the others, by bytes")
}

/// Reads as a hub does that takes 10 MB a second, until a turn of the session has ended that began at `from`.
fn read_slowly(t: &mut Trial, from: usize, s: &CaseSession) -> Outcome {
    const A_SECOND: f64 = 10e6;
    let began = Instant::now();
    let mut next = from;
    let mut bytes = 0;
    let mut ended = false;
    let enough = began + t.bounds.secs(20.0);
    t.with_process(|process| process.pause_reading(true))?;
    while !ended && Instant::now() < enough {
        let due = Duration::from_secs_f64(f64::from(bytes) / A_SECOND);
        match due.checked_sub(began.elapsed()) {
            Some(early) => t.pass_time(early.min(Duration::from_millis(100))),
            None => {
                t.with_process(|process| process.pause_reading(false))?;
                t.pass_time(Duration::from_millis(1));
                t.with_process(|process| process.pause_reading(true))?;
            }
        }
        let upto = t.history.len();
        t.history.scan(next, |index, record| {
            if let (
                true,
                PipePair::Upper,
                RecordedEvent::Adapter {
                    bytes: line,
                    parsed,
                    ..
                },
            ) = (index < upto, record.link, &record.event)
            {
                bytes += u32::try_from(line.len()).unwrap_or_default();
                ended |= parsed.message().is_some_and(|message| {
                    wire::kind(message) == "turn.complete" && wire::session(message) == s.id()
                });
            }
            None::<()>
        });
        next = upto;
    }
    t.with_process(|process| process.pause_reading(false))
}
