//! Turns by recordings: lines in, events and lines out.

use bytes::Bytes;
use tokio::time::Instant;
use trunkline_sdk::{Category, Decision, Status};

use super::super::allow_list::AllowList;
use super::super::talk::Idle;
use super::*;
use crate::agent::deadlines::{Deadlines, Watch};
use crate::agent::turn::Engine;
use crate::agent::turn::engine_test::{Input, play};

use Input::{Closes, Says, Steer, Stop, Wait};

const CONTROL: &str = include_str!("../../../tests/transcripts/claude/control.jsonl");
const WHOLE: &str = include_str!("../../../tests/transcripts/claude/whole.jsonl");
const TEXT: &str =
    r#"{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"Hm."}]}}"#;
const ASKS: &str = r#"{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}}"#;
const DONE: &str = r#"{"type":"result","subtype":"success","is_error":false,"result":"Hm.","usage":{"input_tokens":1,"output_tokens":1}}"#;
const ABORTED: &str = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"terminal_reason":"aborted_tools"}"#;

fn says(line: &'static str) -> Input<AgentLine> {
    Says(AgentLine::Whole(Bytes::from_static(line.as_bytes())))
}

/// Plays a turn of a process that has spoken already or not.
fn turn(
    has_spoken: bool,
    inputs: impl IntoIterator<Item = Input<AgentLine>>,
) -> (Vec<String>, Option<TurnComplete>) {
    let (mut talk, _) = ProcessDialogue::begin(None);
    talk.has_spoken = has_spoken;
    let native = "n".to_owned();
    let cost = Total::NEW;
    let mut memory = Memory {
        resumes: true,
        cost,
        ..Memory::new(native)
    };
    let now = Instant::now();
    let wait = Duration::from_secs(3);
    let allowed = Allowed {
        steers: true,
        sub_agents: true,
        first_sign: Some((now + wait, wait)),
    };
    let (running, _) = ClaudeTurn::begin(&mut talk, &mut memory, allowed, &[]);
    let deadlines = Deadlines {
        silence: Some(Duration::from_secs(20)),
        ..Deadlines::default()
    };
    let engine =
        Engine::new(running, Watch::starting_at(deadlines, now)).begin(ClaudeTurn::ask_again);
    let played = play(engine, now, inputs);
    let end = played.end.and_then(|(mut running, finish)| {
        let outcome = running.outcome.take()?;
        Some(running.end(&outcome, finish.why))
    });
    (played.done, end)
}

fn denial() -> UserReply {
    UserReply::Decision(Decision::default())
}

#[test]
fn a_turn_ends_with_its_result_and_what_was_resumed_is_said_first() {
    let (done, end) = turn(true, WHOLE.lines().map(says));
    assert_eq!(done.first().map(String::as_str), Some("info"));
    assert_eq!(done.last().map(String::as_str), Some("ended"), "{done:?}");
    assert_eq!(end.unwrap().status, Some(Status::Completed));
}

#[test]
fn requests_are_asked_withdrawn_and_refused_where_they_are_not_known() {
    let (done, _) = turn(true, CONTROL.lines().map(says));
    let said: Vec<_> = done.iter().filter(|done| done.contains('q')).collect();
    assert_eq!(said[..2], ["ask q1", "withdraw q1"]);
    assert!(
        said[2].starts_with("send IfRoom(")
            && said[2].contains("unsupported request: hook_callback")
    );
}

#[test]
fn a_reply_is_passed_on_unless_the_turn_is_stopped() {
    let (done, _) = turn(true, [says(ASKS), Input::Reply("q", denial)]);
    assert!(done[0] == "ask q" && done[1].contains("deny"), "{done:?}");
    let (done, _) = turn(
        true,
        [says(ASKS), Stop, Input::Reply("q", denial), says(ABORTED)],
    );
    assert_eq!(done.len(), 3, "{done:?}");
}

#[test]
fn a_stop_interrupts_and_one_that_comes_too_late_changes_nothing() {
    let (done, end) = turn(true, [says(TEXT), Stop, says(ABORTED)]);
    assert!(
        done[2].contains("interrupt") && done[3] == "ended: stopped",
        "{done:?}"
    );
    assert_eq!(end.unwrap().status, Some(Status::Stopped));
    let (_, end) = turn(true, [Stop, says(DONE)]);
    assert_eq!(end.unwrap().status, Some(Status::Completed));
    let (done, _) = turn(true, [Stop, Wait(5)]);
    assert_eq!(done.last().map(String::as_str), Some("late: stopped"));
}

#[test]
fn a_process_that_never_spoke_is_not_asked_to_end() {
    let (done, _) = turn(false, [Wait(3)]);
    assert_eq!(
        done,
        ["late: start_timeout of 3 s reached; the agent gave no sign of life after its start"]
    );
    let (done, _) = turn(false, [says(TEXT), Wait(20), says(ABORTED)]);
    assert!(
        done.last()
            .is_some_and(|end| end.contains("silence_timeout of 20 s reached")),
        "{done:?}"
    );
    assert_eq!(turn(true, [Closes]).0, ["closed"]);
}

#[test]
fn a_turn_ends_once_each_input_is_answered() {
    let (done, end) = turn(true, [says(TEXT), Steer("more"), says(DONE), says(DONE)]);
    assert!(
        done[2].starts_with("steer 1 by") && done[3] == "ended",
        "{done:?}"
    );
    assert_eq!(end.unwrap().usage.unwrap().output_tokens, Some(2));
}

#[test]
fn a_failure_of_ours_outweighs_the_result() {
    let (_, end) = turn(true, [Input::Fails, says(DONE)]);
    let end = end.unwrap();
    assert_eq!(
        (end.status, end.error.unwrap().category),
        (Some(Status::Failed), Some(Category::Other))
    );
}

#[test]
fn between_turns_events_are_sent_unless_an_answer_is_waited_for() {
    let (mut talk, _) = ProcessDialogue::begin(None);
    let now = Instant::now();
    let idle = Idle {
        talk: &mut talk,
        awaited: None,
        answer: None,
    };
    let played = play(
        Engine::between_turns(idle),
        now,
        [says(TEXT), says(ASKS), Wait(99), Stop],
    );
    assert_eq!(played.done, ["Hm.", "ask q", "late: stopped"]);
    let answer = r#"{"type":"control_response","response":{"subtype":"success","request_id":"a","response":{}}}"#;
    let until = now + Duration::from_secs(1);
    let idle = Idle {
        talk: &mut talk,
        awaited: Some(("a".to_owned(), until)),
        answer: None,
    };
    let played = play(Engine::between_turns(idle), now, [says(TEXT), says(answer)]);
    assert_eq!(played.done, ["ended"]);
    assert!(
        played
            .end
            .is_some_and(|(idle, _)| idle.answer == Some(Ok(json!({}))))
    );
    assert_eq!(talk.unsent.len(), 1, "what was said meanwhile is kept");
    let idle = Idle {
        talk: &mut talk,
        awaited: Some(("b".to_owned(), until)),
        answer: None,
    };
    assert_eq!(
        play(Engine::between_turns(idle), now, [Wait(1)]).done,
        ["late: stopped"]
    );
}

#[test]
fn a_session_that_restricts_tools_hooks_each_call() {
    const HOOK: &str = r#"{"type":"control_request","request_id":"h","request":{"subtype":"hook_callback","callback_id":"allowed-tools","input":{"hook_event_name":"PreToolUse","tool_name":"Bash","tool_input":{"command":"ls"}}}}"#;
    let answers = |tools: Option<&str>| {
        let start = trunkline_sdk::SessionStart {
            allowed_tools: tools.map(|tool| vec![tool.to_owned()]),
            ..trunkline_sdk::SessionStart::default()
        };
        let common = super::super::config::ClaudeCode::default().common();
        let options = crate::agent::options::Options::new(&common, start).unwrap();
        let (mut talk, initialize) = ProcessDialogue::begin(AllowList::new(&options).unwrap());
        let idle = Idle {
            talk: &mut talk,
            awaited: None,
            answer: None,
        };
        let played = play(Engine::between_turns(idle), Instant::now(), [says(HOOK)]);
        (
            initialize["request"].get("hooks").is_some(),
            played.done.concat(),
        )
    };
    let (is_hooked, answer) = answers(Some("Read"));
    assert!(is_hooked && answer.contains("deny"), "{answer}");
    let (is_hooked, answer) = answers(Some("Bash(ls*)"));
    assert!(
        is_hooked && answer.contains("success") && !answer.contains("deny"),
        "{answer}"
    );
    let (is_hooked, answer) = answers(None);
    assert!(
        !is_hooked && answer.contains("unsupported request"),
        "{answer}"
    );
}
