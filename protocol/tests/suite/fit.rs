//! Messages cut to what their reader takes ([frame.11]).

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use trunkline_protocol::{
    AdapterKind, AdapterMessage, Extensions, HostKind, HostMessage, HubKind, HubMessage,
    LargeMember, MIN_MAX_LINE, Recipient, RelayKind, RelayMessage, Sha256, TooLong, ToolsAsOutput,
    filled, fit, line_limit, move_to_files, wants_file,
};

use crate::examples::{EXAMPLES, Example, Way, text};

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
                    let kept = kept.as_str().unwrap();
                    let whole = value.as_str().unwrap();
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
        let mut kept = Vec::new();
        let mut lines = Vec::new();
        let mut keep = |json: &str| {
            kept.push(json.to_owned());
            let sha256 = Sha256::digest(json.as_bytes());
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
        let short = move_to_files(message.clone(), 600, &mut keep);
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
        assert_eq!(large[name].sha256, Sha256::digest(json.as_bytes()));
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
    let whole = move_to_files(message.clone(), 600, &mut keep);
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

const IDS: [&str; 6] = [
    "session_id",
    "turn_id",
    "request_id",
    "message_id",
    "tool_call_id",
    "parent_tool_call_id",
];

/// Longer than the shortest form of any message, with ids as long as they may be.
const SHORT_LINE: usize = 16 * 1024;

/// Members that may not give way and can be long, by type of message. A message that ends or
/// answers something has none.
fn kept_adapter(kind: AdapterKind) -> &'static [&'static str] {
    use AdapterKind as K;
    match kind {
        K::Output => &["channel"],
        K::Message => &["role"],
        K::Custom => &["name"],
        K::Plan => &["entries"],
        K::FileOutput => &["file_path"],
        K::PermissionRequest => &["tool", "description", "resource", "options"],
        K::InputRequest => &["prompt", "fields"],
        K::SessionReady => &["extensions"],
        K::AgentsListResult => &["agents"],
        // Ends and answers.
        K::TurnComplete
        | K::SessionClosed
        | K::PermissionCancel
        | K::SteerResult
        | K::ToolEnd
        | K::SessionInfo
        | K::SessionsListResult
        | K::Pong => &[],
        // All of their members may be cut.
        K::Thinking
        | K::ToolStart
        | K::ToolUpdate
        | K::Progress
        | K::Log
        | K::Error
        | K::Usage
        | K::ContextUsage
        | K::Compaction
        | K::RateLimit
        | K::Working => &[],
    }
}

/// [`kept_adapter`] for the other direction; `None`: all of its members.
fn kept_host(kind: HostKind) -> Option<&'static [&'static str]> {
    use HostKind as K;
    match kind {
        K::SessionStart | K::UserInput | K::SessionUpdate | K::SessionsList | K::AgentsList => None,
        K::FileInput => Some(&["file_path"]),
        // Ends and answers.
        K::PermissionResponse | K::InputResponse | K::Stop | K::SessionClose => Some(&[]),
        K::FlowPause | K::FlowResume | K::Ping => Some(&[]),
    }
}

fn kept_hub(kind: HubKind) -> Option<&'static [&'static str]> {
    use HubKind as K;
    match kind {
        K::SessionAttach
        | K::SessionDetach
        | K::SessionHistory
        | K::SessionEdit
        | K::SessionFork => None,
    }
}

fn kept_relay(kind: RelayKind) -> &'static [&'static str] {
    use RelayKind as K;
    match kind {
        K::SessionAttached => &["agent_id"],
        K::TurnBegin | K::InputSteered => &["content"],
        // Ends and answers.
        K::SessionRefused
        | K::InputResult
        | K::SessionHistoryResult
        | K::SessionEditResult
        | K::RequestDecided => &[],
        K::Lag | K::HostFact | K::FileDelivered | K::StopRequested | K::SessionEdited => &[],
    }
}

/// A value of the same type that is at least `size` bytes long. `None` for what has a length of its
/// own: ids, numbers, booleans, and what is bounded where it is read.
fn huge(name: &str, value: &Value, size: usize) -> Option<Value> {
    if name == "type" || name == "_meta" || name == "large" || IDS.contains(&name) {
        return None;
    }
    match value {
        Value::String(_) => Some(
            format!("{}\u{e9}\n\"", "x".repeat(60))
                .repeat(size / 64)
                .into(),
        ),
        Value::Array(items) => {
            let first = items.first()?;
            let times = size / first.to_string().len() + 1;
            Some(vec![first.clone(); times].into())
        }
        Value::Object(members) => {
            let mut members = members.clone();
            let (name, value) = members
                .iter()
                .find_map(|(name, value)| Some((name.clone(), huge(name, value, size)?)))?;
            members.insert(name, value);
            Some(members.into())
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => None,
    }
}

/// The lines for a message, and the members that gave way.
fn fit_any(
    way: Way,
    line: &str,
    max_line: usize,
) -> (Vec<Vec<u8>>, Result<Vec<&'static str>, TooLong>) {
    let mut lines = Vec::new();
    let push = |line| lines.push(line);
    let all = Extensions::all();
    let fitted = match way {
        Way::AdapterToHost => fit(&AdapterMessage::parse(line).unwrap(), all, max_line, push),
        Way::HostToAdapter => fit(&HostMessage::parse(line).unwrap(), all, max_line, push),
        Way::HubToRelay => fit(&HubMessage::parse(line).unwrap(), all, max_line, push),
        Way::RelayToHub => fit(&RelayMessage::parse(line).unwrap(), all, max_line, push),
    };
    (lines, fitted)
}

/// Returns the members that make a message of this type too long for a line, if only these are
/// known to.
fn kept(example: &Example) -> Option<&'static [&'static str]> {
    let kind = example.kind;
    match example.way {
        Way::AdapterToHost => Some(kept_adapter(AdapterKind::named(kind).unwrap())),
        Way::HostToAdapter => kept_host(HostKind::named(kind).unwrap()),
        Way::HubToRelay => kept_hub(HubKind::named(kind).unwrap()),
        Way::RelayToHub => Some(kept_relay(RelayKind::named(kind).unwrap())),
    }
}

/// Checks what is written of a message with members of more than the limit.
fn assert_fits(example: &Example, whole: &Map<String, Value>, long: &[String], max_line: usize) {
    let what = format!("{} with a long {long:?} in {max_line}", example.kind);
    let decides = |name: &String| kept(example).is_none_or(|kept| kept.contains(&name.as_str()));
    let must_fail = long.iter().any(decides);
    let line = Value::from(whole.clone()).to_string();
    let (lines, fitted) = fit_any(example.way, &line, max_line);
    let lost = match fitted {
        Err(TooLong { bytes }) => {
            assert!(must_fail && bytes > max_line && lines.is_empty(), "{what}");
            return;
        }
        Ok(lost) => lost,
    };
    assert!(!must_fail, "{what}: a member that decides was cut");
    let mut joined = String::new();
    for line in &lines {
        assert!(
            line.len() <= max_line + 1,
            "{what}: {} bytes",
            line.len() - 1
        );
        let text = std::str::from_utf8(line).unwrap();
        let read: Map<String, Value> = serde_json::from_str(text).unwrap();
        let rewritten = example.way.rewrite(text.trim_end()).unwrap();
        let is_read = serde_json::from_str::<Map<String, Value>>(&rewritten).unwrap() == read;
        assert!(is_read, "{what}: it is read otherwise than it was written");
        joined.push_str(
            read.get("content")
                .and_then(Value::as_str)
                .unwrap_or_default(),
        );
        for (name, value) in whole {
            if name == "type" || IDS.contains(&name.as_str()) {
                assert_eq!(read.get(name), Some(value), "{what}");
            }
        }
    }
    let first: Map<String, Value> = serde_json::from_slice(&lines[0]).unwrap();
    for (name, value) in whole {
        let is_whole = first.get(name) == Some(value)
            || name == "content" && Some(joined.as_str()) == value.as_str();
        let is_mark = matches!(&**name, "truncated" | "approved" | "cancelled" | "error");
        assert!(
            is_whole || is_mark || lost.contains(&name.as_str()),
            "{what}: {name} gave way and is not named"
        );
    }
    if !lost.is_empty() && whole.contains_key("truncated") {
        assert_eq!(first["truncated"], true, "{what}");
    }
}

/// The members of a full message with the longest ids, and those that can be long with a value of
/// `size` bytes.
fn long_members(example: &Example, size: usize) -> (Map<String, Value>, Vec<(String, Value)>) {
    let longest_id = "\u{1}".repeat(256);
    let mut members = example.full_members();
    for (name, value) in &mut members {
        if IDS.contains(&name.as_str()) && *value != "" {
            *value = longest_id.clone().into();
        }
    }
    let mut long = Vec::new();
    for (name, value) in &members {
        let (Some(probe), Some(value)) = (huge(name, value, 512), huge(name, value, size)) else {
            continue;
        };
        let mut minimal = example.minimal_members();
        minimal.insert(name.clone(), probe);
        // Of names of the protocol an unknown one counts as absent ([msg.2]).
        let read = example.way.rewrite(&Value::from(minimal).to_string());
        if read.unwrap().len() >= 512 {
            long.push((name.clone(), value));
        }
    }
    (members, long)
}

#[test]
fn every_message_fits_whatever_is_long_in_it_or_is_refused_whole() {
    for example in EXAMPLES.iter() {
        let size = 2 * SHORT_LINE;
        let (mut members, long) = long_members(example, size);
        for (at, (name, value)) in long.iter().enumerate() {
            let mut members = members.clone();
            members.insert(name.clone(), value.clone());
            for max_line in [SHORT_LINE + at * 509, size - 7] {
                assert_fits(example, &members, std::slice::from_ref(name), max_line);
            }
        }
        let names: Vec<String> = long.iter().map(|(name, _)| name.clone()).collect();
        members.extend(long);
        for max_line in [SHORT_LINE, size - 7] {
            assert_fits(example, &members, &names, max_line);
        }
    }
}

#[test]
fn an_end_with_members_of_2_mib_fits_into_the_shortest_line_that_a_reader_accepts() {
    for kind in [
        "turn.complete",
        "session.closed",
        "permission.response",
        "request.decided",
    ] {
        let example = EXAMPLES.iter().find(|example| example.kind == kind);
        let example = example.unwrap();
        let (mut members, long) = long_members(example, 2 * MIN_MAX_LINE);
        let names: Vec<String> = long.iter().map(|(name, _)| name.clone()).collect();
        members.extend(long);
        assert_fits(example, &members, &names, MIN_MAX_LINE);
    }
}

#[test]
fn the_category_of_a_failure_stays_and_its_message_is_cut() {
    for kind in ["turn.complete", "session.closed"] {
        let line = json!({"type": kind, "session_id": "s-1", "error": {"category": "process_exit",
            "message": "y\n".repeat(5000), "code": "z".repeat(500), "retry_at": "2026-03-01T12:00:00Z"}});
        let short = &fitted(&line, Extensions::all(), 600).unwrap()[0];
        assert_eq!(short["error"]["category"], "process_exit");
        let message = short["error"]["message"].as_str().unwrap();
        assert!(
            message.starts_with("y\ny\n") && message.len() > 200,
            "{message}"
        );
    }
}

#[test]
fn an_approval_that_would_lose_what_was_chosen_denies() {
    let long = "y".repeat(5000);
    for (member, value) in [("option_id", json!(long)), ("updated_input", json!([long]))] {
        let mut line = json!({"type": "permission.response", "session_id": "s-1", "request_id": "r", "approved": true});
        line[member] = value;
        let (lines, lost) = fit_any(Way::HostToAdapter, &line.to_string(), 600);
        let read: Value = serde_json::from_slice(&lines[0]).unwrap();
        assert_eq!(
            (read["approved"].as_bool(), lost),
            (Some(false), Ok(vec![member]))
        );
    }
    let line = json!({"type": "permission.response", "session_id": "s-1", "request_id": "r", "approved": true,
        "message": long});
    let (lines, _) = fit_any(Way::HostToAdapter, &line.to_string(), 600);
    let read: Value = serde_json::from_slice(&lines[0]).unwrap();
    assert_eq!(
        read["approved"], true,
        "it says nothing of what was approved"
    );
    let line = json!({"type": "input.response", "session_id": "s-1", "request_id": "r", "values": {"answer": long}});
    let (lines, _) = fit_any(Way::HostToAdapter, &line.to_string(), 600);
    let read: Value = serde_json::from_slice(&lines[0]).unwrap();
    assert_eq!(
        (&read["cancelled"], &read["values"]),
        (&json!(true), &Value::Null)
    );
}

#[test]
fn a_recipient_gets_an_error_in_the_place_of_what_cannot_be_cut() {
    let line = json!({"type": "plan", "session_id": "s-1", "turn_id": "t-1", "entries": [{"content": "y".repeat(5000)}]});
    for (agreed, kind, text) in [
        (Extensions::all(), "error", "message"),
        (Extensions::all() - Extensions::EVENTS, "", ""),
    ] {
        let recipient = Recipient {
            agreed,
            tools: ToolsAsOutput::No,
            max_line: 600,
        };
        let message = AdapterMessage::parse(&line.to_string()).unwrap();
        let mut lines = Vec::new();
        let written = recipient.write(message, |line| lines.push(line));
        if kind.is_empty() {
            assert_eq!(
                (written, lines.len()),
                (Ok(Vec::new()), 0),
                "it is not sent anyway"
            );
            continue;
        }
        assert!(written.is_err());
        let [error] = &lines[..] else {
            panic!("{}", lines.len())
        };
        let error: Value = serde_json::from_slice(error).unwrap();
        assert_eq!(
            (
                &error["type"],
                &error["turn_id"],
                &error["category"],
                &error["fatal"]
            ),
            (
                &json!(kind),
                &json!("t-1"),
                &json!("oversize"),
                &json!(false)
            )
        );
        assert!(
            error[text].as_str().unwrap().starts_with("a plan of 5"),
            "{error}"
        );
    }
}

#[test]
fn a_text_beside_a_delta_leaves_room_for_it() {
    let line = json!({"type": "tool.update", "session_id": "s", "tool_call_id": "c", "content": "\u{1f600}".repeat(40),
        "title": "y".repeat(5000)});
    for max_line in 200..230 {
        let pieces = fitted(&line, Extensions::all(), max_line).unwrap();
        assert_eq!(joined(&pieces), "\u{1f600}".repeat(40), "{max_line}");
    }
}

#[test]
fn an_id_never_gives_way() {
    let line = json!({"type": "steer.result", "session_id": "s", "message_id": "m".repeat(256), "delivered": true,
        "reason": "why"});
    let TooLong { bytes } = fitted(&line, Extensions::all(), 200).unwrap_err();
    assert!((300..400).contains(&bytes), "{bytes}");
}
