//! What an entry is, and when there is one.

use super::{
    act, again, answers, asked, catch_up, demand_completed, instruct, last_of, open, open_more,
    prepare,
};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-JRN-02", first_entry),
    ("H-JRN-03", known_id),
    ("H-JRN-04", not_stored),
    ("H-JRN-06", killed_anywhere),
    ("H-JRN-09", secret),
    ("H-JRN-31", file_kept),
];

fn first_entry(t: &mut Trial) -> Outcome {
    prepare(t)?;
    let hub = t.hub()?;
    // The first start of the host is not part of what is measured.
    let before = t.journaled();
    let from = hub.start(&before, json!({}));
    t.hear_kind(&hub, &before, from, "session.ready")?;
    let s = t.journaled();
    let from = hub.start(&s, json!({}));
    instruct(&hub, &s, "a", &say_and_complete("a"))?;
    let within = t.bounds.secs(1.0);
    let Some(opened) = hub.wait(&s, from, within, |seen| seen.kind() == "host.fact") else {
        return t.late(format!("`host.fact` within {within:.1?}"), "none");
    };
    t.demand_member(&opened, "fact", "opened")?;
    t.demand_member(&opened, "seq", 1)?;
    t.hear_end(&hub, &s, from, "a")?;
    let mut heard = hub.heard(&s, from);
    heard.retain(|seen| seen.kind() == "session.ready" || seen.is_entry());
    let first: Vec<&str> = heard.iter().take(2).map(Seen::kind).collect();
    let wanted = ["session.ready", "host.fact"];
    t.demand(
        first == wanted,
        "`session.ready`, then the first entry",
        first.join(", "),
    )
}

fn known_id(t: &mut Trial) -> Outcome {
    let (mut hub, s) = open(t)?;
    let closed = open_more(t, &hub, json!({}))?;
    for s in [&s, &closed] {
        act(t, &hub, s, "a", &say_and_complete("a"))?;
    }
    hub.tell(&closed, "session.close", json!({}));
    for round in 0..2 {
        if round == 1 {
            hub = again(t)?;
        }
        let starts = super::starts(t);
        for s in [&s, &closed] {
            let from = hub.start(s, json!({}));
            let refused = t.hear_kind(&hub, s, from, "session.refused")?;
            t.demand_member(&refused, "reason", "exists")?;
            let ready = hub
                .heard(s, from)
                .iter()
                .any(|seen| seen.kind() == "session.ready");
            t.demand(!ready, "no `session.ready` for it", "one")?;
        }
        t.rest(&hub)?;
        // The fence has one of its own.
        t.demand(
            super::starts(t) <= starts + 1,
            "no session at the adapter",
            "one more",
        )?;
    }
    Ok(())
}

/// Whether a text stands in a file of the journal.
fn is_stored(t: &Trial, text: &str) -> Outcome<bool> {
    let mut folders = vec![t.path("journal")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder)? {
            let entry = entry?;
            let kind = entry.file_type()?;
            if kind.is_dir() {
                folders.push(entry.path());
            } else if kind.is_file() && contains(&std::fs::read(entry.path())?, text) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

fn contains(bytes: &[u8], text: &str) -> bool {
    bytes
        .windows(text.len())
        .any(|window| window == text.as_bytes())
}

fn not_stored(t: &mut Trial) -> Outcome {
    prepare(t)?;
    let hub = t.hub()?;
    let value = t.token();
    let env = json!({"env":{"CONFORMANCE_TOKEN":value}});
    let s = t.journaled();
    let from = hub.start(&s, env.clone());
    let first = t.hear(&hub, &s, from, "`host.fact`, or a refusal", |seen| {
        ["host.fact", "session.closed"].contains(&seen.kind())
    })?;
    if first.kind() == "session.closed" {
        t.demand_member(&first, "reason", "refused")?;
        return t.skip("`env` of a session, which this host refuses");
    }
    act(t, &hub, &s, "a", &say_and_complete("a"))?;
    let lower = t.lower(&s)?;
    if !t
        .told(&lower, "session.start")
        .iter()
        .any(|start| start.get("env").is_some())
    {
        return t.skip("`env` of a session, which this host does not take");
    }
    let hub = again(t)?;
    let stored = is_stored(t, &value)?;
    t.demand(
        !stored,
        "the value of `env` is in no file of the journal",
        "it is in one",
    )?;
    let (_, entries) = catch_up(t, &hub, &s, 0)?;
    let from = instruct(&hub, &s, "b", &say_and_complete("b"))?;
    // A host may accept it as a turn, or refuse it to its sender alone.
    let end = super::hear_refusal(t, &hub, &s, from, "b")?;
    t.demand_member(&end, "status", "refused")?;
    let why = end.value("error").to_string();
    t.demand(why.contains("env"), "the name of what is missing", why)?;
    super::attach(t, &hub, &s, entries.len() as u64, env.clone())?;
    let end = act(t, &hub, &s, "c", &say_and_complete("c"))?;
    demand_completed(t, &end)?;
    let lower = t.lower(&s)?;
    let start = t
        .told(&lower, "session.start")
        .pop()
        .map(|start| start.get("env").cloned());
    t.demand(
        start == Some(env.get("env").cloned()),
        "`env` at the adapter again",
        format!("{start:?}"),
    )
}

/// The points of a turn behind which the host is killed.
const POINTS: [fn(&Seen) -> bool; 5] = [
    |seen| seen.kind() == "turn.begin",
    |seen| seen.kind() == "input.result",
    |seen| seen.kind() == "output",
    |seen| seen.text("content").contains('b'),
    |seen| seen.kind() == "turn.complete",
];

fn killed_anywhere(t: &mut Trial) -> Outcome {
    let (mut hub, s) = open(t)?;
    let mut known = 1;
    for (point, is_reached) in POINTS.into_iter().enumerate() {
        let turn = format!("t-{point}");
        let from = instruct(
            &hub,
            &s,
            &turn,
            &json!([["say", "a"], ["delay", 5], ["say", "b"], ["complete"]]),
        )?;
        t.hear(&hub, &s, from, format!("point {point} of a turn"), |seen| {
            let own = seen.text("turn_id") == turn || seen.kind() == "input.result";
            own && is_reached(seen)
        })?;
        t.kill_host()?;
        known = known.max(last_of(&hub, &s));
        hub = t.hub()?;
        let (attached, entries) = catch_up(t, &hub, &s, 0)?;
        let last = attached.number("last_seq");
        t.demand(
            last >= known,
            format!("the {known} entries that were heard"),
            last,
        )?;
        known = last;
        let ends = entries
            .iter()
            .filter(|seen| seen.is_with("turn.complete", "turn_id", &turn));
        let ends = ends.count();
        t.demand(ends == 1, format!("one end of {turn}"), ends)?;
    }
    Ok(())
}

fn secret(t: &mut Trial) -> Outcome {
    prepare(t)?;
    let hub = t.hub()?;
    let s = open_more(
        t,
        &hub,
        json!({"extensions":["turns","events","questions","journal"]}),
    )?;
    let fields = json!([{"id":"who","kind":"text"},{"id":"pin","kind":"secret"}]);
    let question = json!({"request_id":"q-1","prompt":"Who are you?","fields":fields});
    let from = instruct(
        &hub,
        &s,
        "a",
        &json!([
            ["question", question],
            ["wait", "input.response"],
            ["complete"]
        ]),
    )?;
    let lower = t.lower(&s)?;
    crate::cases::host::full_hub::demand_offer(t, &lower, "questions")?;
    asked(t, &hub, &s, from, "q-1")?;
    let value = t.token();
    hub.tell(
        &s,
        "input.response",
        json!({"request_id":"q-1","values":{"who":"me","pin":value}}),
    );
    t.hear_end(&hub, &s, from, "a")?;
    let decided = t.hear_kind(&hub, &s, from, "request.decided")?;
    t.demand_member(
        &decided,
        "values",
        json!({"who":"me","pin":{"redacted":true}}),
    )?;
    let given = answers(t, &lower, "q-1")
        .pop()
        .and_then(|answer| answer.get("values").cloned());
    let given = given.unwrap_or_default();
    t.demand(
        given["pin"] == value.as_str(),
        "the value at the adapter",
        given,
    )?;
    let stored = is_stored(t, &value)?;
    t.demand(
        !stored,
        "the value is in no file of the journal",
        "it is in one",
    )
}

fn file_kept(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let end = act(
        t,
        &hub,
        &s,
        "a",
        &json!([["file", "a.txt", "text/plain", 5_000], ["complete"]]),
    )?;
    let given = t.hear_kind(&hub, &s, 0, "file.output")?;
    t.demand(
        given.is_entry() && given.index < end.index,
        "`file.output` as an entry of the turn",
        "it is none",
    )?;
    let path = given.text("file_path").to_owned();
    let bytes = std::fs::read(&path).unwrap_or_default();
    t.demand(
        bytes.len() == 5_000,
        format!("a file of 5000 bytes at {path}"),
        bytes.len(),
    )?;
    let hub = again(t)?;
    let (_, entries) = catch_up(t, &hub, &s, 0)?;
    let entry = entries
        .iter()
        .find(|entry| entry.kind() == "file.output")
        .map(|entry| entry.text("file_path"));
    t.demand(
        entry == Some(path.as_str()),
        "the same path in the entry",
        entry.unwrap_or("no entry"),
    )?;
    let kept = std::fs::read(&path).unwrap_or_default();
    t.demand(
        kept == bytes,
        format!("the same bytes at {path}"),
        format!("{} bytes", kept.len()),
    )
}
