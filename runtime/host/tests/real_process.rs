//! The host against real programs over real pipes.

use std::time::Duration;

use trunkline_host::{
    Cause, EventKind, Host, SessionOptions,
    config::{AgentConfig, Command},
};

fn example(path: &str) -> String {
    format!("{}/../../examples/{path}", env!("CARGO_MANIFEST_DIR"))
}

fn echo() -> AgentConfig {
    AgentConfig::external("echo", Command::new("python3").arg(example("python/echo.py")))
}

#[tokio::test]
async fn a_turn_of_a_real_adapter_ends_once_with_its_text() {
    let host = Host::builder().agent(echo()).build().unwrap();
    let session = host.open("echo", SessionOptions::default()).unwrap();
    for word in ["one", "two", "three"] {
        let (text, end) = session.send(word).unwrap().text().await;
        assert_eq!((text.contains(word), end.cause), (true, Cause::Complete), "{text:?} {end:?}");
    }
    session.close().await;
    host.shutdown().await;
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
async fn a_missing_command_ends_the_input_with_the_path_that_was_searched() {
    let host = Host::builder()
        .agent(AgentConfig::external("none", Command::new("no-such-adapter")))
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
        while let Some(event) = tokio::time::timeout(Duration::from_secs(20), turn.next()).await.unwrap() {
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
