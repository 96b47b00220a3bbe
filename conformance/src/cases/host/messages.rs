//! H-MSG: messages that are odd, and messages that are none.

use serde_json::json;

use super::demand_unheard;
use crate::{
    cases::CaseRun,
    trial::{Seen, Trial},
    verdict::Outcome,
};

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-MSG-01", unknown_types),
    ("H-MSG-02", unknown_fields),
    ("H-MSG-03", no_channel),
    ("H-MSG-04", unknown_channel),
    ("H-MSG-05", no_content),
    ("H-MSG-06", no_type),
    ("H-MSG-07", empty_output),
];

fn unknown_types(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    t.demand_answer(
        &s,
        &json!([
            ["say", "a"],
            ["emit", {"type":"future.thing","content":"no","data":{"deep":[1]}}],
            ["emit", {"type":"Output","content":"no"}],
            ["emit", {"type":"turn.completed"}],
            ["emit", {"type":"user.input","content":"no"}],
            ["emit", {"type":"session.close"}],
            ["emit", {"type":"","content":"no"}],
            ["say", "b"],
            ["complete"]
        ]),
        "ab",
    )?;
    t.demand_ends(&s, 1)
}

fn unknown_fields(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    t.demand_answer(
        &s,
        &json!([
            ["raw", "{\"x\":1,\"content\":\"a\",\"nested\":{\"type\":\"turn.complete\"},\"session_id\":\"{session_id}\",\"type\":\"output\"}\n"],
            ["emit", {"type":"output","content":"b","priority":null,"final":true,"Content":"no"}],
            ["complete", {"reason":"whatever","content":"no"}]
        ]), "ab")
}

fn no_channel(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let line = |rest: &str| {
        format!(
            "{{\"type\":\"output\",\"session_id\":\"{{session_id}}\",\"content\":\"a\"{rest}}}\n"
        )
    };
    t.demand_answer(
        &s,
        &json!([
            ["raw", line("")],
            ["raw", line(",\"channel\":null")],
            ["raw", line(",\"channel\":\"\"")],
            ["raw", line(",\"channel\":\"stdout\"")],
            ["raw", line(",\"channel\":7")],
            ["complete"]
        ]),
        "aaaaa",
    )
}

fn unknown_channel(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let turn = t.act(
        &s,
        &json!([
            ["say", token, "rainbow"],
            ["say", "b", "stderr"],
            ["complete"]
        ]),
    )?;
    let text: String = turn
        .of_kind("output")
        .map(|seen| seen.text("content"))
        .collect();
    let delivered = text.contains(&token);
    t.demand(delivered, "the output is delivered", "it is lost")
}

fn no_content(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let line =
        |rest: &str| format!("{{\"type\":\"output\",\"session_id\":\"{{session_id}}\"{rest}}}\n");
    let turn = t.act(
        &s,
        &json!([
            ["raw", line("")],
            ["raw", line(",\"content\":null")],
            ["raw", line(",\"content\":7")],
            ["raw", line(",\"content\":[\"x\"]")],
            ["raw", line(",\"content\":{\"text\":\"x\"}")],
            ["say", "after"],
            ["complete"]
        ]),
    )?;
    t.demand_text(&turn, "after")?;
    let invented =
        |seen: &&Seen| seen.text("content").is_empty() && seen.text("channel") != "system";
    let outputs = turn.of_kind("output").filter(invented).count();
    t.demand(
        outputs == 0,
        "no output without a text",
        format!("{outputs}"),
    )?;
    t.demand_told(&turn, "of the bad messages")
}

fn no_type(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let line = |kind: &str| {
        format!("{{{kind}\"session_id\":\"{{session_id}}\",\"content\":\"{token}\"}}\n")
    };
    t.demand_answer(
        &s,
        &json!([
            ["raw", line("")],
            ["raw", line("\"type\":null,")],
            ["raw", line("\"type\":7,")],
            ["raw", line("\"type\":[\"output\"],")],
            ["say", "after"],
            ["complete"]
        ]),
        "after",
    )?;
    demand_unheard(t, &token)
}

fn empty_output(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    t.demand_served(&s, "")?;
    t.demand_answer(
        &s,
        &json!([["say", ""], ["say", "a"], ["say", ""], ["complete"]]),
        "a",
    )
}
