//! SIGHUP to `serve`: the configuration is reloaded, and open sessions keep their agents.

use std::{
    io::{BufRead, BufReader},
    process::{ChildStderr, Command},
};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use super::{
    Home,
    gateway::Daemon,
    journal::{Serving, input, start},
};

/// Answers with a value of its environment; `die` ends it.
const ADAPTER: &str = r#"
import json, os, sys
for line in sys.stdin:
    message = json.loads(line)
    if message["type"] == "user.input":
        if message["content"] == "die":
            sys.exit(3)
        session, said = message["session_id"], os.environ["WHO"]
        print(json.dumps({"type": "output", "session_id": session, "content": said}), flush=True)
        print(json.dumps({"type": "turn.complete", "session_id": session}), flush=True)
"#;

/// A host whose log is read.
pub(super) struct Reloading {
    pub(super) serving: Serving,
    log: BufReader<ChildStderr>,
}

impl Reloading {
    pub(super) fn new(home: &Home, more: &[&str]) -> Self {
        Self::spawn(home.command(["--config", "t.json", "serve"]).args(more))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut serving = Serving::spawn(command);
        let log = BufReader::new(serving.child.stderr.take().unwrap());
        // From here on it serves.
        serving.say(&json!({"type": "agents.list", "session_id": "", "request_id": "ready"}));
        serving.until("agents.list.result");
        Self { serving, log }
    }

    /// Sends the signal, and returns the log's line about the configuration.
    pub(super) fn reload(&mut self) -> String {
        kill_process(Pid::from_child(&self.serving.child), Signal::HUP).unwrap();
        let mut line = String::new();
        while !line.contains("the configuration ") {
            line.clear();
            assert_ne!(
                self.log.read_line(&mut line).unwrap(),
                0,
                "nothing was said"
            );
        }
        line
    }

    /// Who answers in a session.
    fn asks(&mut self, session: &str, name: &str) -> Value {
        self.serving.say(&input(session, name, "who"));
        let said = self.serving.until("output");
        assert_eq!(said["session_id"], session);
        self.serving.until("turn.complete");
        said["content"].clone()
    }

    /// Opens a session of an agent.
    fn opens(&mut self, session: &str, agent: &str) {
        self.serving.say(
            &json!({"type": "session.start", "session_id": session, "agent_id": agent,
            "protocol": 1, "extensions": ["turns", "events"]}),
        );
    }

    fn ends(mut self) {
        self.serving.input = None;
        while self.serving.hear().is_some() {}
        assert_eq!(self.serving.child.wait().unwrap().code(), Some(0));
    }
}

/// A file with agents, each of which answers with a word.
fn configured(home: &Home, agents: &[(&str, &str)], more: &Value) {
    home.file("adapter.py", ADAPTER);
    let agent = |(id, says): &(&str, &str)| {
        json!({"id": id, "external": {"command": "python3", "args": [home.path().join("adapter.py")],
            "env": {"WHO": says}}, "on_adapter_exit": "close"})
    };
    let agents: Vec<_> = agents.iter().map(agent).collect();
    home.file(
        "t.json",
        &json!({"agents": agents, "runtime": more}).to_string(),
    );
}

#[test]
fn a_hang_up_reads_the_configuration_again_and_open_sessions_stay() {
    let home = Home::new();
    configured(&home, &[("a", "first"), ("gone", "gone")], &json!({}));
    let mut host = Reloading::new(&home, &[]);
    host.opens("old", "a");
    host.opens("stays", "gone");
    assert_eq!(
        (host.asks("old", "1"), host.asks("stays", "1")),
        ("first".into(), "gone".into())
    );
    assert!(host.reload().contains("its agents are unchanged"));

    configured(&home, &[("a", "second"), ("b", "new")], &json!({}));
    let said = host.reload();
    for part in ["open sessions keep", "added b", "changed a", "removed gone"] {
        assert!(said.contains(part), "{said}");
    }
    host.opens("new", "a");
    host.opens("other", "b");
    for (session, who) in [
        ("old", "first"),
        ("stays", "gone"),
        ("new", "second"),
        ("other", "new"),
    ] {
        assert_eq!(host.asks(session, "2"), who);
    }
    host.opens("late", "gone");
    let refused = host.serving.until("output");
    assert_eq!(refused["session_id"], "late");
    assert!(
        refused["content"]
            .as_str()
            .unwrap()
            .contains(r#"no agent is called "gone"; there are a, b"#)
    );
    host.serving
        .say(&json!({"type": "agents.list", "session_id": "", "request_id": "l", "health": true}));
    let listed = host.serving.until("agents.list.result")["agents"].clone();
    let ids: Vec<_> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|agent| agent["id"].clone())
        .collect();
    assert_eq!(ids, ["a", "b"]);
    let verdict = listed[0]["health"]["verdict"].as_str().unwrap();
    assert!(
        verdict.starts_with("1 session goes on with an earlier configuration"),
        "{verdict}"
    );
    host.ends();
}

#[test]
fn a_file_that_is_wrong_is_refused_and_what_was_read_before_stays() {
    let home = Home::new();
    configured(&home, &[("a", "first")], &json!({}));
    let mut host = Reloading::new(&home, &["--agent", "a"]);
    for (text, why) in [
        (
            r#"{ "agents": [ { "id": "a", "exernal": {} } ] }"#,
            "agents[0].exernal",
        ),
        ("{", "line 1"),
        (
            r#"{ "agents": [ { "id": "b", "external": { "command": "cat" } } ] }"#,
            r#"unknown agent "a""#,
        ),
        (
            r#"{ "agents": [ { "id": "a", "external": { "command": "cat" } } ], "runtime": { "policy": "none.json" } }"#,
            "none.json",
        ),
    ] {
        home.file("t.json", text);
        let said = host.reload();
        assert!(
            said.contains("was rejected, and the previous one stays in force"),
            "{said}"
        );
        assert!(said.contains(why), "{why} is not in {said}");
        host.opens(why, "a");
        assert_eq!(host.asks(why, "1"), "first");
    }
    std::fs::remove_file(home.path().join("t.json")).unwrap();
    assert!(host.reload().contains("t.json"));
    configured(
        &home,
        &[("a", "second")],
        &json!({"spool_dir": "spool", "max_sessions": 9, "journal_max_age": "7d"}),
    );
    let said = host.reload();
    let later = "changes after a restart: spool_dir, journal_max_age";
    assert!(said.contains("changed a") && said.contains(later), "{said}");
    assert!(!said.contains("journal_max_bytes"), "{said}");
    host.opens("after", "a");
    assert_eq!(host.asks("after", "1"), "second");
    host.ends();
}

#[test]
fn a_file_that_was_found_and_is_gone_leaves_no_other_agents_in_its_place() {
    let home = Home::new();
    configured(&home, &[("a", "first")], &json!({}));
    let file = home.path().join("t.json");
    let found = home.path().join("trunkline.json");
    std::fs::rename(file, &found).unwrap();
    let mut host = Reloading::spawn(&mut home.command(["serve"]));
    std::fs::remove_file(found).unwrap();
    let said = host.reload();
    assert!(
        said.contains("trunkline.json") && said.contains("restart the host"),
        "{said}"
    );
    host.opens("s", "a");
    assert_eq!(host.asks("s", "1"), "first");
    host.ends();
}

#[test]
fn a_daemon_that_is_asked_to_says_what_has_changed_or_why_nothing_has() {
    let home = Home::new();
    configured(&home, &[("a", "first")], &json!({}));
    let mut up = home.command(["--config", "t.json"]);
    let daemon = Daemon::spawn(
        &home,
        up.args([
            "-v",
            "up",
            "--state",
            "state",
            "--http",
            "127.0.0.1:0",
            "--json",
        ])
        .args(["--log-file", "daemon.log"]),
    );
    configured(&home, &[("a", "second"), ("b", "b")], &json!({}));
    let reload = || home.run(["daemon", "reload", "--state", "state"]);
    let said = reload();
    said.must_end_with(0);
    assert!(
        said.stdout
            .contains("reloaded: added b; changed a; open sessions"),
        "{}",
        said.stdout
    );
    home.file("t.json", "{");
    let refused = reload();
    assert_ne!(refused.code, Some(0));
    refused.must_say("line 1");
    daemon.down();
    let log = std::fs::read_to_string(home.path().join("daemon.log")).unwrap();
    for part in [
        "reloaded: added b; changed a",
        "was rejected, and the previous one stays in force: ",
    ] {
        assert!(log.contains(part), "{log}");
    }
}

#[test]
fn a_session_of_a_journal_that_is_opened_again_gets_the_configuration_of_then() {
    let home = Home::new();
    configured(&home, &[("a", "first")], &json!({}));
    let mut host = Reloading::new(&home, &["--journal", "journal"]);
    host.serving.say(&start("s"));
    assert_eq!(host.asks("s", "1"), "first");
    configured(&home, &[("a", "second")], &json!({}));
    assert!(host.reload().contains("changed a"));
    assert_eq!(host.asks("s", "2"), "first");
    host.serving.say(&input("s", "3", "die"));
    host.serving.until("turn.complete");
    assert_eq!(host.asks("s", "4"), "second");

    // Without its agent it waits for it.
    configured(&home, &[("b", "b")], &json!({}));
    assert!(host.reload().contains("removed a"));
    host.serving.say(&input("s", "5", "die"));
    host.serving.until("turn.complete");
    host.serving.say(&input("s", "6", "who"));
    let refused = host.serving.until("turn.complete");
    assert_eq!(
        (&refused["turn_id"], &refused["delivered"]),
        (&json!("t-6"), &json!("no")),
        "{refused}"
    );
    configured(&home, &[("a", "third")], &json!({}));
    assert!(host.reload().contains("added a; removed b"));
    assert_eq!(host.asks("s", "7"), "third");
    host.ends();
}

#[test]
fn a_pipe_in_place_of_the_configuration_is_refused_and_not_read() {
    let home = Home::new();
    configured(&home, &[("a", "first")], &json!({}));
    let mut host = Reloading::new(&home, &[]);
    let path = home.path().join("t.json");
    std::fs::remove_file(&path).unwrap();
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let log = host.reload();
    assert!(log.contains("is not a regular file"), "{log}");
    std::fs::remove_file(&path).unwrap();
    configured(&home, &[("a", "second")], &json!({}));
    assert!(host.reload().contains("changed a"));
    host.ends();
}
