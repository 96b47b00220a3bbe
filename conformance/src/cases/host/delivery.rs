//! H-FRM, H-SES and H-TRN: lines as adapters really write them, sessions that are kept apart, and turns
//! that end once.

use std::cell::RefCell;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use super::demand_unheard;
use crate::{
    cases::{corpus, prelude::*},
    process::usage_of,
};

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-SES-11", similar_ids),
    ("H-TRN-05", idle_end),
    ("H-TRN-06", between_turns),
    ("H-FRM-07", malformed_lines),
    ("H-FRM-08", not_utf8),
    ("H-FRM-10", long_lines),
    ("H-FRM-11", very_long_line),
    ("H-FRM-12", endless_line),
    ("H-FRM-14", last_line),
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
    let (noisy, other) = (t.open_known()?, t.open_known()?);
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

fn last_line(t: &mut Trial) -> Outcome {
    let line = "{\"type\":\"output\",\"session_id\":\"{session_id}\",\"content\":\"last words\"}";
    let s = t.open()?;
    let from = t.instruct(
        &s,
        &json!([
            ["say", "first "],
            ["grandchild", 30],
            ["raw", line],
            ["exit", 0]
        ]),
    )?;
    let ended = t.expect_within(from, &s, "turn.complete", t.bounds.secs(2.5));
    t.kill_children();
    ended?;
    let text = t.end_of(&s, from)?.text();
    t.demand(
        text.starts_with("first "),
        "what came before is delivered",
        super::shown(&text),
    )?;
    t.should(
        text == "first last words",
        "the last line is delivered",
        super::shown(&text),
    );
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

fn idle_end(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.act(
        &s,
        &json!([
            ["complete"],
            ["delay", 150],
            ["complete"],
            ["complete"],
            ["pid"]
        ]),
    )?;
    if t.wait_logged(0, t.bounds.secs(20.0), |act| act["ev"] == "pid")
        .is_none()
    {
        return t.late(
            "the adapter can write `turn.complete`",
            "no one reads its stdout",
        );
    }
    // Read before the next input is written; otherwise no host could assign them.
    t.demand_ends(&s, 1)?;
    t.demand_served(&s, "next")?;
    t.demand_ends(&s, 2)
}

fn between_turns(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let turn = t.act(&s, &json!([["complete"], ["delay", 200], ["say", token]]))?;
    let text = RefCell::new(String::new());
    let heard = |seen: &crate::trial::Seen| {
        if seen.session() == s.id() {
            text.borrow_mut().push_str(seen.on_channel("stdout"));
        }
        text.borrow().contains(&token)
    };
    let heard = t.wait(turn.end.index, t.bounds.deadline, heard).is_some();
    t.demand(heard, "the output between turns is delivered", "it is not")
}
