//! Restarts of an agent by its operator.
#![allow(clippy::unwrap_used, reason = "a test that cannot continue panics")]

mod support;

use std::time::Duration;

use support::{agent, named, played, script, soon};
use trunkline_host::{
    AgentHealth, Cause, EventKind, Host, OpenError, Session,
    config::{AgentConfig, Command},
    protocol::{AgentState, Severity},
};

/// Hangs on `hang`, also at SIGTERM, and continues its conversation after a restart.
const HANGING: &str = r#"
import json, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
native = {}
def say(kind, **more):
    print(json.dumps({"type": kind, "session_id": session, **more}), flush=True)
for line in sys.stdin:
    message = json.loads(line)
    session, kind = message["session_id"], message["type"]
    if kind == "session.start":
        kept = (message.get("resume") or {}).get("native_session_id")
        native[session] = kept
        say("session.ready", protocol=1, extensions=["turns", "resume"])
        say("session.info", native_session_id=kept or f"n-{session}", **({"context": "kept"} if kept else {}))
    elif kind == "user.input":
        while message["content"] == "hang":
            time.sleep(60)
        say("output", turn_id=message["turn_id"], content=native[session] or "new")
        say("turn.complete", turn_id=message["turn_id"])
"#;

/// Completes each turn.
const COMPLETING: &str = r#"while read -r line; do case $line in
    *user.input*) printf '%s\n' '{"type":"turn.complete","session_id":"s"}';; esac; done"#;

/// Returns the health of the only agent.
async fn health(host: &Host) -> AgentHealth {
    soon(host.health()).await.remove(0)
}

async fn answer(session: &Session, text: &str) -> String {
    let (text, end) = soon(session.send(text).unwrap().text()).await;
    assert_eq!(end.cause, Cause::Complete, "{end:?}");
    text
}

#[tokio::test]
async fn an_agent_that_hangs_is_restarted_once_and_its_sessions_continue() {
    let command = Command::new("python3").args(["-c", HANGING]);
    let agent = AgentConfig::external("own", command);
    let host = Host::builder().agent(agent).build().unwrap();
    soon(host.restart_agent("own")).await.unwrap();
    let unknown = soon(host.restart_agent("none")).await;
    assert!(
        matches!(unknown, Err(OpenError::UnknownAgent { .. })),
        "{unknown:?}"
    );
    let sessions: Vec<_> = ["a", "b", "c"]
        .iter()
        .map(|id| host.open("own", named(id)).unwrap())
        .collect();
    for session in &sessions {
        assert_eq!(answer(session, "hello").await, "new");
    }
    let turns: Vec<_> = sessions
        .iter()
        .map(|session| session.send("hang").unwrap())
        .collect();
    while health(&host).await.running_turns < 3 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let both = async { tokio::join!(host.restart_agent("own"), host.restart_agent("own")) };
    let (first, second) = soon(both).await;
    first.and(second).unwrap();
    for turn in turns {
        let end = soon(turn.end()).await;
        assert_eq!(end.cause, Cause::ProcessExit, "{end:?}");
        assert_eq!(end.exit.unwrap().signal, Some(9));
        let message = end.error.unwrap().message.unwrap();
        assert!(message.contains("the agent was restarted"), "{message}");
    }
    let restarted = health(&host).await;
    assert_eq!(restarted.state, AgentState::Idle);
    assert_eq!(restarted.restart_in, None, "no back-off");
    assert_eq!(restarted.verdict().severity, Severity::Ok);
    for (session, id) in sessions.iter().zip(["n-a", "n-b", "n-c"]) {
        assert_eq!(answer(session, "again").await, id);
    }
    assert_eq!(health(&host).await.counters.restarts, 1);
    soon(host.shutdown()).await;
    soon(host.restart_agent("own")).await.unwrap();
}

/// Nothing else runs while this thread sleeps, so each number of steps ends in another phase of the
/// start: also in the one whose process the driver has yet to see.
#[tokio::test]
async fn a_restart_in_any_phase_of_a_start_leaves_no_input_behind() {
    for steps in 0..8 {
        let host = Host::builder().agent(script(COMPLETING)).build().unwrap();
        let session = host.open("sh", named("s")).unwrap();
        let turn = session.send("first").unwrap();
        for _ in 0..steps {
            tokio::task::yield_now().await;
            std::thread::sleep(Duration::from_millis(20));
        }
        soon(host.restart_agent("sh")).await.unwrap();
        let end = soon(turn.end()).await;
        let is_either = matches!(end.cause, Cause::Complete | Cause::ProcessExit);
        assert!(is_either, "{steps}: {end:?}");
        answer(&session, "next").await;
        soon(host.shutdown()).await;
    }
}

#[tokio::test]
async fn streams_are_made_anew_by_a_restart() {
    let (host, mut peers) = played(agent(), 1 << 16);
    let session = host.open("a", named("s")).unwrap();
    let mut turn = session.send("x").unwrap();
    let mut peer = soon(peers.recv()).await.unwrap();
    peer.read("user.input").await;
    soon(host.restart_agent("a")).await.unwrap();
    assert_eq!(peer.read_line().await, None, "its input ends");
    let event = soon(turn.next()).await.unwrap();
    let EventKind::End(end) = event.kind else {
        panic!("{event:?}")
    };
    assert_eq!(end.cause, Cause::ProcessExit);
    let next = session.send("y").unwrap();
    let echo = tokio::spawn(soon(peers.recv()).await.unwrap().echo());
    assert_eq!(soon(next.end()).await.cause, Cause::Complete);
    soon(host.shutdown()).await;
    echo.await.unwrap();
}
