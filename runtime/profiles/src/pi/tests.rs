//! Runs in the shapes of pi 0.73, read line by line, and what a session is refused for.

use serde_json::Value;
use tokio::time::Instant;
use trunkline_sdk::protocol::AdapterBody;

use super::translate::{PiEvent, PiReader};
use super::turn::PiTurn;
use crate::agent::deadlines::{Deadlines, Watch};
use crate::agent::lines::AgentLine;
use crate::agent::turn::Engine;
use crate::agent::turn::engine_test::Input::Says;
use crate::agent::turn::engine_test::play;

fn read(lines: &str) -> (Vec<String>, PiReader) {
    let mut reader = PiReader::default();
    let mut out = Vec::new();
    for line in lines.lines().filter(|line| !line.trim().is_empty()) {
        reader.line(&serde_json::from_str::<Value>(line).unwrap(), &mut out);
    }
    (out.iter().map(shown).collect(), reader)
}

fn shown(told: &PiEvent) -> String {
    match told {
        PiEvent::Event(AdapterBody::Output(output)) => format!("output {}", output.content),
        PiEvent::Event(AdapterBody::ToolStart(start)) => format!("start {}", start.tool),
        PiEvent::Event(AdapterBody::ToolUpdate(update)) => {
            format!("update {:?}", update.content.as_deref().unwrap_or_default())
        }
        PiEvent::Event(AdapterBody::ToolEnd(end)) => {
            format!(
                "end {:?} {:?}",
                end.content.as_deref().unwrap_or_default(),
                end.is_error
            )
        }
        PiEvent::Event(AdapterBody::Progress(progress)) => format!("progress {}", progress.message),
        told => format!("{told:?}"),
    }
}

#[test]
fn an_answer_without_tokens_broke_off_where_tokens_are_counted() {
    let message = |text: &str, tokens: u64| {
        format!(
            r#"{{"type":"message_end","message":{{"role":"assistant","content":[{{"type":"text","text":"{text}"}}],"stopReason":"stop","usage":{{"input":{tokens},"output":{tokens},"totalTokens":{tokens}}}}}}}"#
        )
    };
    let ended = |messages: &[String]| read(&messages.join("\n")).1.end();
    let error = ended(&[message("whole", 3), message("partial", 0)])
        .error
        .unwrap();
    assert_eq!(error.category, Some(trunkline_sdk::Category::Overloaded));
    for whole in [
        vec![message("uncounted", 0)],
        vec![message("a", 3), message("", 0)],
        vec![message("a", 0), message("b", 3)],
    ] {
        assert_eq!(ended(&whole).error, None);
    }
}

#[test]
fn a_turn_with_a_tool_is_told_once_and_adds_up() {
    let lines = r#"
        {"id":"prompt","type":"response","command":"prompt","success":true}
        {"type":"agent_start"}
        {"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"list"}]}}
        {"type":"message_start","message":{"role":"assistant","content":[]}}
        {"type":"message_update","assistantMessageEvent":{"type":"text_delta","contentIndex":0,"delta":"I look."}}
        {"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"I look."}],"model":"m","stopReason":"toolUse","usage":{"input":2,"output":3,"cacheRead":10,"cacheWrite":0,"totalTokens":15,"cost":{"total":0.25}}}}
        {"type":"tool_execution_start","toolCallId":"c1","toolName":"bash","args":{"command":"ls"}}
        {"type":"tool_execution_update","toolCallId":"c1","partialResult":{"content":[{"type":"text","text":"a\n"}]}}
        {"type":"tool_execution_update","toolCallId":"c1","partialResult":{"content":[{"type":"text","text":"a\nb\n"}]}}
        {"type":"tool_execution_end","toolCallId":"c1","result":{"content":[{"type":"text","text":"a\nb\n"}]},"isError":false}
        {"type":"message_start","message":{"role":"assistant","content":[]}}
        {"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Two."}],"model":"m","stopReason":"stop","usage":{"input":1,"output":1,"totalTokens":2,"cost":{"total":0.5}}}}
        {"type":"agent_end","messages":[]}"#;
    let (told, reader) = read(lines);
    assert_eq!(
        told[1..],
        [
            "output I look.",
            "start bash",
            r#"update "a\n""#,
            r#"update "b\n""#,
            r#"end "a\nb\n" Some(false)"#,
            "output Two.",
            "Rests",
        ]
    );
    let end = reader.end();
    let usage = end.usage.unwrap();
    assert_eq!(
        (usage.input_tokens, usage.output_tokens, usage.cost_usd),
        (Some(13), Some(4), Some(0.75))
    );
    assert_eq!((end.num_turns, end.model.as_deref()), (Some(2), Some("m")));
}

#[test]
fn a_retry_that_follows_is_waited_for_and_its_failure_counts() {
    let failed = r#"{"type":"message_end","message":{"role":"assistant","stopReason":"error","errorMessage":"429 slow down"}}
        {"type":"agent_end"}
        {"type":"auto_retry_start","attempt":1,"maxAttempts":3,"delayMs":1,"errorMessage":"429 slow down"}"#;
    let (told, reader) = read(failed);
    assert!(reader.signs.is_pending());
    assert_eq!(
        told,
        ["Rests", "progress attempt 1 of 3 failed: 429 slow down"]
    );

    let over = failed.to_owned()
        + r#"
        {"type":"auto_retry_end","success":false,"attempt":3,"finalError":"429 slow down"}"#;
    let (_, reader) = read(&over);
    assert!(!reader.signs.is_pending());
    let error = reader.end().error.unwrap();
    assert_eq!(error.category, Some(trunkline_sdk::Category::RateLimit));

    let mended = failed.to_owned()
        + r#"
        {"type":"agent_start"}
        {"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Well."}],"stopReason":"stop"}}
        {"type":"auto_retry_end","success":true,"attempt":2}"#;
    assert_eq!(read(&mended).1.end().error, None);
}

#[test]
fn an_abort_is_a_stop() {
    let aborted = r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"aborted"}}"#;
    let status = read(aborted).1.end().status;
    assert_eq!(status, Some(trunkline_sdk::Status::Stopped));
}

#[test]
fn any_shape_is_survived() {
    let odd = [
        Value::Null,
        1.into(),
        "x".into(),
        serde_json::json!([1]),
        serde_json::json!({"a": {}}),
    ];
    for kind in [
        "response",
        "message_update",
        "message_end",
        "tool_execution_update",
        "tool_execution_end",
        "auto_retry_end",
        "extension_ui_request",
        "compaction_end",
    ] {
        for value in &odd {
            let mut line = serde_json::json!({ "type": kind });
            for name in [
                "message",
                "assistantMessageEvent",
                "partialResult",
                "result",
                "usage",
                "id",
                "method",
            ] {
                line[name] = value.clone();
                let mut reader = PiReader::default();
                reader.line(&line, &mut Vec::new());
                // Any verdict will do.
                drop(reader.end());
            }
        }
    }
}

/// Lines of a turn after its prompt.
const BEGIN: &str = r#"{"type":"agent_start"}"#;
const END: &str = r#"{"type":"agent_end"}"#;
const COMPACTS: &str = r#"{"type":"compaction_start","reason":"overflow"}"#;
const GOES_ON: &str = r#"{"type":"compaction_end","reason":"overflow","willRetry":true}"#;
const COMPACTED: &str = r#"{"type":"compaction_end","reason":"threshold","willRetry":false}"#;
const OVERFLOW: &str = r#"{"type":"message_end","message":{"role":"assistant","stopReason":"error","errorMessage":"prompt is too long"}}"#;
const TEXT: &str = r#"{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Well."}],"stopReason":"stop"}}"#;
const CALLS: &str =
    r#"{"type":"message_end","message":{"role":"assistant","content":[],"stopReason":"toolUse"}}"#;
const LAST: &str = r#"{"type":"tool_execution_end","toolCallId":"c","isError":false,"result":{"content":[],"terminate":true}}"#;
const REFUSED: &str = r#"{"type":"tool_execution_end","toolCallId":"c","isError":true,"result":{"content":[{"type":"text","text":"not allowed"}]}}"#;

#[test]
fn a_turn_is_over_and_completed_only_if_every_sign_agrees() {
    for (lines, is_over, status, text) in [
        (&[BEGIN, TEXT, END][..], true, "completed", ""),
        (
            &[BEGIN, OVERFLOW, END, COMPACTS, GOES_ON, BEGIN, TEXT, END],
            true,
            "completed",
            "",
        ),
        (
            &[BEGIN, TEXT, END, COMPACTS, COMPACTED],
            true,
            "completed",
            "",
        ),
        (
            &[BEGIN, COMPACTS, COMPACTED, TEXT, END],
            true,
            "completed",
            "",
        ),
        (
            &[BEGIN, OVERFLOW, END, COMPACTS, COMPACTED],
            true,
            "failed",
            "too long",
        ),
        (&[BEGIN, CALLS, END], true, "failed", "toolUse"),
        (&[BEGIN, CALLS, LAST, END], true, "completed", ""),
        (&[BEGIN, CALLS, REFUSED, TEXT, END], true, "completed", ""),
        (&[BEGIN, TEXT, OVERFLOW, END], true, "failed", "too long"),
        (&[BEGIN, OVERFLOW, END, COMPACTS], false, "failed", ""),
        (
            &[BEGIN, OVERFLOW, END, COMPACTS, GOES_ON],
            false,
            "failed",
            "",
        ),
        (
            &[BEGIN, OVERFLOW, END, COMPACTS, GOES_ON, BEGIN],
            false,
            "failed",
            "",
        ),
        (&[BEGIN, TEXT], false, "completed", ""),
    ] {
        let (_, reader) = read(&lines.join("\n"));
        assert_eq!(reader.is_over(), is_over, "{lines:?}");
        let end = reader.end();
        let was = end.status.unwrap().as_str();
        let why = end.error.unwrap_or_default().message.unwrap_or_default();
        assert_eq!(was, status, "{lines:?}: {why}");
        assert!(why.contains(text), "{lines:?}: {why}");
    }
}

/// Plays a turn; each line of pi comes whole.
fn played(lines: &[&'static str]) -> Vec<String> {
    let running = PiTurn::new(PiReader::default(), serde_json::json!({ "message": "go" }));
    let now = Instant::now();
    let engine = Engine::new(running, Watch::starting_at(Deadlines::default(), now));
    let line = |line: &&'static str| Says(AgentLine::Whole(line.as_bytes().into()));
    play(engine.begin(PiTurn::begin), now, lines.iter().map(line)).done
}

#[test]
fn an_input_waits_for_the_end_of_a_compaction() {
    const IDLE: &str = r#"{"type":"response","id":"state","success":true,"data":{}}"#;
    const BUSY: &str =
        r#"{"type":"response","id":"state","success":true,"data":{"isCompacting":true}}"#;
    let is_sent = |lines: &[&'static str]| {
        let done = played(lines);
        done.iter()
            .filter(|done| done.contains(r#"\"type\":\"prompt\""#))
            .count()
    };
    assert_eq!(is_sent(&[]), 0);
    assert_eq!(is_sent(&[IDLE]), 1);
    for began in [&[COMPACTS, IDLE][..], &[BUSY], &[END, COMPACTS, BUSY]] {
        assert_eq!(is_sent(began), 0, "{began:?}");
        assert_eq!(is_sent(&[began, &[COMPACTED]].concat()), 1, "{began:?}");
        assert_eq!(
            is_sent(&[began, &[COMPACTED, COMPACTS, COMPACTED]].concat()),
            1,
            "{began:?}"
        );
    }
    // What ended before the prompt does not end its turn.
    let stats = |lines: &[&'static str]| {
        let done = played(lines);
        done.iter()
            .filter(|done| done.contains("get_session_stats"))
            .count()
    };
    assert_eq!(stats(&[END, COMPACTS, BUSY, COMPACTED]), 0);
    assert_eq!(
        stats(&[END, COMPACTS, BUSY, COMPACTED, BEGIN, TEXT, END]),
        1
    );
}
