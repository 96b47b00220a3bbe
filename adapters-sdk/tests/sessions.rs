//! Sessions: opened, updated, closed by either side, never met by another (sections 3, 6, 8).

use std::time::Duration;

use trunkline_sdk::{
    Adapter, Category, Channel, ClosedReason, Description, Error, Extensions, Input, Server,
    Session, SessionInfo, SessionStart, SessionUpdate, Status, Turn, TurnComplete, adapter,
    protocol::{
        AdapterBody, AdapterKind, Context, FileInput, FlowPause, FlowResume, Ping, SessionClosed,
        SessionId, Sha256, UserInput,
    },
    testing::{Host, Offer, Scripted, TestSession},
};

/// Counts its turns, ends its session on `bye`.
struct Counting;

impl Adapter for Counting {
    type State = usize;

    async fn start(&self, session: &Session, options: SessionStart) -> Result<usize, Error> {
        match options.model.as_deref() {
            Some("none") => return Err(Error::refused("no such model")),
            Some("panic") => panic!("at the start"),
            Some("hello") => session.output("welcome").await,
            _ => {}
        }
        Ok(0)
    }

    async fn turn(&self, turn: Turn, input: Input, count: &mut usize) -> Result<(), Error> {
        *count += 1;
        match input.content.as_str() {
            "bye" => turn.session().end(ClosedReason::Finished, None),
            "broken" => {
                return Err(
                    Error::new(Category::Auth, "no key").closes_session(ClosedReason::Failed)
                );
            }
            "files" => {
                for file in &input.files {
                    turn.output(format!("{};", file.file_path)).await;
                }
            }
            _ => turn.output(count.to_string()).await,
        }
        Ok(())
    }

    async fn update(
        &self,
        _: &Session,
        update: SessionUpdate,
        _: &mut usize,
    ) -> Result<SessionInfo, Error> {
        match update.model.as_deref() {
            Some("bad") => Err(Error::other("no such model")),
            Some("panic") => panic!("in the update"),
            _ => Ok(SessionInfo {
                model: update.model,
                ..SessionInfo::default()
            }),
        }
    }
}

async fn fence(host: &Host) {
    host.open().send("").await;
}

async fn rest(session: &TestSession) -> Vec<AdapterKind> {
    let mut kinds = Vec::new();
    while let Ok(Some(message)) =
        tokio::time::timeout(Duration::from_millis(10), session.next()).await
    {
        kinds.push(message.body.kind());
    }
    kinds
}

fn closed(body: &AdapterBody) -> Option<SessionClosed> {
    match body {
        AdapterBody::SessionClosed(closed) => Some((**closed).clone()),
        _ => None,
    }
}

#[tokio::test(start_paused = true)]
async fn state_is_a_sessions_own_and_a_reused_id_starts_afresh() {
    let host = Host::start(Counting);
    let a = host.open();
    let b = host.open();
    assert_eq!(a.send("").await.text(), "1");
    assert_eq!(a.send("").await.text(), "2");
    assert_eq!(b.send("").await.text(), "1");
    a.say(SessionStart::default());
    assert_eq!(
        a.send("").await.text(),
        "3",
        "a second start changes nothing"
    );
    a.close();
    a.close();
    a.begin("lost");
    a.stop();
    fence(&host).await;
    assert_eq!(rest(&a).await, []);
    a.say(SessionStart::default());
    assert_eq!(a.send("").await.text(), "1");
}

#[tokio::test(start_paused = true)]
async fn unknown_ids_noise_and_bad_messages_are_met_with_silence() {
    let host = Host::start(Counting);
    let session = host.open();
    for line in [
        r#"{"type":"user.input","session_id":"never","content":"x"}"#,
        r#"{"type":"stop","session_id":"never"}"#,
        r#"{"type":"user.input","content":"x"}"#,
        r#"{"type":"user.input","session_id":"s1","content":7}"#,
        r#"{"type":"brand.new","session_id":"s1"}"#,
        r#"{"type":"file.input","session_id":"s1"}"#,
        "banner",
        "[1,2]",
        "{\"type\":",
        "",
        "\u{feff}",
    ] {
        host.raw(line);
    }
    host.raw([0xFF, 0xFE, b'{', b'}']);
    assert_eq!(session.send("").await.text(), "1");
    host.raw(r#"{"type":"user.input","session_id":"s1","turn_id":"raw","extra":[[]]}"#);
    assert_eq!(
        session.finish().await.text(),
        "2",
        "no content is the empty text"
    );
}

#[tokio::test(start_paused = true)]
async fn an_id_has_at_most_256_bytes() {
    let host = Host::with(
        Server::new(Counting),
        Offer::These(Extensions::all()),
        64 * 1024,
    );
    let session = host.open();
    let line = |member: &str, id: String| {
        let mut message = serde_json::json!({"type": "user.input", "session_id": "s1", "turn_id": "t", "content": ""});
        message[member] = id.into();
        message.to_string()
    };
    for (n, member) in ["turn_id", "message_id"].into_iter().enumerate() {
        host.raw(line(member, "\u{e9}".repeat(129)));
        host.raw(line(member, "\u{e9}".repeat(128)));
        assert_eq!(session.finish().await.text(), (n + 1).to_string());
    }
    host.raw(line("session_id", "i".repeat(257)));
    assert_eq!(
        session.send("").await.text(),
        "3",
        "none of those was taken"
    );
}

#[tokio::test(start_paused = true)]
async fn a_line_over_the_limit_costs_itself_and_is_reported_to_its_session() {
    let least = 1 << 20;
    // The limit is raised to what every reader accepts.
    let server = Server::new(Counting).max_line(4096);
    let host = Host::with(server, Offer::These(Extensions::all()), 64 * 1024);
    let session = host.open();
    let without = r#"{"type":"user.input","session_id":"s1","content":""}"#.len();
    let line = |bytes: usize| {
        format!(
            r#"{{"type":"user.input","session_id":"s1","content":"{}"}}"#,
            "x".repeat(bytes - without)
        )
    };
    host.raw(line(least));
    assert_eq!(session.finish().await.text(), "1");
    host.raw(line(least + 1));
    let category = session
        .wait_for(|body| match body {
            AdapterBody::Error(error) => Some(error.category),
            _ => None,
        })
        .await;
    assert_eq!(category, Some(Category::Oversize));
    assert_eq!(session.send("").await.text(), "2");
}

#[tokio::test(start_paused = true)]
async fn files_belong_to_the_next_input() {
    let host = Host::with(Server::new(Counting), Offer::Core, 64);
    let session = host.open();
    session.file("/a");
    session.file("/b");
    assert_eq!(session.send("files").await.text(), "/a;/b;");
    assert_eq!(session.send("files").await.text(), "");
}

#[tokio::test(start_paused = true)]
async fn an_update_is_answered_by_exactly_one_info() {
    let host = Host::start(Counting);
    let session = host.open();
    session.next().await;
    for (model, answered) in [("m", Some("m")), ("bad", None), ("panic", None)] {
        session.say(SessionUpdate {
            model: Some(model.into()),
            ..SessionUpdate::default()
        });
        let info = session
            .wait_for(|body| match body {
                AdapterBody::SessionInfo(info) => Some(info.clone()),
                _ => None,
            })
            .await;
        assert_eq!(info.model.as_deref(), answered);
    }
    fence(&host).await;
    assert_eq!(rest(&session).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_session_that_ends_itself_ends_its_turns_first_and_then_falls_silent() {
    let host = Host::start(Counting);
    for (input, status, reason) in [
        ("bye", Status::Completed, ClosedReason::Finished),
        ("broken", Status::Failed, ClosedReason::Failed),
    ] {
        let session = host.open();
        session.begin(input);
        session.begin("queued");
        assert_eq!(session.finish().await.end.status, Some(status));
        assert_eq!(session.finish().await.end.status, Some(Status::Failed));
        assert_eq!(session.wait_for(closed).await.reason, Some(reason));
        session.begin("after");
        fence(&host).await;
        assert_eq!(rest(&session).await, []);
    }
}

#[tokio::test(start_paused = true)]
async fn without_control_an_ended_session_answers_by_text() {
    let host = Host::with(Server::new(Counting), Offer::Core, 64);
    let session = host.open();
    session.send("bye").await;
    for _ in 0..2 {
        let turn = session.send("more").await;
        assert!(
            turn.text_on(&Channel::System)
                .contains("the session has ended"),
            "{turn:?}"
        );
    }
    session.close();
    fence(&host).await;
    assert_eq!(rest(&session).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_start_that_fails_ends_the_session() {
    let host = Host::start(Counting);
    for (model, reason) in [
        ("none", ClosedReason::Refused),
        ("panic", ClosedReason::Failed),
    ] {
        let session = host.open_with(SessionStart {
            model: Some(model.into()),
            ..SessionStart::default()
        });
        assert_eq!(session.wait_for(closed).await.reason, Some(reason));
    }
    let session = host.open_with(SessionStart {
        model: Some("hello".into()),
        ..SessionStart::default()
    });
    assert_eq!(
        session.send("").await.text(),
        "welcome1",
        "what start sent comes first"
    );
}

#[tokio::test(start_paused = true)]
async fn a_version_that_cannot_be_served_is_named() {
    let host = Host::start(Counting);
    // The host's own starts of these ids come second and change nothing.
    host.raw(r#"{"type":"session.start","session_id":"s1","protocol":0}"#);
    host.raw(r#"{"type":"session.start","session_id":"s2","protocol":7,"extensions":["control","turns"]}"#);
    host.raw(r#"{"type":"session.start","session_id":"s3","protocol":0,"extensions":["control"]}"#);
    let session = host.open();
    let turn = session.send("").await;
    assert!(
        turn.text_on(&Channel::System).contains("version 0"),
        "{turn:?}"
    );
    let Some(AdapterBody::SessionReady(ready)) =
        host.open().next().await.map(|message| message.body)
    else {
        panic!("no ready")
    };
    assert_eq!(ready.protocol, Some(1), "the lower of both");
    let closed = host.open().wait_for(closed).await;
    assert_eq!(closed.reason, Some(ClosedReason::Protocol));
    assert_eq!(
        closed.error.and_then(|error| error.category),
        Some(Category::Protocol)
    );
}

#[tokio::test(start_paused = true)]
async fn no_more_sessions_than_it_said() {
    let capabilities = trunkline_sdk::protocol::Capabilities {
        max_sessions: Some(2),
        ..Default::default()
    };
    let few = Scripted::new();
    struct Few(Scripted);
    impl Adapter for Few {
        type State = ();
        async fn turn(&self, turn: Turn, input: Input, state: &mut ()) -> Result<(), Error> {
            self.0.turn(turn, input, state).await
        }
        fn describe(&self) -> Description {
            let capabilities = trunkline_sdk::protocol::Capabilities {
                max_sessions: Some(2),
                ..Default::default()
            };
            Description::new("few", "1").capabilities(capabilities)
        }
    }
    assert_eq!(capabilities.max_sessions, Some(2));
    let host = Host::start(Few(few));
    let _a = host.open();
    let b = host.open();
    let c = host.open();
    assert_eq!(c.wait_for(closed).await.reason, Some(ClosedReason::Limit));
    b.close();
    assert_eq!(host.open().send("room").await.text(), "room");
}

#[tokio::test(start_paused = true)]
async fn flow_holds_back_everything_of_one_session_in_order() {
    let flood = adapter(|turn: Turn, input: Input| async move {
        let pieces = input.content.parse().unwrap_or(1);
        for number in 0..pieces {
            turn.output(format!("{number};{}", " ".repeat(1000))).await;
        }
        Ok(())
    });
    let host = Host::with(Server::new(flood), Offer::These(Extensions::all()), 4096);
    let paused = host.open();
    let other = host.open();
    paused.next().await;
    paused.say(FlowPause::default());
    paused.say(FlowPause::default());
    paused.begin("500");
    assert_eq!(other.send("3").await.text().len(), 3 * 1002);
    fence(&host).await;
    assert_eq!(rest(&paused).await, []);
    // The turn waits at 64 KiB and a stop works all the same.
    paused.stop();
    fence(&host).await;
    assert_eq!(rest(&paused).await, []);
    paused.say(FlowResume::default());
    let turn = paused.finish().await;
    let numbers: Vec<usize> = turn
        .text()
        .split_whitespace()
        .filter_map(|piece| piece.trim_end_matches(';').parse().ok())
        .collect();
    assert_eq!(numbers, (0..numbers.len()).collect::<Vec<_>>());
    assert!(numbers.len() >= 64, "what was held is sent");
    assert_eq!(turn.end.status, Some(Status::Stopped));
    paused.say(FlowPause::default());
    paused.begin("1");
    paused.close();
    fence(&host).await;
    assert_eq!(rest(&paused).await, []);
}

#[tokio::test(start_paused = true)]
async fn a_ping_is_answered_while_everything_is_busy() {
    let host = Host::start(adapter(|turn: Turn, _| async move {
        loop {
            turn.output("x".repeat(10_000)).await;
        }
    }));
    host.raw(r#"{"type":"ping","session_id":"","nonce":0}"#);
    let sessions = [host.open(), host.open()];
    for session in &sessions {
        session.begin("");
        session
            .wait_for(|body| matches!(body, AdapterBody::Output(_)).then_some(()))
            .await;
    }
    for nonce in 1..5 {
        host.raw(format!(
            r#"{{"type":"ping","session_id":"","nonce":{{"n":{nonce}}}}}"#
        ));
        let pong = host.next().await.expect("a pong");
        assert_eq!(pong.session_id, SessionId::none());
        let AdapterBody::Pong(pong) = pong.body else {
            panic!("not a pong")
        };
        assert_eq!(
            pong.nonce.expect("the nonce").get(),
            format!("{{\"n\":{nonce}}}"),
            "one before any ready is not"
        );
    }
    drop(Ping::default());
}

#[tokio::test(start_paused = true)]
async fn made_files_live_as_long_as_their_session() {
    let folder = tempfile::tempdir().expect("a folder");
    let host = Host::start(adapter(|turn: Turn, input: Input| async move {
        let path = turn
            .new_file(input.content, "text/plain", b"contents")
            .await?;
        turn.output(path.display().to_string()).await;
        Ok(())
    }));
    let exchange_dir = folder.path().to_str().map(str::to_owned);
    let session = host.open_with(SessionStart {
        exchange_dir,
        ..SessionStart::default()
    });
    for name in ["a.txt", "../../up", "/etc/passwd", "..", "a.txt"] {
        let turn = session.send(name).await;
        let path = std::path::PathBuf::from(turn.text());
        assert!(path.starts_with(folder.path()), "{}", path.display());
        assert_eq!(std::fs::read(&path).expect("complete"), b"contents");
        let file = turn
            .messages
            .iter()
            .find_map(|message| match &message.body {
                AdapterBody::FileOutput(file) => file.file_name.clone(),
                _ => None,
            });
        assert_eq!(file.as_deref(), Some(name), "the label is as it was given");
    }
    drop(session);
    host.end().await;
    assert_eq!(
        std::fs::read_dir(folder.path())
            .expect("still there")
            .count(),
        0
    );
}

#[tokio::test(start_paused = true)]
async fn a_greeting_without_agreement_is_never_sent() {
    let host = Host::with(
        Server::new(Scripted::new()),
        Offer::These(Extensions::empty()),
        64,
    );
    let session = host.open();
    session.begin("x");
    let kinds = [session.next().await, session.next().await].map(|m| m.expect("two").body.kind());
    assert_eq!(kinds, [AdapterKind::Output, AdapterKind::TurnComplete]);
    session.say(UserInput::text("unknown fields are ignored"));
    session.finish().await;
}

#[tokio::test]
async fn a_file_is_given_to_the_agent_only_as_it_was_announced() {
    let host = Host::start(Counting);
    let session = host.open();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "abc").unwrap();
    let path = path.to_str().unwrap();
    let announce = |size, sha256| {
        session.say(FileInput {
            file_path: path.into(),
            size,
            sha256,
            ..FileInput::default()
        });
    };
    announce(Some(4), None);
    announce(None, Some(Sha256::digest(b"abd")));
    announce(Some(3), Some(Sha256::digest(b"abc")));
    // What cannot be read is the agent's to meet ([file.2]).
    session.say(FileInput {
        file_path: "/not/there".into(),
        size: Some(1),
        ..FileInput::default()
    });
    let said = session.send("files").await;
    assert_eq!(said.text(), format!("{path};/not/there;"));
    let errors = said
        .messages
        .iter()
        .filter_map(|message| match &message.body {
            AdapterBody::Error(error) => Some((error.category, &*error.message)),
            _ => None,
        });
    let errors: Vec<_> = errors.collect();
    let refused = Some(Category::FileRefused);
    let name = format!("{path:?} was not taken: the file");
    let size = format!("{name} has 3 bytes, not the 4 that were announced");
    let digest = format!("{name}'s SHA-256 is not the one that was announced");
    assert_eq!(errors, [(refused, &*size), (refused, &*digest)]);
}

#[tokio::test]
async fn a_file_is_announced_with_its_size_and_digest_where_that_was_agreed_on() {
    let sends = || {
        adapter(|turn: Turn, _| async move {
            turn.new_file("a.txt", "text/plain", "abc").await?;
            Ok(())
        })
    };
    for (extensions, said) in [
        (Extensions::all(), (Some(3), Some(Sha256::digest(b"abc")))),
        (Extensions::all() - Extensions::LARGE, (None, None)),
    ] {
        let host = Host::with(Server::new(sends()), Offer::These(extensions), 64 * 1024);
        let session = host.open();
        session.begin("go");
        let file = session.wait_for(|body| match body {
            AdapterBody::FileOutput(file) => Some((file.size, file.sha256)),
            _ => None,
        });
        assert_eq!(file.await, said, "{extensions:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_after_a_lost_context_clears_what_was_resumed() {
    let handler = adapter(|turn: Turn, input: Input| async move {
        if input.content.contains("lose") {
            let context = Some(Context::Lost);
            turn.session().info(SessionInfo {
                context,
                ..SessionInfo::default()
            });
        }
        if input.content.contains("fail") {
            return Err(Error::other("no"));
        }
        if input.content.contains("keep") {
            turn.finish(TurnComplete {
                clear_session: Some(false),
                ..TurnComplete::default()
            });
        }
        Ok(())
    });
    let host = Host::start(handler.described(Description::default().resumes()));
    let session = host.open();
    for (input, clears) in [
        ("go on", None),
        ("lose it", Some(true)),
        ("go on", None),
        ("lose it and fail", Some(true)),
        ("lose it and keep the old one", Some(false)),
        ("go on", None),
    ] {
        assert_eq!(
            session.send(input).await.end.clear_session,
            clears,
            "{input}"
        );
    }
}
