//! copilot, JSON output: one turn a process.

use super::{
    super::{
        expected::{Expected, Session, Text, Turn},
        recording::{Recording, Step},
    },
    category_of, number, one_turn,
};

pub(super) fn expect(recording: &Recording) -> Expected {
    let mut session = Session::default();
    let mut turn = Turn::default();
    let mut texts = Text::default();
    for step in &recording.steps {
        let line = match step {
            Step::Out(line) => line,
            Step::Signal => {
                texts.stop();
                continue;
            }
            Step::In(_) | Step::Closed => continue,
        };
        let of = |name: &str| line.str(&format!("/data/{name}")).unwrap_or_default();
        match line.str("/type").unwrap_or_default() {
            "assistant.message_delta" => texts.delta(of("messageId"), of("deltaContent")),
            "assistant.message" if !of("content").is_empty() => {
                texts.whole(of("messageId"), of("content"))
            }
            "assistant.turn_retry" => texts.retry(),
            "tool.execution_start" => {
                turn.tool(of("toolCallId")).name = Some(of("toolName").to_owned());
            }
            "tool.execution_complete" => {
                let success = line
                    .json
                    .pointer("/data/success")
                    .and_then(serde_json::Value::as_bool);
                // A command that fails is a success, with its exit code beside.
                let exit = number(&line.json, "/data/shellExecution/exitCode").unwrap_or(0);
                turn.tool(of("toolCallId")).failed = success.map(|success| !success || exit != 0);
            }
            "session.error" => {
                let by_word = ["authentication", "authorization"].contains(&of("errorType"));
                let status = number(&line.json, "/data/statusCode");
                let category = if by_word {
                    &["auth"]
                } else {
                    category_of(status)
                };
                turn.fails(category, Some(of("message").chars().take(24).collect()));
            }
            "result" => {
                session.native_id = line.str("/sessionId").map(str::to_owned);
                if turn.status.is_empty() && number(&line.json, "/exitCode") == Some(0) {
                    turn.status = vec!["completed"];
                }
            }
            _ => {}
        }
    }
    turn.text = texts.pieces();
    one_turn(recording, "one turn", session, turn)
}
