//! What a core-only hub reads for sure: lines within 1 MiB ([frame.5]).

use trunkline_protocol::{
    AdapterBody, AdapterMessage, Envelope, MIN_MAX_LINE, Output, PermissionRequest,
};

/// The most bytes of text in one line, as they stand in it. Half of the line: the rest is room for all else.
const PIECE: usize = MIN_MAX_LINE / 2;

/// Gives the message as lines: an `output` that is too long for one as several, in order.
pub(super) fn lines(message: AdapterMessage, mut put: impl FnMut(Vec<u8>)) {
    let line = message.to_line();
    match message.body {
        AdapterBody::Output(output) if line.len() > MIN_MAX_LINE => {
            let mut rest = output.content.as_str();
            while !rest.is_empty() {
                let (piece, behind) = rest.split_at(fitting(rest));
                let mut piece = Output::text(piece);
                piece.channel.clone_from(&output.channel);
                let piece: AdapterMessage = Envelope::new(message.session_id.clone(), piece);
                put(piece.to_line());
                rest = behind;
            }
        }
        _ => put(line),
    }
}

/// Whether a request may be too long for a line of this length. It cannot be split.
pub(super) fn is_too_long(request: &PermissionRequest, max_line: usize) -> bool {
    let texts = [
        Some(&request.tool),
        request.description.as_ref(),
        request.resource.as_ref(),
    ];
    texts
        .into_iter()
        .flatten()
        .map(|text| written(text))
        .sum::<usize>()
        > max_line / 2
}

/// How many bytes of a text fit into a piece, one character at least.
fn fitting(text: &str) -> usize {
    let mut room = PIECE;
    for (at, c) in text.char_indices() {
        match room.checked_sub(width(c)) {
            Some(left) => room = left,
            None => return at,
        }
    }
    text.len()
}

fn written(text: &str) -> usize {
    text.chars().map(width).sum()
}

/// The bytes of a character in a JSON string, at most.
fn width(c: char) -> usize {
    match c {
        '"' | '\\' | '\n' | '\r' | '\t' => 2,
        '\0'..='\u{1f}' | '\u{2028}' | '\u{2029}' => 6,
        _ => c.len_utf8(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use trunkline_protocol::{Channel, SessionId};

    use super::*;

    fn pieces(content: &str) -> Vec<Value> {
        let id = SessionId::new("\u{1}".repeat(200)).unwrap();
        let mut all = Vec::new();
        lines(
            Envelope::new(id, Output::on(Channel::System, content.to_owned())),
            |line| {
                assert!(line.len() <= MIN_MAX_LINE, "{}", line.len());
                all.push(serde_json::from_slice(&line).unwrap());
            },
        );
        all
    }

    #[test]
    fn joined_pieces_are_the_whole_whatever_is_in_it() {
        for unit in ["x", "\0", "\"", "\u{1F600}", "a\u{2028}\n"] {
            let content = unit.repeat(2 * MIN_MAX_LINE);
            let pieces = pieces(&content);
            assert_eq!(
                pieces.len(),
                written(&content).div_ceil(PIECE - PIECE % written(unit)),
                "{unit:?}"
            );
            let joined: String = pieces
                .iter()
                .map(|piece| piece["content"].as_str().unwrap())
                .collect();
            assert_eq!(joined, content);
            assert!(pieces.iter().all(|piece| piece["channel"] == "system"));
        }
        assert_eq!(pieces("").len(), 1);
        assert_eq!(
            pieces(&"x".repeat(MIN_MAX_LINE - 2000)).len(),
            1,
            "what fits is not split"
        );
    }

    #[test]
    fn a_request_is_measured_as_it_is_written() {
        let is_too_long = |resource: String| {
            let line = json!({
                "type": "permission.request", "session_id": "s", "request_id": "r", "tool": "Bash", "description": "d",
                "resource": resource,
            });
            let message = AdapterMessage::parse(&line.to_string()).unwrap();
            let AdapterBody::PermissionRequest(request) = message.body else {
                panic!("{message:?}")
            };
            super::is_too_long(&request, MIN_MAX_LINE)
        };
        assert!(!is_too_long("x".repeat(PIECE - 100)));
        assert!(is_too_long("\0".repeat(PIECE / 6 + 1)));
    }
}
