//! An agent's health as an embedder sees it: of real processes, and in virtual time.

mod support;

use std::time::Duration;

use support::{agent, named, played, script, soon};
use trunkline_host::{
    AgentHealth, Cause, EventKind, Host,
    protocol::{AgentState, Liveness, Severity},
};

const COMPLETE: &str = r#"printf '%s\n' '{"type":"turn.complete","session_id":"s"}'"#;

async fn health(host: &Host) -> AgentHealth {
    soon(host.health()).await.remove(0)
}

/// The health, as soon as it is so.
async fn health_when(host: &Host, is_so: impl Fn(&AgentHealth) -> bool) -> AgentHealth {
    soon(async {
        loop {
            let health = health(host).await;
            if is_so(&health) {
                return health;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}

#[tokio::test]
async fn an_agent_that_was_never_used_is_fine_and_one_that_says_nothing_is_starting() {
    let host = Host::builder()
        .agent(script("cat > /dev/null"))
        .build()
        .unwrap();
    let unused = health(&host).await;
    assert_eq!(
        (unused.agent.as_str(), unused.liveness(), unused.sessions),
        ("sh", Liveness::Down, 0)
    );
    assert_eq!(unused.verdict().severity, Severity::Ok);
    let session = host.open("sh", named("s")).unwrap();
    let _turn = session.send("hello").unwrap();
    let silent = health_when(&host, |health| health.running_turns == 1).await;
    assert_eq!(
        (silent.state, silent.liveness()),
        (AgentState::Running, Liveness::Starting)
    );
    let process = silent.process.as_ref().unwrap();
    assert!(process.pid.is_some() && !process.was_heard, "{process:?}");
    assert_eq!(silent.sessions, 1);
    assert!(
        silent.verdict().text.contains("without a message so far"),
        "{}",
        silent.verdict()
    );
    host.shutdown().await;
    assert_eq!(health(&host).await.liveness(), Liveness::Down);
}

#[tokio::test]
async fn an_adapter_that_floods_its_stdout_with_noise_learns_where_to_print() {
    let text = format!(
        "read -r a; read -r b; echo warming up >&2; for n in 1 2 3 4 5 6 7 8 9; do echo noise; done; {COMPLETE}; cat > /dev/null"
    );
    let host = Host::builder().agent(script(&text)).build().unwrap();
    let session = host.open("sh", named("s")).unwrap();
    let end = soon(session.send("hello").unwrap().end()).await;
    assert_eq!(end.cause, Cause::Complete);
    let noisy = health_when(&host, |health| !health.stderr_tail().is_empty()).await;
    assert_eq!(
        (noisy.counters.noise, noisy.stderr_tail()),
        (9, "warming up\n")
    );
    assert!(
        noisy.rates.lines_in > 0.0 && noisy.rates.bytes_out > 0.0,
        "{:?}",
        noisy.rates
    );
    let verdict = noisy.verdict();
    assert_eq!(verdict.severity, Severity::Warning);
    assert!(verdict.text.contains("no messages (9 of 10)"), "{verdict}");
    host.shutdown().await;
}

#[tokio::test]
async fn an_adapter_that_crashes_has_an_end_a_next_start_and_its_last_words() {
    let folder = tempfile::tempdir().unwrap();
    let text = format!(
        "read -r a; read -r b; if mkdir {0}/again 2> /dev/null; then echo boom >&2; exit 3; fi; {COMPLETE}; cat > /dev/null",
        folder.path().display()
    );
    let host = Host::builder().agent(script(&text)).build().unwrap();
    let session = host.open("sh", named("s")).unwrap();
    let end = soon(session.send("one").unwrap().end()).await;
    assert_eq!(end.cause, Cause::ProcessExit);
    let crashed = health(&host).await;
    assert_eq!(
        (crashed.state, crashed.liveness()),
        (AgentState::Idle, Liveness::Down)
    );
    assert!(
        crashed.restart_in.is_some() && crashed.process.is_none(),
        "{crashed:?}"
    );
    let last = crashed.last_end.as_ref().unwrap();
    assert_eq!(
        (last.how.as_str(), last.stderr_tail.as_str()),
        ("ended with exit status 3", "boom\n")
    );
    let verdict = crashed.verdict();
    assert_eq!(verdict.severity, Severity::Warning);
    assert!(
        verdict
            .text
            .contains("exit status 3 before it completed a turn"),
        "{verdict}"
    );

    // The second run has another session on the wire.
    let second = host.open("sh", named("t")).unwrap();
    drop(session);
    let _turn = second.send("two").unwrap();
    let again = health_when(&host, |health| health.process.is_some()).await;
    assert_eq!((again.counters.restarts, again.restart_in), (1, None));
    assert_eq!(again.stderr_tail(), "boom\n");
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_turn_gets_on_until_it_is_silent_and_rates_fall_to_nothing() {
    let (host, mut peers) = played(agent(), 1 << 20);
    let session = host.open("a", named("s")).unwrap();
    let mut turn = session.send("x").unwrap();
    let mut peer = soon(peers.recv()).await.unwrap();
    for _ in 0..100 {
        peer.say("output", "s", r#","content":"x""#).await;
    }
    for _ in 0..100 {
        let EventKind::Output(_) = soon(turn.next()).await.unwrap().kind else {
            panic!("an output")
        };
    }
    tokio::time::sleep(Duration::from_secs(5)).await;
    let at_work = health(&host).await;
    assert_eq!(
        (at_work.liveness(), at_work.running_turns),
        (Liveness::Progressing, 1)
    );
    assert!(
        (15.0..=25.0).contains(&at_work.rates.lines_in),
        "{:?}",
        at_work.rates
    );
    assert_eq!(at_work.verdict().to_string(), "fine: 1 turn runs");

    tokio::time::sleep(Duration::from_secs(60)).await;
    let silent = health(&host).await;
    assert_eq!(
        (silent.liveness(), silent.rates.lines_in),
        (Liveness::Alive, 0.0)
    );
    assert!(
        silent
            .verdict()
            .text
            .contains("a turn has been silent for 1 min 5 s"),
        "{}",
        silent.verdict()
    );
    let status = soon(session.status()).await.unwrap();
    assert_eq!(status.silent_for.map(|silence| silence.as_secs()), Some(65));
}

#[tokio::test(start_paused = true)]
async fn an_adapter_that_does_not_answer_is_suspected_until_it_is_heard_and_its_turn_goes_on() {
    let (host, mut peers) = played(agent(), 1 << 20);
    let session = host.open("a", named("s")).unwrap();
    let mut turn = session.send("x").unwrap();
    let mut peer = soon(peers.recv()).await.unwrap();
    peer.say("session.ready", "s", r#","extensions":["turns","control"]"#)
        .await;
    // It answers once, and then no more.
    let ping = peer.read("ping").await;
    peer.say("pong", "", &format!(r#","nonce":{}"#, ping["nonce"]))
        .await;
    assert_eq!(peer.read("ping").await["nonce"], 2);
    let event = soon(turn.next()).await.unwrap();
    let EventKind::Stalled { silent_for, .. } = event.kind else {
        panic!("{event:?}")
    };
    assert!(silent_for >= Duration::from_secs(70), "{silent_for:?}");
    let suspected = health(&host).await;
    assert_eq!(
        (suspected.liveness(), suspected.counters.suspicions),
        (Liveness::Suspected, 1)
    );
    assert_eq!(suspected.verdict().severity, Severity::Warning);
    assert!(
        suspected.verdict().text.contains("not answered a ping"),
        "{}",
        suspected.verdict()
    );
    peer.write("any byte\n").await;
    peer.say("turn.complete", "s", r#","turn_id":"t1""#).await;
    assert_eq!(soon(turn.end()).await.cause, Cause::Complete);
    assert_eq!(health(&host).await.liveness(), Liveness::Answering);
}

#[tokio::test(start_paused = true)]
async fn an_agent_whose_turns_fail_alike_is_failing_until_one_completes() {
    let (host, mut peers) = played(agent(), 1 << 20);
    let session = host.open("a", named("s")).unwrap();
    let mut first = Some(session.send("x").unwrap());
    let mut peer = soon(peers.recv()).await.unwrap();
    peer.say("session.ready", "s", r#","extensions":["turns"]"#)
        .await;
    let auth =
        r#","status":"failed","error":{"category":"auth","message":"Invalid API key\nmore of it"}"#;
    let timeout = r#","status":"failed","error":{"category":"timeout"}"#;
    let stopped = r#","status":"stopped""#;
    for (number, (end, is_failing)) in [
        (auth, false),
        (auth, false),
        (timeout, false),
        (auth, false),
        (auth, false),
        (stopped, false),
        (auth, true),
        (stopped, true),
        ("", false),
        (auth, false),
    ]
    .into_iter()
    .enumerate()
    {
        let turn = first.take().unwrap_or_else(|| session.send("x").unwrap());
        let turn_id = peer.read("user.input").await["turn_id"].clone();
        peer.say(
            "turn.complete",
            "s",
            &format!(r#","turn_id":{turn_id}{end}"#),
        )
        .await;
        soon(turn.end()).await;
        let verdict = health(&host).await.verdict();
        let expected = "failing: its last 3 turns failed with `auth`: Invalid API key more of it; log in with `trunkline agents login a`";
        if is_failing {
            assert_eq!(
                (verdict.severity, verdict.text.as_str()),
                (Severity::Error, expected)
            );
        } else {
            assert_eq!(verdict.severity, Severity::Ok, "{number}: {verdict}");
        }
    }
}
