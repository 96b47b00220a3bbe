//! The profile `acp` as a real process, with an agent that is controlled by its prompts.

#![allow(clippy::unwrap_used, reason = "what fails here fails its test")]

#[path = "generic/adapter.rs"]
#[allow(dead_code, reason = "shared with other tests, which use more of it")]
mod adapter;

use std::path::{Path, PathBuf};

use adapter::{Adapter, Turn, printed, program};
use serde_json::{Value, json};

fn fake() -> PathBuf {
    let adapter = Path::new(env!("CARGO_BIN_EXE_trunkline-adapter"));
    adapter.parent().unwrap().join("examples/fake_acp")
}

fn config(arguments: &[&str]) -> Value {
    json!({ "command": fake(), "args": arguments })
}

/// An adapter with a session `s` in a folder of its own.
fn started(config: &Value) -> (Adapter, tempfile::TempDir) {
    let mut adapter = Adapter::start("acp", config);
    let folder = tempfile::tempdir().unwrap();
    adapter.open_with("s", json!({ "cwd": folder.path() }));
    (adapter, folder)
}

fn steps(steps: &Value) -> String {
    steps.to_string()
}

fn messages_of_kind<'t>(turn: &'t Turn, kind: &str) -> Vec<&'t Value> {
    turn.messages
        .iter()
        .filter(|message| message["type"] == kind)
        .collect()
}

/// Processes with this word among their arguments.
fn running(word: &str) -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines
        .filter(|line| {
            line.split(|byte| *byte == 0)
                .any(|argument| argument == word.as_bytes())
        })
        .count()
}

fn all_gone(word: &str) {
    let until = std::time::Instant::now() + adapter::LIMIT;
    while running(word) > 0 {
        assert!(
            std::time::Instant::now() < until,
            "a process of {word} is left behind"
        );
        std::thread::yield_now();
    }
}

/// Returns a word that is unique to this test run.
fn word(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

const PERMISSION: &str = "session/request_permission";

fn permission(call: &str) -> Value {
    json!([PERMISSION, {
        "toolCall": { "toolCallId": call, "title": format!("touch {call}"), "kind": "execute", "rawInput": { "command": format!("touch {call}") } },
        "options": [
            { "optionId": "always", "name": "Always", "kind": "allow_always" },
            { "optionId": "once", "name": "Once", "kind": "allow_once" },
            { "optionId": "no", "name": "No", "kind": "reject_once" },
        ],
    }])
}

#[test]
fn text_thoughts_plans_and_what_is_known_of_the_session_are_told() {
    let (mut adapter, _folder) = started(&config(&[]));
    let turn = adapter.send("s", "hello");
    assert_eq!(
        (turn.text().as_str(), turn.status()),
        ("hello", "completed")
    );
    let infos = messages_of_kind(&turn, "session.info");
    let native = infos
        .iter()
        .find_map(|info| info["native_session_id"].as_str())
        .unwrap()
        .to_owned();
    assert!(infos.iter().any(|info| {
        info["modes"]
            .as_array()
            .is_some_and(|modes| modes.len() == 4)
    }));
    assert!(
        infos
            .iter()
            .any(|info| info["commands"][0]["text"] == "/plan"),
        "{infos:?}"
    );
    assert_eq!(turn.end["native_session_id"], native);
    let turn = adapter.send("s", &steps(&json!([
        { "line": "no message" },
        { "update": { "sessionUpdate": "of_unknown_kind", "x": 1 } },
        { "update": { "sessionUpdate": "user_message_chunk", "content": { "type": "text", "text": "echo" } } },
        { "update": { "sessionUpdate": "agent_thought_chunk", "content": { "type": "text", "text": "hm" } } },
        { "update": { "sessionUpdate": "plan", "entries": [{ "content": "a", "status": "in_progress", "priority": "high" }, 3] } },
        { "update": { "sessionUpdate": "notice", "severity": "error", "title": "The disk is nearly full" } },
        { "update": { "sessionUpdate": "compaction_summary_chunk", "compactionId": "k", "content": { "type": "text", "text": "All." } } },
        { "update": { "sessionUpdate": "compaction_update", "compactionId": "k", "status": "completed" } },
        { "update": { "sessionUpdate": "tool_call", "toolCallId": "c", "title": "Look", "name": "look", "status": "completed" } },
        { "say": "done" },
        { "end": { "stopReason": "max_turn_requests", "usage": { "inputTokens": 3, "outputTokens": 4, "totalTokens": 7 } } },
    ])));
    assert_eq!(
        (turn.text().as_str(), turn.status(), turn.category()),
        ("done", "limit", "max_turns")
    );
    assert_eq!(turn.end["usage"]["output_tokens"], 4);
    assert_eq!(messages_of_kind(&turn, "thinking")[0]["content"], "hm");
    assert_eq!(
        messages_of_kind(&turn, "error")[0]["message"],
        "The disk is nearly full"
    );
    assert_eq!(messages_of_kind(&turn, "tool.start")[0]["tool"], "look");
    assert_eq!(messages_of_kind(&turn, "compaction")[0]["summary"], "All.");
    assert_eq!(
        messages_of_kind(&turn, "plan")[0]["entries"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
    adapter.end();
}

#[test]
fn several_permissions_are_asked_at_once_and_each_gets_its_own_answer() {
    let (mut adapter, _folder) = started(&config(&[]));
    adapter.begin(
        "s",
        &steps(&json!([{ "ask": [permission("a"), permission("b"), permission("c")] }])),
    );
    let requests: Vec<Value> = (0..3)
        .map(|_| adapter.wait_for("s", "permission.request"))
        .collect();
    assert_eq!(requests[0]["resource"], "touch a");
    let mut answer = |request: &Value, answer: Value| {
        let mut message = json!({ "type": "permission.response", "session_id": "s", "request_id": request["request_id"] });
        message
            .as_object_mut()
            .unwrap()
            .extend(answer.as_object().unwrap().clone());
        adapter.say(&message);
    };
    answer(
        &requests[2],
        json!({ "approved": true, "option_id": "always" }),
    );
    answer(
        &requests[0],
        json!({ "approved": false, "option_id": "once" }),
    );
    answer(&requests[1], json!({ "approved": true }));
    let turn = adapter.finish("s");
    let chosen: Vec<String> = turn
        .text()
        .lines()
        .map(|line| {
            serde_json::from_str::<Value>(line).unwrap()["outcome"]["optionId"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(chosen, ["no", "once", "always"]);
    let ends = messages_of_kind(&turn, "tool.end");
    assert!(
        ends.iter()
            .any(|end| end["tool_call_id"] == "a" && end["is_error"] == true),
        "{ends:?}"
    );
    adapter.end();
}

#[test]
fn a_stop_withdraws_what_is_asked_and_the_session_goes_on() {
    let (mut adapter, _folder) = started(&config(&[]));
    adapter.begin(
        "s",
        &steps(&json!([{ "ask": [permission("a")] }, { "wait": "cancel" }])),
    );
    adapter.wait_for("s", "permission.request");
    adapter.stop("s");
    let turn = adapter.finish("s");
    assert_eq!(turn.status(), "stopped");
    assert_eq!(adapter.send("s", "and on").text(), "and on");
    // A stop before the agent has the prompt.
    adapter.begin("s", &steps(&json!([{ "wait": "cancel" }])));
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    assert_eq!(adapter.send("s", "and on").text(), "and on");
    adapter.end();
}

#[test]
fn the_host_answers_the_questions_of_an_agent() {
    let (mut adapter, _folder) = started(&config(&[]));
    let offered = adapter.send("s", &steps(&json!([{ "client": "elicitation" }])));
    assert_eq!(offered.text(), r#"{"form":{},"url":{}}"#);
    let zone = json!({ "type": "string", "title": "Zone", "oneOf": [{ "const": "eu", "title": "Europe" }] });
    let schema = json!({ "type": "object", "properties": { "zone": zone }, "required": ["zone"] });
    let form = json!(["elicitation/create", { "mode": "form", "message": "Where?", "requestedSchema": schema }]);
    let page = |id: &str| json!(["elicitation/create", { "mode": "url", "message": "Log in", "elicitationId": id, "url": "https://login.example/1" }]);
    let complete = json!(["elicitation/complete", { "elicitationId": "e-2" }]);
    let last = steps(&json!([{ "last": true }]));
    let answer = |adapter: &mut Adapter, request: &Value, answer: Value| {
        let mut message = json!({ "type": "input.response", "session_id": "s", "request_id": request["request_id"] });
        let members = answer.as_object().unwrap().clone();
        message.as_object_mut().unwrap().extend(members);
        adapter.say(&message);
    };
    for (request, values, response) in [
        (
            &form,
            json!({ "values": { "zone": "eu" } }),
            r#"{"action":"accept","content":{"zone":"eu"}}"#,
        ),
        (
            &form,
            json!({ "cancelled": true }),
            r#"{"action":"cancel"}"#,
        ),
        (
            &page("e-1"),
            json!({ "values": { "done": false } }),
            r#"{"action":"decline"}"#,
        ),
        (
            &page("e-1"),
            json!({ "values": { "done": true } }),
            r#"{"action":"accept"}"#,
        ),
    ] {
        adapter.begin("s", &steps(&json!([{ "ask": [request] }])));
        let asked = adapter.wait_for("s", "input.request");
        if request == &form {
            assert_eq!(asked["prompt"], "Where?");
            let choices = json!([{ "id": "eu", "label": "Europe" }]);
            let field = json!({ "id": "zone", "label": "Zone", "kind": "choice", "choices": choices, "required": true });
            assert_eq!(asked["fields"], json!([field]));
        } else {
            assert_eq!(asked["prompt"], "Log in\nhttps://login.example/1");
        }
        answer(&mut adapter, &asked, values);
        assert_eq!(adapter.finish("s").text().trim(), response);
    }
    // The page itself reports that it is done.
    let requests = json!([permission("a"), complete, page("e-2")]);
    adapter.begin("s", &steps(&json!([{ "ask": requests }])));
    let allowed = adapter.wait_for("s", "permission.request");
    let asked = adapter.wait_for("s", "input.request");
    adapter.say(&json!({ "type": "permission.response", "session_id": "s", "request_id": allowed["request_id"], "approved": true }));
    let cancelled = adapter.wait_for("s", "permission.cancel");
    assert_eq!(cancelled["request_id"], asked["request_id"]);
    let turn = adapter.finish("s");
    assert!(
        turn.text().ends_with("{\"action\":\"accept\"}\n"),
        "{}",
        turn.text()
    );
    // A question without an answer ends with its turn.
    adapter.begin(
        "s",
        &steps(&json!([{ "ask": [form] }, { "wait": "cancel" }])),
    );
    adapter.wait_for("s", "input.request");
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    assert_eq!(adapter.send("s", &last).text(), r#"{"action":"cancel"}"#);
    adapter.end();
}

#[test]
fn an_agent_that_is_deaf_to_a_stop_ends_the_turn_all_the_same() {
    let (mut adapter, _folder) = started(&config(&[]));
    adapter.begin("s", &steps(&json!([{ "say": "begun" }, { "hang": true }])));
    adapter.wait_for("s", "output");
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    adapter.end();
}

/// Configuration of an agent that must confirm a stop within a second.
fn impatient(arguments: &[&str]) -> Value {
    let mut config = config(arguments);
    config["silence_timeout"] = json!(1);
    config
}

#[test]
fn a_stop_that_is_never_confirmed_costs_neither_the_next_input_nor_a_neighbours_turn() {
    let word = word("deaf");
    let (mut adapter, folder) = started(&impatient(&[&word, "--keeps"]));
    adapter.open_with("t", json!({ "cwd": folder.path() }));
    let own_name = steps(&json!([{ "self": true }]));
    let old = adapter.send("s", &own_name).text();
    let one_agent = running(&word);
    adapter.begin(
        "t",
        &steps(&json!([{ "ask": [permission("a")] }, { "self": true }])),
    );
    let request = adapter.wait_for("t", "permission.request");
    adapter.begin("s", &steps(&json!([{ "say": "begun" }, { "hang": true }])));
    adapter.wait_for("s", "output");
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    let next = adapter.send("s", &own_name);
    assert_eq!(next.status(), "completed", "{}", next.error());
    assert_ne!(next.text(), old);
    assert!(
        next.messages
            .iter()
            .all(|message| message["context"] != "lost"),
        "{:?}",
        next.messages
    );
    adapter.say(&json!({ "type": "permission.response", "session_id": "t", "request_id": request["request_id"], "approved": true }));
    let neighbour = adapter.finish("t");
    assert_eq!(neighbour.status(), "completed", "{}", neighbour.error());
    assert!(neighbour.text().ends_with(&old), "{}", neighbour.text());
    assert_eq!(adapter.send("t", &own_name).text(), next.text());
    let until = std::time::Instant::now() + adapter::LIMIT;
    while running(&word) > one_agent {
        assert!(
            std::time::Instant::now() < until,
            "the retired process is left behind"
        );
        std::thread::yield_now();
    }
    adapter.end();
    all_gone(&word);
}

#[test]
fn an_input_after_an_unconfirmed_stop_is_not_delivered_where_nothing_can_be_resumed() {
    let (mut adapter, _folder) = started(&impatient(&["--no-load"]));
    adapter.begin("s", &steps(&json!([{ "say": "begun" }, { "hang": true }])));
    adapter.wait_for("s", "output");
    adapter.stop("s");
    assert_eq!(adapter.finish("s").status(), "stopped");
    let next = adapter.send("s", "and on");
    assert_eq!(next.status(), "failed");
    assert_eq!(next.end["delivered"], "no");
    assert!(next.error().contains("cannot resume"), "{}", next.error());
    let after = adapter.send("s", "and on");
    assert_eq!(
        (after.text().as_str(), after.status()),
        ("and on", "completed")
    );
    adapter.end();
}

#[test]
fn a_session_that_the_agent_has_lost_is_loaded_again() {
    let (mut adapter, _folder) = started(&config(&[]));
    let lost = json!([{ "forget": true }, { "fail": { "code": -32603, "message": "its process has died" } }]);
    assert_eq!(adapter.send("s", &steps(&lost)).status(), "failed");
    let turn = adapter.send("s", "hello");
    assert_eq!(
        (turn.text().as_str(), turn.status()),
        ("hello", "completed")
    );
    assert!(
        turn.messages
            .iter()
            .all(|message| message["context"] != "lost"),
        "{:?}",
        turn.messages
    );
    adapter.end();
}

#[test]
fn files_are_offered_and_served_only_where_the_configuration_says_so() {
    for offered in [false, true] {
        let (mut adapter, folder) = started(&json!({ "command": fake(), "client_files": offered }));
        let file = folder.path().join("a.txt");
        let turn = adapter.send(
            "s",
            &steps(&json!([
                { "client": "fs" },
                { "ask": [["fs/write_text_file", { "path": file, "content": "one" }]] },
                { "ask": [["fs/read_text_file", { "path": file }]] },
            ])),
        );
        let answers = if offered {
            "{}\n{\"content\":\"one\"}\n"
        } else {
            "-32601\n-32601\n"
        };
        let capability = format!("{{\"readTextFile\":{offered},\"writeTextFile\":{offered}}}");
        assert_eq!(turn.text(), capability + answers);
        assert_eq!(file.exists(), offered);
        adapter.end();
    }
}

#[test]
fn files_are_confined_and_terminals_run_only_with_permission() {
    let (mut adapter, folder) = started(&json!({ "command": fake(), "client_files": true }));
    let inside = folder.path().join("sub/a.txt");
    let turn = adapter.send(
        "s",
        &steps(&json!([
            { "ask": [["fs/write_text_file", { "path": inside, "content": "one\ntwo\n" }]] },
            { "ask": [["fs/read_text_file", { "path": inside, "line": 2, "limit": 1 }]] },
            { "ask": [["fs/read_text_file", { "path": "/etc/passwd" }]] },
            { "ask": [["fs/write_text_file", { "path": folder.path().join("../outside"), "content": "x" }]] },
            { "ask": [["no/such/method", {}]] },
            { "ask": [["terminal/output", { "terminalId": "none" }]] },
        ])),
    );
    assert_eq!(
        turn.text(),
        "{}\n{\"content\":\"two\\n\"}\n-32602\n-32602\n-32601\n-32602\n"
    );
    assert!(!folder.path().parent().unwrap().join("outside").exists());
    let run = json!({ "command": "sh", "args": ["-c", "echo out; exit 5"], "cwd": folder.path() });
    let script = steps(&json!([
        { "ask": [["terminal/create", run]] },
        { "ask": [["terminal/wait_for_exit", { "terminalId": "terminal-1" }]] },
        { "ask": [["terminal/output", { "terminalId": "terminal-1" }]] },
        { "update": { "sessionUpdate": "tool_call", "toolCallId": "c", "title": "run", "status": "completed", "content": [{ "type": "terminal", "terminalId": "terminal-1" }] } },
        { "ask": [["terminal/release", { "terminalId": "terminal-1" }]] },
    ]));
    for approved in [false, true] {
        adapter.begin("s", &script);
        let request = adapter.wait_for("s", "permission.request");
        assert!(
            request["resource"].as_str().unwrap().contains("echo out"),
            "{request}"
        );
        adapter.say(&json!({ "type": "permission.response", "session_id": "s", "request_id": request["request_id"], "approved": approved }));
        let turn = adapter.finish("s");
        if approved {
            assert!(
                turn.text().contains("{\"exitCode\":5,\"signal\":null}"),
                "{}",
                turn.text()
            );
            assert_eq!(messages_of_kind(&turn, "tool.end")[0]["content"], "out\n");
        } else {
            assert!(turn.text().starts_with("-32603\n"), "{}", turn.text());
        }
    }
    let outside = json!({ "command": "true", "cwd": "/" });
    let turn = adapter.send(
        "s",
        &steps(&json!([{ "ask": [["terminal/create", outside]] }])),
    );
    assert_eq!(
        (
            turn.text().as_str(),
            messages_of_kind(&turn, "permission.request").len()
        ),
        ("-32602\n", 0)
    );
    adapter.end();
}

#[test]
fn a_wish_that_restricts_nothing_is_reported_and_ends_no_session() {
    let mut adapter = Adapter::start("acp", &config(&[]));
    adapter.open_with(
        "s",
        json!({ "temperature": 0.2, "reasoning_effort": "high" }),
    );
    let turn = adapter.send("s", "hello");
    assert_eq!(turn.status(), "completed", "{}", turn.error());
    let warnings: Vec<_> = messages_of_kind(&turn, "error")
        .iter()
        .map(|warning| (warning["message"].to_string(), warning["fatal"].clone()))
        .collect();
    for wish in ["`temperature`", "`reasoning_effort`"] {
        let is_reported = |(text, fatal): &(String, Value)| {
            text.contains(wish) && text.contains("not applied") && *fatal == false
        };
        assert!(warnings.iter().any(is_reported), "{wish}: {warnings:?}");
    }
    adapter.end();
}

#[test]
fn one_process_serves_the_sessions_that_are_started_alike() {
    let word = word("alike");
    let (mut adapter, folder) = started(&config(&[&word]));
    adapter.open_with("t", json!({ "cwd": folder.path() }));
    adapter.open_with("other", json!({ "env": { "WHO": "me" } }));
    adapter.begin(
        "s",
        &steps(&json!([{ "self": true }, { "ask": [permission("a")] }])),
    );
    let first = adapter.wait_for("s", "output")["content"].clone();
    let request = adapter.wait_for("s", "permission.request");
    let second = adapter.send("t", &steps(&json!([{ "self": true }]))).text();
    let other = adapter
        .send(
            "other",
            &steps(&json!([{ "self": true }, { "say": " " }, { "variable": "WHO" }])),
        )
        .text();
    adapter.say(&json!({ "type": "permission.response", "session_id": "s", "request_id": request["request_id"], "approved": true }));
    assert_eq!(adapter.finish("s").status(), "completed");
    let (other, who) = other.split_once(' ').unwrap();
    assert_eq!(first, second.as_str());
    assert_ne!(second, other);
    assert_eq!(who, "me");
    assert!(running(&word) >= 2);
    adapter.end();
    all_gone(&word);
}

#[test]
fn an_agent_that_falls_fails_its_turns_and_the_next_one_starts_it_again() {
    let (mut adapter, _folder) = started(&config(&[]));
    adapter.open("t");
    adapter.begin("t", &steps(&json!([{ "ask": [permission("a")] }])));
    adapter.wait_for("t", "permission.request");
    let turn = adapter.send("s", &steps(&json!([{ "exit": 7 }])));
    assert_eq!((turn.status(), turn.category()), ("failed", "process_exit"));
    assert!(
        turn.error().contains("exit status 7") && turn.error().contains("it falls"),
        "{}",
        turn.error()
    );
    assert_eq!(adapter.finish("t").category(), "process_exit");
    let turn = adapter.send("s", "again");
    assert_eq!(
        (turn.text().as_str(), turn.status()),
        ("again", "completed")
    );
    assert!(
        messages_of_kind(&turn, "session.info")
            .iter()
            .any(|info| info["context"] == "lost"),
        "{:?}",
        turn.messages
    );
    adapter.end();
}

#[test]
fn a_flood_ends_its_own_turn_and_no_other() {
    let (mut adapter, _folder) = started(&config(&[]));
    adapter.open("t");
    adapter.say(&json!({ "type": "flow.pause", "session_id": "s" }));
    adapter.begin(
        "s",
        &steps(&json!([{ "flood": 560 }, { "wait": "cancel" }])),
    );
    let turn = adapter.send(
        "t",
        &steps(&json!([{ "after": "flood" }, { "say": "undisturbed" }])),
    );
    assert_eq!(
        (turn.text().as_str(), turn.status()),
        ("undisturbed", "completed")
    );
    adapter.say(&json!({ "type": "flow.resume", "session_id": "s" }));
    let turn = adapter.finish("s");
    assert_eq!(
        (turn.status(), turn.category()),
        ("failed", "oversize"),
        "{}",
        turn.error()
    );
    assert_eq!(adapter.send("t", "still").text(), "still");
    adapter.end();
}

#[test]
fn errors_have_their_categories() {
    let (mut adapter, _folder) = started(&config(&[]));
    for (error, category) in [
        (json!({ "code": 429, "message": "slow down" }), "rate_limit"),
        (
            json!({ "code": 401, "message": "{\"error\":{\"code\":401}}" }),
            "auth",
        ),
        (
            json!({ "code": -32000, "message": "Authentication required" }),
            "auth",
        ),
        (json!({ "code": 503, "message": "boom" }), "overloaded"),
        (
            json!({ "code": -32603, "message": "Internal error" }),
            "other",
        ),
    ] {
        let turn = adapter.send("s", &steps(&json!([{ "fail": error }])));
        assert_eq!(
            (turn.status(), turn.category()),
            ("failed", category),
            "{error}"
        );
    }
    // Ordinary text is not an error, whatever it contains.
    let turn = adapter.send(
        "s",
        &steps(&json!([{ "say": "Error: 429 too many requests" }])),
    );
    assert_eq!(
        (turn.status(), turn.text().as_str()),
        ("completed", "Error: 429 too many requests")
    );
    adapter.end();
    let (mut adapter, _folder) = started(&config(&["--name", "Copilot"]));
    let turn = adapter.send("s", &steps(&json!([{ "say": "Error: 429 slow down" }])));
    assert_eq!(
        (turn.status(), turn.category(), turn.text().as_str()),
        ("failed", "rate_limit", "")
    );
    adapter.end();
}

#[test]
fn a_turn_without_a_word_has_failed_where_the_agent_tells_failures_so() {
    for (name, status) in [("unknown", "completed"), ("Kimi Code CLI", "failed")] {
        let (mut adapter, _folder) = started(&config(&["--name", name]));
        assert_eq!(
            adapter.send("s", &steps(&json!([]))).status(),
            status,
            "{name}"
        );
        let tool = json!({ "sessionUpdate": "tool_call", "toolCallId": "c", "title": "run", "status": "completed" });
        for spoken in [json!([{ "say": "x" }]), json!([{ "update": tool }])] {
            assert_eq!(
                adapter.send("s", &steps(&spoken)).status(),
                "completed",
                "{name}"
            );
        }
        adapter.end();
    }
}

#[test]
fn an_agent_that_tells_failures_by_text_and_asks_by_other_ids_is_understood() {
    let (mut adapter, _folder) = started(&config(&["--name", "hermes-agent"]));
    let well = json!({ "end": { "stopReason": "end_turn", "usage": { "inputTokens": 9, "outputTokens": 3, "totalTokens": 12 } } });
    let call = json!({ "sessionUpdate": "tool_call", "toolCallId": "tc-1", "title": "terminal: touch it", "kind": "execute" });
    adapter.begin(
        "s",
        &steps(&json!([{ "update": call }, { "ask": [permission("perm-check-1")] }, well])),
    );
    let request = adapter.wait_for("s", "permission.request");
    assert_eq!(
        (&request["resource"], &request["tool_call_id"]),
        (&json!("touch perm-check-1"), &Value::Null)
    );
    adapter.say(&json!({ "type": "permission.response", "session_id": "s", "request_id": request["request_id"], "approved": true }));
    let turn = adapter.finish("s");
    let ends: Vec<_> = messages_of_kind(&turn, "tool.end")
        .iter()
        .map(|end| (end["tool_call_id"].clone(), end["is_error"].clone()))
        .collect();
    assert_eq!(
        ends,
        [(json!("tc-1"), Value::Null)],
        "no one knows how it ended"
    );
    for (text, category) in [
        ("HTTP 401: no such key", "auth"),
        (
            "API call failed after 3 retries: HTTP 429: slow down",
            "rate_limit",
        ),
        // Counted before, it counts nothing for an answer that broke off.
        ("partial", "overloaded"),
    ] {
        let turn = adapter.send("s", &steps(&json!([{ "say": text }])));
        assert_eq!(
            (turn.status(), turn.category()),
            ("failed", category),
            "{text}"
        );
    }
    let so_far = json!({ "end": { "stopReason": "end_turn", "usage": { "inputTokens": 18, "outputTokens": 6, "totalTokens": 24 } } });
    let turn = adapter.send(
        "s",
        &steps(&json!([{ "say": "HTTP 401: what that means" }, so_far])),
    );
    assert_eq!(
        (turn.status(), turn.text().as_str()),
        ("completed", "HTTP 401: what that means")
    );
    adapter.end();
}

#[test]
fn a_silent_agent_is_given_up_in_time() {
    let mut config = config(&[]);
    config["silence_timeout"] = json!(0.3);
    let (mut adapter, _folder) = started(&config);
    let turn = adapter.send("s", &steps(&json!([{ "wait": "cancel" }])));
    assert_eq!((turn.status(), turn.category()), ("failed", "timeout"));
    let expired = json!([{ "complain": "Error: SSO token has expired" }, { "wait": "cancel" }]);
    let turn = adapter.send("s", &steps(&expired));
    assert_eq!(
        (turn.status(), turn.category()),
        ("failed", "auth"),
        "{}",
        turn.error()
    );
    // On a busy machine the next turn may be as late.
    let until = std::time::Instant::now() + adapter::LIMIT;
    loop {
        let turn = adapter.send("s", "and on");
        if turn.status() == "completed" {
            assert_eq!(turn.text(), "and on");
            break;
        }
        // The agent's last words explain it.
        assert_eq!(turn.category(), "auth");
        assert!(std::time::Instant::now() < until, "the session goes on");
    }
    adapter.end();
    let late = json!({ "command": "sh", "args": ["-c", "cat >/dev/null"], "start_timeout": 0.3 });
    let (mut adapter, _folder) = started(&late);
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.status(), turn.category()),
        ("failed", "timeout"),
        "{}",
        turn.error()
    );
    adapter.end();
}

#[test]
fn an_answer_that_breaks_off_for_ever_ends_the_turn_and_not_the_conversation() {
    // Only the second one is ended by the agent's silence.
    for (messages, silence, told) in [
        (
            json!(["1", "2", "3", "4", "5", "6"]),
            60,
            "4 times in a row",
        ),
        (json!(["1"]), 3, "breaks off, and each time"),
    ] {
        let mut config = config(&["--name", "opencode"]);
        config["silence_timeout"] = json!(silence);
        let (mut adapter, _folder) = started(&config);
        let whole = |text: &str| {
            let usage = json!({ "inputTokens": 3, "outputTokens": 4, "totalTokens": 7 });
            steps(
                &json!([{ "say": text }, { "end": { "stopReason": "end_turn", "usage": usage } }]),
            )
        };
        let native = adapter.send("s", &whole("first")).end["native_session_id"].clone();
        assert!(native.is_string(), "{native}");
        let turn = adapter.send("s", &steps(&json!([{ "again": messages }])));
        assert_eq!(
            (turn.status(), turn.category()),
            ("failed", "overloaded"),
            "{}",
            turn.error()
        );
        assert!(turn.error().contains(told), "{}", turn.error());
        let next = adapter.send("s", &whole("and on"));
        assert_eq!(
            (next.text().as_str(), next.status()),
            ("and on", "completed")
        );
        assert_eq!(next.end["native_session_id"], native);
        adapter.end();
    }
}

#[test]
fn what_cannot_be_started_is_said() {
    let (mut adapter, _folder) = started(&json!({ "command": "no-such-agent" }));
    let turn = adapter.send("s", "x");
    assert_eq!(
        (turn.status(), turn.category()),
        ("failed", "not_installed")
    );
    adapter.end();
    let (mut adapter, _folder) =
        started(&json!({ "command": "sh", "args": ["-c", "echo unhappy >&2; exit 3"] }));
    let turn = adapter.send("s", "x");
    assert_eq!((turn.status(), turn.category()), ("failed", "process_exit"));
    assert!(turn.error().contains("unhappy"), "{}", turn.error());
    adapter.end();
    let (command, _folder) = program("acp", &json!({}));
    let (said, code) = printed(command);
    assert!(
        said.contains("`command` is missing") && code == Some(2),
        "{said}"
    );
}

#[test]
fn a_session_is_resumed_and_its_history_told_only_if_that_is_asked() {
    for (history, arguments) in [
        (false, &["--known", "old"][..]),
        (true, &["--known", "old"]),
        (false, &["--known", "old", "--late"]),
    ] {
        let mut adapter = Adapter::start("acp", &config(arguments));
        adapter.open_with(
            "s",
            json!({ "resume": { "native_session_id": "old", "history": history } }),
        );
        let turn = adapter.send("s", "now");
        assert!(
            messages_of_kind(&turn, "session.info")
                .iter()
                .any(|info| info["context"] == "kept"),
            "{:?}",
            turn.messages
        );
        let told: Vec<_> = turn
            .messages
            .iter()
            .filter(|message| message["history"] == true)
            .collect();
        assert_eq!(told.len(), if history { 2 } else { 0 }, "{told:?}");
        let now: String = messages_of_kind(&turn, "output")
            .iter()
            .filter(|output| output["history"] != true)
            .filter_map(|output| output["content"].as_str())
            .collect();
        assert_eq!(now, "now");
        adapter.end();
    }
    for arguments in [&["--no-load"][..], &[]] {
        let mut adapter = Adapter::start("acp", &config(arguments));
        adapter.open_with("s", json!({ "resume": { "native_session_id": "never" } }));
        let turn = adapter.send("s", "now");
        assert_eq!((turn.text().as_str(), turn.status()), ("now", "completed"));
        assert!(
            messages_of_kind(&turn, "session.info")
                .iter()
                .any(|info| info["context"] == "lost")
        );
        assert!(
            messages_of_kind(&turn, "error")
                .iter()
                .any(|error| error["category"] == "session_not_found")
        );
        assert_eq!(turn.end["clear_session"], true);
        adapter.end();
    }
}

#[test]
fn a_login_by_a_variable_is_made_where_it_is_set() {
    let mut config = config(&["--auth", "FAKE_ACP_KEY"]);
    let (mut adapter, _folder) = started(&config);
    let turn = adapter.send("s", "x");
    assert_eq!((turn.status(), turn.category()), ("failed", "auth"));
    assert!(turn.error().contains("FAKE_ACP_KEY"), "{}", turn.error());
    adapter.end();
    config["auth_method"] = json!("none");
    let (mut adapter, _folder) = started(&config);
    let turn = adapter.send("s", "x");
    assert_eq!((turn.status(), turn.category()), ("failed", "auth"));
    assert!(turn.error().contains("`key`"), "{}", turn.error());
    adapter.end();
    config["auth_method"] = json!("key");
    let (mut adapter, _folder) = started(&config);
    assert_eq!(adapter.send("s", "x").text(), "x");
    adapter.end();
    config["auth_method"] = json!("");
    config["env"] = json!({ "FAKE_ACP_KEY": "k" });
    let (mut adapter, _folder) = started(&config);
    assert_eq!(adapter.send("s", "x").text(), "x");
    adapter.end();
}

#[test]
fn modes_are_chosen_and_dangerous_ones_only_where_the_configuration_says_so() {
    let mut config = config(&[]);
    for (dangerous, mode, works) in [
        (false, "plan", true),
        (false, "yolo", false),
        (true, "yolo", true),
        (true, "none", false),
    ] {
        config["dangerous"] = json!(dangerous);
        let mut adapter = Adapter::start("acp", &config);
        adapter.open_with("s", json!({ "mode": mode }));
        let turn = adapter.send("s", "x");
        assert_eq!(
            turn.status() == "completed",
            works,
            "{mode}: {}",
            turn.error()
        );
        adapter.end();
    }
    let (mut adapter, _folder) = started(&config);
    adapter.send("s", "x");
    adapter.say(&json!({ "type": "session.update", "session_id": "s", "mode": "plan" }));
    let info = adapter.wait_for("s", "session.info");
    assert_eq!(info["mode"], "plan");
    adapter.end();
    for (name, works) in [("unknown", true), ("Kimi Code CLI", false)] {
        let mut adapter = Adapter::start("acp", &self::config(&["--name", name]));
        adapter.open_with("s", json!({ "mode": "auto" }));
        assert_eq!(
            adapter.send("s", "x").status() == "completed",
            works,
            "{name}"
        );
        adapter.end();
    }
}

#[test]
fn options_of_the_agents_own_are_set_and_set_again_after_its_end() {
    let (mut adapter, _folder) = started(&config(&["--options"]));
    let turn = adapter.send("s", &steps(&json!([{ "client": "session" }])));
    assert!(turn.text().contains(r#""configOptions":{"boolean":{}}"#));
    let values = |info: &Value| -> Vec<Value> {
        let options = info["options"].as_array().unwrap().iter();
        options.map(|option| option["value"].clone()).collect()
    };
    let infos = messages_of_kind(&turn, "session.info");
    let opened = infos.iter().find(|info| info["options"].is_array());
    assert_eq!(
        values(opened.unwrap()),
        [json!("low"), json!("fast"), json!(false), json!(false)]
    );
    let mut set = |options: Value| {
        adapter.say(&json!({ "type": "session.update", "session_id": "s", "options": options }));
        adapter.wait_for("s", "session.info")
    };
    let changed = [json!("high"), json!("slow"), json!(false), json!(true)];
    let info = set(json!({ "effort": "high", "speed": "slow", "web": true }));
    assert_eq!(
        (values(&info), &info["reasoning_effort"]),
        (changed.to_vec(), &json!("high"))
    );
    // What cannot be applied is reported, and the rest is.
    let info = set(
        json!({ "speed": "broken", "auto_approve": true, "none": 1, "web": "yes", "effort": "low" }),
    );
    assert_eq!(
        values(&info),
        [json!("low"), json!("slow"), json!(false), json!(true)]
    );
    let turn = adapter.send("s", &steps(&json!([{ "exit": 1 }])));
    assert_eq!(turn.status(), "failed");
    let turn = adapter.send("s", "again");
    let infos = messages_of_kind(&turn, "session.info");
    let opened = infos.iter().find(|info| info["options"].is_array());
    assert_eq!(
        values(opened.unwrap()),
        [json!("low"), json!("slow"), json!(false), json!(true)]
    );
    adapter.end();
}

#[test]
fn a_request_that_names_its_call_alone_is_asked_with_what_was_told_of_it() {
    let (mut adapter, folder) = started(&config(&[]));
    let bare = |call: &str| json!([PERMISSION, { "toolCall": { "toolCallId": call }, "options": permission(call)[1]["options"] }]);
    let told = |call: &str, further: Value| {
        let mut update =
            json!({ "sessionUpdate": "tool_call", "toolCallId": call, "status": "in_progress" });
        update
            .as_object_mut()
            .unwrap()
            .extend(further.as_object().unwrap().clone());
        json!({ "update": update })
    };
    let diff = json!({ "type": "diff", "path": "/it.txt", "newText": "new" });
    adapter.begin(
        "s",
        &steps(&json!([
            told("run", json!({ "title": "bash: touch it", "kind": "execute", "rawInput": { "command": "touch it" } })),
            told("write", json!({ "title": "Writing it", "kind": "edit", "content": [diff], "locations": [{ "path": "/it.txt" }] })),
            { "ask": [bare("write")] },
            { "ask": [bare("run")] },
            // The command that was shown needs no second approval.
            { "ask": [["terminal/create", { "command": "touch", "args": ["it"], "cwd": folder.path() }]] },
            { "ask": [["terminal/create", { "command": "rm", "args": ["it"], "cwd": folder.path() }]] },
        ])),
    );
    for (resource, title, shown, value) in [
        (
            "/it.txt",
            json!("Writing it"),
            "/diffs/0/path",
            json!("/it.txt"),
        ),
        (
            "touch it",
            json!("bash: touch it"),
            "/input/command",
            json!("touch it"),
        ),
        ("rm it", Value::Null, "/input/args", json!(["it"])),
    ] {
        let request = adapter.wait_for("s", "permission.request");
        assert_eq!(
            (&request["resource"], &request["title"]),
            (&json!(resource), &title)
        );
        assert_eq!(request.pointer(shown), Some(&value), "{request}");
        adapter.say(&json!({ "type": "permission.response", "session_id": "s", "request_id": request["request_id"], "approved": true }));
    }
    let turn = adapter.finish("s");
    assert!(
        turn.text().contains("terminal-2")
            && messages_of_kind(&turn, "permission.request").is_empty(),
        "{}",
        turn.text()
    );
    adapter.end();
}

#[test]
fn usage_that_an_agent_counts_over_its_session_is_told_by_turn() {
    for name in ["Copilot", "hermes-agent", "@mistralai/mistral-vibe"] {
        let (mut adapter, _folder) = started(&config(&["--name", name]));
        for so_far in [34, 68] {
            let usage = json!({ "inputTokens": 1200, "outputTokens": so_far, "totalTokens": 1200 + so_far });
            let turn = adapter.send(
                "s",
                &steps(&json!([{ "say": "x" }, { "end": { "stopReason": "end_turn", "usage": usage } }])),
            );
            assert_eq!(turn.end["usage"]["output_tokens"], 34, "{name}");
        }
        adapter.end();
    }
}

#[test]
fn a_policy_decides_without_the_host() {
    for (policy, chosen) in [("deny", "no"), ("dangerous-allow", "once")] {
        let mut config = config(&[]);
        config["permission"] = json!(policy);
        let (mut adapter, _folder) = started(&config);
        let turn = adapter.send("s", &steps(&json!([{ "ask": [permission("a")] }])));
        assert!(
            turn.text().contains(chosen)
                && messages_of_kind(&turn, "permission.request").is_empty(),
            "{}",
            turn.text()
        );
        adapter.end();
    }
}

#[test]
fn instructions_go_before_the_first_prompt_and_files_with_their_own() {
    let mut adapter = Adapter::start("acp", &config(&[]));
    let folder = tempfile::tempdir().unwrap();
    adapter.open_with(
        "s",
        json!({ "cwd": folder.path(), "system_prompt": "Be brief." }),
    );
    assert_eq!(adapter.send("s", "hello").text(), "Be brief.\n\nhello");
    let inside = folder.path().join("data.bin");
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&inside, [0, 1, 2]).unwrap();
    std::fs::write(outside.path(), [0, 1, 2]).unwrap();
    for path in [inside.as_path(), outside.path()] {
        adapter.say(&json!({ "type": "file.input", "session_id": "s", "file_path": path }));
    }
    let text = adapter.send("s", "look").text();
    assert!(
        text.contains("look + resource_link") && text.contains(outside.path().to_str().unwrap()),
        "{text}"
    );
    adapter.end();
}

#[test]
fn what_an_agent_draws_is_a_file_and_what_cannot_be_one_is_text() {
    let (mut adapter, folder) = started(&config(&[]));
    let outside = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(outside.path(), "secret").unwrap();
    std::fs::write(folder.path().join("report.txt"), "a report").unwrap();
    std::os::unix::fs::symlink(outside.path(), folder.path().join("soft.txt")).unwrap();
    let chunk = |content: Value| json!({ "update": { "sessionUpdate": "agent_message_chunk", "content": content } });
    let image = |mime: &str, data: &str| json!({ "type": "image", "mimeType": mime, "data": data });
    let link = |path: &Path| {
        chunk(
            json!({ "type": "resource_link", "name": "n", "uri": format!("file://{}", path.display()) }),
        )
    };
    let turn = adapter.send("s", &steps(&json!([
        { "say": "look: " },
        chunk(image("image/png", "YWJj")),
        chunk(image("../../../x", "ZGVm")),
        chunk(json!({ "type": "resource", "resource": { "uri": "file:///../../x", "mimeType": "application/pdf", "blob": "Z2hp" } })),
        { "update": { "sessionUpdate": "tool_call", "toolCallId": "c", "title": "draw", "status": "completed", "content": [{ "type": "content", "content": image("image/webp", "amts") }] } },
        link(&folder.path().join("report.txt")),
        { "say": "seen" },
    ])));
    let files: Vec<_> = messages_of_kind(&turn, "file.output")
        .into_iter()
        .map(|file| {
            let path = Path::new(file["file_path"].as_str().unwrap());
            assert!(
                path.is_absolute()
                    && path
                        .components()
                        .all(|part| part != std::path::Component::ParentDir),
                "{file}"
            );
            let member = |name: &str| file[name].as_str().unwrap().to_owned();
            (
                member("file_name"),
                member("file_mime_type"),
                std::fs::read_to_string(path).unwrap(),
            )
        })
        .collect();
    let expected = [
        ("image.png", "image/png", "abc"),
        ("image.bin", "application/octet-stream", "def"),
        ("file.pdf", "application/pdf", "ghi"),
        ("image.webp", "image/webp", "jkl"),
        ("report.txt", "application/octet-stream", "a report"),
    ];
    assert_eq!(
        files,
        expected.map(|(name, mime, content)| (
            name.to_owned(),
            mime.to_owned(),
            content.to_owned()
        ))
    );
    assert_eq!(
        (turn.text().as_str(), turn.status()),
        ("look: seen", "completed")
    );
    let turn = adapter.send(
        "s",
        &steps(&json!([
            link(outside.path()),
            link(&folder.path().join("soft.txt")),
            link(&folder.path().join("../x")),
            link(Path::new("/dev/zero")),
            chunk(image("image/png", "no base64")),
            { "image": 24_000_000 },
            // Longer than any line.
            { "image": 100_000_000 },
            { "say": "still here" },
        ])),
    );
    assert_eq!(messages_of_kind(&turn, "file.output").len(), 0);
    assert_eq!(
        turn.text().matches("[n](file://").count(),
        4,
        "{}",
        turn.text()
    );
    assert!(
        turn.text()
            .ends_with("[image: image/png][image: image/png]still here"),
        "{}",
        turn.text()
    );
    assert_eq!(turn.status(), "completed");
    adapter.end();
}

#[test]
fn an_agent_that_outlives_its_input_is_ended() {
    let word = word("stays");
    let (mut adapter, _folder) = started(&config(&["--stays", &word]));
    assert_eq!(adapter.send("s", "x").text(), "x");
    assert!(running(&word) > 0);
    adapter.end();
    all_gone(&word);
}

#[test]
fn sessions_are_listed() {
    let (mut adapter, _folder) = started(&config(&[]));
    adapter.say(
        &json!({ "type": "sessions.list", "session_id": "", "request_id": "l", "cwd": "/work" }),
    );
    let list = adapter.wait_for("", "sessions.list.result");
    assert_eq!(
        list["entries"],
        json!([{ "native_session_id": "one", "title": "One", "cwd": "/work" }]),
        "{list}"
    );
    adapter.end();
}

/// A folder with the skills `review` and `plan`, the second of which has the name of a command of the agent.
fn skills() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["review", "plan"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(
            folder.path().join(name).join("SKILL.md"),
            format!("---\ndescription: Says {name}.\n---\n"),
        )
        .unwrap();
    }
    folder
}

#[test]
fn skills_are_told_as_commands_and_put_into_the_inputs_that_call_them() {
    let skills = skills();
    let mut adapter = Adapter::start("acp", &config(&[]));
    let paths = json!([
        skills.path().join("review"),
        skills.path().join("plan"),
        "/no/such/skill"
    ]);
    let ready = adapter.open_with("s", json!({ "cwd": skills.path(), "skills": paths }));
    assert!(
        ready["options_applied"]
            .as_array()
            .unwrap()
            .contains(&json!("skills")),
        "{ready}"
    );
    // A command of the agent's own is sent without additions, and has precedence over a skill of
    // its name.
    let turn = adapter.send("s", "/plan it");
    assert_eq!(
        (turn.text().as_str(), turn.logs("meta").len()),
        ("/plan it", 0)
    );
    let told: Vec<_> = messages_of_kind(&turn, "session.info")
        .into_iter()
        .filter(|info| info["commands"].is_array())
        .collect();
    let texts: Vec<_> = told.last().unwrap()["commands"]
        .as_array()
        .unwrap()
        .iter()
        .map(|one| &one["text"])
        .collect();
    assert_eq!(texts, ["/plan", "/review"]);
    assert!(messages_of_kind(&turn, "error").iter().any(|error| {
        error["message"]
            .as_str()
            .unwrap()
            .contains("/no/such/skill")
    }));
    // An unknown call is reported, and sent unchanged after the pending additions.
    let turn = adapter.send("s", "/nope it");
    assert!(
        turn.text().starts_with("The user may call") && turn.text().ends_with("\n\n/nope it"),
        "{}",
        turn.text()
    );
    assert!(turn.text().contains("- review: Says review."));
    assert!(turn.logs("meta")[0].contains("nope"));
    let turn = adapter.send("s", "/review it");
    assert_eq!(
        turn.text(),
        "---\ndescription: Says review.\n---\n\n---\n\nUser request: it"
    );
    assert_eq!(
        (
            adapter.send("s", "see /review").text().as_str(),
            turn.logs("meta").len()
        ),
        ("see /review", 0)
    );
    adapter.end();
}

#[test]
fn a_command_of_the_agent_is_none_of_the_skills_in_the_first_input_either() {
    let skills = skills();
    let mut adapter = Adapter::start("acp", &config(&["--commands", "after"]));
    adapter.open_with(
        "s",
        json!({ "cwd": skills.path(), "skills": [skills.path().join("plan")] }),
    );
    let turn = adapter.send("s", "/plan it");
    assert_eq!(
        (turn.text().as_str(), turn.logs("meta").len()),
        ("/plan it", 0)
    );
    adapter.end();
}

#[test]
fn commands_of_an_agent_that_tells_them_late_pass_too() {
    let skills = skills();
    let mut adapter = Adapter::start("acp", &config(&["--commands", "late"]));
    let asked = || json!({ "cwd": skills.path(), "skills": [skills.path().join("review")], "system_prompt": "Be brief." });
    for (session, input, is_told) in [("s", "/plan it", false), ("t", "/nope it", true)] {
        adapter.open_with(session, asked());
        let turn = adapter.send(session, input);
        assert_eq!(
            (turn.text().as_str(), !turn.logs("meta").is_empty()),
            (input, is_told)
        );
        assert!(
            adapter
                .send(session, "hello")
                .text()
                .starts_with("Be brief.\n\nThe user may call")
        );
    }
    adapter.end();
}

#[test]
fn a_conversation_that_another_session_resumes_is_that_ones_and_the_first_is_told() {
    let (mut adapter, folder) = started(&config(&["--known", "old"]));
    let resumed = json!({ "cwd": folder.path(), "resume": { "native_session_id": "old" } });
    adapter.open_with("a", resumed.clone());
    assert_eq!(adapter.send("a", "hello").text(), "hello");
    adapter.begin(
        "a",
        &steps(&json!([{ "say": "mine" }, { "wait": "cancel" }])),
    );
    adapter.wait_for("a", "output");
    adapter.open_with("b", resumed);
    let turn = adapter.finish("a");
    assert_eq!(
        (turn.status(), turn.category()),
        ("failed", "busy"),
        "{}",
        turn.error()
    );
    for session in ["b", "a", "b"] {
        assert_eq!(
            adapter.send(session, "and on").text(),
            "and on",
            "{session}"
        );
    }
    // Who lost it has nothing to take away with its end.
    adapter.say(&json!({ "type": "session.close", "session_id": "a" }));
    assert_eq!(adapter.send("b", "still").text(), "still");
    adapter.end();
}

#[test]
fn a_conversation_that_the_agent_does_not_hand_over_stays_with_its_session() {
    let (mut adapter, folder) = started(&config(&["--known", "old", "--busy"]));
    let resumed = json!({ "cwd": folder.path(), "resume": { "native_session_id": "old" } });
    adapter.open_with("a", resumed.clone());
    adapter.begin(
        "a",
        &steps(&json!([{ "say": "one" }, { "after": "flood" }, { "say": " two" }])),
    );
    adapter.wait_for("a", "output");
    adapter.open_with("b", resumed);
    let turn = adapter.send("b", &steps(&json!([{ "flood": 1 }])));
    assert!(
        turn.text().starts_with("0 x") && !turn.text().contains("two"),
        "{}",
        turn.error()
    );
    assert!(
        messages_of_kind(&turn, "session.info")
            .iter()
            .any(|info| info["context"] == "lost")
    );
    let turn = adapter.finish("a");
    assert_eq!(
        (turn.status(), turn.text().as_str()),
        ("completed", " two"),
        "{}",
        turn.error()
    );
    assert_eq!(adapter.send("b", "still").text(), "still");
    adapter.end();
}

#[test]
fn a_title_of_the_agent_goes_with_its_conversation() {
    let (mut adapter, folder) = started(&config(&["--known", "old"]));
    let titled =
        json!([{ "update": { "sessionUpdate": "session_info_update", "title": "Parser work" } }]);
    let params = adapter.send("s", &steps(&titled)).end["session_params"].clone();
    assert_eq!(params["display_id"], "Parser work");
    // The agent does not repeat it.
    let resume =
        json!({ "params": { "native_session_id": "old", "display_id": params["display_id"] } });
    adapter.open_with("t", json!({ "cwd": folder.path(), "resume": resume }));
    let turn = adapter.send("t", "hello");
    assert!(
        messages_of_kind(&turn, "session.info")
            .iter()
            .any(|info| info["display_id"] == "Parser work")
    );
    assert_eq!(turn.end["session_params"]["display_id"], "Parser work");
    adapter.end();
}

/// An agent by name: its profile, its command line, and a variable that its process gets.
type NamedAgent = (&'static str, &'static str, &'static str);

/// The agents that are known by name and have no options of their own. Each row is all that a new
/// one needs here.
const NAMED: [NamedAgent; 8] = [
    ("agentao", "--acp --stdio", ""),
    ("cline", "--acp", ""),
    ("goose", "acp", "GOOSE_MODE=approve"),
    ("hermes-agent", "", ""),
    ("kimi-code", "acp", ""),
    ("mistral-vibe", "", ""),
    ("openhands", "acp", ""),
    ("qwen-code", "--acp", ""),
];

#[test]
fn each_agent_that_is_known_by_name_takes_a_turn() {
    let own_options = ["gemini-cli", "github-copilot", "kilo-code", "opencode"];
    let other_protocols = ["claude-code", "codex", "pi"];
    let named = trunkline_profiles::PROFILES
        .iter()
        .filter(|profile| profile.wrapped().is_some())
        .map(|profile| profile.name)
        .filter(|name| !own_options.contains(name) && !other_protocols.contains(name));
    assert_eq!(
        named.collect::<Vec<_>>(),
        NAMED.map(|(profile, ..)| profile)
    );
    for (profile, line, variable) in NAMED {
        let mut adapter = Adapter::start(profile, &json!({ "command": fake(), "mode": "ask" }));
        let folder = tempfile::tempdir().unwrap();
        adapter.open_with("s", json!({ "cwd": folder.path() }));
        let name = variable.split('=').next().unwrap();
        let turn = adapter.send("s", &steps(&json!([{ "given": name }])));
        let given = [line, variable].join(" ");
        assert_eq!(
            (turn.status(), turn.text().as_str()),
            ("completed", given.trim()),
            "{profile}: {}",
            turn.error()
        );
        adapter.end();
    }
}

/// An operator's file for the fake agent.
fn operators_file() -> Value {
    json!({
        "name": "house-agent", "title": "House agent", "description": "The house's agent", "program": fake(),
        "install": "get house-agent", "tested": null,
        "credentials": {
            "variables": ["HOUSE_KEY"], "file": { "folder": ".house", "file": "login" }, "login": { "command": ["house", "login"] }
        },
        "quirks": { "failures_as_text": "prefixed" },
        "modes": { "option": "mode", "start": "plan", "names": { "careful": "ask" }, "dangerous": ["auto"] },
        "failures": { "usage_limit": ["the house is out of gold"] },
        "acp": {
            "use_when": "it is the house's", "avoid_when": "it is not", "args": ["--speak", "acp"],
            "env": { "HOUSE_MODE": "quiet" },
            "options": [{ "option": "model", "args": ["--model", "{}"] }],
        },
    })
}

#[test]
fn an_operator_s_file_makes_an_agent_without_rust() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("house-agent.json");
    std::fs::write(&path, operators_file().to_string()).unwrap();
    let (mut adapter, _folder) =
        started(&json!({ "agent_file": path, "args": ["--first"], "model": "-m" }));
    let turn = adapter.send("s", &steps(&json!([{ "given": "HOUSE_MODE" }])));
    assert_eq!(
        turn.text(),
        "--first --speak acp --model=-m HOUSE_MODE=quiet",
        "{}",
        turn.error()
    );
    let fails =
        json!([{ "fail": { "code": -32603, "message": "Sorry: the house is out of gold" } }]);
    let turn = adapter.send("s", &steps(&fails));
    assert_eq!((turn.status(), turn.category()), ("limit", "usage_limit"));
    let turn = adapter.send("s", &steps(&json!([{ "say": "Error: no model" }])));
    assert_eq!(turn.status(), "failed", "{}", turn.text());
    adapter.end();
    // Its modes: the one it starts in, names of the configuration's own, and those that run tools unasked.
    for (mode, works) in [("", true), ("careful", true), ("auto", false)] {
        let (mut adapter, _folder) = started(&json!({ "agent_file": path, "mode": mode }));
        let turn = adapter.send("s", "x");
        let expected = if works { "completed" } else { "failed" };
        assert_eq!(turn.status(), expected, "{mode}: {}", turn.error());
        adapter.end();
    }
    let missing = json!({ "agent_file": path, "command": "no-such-agent" });
    let (mut command, _folder) = program("acp", &missing);
    command.arg("--diagnose");
    let (said, _) = printed(command);
    assert!(said.contains("`get house-agent` installs it"), "{said}");
    let (mut command, _folder) = program("acp", &json!({ "agent_file": path }));
    command.arg("--diagnose");
    let (said, _) = printed(command);
    assert!(said.contains("1.2.3 is installed"), "{said}");
    assert!(
        said.contains("HOUSE_KEY") && said.contains("`house login`"),
        "{said}"
    );
}

#[test]
fn an_operator_s_file_that_is_wrong_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("house-agent.json");
    let mut file = operators_file();
    file["acp"]["options"][0]["flag"] = json!("-m");
    std::fs::write(&path, file.to_string()).unwrap();
    let config = json!({ "agent_file": path });
    let (command, _folder) = program("acp", &config);
    let (said, code) = printed(command);
    for part in [
        path.to_str().unwrap(),
        "`acp.options[0].flag`",
        "unknown field",
    ] {
        assert!(said.contains(part), "{said}: {part}");
    }
    assert_eq!(code, Some(2));
    let acp = trunkline_profiles::PROFILES
        .iter()
        .find(|profile| profile.name == "acp");
    let refused = acp.unwrap().check(&config).unwrap_err().to_string();
    assert!(refused.contains("`acp.options[0].flag`"), "{refused}");
}

#[test]
fn a_server_with_a_variable_that_is_not_set_is_left_out_and_reported() {
    let mut config = config(&[]);
    config["mcp_servers"] =
        json!({ "notes": { "command": "notes", "env": { "A": "${NO_SUCH_VARIABLE}" } } });
    let (mut adapter, _folder) = started(&config);
    let turn = adapter.send("s", "x");
    let warned = |message: &&Value| {
        let text = message["message"].as_str().unwrap_or_default();
        text.contains("MCP server notes") && text.contains("NO_SUCH_VARIABLE")
    };
    let reports = messages_of_kind(&turn, "error");
    assert_eq!(
        reports.into_iter().filter(warned).count(),
        1,
        "{:?}",
        turn.messages
    );
    assert_eq!(turn.status(), "completed");
    adapter.end();
}
