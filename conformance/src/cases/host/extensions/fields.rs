//! Fields: passed on untouched, absent where they are wrong, bad where they are too long.

use super::super::{demand_unheard, full_hub};
use crate::cases::prelude::*;

/// The cases of this part of the family, and their functions.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-EXT-17", meta),
    ("H-EXT-24", wrong_types),
    ("H-EXT-25", long_ids),
    ("H-EXT-27", bad_meta),
    ("H-EXT-30", categories),
];

const ALL: &[&str] = &[
    "turns",
    "events",
    "usage",
    "options",
    "questions",
    "control",
];

fn meta(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, ALL)?;
    let upward = json!({"trace":"a\u{2028}b","deep":{"n":[1,2.5,null,true]},"type":"stop"});
    let downward = json!({"traceparent":"00-1-2-01","list":[{}]});
    let content = Trial::instructions(
        &s,
        &json!([
            ["emit", {"type":"output","content":"a","_meta":upward,"of_no_one":1}],
            ["complete", {"_meta":upward,"of_no_one":{"deep":1}}]
        ]),
    )?;
    let turn = t.fresh("turn");
    let from = t.tell(
        &s,
        "user.input",
        &json!({"turn_id":turn,"content":content,"_meta":downward,"of_no_one":[1]}),
    )?;
    let turn = t.end_of(&s, from)?;
    let lower = t.lower(&s)?;
    full_hub::demand_any_offer(t, &lower, ALL)?;
    let input = full_hub::demand_delivered(t, &lower, "user.input", 1)?.remove(0);
    let output = turn
        .of_kind("output")
        .find(|seen| seen.text("content") == "a")
        .cloned();
    let Some(output) = output else {
        return t.fail("the output", t.what_came(from, &s));
    };
    for (seen, wanted) in [
        (&input, &downward),
        (&output, &upward),
        (&turn.end, &upward),
    ] {
        let got = seen.value("_meta");
        t.demand(
            got == *wanted,
            format!("`_meta` of `{}` untouched: {wanted}", seen.kind()),
            got,
        )?;
        let passed = seen.get("of_no_one").is_some();
        t.demand(
            !passed,
            format!("no unknown field of `{}`", seen.kind()),
            "it was passed on",
        )?;
    }
    Ok(())
}

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

fn wrong_types(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, ALL)?;
    let request = json!({
        "request_id":"r-1","tool":"Shell","description":"d","resource":"r",
        "title":5,"expires_at":7,"tool_call_id":[],"options":[{"id":"once"},{"label":"without an id"}]
    });
    let of_turn = json!({
        "status":9,"stop_reason":[],"summary":{"a":1},"duration_ms":"long","num_turns":-1,"usage":7,"delivered":true
    });
    let from = t.instruct(
        &s,
        &json!([
            ["emit", {"type":"output","content":"a","channel":7,"message_id":[],"history":"yes"}],
            ["emit", {"type":"thinking","content":"b","message_id":7,"parent_tool_call_id":{}}],
            ["emit", {"type":"plan","entries":[{"content":"c","status":5,"priority":[]}]}],
            ["ask", request],
            ["wait", "permission.response", "r-1", 10_000],
            ["say", "z"],
            ["complete", of_turn]
        ]),
    )?;
    let request = t.expect(from, &s, "permission.request")?;
    let lower = t.lower(&s)?;
    for extension in ["turns", "events", "control"] {
        full_hub::demand_offer(t, &lower, extension)?;
    }
    t.tell(
        &s,
        "permission.response",
        &json!({"request_id":"r-1","approved":true}),
    )?;
    let turn = t.end_of(&s, from)?;
    t.demand_text(&turn, "az")?;
    let find = |kind: &str| turn.messages.iter().find(|seen| seen.kind() == kind);
    let Some(thinking) = find("thinking") else {
        return t.fail("`thinking`", t.what_came(from, &s));
    };
    let absent: [(&Seen, &[&str]); 2] = [
        (
            &request,
            &["title", "expires_at", "tool_call_id", "options"],
        ),
        (thinking, &["message_id", "parent_tool_call_id"]),
    ];
    for (seen, members) in absent {
        for member in members {
            let got = seen.value(member);
            t.demand(
                got.is_null(),
                format!("`{member}` of `{}` absent", seen.kind()),
                got,
            )?;
        }
    }
    let status = turn.end.value("status");
    t.demand(
        status.is_null() || status == "completed",
        "a turn that is completed",
        status,
    )?;
    // A host may know these by itself.
    let (took, delivered) = (turn.end.get("duration_ms"), turn.end.get("delivered"));
    let own = !took.is_some_and(Value::is_string) && !delivered.is_some_and(Value::is_boolean);
    t.demand(
        own,
        "no `duration_ms` and `delivered` of the adapter",
        format!("{took:?}, {delivered:?}"),
    )?;
    for (member, given) in [
        ("stop_reason", json!([])),
        ("summary", json!({"a":1})),
        ("num_turns", json!(-1)),
        ("usage", json!(7)),
    ] {
        let got = turn.end.value(member);
        t.demand(
            got != given,
            format!("no `{member}` of the adapter's `turn.complete`"),
            got,
        )?;
    }
    let Some(plan) = find("plan") else {
        return t.fail("`plan`", t.what_came(from, &s));
    };
    let entries = plan.list("entries").len();
    t.demand(entries == 1, "a plan of one entry", entries)
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

fn categories(t: &mut Trial) -> Outcome {
    let s = full_hub::open_agreeing(t, ALL)?;
    for (given, wanted) in [("rate_limit", Some("rate_limit")), ("of-nobody", None)] {
        let error = json!({"category":given,"message":"asked too often","code":"429"});
        let turn = t.act(
            &s,
            &json!([["complete", {"status":"failed","error":error}]]),
        )?;
        full_hub::demand_offer(t, &t.lower(&s)?, "turns")?;
        let got = turn.end.value("error");
        let category = got["category"]
            .as_str()
            .filter(|category| *category != "other");
        t.demand(
            category == wanted,
            format!("for {given:?} the category {wanted:?}"),
            &got,
        )?;
        let whole = got["message"] == "asked too often" && turn.end.text("status") == "failed";
        t.demand(whole, "the failure and its text", &got)?;
    }
    Ok(())
}
