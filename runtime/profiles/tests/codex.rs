//! The profile `codex` against an app server of its own: the demands on one process for many
//! sessions.

#![allow(
    clippy::unwrap_used,
    reason = "these are tests, their helper functions too"
)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// Timeout of everything on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

struct Hub {
    adapter: Child,
    input: Option<ChildStdin>,
    output: Receiver<Value>,
    folder: tempfile::TempDir,
}

impl Hub {
    fn start() -> Self {
        Self::with(&json!({}))
    }

    /// Starts the adapter with the fake as its program.
    fn with(more: &Value) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let fake = folder.path().join("codex");
        std::fs::write(&fake, include_str!("codex/fake.sh")).unwrap();
        std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut config = json!({ "command": fake, "env": { "FAKE_DIR": folder.path() } });
        for (key, value) in more.as_object().unwrap() {
            match key.as_str() {
                "env" => config["env"]
                    .as_object_mut()
                    .unwrap()
                    .extend(value.as_object().unwrap().clone()),
                _ => config[key] = value.clone(),
            }
        }
        std::fs::create_dir(folder.path().join("tmp")).unwrap();
        let file = folder.path().join("config.json");
        std::fs::write(&file, config.to_string()).unwrap();
        let mut adapter = Command::new(env!("CARGO_BIN_EXE_trunkline-adapter"))
            .arg("codex")
            .env("ADAPTER_CONFIG", file)
            .env("TMPDIR", folder.path().join("tmp"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, output) = sync_channel(100_000);
        let stdout = BufReader::new(adapter.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in stdout.lines() {
                let Ok(line) = line else { return };
                if sender.send(serde_json::from_str(&line).unwrap()).is_err() {
                    return;
                }
            }
        });
        let input = adapter.stdin.take();
        Self {
            adapter,
            input,
            output,
            folder,
        }
    }

    fn send(&mut self, message: &Value) {
        writeln!(self.input.as_mut().unwrap(), "{message}").unwrap();
    }

    fn open(&mut self, session: &str, more: &Value) {
        let mut start = json!({
            "type": "session.start", "session_id": session, "protocol": 1,
            "extensions": ["turns", "events", "control", "questions", "usage", "options", "resume"],
        });
        start
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        self.send(&start);
    }

    fn say(&mut self, session: &str, text: &str) {
        self.send(&json!({ "type": "user.input", "session_id": session, "content": text, "turn_id": text }));
    }

    /// Every message up to the first that is meant, which is the last.
    fn until(&mut self, meant: impl Fn(&Value) -> bool) -> Vec<Value> {
        let deadline = Instant::now() + DEADLINE;
        let mut seen = Vec::new();
        loop {
            let wait = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(wait) {
                Ok(message) => {
                    let found = meant(&message);
                    seen.push(message);
                    if found {
                        return seen;
                    }
                }
                Err(error) => panic!("{error}; seen so far: {seen:#?}; told: {}", self.told()),
            }
        }
    }

    /// A session's messages to the end of its turn.
    fn end(&mut self, session: &str) -> Turn {
        let is_end = |message: &Value| {
            message["type"] == "turn.complete" && message["session_id"] == session
        };
        let mut messages = self.until(is_end);
        messages.retain(|message| message["session_id"] == session);
        Turn(messages)
    }

    fn turn(&mut self, session: &str, text: &str) -> Turn {
        self.say(session, text);
        self.end(session)
    }

    fn kind(&mut self, kind: &str) -> Value {
        self.until(|message| message["type"] == kind).pop().unwrap()
    }

    fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.folder.path().join(name)).unwrap_or_default()
    }

    /// Returns all input of the fake.
    fn told(&self) -> String {
        self.read("told")
    }

    /// Returns the number of started app servers.
    fn starts(&self) -> usize {
        self.read("starts").lines().count()
    }
}

impl Drop for Hub {
    /// Ends the adapter as a host does. It leaves nothing.
    fn drop(&mut self) {
        self.input = None;
        let deadline = Instant::now() + DEADLINE;
        while matches!(self.adapter.try_wait(), Ok(None)) && Instant::now() < deadline {
            while self.output.try_recv().is_ok() {}
            std::thread::sleep(Duration::from_millis(5));
        }
        // What has ended by itself is gone already.
        drop(self.adapter.kill());
        drop(self.adapter.wait());
        if !std::thread::panicking() {
            let left: Vec<_> = std::fs::read_dir(self.folder.path().join("tmp"))
                .unwrap()
                .collect();
            assert!(left.is_empty(), "left behind: {left:?}");
        }
    }
}

struct Turn(Vec<Value>);

impl Turn {
    fn text(&self) -> String {
        let outputs = self.0.iter().filter(|message| message["type"] == "output");
        outputs
            .filter_map(|output| output["content"].as_str())
            .collect()
    }

    fn last(&self) -> &Value {
        self.0.last().unwrap()
    }

    fn status(&self) -> &str {
        self.last()["status"].as_str().unwrap_or_default()
    }

    fn category(&self) -> &str {
        self.last()["error"]["category"]
            .as_str()
            .unwrap_or_default()
    }

    fn messages_of_kind(&self, kind: &str) -> Vec<&Value> {
        self.0
            .iter()
            .filter(|message| message["type"] == kind)
            .collect()
    }
}

#[test]
fn all_sessions_share_one_app_server_and_hear_their_own_thread() {
    let mut hub = Hub::start();
    for session in ["a", "b", "c"] {
        hub.open(session, &json!({}));
    }
    let mut threads = Vec::new();
    for session in ["a", "b", "c", "a"] {
        let turn = hub.turn(session, "hello");
        assert_eq!(turn.status(), "completed");
        let thread = turn.last()["native_session_id"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(turn.text(), format!("{thread} heard hello"));
        threads.push(thread);
    }
    assert_eq!(threads[0], threads[3]);
    threads.sort();
    threads.dedup();
    assert_eq!((threads.len(), hub.starts()), (3, 1));
}

#[test]
fn a_session_with_an_environment_of_its_own_has_an_app_server_of_its_own() {
    let mut hub = Hub::start();
    hub.open("a", &json!({}));
    hub.open("b", &json!({"env": {"KEY": "other"}}));
    hub.open("c", &json!({"variables": {"taskId": "7"}}));
    for session in ["a", "b", "c"] {
        assert_eq!(hub.turn(session, "hello").status(), "completed");
    }
    assert_eq!(hub.starts(), 2);
}

#[test]
fn an_app_server_that_dies_fails_the_running_turns_and_the_next_input_resumes() {
    let mut hub = Hub::start();
    hub.open("a", &json!({}));
    hub.open("b", &json!({}));
    let thread = hub.turn("a", "hello").last()["native_session_id"].clone();
    hub.say("b", "hang");
    hub.kind("tool.start");
    hub.say("a", "dies");
    // The two end in any order.
    let mut ended = Vec::new();
    while ended.len() < 2 {
        let end = hub.kind("turn.complete");
        assert_eq!(
            (&end["status"], &end["error"]["category"]),
            (&json!("failed"), &json!("process_exit"))
        );
        ended.push(end["session_id"].clone());
    }
    ended.sort_by_key(Value::to_string);
    assert_eq!(ended, ["a", "b"]);
    let next = hub.turn("a", "again");
    assert_eq!(
        (next.status(), &next.last()["native_session_id"]),
        ("completed", &thread)
    );
    assert_eq!(hub.turn("b", "again").status(), "completed");
    assert_eq!(
        (hub.starts(), hub.told().matches("thread/resume").count()),
        (2, 2)
    );
}

#[test]
fn a_thread_that_another_session_resumes_is_read_by_that_one_and_the_first_is_told() {
    let mut hub = Hub::start();
    hub.open("a", &json!({}));
    let thread = hub.turn("a", "hello").last()["native_session_id"].clone();
    hub.say("a", "hang");
    hub.kind("tool.start");
    hub.open("b", &json!({"resume": {"native_session_id": thread}}));
    let turn = hub.end("a");
    assert_eq!(
        (turn.status(), turn.category()),
        ("failed", "busy"),
        "{:?}",
        turn.0
    );
    let heard = format!("{} heard hello", thread.as_str().unwrap());
    for session in ["b", "a", "b"] {
        assert_eq!(hub.turn(session, "hello").text(), heard, "{session}");
    }
    // Who lost the thread has nothing to take away with its end.
    hub.send(&json!({"type": "session.close", "session_id": "a"}));
    for _ in 0..2 {
        assert_eq!(hub.turn("b", "hello").text(), heard);
    }
    assert!(!hub.told().contains("thread/unsubscribe"), "{}", hub.told());
}

#[test]
fn a_stop_interrupts_closes_what_is_open_and_keeps_the_thread() {
    let mut hub = Hub::start();
    hub.open("a", &json!({}));
    hub.say("a", "hang");
    hub.kind("tool.start");
    hub.send(&json!({"type": "stop", "session_id": "a"}));
    let stopped = hub.end("a");
    assert_eq!(stopped.status(), "stopped");
    assert_eq!(stopped.messages_of_kind("tool.end")[0]["is_error"], true);
    let next = hub.turn("a", "more");
    assert_eq!(
        (next.status(), next.text().as_str()),
        ("completed", "thread-1 heard more")
    );
    assert_eq!(
        (hub.starts(), hub.told().matches("turn/interrupt").count()),
        (1, 1)
    );
}

#[test]
fn a_stop_that_is_never_confirmed_costs_neither_the_next_input_nor_a_neighbours_turn() {
    let mut hub = Hub::with(&json!({"silence_timeout": "1s"}));
    hub.open("a", &json!({}));
    hub.open("b", &json!({}));
    let thread = hub.turn("a", "hello").last()["native_session_id"].clone();
    hub.say("a", "deaf");
    hub.kind("tool.start");
    hub.send(&json!({"type": "stop", "session_id": "a"}));
    assert_eq!(hub.end("a").status(), "stopped");
    hub.say("b", "ask");
    let asked = hub.kind("permission.request");
    let next = hub.turn("a", "more");
    assert_eq!(next.status(), "completed", "{:?}", next.0);
    assert_eq!(next.last()["native_session_id"], thread);
    assert_eq!(hub.starts(), 2);
    hub.send(&json!({"type": "permission.response", "session_id": "b", "request_id": asked["request_id"], "approved": true}));
    assert_eq!(
        hub.end("b").status(),
        "completed",
        "the neighbour's turn survives"
    );
    assert_eq!(hub.turn("b", "hello").status(), "completed");
    assert_eq!(hub.starts(), 2);
}

#[test]
fn a_steer_joins_the_running_turn() {
    let mut hub = Hub::start();
    hub.open("a", &json!({}));
    hub.say("a", "hang");
    hub.kind("tool.start");
    hub.send(&json!({
        "type": "user.input", "session_id": "a", "content": "hurry", "mode": "steer", "message_id": "m",
    }));
    let turn = hub.end("a");
    assert_eq!(turn.messages_of_kind("steer.result")[0]["delivered"], true);
    assert!(
        hub.told().contains(r#""expectedTurnId":"turn-1""#),
        "{}",
        hub.told()
    );
}

#[test]
fn every_decision_reaches_codex_as_its_own_word() {
    for (answer, word) in [
        (json!({"approved": true}), r#"{"decision":"accept"}"#),
        (
            json!({"approved": true, "always_allow": true}),
            r#"{"decision":"acceptForSession"}"#,
        ),
        (json!({"approved": false}), r#"{"decision":"decline"}"#),
        (
            json!({"approved": false, "end_turn": true}),
            r#"{"decision":"cancel"}"#,
        ),
    ] {
        let mut hub = Hub::start();
        hub.open("a", &json!({}));
        hub.say("a", "ask");
        let asked = hub.kind("permission.request");
        assert_eq!(
            (&asked["tool"], &asked["resource"]),
            (&json!("bash"), &json!("ls"))
        );
        let mut response = json!({
            "type": "permission.response", "session_id": "a", "request_id": asked["request_id"],
        });
        response
            .as_object_mut()
            .unwrap()
            .extend(answer.as_object().unwrap().clone());
        hub.send(&response);
        hub.end("a");
        assert!(hub.told().contains(word), "{word}: {}", hub.told());
    }
}

#[test]
fn a_withdrawn_request_is_cancelled_and_an_unknown_one_refused() {
    let mut hub = Hub::start();
    hub.open("a", &json!({}));
    let turn = hub.turn("a", "withdraw");
    assert_eq!(
        (turn.status(), turn.text().as_str()),
        ("completed", "withdrawn")
    );
    let asked = turn.messages_of_kind("permission.request").len();
    let cancelled = turn.messages_of_kind("permission.cancel").len();
    assert_eq!(asked, cancelled, "{:?}", turn.0);
    let turn = hub.turn("a", "odd");
    assert_eq!(
        (turn.status(), turn.text().as_str()),
        ("completed", "answered")
    );
    assert!(hub.told().contains("-32601"), "{}", hub.told());
}

#[test]
fn an_unknown_thread_is_begun_afresh_and_a_known_one_is_kept() {
    let mut hub = Hub::start();
    for (thread, context) in [("unknown-1", "lost"), ("known-1", "kept")] {
        hub.open(thread, &json!({"resume": {"native_session_id": thread}}));
        let turn = hub.turn(thread, "hello");
        assert_eq!(turn.status(), "completed");
        let told = turn
            .messages_of_kind("session.info")
            .iter()
            .any(|info| info["context"] == context);
        assert!(told, "{context}: {:?}", turn.0);
        assert_eq!(turn.last()["clear_session"] == true, context == "lost");
    }
}

#[test]
fn an_answer_of_many_megabytes_comes_whole() {
    let mut hub = Hub::start();
    hub.open("a", &json!({}));
    let turn = hub.turn("a", "flood");
    assert_eq!((turn.status(), turn.text().len()), ("completed", 3_000_000));
}

#[test]
fn a_program_that_exits_at_once_says_why_and_one_that_is_not_there_too() {
    let mut hub = Hub::with(&json!({"args": ["exits"]}));
    hub.open("a", &json!({}));
    let turn = hub.turn("a", "hello");
    assert_eq!((turn.status(), turn.category()), ("failed", "process_exit"));
    assert!(
        turn.last()
            .to_string()
            .contains("the configuration is broken"),
        "{:?}",
        turn.last()
    );
    let mut hub = Hub::with(&json!({"command": "/nonexistent/codex"}));
    hub.open("a", &json!({}));
    assert_eq!(hub.turn("a", "hello").category(), "not_installed");
}

#[test]
fn models_are_asked_for_once_and_told_to_every_session() {
    let mut hub = Hub::start();
    for session in ["a", "b"] {
        hub.open(session, &json!({}));
        let told = hub
            .until(|message| message["session_id"] == session && message["models"].is_array())
            .pop()
            .unwrap();
        assert_eq!(
            (&told["type"], &told["models"]),
            (
                &json!("session.info"),
                &json!([{ "id": "one", "label": "One" }])
            )
        );
    }
    assert_eq!(hub.told().matches("model/list").count(), 1);
    // If they cannot be listed, everything else continues.
    for (models, asked) in [("none", 1), ("mute", 1), ("again", 8)] {
        let mut hub = Hub::with(&json!({ "env": { "FAKE_MODELS": models } }));
        hub.open("a", &json!({}));
        assert_eq!(hub.turn("a", "one").text(), "thread-1 heard one");
        wait_until("the models were asked for", || {
            hub.told().matches("model/list").count() == asked
        });
    }
}

#[test]
fn silence_ends_a_turn() {
    let mut hub = Hub::with(&json!({"silence_timeout": "1s"}));
    hub.open("a", &json!({}));
    let turn = hub.turn("a", "hang");
    assert_eq!((turn.status(), turn.category()), ("failed", "timeout"));
    assert_eq!(hub.turn("a", "hello").status(), "completed");
}

#[test]
fn a_version_that_cannot_be_driven_says_which_can() {
    let mut hub = Hub::with(&json!({"env": {"FAKE_VERSION": "0.42.0"}}));
    hub.open("a", &json!({}));
    hub.say("a", "hello");
    let closed = hub.kind("session.closed").to_string();
    assert!(
        closed.contains("codex 0.42.0 is too old") && closed.contains("version 0.44.0"),
        "{closed}"
    );
}

#[test]
fn exec_that_only_tries_again_without_a_login_fails_at_once() {
    for (login, category) in [("1", "auth"), ("0", "timeout")] {
        let env =
            json!({"FAKE_VERSION": "0.65.0", "FAKE_LOGIN": login, "CODEX_HOME": "/nonexistent"});
        let mut hub = Hub::with(&json!({"env": env, "retry_timeout": "1s"}));
        hub.open("a", &json!({}));
        let turn = hub.turn("a", "retries");
        assert_eq!((turn.status(), turn.category()), ("failed", category));
        assert_eq!(hub.turn("a", "hello").status(), "completed");
    }
}

#[test]
fn a_version_without_an_app_server_is_driven_by_exec() {
    let mut hub = Hub::with(&json!({"env": {"FAKE_VERSION": "0.65.0"}}));
    hub.open("a", &json!({}));
    let turn = hub.turn("a", "hello");
    assert_eq!(
        (turn.status(), turn.text().as_str()),
        ("completed", "exec said hello")
    );
    assert_eq!(turn.last()["usage"]["total_tokens"], 7);
    hub.say("a", "hang");
    wait_until("the second process runs", || {
        hub.told().matches("exec exec").count() == 2
    });
    hub.send(&json!({"type": "stop", "session_id": "a"}));
    assert_eq!(hub.end("a").status(), "stopped");
    assert_eq!(hub.turn("a", "more").text(), "exec said more");
    assert!(
        hub.told().contains("resume exec-thread -"),
        "{}",
        hub.told()
    );
    hub.open("b", &json!({"resume": {"native_session_id": "unknown"}}));
    let turn = hub.turn("b", "hello");
    assert_eq!(turn.status(), "completed");
    assert!(
        turn.messages_of_kind("session.info")
            .iter()
            .any(|info| info["context"] == "lost"),
        "{:?}",
        turn.0
    );
    assert_eq!(turn.last()["clear_session"], true);
}

#[test]
fn a_turn_tells_what_resumes_its_thread_and_where_it_worked() {
    for more in [json!({}), json!({"env": {"FAKE_VERSION": "0.65.0"}})] {
        let mut hub = Hub::with(&more);
        hub.open("a", &json!({"cwd": "/tmp"}));
        let turn = hub.turn("a", "hello");
        let params = &turn.last()["session_params"];
        let mut expected =
            json!({"native_session_id": turn.last()["native_session_id"], "cwd": "/tmp"});
        if more == json!({}) {
            expected["last_turn"] = json!("turn-1");
        }
        assert_eq!(params, &expected);
        assert!(params["native_session_id"].is_string());
    }
}

#[test]
fn a_copy_has_the_thread_up_to_a_turn_and_its_source_stays() {
    let mut hub = Hub::start();
    hub.open("a", &json!({"cwd": "/tmp"}));
    let params = hub.turn("a", "one").last()["session_params"].clone();
    hub.turn("a", "two");
    let copy = |params: &Value| json!({"cwd": "/tmp", "resume": {"params": params, "fork": true}});
    hub.open("b", &copy(&params));
    let turn = hub.turn("b", "three");
    let is_kept = |turn: &Turn| turn.0.iter().any(|message| message["context"] == "kept");
    assert!(is_kept(&turn), "{:?}", turn.0);
    assert_eq!(turn.text(), "copy-of-thread-1 heard three");
    let end = &turn.last()["session_params"];
    assert_eq!(end["native_session_id"], "copy-of-thread-1");
    assert_eq!(end["last_turn"], "turn-3");
    assert_eq!(hub.turn("a", "four").text(), "thread-1 heard four");
    let told = hub.told();
    let forks: Vec<_> = told
        .lines()
        .filter(|line| line.contains("thread/fork"))
        .collect();
    assert_eq!(forks.len(), 1);
    assert!(forks[0].contains(r#""lastTurnId":"turn-1""#), "{forks:?}");
    assert!(!told.contains("thread/resume"), "{told}");

    // A copy whose end is not known, or not to Codex, begins anew.
    let mut unnamed = params.clone();
    unnamed.as_object_mut().unwrap().remove("last_turn");
    let mut unknown = params;
    unknown["last_turn"] = json!("turn-9");
    for (session, params) in [("c", unnamed), ("d", unknown)] {
        hub.open(session, &copy(&params));
        let turn = hub.turn(session, "five");
        assert!(turn.0.iter().any(|message| message["context"] == "lost"));
        assert!(turn.text().starts_with("thread-"), "{:?}", turn.0);
        assert_ne!(turn.last()["native_session_id"], "thread-1");
    }

    // `codex exec` copies none.
    let mut hub = Hub::with(&json!({"env": {"FAKE_VERSION": "0.65.0"}}));
    hub.open("a", &json!({"cwd": "/tmp"}));
    let native = hub.turn("a", "one").last()["native_session_id"].clone();
    let whole = json!({"native_session_id": native, "fork": true});
    hub.open("b", &json!({"cwd": "/tmp", "resume": whole}));
    let turn = hub.turn("b", "two");
    assert!(turn.0.iter().any(|message| message["context"] == "lost"));
}

#[test]
fn nothing_is_left_when_the_host_goes() {
    let mut hub = Hub::start();
    hub.open("a", &json!({}));
    hub.say("a", "hang");
    hub.kind("tool.start");
    hub.input = None;
    hub.adapter.wait().unwrap();
    let fake = hub.folder.path().join("codex");
    wait_until("no process is left", || !runs(&fake));
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < deadline, "not in time: {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Returns true if a process that was started by this path runs.
fn runs(program: &Path) -> bool {
    let program = program.to_string_lossy().into_owned();
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    processes
        .filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .any(|line| String::from_utf8_lossy(&line).contains(&program))
}
