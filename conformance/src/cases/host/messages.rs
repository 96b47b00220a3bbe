//! H-MSG: messages that are odd, and messages that are none.

use super::demand_unheard;
use crate::cases::prelude::*;

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-MSG-04", unknown_channel),
    ("H-MSG-05", no_content),
    ("H-MSG-06", no_type),
];

fn unknown_channel(t: &mut Trial) -> Outcome {
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

fn no_content(t: &mut Trial) -> Outcome {
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
    t.demand(outputs == 0, "no output without a text", outputs)?;
    t.demand_told(&turn, "of the bad messages")
}

fn no_type(t: &mut Trial) -> Outcome {
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
