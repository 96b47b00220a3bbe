//! The host against real programs over real pipes.

mod support;

use std::time::{Duration, Instant};

use support::{named, script, soon};
use trunkline_host::{
    Cause, EventKind, Host, SessionOptions,
    config::{AgentConfig, Command, SessionMay, SessionOption},
    protocol::{Json, SessionStart, Status},
};
use trunkline_testing::skipped;

fn example(path: &str) -> String {
    format!("{}/../../examples/{path}", env!("CARGO_MANIFEST_DIR"))
}

fn echo() -> AgentConfig {
    AgentConfig::external(
        "echo",
        Command::new("python3").arg(example("python/echo.py")),
    )
}

#[tokio::test]
async fn a_turn_of_a_real_adapter_ends_once_with_its_text() {
    let host = Host::builder().agent(echo()).build().unwrap();
    let session = host.open("echo", SessionOptions::default()).unwrap();
    for word in ["one", "two", "three"] {
        let (text, end) = session.send(word).unwrap().text().await;
        assert_eq!(
            (text.contains(word), end.cause),
            (true, Cause::Complete),
            "{text:?} {end:?}"
        );
    }
    session.close().await;
    host.shutdown().await;
}

/// Without the JSON around them, only their content distinguishes the words from others.
#[tokio::test]
async fn what_a_hub_hands_over_in_secret_is_in_no_stderr_tail() {
    let says_words =
        r#"read -r a; read -r b; printf '%s\n' "$a" | tr -c 'a-z\n-' ' ' >&2; kill -9 $$"#;
    let mut agent = AgentConfig::external("sh", Command::new("sh").args(["-c", says_words]));
    agent.session_may = SessionMay::listed([SessionOption::Env, SessionOption::McpServers]);
    let host = Host::builder().agent(agent).build().unwrap();
    let servers = serde_json::json!([{
        "name": "one", "url": "http://h", "env": {"KEPT_KEY": "hub-variable-of-one-session"},
        "headers": [{"name": "Authorization", "value": "Bearer hub-header-of-one-session"}],
    }]);
    let env = [
        ("SESSION_TOKEN", "hub-token-of-one-session"),
        ("PLAIN", "hub-words-in-clear"),
    ];
    let start = SessionStart {
        env: Some(
            env.map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
        ),
        mcp_servers: Json::from_serialize(&servers).ok(),
        ..SessionStart::default()
    };
    let session = host
        .open(
            "sh",
            SessionOptions {
                start,
                ..SessionOptions::default()
            },
        )
        .unwrap();
    let end = session.send("hi").unwrap().end().await;
    let tail = end.stderr_tail.unwrap();
    assert!(!tail.contains("of-one-session"), "{tail}");
    for shown in [
        "[REDACTED:SESSION_TOKEN]",
        "[REDACTED:KEPT_KEY]",
        "[REDACTED:Authorization]",
        "hub-words-in-clear",
    ] {
        assert!(tail.contains(shown), "{shown} in {tail}");
    }
    host.shutdown().await;
}

/// As with a Python program whose output is not flushed: all comes when it ends.
#[tokio::test]
async fn a_program_that_writes_only_at_its_end_has_not_answered_in_time() {
    let late = r#"cat >/dev/null; printf '%s\n' '{"type":"turn.complete","session_id":"s"}'"#;
    let mut agent = AgentConfig::external("late", Command::new("sh").args(["-c", late]));
    agent.timeouts.start = Duration::from_millis(100);
    for _ in 0..10 {
        let host = Host::builder().agent(agent.clone()).build().unwrap();
        let session = host.open("late", named("s")).unwrap();
        let end = session.send("hi").unwrap().end().await;
        assert_eq!(end.cause, Cause::StartTimeout, "{end:?}");
        host.shutdown().await;
    }
}

#[tokio::test]
async fn a_killed_adapter_ends_its_turn_with_the_signal_and_is_started_again() {
    let agent = AgentConfig::external(
        "sh",
        Command::new("sh").args(["-c", "read a; read b; echo dying >&2; kill -9 $$"]),
    );
    let host = Host::builder().agent(agent).build().unwrap();
    let session = host.open("sh", SessionOptions::default()).unwrap();
    let end = session.send("hi").unwrap().end().await;
    assert_eq!(end.cause, Cause::ProcessExit, "{end:?}");
    assert_eq!(end.exit.unwrap().signal, Some(9));
    assert_eq!(end.stderr_tail.as_deref().map(str::trim), Some("dying"));
    let end = session.send("again").unwrap().end().await;
    assert_eq!(end.cause, Cause::ProcessExit, "{end:?}");
    host.shutdown().await;
}

#[tokio::test]
async fn an_adapter_over_its_memory_is_told_from_one_that_was_killed() {
    let mut agent = AgentConfig::external(
        "dd",
        Command::new("sh").args([
            "-c",
            "read a; exec dd if=/dev/zero of=/dev/null bs=200M count=1",
        ]),
    );
    agent.resources.memory = Some(64 << 20);
    let host = Host::builder().agent(agent).build().unwrap();
    let session = host.open("dd", SessionOptions::default()).unwrap();
    let end = session.send("hi").unwrap().end().await;
    assert_eq!(end.cause, Cause::ProcessExit, "{end:?}");
    let message = end.error.unwrap().message.unwrap();
    let memory = trunkline_host::process::limit_support().memory;
    assert_eq!(
        message.contains("its memory limit killed 1"),
        memory.not_better.is_none(),
        "{message}"
    );
    if let Some(why) = memory.not_better {
        skipped(&format!("no cgroup for memory: {why}"));
    }
    host.shutdown().await;
}

#[tokio::test]
async fn the_first_start_looks_for_what_earlier_hosts_left() {
    let state = tempfile::tempdir().unwrap();
    let records = state.path().join("children");
    std::fs::create_dir(&records).unwrap();
    // The record of a host that died before it had written it.
    std::fs::write(records.join("tree-1-1"), "").unwrap();
    let others = std::os::unix::fs::PermissionsExt::from_mode(0o700);
    std::fs::set_permissions(&records, others).unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
    std::fs::set_permissions(records.join("tree-1-1"), mode).unwrap();

    let host = Host::builder()
        .agent(echo())
        .state_dir(state.path())
        .build()
        .unwrap();
    assert!(
        records.join("tree-1-1").exists(),
        "nothing is done before the first start"
    );
    let session = host.open("echo", SessionOptions::default()).unwrap();
    let (_, end) = session.send("hi").unwrap().text().await;
    assert_eq!(end.cause, Cause::Complete);
    let begun = Instant::now();
    while records.join("tree-1-1").exists() {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "the record is still there"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let own = || std::fs::read_dir(&records).unwrap().count();
    assert_eq!(own(), 2, "the echo's, and this host's");
    host.shutdown().await;
    drop((session, host));
    while own() > 0 {
        assert!(
            begun.elapsed() < Duration::from_secs(30),
            "a record is still there"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test]
async fn a_missing_command_ends_the_input_with_the_path_that_was_searched() {
    let host = Host::builder()
        .agent(AgentConfig::external(
            "none",
            Command::new("no-such-adapter"),
        ))
        .build()
        .unwrap();
    let session = host.open("none", SessionOptions::default()).unwrap();
    let end = session.send("hi").unwrap().end().await;
    assert_eq!(end.cause, Cause::StartFailed, "{end:?}");
    assert!(end.error.unwrap().message.unwrap().contains("PATH"));
    host.shutdown().await;
}

#[tokio::test]
async fn a_permission_reaches_the_user_and_its_answer_the_adapter() {
    let host = Host::builder().agent(echo()).build().unwrap();
    let session = host.open("echo", SessionOptions::default()).unwrap();
    for (allow, word) in [(true, "ran"), (false, "denied")] {
        let mut turn = session.send("/tool rocket").unwrap();
        let mut text = String::new();
        while let Some(event) = tokio::time::timeout(Duration::from_secs(20), turn.next())
            .await
            .unwrap()
        {
            match event.kind {
                EventKind::Permission(permission) if allow => permission.allow(),
                EventKind::Permission(permission) => permission.deny(),
                EventKind::Output(output) => text.push_str(&output.content),
                _ => {}
            }
        }
        assert!(text.contains(word), "{text}");
    }
    host.shutdown().await;
}

#[tokio::test]
async fn an_exit_that_leaves_a_grandchild_on_stdout_is_noticed_and_its_last_bytes_are_kept() {
    let agent = script(
        r#"read a; read b; sleep 600 & printf '{"type":"output","session_id":"s","content":"last words"}\n'; exit 3"#,
    );
    let host = Host::builder().agent(agent).build().unwrap();
    let session = host.open("sh", named("s")).unwrap();
    // The grandchild has stdout for longer than `soon`.
    let (text, end) = soon(session.send("x").unwrap().text()).await;
    assert_eq!(
        (text.as_str(), end.cause, end.exit.unwrap().code),
        ("last words", Cause::ProcessExit, Some(3))
    );
    soon(host.shutdown()).await;
}

#[tokio::test]
async fn an_end_of_stream_without_exit_ends_turn_and_process() {
    let host = Host::builder()
        .agent(script("read a; read b; exec >&-; sleep 600"))
        .build()
        .unwrap();
    let session = host.open("sh", named("s")).unwrap();
    let end = soon(session.send("x").unwrap().end()).await;
    assert_eq!(
        (end.cause, end.exit.unwrap().signal),
        (Cause::EndOfStream, Some(9))
    );
    soon(host.shutdown()).await;
}

#[tokio::test]
async fn a_dead_adapter_ends_a_hundred_sessions() {
    let host = Host::builder()
        .agent(script(
            "i=0; while [ $i -lt 200 ]; do read l; i=$((i+1)); done; kill -9 $$",
        ))
        .build()
        .unwrap();
    let sessions: Vec<_> = (0..100)
        .map(|at| host.open("sh", named(&format!("s{at}"))).unwrap())
        .collect();
    let turns: Vec<_> = sessions
        .iter()
        .map(|session| session.send("x").unwrap())
        .collect();
    for turn in turns {
        let end = soon(turn.end()).await;
        assert_eq!(
            (end.cause, end.exit.unwrap().signal),
            (Cause::ProcessExit, Some(9))
        );
    }
    soon(host.shutdown()).await;
}

#[tokio::test]
async fn a_thousand_sessions_share_one_process_and_none_hears_another() {
    let host = Host::builder().agent(echo()).build().unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for at in 0..1000 {
        let session = host.open("echo", SessionOptions::default()).unwrap();
        tasks.spawn(async move {
            for turn in 0..3 {
                let token = format!("<{at}:{turn}>");
                let (text, end) = soon(session.send(token.as_str()).unwrap().text()).await;
                assert_eq!((text, end.cause), (token, Cause::Complete));
            }
        });
    }
    tasks.join_all().await;
    let counters = host.agent("echo").unwrap().counters;
    assert_eq!(
        (counters.turns, counters.restarts, counters.unknown_session),
        (3000, 0, 0)
    );
    soon(host.shutdown()).await;
}

#[tokio::test]
async fn a_stop_passes_through_a_flood_of_its_own_session() {
    let flood = r#"
import json, sys, threading
stopped = threading.Event()
def read():
    for line in sys.stdin:
        if json.loads(line)["type"] == "stop": stopped.set()
        if json.loads(line)["type"] == "user.input": threading.Thread(target=flood).start()
def flood():
    line = json.dumps({"type": "output", "session_id": "s", "content": "x" * 4000}) + "\n"
    while not stopped.is_set(): sys.stdout.write(line)
    sys.stdout.write('{"type":"turn.complete","session_id":"s"}\n'); sys.stdout.flush()
read()
"#;
    let mut agent = AgentConfig::external("sh", Command::new("python3").args(["-c", flood]));
    agent.extensions = Some(Vec::new());
    let host = Host::builder().agent(agent).build().unwrap();
    let session = host.open("sh", named("s")).unwrap();
    let mut turn = session.send("x").unwrap();
    for _ in 0..100 {
        soon(turn.next()).await.unwrap();
    }
    // The flood lasts until the stop has come through.
    session.stop();
    let end = soon(turn.end()).await;
    assert_eq!(end.status, Status::Stopped);
    soon(host.shutdown()).await;
}

/// Returns the processes that a script has listed as its own, when there are this many.
async fn started(file: &std::path::Path, processes: usize) -> Vec<String> {
    soon(async {
        loop {
            let pids = std::fs::read_to_string(file).unwrap_or_default();
            if pids.lines().count() >= processes {
                return pids.lines().map(str::to_owned).collect();
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

#[tokio::test]
async fn a_process_stands_by_before_the_first_session_and_again_after_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pids");
    let program = format!(
        r#"echo $$ >> {}
        while read -r line; do case $line in
            *die*) kill -9 $$;;
            *user.input*) echo '{{"type":"turn.complete","session_id":"s"}}';;
        esac; done"#,
        file.display()
    );
    let mut agent = script(&program);
    agent.standby = true;
    // So that it knows its number outside.
    agent.containment = trunkline_host::process::Containment::Group;
    let host = Host::builder().agent(agent).build().unwrap();
    assert!(!file.exists(), "a host that is built starts nothing");
    host.stand_by();
    host.stand_by();
    assert_eq!(started(&file, 1).await.len(), 1);
    let session = host.open("sh", named("s")).unwrap();
    assert_eq!(
        soon(session.send("hello").unwrap().end()).await.cause,
        Cause::Complete
    );
    assert_eq!(
        started(&file, 1).await.len(),
        1,
        "the session has started none"
    );
    let end = soon(session.send("die").unwrap().end()).await;
    assert_eq!(end.cause, Cause::ProcessExit);
    // No one asks for it.
    let pids = started(&file, 2).await;
    assert_eq!(
        soon(session.send("hello").unwrap().end()).await.cause,
        Cause::Complete
    );
    soon(host.shutdown()).await;
    assert_eq!(
        started(&file, 2).await,
        pids,
        "never more than one at a time, and none after the end"
    );
    for pid in pids {
        assert!(
            !std::path::Path::new(&format!("/proc/{pid}")).exists(),
            "{pid} is left"
        );
    }
}
