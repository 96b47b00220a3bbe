//! The skeleton of the adapter guide: what it does, and that the guide shows it as it is.

use std::{fs, path::PathBuf, time::Duration};

use serde_json::{Value, json};
use trunkline_host::{
    Host, Session, SessionOptions,
    config::{AgentConfig, Command},
    protocol::{Category, Status},
};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Cargo builds the examples before the tests, beside their folder.
fn program() -> PathBuf {
    let test = std::env::current_exe().expect("a path");
    test.parent()
        .and_then(|folder| folder.parent())
        .expect("a folder")
        .join("examples/skeleton")
}

fn host(config: Value) -> (Host, Session) {
    let mut agent = AgentConfig::external("skeleton", Command::new(program().to_string_lossy()));
    agent.config = Some(config);
    let host = Host::builder().agent(agent).build().expect("a host");
    let session = host
        .open("skeleton", SessionOptions::default())
        .expect("a session");
    (host, session)
}

fn shell(script: &str) -> Value {
    json!({ "command": "sh", "args": ["-c", script] })
}

#[test]
fn the_guide_shows_its_examples_as_they_are() {
    let guide = fs::read_to_string(root().join("docs/adapter-guide.md")).expect("the guide");
    for example in ["skeleton", "events"] {
        let path = root().join(format!("examples/rust/{example}.rs"));
        let code = fs::read_to_string(path).expect("the example");
        let shown = guide.contains(&format!("```rust\n{code}```\n"));
        assert!(shown, "copy examples/rust/{example}.rs into the guide");
    }
}

#[tokio::test]
async fn an_input_goes_in_and_the_answer_comes_out_as_it_is_made() {
    let (host, session) = host(shell("cat; echo; printf 'no line end: \\377'"));
    for input in ["hello", "and again"] {
        let (text, end) = session.send(input).expect("a turn").text().await;
        assert_eq!(text, format!("{input}\nno line end: \u{fffd}"));
        assert_eq!(end.status, Status::Completed, "{end:?}");
    }
    // More than fits into the pipes, both ways at once.
    let long = "x".repeat(3_000_000);
    let (text, _) = session.send(long.as_str()).expect("a turn").text().await;
    assert_eq!(text.len(), long.len() + "\nno line end: \u{fffd}".len());
    host.shutdown().await;
}

#[tokio::test]
async fn a_failure_has_its_kind_and_the_last_words() {
    let (host, session) = self::host(shell("echo oh no >&2; exit 3"));
    let error = session
        .send("x")
        .expect("a turn")
        .end()
        .await
        .error
        .expect("an error");
    assert_eq!(error.category, Some(Category::ProcessExit));
    assert_eq!(
        error.message.as_deref(),
        Some("the program ended with exit status 3: oh no")
    );
    host.shutdown().await;

    let (host, session) = self::host(json!({ "command": "no-such-program-here" }));
    let error = session
        .send("x")
        .expect("a turn")
        .end()
        .await
        .error
        .expect("an error");
    assert_eq!(error.category, Some(Category::NotInstalled), "{error:?}");
    host.shutdown().await;
}

#[tokio::test]
async fn a_stop_ends_the_whole_tree_and_the_session_goes_on() {
    let folder = tempfile::tempdir().expect("a folder");
    let mark = folder.path().join("mark");
    // A first turn hangs with a child that holds the pipes; a later one answers.
    let script = format!(
        "test -e {0} && exec cat; touch {0}; echo begun; sleep 600 & wait",
        mark.display()
    );
    let (host, session) = host(shell(&script));
    let mut turn = session.send("x").expect("a turn");
    let begun = async {
        while !matches!(
            turn.next().await.expect("an event").kind,
            trunkline_host::EventKind::Output(_)
        ) {}
    };
    tokio::time::timeout(Duration::from_secs(60), begun)
        .await
        .expect("it begins");
    session.stop();
    let end = turn.end().await;
    assert_eq!(end.status, Status::Stopped, "{end:?}");
    let (text, end) = session.send("again").expect("a turn").text().await;
    assert_eq!((text.as_str(), end.status), ("again", Status::Completed));
    host.shutdown().await;
}
