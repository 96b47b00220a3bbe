//! Turns by recordings: messages in, events and commands out.

use std::time::Duration;

use serde_json::value::to_raw_value;
use trunkline_sdk::Decision;

use super::super::earlier::InterruptedTurn;
use super::*;
use crate::agent::deadlines::{Deadlines, Watch};
use crate::agent::end::TurnEnd;
use crate::agent::turn::engine_test::{Input, play};
use crate::agent::turn::{Earlier, Engine};
use crate::codex::Settings;

use Input::{Says, Steer, Stop, Wait};

fn said(method: &str, params: &Value) -> Input<Message> {
    let params = to_raw_value(params).unwrap();
    Says(Message::Arrival(InboxArrival::Mail(
        InboxMessage::Notification {
            method: method.to_owned(),
            params,
        },
    )))
}

fn asks() -> Input<Message> {
    let id = Id::from_raw(to_raw_value(&7).unwrap());
    let params = to_raw_value(&json!({"command": "ls", "turnId": "u"})).unwrap();
    let method = "item/commandExecution/requestApproval".to_owned();
    Says(Message::Arrival(InboxArrival::Mail(
        InboxMessage::Request { id, method, params },
    )))
}

fn begun() -> Input<Message> {
    Says(Message::Called(
        ServerCall::Begin,
        Ok(json!({"turn": {"id": "u"}})),
    ))
}

fn delta() -> Input<Message> {
    said(
        "item/agentMessage/delta",
        &json!({"turnId": "u", "itemId": "i", "delta": "Hm."}),
    )
}

fn completed(status: &str) -> Input<Message> {
    said(
        "turn/completed",
        &json!({"turn": {"id": "u", "status": status}}),
    )
}

/// Plays a turn: what is done, and what ended it.
fn turn(inputs: impl IntoIterator<Item = Input<Message>>) -> (Vec<String>, Option<TurnEndCause>) {
    let (done, over, _) = judged_turn(inputs);
    (done, over)
}

/// Plays a turn: what is done, what ended it, and the judgement of its end.
fn judged_turn(
    inputs: impl IntoIterator<Item = Input<Message>>,
) -> (Vec<String>, Option<TurnEndCause>, Option<TurnEnd>) {
    let mut translator = Translator::fresh();
    let mut unfinished = None;
    let mut spoken = false;
    let mut last_turn = None;
    let settings = Settings::default();
    let running = CodexTurn {
        id: "t",
        translator: &mut translator,
        unfinished: &mut unfinished,
        spoken: &mut spoken,
        last_turn: &mut last_turn,
        retries: Retries::new(&settings),
        is_account_asked: false,
        asked: HashMap::new(),
        steers: 0,
        is_leaving: false,
        is_interrupted: false,
        is_denied: false,
        over: None,
        signs: EndSigns::default(),
    };
    let now = Instant::now();
    let deadlines = Deadlines {
        silence: Some(Duration::from_secs(5)),
        ..Deadlines::default()
    };
    let played = play(
        Engine::new(running, Watch::starting_at(deadlines, now)),
        now,
        inputs,
    );
    let Some((running, finish)) = played.end else {
        return (played.done, None, None);
    };
    let CodexTurn {
        over, mut signs, ..
    } = running;
    signs.cut(finish.why);
    (played.done, over, Some(signs.judge()))
}

fn interrupts(done: &[String]) -> usize {
    done.iter()
        .filter(|done| done.contains("Interrupt"))
        .count()
}

#[test]
fn a_turn_is_read_until_codex_ends_it() {
    let (done, over) = turn([begun(), delta(), completed("completed")]);
    assert_eq!(done, ["Hm.", "ended"]);
    assert!(matches!(over, Some(TurnEndCause::Ended)));
    let (done, over) = turn([Says(Message::Called(ServerCall::Begin, Ok(json!({}))))]);
    assert!(done == ["ended"] && matches!(over, Some(TurnEndCause::Ended)));
}

#[test]
fn a_stop_before_the_beginning_interrupts_once_and_then() {
    let (done, _) = turn([Stop, begun(), delta(), completed("interrupted")]);
    assert_eq!(
        (interrupts(&done), done.last().map(String::as_str)),
        (1, Some("ended: stopped")),
        "{done:?}"
    );
    let (done, over) = turn([begun(), Stop, Wait(2)]);
    assert_eq!(
        (interrupts(&done), done.last().map(String::as_str)),
        (1, Some("late: stopped"))
    );
    assert!(over.is_none());
}

#[test]
fn silence_interrupts_and_the_reason_stands() {
    let (done, _) = turn([begun(), Wait(5), completed("interrupted")]);
    assert_eq!(
        done.last().map(String::as_str),
        Some("ended: silence_timeout of 5 s reached; the agent gave no sign of life")
    );
    let late = Says(Message::Called(
        ServerCall::Interrupt,
        Err(CallError::Late {
            wait: INTERRUPT,
            stderr: String::new(),
        }),
    ));
    let (done, _) = turn([begun(), Wait(5), late]);
    assert_eq!(done.last().map(String::as_str), Some("send Retire"));
}

#[test]
fn a_denial_has_its_answer_then_its_words_or_its_end() {
    let (done, _) = turn([
        begun(),
        asks(),
        Input::Reply("7", || denied(Some("no"), false)),
    ]);
    assert!(
        done[0] == "ask 7" && done[1].contains("decline") && done[2].contains("Word"),
        "{done:?}"
    );
    let (done, _) = turn([
        begun(),
        asks(),
        Input::Reply("7", || denied(None, true)),
        completed("interrupted"),
    ]);
    assert_eq!(
        (interrupts(&done), done.last().map(String::as_str)),
        (0, Some("ended: stopped"))
    );
    let resolved = said("serverRequest/resolved", &json!({"requestId": 7}));
    assert_eq!(turn([begun(), asks(), resolved]).0, ["ask 7", "withdraw 7"]);
}

fn denied(message: Option<&str>, end_turn: bool) -> UserReply {
    let mut decision = Decision::default();
    decision.message = message.map(str::to_owned);
    decision.end_turn = end_turn;
    UserReply::Decision(decision)
}

#[test]
fn steers_wait_for_the_beginning_and_are_taken_by_codex() {
    let taken = Says(Message::Called(ServerCall::Steer(1), Ok(json!({}))));
    let (done, _) = turn([Steer("early"), begun(), Steer("more"), taken]);
    assert!(
        done[0] == "no steer" && done[1].contains("more") && done[2] == "steer 1 taken",
        "{done:?}"
    );
}

#[test]
fn lost_notifications_end_the_turn() {
    let (done, _) = turn([
        begun(),
        Says(Message::Arrival(InboxArrival::Lost(3))),
        completed("completed"),
    ]);
    assert_eq!(interrupts(&done), 1, "{done:?}");
    let end = done.last().map(String::as_str);
    assert_eq!(
        end,
        Some("ended: codex sent more than was read: 3 notifications are lost")
    );
}

#[test]
fn an_earlier_turn_is_interrupted_once_it_is_known_and_waited_for() {
    let now = Instant::now();
    let earlier = |turn: &str, inputs: Vec<Input<Message>>| {
        let thread = "t";
        let turn = turn.to_owned();
        let earlier = InterruptedTurn { thread, turn };
        let earlier = Earlier::new(earlier, now + Duration::from_secs(3));
        play(
            Engine::between_turns(earlier).begin(Earlier::begin),
            now,
            inputs,
        )
        .done
    };
    let done = earlier(
        "",
        vec![
            said("turn/started", &json!({"turn": {"id": "u"}})),
            completed("interrupted"),
        ],
    );
    assert_eq!((interrupts(&done), done.len()), (1, 2));
    let none =
        CallError::Rpc(serde_json::from_value(json!({"message": "no active turn"})).unwrap());
    let done = earlier(
        "u",
        vec![Says(Message::Called(ServerCall::Interrupt, Err(none)))],
    );
    assert_eq!((interrupts(&done), done.len()), (1, 2));
    let done = earlier("u", vec![Wait(3)]);
    assert!(
        done.last()
            .is_some_and(|end| end.contains("has not ended the turn that was stopped before"))
    );
}

#[test]
fn where_codex_only_tries_again_it_is_asked_once_for_a_login() {
    let retries = || {
        let error =
            json!({"turnId": "u", "error": {"message": "Reconnecting... 2/5"}, "willRetry": true});
        said("error", &error)
    };
    let account = |needed: bool| {
        let answer = json!({"account": null, "requiresOpenaiAuth": needed});
        Says(Message::Called(ServerCall::Account, Ok(answer)))
    };
    let asked = |done: &[String]| done.iter().filter(|done| done.contains("Account")).count();
    let (done, _) = turn([
        begun(),
        retries(),
        retries(),
        account(true),
        Wait(1),
        completed("interrupted"),
    ]);
    assert!(
        asked(&done) == 1 && done.contains(&"send Retire".to_owned()),
        "{done:?}"
    );
    assert!(
        done.last()
            .is_some_and(|end| end.starts_with("ended: codex is not logged in")),
        "{done:?}"
    );
    let (done, _) = turn([begun(), retries(), account(false), Wait(1)]);
    assert!(asked(&done) == 1 && interrupts(&done) == 0, "{done:?}");
    assert_eq!(
        asked(&turn([begun(), delta(), completed("completed")]).0),
        0
    );
}

fn denial() -> UserReply {
    UserReply::Decision(Decision::default())
}

#[test]
fn a_turn_is_completed_only_if_status_errors_and_items_agree() {
    let error = |retries: bool| {
        let error = json!({"message": "unexpected status 401 Unauthorized"});
        said(
            "error",
            &json!({"turnId": "u", "error": error, "willRetry": retries}),
        )
    };
    let item = |method: &str, status: &str| {
        let item = json!({"type": "commandExecution", "id": "c", "command": "ls", "status": status, "aggregatedOutput": "no such file"});
        said(method, &json!({"turnId": "u", "item": item}))
    };
    let starts = || item("item/started", "inProgress");
    let fails = || item("item/completed", "failed");
    let ends = || item("item/completed", "completed");
    for (inputs, status, text) in [
        (
            vec![
                starts(),
                asks(),
                Input::Reply("7", denial),
                fails(),
                completed("completed"),
            ],
            "completed",
            "",
        ),
        (vec![delta(), completed("completed")], "completed", ""),
        (vec![completed("completed")], "completed", ""),
        (
            vec![starts(), ends(), completed("completed")],
            "completed",
            "",
        ),
        (
            vec![starts(), delta(), completed("completed")],
            "completed",
            "",
        ),
        (
            vec![starts(), fails(), delta(), completed("completed")],
            "completed",
            "",
        ),
        (
            vec![error(true), delta(), completed("completed")],
            "completed",
            "",
        ),
        (
            vec![delta(), error(false), completed("completed")],
            "failed",
            "401",
        ),
        (
            vec![delta(), error(true), completed("completed")],
            "failed",
            "401",
        ),
        (
            vec![delta(), starts(), completed("completed")],
            "failed",
            "a tool call did not end",
        ),
        (
            vec![starts(), fails(), completed("completed")],
            "failed",
            "no such file",
        ),
        (
            vec![delta(), error(false), completed("failed")],
            "failed",
            "401",
        ),
        (vec![delta(), completed("failed")], "failed", "no reason"),
        (
            vec![delta(), completed("interrupted")],
            "failed",
            "by itself",
        ),
        (
            vec![delta(), completed("of_the_future")],
            "failed",
            "of_the_future",
        ),
        (vec![delta(), Stop, completed("interrupted")], "stopped", ""),
        (vec![delta(), Stop, completed("completed")], "completed", ""),
    ] {
        let shown = format!("{inputs:?}");
        let (_, _, end) = judged_turn([begun()].into_iter().chain(inputs));
        let (was, why) = match end.unwrap() {
            TurnEnd::Completed(reason) => ("completed", reason.unwrap_or_default()),
            TurnEnd::Ended(error) => (error.status().as_str(), error.to_string()),
            TurnEnd::NotOver => ("not over", String::new()),
        };
        assert_eq!(was, status, "{shown}: {why}");
        assert!(why.contains(text), "{shown}: {why}");
    }
}
