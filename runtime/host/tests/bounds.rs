//! The link where it is cut, flooded or left: no input without an end, nothing that grows, no
//! session that waits for others.

mod support;

use std::time::Duration;

use support::{agent, core_agent, named, played, played_with, soon};
use trunkline_host::{
    Cause, Event, EventKind, Host, SendError, SessionOptions,
    config::{AgentConfig, Command, Config},
    protocol::Resume,
};

#[tokio::test(start_paused = true)]
async fn a_silent_start_over_streams_ends_its_input_and_the_next_starts_again() {
    let (host, mut peers) = played(core_agent(), 4096);
    let session = host.open("a", named("s")).unwrap();
    let turn = session.send("x").unwrap();
    let mut silent = peers.recv().await.unwrap();
    silent.read("user.input").await;
    let end = tokio::time::timeout(Duration::from_secs(130), turn.end())
        .await
        .expect("an end");
    assert_eq!(end.cause, Cause::StartTimeout);
    let turn = session.send("again").unwrap();
    tokio::spawn(soon(peers.recv()).await.unwrap().echo());
    assert_eq!(soon(turn.text()).await.0, "again");
}

#[tokio::test(start_paused = true)]
async fn an_adapter_that_asks_and_reads_no_answer_is_ended() {
    let mut agent = core_agent();
    agent.limits.outbox = 4096;
    let (host, mut peers) = played(agent, 256);
    let session = host.open("a", named("s")).unwrap();
    let turn = session.send("x").unwrap();
    let mut peer = peers.recv().await.unwrap();
    peer.read("user.input").await;
    tokio::spawn(async move {
        for at in 0..20_000 {
            let line = format!(
                "{{\"type\":\"permission.request\",\"session_id\":\"s\",\"request_id\":\"{at}\",\"tool\":\"t\",\"description\":\"d\",\"resource\":\"x\"}}\n"
            );
            if tokio::io::AsyncWriteExt::write_all(&mut peer.output, line.as_bytes())
                .await
                .is_err()
            {
                return;
            }
        }
        std::future::pending::<()>().await;
    });
    assert_eq!(soon(turn.end()).await.cause, Cause::ProcessExit);
}

#[tokio::test(start_paused = true)]
async fn an_input_larger_than_the_outbox_goes_through_and_ends_no_one() {
    let mut agent = core_agent();
    agent.limits.outbox = 1024;
    let (host, mut peers) = played(agent, 256);
    let session = host.open("a", named("s")).unwrap();
    let big = "x".repeat(64 * 1024);
    let turn = session.send(big.as_str()).unwrap();
    tokio::spawn(soon(peers.recv()).await.unwrap().echo());
    let (text, end) = soon(turn.text()).await;
    assert_eq!((text.len(), end.cause), (big.len(), Cause::Complete));
}

#[tokio::test(start_paused = true)]
async fn inputs_of_many_sessions_that_the_pipe_does_not_take_are_refused_as_busy() {
    let mut agent = core_agent();
    agent.limits.outbox = 64 * 1024;
    let (host, mut peers) = played(agent, 256);
    let big = "x".repeat(16 * 1024);
    let mut turns = Vec::new();
    let mut busy = 0;
    for at in 0..32 {
        let session = host.open("a", named(&format!("s{at}"))).unwrap();
        match session.send(big.as_str()) {
            Ok(turn) => turns.push((session, turn)),
            Err(SendError::Busy) => busy += 1,
            Err(error) => panic!("{error}"),
        }
        // The link takes each before the next comes.
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert!(
        (2..=4).contains(&turns.len()) && busy >= 28,
        "{} accepted, {busy} refused",
        turns.len()
    );
    tokio::spawn(soon(peers.recv()).await.unwrap().echo());
    for (_session, turn) in turns {
        assert_eq!(soon(turn.end()).await.cause, Cause::Complete);
    }
}

#[tokio::test]
async fn facts_that_no_one_reads_weigh_what_they_hold_and_go_to_disk() {
    let (host, mut peers) = played(agent(), 64 * 1024);
    let session = host.open("a", named("s")).unwrap();
    let mut peer = peers.recv().await.unwrap();
    peer.say(
        "session.ready",
        "s",
        r#","extensions":["options","usage","events"]"#,
    )
    .await;
    let big = "m".repeat(64 * 1024);
    for _ in 0..16 {
        peer.say("session.info", "s", &format!(r#","model":"{big}""#))
            .await;
        peer.say("rate_limit", "s", &format!(r#","window":"{big}""#))
            .await;
        peer.say(
            "output",
            "s",
            &format!(r#","content":"","channel":"{big}""#),
        )
        .await;
    }
    while host.agent("a").unwrap().counters.lines_in < 49 {
        tokio::task::yield_now().await;
    }
    session.close().await;
    let mut events = 0;
    while let Some(event) = soon(session.next_event()).await {
        events += usize::from(matches!(
            event.kind,
            EventKind::Info(_) | EventKind::RateLimit(_) | EventKind::Output(_)
        ));
    }
    assert_eq!(events, 48);
    assert!(
        host.agent("a").unwrap().counters.spooled_bytes > 2 * 1024 * 1024,
        "it went to disk"
    );
}

#[tokio::test(start_paused = true)]
async fn a_refused_file_is_told_by_a_short_name() {
    let (host, mut peers) = played(core_agent(), 64 * 1024);
    let session = host.open("a", named("s")).unwrap();
    let mut turn = session.send("x").unwrap();
    let mut peer = peers.recv().await.unwrap();
    let name = "n".repeat(100_000);
    peer.say(
        "file.output",
        "s",
        &format!(",\"file_path\":\"/nowhere\",\"file_name\":\"{name}\""),
    )
    .await;
    let Some(Event {
        kind: EventKind::Error(error),
        ..
    }) = soon(turn.next()).await
    else {
        panic!("a refusal")
    };
    assert!(error.message.len() < 1024, "{} bytes", error.message.len());
}

#[test]
fn a_session_that_a_dead_link_cannot_take_has_an_end() {
    let first = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let second = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let mut agent = core_agent();
    agent.limits.max_sessions = Some(1);
    let (host, _peers) = played(agent, 4096);
    let open = |at: &str| host.open("a", named(at)).unwrap();
    let before = first.block_on(async { open("before") });
    // Its command waits for the driver, which goes with its runtime.
    drop(first);
    second.block_on(async {
        assert!(soon(before.next_event()).await.is_some(), "an end");
        let after = open("after");
        assert!(matches!(
            soon(after.next_event()).await.unwrap().kind,
            EventKind::Closed(_)
        ));
        assert_eq!(after.send("x").unwrap_err(), SendError::Closed);
    });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_threads_take_the_last_session_of_a_host() {
    for _ in 0..50 {
        let mut config = Config::default();
        config.max_sessions = Some(3);
        let (host, _peers) = played_with(Host::builder().config(config), core_agent(), 4096);
        let runtime = tokio::runtime::Handle::current();
        let all_at_once = std::sync::Barrier::new(8);
        let opened: Vec<_> = std::thread::scope(|scope| {
            let open = || {
                let _guard = runtime.enter();
                all_at_once.wait();
                host.open("a", SessionOptions::default())
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .collect()
        });
        let (sessions, refused): (Vec<_>, Vec<_>) = opened.into_iter().partition(Result::is_ok);
        assert_eq!(sessions.len(), 3);
        let text = refused[0].as_ref().unwrap_err().to_string();
        assert_eq!(
            text,
            "no more sessions on this host: 3 are open, which is the limit; close one, or raise `max_sessions`"
        );
    }
}

#[tokio::test]
async fn a_descendant_that_floods_does_not_hide_the_end_of_the_process() {
    // A pipe as large as it gets is never read empty.
    let program = "import fcntl, os, sys, time\n\
        sys.stdin.readline(); sys.stdin.readline()\n\
        fcntl.fcntl(1, 1031, 1 << 20)\n\
        if os.fork() == 0:\n    while True: os.write(1, b'noise\\n' * 100000)\n\
        time.sleep(0.3); os._exit(3)";
    let mut agent = AgentConfig::external("sh", Command::new("python3").args(["-c", program]));
    agent.extensions = Some(Vec::new());
    let host = Host::builder().agent(agent).build().unwrap();
    let session = host.open("sh", named("s")).unwrap();
    let end = tokio::time::timeout(Duration::from_secs(10), session.send("x").unwrap().end());
    let end = end.await.expect("the end is noticed");
    assert_eq!(
        (end.cause, end.exit.unwrap().code),
        (Cause::ProcessExit, Some(3))
    );
    soon(host.shutdown()).await;
}

#[tokio::test]
async fn turns_that_are_dropped_with_much_unread_do_not_pause_the_link() {
    const TURNS: usize = 320;
    let (host, mut peers) = played(core_agent(), 256 * 1024);
    let session = host.open("a", named("s")).unwrap();
    let pad = "p".repeat(460 * 1024);
    let mut peer = None;
    for _ in 0..TURNS {
        let turn = session.send("x").unwrap();
        if peer.is_none() {
            peer = peers.recv().await;
        }
        let peer = peer.as_mut().unwrap();
        for _ in 0..2 {
            peer.say(
                "output",
                "s",
                &format!(",\"content\":\"{}\"", &pad[..230 * 1024]),
            )
            .await;
        }
        let read = host.agent("a").unwrap().counters.lines_in;
        peer.say("turn.complete", "s", "").await;
        while host.agent("a").unwrap().counters.lines_in <= read {
            tokio::task::yield_now().await;
        }
        drop(turn);
    }
    let last = session.send("x").unwrap();
    peer.as_mut().unwrap().say("turn.complete", "s", "").await;
    assert_eq!(soon(last.end()).await.cause, Cause::Complete);
    assert_eq!(host.agent("a").unwrap().counters.pauses, 0);
}

#[tokio::test]
async fn requests_that_no_one_reads_end_the_session_before_they_fill_the_memory() {
    let (host, mut peers) = played(agent(), 256 * 1024);
    let session = host.open("a", named("s")).unwrap();
    let turn = session.send("x").unwrap();
    let mut peer = peers.recv().await.unwrap();
    peer.say("session.ready", "s", r#","extensions":["control"]"#)
        .await;
    let big = "d".repeat(128 * 1024);
    for at in 0..256 {
        let more =
            format!(r#","request_id":"{at}","tool":"t","description":"{big}","resource":"x""#);
        peer.say("permission.request", "s", &more).await;
        peer.say(
            "permission.cancel",
            "s",
            &format!(r#","request_id":"{at}""#),
        )
        .await;
    }
    let end = soon(turn.end()).await;
    assert_eq!((end.cause, session.is_closed()), (Cause::Limit, true));
}

#[tokio::test(start_paused = true)]
async fn no_more_sessions_are_opened_than_the_adapter_declares() {
    let (host, mut peers) = played(agent(), 4096);
    let first = host.open("a", named("s")).unwrap();
    let turn = first.send("x").unwrap();
    let mut peer = soon(peers.recv()).await.unwrap();
    peer.read("session.start").await;
    let ready = r#","protocol":1,"extensions":["events"],"capabilities":{"max_sessions":1}"#;
    peer.say("session.ready", "s", ready).await;
    while !matches!(
        soon(first.next_event()).await.unwrap().kind,
        EventKind::Info(_)
    ) {}
    assert_eq!(
        host.agent("a").unwrap().capabilities.unwrap().max_sessions,
        Some(1)
    );

    let refused = host.open("a", named("t")).unwrap_err();
    assert_eq!(
        refused.to_string(),
        "open a session: the adapter of agent \"a\" takes 1 at a time, which are open; close one"
    );
    // The open session continues, and frees its place.
    tokio::spawn(peer.echo());
    assert_eq!(soon(turn.text()).await.0, "x");
    first.close().await;
    host.open("a", named("t")).unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_conversation_is_forked_only_by_an_adapter_that_declares_it() {
    let (host, mut peers) = played(agent(), 4096);
    let fork = |id: &str| {
        let mut options = named(id);
        options.start.resume = Some(Resume {
            native_session_id: Some("n".to_owned()),
            fork: Some(true),
            ..Resume::default()
        });
        options
    };
    let refused = host.open("a", fork("s")).unwrap_err();
    assert!(
        refused.to_string().contains("not known to fork"),
        "{refused}"
    );

    let first = host.open("a", named("s")).unwrap();
    first.send("x").unwrap().detach();
    let mut peer = soon(peers.recv()).await.unwrap();
    peer.read("session.start").await;
    let ready = r#","protocol":1,"extensions":["resume"],"capabilities":{"forks_sessions":true}"#;
    peer.say("session.ready", "s", ready).await;
    while !matches!(
        soon(first.next_event()).await.unwrap().kind,
        EventKind::Info(_)
    ) {}
    let _second = host.open("a", fork("t")).unwrap();
    peer.read("user.input").await;
    let start = peer.read("session.start").await;
    assert_eq!(start["resume"]["fork"], true);
}
