//! H-JRN: what a relay that keeps a journal owes its hubs (SPEC.md, section 13).
//!
//! The folder of the journal is the case's own. A case may kill the host and start it again on that folder.

use crate::cases::prelude::*;

/// Makes the stub agree on everything that a journal can report.
pub(in crate::cases) fn prepare(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"extensions":["turns","events","usage","resume","options","questions"]}))
}

/// Returns the first hub of a host with a journal, and a session whose first entry it has received.
fn open(t: &mut Trial) -> Outcome<(Hub, CaseSession)> {
    prepare(t)?;
    let hub = t.hub()?;
    let s = open_more(t, &hub, json!({}))?;
    Ok((hub, s))
}

/// Opens another session, and waits until this hub has received its first entry.
pub(in crate::cases) fn open_more(t: &mut Trial, hub: &Hub, more: Value) -> Outcome<CaseSession> {
    let s = t.journaled();
    let from = hub.start(&s, more);
    t.hear_kind(hub, &s, from, "host.fact")?;
    Ok(s)
}

/// The host once more, on the journal that the one before it has left, and a hub of its own.
pub(in crate::cases) fn again(t: &mut Trial) -> Outcome<Hub> {
    t.kill_host()?;
    t.hub()
}

/// Has the stub carry out actions in a turn of this id; returns the input's place in the history.
pub(in crate::cases) fn instruct(
    hub: &Hub,
    s: &CaseSession,
    turn: &str,
    actions: &Value,
) -> Outcome<usize> {
    Ok(hub.input(
        s,
        turn,
        &format!("m-{turn}"),
        &Trial::instructions(s, actions)?,
    ))
}

/// The same to the end of the turn.
fn act(
    t: &Trial,
    hub: &Hub,
    s: &CaseSession,
    turn: &str,
    actions: &Value,
) -> Outcome<ReceivedMessage> {
    let from = instruct(hub, s, turn, actions)?;
    t.hear_end(hub, s, from, turn)
}

/// Attaches, and waits for the answer.
pub(in crate::cases) fn attach(
    t: &Trial,
    hub: &Hub,
    s: &CaseSession,
    after: u64,
    more: Value,
) -> Outcome<ReceivedMessage> {
    let from = hub.attach(s, after, more);
    t.hear_kind(hub, s, from, "session.attached")
}

/// Attaches, and waits for all entries that there are; they are behind the answer.
pub(in crate::cases) fn catch_up(
    t: &Trial,
    hub: &Hub,
    s: &CaseSession,
    after: u64,
) -> Outcome<(ReceivedMessage, Vec<ReceivedMessage>)> {
    let attached = attach(t, hub, s, after, json!({}))?;
    let last = attached.number("last_seq");
    if last > after {
        t.hear(hub, s, attached.index, format!("entry {last}"), |seen| {
            seen.is_entry() && seen.number("seq") == last
        })?;
    }
    let entries = hub.entries(s, attached.index);
    Ok((attached, entries))
}

/// Returns the number of sessions that were opened at adapters.
fn starts(t: &Trial) -> usize {
    t.written()
        .iter()
        .filter(|below| below.seen.kind() == "session.start")
        .count()
}

/// Demands that a turn ended well, which an absent status also means.
pub(in crate::cases) fn demand_completed(t: &Trial, end: &ReceivedMessage) -> Outcome {
    let status = end.text("status");
    t.demand(
        matches!(status, "" | "completed"),
        "status `completed`, or none",
        status,
    )
}

/// The cases that are no dialogues.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-JRN-15", return_history_in_pages),
    ("H-JRN-22", wait_for_slow_hub),
    ("H-JRN-23", skip_for_slow_hub),
    ("H-JRN-32", list_by_filters),
];

/// Returns true if a file of the journal contains a text.
pub(in crate::cases) fn is_stored(t: &Trial, text: &str) -> Outcome<bool> {
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

/// Demands each number of a range once, in its order.
pub(in crate::cases) fn demand_once(
    t: &Trial,
    entries: &[ReceivedMessage],
    from: u64,
    to: u64,
) -> Outcome {
    let numbers: Vec<u64> = entries.iter().map(|entry| entry.number("seq")).collect();
    let wanted: Vec<u64> = (from..=to).collect();
    t.demand(
        numbers == wanted,
        format!("the entries {wanted:?}, each once"),
        format!("{numbers:?}"),
    )
}

/// Waits for the answer to an attach, and demands that it is a refusal with this reason.
pub(in crate::cases) fn refusal(
    t: &Trial,
    hub: &Hub,
    s: &CaseSession,
    from: usize,
    reason: &str,
) -> Outcome<ReceivedMessage> {
    let answer = t.hear(hub, s, from, "an answer to `session.attach`", |seen| {
        matches!(seen.kind(), "session.refused" | "session.attached")
    })?;
    t.demand(
        answer.kind() == "session.refused",
        "`session.refused`",
        format!("`{}`", answer.kind()),
    )?;
    t.demand_member(&answer, "reason", reason)?;
    Ok(answer)
}

fn return_history_in_pages(t: &mut Trial) -> Outcome {
    /// The most bytes of a result, unless one entry is longer.
    const MOST: usize = 1 << 20;
    let (hub, s) = open(t)?;
    act(
        t,
        &hub,
        &s,
        "a",
        &json!([["burst", 50, 40_000], ["complete"]]),
    )?;
    t.rest(&hub)?;
    let live = hub.entries(&s, 0);
    let hub = again(t)?;
    let ask = |from: u64, to: Option<u64>, request: &str| {
        let asked = hub.tell(
            &s,
            "session.history",
            json!({"request_id":request,"from":from,"to":to}),
        );
        t.hear(
            &hub,
            &s,
            asked,
            format!("the `session.history.result` of {request}"),
            |seen| seen.is_with("session.history.result", "request_id", request),
        )
    };
    let some = ask(2, Some(3), "some")?;
    let numbers: Vec<u64> = entries_of(&some).iter().map(number).collect();
    t.demand(
        numbers == [2, 3],
        "the entries 2 and 3",
        format!("{numbers:?}"),
    )?;
    t.demand(
        some.get("next").is_none(),
        "no `next` where nothing was left out",
        "one",
    )?;

    let mut all = Vec::new();
    let mut next = Some(1);
    let mut rounds = 0;
    while let Some(from) = next.filter(|_| rounds < 50) {
        rounds += 1;
        let result = ask(from, None, &format!("all-{rounds}"))?;
        let entries = entries_of(&result);
        let length = t.line_of(&result).len();
        t.demand(
            length <= MOST || entries.len() == 1,
            "a result of 1 MiB at most",
            format!("{length} bytes"),
        )?;
        next = result.get("next").and_then(serde_json::Value::as_u64);
        let last = entries.last().map_or(0, number);
        t.demand(
            next.is_none_or(|next| next == last + 1),
            "`next` behind the last entry",
            format!("{next:?}"),
        )?;
        all.extend(entries);
    }
    t.demand(rounds > 1, "2 MB of entries in more than one result", "one")?;
    let live: Vec<_> = live
        .iter()
        .map(|entry| entry.message().clone().into())
        .collect();
    let same = all.get(..live.len()) == Some(&live[..]);
    t.demand(
        same,
        format!("the {} entries that were received", live.len()),
        format!("{} others", all.len()),
    )?;
    let unknown = t.journaled();
    let asked = hub.tell(&unknown, "session.history", json!({"request_id":"none"}));
    let result = t.hear_kind(&hub, &unknown, asked, "session.history.result")?;
    t.demand_member(&result, "request_id", "none")?;
    t.demand(
        !result.text("error").is_empty(),
        "an `error` with the reason why there are none",
        "none",
    )
}

fn entries_of(result: &ReceivedMessage) -> Vec<serde_json::Value> {
    result.list("entries")
}

fn number(entry: &serde_json::Value) -> u64 {
    entry["seq"].as_u64().unwrap_or_default()
}

/// A turn of 4 MB while a further hub, which has attached in this way, does not read; then it reads on.
fn flood(t: &mut Trial, on_slow: &str) -> Outcome<(Hub, CaseSession, usize, u64)> {
    let (hub, s) = open(t)?;
    let other = t.further_hub()?;
    let attached = attach(t, &other, &s, 1, json!({"on_slow":on_slow}))?;
    other.pause_reading(true);
    act(
        t,
        &hub,
        &s,
        "a",
        &json!([["flood", 4 << 20, 16 << 10], ["complete"]]),
    )?;
    act(t, &hub, &s, "b", &say_and_complete("b"))?;
    other.pause_reading(false);
    let end = act(t, &hub, &s, "c", &say_and_complete("c"))?;
    Ok((other, s, attached.index, end.number("seq")))
}

fn wait_for_slow_hub(t: &mut Trial) -> Outcome {
    let (other, s, from, last) = flood(t, "wait")?;
    t.hear_end(&other, &s, from, "c")?;
    let numbers: Vec<u64> = other
        .entries(&s, from)
        .iter()
        .map(|entry| entry.number("seq"))
        .collect();
    let wanted: Vec<u64> = (2..=last).collect();
    t.demand(
        numbers == wanted,
        format!("every entry from 2 to {last}"),
        format!("{} of them", numbers.len()),
    )
}

fn skip_for_slow_hub(t: &mut Trial) -> Outcome {
    let (other, s, from, last) = flood(t, "skip")?;
    t.hear(
        &other,
        &s,
        from,
        format!("entry {last}, or a `lag` up to it"),
        |seen| {
            seen.is_entry() && seen.number("seq") == last
                || seen.kind() == "lag" && seen.number("to") >= last
        },
    )?;
    let heard = other.heard(&s, from);
    let lags: Vec<&ReceivedMessage> = heard.iter().filter(|seen| seen.kind() == "lag").collect();
    t.demand(
        !lags.is_empty(),
        "a `lag`",
        "every entry, after 4 MB that were not read",
    )?;
    let numbered = lags.iter().any(|lag| lag.get("seq").is_some());
    t.demand(!numbered, "a `lag` has no `seq`", "it has one")?;
    // By the rules of the row, nothing is missing between them.
    let skipped: u64 = lags
        .iter()
        .map(|lag| lag.number("to") + 1 - lag.number("from"))
        .sum();
    let came = heard.iter().filter(|seen| seen.is_entry()).count() as u64;
    t.demand(
        came + skipped == last - 1,
        format!("{} entries in all, come or skipped", last - 1),
        came + skipped,
    )
}

/// The most pages that a list of a few sessions may have.
const PAGES: usize = 100;

fn list_by_filters(t: &mut Trial) -> Outcome {
    let (hub, detached) = open(t)?;
    act(t, &hub, &detached, "a", &say_and_complete("a"))?;
    let hub = again(t)?;
    let idle = open_more(t, &hub, json!({}))?;
    let running = open_more(t, &hub, json!({}))?;
    let closed = open_more(t, &hub, json!({}))?;
    for s in [&idle, &closed] {
        act(t, &hub, s, "b", &say_and_complete("b"))?;
    }
    let from = instruct(&hub, &running, "c", &json!([["say", "c"], ["ignore_stop"]]))?;
    t.hear_kind(&hub, &running, from, "output")?;
    hub.tell(&closed, "session.close", json!({}));
    // What comes behind it is answered by a host that has closed it.
    t.rest(&hub)?;
    let begun = starts(t);

    let all = [
        (&detached, "detached"),
        (&idle, "idle"),
        (&running, "running"),
        (&closed, "closed"),
    ];
    let whole = demand(t, &hub, json!({"limit":1}), &all)?;
    for one in all {
        demand(t, &hub, json!({"state":one.1}), &[one])?;
        demand(t, &hub, json!({"id":one.0.id()}), &[one])?;
        demand(
            t,
            &hub,
            json!({"text":one.0.id().to_uppercase(),"limit":1}),
            &[one],
        )?;
    }
    let agent = &whole
        .first()
        .map(|first| first["agent_id"].clone())
        .unwrap_or_default();
    demand(t, &hub, json!({"agent_id":agent}), &all)?;
    for none in [
        json!({"agent_id":format!("not-{}", agent.as_str().unwrap_or_default())}),
        json!({"cwd":"/no/session/is/here"}),
        json!({"id":idle.id(),"state":"closed"}),
    ] {
        demand(t, &hub, none, &[])?;
    }
    let wrong = ask(t, &hub, &json!({"cursor":"no `next` of any answer"}))?;
    let says = wrong.get("error").is_some() && wrong.get("sessions").is_none();
    t.demand(
        says,
        "`error` and no `sessions` for a cursor that is no `next`",
        shown(&wrong),
    )?;
    let more = starts(t) - begun;
    t.demand(
        more == 0,
        "no session is opened for a list",
        format!("{more} at the adapter"),
    )
}

/// Returns the one answer.
fn ask(t: &mut Trial, hub: &Hub, more: &Value) -> Outcome<ReceivedMessage> {
    let request = t.fresh("list");
    let asked = json!({"type":"sessions.list","session_id":"","request_id":request,"extensions":["journal"]});
    let from = hub.say(wire::with(asked, more));
    t.hear(
        hub,
        &CaseSession::named(""),
        from,
        "`sessions.list.result`",
        |seen| seen.is_with("sessions.list.result", "request_id", &request),
    )
}

fn shown(answer: &ReceivedMessage) -> Value {
    Value::Object(answer.message().clone())
}

/// The sessions of all pages.
fn list(t: &mut Trial, hub: &Hub, filter: &Value) -> Outcome<Vec<Value>> {
    let limit = filter
        .get("limit")
        .and_then(Value::as_u64)
        .unwrap_or(u64::MAX);
    let mut found = Vec::new();
    let mut asked = filter.clone();
    for _ in 0..PAGES {
        let page = ask(t, hub, &asked)?;
        let Some(sessions) = page.get("sessions").and_then(Value::as_array) else {
            return t.fail("`sessions`", shown(&page));
        };
        let most = format!("{limit} sessions at most");
        t.demand(
            sessions.len() as u64 <= limit,
            most,
            format!("{} of them", sessions.len()),
        )?;
        found.extend(sessions.iter().cloned());
        let Some(next) = page.get("next") else {
            return Ok(found);
        };
        asked = wire::with(filter.clone(), &json!({"cursor":next}));
    }
    t.fail(
        "a last page, without `next`",
        format!("{PAGES} pages of {filter}"),
    )
}

/// Demands that these are listed, each once and doing this, in any order.
#[expect(
    clippy::needless_pass_by_value,
    reason = "a case writes its filter in place"
)]
fn demand(
    t: &mut Trial,
    hub: &Hub,
    filter: Value,
    wanted: &[(&CaseSession, &str)],
) -> Outcome<Vec<Value>> {
    let row = |id: &str, state: &str| format!("{id} {state}");
    let text = |one: &Value, member: &str| one[member].as_str().unwrap_or_default().to_owned();
    let mut wanted: Vec<_> = wanted.iter().map(|(s, state)| row(s.id(), state)).collect();
    wanted.sort();
    let expected = format!("each once for {filter}: {}", wanted.join(", "));
    let found = list(t, hub, &filter)?;
    let mut got: Vec<_> = found
        .iter()
        .map(|one| row(&text(one, "session_id"), &text(one, "state")))
        .collect();
    got.sort();
    t.demand(got == wanted, expected, got.join(", "))?;
    Ok(found)
}

/// Demands the entries of the source in the copy, and then the fact that it is one.
pub(in crate::cases) fn demand_copy(
    t: &Trial,
    hub: &Hub,
    s: &CaseSession,
    copy: &CaseSession,
    answer: &ReceivedMessage,
) -> Outcome {
    t.demand_member(answer, "role", "control")?;
    let fact = t.hear(hub, copy, answer.index, "`forked_from`", |seen| {
        seen.is_with("host.fact", "fact", "forked_from")
    })?;
    let entries = |s: &CaseSession| -> Vec<Value> {
        let mut entries = hub.entries(s, 0);
        entries.retain(|entry| s != copy || entry.index < fact.index);
        let same_id = |entry: &ReceivedMessage| {
            let message = Value::Object(entry.message().clone());
            wire::with(message, &json!({"session_id":copy.id()}))
        };
        entries.iter().map(same_id).collect()
    };
    let copied = entries(copy);
    t.demand(
        copied == entries(s),
        "the entries of the source with the id of the copy",
        Value::from(copied.clone()),
    )
}
