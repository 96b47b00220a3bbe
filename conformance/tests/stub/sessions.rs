//! Output of the stub in its sessions: turns, stops, actions and answers.

use serde_json::{Value, json};

use super::running::{Stub, complete, output};

#[test]
fn plain_content_is_echoed_and_logged() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.input("a", "hello\u{2028}there");
    stub.expect(output("a", "hello\u{2028}there"));
    stub.expect(complete("a"));
    stub.close_stdin();
    assert_eq!(stub.exit().code(), Some(0));
    let start = &stub.logged("start")[0];
    assert_eq!((&start["start"], &start["n"]), (&json!(1), &json!(1)));
    assert_eq!(stub.logged("in").len(), 2);
    let out: Vec<Value> = stub.logged("out");
    assert_eq!(
        out[0]["line"].as_str().unwrap().matches("\\u2028").count(),
        1
    );
    assert_eq!(stub.logged("exit")[0]["code"], 0);
    let numbers: Vec<u64> = stub
        .log()
        .iter()
        .map(|r| r["n"].as_u64().unwrap())
        .collect();
    assert!(numbers.is_sorted());
    let read = stub.logged("in")[1]["t"].as_u64();
    assert!(read < out[0]["t"].as_u64());
}

#[test]
fn inputs_of_a_session_queue_and_sessions_do_not() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.open("b");
    stub.instruct(
        "a",
        json!([["wait", "file.input"], ["say", "one"], ["complete"]]),
    );
    stub.input("a", "two");
    stub.input("b", "meanwhile");
    stub.expect(output("b", "meanwhile"));
    stub.expect(complete("b"));
    stub.send(json!({"type": "file.input", "session_id": "a", "file_path": "/x"}));
    for message in [
        output("a", "one"),
        complete("a"),
        output("a", "two"),
        complete("a"),
    ] {
        stub.expect(message);
    }
}

#[test]
fn stop_ends_an_open_turn_and_an_idle_stop_is_silent() {
    let mut stub = Stub::start(json!({"extensions": ["turns", "flow"]}));
    stub.send(
        json!({"type": "session.start", "session_id": "a", "protocol": 1, "extensions": ["turns", "events"]}),
    );
    let ready = stub.next();
    assert_eq!(
        (&ready["type"], &ready["extensions"]),
        (&json!("session.ready"), &json!(["turns"]))
    );
    let input = |turn: &str, content: &str| json!({"type": "user.input", "session_id": "a", "turn_id": turn, "content": content});
    stub.send(json!({"type": "stop", "session_id": "a"}));
    stub.send(input(
        "t1",
        r#"{"$stub":[["say","busy"],["delay",60000],["say","never"]]}"#,
    ));
    stub.send(input("t2", "queued"));
    stub.send(input("t3", "last"));
    assert_eq!(stub.next()["turn_id"], "t1");
    stub.send(json!({"type": "stop", "session_id": "a", "turn_id": "t2"}));
    stub.expect(
        json!({"type": "turn.complete", "session_id": "a", "turn_id": "t2", "status": "stopped"}),
    );
    stub.send(json!({"type": "stop", "session_id": "a"}));
    stub.expect(
        json!({"type": "turn.complete", "session_id": "a", "turn_id": "t1", "status": "stopped"}),
    );
    assert_eq!(stub.next()["content"], "last");
    assert_eq!(stub.next()["turn_id"], "t3");
    stub.close_stdin();
    stub.expect_end();
}

#[test]
fn a_stop_right_after_its_input_is_not_lost() {
    let mut stub = Stub::start(json!({}));
    for i in 0..50 {
        let id = format!("s{i}");
        let start = json!({"type": "session.start", "session_id": id});
        let input = json!({"type": "user.input", "session_id": id, "content": r#"{"$stub":[]}"#});
        let stop = json!({"type": "stop", "session_id": id});
        stub.send_raw(format!("{start}\n{input}\n{stop}\n").as_bytes());
        stub.expect(complete(&id));
    }
}

#[test]
fn actions_reach_other_sessions_also_after_their_close() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.instruct(
        "a",
        json!([
            ["later", 0, [["until", "closed"], ["say", "background"]]],
            ["complete"]
        ]),
    );
    stub.expect(complete("a"));
    stub.send(json!({"type": "session.close", "session_id": "a"}));
    stub.cue("closed");
    stub.expect(output("a", "background"));
    stub.open("b");
    stub.instruct(
        "b",
        json!([
            ["to", "the a", [["say", "late"]]],
            ["session", "zz", [["say", "foreign"]]],
            ["complete"]
        ]),
    );
    stub.expect(output("a", "late"));
    stub.expect(output("zz", "foreign"));
    stub.expect(complete("b"));
}

#[test]
fn a_wait_takes_what_came_since_its_turn_began_once() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.send(
        json!({"type": "permission.response", "session_id": "a", "request_id": "r2", "approved": true}),
    );
    stub.instruct(
        "a",
        json!([
            ["ask", {"request_id": "r1", "tool": "t", "description": "d", "resource": "r"}],
            ["wait", "permission.response", "r1"],
            ["wait", "permission.response", 1],
            ["complete"]
        ]),
    );
    assert_eq!(stub.next()["type"], "permission.request");
    stub.send(
        json!({"type": "permission.response", "session_id": "a", "request_id": "r1", "approved": true}),
    );
    stub.expect(complete("a"));
    assert_eq!(stub.logged("timeout").len(), 1);
}

#[test]
fn pings_updates_rules_and_steers_are_answered() {
    let mut stub = Stub::start(json!({
        "extensions": ["turns", "control", "options"],
        "ready": {"input_modes": ["steer"], "adapter": null},
        "on": {"stop": [["say", "stopping"], ["complete", {"status": "stopped"}]]}
    }));
    stub.send(
        json!({"type": "session.start", "session_id": "a", "extensions": ["turns", "control", "options"]}),
    );
    let ready = stub.next();
    assert_eq!(
        (ready.get("adapter"), &ready["input_modes"]),
        (None, &json!(["steer"]))
    );
    stub.send(json!({"type": "ping", "session_id": "", "nonce": [1]}));
    stub.expect(json!({"type": "pong", "session_id": "", "nonce": [1]}));
    stub.send(json!({"type": "session.update", "session_id": "a", "model": "m"}));
    stub.expect(json!({"type": "session.info", "session_id": "a", "model": "m"}));
    let input = |turn: &str, mode: &str, content: &str| json!({"type": "user.input", "session_id": "a", "turn_id": turn, "message_id": turn, "mode": mode, "content": content});
    stub.send(input("t0", "steer", "x"));
    assert_eq!(stub.next()["delivered"], false);
    stub.send(input("t1", "turn", r#"{"$stub":[["say","on"]]}"#));
    assert_eq!(stub.next()["content"], "on");
    stub.send(input("t2", "steer", "x"));
    stub.expect(json!({"type": "steer.result", "session_id": "a", "turn_id": "t1", "message_id": "t2", "delivered": true}));
    stub.send(input("t3", "steer", r#"{"$stub":[["say","steered"]]}"#));
    stub.expect(
        json!({"type": "output", "session_id": "a", "turn_id": "t1", "content": "steered"}),
    );
    stub.send(json!({"type": "stop", "session_id": "a"}));
    stub.expect(
        json!({"type": "output", "session_id": "a", "turn_id": "t1", "content": "stopping"}),
    );
    stub.expect(
        json!({"type": "turn.complete", "session_id": "a", "turn_id": "t1", "status": "stopped"}),
    );
}

#[test]
fn a_paused_session_holds_its_messages_back() {
    let mut stub = Stub::start(json!({"extensions": ["flow"]}));
    stub.send(json!({"type": "session.start", "session_id": "a", "extensions": ["flow"]}));
    assert_eq!(stub.next()["type"], "session.ready");
    stub.send(json!({"type": "flow.pause", "session_id": "a"}));
    stub.input("a", "held");
    stub.open("b");
    stub.input("b", "free");
    stub.expect(output("b", "free"));
    stub.expect(complete("b"));
    stub.send(json!({"type": "flow.resume", "session_id": "a"}));
    stub.expect(output("a", "held"));
    stub.expect(complete("a"));
}

#[test]
fn bad_instructions_are_told_and_a_bad_script_is_refused() {
    let mut stub = Stub::start(json!({}));
    stub.open("a");
    stub.instruct("a", json!([["burst", "many"]]));
    let told = stub.next();
    assert_eq!(told["channel"], "system");
    assert_eq!(
        told["content"],
        "$stub[0]: \"burst\" wants a number as argument 1"
    );
    stub.expect(complete("a"));

    let mut stub = Stub::start(json!({"on": {"stop": [["shout"]]}}));
    assert_eq!(stub.exit().code(), Some(2));
    assert_eq!(
        stub.logged("bad")[0]["error"],
        "on.stop[0]: \"shout\" is not an action"
    );
}
