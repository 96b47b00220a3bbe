//! What an entry is, and when there is one.

use super::{
    OWN, act, again, answers, asked, catch_up, demand_completed, instruct, last_of, open,
    open_more, prepare,
};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-JRN-01", asked_for),
    ("H-JRN-02", first_entry),
    ("H-JRN-03", known_id),
    ("H-JRN-04", not_stored),
    ("H-JRN-05", numbers),
    ("H-JRN-06", killed_anywhere),
    ("H-JRN-07", of_the_adapter),
    ("H-JRN-08", of_the_hub),
    ("H-JRN-09", secret),
    ("H-JRN-10", beside),
    ("H-JRN-31", file_kept),
];

fn asked_for(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let ready = t.hear_kind(&hub, &s, 0, "session.ready")?;
    demand_listed(t, &ready, true)?;
    let plain = Session::named(t.fresh("plain"));
    let from = hub.tell(
        &plain,
        "session.start",
        json!({"protocol":1,"extensions":["turns","events"]}),
    );
    let ready = t.hear_kind(&hub, &plain, from, "session.ready")?;
    demand_listed(t, &ready, false)?;

    let numbered = json!({"type":"output","content":"a","seq":77,"epoch":88,"time":"2026-03-01T12:00:00.000Z"});
    let actions = json!([["emit", numbered], ["say", "b"], ["complete"]]);
    let content = Trial::instructions(&plain, &actions)?;
    hub.tell(
        &plain,
        "user.input",
        json!({"turn_id":"p","message_id":"m-p","content":content}),
    );
    t.hear_kind(&hub, &plain, from, "turn.complete")?;
    act(t, &hub, &s, "a", &actions)?;
    let numbers: Vec<u64> = hub
        .entries(&s, 0)
        .iter()
        .map(|entry| entry.number("epoch"))
        .collect();
    t.demand(
        !numbers.contains(&88),
        "the `epoch` of the relay in each entry",
        "that of the adapter",
    )?;
    t.rest(&hub)?;
    for seen in hub.heard(&plain, from) {
        let member = ["seq", "epoch", "time"]
            .into_iter()
            .find(|member| seen.get(member).is_some());
        let got = format!(
            "`{}`, with {}",
            seen.kind(),
            member.unwrap_or("nothing of it")
        );
        let own = member.is_some() || OWN.contains(&seen.kind());
        t.demand(
            !own,
            "nothing of the journal for a hub that did not ask",
            got,
        )?;
    }
    let offers = t
        .written()
        .into_iter()
        .filter(|below| below.seen.kind() == "session.start");
    let mut offers = offers.filter_map(|below| below.seen.get("extensions").cloned());
    let offered = offers.any(|names| names.to_string().contains("\"journal\""));
    t.demand(!offered, "no adapter is offered `journal`", "one is")
}

fn demand_listed(t: &Trial, ready: &Seen, wanted: bool) -> Outcome {
    let names = ready.value("extensions");
    let listed = names
        .as_array()
        .is_some_and(|names| names.iter().any(|name| name == "journal"));
    let expected = if wanted {
        "`journal` is listed"
    } else {
        "`journal` is not listed"
    };
    t.demand(listed == wanted, expected, names)
}

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

fn numbers(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let other = open_more(t, &hub, json!({}))?;
    let actions = json!([["say", "a"], ["say", "b"], ["complete"]]);
    for s in [&s, &other] {
        act(t, &hub, s, "a", &actions)?;
    }
    let before = hub.entries(&s, 0);
    let epoch = before[0].number("epoch");
    let hub = again(t)?;
    for s in [&s, &other] {
        let (attached, known) = catch_up(t, &hub, s, 0)?;
        let now = attached.number("epoch");
        t.demand(now > epoch, format!("an epoch above {epoch}"), now)?;
        t.demand(
            known.len() as u64 == attached.number("last_seq"),
            "entries from 1 to `last_seq`",
            known.len(),
        )?;
        let end = act(t, &hub, s, "b", &actions)?;
        t.demand_member(&end, "epoch", now)?;
    }
    Ok(())
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

fn of_the_adapter(t: &mut Trial) -> Outcome {
    prepare(t)?;
    let hub = t.hub()?;
    let s = open_more(
        t,
        &hub,
        json!({"extensions":EXTENSIONS.iter().chain(&["journal"]).collect::<Vec<_>>()}),
    )?;
    let actions = json!([
        ["emit", {"type":"session.info","model":"m-1"}],
        ["emit", {"type":"working"}],
        ["emit", {"type":"thinking","content":"well"}],
        ["emit", {"type":"tool.start","tool_call_id":"c-1","tool":"Shell"}],
        ["emit", {"type":"tool.end","tool_call_id":"c-1","content":"done"}],
        ["emit", {"type":"plan","entries":[{"content":"first"}]}],
        ["emit", {"type":"usage","input_tokens":7}],
        ["emit", {"type":"progress","message":"half"}],
        ["say", "a"],
        ["complete"],
        ["delay", 50],
        ["exit", 3]
    ]);
    let end = act(t, &hub, &s, "a", &actions)?;
    t.hear(
        &hub,
        &s,
        end.index,
        "`host.fact` with `fact: process_ended`",
        |seen| seen.text("fact") == "process_ended" && seen.is_entry(),
    )?;
    let heard = hub.heard(&s, 0);
    let entries: Vec<&str> = heard
        .iter()
        .filter(|seen| seen.is_entry())
        .map(Seen::kind)
        .collect();
    for kind in [
        "turn.begin",
        "session.info",
        "thinking",
        "tool.start",
        "tool.end",
        "output",
        "turn.complete",
    ] {
        t.demand(
            entries.contains(&kind),
            format!("a `{kind}` among the entries"),
            entries.join(", "),
        )?;
    }
    for seen in &heard {
        let (alone, entry) = (
            ["session.ready", "working", "input.result"].contains(&seen.kind()),
            seen.is_entry(),
        );
        let expected = if alone {
            "it is no entry"
        } else {
            "it is an entry"
        };
        t.demand(alone != entry, expected, format!("`{}`", seen.kind()))?;
    }
    t.demand(
        !entries.contains(&"error"),
        "`host.fact` in the place of `error`",
        "an `error`",
    )
}

fn of_the_hub(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let ask = |id: &str| json!({"request_id":id,"tool":"Shell","description":"d","resource":"r"});
    let from = instruct(
        &hub,
        &s,
        "a",
        &json!([["ask", ask("r-1")], ["ask", ask("r-2")], ["ignore_stop"]]),
    )?;
    asked(t, &hub, &s, from, "r-2")?;
    hub.tell(
        &s,
        "permission.response",
        json!({"request_id":"r-1","approved":true}),
    );
    let lower = t.lower(&s)?;
    t.expect_told(0, &lower, "permission.response")?;
    hub.tell(
        &s,
        "user.input",
        json!({"content":"and more","message_id":"m-2","mode":"steer"}),
    );
    let mut wanted = vec!["turn.begin", "request.decided", "input.steered"];
    if t.subject.abilities.contains(&Ability::FilesIn) {
        let path = t.path("notes.txt");
        std::fs::write(&path, "notes")?;
        hub.tell(
            &s,
            "file.input",
            json!({"file_name":"notes.txt","file_mime_type":"text/plain","file_path":path}),
        );
        wanted.push("file.delivered");
    }
    hub.tell(&s, "stop", json!({}));
    wanted.push("stop.requested");
    for kind in &wanted {
        let entry = t.hear(&hub, &s, from, format!("the entry `{kind}`"), |seen| {
            seen.kind() == *kind && seen.is_entry()
        })?;
        let by = entry.get("by").is_none_or(serde_json::Value::is_string);
        t.demand(
            by,
            "`by` as a text, or none",
            entry.get("by").unwrap_or(&serde_json::Value::Null),
        )?;
    }
    let settled = t.hear(
        &hub,
        &s,
        from,
        "the `request.decided` of the request that the stop settles",
        |seen| seen.is_with("request.decided", "request_id", "r-2"),
    )?;
    t.demand(
        settled.get("approved") != Some(&json!(true)),
        "it is not approved",
        "it is",
    )?;
    t.demand(
        answers(t, &lower, "r-1").len() == 1,
        "one answer at the adapter",
        answers(t, &lower, "r-1").len(),
    )?;
    let cancels = hub
        .heard(&s, from)
        .iter()
        .filter(|seen| seen.kind() == "permission.cancel")
        .count();
    t.demand(
        cancels == 0,
        "`request.decided` in the place of `permission.cancel`",
        "a `permission.cancel`",
    )
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

fn beside(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let other = t.further_hub()?;
    let plain = Session::named(t.fresh("plain"));
    let from = other.tell(
        &plain,
        "session.start",
        json!({"protocol":1,"extensions":["turns","events"]}),
    );
    t.hear_kind(&other, &plain, from, "session.ready")?;
    act(t, &hub, &s, "a", &say_and_complete("a"))?;
    t.rest(&other)?;
    let heard = other.heard(&s, 0).len() + other.entries(&plain, 0).len();
    t.demand(
        heard == 0,
        "nothing of the journal for a hub that did not ask",
        format!("{heard} messages"),
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
