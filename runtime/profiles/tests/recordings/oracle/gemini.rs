//! gemini, stream-json: one turn a process.

use super::{
    super::{
        expected::{Expected, Piece, Session, Turn, Usage},
        recording::{Exit, Recording},
    },
    category_of, number, one_turn, status_in, text,
};

/// The CLI's exit codes without a key, and when the turns are used up.
const NO_KEY: i32 = 41;
const TURNS_USED_UP: i32 = 53;

pub(super) fn expect(recording: &Recording) -> Expected {
    let mut session = Session::default();
    let mut turn = Turn::default();
    // Text before a tool call, and after.
    let mut pieces = vec![String::new()];
    let stop = recording
        .steps
        .iter()
        .position(|step| matches!(step, super::super::recording::Step::Signal));
    let mut late = String::new();
    for (at, step) in recording.steps.iter().enumerate() {
        let super::super::recording::Step::Out(line) = step else {
            continue;
        };
        match line.str("/type").unwrap_or_default() {
            "init" => session.native_id = line.str("/session_id").map(str::to_owned),
            "message" if line.str("/role") == Some("assistant") => {
                let content = line.str("/content").unwrap_or_default();
                match stop {
                    Some(stop) if at > stop => late.push_str(content),
                    _ => pieces
                        .last_mut()
                        .into_iter()
                        .for_each(|piece| piece.push_str(content)),
                }
            }
            "tool_use" => {
                turn.tool(line.str("/tool_id").unwrap_or_default()).name =
                    line.str("/tool_name").map(str::to_owned);
                pieces.push(String::new());
            }
            "tool_result" => {
                let failed = line.str("/status") != Some("success");
                turn.tool(line.str("/tool_id").unwrap_or_default()).failed = Some(failed);
            }
            "error" => turn.told.extend(line.str("/message").map(str::to_owned)),
            "result" => result(&mut turn, &line.json),
            _ => {}
        }
    }
    // A stream that is cut is begun again, without a word of it: both attempts, or the last.
    let doubled = |piece: &str| {
        let half = piece.len() / 2;
        piece.is_char_boundary(half) && !piece.is_empty() && piece[..half] == piece[half..]
    };
    for piece in pieces.into_iter().filter(|piece| !piece.is_empty()) {
        let mut ways = vec![piece.clone()];
        if turn.status == ["failed"] && doubled(&piece) {
            ways.push(piece[..piece.len() / 2].to_owned());
        }
        turn.text.push(Piece {
            ways,
            optional: false,
        });
    }
    if !late.is_empty() {
        turn.text.push(Piece::optional(late));
    }
    match recording.exit {
        Exit::Code(NO_KEY) => turn.fails(&["auth"], []),
        Exit::Code(TURNS_USED_UP) => turn.status = vec!["limit", "failed"],
        Exit::Code(_) | Exit::Signal { .. } | Exit::Never => {}
    }
    one_turn(recording, "one turn", session, turn)
}

fn result(turn: &mut Turn, line: &serde_json::Value) {
    if text(line, "/status") == Some("success") {
        turn.status = vec!["completed"];
    } else {
        let message = text(line, "/error/message").unwrap_or_default();
        turn.fails(category_of(status_in(message)), []);
    }
    let of = |name: &str| number(line, name).map(|count| vec![count]);
    if let (Some(input), Some(output)) = (of("/stats/input_tokens"), of("/stats/output_tokens")) {
        let optional = turn.status != ["completed"];
        turn.usage = Some(Usage {
            input,
            output,
            optional,
        });
    }
}
