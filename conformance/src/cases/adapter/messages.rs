//! A-MSG: the members of messages ([msg.1] to [msg.5]).

use std::collections::BTreeSet;

use crate::cases::prelude::*;

pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-MSG-01", shapes),
    ("A-MSG-02", odd_ids),
    ("A-MSG-03", similar_ids),
    ("A-MSG-05", unknown_fields),
    ("A-MSG-08", channels),
];

/// O-SHAPE judges every message; the case sees to it that there are some of each type.
fn shapes(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    t.quick_turn(&s)?;
    t.turn(&s, "")?;
    if t.has_probe(&["say"]) {
        t.probe_turn(
            &s,
            &json!([["say", ""], ["say", "a", "stderr"], ["say", "b", "system"]]),
        )?;
    }
    if t.has_probe(&["file"]) {
        t.file_sent(&s, "shape.txt", "text/plain", 16)?;
    }
    if t.has_probe(&["ask"]) {
        let action = t.action();
        let request = t.ask(&s, &action)?;
        t.answer(&s, &request, false)?;
        t.end_of(&s, request.from)?;
    }
    t.settle()
}

fn odd_ids(t: &mut Trial) -> Outcome {
    let (long, longest) = ("x".repeat(200), "\u{e9}".repeat(128));
    let ids = [
        "x",
        &long,
        &longest,
        " ",
        " two  spaces ",
        "\"quoted\" 'twice' `thrice`",
        "a/b\\c",
        "../..",
        "\u{1f600}\u{200d}\u{1f680}",
        "tab\there",
        "__proto__",
        "constructor",
        "toString",
        "null",
        "0",
        "%s{}$(x)",
    ];
    let sessions = ids
        .iter()
        .map(|id| t.open_as(id))
        .collect::<Outcome<Vec<_>>>()?;
    let quick = t.quick();
    for s in &sessions {
        let from = t.input(s, quick.clone())?;
        if let Err(stop) = t.end_of(s, from) {
            t.demand_no_strangers()
                .map_err(|stranger| stranger.sent(sent_id(s)))?;
            return Err(stop.sent(sent_id(s)));
        }
    }
    t.settle()?;
    for s in &sessions {
        let ends = t.count(s, "turn.complete");
        t.demand(ends == 1, "one `turn.complete`", ends)
            .map_err(|stop| stop.sent(sent_id(s)))?;
    }
    t.demand_no_strangers()
}

fn sent_id(session: &Session) -> String {
    format!("session_id {:?}", session.id())
}

/// Ids that a tidy mind might take for the same.
const PAIRS: [(&str, &str); 4] = [
    ("case-A", "case-a"),
    ("space", "space "),
    ("caf\u{e9}", "cafe\u{301}"),
    ("zero", "zero\u{200b}"),
];

fn similar_ids(t: &mut Trial) -> Outcome {
    for (one, other) in PAIRS {
        let sent = format!("session ids {one:?} and {other:?}");
        let (a, b) = (t.open_as(one)?, t.open_as(other)?);
        // Each is served under its own id, and the end of one leaves the other.
        for s in [&a, &b] {
            if let Err(stop) = t.quick_turn(s) {
                t.demand_no_strangers()
                    .map_err(|stranger| stranger.sent(&sent))?;
                return Err(stop.sent(sent));
            }
        }
        t.close(&a)?;
        t.quick_turn(&b)
            .map_err(|stop| stop.sent(format!("{sent}; the first was closed")))?;
        t.settle()?;
        for (s, wanted) in [(&a, 1), (&b, 2)] {
            let ends = t.count(s, "turn.complete");
            t.demand(
                ends == wanted,
                format!("{wanted} `turn.complete` for {:?}", s.id()),
                ends,
            )
            .map_err(|stop| stop.sent(&sent))?;
        }
    }
    t.demand_no_strangers()
}

/// Unknown fields of every JSON type, some with names that mean something elsewhere.
const FIELDS: &str = "\"x_null\":null,\"x_true\":true,\"x_number\":-1.5e3,\"x_text\":\"{\\\"type\\\":\\\"stop\\\"}\",\
                      \"x_list\":[1,[null,\"a\"],{}],\"x_object\":{\"type\":\"stop\",\"session_id\":\"x\"},\
                      \"id\":7,\"error\":{},\"\":0,";

fn unknown_fields(t: &mut Trial) -> Outcome {
    let s = Session::named(t.fresh("s"));
    let id = json!(s.id());
    let line = |kind: &str, members: &str| {
        format!("{{{FIELDS}\"session_id\":{id},{members}\"type\":\"{kind}\"}}\n").into_bytes()
    };
    let content = format!("\"content\":{},", json!(t.quick()));
    t.raw(line("session.start", ""))?;
    for _ in 0..2 {
        let from = t.raw(line("user.input", &content))?;
        t.end_of(&s, from)?;
        t.raw(line("stop", ""))?;
    }
    t.demand_ends(&s, 2)?;
    t.raw(line("session.close", ""))?;
    t.fence()?;
    let from = t.history.len();
    t.raw(line("user.input", &content))?;
    t.settle()?;
    let came = t.since(from, &s).len();
    t.demand(
        came == 0,
        "a `session.close` with unknown fields closes",
        format!("{came} messages after it"),
    )
}

fn channels(t: &mut Trial) -> Outcome {
    let s = t.open()?;
    let turn = t.quick_turn(&s)?;
    let names: BTreeSet<String> = turn
        .messages
        .iter()
        .filter(|seen| seen.kind() == "output")
        .map(|seen| match seen.get("channel") {
            None | Some(Value::Null) => "none (stdout)".to_owned(),
            Some(Value::String(name)) => name.clone(),
            Some(other) => other.to_string(),
        })
        .collect();
    let names: Vec<String> = names.into_iter().collect();
    t.note(format!(
        "channels in use: {}",
        if names.is_empty() {
            "no output".to_owned()
        } else {
            names.join(", ")
        }
    ));
    Ok(())
}
