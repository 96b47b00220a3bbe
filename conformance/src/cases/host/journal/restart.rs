//! After SIGKILL of the host: what was open is closed, and the conversation goes on.

use super::{act, again, asked, catch_up, demand_kinds, instruct, last_of, open};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-JRN-28", closings), ("H-JRN-30", context)];

fn closings(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let request = json!({"request_id":"r-1","tool":"Shell","description":"d","resource":"r"});
    let actions = json!([
        ["say", "a"],
        ["emit", {"type":"tool.start","tool_call_id":"c-1","tool":"Shell"}],
        ["ask", request],
        ["ignore_stop"]
    ]);
    let from = instruct(&hub, &s, "a", &actions)?;
    asked(t, &hub, &s, from, "r-1")?;
    // The stub does not answer a steer that has instructions.
    let steer = Trial::instructions(&s, &json!([["delay", 1]]))?;
    hub.tell(
        &s,
        "user.input",
        json!({"content":steer,"message_id":"m-steer","mode":"steer"}),
    );
    instruct(&hub, &s, "b", &json!([["complete"]]))?;
    t.hear(
        &hub,
        &s,
        from,
        "the `turn.begin` of the input that waits",
        |seen| seen.is_with("turn.begin", "turn_id", "b"),
    )?;
    t.rest(&hub)?;
    let steered = hub
        .entries(&s, from)
        .iter()
        .any(|entry| entry.kind() == "input.steered");
    let unsettled = hub
        .heard(&s, from)
        .iter()
        .all(|seen| seen.kind() != "steer.result");
    let known = last_of(&hub, &s);
    let hub = again(t)?;
    let (_, entries) = catch_up(t, &hub, &s, known)?;
    let mut wanted = vec!["host.fact", "request.decided", "tool.end"];
    if steered && unsettled {
        wanted.push("steer.result");
    }
    wanted.extend(["turn.complete", "turn.complete"]);
    demand_kinds(t, &entries, &wanted)?;
    t.demand_member(&entries[0], "fact", "host_restarted")?;
    t.demand_member(&entries[1], "request_id", "r-1")?;
    t.demand_member(&entries[1], "reason", "shutdown")?;
    let approved = entries[1].get("approved") == Some(&json!(true));
    t.demand(!approved, "no approval by default", "one")?;
    t.demand_member(&entries[2], "tool_call_id", "c-1")?;
    t.demand_member(&entries[2], "is_error", true)?;
    let (ends, before) = (&entries[entries.len() - 2..], &entries[..entries.len() - 2]);
    if let Some(steer) = before.iter().find(|entry| entry.kind() == "steer.result") {
        t.demand_member(steer, "message_id", "m-steer")?;
        t.demand_member(steer, "delivered", false)?;
    }
    demand_end(t, &ends[0], "a", "yes")?;
    demand_end(t, &ends[1], "b", "no")?;
    let all = known + entries.len() as u64;
    let hub = again(t)?;
    let (attached, more) = catch_up(t, &hub, &s, all)?;
    t.demand_member(&attached, "last_seq", all)?;
    demand_kinds(t, &more, &[])
}

fn demand_end(t: &Trial, end: &Seen, turn: &str, delivered: &str) -> Outcome {
    t.demand_member(end, "turn_id", turn)?;
    t.demand_member(end, "status", "failed")?;
    let category = end
        .get("error")
        .map(|error| error["category"].clone())
        .unwrap_or_default();
    t.demand(
        category == "host_restart",
        "category `host_restart`",
        category,
    )?;
    t.demand_member(end, "delivered", delivered)
}

fn context(t: &mut Trial) -> Outcome {
    let (hub, s) = open(t)?;
    let info = json!({"type":"session.info","native_session_id":"native-7"});
    act(
        t,
        &hub,
        &s,
        "a",
        &json!([["emit", info], ["say", "a"], ["complete"]]),
    )?;
    let resumes = t.told(&t.lower(&s)?, "session.start").iter().any(|start| {
        start
            .get("extensions")
            .and_then(Value::as_array)
            .is_some_and(|names| names.iter().any(|name| name == "resume"))
    });
    let hub = again(t)?;
    let (_, entries) = catch_up(t, &hub, &s, 0)?;
    let actions =
        json!([["emit", {"type":"session.info","context":"kept"}], ["say", "b"], ["complete"]]);
    let from = instruct(&hub, &s, "b", &actions)?;
    t.hear_end(&hub, &s, from, "b")?;
    let more = hub.entries(&s, from);
    let fact = more
        .iter()
        .position(|entry| entry.text("fact") == "resumed");
    let output = more.iter().position(|entry| entry.kind() == "output");
    t.demand(
        fact.is_some() && fact < output,
        "`host.fact` with `resumed` before the first output",
        {
            let kinds: Vec<&str> = more.iter().map(Seen::kind).collect();
            kinds.join(", ")
        },
    )?;
    let told = fact.map_or("", |at| more[at].text("context"));
    t.demand(
        matches!(told, "kept" | "lost"),
        "`context`: `kept` or `lost`",
        told,
    )?;
    t.demand(
        entries.len() as u64 + 1 == more[0].number("seq"),
        "the entries go on",
        more[0].number("seq"),
    )?;
    if resumes {
        let start = t
            .told(&t.lower(&s)?, "session.start")
            .pop()
            .and_then(|start| start.get("resume").cloned());
        let native = start.unwrap_or_default()["native_session_id"].clone();
        t.demand(
            native == "native-7",
            "`resume` with the id that the agent told",
            native,
        )?;
        t.demand(told == "kept", "`context: kept`, as the agent said", told)?;
    }
    Ok(())
}
