//! Coming back to a session, and reading of it.

use super::{act, again, catch_up, last_of, open};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-JRN-11", behind_each), ("H-JRN-15", history)];

fn behind_each(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let actions = json!([
        ["say", "a"],
        ["delay", 5],
        ["say", "b"],
        ["delay", 5],
        ["say", "c"],
        ["complete"]
    ]);
    act(t, &hub, &s, "a", &actions)?;
    t.rest(&hub)?;
    let last = last_of(&hub, &s);
    for after in 0..=last {
        let (attached, entries) = catch_up(t, &hub, &s, after)?;
        t.demand_member(&attached, "first_seq", 1)?;
        t.demand_member(&attached, "last_seq", last)?;
        demand_once(t, &entries, after + 1, last)?;
    }
    let (attached, _) = catch_up(t, &hub, &s, last - 1)?;
    act(t, &hub, &s, "b", &actions)?;
    t.rest(&hub)?;
    demand_once(t, &hub.entries(&s, attached.index), last, last_of(&hub, &s))
}

/// Demands each number of a range once, in its order.
pub(in crate::cases) fn demand_once(t: &Trial, entries: &[Seen], from: u64, to: u64) -> Outcome {
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
    s: &Session,
    from: usize,
    reason: &str,
) -> Outcome<Seen> {
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

fn history(t: &mut Trial) -> Outcome {
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

    let (mut all, mut next, mut rounds) = (Vec::new(), Some(1), 0);
    while let Some(from) = next.filter(|_| rounds < 50) {
        rounds += 1;
        let result = ask(from, None, &format!("all-{rounds}"))?;
        let (entries, length) = (entries_of(&result), t.line_of(&result).len());
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
        format!("the {} entries that were heard", live.len()),
        format!("{} others", all.len()),
    )?;
    let unknown = t.journaled();
    let asked = hub.tell(&unknown, "session.history", json!({"request_id":"none"}));
    let result = t.hear_kind(&hub, &unknown, asked, "session.history.result")?;
    t.demand_member(&result, "request_id", "none")?;
    t.demand(
        !result.text("error").is_empty(),
        "an `error` that says why there are none",
        "none",
    )
}

fn entries_of(result: &Seen) -> Vec<serde_json::Value> {
    result.list("entries")
}

fn number(entry: &serde_json::Value) -> u64 {
    entry["seq"].as_u64().unwrap_or_default()
}
