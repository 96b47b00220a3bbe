//! kilo run --format json: one turn a process, and no last line.

use super::{
    super::{
        expected::{Expected, Session, Text, Turn, Usage},
        recording::{Exit, Recording},
    },
    category_of, number, one_turn, text,
};

pub(super) fn expect(recording: &Recording) -> Expected {
    let mut session = Session::default();
    let mut turn = Turn::default();
    let mut texts = Text::default();
    let mut input = 0;
    let mut cached = 0;
    let mut output = 0;
    let mut thought = 0;
    let mut cost = 0.0;
    let mut finished = false;
    let mut cut = false;
    for line in recording.outputs() {
        let part = &line.json["part"];
        session.native_id = line
            .str("/sessionID")
            .map(str::to_owned)
            .or(session.native_id);
        match line.str("/type").unwrap_or_default() {
            "text" => texts.whole(
                text(part, "/id").unwrap_or_default(),
                text(part, "/text").unwrap_or_default(),
            ),
            "tool_use" => {
                let tool = turn.tool(text(part, "/callID").unwrap_or_default());
                tool.name = text(part, "/tool").map(str::to_owned);
                // A command that fails is completed, with its exit code beside.
                let exit = number(part, "/state/metadata/exit").unwrap_or(0);
                tool.failed = Some(text(part, "/state/status") == Some("error") || exit != 0);
            }
            "step_finish" => {
                let of = |name: &str| number(part, &format!("/tokens/{name}")).unwrap_or(0);
                input += of("input");
                cached += of("cache/read") + of("cache/write");
                output += of("output");
                thought += of("reasoning");
                cost += part["cost"].as_f64().unwrap_or(0.0);
                finished = true;
                cut = text(part, "/reason") == Some("other");
            }
            "error" => {
                let error = &line.json["error"];
                let message = text(error, "/data/message")
                    .or(error.as_str())
                    .unwrap_or_default();
                let category = if message.contains("Model not found") {
                    &["model_not_found"]
                } else {
                    category_of(number(error, "/data/statusCode"))
                };
                turn.fails(category, Some(message.chars().take(20).collect()));
            }
            _ => {}
        }
    }
    turn.text = texts.pieces();
    if finished {
        if turn.status.is_empty() && matches!(recording.exit, Exit::Code(0)) {
            // A cut stream looks like success.
            turn.status = if cut {
                vec!["failed", "completed"]
            } else {
                vec!["completed"]
            };
        }
        turn.usage = Some(Usage {
            input: vec![input, input + cached],
            output: vec![output, output + thought],
            optional: turn.status != ["completed"],
        });
        turn.cost = Some(cost).filter(|cost: &f64| cost.is_finite());
    }
    one_turn(recording, "one turn", session, turn)
}
