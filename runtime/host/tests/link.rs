//! The link over an in-memory pipe: floods, giants, silence, ends.

mod support;

use std::{
    future::Future,
    sync::Arc,
    task::{Context, Poll},
};

use support::{Peer, agent, core_agent, named, played, soon};
use tokio::{io::AsyncWriteExt, sync::mpsc};
use trunkline_host::{
    Cause, EventDelivery, EventKind, Host, Input, SendError, Session, SessionOptions, Turn,
    TurnScope,
    config::AgentConfig,
    protocol::{Category, Delivered, FileInput, InputLimits, Sha256, Status, UserInput},
};

/// Opens the session `s` of an agent that the test plays.
fn open(agent: AgentConfig, pipe: usize) -> (Host, Session, mpsc::Receiver<Peer>) {
    let (host, peers) = played(agent, pipe);
    let session = host.open("a", named("s")).expect("the host has the agent");
    (host, session, peers)
}

/// Begins a turn of such a session, for which the agent starts.
async fn begin(agent: AgentConfig, pipe: usize) -> (Host, Session, Turn, Peer) {
    let (host, session, mut peers) = open(agent, pipe);
    let turn = session.send("x").expect("the session is open");
    let peer = peers.recv().await.expect("the agent starts");
    (host, session, turn, peer)
}

/// Reports the session ready, with these extensions.
async fn agree_on(peer: &mut Peer, extensions: &str) {
    let members = format!(r#","extensions":{extensions}"#);
    peer.say("session.ready", "s", &members).await;
}

/// Reads the events of a session outside its turns, up to and with an output.
async fn pass_output(session: &Session) {
    while !matches!(
        soon(session.next_event()).await.expect("an event").kind,
        EventKind::Output(_)
    ) {}
}

#[tokio::test(start_paused = true)]
async fn the_published_exchange_is_written_line_by_line() {
    let (host, mut peers) = played(core_agent(), 64);
    let session = host.open("a", named("abc-123")).unwrap();
    let mut turn = session.send("Hello, agent!").unwrap();
    let mut peer = peers.recv().await.unwrap();
    assert_eq!(
        peer.read_line().await.unwrap(),
        r#"{"type":"session.start","session_id":"abc-123"}"#
    );
    assert_eq!(
        peer.read_line().await.unwrap(),
        r#"{"type":"user.input","session_id":"abc-123","content":"Hello, agent!"}"#
    );
    peer.say(
        "output",
        "abc-123",
        r#","content":"Hello! How can I help?","channel":"stdout""#,
    )
    .await;
    peer.say("turn.complete", "abc-123", "").await;
    let EventKind::Output(output) = turn.next().await.unwrap().kind else {
        panic!("an output")
    };
    assert_eq!(output.content, "Hello! How can I help?");
    assert_eq!(turn.end().await.cause, Cause::Complete);

    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("data.csv");
    std::fs::write(&file, "1,2").unwrap();
    soon(session.deliver_file(&file, None, Some("text/csv".to_owned())))
        .await
        .unwrap();
    let announced = peer.read("file.input").await;
    assert_eq!(
        (&announced["file_name"], &announced["file_mime_type"]),
        (&"data.csv".into(), &"text/csv".into())
    );
    assert_eq!(
        std::fs::read_to_string(announced["file_path"].as_str().unwrap()).unwrap(),
        "1,2"
    );
    assert_eq!(announced.as_object().unwrap().len(), 5);

    let turn = session.send("more").unwrap();
    peer.read("user.input").await;
    session.stop();
    assert_eq!(
        peer.read_line().await.unwrap(),
        r#"{"type":"stop","session_id":"abc-123"}"#
    );
    peer.say("turn.complete", "abc-123", "").await;
    assert_eq!(turn.end().await.status, Status::Stopped);
    session.close().await;
    assert_eq!(
        peer.read_line().await.unwrap(),
        r#"{"type":"session.close","session_id":"abc-123"}"#
    );
}

#[tokio::test]
async fn both_sides_push_sixteen_mebibytes_unread_and_nothing_locks() {
    const LINES: usize = 256;
    let (_host, session, mut peers) = open(core_agent(), 4096);
    let big = "x".repeat(64 * 1024);
    // No one reads these turns yet, and the adapter does not read its input yet.
    let mut turns: Vec<_> = (0..60)
        .map(|_| session.send(big.as_str()).unwrap())
        .collect();
    let mut peer = peers.recv().await.unwrap();
    for _ in 0..LINES {
        peer.say("output", "s", &format!(",\"content\":\"{big}\""))
            .await;
    }
    peer.say("turn.complete", "s", "").await;
    let mut bytes = 0;
    let mut first = turns.remove(0);
    while let Some(event) = soon(first.next()).await {
        if let EventKind::Output(output) = event.kind {
            bytes += output.content.len();
        }
    }
    assert_eq!(bytes, LINES * big.len());
    for _ in turns {
        assert_eq!(
            soon(peer.read("user.input")).await["content"]
                .as_str()
                .unwrap()
                .len(),
            big.len()
        );
        peer.say("turn.complete", "s", "").await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_oversize_line_costs_itself_and_its_session_is_told() {
    let mut small = core_agent();
    small.limits.max_line = 1024 * 1024;
    let (host, mut peers) = played(small, 64 * 1024);
    let one = host.open("a", named("one")).unwrap();
    let two = host.open("a", named("two")).unwrap();
    let mut first = one.send("x").unwrap();
    let second = two.send("x").unwrap();
    let mut peer = peers.recv().await.unwrap();
    peer.say(
        "output",
        "one",
        &format!(",\"content\":\"{}\"", "y".repeat(2 * 1024 * 1024)),
    )
    .await;
    peer.say("output", "two", ",\"content\":\"fine\"").await;
    peer.say("turn.complete", "two", "").await;
    let (text, end) = soon(second.text()).await;
    assert_eq!((text.as_str(), end.cause), ("fine", Cause::Complete));
    let EventKind::Error(error) = soon(first.next()).await.unwrap().kind else {
        panic!("an error")
    };
    assert_eq!(error.category, Some(Category::Oversize));
    assert_eq!(host.agent("a").unwrap().counters.too_long, 1);
    // An end that is too long is an end.
    peer.say(
        "turn.complete",
        "one",
        &format!(",\"summary\":\"{}\"", "y".repeat(2 * 1024 * 1024)),
    )
    .await;
    assert_eq!(soon(first.end()).await.cause, Cause::Oversize);
}

#[tokio::test(start_paused = true)]
async fn noise_is_counted_and_harms_no_one() {
    let (host, _session, turn, mut peer) = begin(core_agent(), 4096).await;
    for noise in [
        "banner",
        "{",
        "[]",
        "\u{1b}[31mred\u{1b}[0m",
        "{\"type\":\"output\"}",
        "{\"type\":\"nope\",\"session_id\":\"s\"}",
    ] {
        peer.write(&format!("{noise}\n\r\n")).await;
    }
    peer.output.write_all(b"\xff\xfe{}\n").await.unwrap();
    peer.say("output", "s", ",\"content\":\"still here\"").await;
    peer.say("turn.complete", "s", "").await;
    assert_eq!(soon(turn.text()).await.0, "still here");
    let counters = host.agent("a").unwrap().counters;
    assert_eq!(
        (counters.noise, counters.bad, counters.unknown_type),
        (5, 1, 1)
    );
}

#[tokio::test(start_paused = true)]
async fn an_end_of_stream_ends_every_turn_once_and_a_new_start_serves_the_next() {
    let (host, mut peers) = played(agent(), 4096);
    let sessions: Vec<_> = (0..100)
        .map(|at| host.open("a", named(&format!("s{at}"))).unwrap())
        .collect();
    let turns: Vec<_> = sessions
        .iter()
        .map(|session| session.send("x").unwrap())
        .collect();
    let mut peer = peers.recv().await.unwrap();
    peer.read("user.input").await;
    drop(peer);
    for turn in turns {
        assert_eq!(soon(turn.end()).await.cause, Cause::EndOfStream);
    }
    let turns: Vec<_> = sessions
        .iter()
        .map(|session| session.send("again").unwrap())
        .collect();
    tokio::spawn(soon(peers.recv()).await.unwrap().echo());
    for turn in turns {
        let (text, end) = soon(turn.text()).await;
        assert_eq!((text.as_str(), end.cause), ("again", Cause::Complete));
    }
    assert!(
        peers.try_recv().is_err(),
        "a hundred inputs start one process"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dropped_turn_is_stopped_and_a_detached_one_runs() {
    let (_host, session, mut peers) = open(core_agent(), 4096);
    let turn = session.send("stop me").unwrap();
    let mut peer = peers.recv().await.unwrap();
    peer.read("user.input").await;
    drop(turn);
    peer.read("stop").await;
    peer.say("turn.complete", "s", "").await;
    session.send("let me run").unwrap().detach();
    let next = session.send("next").unwrap();
    assert_eq!(peer.read("user.input").await["content"], "let me run");
    peer.say("turn.complete", "s", "").await;
    assert_eq!(peer.read("user.input").await["content"], "next");
    peer.say("turn.complete", "s", "").await;
    assert_eq!(soon(next.end()).await.cause, Cause::Complete);
    drop(session);
    assert_eq!(
        peer.read_line().await.unwrap(),
        r#"{"type":"session.close","session_id":"s"}"#
    );
}

#[tokio::test(start_paused = true)]
async fn output_outside_turns_is_delivered_and_marked() {
    let (_host, session, mut peers) = open(agent(), 4096);
    let mut peer = peers.recv().await.unwrap();
    peer.say(
        "session.ready",
        "s",
        r#","protocol":1,"extensions":["turns"]"#,
    )
    .await;
    peer.say("output", "s", r#","content":"hello""#).await;
    let event = soon(session.next_event()).await.unwrap();
    assert!(
        matches!(event.kind, EventKind::Output(_)) && event.scope == TurnScope::Outside,
        "{event:?}"
    );
    let turn = session.send("x").unwrap();
    let id = peer.read("user.input").await["turn_id"]
        .as_str()
        .unwrap()
        .to_owned();
    peer.say("turn.complete", "s", &format!(r#","turn_id":"{id}""#))
        .await;
    peer.say(
        "output",
        "s",
        &format!(r#","turn_id":"{id}","content":"late""#),
    )
    .await;
    let no = turn.no();
    assert_eq!(soon(turn.text()).await.0, "");
    assert_eq!(
        soon(session.next_event()).await.unwrap().scope,
        TurnScope::Ended(no)
    );
}

#[tokio::test(start_paused = true)]
async fn more_inputs_than_may_wait_are_refused_as_busy_and_lose_nothing() {
    let (_host, session, mut peers) = open(core_agent(), 4096);
    let mut turns = Vec::new();
    let refused = loop {
        match session.send("x") {
            Ok(turn) => turns.push(turn),
            Err(refused) => break refused,
        }
    };
    assert_eq!((refused, turns.len()), (SendError::Busy, 64));
    tokio::spawn(soon(peers.recv()).await.unwrap().echo());
    for turn in turns {
        assert_eq!(soon(turn.end()).await.cause, Cause::Complete);
    }
}

#[tokio::test(start_paused = true)]
async fn a_shutdown_closes_ends_and_waits_for_the_adapter() {
    let (host, session, turn, mut peer) = begin(core_agent(), 4096).await;
    peer.read("user.input").await;
    let adapter = tokio::spawn(async move {
        peer.read("session.close").await;
        while peer.read_line().await.is_some() {}
    });
    soon(host.shutdown()).await;
    assert_eq!(soon(turn.end()).await.cause, Cause::Shutdown);
    adapter.await.unwrap();
    assert_eq!(session.send("late").unwrap_err(), SendError::Closed);
    assert!(host.open("a", SessionOptions::default()).is_err());
}

#[tokio::test]
async fn a_slow_reader_gets_all_in_order_and_keeps_no_one_waiting() {
    const LINES: usize = 4_000;
    let (host, mut peers) = played(core_agent(), 64 * 1024);
    let slow = host.open("a", named("slow")).unwrap();
    let quick = host.open("a", named("quick")).unwrap();
    let mut flooded = slow.send("flood").unwrap();
    let answered = quick.send("hi").unwrap();
    let mut peer = peers.recv().await.unwrap();
    let pad = "p".repeat(8 * 1024);
    for at in 0..LINES {
        peer.say("output", "slow", &format!(",\"content\":\"{at}:{pad}\""))
            .await;
    }
    peer.say(
        "permission.request",
        "slow",
        r#","request_id":"r","tool":"t","description":"d","resource":"x""#,
    )
    .await;
    peer.say("output", "quick", ",\"content\":\"ho\"").await;
    peer.say("turn.complete", "quick", "").await;
    assert_eq!(soon(answered.text()).await.0, "ho");
    assert!(
        host.agent("a").unwrap().counters.spooled_bytes > 0,
        "it went to disk"
    );
    peer.say("turn.complete", "slow", "").await;
    let mut next = 0;
    let mut asked = false;
    while let Some(event) = soon(flooded.next()).await {
        match event.kind {
            EventKind::Output(output) => {
                assert!(output.content.starts_with(&format!("{next}:")) && !asked);
                next += 1;
            }
            EventKind::Permission(_) => asked = true,
            _ => {}
        }
    }
    assert_eq!((next, asked), (LINES, true));
}

#[tokio::test(start_paused = true)]
async fn files_are_judged_copied_and_told_in_their_place() {
    let folder = tempfile::tempdir().unwrap();
    let mut agent = core_agent();
    agent.file_roots.push(folder.path().to_owned());
    let (host, mut peers) = played(agent, 4096);
    let session = host.open("a", named("s")).unwrap();
    let mut turn = session.send("x").unwrap();
    let mut peer = peers.recv().await.unwrap();
    std::fs::write(folder.path().join("good.txt"), "good").unwrap();
    std::os::unix::fs::symlink("/etc/hostname", folder.path().join("link")).unwrap();
    for name in ["good.txt", "link", "missing", "../x"] {
        peer.say(
            "file.output",
            "s",
            &format!(",\"file_path\":\"{}/{name}\"", folder.path().display()),
        )
        .await;
    }
    peer.say("turn.complete", "s", "").await;
    let EventKind::File(file) = soon(turn.next()).await.unwrap().kind else {
        panic!("a file")
    };
    assert_eq!(
        (file.name.as_str(), file.mime_type.as_str()),
        ("good.txt", "application/octet-stream")
    );
    assert_eq!(std::fs::read_to_string(&file.path).unwrap(), "good");
    for _ in 0..3 {
        let EventKind::Error(error) = soon(turn.next()).await.unwrap().kind else {
            panic!("a refusal")
        };
        assert_eq!(error.category, Some(Category::FileRefused));
    }
    assert_eq!(soon(turn.end()).await.cause, Cause::Complete);
    session.close().await;
    drop(session);
}

#[tokio::test]
async fn files_have_size_and_digest_where_that_was_agreed_on_and_are_held_to_them() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("abc.txt");
    std::fs::write(&path, "abc").unwrap();
    let digest = Sha256::digest(b"abc").to_string();
    for extensions in [r#"["large"]"#, r#"["turns"]"#] {
        let mut agent = agent();
        agent.file_roots.push(folder.path().to_owned());
        let (host, mut peers) = played(agent, 4096);
        let session = host
            .open(
                "a",
                SessionOptions {
                    delivery: EventDelivery::Merged,
                    ..named("s")
                },
            )
            .unwrap();
        session.send("x").unwrap().detach();
        let mut peer = peers.recv().await.unwrap();
        peer.read("user.input").await;
        agree_on(&mut peer, extensions).await;
        peer.say("output", "s", r#","content":"ready""#).await;
        pass_output(&session).await;
        soon(session.deliver_file(&path, None, None)).await.unwrap();
        let file = peer.read("file.input").await;
        let agreed = extensions.contains("large");
        let announced: (serde_json::Value, serde_json::Value) = if agreed {
            (3.into(), digest.as_str().into())
        } else {
            Default::default()
        };
        assert_eq!(
            (&file["size"], &file["sha256"]),
            (&announced.0, &announced.1),
            "{extensions}"
        );
        let wrong = FileInput {
            file_path: path.to_str().unwrap().into(),
            size: Some(4),
            ..FileInput::default()
        };
        let refused = soon(session.deliver_announced(wrong))
            .await
            .unwrap_err()
            .to_string();
        assert!(
            refused.contains("3 bytes, not the 4 that were announced"),
            "{refused}"
        );

        let other = Sha256::digest(b"abd").to_string();
        for said in ["3", "4"]
            .map(|size| format!(r#""size":{size}"#))
            .into_iter()
            .chain([
                format!(r#""sha256":"{digest}""#),
                format!(r#""sha256":"{other}""#),
                r#""sha256":"abd""#.to_owned(),
            ])
        {
            let wrong = agreed
                && (said.contains('4') && said.starts_with("\"size") || said.contains(&other));
            peer.say(
                "file.output",
                "s",
                &format!(",\"file_path\":{path:?},{said}"),
            )
            .await;
            match soon(session.next_event()).await.unwrap().kind {
                EventKind::File(file) if !wrong => assert_eq!(file.sha256.to_string(), digest),
                EventKind::Error(error) if wrong => {
                    assert_eq!(error.category, Some(Category::FileRefused));
                    assert!(error.message.contains("announced"), "{}", error.message);
                }
                got => panic!("{got:?} for {said} with {extensions}"),
            }
        }
    }
}

/// The reference to a file right in the exchange folder that holds this JSON.
fn by_file(folder: &std::path::Path, name: &str, json: &str) -> serde_json::Value {
    let path = folder.join(name);
    std::fs::write(&path, json).expect("it is written");
    serde_json::json!({ "file_path": path, "size": json.len(), "sha256": Sha256::digest(json.as_bytes()).to_string() })
}

#[tokio::test]
async fn members_that_went_by_file_arrive_whole_in_their_place_and_refused_ones_are_told() {
    let (_host, _session, mut turn, mut peer) = begin(agent(), 4096).await;
    let start = peer.read("session.start").await;
    assert_eq!(start["max_line"], 16 << 20);
    let folder = std::path::PathBuf::from(start["exchange_dir"].as_str().unwrap());
    agree_on(&mut peer, r#"["turns","events","options","large"]"#).await;
    let long = "y".repeat(3 << 20);
    let json = serde_json::to_string(&long).unwrap();
    peer.say(
        "tool.start",
        "s",
        r#","turn_id":"t1","tool_call_id":"c","tool":"T""#,
    )
    .await;
    let large = serde_json::json!({ "content": by_file(&folder, "1", &json), "unknown": by_file(&folder, "2", "7") });
    peer.say(
        "tool.end",
        "s",
        &format!(r#","turn_id":"t1","tool_call_id":"c","large":{large}"#),
    )
    .await;
    peer.say("output", "s", r#","turn_id":"t1","content":"behind it""#)
        .await;
    let outside = tempfile::tempdir().unwrap();
    let mut wrong = by_file(&folder, "3", "\"short\"");
    wrong["sha256"] = Sha256::digest(b"").to_string().into();
    std::fs::create_dir(folder.join("sub")).unwrap();
    for wrong in [
        wrong,
        by_file(outside.path(), "4", "\"other\""),
        by_file(&folder.join("sub"), "5", "\"below\""),
    ] {
        let large = serde_json::json!({ "content": wrong });
        peer.say(
            "message",
            "s",
            &format!(r#","turn_id":"t1","role":"user","content":"","large":{large}"#),
        )
        .await;
    }
    let large = serde_json::json!({ "result": by_file(&folder, "6", r#"{"files":12}"#) });
    peer.say(
        "turn.complete",
        "s",
        &format!(r#","turn_id":"t1","large":{large}"#),
    )
    .await;

    assert!(matches!(
        soon(turn.next()).await.unwrap().kind,
        EventKind::ToolStart(_)
    ));
    let EventKind::ToolEnd(end) = soon(turn.next()).await.unwrap().kind else {
        panic!("an end")
    };
    assert!(end.content.as_deref() == Some(&*long) && end.truncated.is_none());
    assert!(
        matches!(soon(turn.next()).await.unwrap().kind, EventKind::Output(_)),
        "the order stays"
    );
    for _ in 0..3 {
        let EventKind::Error(error) = soon(turn.next()).await.unwrap().kind else {
            panic!("a refusal")
        };
        assert_eq!(error.category, Some(Category::FileRefused));
        let EventKind::Message(message) = soon(turn.next()).await.unwrap().kind else {
            panic!("a message")
        };
        assert_eq!(
            (message.content.as_str(), message.truncated),
            ("", Some(true))
        );
    }
    let end = soon(turn.end()).await;
    let complete = end.complete.unwrap();
    assert_eq!(complete.result.unwrap().get(), r#"{"files":12}"#);
    let left: Vec<_> = std::fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert!(
        !left.iter().any(|name| name == "1" || name == "6"),
        "{left:?}: what was read is gone"
    );
    assert!(outside.path().join("4").exists());
}

/// Runs a future to its end on this thread, outside any runtime.
fn outside_any_runtime<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(std::thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(std::thread::current())).into();
    let mut future = std::pin::pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => std::thread::park(),
        }
    }
}

#[test]
fn members_in_files_reach_a_reader_in_no_runtime_and_one_whose_runtime_ends() {
    for runtime_ends in [false, true] {
        let mut builder = tokio::runtime::Builder::new_multi_thread();
        let runtime = builder
            .worker_threads(1)
            .max_blocking_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (host, mut peers) = played(agent(), 4096);
        let (session, mut turn, peer) = runtime.block_on(async {
            let session = host.open("a", named("s")).unwrap();
            let turn = session.send("x").unwrap();
            let mut peer = peers.recv().await.unwrap();
            let start = peer.read("session.start").await;
            let folder = std::path::PathBuf::from(start["exchange_dir"].as_str().unwrap());
            agree_on(&mut peer, r#"["turns","events","options","large"]"#).await;
            peer.read("user.input").await;
            let large = serde_json::json!({ "result": by_file(&folder, "1", "[7]") });
            peer.say(
                "turn.complete",
                "s",
                &format!(r#","turn_id":"t1","large":{large}"#),
            )
            .await;
            peer.say("output", "s", r#","content":"after it""#).await;
            pass_output(&session).await;
            (session, turn, peer)
        });
        let end = if runtime_ends {
            // Its only thread for files is busy, so the reading does not begin.
            let (release, released) = std::sync::mpsc::sync_channel::<()>(1);
            runtime.block_on(async {
                tokio::task::spawn_blocking(move || released.recv());
                let mut next = std::pin::pin!(turn.next());
                let first = std::future::poll_fn(|cx| Poll::Ready(next.as_mut().poll(cx))).await;
                assert!(first.is_pending());
            });
            runtime.shutdown_background();
            drop(release);
            outside_any_runtime(turn.next())
        } else {
            let end = outside_any_runtime(turn.next());
            drop(runtime);
            end
        };
        let Some(EventKind::End(end)) = end.map(|event| event.kind) else {
            panic!("an end")
        };
        assert_eq!(end.complete.unwrap().result.unwrap().get(), "[7]");
        drop((host, session, peer));
    }
}

#[tokio::test]
async fn an_input_that_is_too_long_for_the_adapters_lines_goes_by_file_in_its_order() {
    let (_host, session, mut peers) = open(agent(), 4096);
    let long = "y\n".repeat(1 << 20);
    let turns = [
        session.send("first").unwrap(),
        session.send(long.as_str()).unwrap(),
        session.send("last").unwrap(),
    ];
    let mut peer = peers.recv().await.unwrap();
    peer.say(
        "session.ready",
        "s",
        r#","extensions":["turns","options","large"],"max_line":1048576"#,
    )
    .await;
    for (at, wanted) in ["first", &long, "last"].into_iter().enumerate() {
        let input = peer.read("user.input").await;
        if at == 1 {
            assert_eq!(input["content"], "");
            let path = input["large"]["content"]["file_path"].as_str().unwrap();
            let json = std::fs::read_to_string(path).unwrap();
            assert_eq!(input["large"]["content"]["size"], json.len());
            assert_eq!(
                input["large"]["content"]["sha256"],
                Sha256::digest(json.as_bytes()).to_string()
            );
            assert!(serde_json::from_str::<String>(&json).unwrap() == wanted);
        } else {
            assert_eq!(
                (&input["content"], input.get("large")),
                (&wanted.into(), None)
            );
        }
        peer.say(
            "turn.complete",
            "s",
            &format!(r#","turn_id":{}"#, input["turn_id"]),
        )
        .await;
    }
    for turn in turns {
        assert_eq!(soon(turn.end()).await.cause, Cause::Complete);
    }
    // Its room counts no more: as much as ever may wait again.
    assert!(session.send("once more").is_ok());
}

#[test]
fn a_runtime_that_ends_first_ends_turns_and_leaves_no_folder() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (host, mut peers) = played(agent(), 4096);
    let (session, [mut turn, queued], folder) = runtime.block_on(async {
        let session = host.open("a", named("s")).unwrap();
        let turns = [session.send("x").unwrap(), session.send("y").unwrap()];
        let mut peer = peers.recv().await.unwrap();
        let start = peer.read("session.start").await;
        peer.read("user.input").await;
        (
            session,
            turns,
            start["exchange_dir"].as_str().unwrap().to_owned(),
        )
    });
    assert!(std::path::Path::new(&folder).is_dir());
    drop(runtime);
    let other = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let EventKind::End(end) = other.block_on(soon(turn.next())).unwrap().kind else {
        panic!("an end")
    };
    assert_eq!(
        (end.cause, end.delivered),
        (Cause::Shutdown, Delivered::Unknown)
    );
    let end = other.block_on(soon(queued.end()));
    assert_eq!((end.cause, end.delivered), (Cause::Shutdown, Delivered::No));
    assert_eq!(session.send("late").unwrap_err(), SendError::Closed);
    drop((host, session, turn));
    assert!(
        !std::path::Path::new(&folder).exists(),
        "nothing keeps the folder"
    );
}

#[tokio::test(start_paused = true)]
async fn what_is_attached_to_an_end_passes_through() {
    let (_host, _session, mut turn, mut peer) = begin(agent(), 4096).await;
    peer.say(
        "session.ready",
        "s",
        r#","protocol":1,"extensions":["events"]"#,
    )
    .await;
    peer.say("turn.complete", "s", r#","_meta":{"trace":"1"}"#)
        .await;
    let event = soon(turn.next()).await.unwrap();
    assert!(matches!(event.kind, EventKind::End(_)));
    assert_eq!(event.meta.unwrap().json().get(), r#"{"trace":"1"}"#);
}

#[tokio::test]
async fn unread_sessions_without_number_do_not_stall_the_link() {
    const SESSIONS: usize = 300;
    let (host, mut peers) = played(core_agent(), 256 * 1024);
    let pad = "p".repeat(150 * 1024);
    let mut unread = Vec::new();
    let mut peer = None;
    for at in 0..SESSIONS {
        let id = format!("s{at}");
        let session = host.open("a", named(&id)).unwrap();
        unread.push((session.send("x").unwrap(), session));
        let peer = match &mut peer {
            Some(peer) => peer,
            none => none.insert(soon(peers.recv()).await.unwrap()),
        };
        // More than waits in memory, less than fills a block.
        for _ in 0..3 {
            peer.say("output", &id, &format!(",\"content\":\"{pad}\""))
                .await;
        }
    }
    let quick = host.open("a", named("quick")).unwrap();
    let turn = quick.send("hi").unwrap();
    let mut peer = peer.unwrap();
    peer.say("turn.complete", "quick", "").await;
    assert_eq!(soon(turn.end()).await.cause, Cause::Complete);
    for (turn, _) in &mut unread {
        for _ in 0..3 {
            assert!(matches!(
                soon(turn.next()).await.unwrap().kind,
                EventKind::Output(_)
            ));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_is_counted_of_a_session_is_its_own() {
    let (host, mut peers) = played(agent(), 4096);
    let one = host.open("a", named("one")).unwrap();
    let two = host.open("a", named("two")).unwrap();
    let mut peer = peers.recv().await.unwrap();
    peer.say(
        "session.ready",
        "one",
        r#","protocol":1,"extensions":["turns"]"#,
    )
    .await;
    peer.say("turn.complete", "one", r#","turn_id":"t7""#).await;
    peer.say("output", "one", r#","turn_id":"alien","content":"x""#)
        .await;
    peer.say("output", "one", r#","content":7"#).await;
    peer.say("thinking", "one", r#","content":"not agreed on""#)
        .await;
    let turn = two.send("x").unwrap();
    peer.read("user.input").await;
    peer.say("turn.complete", "two", "").await;
    assert_eq!(soon(turn.end()).await.cause, Cause::Complete);
    let counted = one.counters();
    assert_eq!(
        (
            counted.stray_ends,
            counted.foreign,
            counted.bad,
            counted.unknown_type
        ),
        (1, 1, 1, 1)
    );
    assert_eq!(two.counters(), Default::default());
}

#[tokio::test(start_paused = true)]
async fn each_turn_that_the_end_of_its_session_ends_has_the_error_of_that_end() {
    let (_host, session, mut peers) = open(agent(), 1 << 16);
    let turns = [
        session.send("runs").unwrap(),
        session.send("is queued").unwrap(),
    ];
    let mut peer = peers.recv().await.unwrap();
    agree_on(&mut peer, r#"["control","turns"]"#).await;
    peer.read("user.input").await;
    peer.say(
        "session.closed",
        "s",
        r#","reason":"limit","error":{"category":"rate_limit","message":"enough for today"}"#,
    )
    .await;
    for (turn, delivered) in turns.into_iter().zip([Delivered::Unknown, Delivered::No]) {
        let end = turn.end().await;
        let error = end.error.unwrap();
        assert_eq!(
            (
                end.cause,
                end.delivered,
                error.category,
                error.message.as_deref()
            ),
            (
                Cause::SessionClosed,
                delivered,
                Some(Category::RateLimit),
                Some("enough for today")
            )
        );
    }
}

#[tokio::test(start_paused = true)]
async fn an_input_that_comes_with_a_refusal_has_the_error_of_that() {
    // Nothing is offered, so the adapter cannot enforce the option: the session is refused as it opens.
    let (host, mut peers) = played(core_agent(), 1 << 16);
    let other = host.open("a", named("other")).unwrap();
    let _peer = peers.recv().await.unwrap();
    let mut options = named("s");
    options.start.denied_tools = Some(vec!["Bash".to_owned()]);
    let session = host.open("a", options).unwrap();
    let turns = [session.send("1").unwrap(), session.send("2").unwrap()];
    for turn in turns {
        let end = turn.end().await;
        let error = end.error.unwrap();
        assert_eq!(
            (end.cause, end.delivered, error.category),
            (Cause::Refused, Delivered::No, Some(Category::Protocol))
        );
        assert_eq!(
            error.message.as_deref(),
            Some("the adapter does not enforce denied_tools")
        );
    }
    other.close().await;
}

#[tokio::test]
async fn each_input_of_an_agent_that_does_not_start_has_the_error_of_the_start() {
    let missing = AgentConfig::external("a", "/no/such/agent");
    let host = Host::builder().agent(missing).build().unwrap();
    let session = host.open("a", SessionOptions::default()).unwrap();
    for turn in [session.send("1").unwrap(), session.send("2").unwrap()] {
        let end = soon(turn.end()).await;
        let error = end.error.unwrap();
        assert_eq!(
            (end.cause, end.delivered, error.category),
            (
                Cause::StartFailed,
                Delivered::No,
                Some(Category::NotInstalled)
            )
        );
        assert!(error.message.unwrap().contains("/no/such/agent"));
    }
    host.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_session_that_its_host_closes_ends_its_turns_without_an_error() {
    let (_host, session, mut peers) = open(core_agent(), 1 << 16);
    let turns = [
        session.send("runs").unwrap(),
        session.send("is queued").unwrap(),
    ];
    let mut peer = peers.recv().await.unwrap();
    peer.read("user.input").await;
    session.close().await;
    for (turn, delivered) in turns.into_iter().zip([Delivered::Unknown, Delivered::No]) {
        let end = turn.end().await;
        assert_eq!((end.cause, end.delivered), (Cause::Closed, delivered));
        assert!(end.error.is_none());
    }
}

#[tokio::test(start_paused = true)]
async fn inputs_go_ahead_to_an_adapter_that_queues_and_each_turn_has_its_own_events() {
    let (_host, session, mut peers) = open(agent(), 1 << 16);
    let mut peer = peers.recv().await.unwrap();
    let ready = r#","extensions":["turns"],"input_modes":["queue"]"#;
    peer.say("session.ready", "s", ready).await;
    let turns: Vec<_> = (0..4).map(|_| session.send("x").unwrap()).collect();
    for turn in &turns {
        let input = peer.read("user.input").await;
        assert_eq!(input["turn_id"], turn.no().to_string());
    }
    // The third is stopped while it waits in the adapter; the others are served in order.
    turns[2].stop();
    let stop = peer.read("stop").await;
    assert_eq!(stop["turn_id"], "t3");
    let end = r#","turn_id":"t3","status":"stopped","delivered":"no""#;
    peer.say("turn.complete", "s", end).await;
    for turn in ["t1", "t2"] {
        let text = format!(r#","turn_id":"{turn}","content":"of {turn}""#);
        peer.say("output", "s", &text).await;
        peer.say("turn.complete", "s", &format!(r#","turn_id":"{turn}""#))
            .await;
    }
    drop(peer);
    let expected = [
        ("of t1", Cause::Complete, Delivered::Yes),
        ("of t2", Cause::Complete, Delivered::Yes),
        ("", Cause::Complete, Delivered::No),
        ("", Cause::EndOfStream, Delivered::Unknown),
    ];
    for (turn, expected) in turns.into_iter().zip(expected) {
        let (text, end) = soon(turn.text()).await;
        assert_eq!((text.as_str(), end.cause, end.delivered), expected);
    }
}

#[tokio::test(start_paused = true)]
async fn an_input_with_limits_is_accepted_and_its_turn_ends_by_them() {
    let (_host, session, mut peers) = open(agent(), 1 << 16);
    let mut peer = peers.recv().await.unwrap();
    agree_on(&mut peer, r#"["turns","options","usage"]"#).await;
    let input = UserInput {
        limits: Some(InputLimits {
            max_tokens: Some(9),
            turn_timeout_ms: None,
            inactivity_timeout_ms: None,
        }),
        ..UserInput::text("x")
    };
    let input = Input {
        message: input,
        meta: None,
    };
    let turn = session.send(input).unwrap();
    let input = peer.read("user.input").await;
    assert_eq!(
        input["limits"]["max_tokens"], 9,
        "the adapter may apply it, too"
    );
    peer.say("usage", "s", r#","turn_id":"t1","total_tokens":12"#)
        .await;
    assert_eq!(peer.read("stop").await["turn_id"], "t1");
    peer.say("turn.complete", "s", r#","turn_id":"t1""#).await;
    let end = soon(turn.end()).await;
    assert_eq!((end.cause, end.status), (Cause::MaxTokens, Status::Limit));
    assert_eq!(
        end.error.unwrap().message.as_deref(),
        Some("the input's max_tokens of 9 reached: 12 tokens were used; the turn was stopped")
    );
}
