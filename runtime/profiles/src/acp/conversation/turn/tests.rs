//! Turns by recordings: messages in, events and commands out.

use serde_json::json;
use serde_json::value::to_raw_value;
use trunkline_sdk::Decision;

use super::super::super::initialize::{InitializeResponse, Quirks};
use super::super::super::line::AgentRequest;
use super::super::super::requests::AllowedCommands;
use super::super::super::session::Permissions;
use super::super::super::terminals::TerminalRequest;
use super::super::earlier::CancelledPrompt;
use super::*;
use crate::agent::deadlines::{Deadlines, Watch};
use crate::agent::rpc::Id;
use crate::agent::turn::engine_test::{Input, play};
use crate::agent::turn::{Earlier, Engine};

use Input::{Says, Stop, Wait};

fn id(number: u64) -> Id {
    Id::from_raw(to_raw_value(&number).unwrap())
}

fn update(update: &Value) -> Input<Message> {
    Says(Message::Update(json!({ "update": update })))
}

fn says(text: &str) -> Input<Message> {
    update(
        &json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}}),
    )
}

fn asks(number: u64) -> Input<Message> {
    let options = json!([
        {"optionId": "yes", "name": "Yes", "kind": "allow_once"}, {"optionId": "no", "name": "No", "kind": "reject_once"},
    ]);
    let call = json!({"toolCallId": "c", "title": "ls", "kind": "execute"});
    Says(Message::Request(
        id(number),
        AgentRequest::Tool(json!({"toolCall": call, "options": options})),
    ))
}

fn runs(number: u64) -> Input<Message> {
    let order = Box::new(TerminalRequest::from_params(&json!({"command": "ls"})).unwrap());
    Says(Message::Request(
        id(number),
        AgentRequest::Terminal(order, None),
    ))
}

fn prompted() -> Input<Message> {
    Says(Message::Prompted(Ok(json!({"stopReason": "end_turn"}))))
}

fn denial() -> UserReply {
    UserReply::Decision(Decision::default())
}

/// Plays a turn: what is done, and the requests that are open at its end.
fn turn(
    permissions: Permissions,
    is_prompted: bool,
    inputs: impl IntoIterator<Item = Input<Message>>,
) -> (Vec<String>, usize) {
    turn_after(false, permissions, is_prompted, inputs)
}

/// The same, `has_answered` earlier.
fn turn_after(
    has_answered: bool,
    permissions: Permissions,
    is_prompted: bool,
    inputs: impl IntoIterator<Item = Input<Message>>,
) -> (Vec<String>, usize) {
    turn_of(
        UpdateReader::new(Quirks::default()),
        has_answered,
        permissions,
        is_prompted,
        inputs,
    )
}

fn running<'r>(
    reader: &'r mut UpdateReader,
    terminals: &'r Terminals,
    requests: Requests<'r>,
) -> AcpTurn<'r> {
    AcpTurn {
        reader,
        terminals,
        answer: TurnAnswer::default(),
        requests,
        first_word: None,
        has_answered: false,
        is_prompted: true,
        is_cut: false,
        was_denied: false,
        asks_model: true,
        said: false,
        signs: EndSigns::default(),
        repetition: None,
        waiting: VecDeque::new(),
        reading: None,
        prompted: None,
    }
}

fn turn_of(
    mut reader: UpdateReader,
    has_answered: bool,
    permissions: Permissions,
    is_prompted: bool,
    inputs: impl IntoIterator<Item = Input<Message>>,
) -> (Vec<String>, usize) {
    let allowed_commands = AllowedCommands::default();
    let terminals = Terminals::default();
    let now = Instant::now();
    let wait = Duration::from_secs(9);
    let mut running = running(
        &mut reader,
        &terminals,
        Requests::new(permissions, &allowed_commands),
    );
    running.first_word = Some((now + wait, wait));
    (running.has_answered, running.is_prompted) = (has_answered, is_prompted);
    let deadlines = Deadlines {
        silence: Some(Duration::from_secs(20)),
        ..Deadlines::default()
    };
    let played = play(
        Engine::new(running, Watch::starting_at(deadlines, now)),
        now,
        inputs,
    );
    let open = played
        .end
        .map_or(0, |(mut running, _)| running.requests.declined().count());
    (played.done, open)
}

fn ask(inputs: impl IntoIterator<Item = Input<Message>>) -> Vec<String> {
    turn(Permissions::Ask, true, inputs).0
}

/// The end of a turn: its status, and its failure or the agent's reason.
fn ended(inputs: impl IntoIterator<Item = Input<Message>>) -> (&'static str, String) {
    let initialized = InitializeResponse::parse(&json!({"protocolVersion": 1})).unwrap();
    let mut reader = UpdateReader::default();
    let terminals = Terminals::default();
    let allowed_commands = AllowedCommands::default();
    let running = running(
        &mut reader,
        &terminals,
        Requests::new(Permissions::Ask, &allowed_commands),
    );
    let engine = Engine::new(running, Watch::new(Deadlines::default()));
    let (mut running, finish) = play(engine, Instant::now(), inputs).end.unwrap();
    let end = running.end(&initialized, finish.why, None, &mut EffectList::default());
    let error = end.error.and_then(|error| error.message);
    let reason = error.or(end.stop_reason).unwrap_or_default();
    (end.status.unwrap().as_str(), reason)
}

#[test]
fn a_turn_is_completed_only_if_reason_calls_and_answer_agree() {
    let call = |status: &str| {
        let text =
            json!([{"type": "content", "content": {"type": "text", "text": "no such file"}}]);
        update(
            &json!({"sessionUpdate": "tool_call", "toolCallId": "c", "status": status, "content": text}),
        )
    };
    let ends = |reason: &str| Says(Message::Prompted(Ok(json!({"stopReason": reason}))));
    let fails = || {
        let error = json!({"code": 401, "message": "no key"});
        let error = CallError::Rpc(serde_json::from_value(error).unwrap());
        Says(Message::Prompted(Err(error)))
    };
    for (inputs, status, text) in [
        (vec![says("a"), ends("end_turn")], "completed", "end_turn"),
        (vec![ends("end_turn")], "completed", "end_turn"),
        (
            vec![says("a"), ends("of_the_future")],
            "completed",
            "of_the_future",
        ),
        (
            vec![call("failed"), says("a"), ends("end_turn")],
            "completed",
            "end_turn",
        ),
        (
            vec![call("completed"), ends("end_turn")],
            "completed",
            "end_turn",
        ),
        (
            vec![
                asks(7),
                Input::Reply("7", denial),
                call("failed"),
                ends("end_turn"),
            ],
            "completed",
            "end_turn",
        ),
        (
            vec![
                says("a"),
                asks(7),
                Input::Reply("7", denial),
                ends("cancelled"),
            ],
            "completed",
            "cancelled",
        ),
        (
            vec![says("a"), asks(7), ends("end_turn")],
            "completed",
            "end_turn",
        ),
        (vec![ends("of_the_future")], "failed", "of_the_future"),
        (
            vec![says("a"), call("failed"), ends("end_turn")],
            "failed",
            "no such file",
        ),
        (
            vec![says("a"), call("in_progress"), ends("end_turn")],
            "failed",
            "a tool call did not end",
        ),
        (vec![says("a"), fails()], "failed", "no key"),
        (vec![says("a"), ends("max_tokens")], "limit", "output limit"),
        (
            vec![says("a"), ends("max_turn_requests")],
            "limit",
            "as often",
        ),
        (vec![says("a"), ends("refusal")], "refused", "declined"),
        (vec![says("a"), ends("cancelled")], "stopped", "cancelled"),
        (
            vec![says("a"), Stop, ends("end_turn")],
            "stopped",
            "cancelled",
        ),
        (vec![says("a"), Stop, Wait(2)], "stopped", ""),
    ] {
        let shown = format!("{inputs:?}");
        let (was, why) = ended(inputs);
        assert_eq!(was, status, "{shown}: {why}");
        assert!(why.contains(text), "{shown}: {why}");
    }
}

#[test]
fn a_turn_is_read_until_its_prompt_is_answered() {
    assert_eq!(ask([says("a"), says("b"), prompted()]), ["a", "b", "ended"]);
}

#[test]
fn a_stop_cancels_and_waits_for_the_answer_of_a_prompt_that_was_sent() {
    assert_eq!(
        ask([Stop, says("late"), prompted()]),
        ["send Cancel", "late", "ended: stopped"]
    );
    assert_eq!(ask([Stop, Wait(2)]), ["send Cancel", "late: stopped"]);
    let (done, _) = turn(Permissions::Ask, false, [Stop, Wait(0)]);
    assert_eq!(done, ["send Cancel", "late: stopped"]);
}

#[test]
fn a_model_that_never_speaks_has_no_provider() {
    let done = ask([Wait(9), prompted()]);
    assert!(
        done.last()
            .is_some_and(|end| end.contains("without a provider")),
        "{done:?}"
    );
    let (done, _) = turn_after(true, Permissions::Ask, true, [Wait(9), prompted()]);
    assert!(
        done.last()
            .is_some_and(|end| end.contains("its model can be reached")),
        "{done:?}"
    );
    for (model, said) in [
        ("kilo/a/b", "without a provider"),
        ("mine/a", "its model can be reached"),
    ] {
        let mut reader = UpdateReader::new(Quirks::default());
        reader
            .choices
            .read(&json!({"configOptions": [{"id": "model", "currentValue": model}]}));
        let (done, _) = turn_of(reader, false, Permissions::Ask, true, [Wait(9), prompted()]);
        assert!(
            done.last().is_some_and(|end| end.contains(said)),
            "{model}: {done:?}"
        );
    }
    let done = ask([says("a"), Wait(20), prompted()]);
    assert!(
        done.last()
            .is_some_and(|end| end.contains("silence_timeout of 20 s reached")),
        "{done:?}"
    );
}

#[test]
fn a_permission_is_asked_after_its_call_and_its_reply_is_an_option() {
    let done = ask([asks(7), Input::Reply("7", denial)]);
    assert_eq!(done[..2], ["tool.start", "ask 7"]);
    let ends =
        json!({"sessionUpdate": "tool_call_update", "toolCallId": "c", "status": "completed"});
    let call = ask([asks(7), update(&ends)]);
    assert_eq!(call, ["tool.start", "ask 7", "tool.end"]);
    assert!(done.len() == 3 && done[2].contains("no"), "{done:?}");
    let ends = || {
        let mut decision = Decision::default();
        decision.end_turn = true;
        UserReply::Decision(decision)
    };
    let done = ask([asks(7), Input::Reply("7", ends), prompted()]);
    assert!(
        done[2].contains("no") && done[3] == "send Cancel",
        "{done:?}"
    );
    assert_eq!(done[4], "ended: the denial ended the turn");
    let (_, open) = turn(Permissions::Ask, true, [asks(7), asks(8), prompted()]);
    assert_eq!(open, 2, "what was not decided is declined");
}

#[test]
fn a_policy_asks_no_one() {
    for (permissions, option) in [
        (Permissions::Deny, "no"),
        (Permissions::DangerousAllow, "yes"),
    ] {
        let (done, _) = turn(permissions, true, [asks(7)]);
        assert!(
            done.len() == 2 && done.iter().any(|done| done.contains(option)),
            "{done:?}"
        );
    }
    let (done, _) = turn(Permissions::Deny, true, [runs(7)]);
    assert!(done[0].contains("was denied"), "{done:?}");
}

#[test]
fn a_terminal_runs_unasked_only_what_a_person_was_shown() {
    let shown =
        json!({"title": "List files", "kind": "execute", "rawInput": {"command": "ls -la"}});
    let in_folder = json!({"kind": "execute", "rawInput": {"command": "ls -la", "cwd": "/w/sub"}});
    let titled = json!({"title": "ls -la", "kind": "execute"});
    let words = json!({"kind": "execute", "rawInput": {"command": "rm a b"}});
    for (allowed, terminal, runs) in [
        (&shown, json!({"command": "ls", "args": ["-la"]}), true),
        (&shown, json!({"command": "ls -la"}), true),
        (
            &shown,
            json!({"command": "/bin/sh", "args": ["-c", "ls -la"]}),
            true,
        ),
        (
            &shown,
            json!({"command": "bash", "args": ["-lc", "ls -la"]}),
            true,
        ),
        (&titled, json!({"command": "ls", "args": ["-la"]}), true),
        (
            &in_folder,
            json!({"command": "ls", "args": ["-la"], "cwd": "/w/sub"}),
            true,
        ),
        (
            &shown,
            json!({"command": "rm", "args": ["-rf", "."]}),
            false,
        ),
        (
            &shown,
            json!({"command": "ls", "args": ["-la", "/etc"]}),
            false,
        ),
        (
            &shown,
            json!({"command": "ls", "args": ["-la; rm -rf ."]}),
            false,
        ),
        (
            &shown,
            json!({"command": "python3", "args": ["-c", "ls -la"]}),
            false,
        ),
        (
            &shown,
            json!({"command": "sh", "args": ["-c", "ls -la", "x"]}),
            false,
        ),
        (
            &shown,
            json!({"command": "ls", "args": ["-la"], "cwd": "/w/sub"}),
            false,
        ),
        (&in_folder, json!({"command": "ls", "args": ["-la"]}), false),
        (
            &shown,
            json!({"command": "ls", "args": ["-la"], "env": [{"name": "LD_PRELOAD", "value": "x"}]}),
            false,
        ),
        (&json!({"kind": "execute"}), json!({"command": "ls"}), false),
        (&words, json!({"command": "rm", "args": ["a", "b"]}), true),
        (&words, json!({"command": "rm", "args": ["a b"]}), false),
    ] {
        let allowed_commands = AllowedCommands::default();
        allowed_commands.add(allowed);
        let mut requests = Requests::new(Permissions::Ask, &allowed_commands);
        let mut take = |number: u64| {
            let order = Box::new(TerminalRequest::from_params(&terminal).unwrap());
            let request = AgentRequest::Terminal(order, None);
            let out = &mut EffectList::default();
            requests
                .take(
                    id(number),
                    request,
                    &mut UpdateReader::default(),
                    &mut Vec::new(),
                    out,
                )
                .is_some()
        };
        assert_eq!(take(7), runs, "{allowed} {terminal}");
        assert!(
            !take(8),
            "an allowed command runs once: {allowed} {terminal}"
        );
    }
    for (name, value, runs) in [
        ("TERM", "dumb", true),
        ("SHELL", "/bin/bash", true),
        ("SHELL", "/tmp/evil", false),
        ("PATH", "/tmp", false),
    ] {
        let order = json!({"command": "/bin/bash", "args": ["-c", "ls"], "env": [{"name": name, "value": value}]});
        assert_eq!(
            TerminalRequest::from_params(&order)
                .unwrap()
                .is_shown("ls", None),
            runs,
            "{name}"
        );
    }
    for (line, runs) in [
        ("cd '/w' && ls -la", true),
        ("cd '/x' && ls -la", false),
        ("cd '/w' && ls -la; rm x", false),
    ] {
        let mut order =
            TerminalRequest::from_params(&json!({"command": "/bin/bash", "args": ["-c", line]}))
                .unwrap();
        order.set_session_folder(Some("/w".into()));
        assert_eq!(order.is_shown("ls -la", None), runs, "{line}");
    }
    let allowed_commands = AllowedCommands::default();
    allowed_commands.add(&words);
    allowed_commands.clear();
    let order =
        TerminalRequest::from_params(&json!({"command": "rm", "args": ["a", "b"]})).unwrap();
    let request = AgentRequest::Terminal(Box::new(order), None);
    let mut requests = Requests::new(Permissions::Ask, &allowed_commands);
    let taken = requests.take(
        id(9),
        request,
        &mut UpdateReader::default(),
        &mut Vec::new(),
        &mut EffectList::default(),
    );
    assert!(taken.is_none(), "what was allowed ends with its turn");
}

#[test]
fn a_file_is_read_before_what_follows_it_and_is_text_where_it_cannot_be() {
    let file = || {
        let link = json!({"type": "resource_link", "uri": "file:///w/a.txt", "name": "a.txt"});
        update(&json!({"sessionUpdate": "agent_message_chunk", "content": link}))
    };
    let read = Says(Message::Read(Some(b"x".to_vec())));
    let done = ask([file(), says("after"), read]);
    assert!(
        done[0].starts_with("send Read(") && done[1..] == ["file a.txt", "after"],
        "{done:?}"
    );
    let done = ask([file(), says("after"), Says(Message::Read(None))]);
    assert!(done[1].contains("a.txt") && done[2] == "after", "{done:?}");
}

#[test]
fn what_was_lost_or_taken_ends_the_turn() {
    let done = ask([Says(Message::Lost(3)), prompted()]);
    assert!(
        done[0] == "send Cancel" && done[1].contains("3 updates are lost"),
        "{done:?}"
    );
    let done = ask([Says(Message::Taken), Says(Message::Lost(3)), prompted()]);
    assert!(done[1].contains("another session has resumed"), "{done:?}");
}

#[test]
fn an_earlier_turn_is_waited_for() {
    let now = Instant::now();
    let earlier = |inputs: Vec<Input<Message>>| {
        let earlier = Earlier::new(CancelledPrompt, now + Duration::from_secs(30));
        let played = play(Engine::between_turns(earlier), now, inputs);
        let end = played.end.and_then(|(earlier, _)| earlier.end);
        (played.done, end)
    };
    let (done, end) = earlier(vec![says("late"), prompted()]);
    assert!(
        done == ["ended"] && matches!(end, Some(Ok(true))),
        "{done:?}"
    );
    let mute = earlier(vec![Says(Message::Mute)]).1;
    assert!(matches!(mute, Some(Ok(false))));
    let taken = earlier(vec![Says(Message::Taken)]).1;
    assert!(matches!(taken, Some(Err(_))));
    assert!(earlier(vec![Wait(30)]).0[0].starts_with("late: the agent has not ended"));
}
