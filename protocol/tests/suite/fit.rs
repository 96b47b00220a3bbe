//! Messages cut to what their reader takes ([frame.11]).

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use trunkline_protocol::{
    AdapterMessage, Extensions, LargeMember, MIN_MAX_LINE, Sha256, TooLong, by_file, filled, fit,
    line_limit, wants_file,
};

use crate::examples::{EXAMPLES, Way, text};

fn fitted(
    line: &Value,
    agreed: Extensions,
    max_line: usize,
) -> Result<Vec<Map<String, Value>>, TooLong> {
    let message = AdapterMessage::parse(&line.to_string()).unwrap();
    let mut lines = Vec::new();
    let done = fit(&message, agreed, max_line, |line| lines.push(line));
    assert!(
        done.is_ok() || lines.is_empty(),
        "nothing is given of what is too long"
    );
    done?;
    let read = lines.into_iter().map(|line| {
        assert!(
            line.len() <= max_line + 1,
            "{} bytes for {max_line}",
            line.len() - 1
        );
        assert_eq!(
            line.iter().position(|byte| *byte == b'\n'),
            Some(line.len() - 1)
        );
        let text = std::str::from_utf8(&line).unwrap();
        AdapterMessage::parse(text.trim_end()).unwrap();
        serde_json::from_str(text).unwrap()
    });
    Ok(read.collect())
}

fn joined(lines: &[Map<String, Value>]) -> String {
    lines
        .iter()
        .filter_map(|line| line["content"].as_str())
        .collect()
}

proptest! {
    #[test]
    fn the_pieces_of_a_delta_join_to_the_whole(text in text(), times in 1..40_usize, max_line in 150..600_usize) {
        let text = text.repeat(times);
        for kind in ["output", "thinking", "tool.update"] {
            let line = json!({"type": kind, "session_id": "s-1", "turn_id": "t-1", "tool_call_id": "c", "content": text});
            prop_assert_eq!(&joined(&fitted(&line, Extensions::all(), max_line).unwrap()), &text);
        }
    }
}

#[test]
fn each_piece_is_of_the_same_message_and_what_comes_once_comes_first() {
    let long = "\u{1f600}\u{1}".repeat(1000);
    let line = json!({"type": "tool.update", "session_id": "s-1", "turn_id": "t-1", "tool_call_id": "c",
        "content": long, "stream": "stdout", "title": "T", "input": {"a": 1}, "message_id": "m", "_meta": {"k": 1}});
    let pieces = fitted(&line, Extensions::all(), 400).unwrap();
    assert!(pieces.len() > 10);
    assert_eq!(joined(&pieces), long);
    for (at, piece) in pieces.iter().enumerate() {
        for (name, value) in line
            .as_object()
            .unwrap()
            .iter()
            .filter(|(name, _)| *name != "content")
        {
            let once = ["title", "input", "_meta"].contains(&name.as_str());
            assert_eq!(
                piece.get(name),
                (at == 0 || !once).then_some(value),
                "{name} of piece {at}"
            );
        }
    }
}

#[test]
fn what_fits_stays_byte_for_byte() {
    for example in EXAMPLES
        .iter()
        .filter(|example| example.way == Way::AdapterToHost)
    {
        let message = AdapterMessage::parse(&example.full).unwrap();
        let whole = message.to_line();
        let mut lines = Vec::new();
        fit(&message, Extensions::all(), whole.len() - 1, |line| {
            lines.push(line)
        })
        .unwrap();
        assert_eq!(lines, [whole], "{}", example.kind);
    }
}

#[test]
fn the_largest_members_give_way_and_the_message_says_so() {
    let long = "y\n".repeat(5000);
    for (line, left, cut) in [
        (
            json!({"type": "tool.end", "tool_call_id": "c", "content": long, "data": {"a": long}}),
            "data",
            "content",
        ),
        (
            json!({"type": "tool.end", "tool_call_id": "c", "content": "done", "diffs": [{"path": "p", "patch": long}]}),
            "diffs",
            "",
        ),
        (
            json!({"type": "tool.start", "tool_call_id": "c", "tool": "T", "input": {"a": long}, "title": "t"}),
            "input",
            "",
        ),
        (
            json!({"type": "message", "role": "user", "content": long}),
            "",
            "content",
        ),
        (
            json!({"type": "custom", "name": "n", "data": [long]}),
            "data",
            "",
        ),
        (
            json!({"type": "turn.complete", "status": "completed", "result": long, "summary": "s"}),
            "result",
            "",
        ),
        (
            json!({"type": "permission.request", "request_id": "r", "tool": "T", "description": "d", "resource": "r",
            "input": {"a": long}}),
            "input",
            "",
        ),
    ] {
        let mut line = line;
        (line["session_id"], line["turn_id"]) = ("s-1".into(), "t-1".into());
        let fitted = fitted(&line, Extensions::all(), 600).unwrap();
        let [short] = &fitted[..] else {
            panic!("{fitted:?}")
        };
        assert_eq!(short["truncated"], true, "{short:?}");
        for (name, value) in line.as_object().unwrap() {
            match short.get(name) {
                None => assert_eq!(name, left, "{line}"),
                Some(kept) if name == cut => {
                    let (kept, whole) = (kept.as_str().unwrap(), value.as_str().unwrap());
                    assert!(whole.starts_with(kept) && kept.len() > 200, "{kept}");
                }
                Some(kept) => assert_eq!(kept, value),
            }
        }
    }
}

#[test]
fn without_the_extension_of_the_mark_a_text_ends_in_an_ellipsis() {
    let line = json!({"type": "error", "session_id": "s-1", "message": "y".repeat(5000)});
    let fitted = fitted(&line, Extensions::all(), 600).unwrap();
    assert!(
        fitted[0]["message"]
            .as_str()
            .unwrap()
            .ends_with("y\u{2026}"),
        "{fitted:?}"
    );
    let line =
        json!({"type": "turn.complete", "session_id": "s-1", "session_params": "y".repeat(5000)});
    let fitted = self::fitted(&line, Extensions::RESUME, 600).unwrap();
    assert_eq!(
        Value::from(fitted[0].clone()),
        json!({"type": "turn.complete", "session_id": "s-1"})
    );
}

#[test]
fn large_members_go_by_file_the_largest_first_and_come_back_whole() {
    let long = "y\n\u{e9}".repeat(3000);
    for (line, name) in [
        (
            json!({"type": "tool.end", "tool_call_id": "c", "content": long, "data": "short"}),
            "content",
        ),
        (
            json!({"type": "tool.start", "tool_call_id": "c", "tool": "T", "input": {"a": long}}),
            "input",
        ),
        (
            json!({"type": "message", "role": "user", "content": long}),
            "content",
        ),
        (
            json!({"type": "turn.complete", "status": "completed", "result": [long]}),
            "result",
        ),
    ] {
        let mut line = line;
        line["session_id"] = "s-1".into();
        let message = AdapterMessage::parse(&line.to_string()).unwrap();
        let (mut kept, mut lines) = (Vec::new(), Vec::new());
        let mut keep = |json: &str| {
            kept.push(json.to_owned());
            let sha256 = Sha256::of(json.as_bytes());
            Ok(LargeMember {
                file_path: "/x/1".to_owned(),
                size: json.len() as u64,
                sha256,
            })
        };
        assert!(wants_file(&message, Extensions::all(), 600), "{line}");
        let marked = if line["type"] == "turn.complete" {
            Extensions::TURNS
        } else {
            Extensions::EVENTS
        };
        for without in [marked, Extensions::LARGE, Extensions::OPTIONS] {
            assert!(
                !wants_file(&message, Extensions::all() - without, 600),
                "{line}"
            );
        }
        let short = by_file(message.clone(), 600, &mut keep);
        assert!(!wants_file(&short, Extensions::all(), 600));
        fit(&short, Extensions::all(), 600, |line| lines.push(line)).unwrap();
        let [written] = &lines[..] else {
            panic!("{}", lines.len())
        };
        assert!(written.len() <= 601);
        let read = AdapterMessage::parse(std::str::from_utf8(written).unwrap().trim_end()).unwrap();
        let [json] = &kept[..] else {
            panic!("{}", kept.len())
        };
        let large = read.large.as_deref().unwrap();
        assert_eq!(large.keys().collect::<Vec<_>>(), [name]);
        assert_eq!(large[name].sha256, Sha256::of(json.as_bytes()));
        assert_eq!(
            filled(&read.body, &[(name.to_owned(), json.clone())]),
            Ok(message.body)
        );
    }
}

#[test]
fn a_member_that_has_no_file_is_cut_and_a_member_of_another_type_is_not_put_in() {
    let line = json!({"type": "tool.end", "session_id": "s-1", "tool_call_id": "c", "content": "y".repeat(5000)});
    let message = AdapterMessage::parse(&line.to_string()).unwrap();
    let mut keep = |_: &str| Err(std::io::ErrorKind::StorageFull.into());
    let mut lines = Vec::new();
    let whole = by_file(message.clone(), 600, &mut keep);
    assert_eq!(whole, message);
    fit(&whole, Extensions::all(), 600, |line| lines.push(line)).unwrap();
    let cut: Value = serde_json::from_slice(&lines[0]).unwrap();
    assert_eq!(
        (&cut["truncated"], &cut["large"]),
        (&json!(true), &Value::Null)
    );
    assert!(
        filled(&message.body, &[("content".to_owned(), "7".to_owned())]).is_ok(),
        "it is absent ([msg.5])"
    );
    let input = trunkline_protocol::HostBody::from(trunkline_protocol::UserInput::default());
    filled(&input, &[("content".to_owned(), "7".to_owned())]).unwrap_err();
}

#[test]
fn what_a_person_decides_by_is_never_cut() {
    for member in ["tool", "description", "resource"] {
        let mut line = json!({"type": "permission.request", "session_id": "s-1", "request_id": "r", "tool": "T",
            "description": "d", "resource": "r", "title": "t", "input": [1]});
        line[member] = "y".repeat(5000).into();
        let TooLong { bytes } = fitted(&line, Extensions::all(), 600).unwrap_err();
        assert!((5000..5300).contains(&bytes), "{bytes}");
    }
}

#[test]
fn a_limit_is_never_below_what_every_reader_takes() {
    assert_eq!(line_limit(None), MIN_MAX_LINE);
    assert_eq!(line_limit(Some(10)), MIN_MAX_LINE);
    assert_eq!(line_limit(Some(5 << 20)), 5 << 20);
}
