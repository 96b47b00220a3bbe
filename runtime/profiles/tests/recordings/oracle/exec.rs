//! codex exec --json: one turn a process.

use serde_json::Value;

use super::{
    super::{
        expected::{Expected, Session, Text, Turn, Usage},
        recording::Recording,
    },
    category_of, in_words, number, one_turn, status_in, text,
};

pub(super) fn expect(recording: &Recording) -> Expected {
    let mut session = Session::default();
    let mut turn = Turn::default();
    let mut texts = Text::default();
    for line in recording.outputs() {
        let item = &line.json["item"];
        match line.str("/type").unwrap_or_default() {
            "thread.started" => session.native_id = line.str("/thread_id").map(str::to_owned),
            "item.started" | "item.completed" => {
                let id = text(item, "/id").unwrap_or_default();
                let completed = line.str("/type") == Some("item.completed");
                match text(item, "/type").unwrap_or_default() {
                    "agent_message" if completed => {
                        texts.whole(id, text(item, "/text").unwrap_or_default())
                    }
                    "command_execution" | "file_change" | "mcp_tool_call" | "web_search" => {
                        let tool = turn.tool(id);
                        if completed {
                            tool.failed = text(item, "/status").map(|status| status != "completed");
                        }
                    }
                    // A warning, not a failure.
                    "error" => turn
                        .warned
                        .extend(text(item, "/message").map(|told| told.chars().take(40).collect())),
                    _ => {}
                }
            }
            "turn.completed" => {
                turn.status = vec!["completed"];
                turn.usage = usage(&line.json["usage"], recording);
            }
            "turn.failed" => {
                let message = line.str("/error/message").unwrap_or_default();
                turn.fails(
                    category_of(status_in(message)),
                    Some(in_words(message).chars().take(24).collect()),
                );
            }
            _ => {}
        }
    }
    turn.text = texts.pieces();
    let resumed = recording.resumes().map(str::to_owned);
    let other = resumed.is_some() && session.native_id.is_some() && resumed != session.native_id;
    if other {
        // A name that matches nothing begins another thread, without a word of it.
        session.context = Some("lost");
    }
    one_turn(recording, "one turn", session, turn)
}

/// The reported usage covers the whole thread: the turn only if the thread is new.
fn usage(usage: &Value, recording: &Recording) -> Option<Usage> {
    if recording.argv.iter().any(|word| word == "resume") {
        return None;
    }
    let of = |name: &str| number(usage, name).map(|count| vec![count]);
    Some(Usage {
        input: of("/input_tokens")?,
        output: of("/output_tokens")?,
        optional: false,
    })
}
