//! Fields: passed on untouched, absent where they are wrong, bad where they are too long.

use super::super::{demand_unheard, full_hub};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[("H-EXT-25", long_ids), ("H-EXT-27", bad_meta)];

const ALL: &[&str] = &[
    "turns",
    "events",
    "usage",
    "options",
    "questions",
    "control",
];

fn bad_meta(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, ALL)?;
    let long = json!({"long":"m".repeat(66_000)});
    let turn = t.act(
        &s,
        &json!([
            ["emit", {"type":"output","content":"a","_meta":"text"}],
            ["emit", {"type":"output","content":"b","_meta":[1]}],
            ["emit", {"type":"output","content":"c","_meta":long}],
            ["complete"]
        ]),
    )?;
    t.demand_text(&turn, "abc")?;
    // A host may put its own there: an object, and not the long one.
    let bad = |meta: &Value| !meta.is_null() && (!meta.is_object() || meta.get("long").is_some());
    let passed = turn
        .messages
        .iter()
        .any(|seen| seen.get("_meta").is_some_and(bad));
    t.demand(!passed, "no `_meta`", "it was passed on")
}

fn long_ids(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, ALL)?;
    let (fits, long) = ("i".repeat(256), "i".repeat(257));
    let token = t.token();
    let ask = |id: &str, text: &str| json!(["ask", {"request_id":id,"tool":"Shell","description":text,"resource":"r"}]);
    let from = t.instruct(
        &s,
        &json!([
            ask(&long, &token),
            ["emit", {"type":"thinking","content":token,"message_id":long}],
            ["emit", {"type":"tool.start","tool_call_id":long,"tool":token}],
            ["emit", {"type":"thinking","content":"fits","message_id":fits}],
            ask(&fits, "fits"),
            ["wait", "permission.response", fits, 10_000],
            ["complete"]
        ]),
    )?;
    let fitting = |seen: &Seen| seen.is_with("permission.request", "request_id", &fits);
    t.expect_that(from, &s, "the request of 256 bytes", fitting)?;
    let lower = t.lower(&s)?;
    full_hub::demand_offer(t, &lower, "events")?;
    t.tell(
        &s,
        "permission.response",
        &json!({"request_id":fits,"approved":true}),
    )?;
    let turn = t.end_of(&s, from)?;
    let thought = turn
        .messages
        .iter()
        .any(|seen| seen.is_with("thinking", "message_id", &fits));
    t.demand(thought, "`thinking` with an id of 256 bytes", "none")?;
    t.demand_ends(&s, 1)?;
    demand_unheard(t, &token)?;
    let heard = t.of(&s).into_iter().find(|seen| {
        seen.text("description") == token
            || seen.text("tool") == token
            || seen.text("request_id") == long
    });
    let kind = heard.as_ref().map_or("", Seen::kind);
    t.demand(
        heard.is_none(),
        "nothing with an id of 257 bytes",
        format!("a `{kind}`"),
    )?;
    let answers = full_hub::demand_delivered(t, &lower, "permission.response", 1)?;
    t.demand(
        answers[0].text("request_id") == fits,
        "an answer to the request of 256 bytes",
        "to the other",
    )
}
