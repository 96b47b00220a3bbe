//! What a relay says and offers by itself.

use super::super::full_hub;
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-RLY-04", ready_at_once),
    ("H-RLY-05", own_offer),
    ("H-RLY-26", core_alone),
];

fn ready_at_once(t: &mut Trial) -> Outcome {
    t.stub_script(&json!({"extensions":EXTENSIONS,"ready_delay_ms":800}))?;
    let few = ["turns", "control", "of-nobody"];
    let s = t.open_offering(&few, &json!({}))?.naming_turns();
    let from = t.instruct(&s, &json!([["complete"]]))?;
    let ready = t.expect(0, &s, "session.ready")?;
    t.end_of(&s, from)?;
    let first = t
        .of(&s)
        .first()
        .map(|seen| seen.kind().to_owned())
        .unwrap_or_default();
    t.demand(
        first == "session.ready",
        "`session.ready` first",
        format!("`{first}`"),
    )?;
    let names = ready.list("extensions");
    let subset = names
        .iter()
        .all(|name| *name == "turns" || *name == "control");
    t.demand(
        subset,
        "names that the hub offered and that there are",
        format!("{names:?}"),
    )?;
    let lower = t.lower(&s)?;
    let below = t
        .below_of(&lower)
        .into_iter()
        .find(|below| below.by == Side::Adapter && below.seen.kind() == "session.ready");
    match below {
        Some(below) if below.seen.at < ready.at => {
            t.late("`session.ready` before that of the adapter", "after it")
        }
        _ => Ok(()),
    }
}

fn own_offer(t: &mut Trial) -> Outcome {
    let core = t.open_known()?;
    let some = t.open_offering(&["control"], &json!({}))?;
    t.introduce(&some)?;
    let all = full_hub::open(t)?;
    t.introduce(&all)?;
    let mut offers = Vec::new();
    for s in [&core, &some, &all] {
        let start = full_hub::demand_delivered(t, &t.lower(s)?, "session.start", 1)?.remove(0);
        let mut names: Vec<String> = start
            .get("extensions")
            .and_then(Value::as_array)
            .map(|names| names.iter().map(Value::to_string).collect())
            .unwrap_or_default();
        names.sort();
        offers.push(names.join(" "));
    }
    let same = offers.iter().all(|offer| *offer == offers[0]);
    t.demand(
        same,
        "the same offer whatever the hub offered",
        offers.join("; "),
    )
}

/// The types that a core-only hub may see.
const UP: [&str; 4] = [
    "output",
    "turn.complete",
    "file.output",
    "permission.request",
];
/// Members of these types that belong to an extension, of those that the case provokes.
const OF_EXTENSIONS: [&str; 18] = [
    "turn_id",
    "message_id",
    "parent_tool_call_id",
    "history",
    "_meta",
    "status",
    "stop_reason",
    "error",
    "delivered",
    "exit_code",
    "summary",
    "usage",
    "title",
    "input",
    "options",
    "expires_at",
    "tool_call_id",
    "native_session_id",
];

fn core_alone(t: &mut Trial) -> Outcome {
    full_hub::agreeing(t, &EXTENSIONS)?;
    let s = t.open()?;
    let turn = t.act(
        &s,
        &json!([
            ["emit", {"type":"session.info","model":"m","native_session_id":"n","context":"kept"}],
            ["emit", {"type":"thinking","content":"t","message_id":"m-1"}],
            ["emit", {"type":"message","role":"assistant","content":"t"}],
            ["emit", {"type":"tool.start","tool_call_id":"c-1","tool":"Shell"}],
            ["emit", {"type":"tool.update","tool_call_id":"c-1","content":"t"}],
            ["emit", {"type":"tool.end","tool_call_id":"c-1","content":"t"}],
            ["emit", {"type":"plan","entries":[{"content":"t"}]}],
            ["emit", {"type":"progress","message":"t"}],
            ["emit", {"type":"log","content":"t"}],
            ["emit", {"type":"error","message":"told as text","fatal":false}],
            ["emit", {"type":"custom","name":"t"}],
            ["emit", {"type":"usage","input_tokens":1}],
            ["emit", {"type":"context.usage","used_tokens":1}],
            ["emit", {"type":"rate_limit","window":"w","status":"s"}],
            ["emit", {"type":"working"}],
            ["emit", {"type":"output","content":"a","message_id":"m-2","_meta":{"n":1}}],
            ["ask", {"request_id":"r-1","tool":"Shell","description":"d","resource":"r","title":"t","input":{},
                "options":[{"id":"once","kind":"allow_once"}]}],
            ["emit", {"type":"permission.cancel","request_id":"r-1"}],
            ["complete", {"status":"failed","summary":"t","error":{"category":"auth","message":"no credentials"}}]
        ]),
    )?;
    t.demand_text(&turn, "a")?;
    t.settle()?;
    for seen in t.of(&s) {
        let kind = seen.kind().to_owned();
        let known = UP.contains(&kind.as_str());
        t.demand(
            known,
            "only the four types of the core",
            format!("`{kind}`"),
        )?;
        let beyond = seen
            .message()
            .iter()
            .find(|(key, value)| OF_EXTENSIONS.contains(&key.as_str()) && !value.is_null())
            .map(|(key, _)| key);
        t.demand(
            beyond.is_none(),
            format!("only the fields of the core on `{kind}`"),
            beyond.map_or("", |key| key),
        )?;
    }
    if full_hub::demand_offer(t, &t.lower(&s)?, "turns").is_ok() {
        let told = turn.on_channel("system").contains("no credentials");
        t.demand(
            told,
            "the failure of the turn as `output` on `system`",
            "no text",
        )?;
    }
    Ok(())
}
