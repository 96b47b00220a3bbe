//! H-MSG: messages that are odd, and messages that are none.

use serde_json::json;

use super::{demand_answer, demand_ends, demand_unheard};
use crate::{
    case::Case,
    clauses::{Basis, Level},
    trial::{Seen, Trial},
    verdict::Outcome,
};

/// The family.
pub(in crate::cases) static CASES: &[Case] = &[
    Case {
        id: "H-MSG-01",
        title: "unknown types",
        clause: "msg.2",
        basis: Basis::Choice,
        stimulus: "messages of unknown types inside a turn",
        expected: "ignored; the turn goes on",
        run: unknown_types,
        ..Case::NEW
    },
    Case {
        id: "H-MSG-02",
        title: "unknown fields and odd order",
        clause: "msg.2",
        basis: Basis::Choice,
        stimulus: "outputs with unknown fields, the type last",
        expected: "delivered",
        run: unknown_fields,
        ..Case::NEW
    },
    Case {
        id: "H-MSG-03",
        title: "no channel",
        clause: "msg.3",
        basis: Basis::Spec,
        stimulus: "outputs without channel, with null, with an empty one",
        expected: "all are the answer",
        run: no_channel,
        ..Case::NEW
    },
    Case {
        id: "H-MSG-04",
        title: "an unknown channel",
        clause: "msg.2",
        level: Level::Should,
        basis: Basis::Choice,
        stimulus: "an output on a channel of its own name",
        expected: "it is not lost",
        run: unknown_channel,
        ..Case::NEW
    },
    Case {
        id: "H-MSG-05",
        title: "output without content",
        clause: "msg.3",
        basis: Basis::Choice,
        stimulus: "outputs without content, with null, with a number, with an array",
        expected: "dropped and reported; nothing is invented",
        run: no_content,
        ..Case::NEW
    },
    Case {
        id: "H-MSG-06",
        title: "no type",
        clause: "msg.3",
        basis: Basis::Choice,
        stimulus: "messages without type, with null, with a number",
        expected: "dropped",
        run: no_type,
        ..Case::NEW
    },
    Case {
        id: "H-MSG-07",
        title: "empty output",
        clause: "turn.7",
        stimulus: "an output whose content is empty",
        expected: "the turn ends as usual",
        run: empty_output,
        ..Case::NEW
    },
];

fn unknown_types(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let turn = t.act(
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
    )?;
    demand_answer(t, &turn, "ab")?;
    t.settle()?;
    demand_ends(t, &s, 1)
}

fn unknown_fields(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let turn = t.act(
        &s,
        &json!([
            ["raw", "{\"x\":1,\"content\":\"a\",\"nested\":{\"type\":\"turn.complete\"},\"session_id\":\"{session_id}\",\"type\":\"output\"}\n"],
            ["emit", {"type":"output","content":"b","priority":null,"final":true,"Content":"no"}],
            ["complete", {"reason":"whatever","content":"no"}]
        ]),
    )?;
    demand_answer(t, &turn, "ab")
}

fn no_channel(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let line = |rest: &str| {
        format!("{{\"type\":\"output\",\"session_id\":\"{{session_id}}\",\"content\":\"a\"{rest}}}\n")
    };
    let turn = t.act(
        &s,
        &json!([
            ["raw", line("")],
            ["raw", line(",\"channel\":null")],
            ["raw", line(",\"channel\":\"\"")],
            ["raw", line(",\"channel\":\"stdout\"")],
            ["raw", line(",\"channel\":7")],
            ["complete"]
        ]),
    )?;
    demand_answer(t, &turn, "aaaaa")
}

fn unknown_channel(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let turn = t.act(&s, &json!([["say", token, "rainbow"], ["say", "b", "stderr"], ["complete"]]))?;
    let delivered = turn.messages.iter().any(|seen| seen.text("content").contains(&token));
    t.demand(delivered, "the output is delivered", "it is lost")
}

fn no_content(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let line = |rest: &str| format!("{{\"type\":\"output\",\"session_id\":\"{{session_id}}\"{rest}}}\n");
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
    demand_answer(t, &turn, "after")?;
    let answers = |seen: &&Seen| seen.kind() == "output" && seen.text("channel") != "system";
    let outputs = turn.messages.iter().filter(answers).count();
    t.demand(outputs == 1, "one output", format!("{outputs}"))?;
    let told = !turn.on_channel("system").is_empty();
    t.demand(told, "the session is told of the bad messages, on channel `system`", "it is not")
}

fn no_type(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let token = t.token();
    let line = |kind: &str| format!("{{{kind}\"session_id\":\"{{session_id}}\",\"content\":\"{token}\"}}\n");
    let turn = t.act(
        &s,
        &json!([
            ["raw", line("")],
            ["raw", line("\"type\":null,")],
            ["raw", line("\"type\":7,")],
            ["raw", line("\"type\":[\"output\"],")],
            ["say", "after"],
            ["complete"]
        ]),
    )?;
    demand_answer(t, &turn, "after")?;
    demand_unheard(t, &token)
}

fn empty_output(t: &mut Trial<'_>) -> Outcome {
    let s = t.open()?;
    let turn = t.act(&s, &json!([["say", ""], ["complete"]]))?;
    demand_answer(t, &turn, "")?;
    let turn = t.act(&s, &json!([["say", ""], ["say", "a"], ["say", ""], ["complete"]]))?;
    demand_answer(t, &turn, "a")
}
