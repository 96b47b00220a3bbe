//! Calls and their refusals; handles that are dropped.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use trunkline_client::{
    Client, ClientError, ConnectError, EventBody, Events, Input, ReconnectPolicy, Session,
    SessionSet, SetItem,
    protocol::{
        AdapterBody, AttachRefusal, CopiedContext, FileInput, FileOutput, Json, MessageId, Meta,
        PermissionResponse, RelayBody, RequestId, Role, SessionAttach, SessionStart, SessionUpdate,
        SessionsList, Sha256, Status, StopReason,
    },
};

use super::script::{Script, Scripts, entry, session};

async fn attached(more: &Value, attach: SessionAttach) -> (Client, Script, Session, Events) {
    let (scripts, mut hosts) = Scripts::new();
    let client = Client::connect(scripts).await.unwrap();
    let mut host = hosts.recv().await.unwrap();
    let attaching = client.attach(session("s"), attach);
    let (attached, _) = tokio::join!(attaching, host.attached(0, more));
    let (session, events) = attached.unwrap();
    (client, host, session, events)
}

#[tokio::test(start_paused = true)]
async fn lists_and_history_come_by_their_request() {
    let (client, mut host, session, _events) = attached(&json!({}), SessionAttach::default()).await;
    let answer = async {
        let list = host.expect("agents.list").await;
        assert_eq!(list["health"], true);
        host.write(&json!({"type": "agents.list.result", "session_id": "",
            "request_id": list["request_id"], "agents": [{"id": "echo"}]}))
            .await;
        let list = host.expect("sessions.list").await;
        host.write(&json!({"type": "sessions.list.result", "session_id": "",
            "request_id": list["request_id"], "next": "n",
            "sessions": [{"session_id": "s", "agent_id": "echo"}]}))
            .await;
        let history = host.expect("session.history").await;
        assert_eq!((&history["from"], history.get("to")), (&json!(2), None));
        host.write(&json!({"type": "session.history.result", "session_id": "s",
            "request_id": history["request_id"], "next": 6, "lost": [{"from": 3, "to": 5}],
            "entries": [entry("s", 2, "output", &json!({"content": "x"}))]}))
            .await;
        // A host without a journal answers by the session.
        host.expect("session.history").await;
        host.write(&json!({"type": "session.refused", "session_id": "other",
            "reason": "unknown", "message": "no journal"}))
            .await;
    };
    let calls = async {
        assert_eq!(client.agents(true).await.unwrap()[0].id, "echo");
        let filter = SessionsList::new(RequestId::new("mine").unwrap());
        let page = client.sessions(filter).await.unwrap();
        assert_eq!((page.sessions.len(), page.next.as_deref()), (1, Some("n")));
        let page = session.history(Some(2), None).await.unwrap();
        assert_eq!((page.entries[0].stamp.seq, page.next), (Some(2), Some(6)));
        assert_eq!((page.lost[0].from, page.lost[0].to), (3, 5));
        let other = super::script::session("other");
        let refused = client.history(&other, None, None).await;
        assert_eq!(
            refused,
            Err(ClientError::RequestFailed("no journal".to_owned()))
        );
    };
    tokio::join!(answer, calls);
}

#[tokio::test(start_paused = true)]
async fn a_session_is_edited_and_copied() {
    let (client, mut host, session, _events) = attached(&json!({}), SessionAttach::default()).await;
    let answer = async {
        let edit = host.expect("session.edit").await;
        assert_eq!(
            (&edit["session_id"], &edit["title"], edit.get("archived")),
            (&json!("s"), &json!("Logs"), None)
        );
        let result = |edit: &Value, error: Value| {
            json!({"type": "session.edit.result", "session_id": edit["session_id"],
                "request_id": edit["request_id"], "error": error})
        };
        host.write(&result(&edit, Value::Null)).await;
        let edit = host.expect("session.edit").await;
        host.write(&result(&edit, json!("unknown"))).await;
        let fork = host.expect("session.fork").await;
        assert_eq!((&fork["source"], &fork["seq"]), (&json!("s"), &json!(4)));
        let attached = json!({"type": "session.attached", "session_id": fork["session_id"],
            "agent_id": "a", "first_seq": 1, "last_seq": 1, "epoch": 1, "copied": "transcript"});
        host.write(&attached).await;
        let id = fork["session_id"].as_str().unwrap();
        host.write(&entry(id, 1, "output", &json!({"content": "x"})))
            .await;
        let fork = host.expect("session.fork").await;
        let refused = json!({"type": "session.refused", "session_id": fork["session_id"],
            "reason": "unsupported", "message": "no"});
        host.write(&refused).await;
        let list = host.expect("sessions.list").await;
        assert_eq!(
            (&list["agent_id"], list.get("extensions")),
            (&json!("a"), None)
        );
        let entries = json!([{"native_session_id": "n"}]);
        host.write(&json!({"type": "sessions.list.result", "session_id": "",
            "request_id": list["request_id"], "entries": entries}))
            .await;
    };
    let calls = async {
        let title = Some("Logs".to_owned());
        assert_eq!(client.edit(session.id(), title, None).await, Ok(()));
        let other = super::script::session("other");
        let refused = client.edit(&other, None, Some(true)).await;
        assert_eq!(
            refused,
            Err(ClientError::RequestFailed("unknown".to_owned()))
        );
        let (copy, mut events) = client.fork(session.id(), Some(4)).await.unwrap();
        assert_ne!(copy.id(), session.id());
        let copied = copy.attached().unwrap().copied;
        assert_eq!(copied, Some(CopiedContext::Transcript));
        let first = events.next().await.unwrap().unwrap();
        assert_eq!(first.stamp.seq, Some(1));
        let refused = client.fork(session.id(), None).await.unwrap_err();
        assert!(matches!(
            refused,
            ClientError::SessionRefused {
                reason: Some(AttachRefusal::Unsupported),
                ..
            }
        ));
        let listed = client.native_sessions(Some("a".to_owned()), None, None);
        assert_eq!(listed.await.unwrap()[0].native_session_id, "n");
    };
    tokio::join!(answer, calls);
}

#[tokio::test(start_paused = true)]
async fn a_refused_input_ends_its_turn_and_a_provisional_end_does_not() {
    let (_client, mut host, session, mut events) =
        attached(&json!({}), SessionAttach::default()).await;
    let mut turn = session.send("hello").await.unwrap();
    let input = host.expect("user.input").await;
    let refusal = json!({"type": "turn.complete", "session_id": "s", "turn_id": input["turn_id"],
        "status": "failed", "error": {"category": "busy", "message": "too many"}, "delivered": "no"});
    host.write(&refusal).await;
    let end = turn.end().await.unwrap();
    assert_eq!(end.status, Some(Status::Failed));
    assert_eq!(
        turn.accepted().await,
        Err(ClientError::RequestFailed("too many".to_owned()))
    );
    assert!(events.next().await.unwrap().unwrap().ends(&turn));

    let mut turn = session.send("hello").await.unwrap();
    let input = host.expect("user.input").await;
    // The host gives the turn another id.
    host.write(
        &json!({"type": "input.result", "session_id": "s", "turn_id": "t",
        "message_id": input["message_id"], "seq": 1}),
    )
    .await;
    let accepted = turn.accepted().await.unwrap();
    assert_eq!((accepted.turn_id.as_str(), turn.id().as_str()), ("t", "t"));
    host.write(
        &json!({"type": "turn.complete", "session_id": "s", "turn_id": "t",
        "status": "failed", "provisional": true}),
    )
    .await;
    let provisional = events.next().await.unwrap().unwrap();
    assert!(provisional.is_provisional() && !provisional.ends(&turn));
    turn.stop().await.unwrap();
    assert_eq!(host.expect("stop").await["turn_id"], "t");
    host.write(&entry("s", 1, "turn.complete", &json!({"turn_id": "t"})))
        .await;
    assert_eq!(turn.end().await.unwrap().status, None);
}

#[tokio::test(start_paused = true)]
async fn an_update_returns_the_values_in_force_or_the_refusal() {
    let (_client, mut host, session, mut events) =
        attached(&json!({}), SessionAttach::default()).await;
    let update = || SessionUpdate {
        mode: Some("plan".to_owned()),
        ..SessionUpdate::default()
    };
    let answer = async {
        host.expect("session.update").await;
        // News of the agent answers no update.
        let news = json!({"type": "session.info", "session_id": "s", "display_id": "parser work"});
        host.write(&news).await;
        host.write(&json!({"type": "session.info", "session_id": "s", "mode": "plan"}))
            .await;
        host.expect("session.update").await;
        host.write(
            &json!({"type": "error", "session_id": "s", "category": "other",
            "message": "not here", "fatal": false}),
        )
        .await;
        host.write(&json!({"type": "session.info", "session_id": "s", "mode": "code"}))
            .await;
        // A relay that answers for the agent has no values.
        host.expect("session.update").await;
        host.write(&json!({"type": "session.info", "session_id": "s"}))
            .await;
    };
    let calls = async {
        let info = session.update(update()).await.unwrap();
        assert_eq!(info.mode.as_deref(), Some("plan"));
        events.try_next().expect("the news of the agent");
        let reported = events
            .try_next()
            .expect("the event is there before the answer");
        assert_eq!(
            reported.body,
            EventBody::Adapter(AdapterBody::SessionInfo(Box::new(info)))
        );
        let refused = session.update(update()).await;
        assert_eq!(
            refused,
            Err(ClientError::RequestFailed("not here".to_owned()))
        );
        let reported = events.try_next().unwrap();
        assert!(matches!(
            reported.body,
            EventBody::Adapter(AdapterBody::SessionInfo(_))
        ));
        assert_eq!(events.try_next(), None, "the call has the refusal");
        let info = session.update(update()).await.unwrap();
        assert_eq!(info.mode, None);
    };
    tokio::join!(answer, calls);
}

#[tokio::test(start_paused = true)]
async fn a_session_has_the_id_of_its_caller_and_an_input_its_meta() {
    let (scripts, mut hosts) = Scripts::new();
    let client = Client::connect(scripts).await.unwrap();
    let mut host = hosts.recv().await.unwrap();
    let opening = client.open_as(session("mine"), SessionStart::default());
    let (opened, id) = tokio::join!(opening, host.ready(&["turns", "journal"]));
    let (opened, _events) = opened.unwrap();
    assert_eq!((id.as_str(), opened.id().as_str()), ("mine", "mine"));
    let again = client.open_as(session("mine"), SessionStart::default());
    let refused = ClientError::AlreadyOpen(session("mine"));
    assert_eq!(again.await.unwrap_err(), refused);

    let mut input = Input::text("hello");
    input.meta = Meta::new(Json::from_serialize(&json!({"trace": 7})).unwrap());
    let turn = opened.send(input).await.unwrap();
    assert_eq!(host.expect("user.input").await["_meta"]["trace"], 7);
    // A clone shares the turn, and does not end it.
    drop(turn.clone());
    turn.stop().await.unwrap();
    host.expect("stop").await;

    // One that is closed before its first entry is not started again.
    let closing = tokio::spawn(async move { opened.close().await });
    host.expect("session.close").await;
    host.attached(1, &json!({"state": "closed"})).await;
    host.write(&entry(
        "mine",
        1,
        "session.closed",
        &json!({"reason": "requested"}),
    ))
    .await;
    assert_eq!(closing.await.unwrap(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_a_client_can_be_awaited() {
    let (scripts, mut hosts) = Scripts::new();
    let lost = ConnectError::permanent("the host is gone");
    let client = Client::connect(scripts.then([lost.clone()])).await.unwrap();
    let host = hosts.recv().await.unwrap();
    let mut ended = std::pin::pin!(client.ended());
    assert!(
        tokio::time::timeout(Duration::from_secs(60), &mut ended)
            .await
            .is_err()
    );
    drop(host);
    assert_eq!(ended.await, ClientError::ConnectionLost(lost));
}

#[tokio::test(start_paused = true)]
async fn only_requests_that_wait_are_answered_and_dropping_one_answers_nothing() {
    let open = json!({"requests": ["early"], "last_seq": 2});
    let (client, mut host, session, mut events) = attached(&open, SessionAttach::default()).await;
    let ask =
        |id: &str| json!({"request_id": id, "tool": "t", "description": "d", "resource": "r"});
    for (seq, id) in [(1, "settled"), (2, "early"), (3, "late")] {
        host.write(&entry("s", seq, "permission.request", &ask(id)))
            .await;
    }
    let mut waiting = Vec::new();
    for _ in 0..3 {
        // The event is dropped, and nothing is answered.
        waiting.push(events.next().await.unwrap().unwrap().awaits_answer);
    }
    assert_eq!(waiting, [false, true, true]);
    let answer = |id| PermissionResponse::new(RequestId::new(id).unwrap(), true);
    let settled = session.answer_permission(answer("settled")).await;
    assert_eq!(
        settled,
        Err(ClientError::NotPending(RequestId::new("settled").unwrap()))
    );
    session.answer_permission(answer("late")).await.unwrap();
    assert_eq!(
        host.expect("permission.response").await["request_id"],
        "late"
    );
    let decided = json!({"request_id": "late", "approved": true});
    host.write(&entry("s", 4, "request.decided", &decided))
        .await;
    while events.next().await.unwrap().unwrap().stamp.seq != Some(4) {}
    assert!(session.answer_permission(answer("late")).await.is_err());
    drop((session, events, client));
    host.expect("session.detach").await;
    assert_eq!(host.read().await, None, "the dropped request got no answer");
}

#[tokio::test(start_paused = true)]
async fn bounds_and_roles_refuse_calls_by_name() {
    let (client, mut host, observer, _events) = attached(
        &json!({"role": "observe"}),
        SessionAttach {
            role: Some(Role::Observe),
            ..SessionAttach::default()
        },
    )
    .await;
    assert_eq!(
        observer.send("x").await.err(),
        Some(ClientError::ObserveOnly)
    );
    assert_eq!(observer.close().await, Err(ClientError::ObserveOnly));
    let twice = client.attach(session("s"), SessionAttach::default()).await;
    assert_eq!(twice.err(), Some(ClientError::AlreadyOpen(session("s"))));

    let start = client.open(SessionStart::default());
    let (opened, _) = tokio::join!(start, host.ready(&["turns", "journal"]));
    let (opened, _events) = opened.unwrap();
    let long = opened.send("x".repeat(2_000_000)).await;
    let Err(ClientError::LineTooLong { limit, .. }) = long else {
        panic!("it is over the host's limit")
    };
    assert_eq!(limit, 2_000_000);
    tokio::spawn(async move { while host.read().await.is_some() {} });
    let mut turns = Vec::new();
    let refused = loop {
        match opened.send("x").await {
            Ok(turn) => turns.push(turn),
            Err(refused) => break refused,
        }
    };
    assert_eq!(turns.len(), 1024);
    assert!(
        matches!(&refused, ClientError::Busy(_)) && !refused.is_permanent(),
        "{refused}"
    );
}

#[tokio::test(start_paused = true)]
async fn files_are_announced_before_their_input_and_read_only_as_announced() {
    let (_client, mut host, session, _events) =
        attached(&json!({}), SessionAttach::default()).await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "abc").unwrap();
    let file_path = path.to_str().unwrap().to_owned();
    let file = FileInput {
        file_path: file_path.clone(),
        ..FileInput::default()
    };
    session
        .send(Input::text("see").with_file(file))
        .await
        .unwrap();
    assert_eq!(
        host.expect("file.input").await["file_path"],
        json!(file_path)
    );
    assert_eq!(host.expect("user.input").await["content"], "see");
    for wrong in ["a.txt", folder.path().to_str().unwrap(), "/no/such/file"] {
        let file = FileInput {
            file_path: wrong.to_owned(),
            ..FileInput::default()
        };
        let refused = session.send(Input::text("see").with_file(file)).await;
        assert!(matches!(refused, Err(ClientError::File { .. })), "{wrong}");
    }
    let given = |contents: &[u8]| FileOutput {
        file_path: file_path.clone(),
        sha256: Some(Sha256::digest(contents)),
        ..FileOutput::default()
    };
    assert_eq!(session.file(&given(b"abc")).await.unwrap(), b"abc");
    assert!(matches!(
        session.file(&given(b"abd")).await,
        Err(ClientError::File { .. })
    ));
}

#[tokio::test(start_paused = true)]
async fn dropped_handles_leave_a_session_when_its_inputs_are_accepted() {
    let (client, mut host, session, events) = attached(&json!({}), SessionAttach::default()).await;
    let turn = session.send("last").await.unwrap();
    drop((session, events, turn, client));
    let input = host.expect("user.input").await;
    host.write(
        &json!({"type": "input.result", "session_id": "s", "turn_id": input["turn_id"],
        "message_id": input["message_id"], "seq": 1}),
    )
    .await;
    host.expect("session.detach").await;
    assert_eq!(host.read().await, None, "the client has ended");
}

#[tokio::test(start_paused = true)]
async fn a_session_is_left_with_and_without_a_release() {
    for is_released in [false, true] {
        let (_client, mut host, session, mut events) =
            attached(&json!({}), SessionAttach::default()).await;
        let left = if is_released {
            session.release().await
        } else {
            session.detach().await
        };
        left.unwrap();
        let detach = host.expect("session.detach").await;
        assert_eq!(detach.get("release").is_some(), is_released);
        assert_eq!(events.next().await, Ok(None));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_without_a_journal_is_closed_when_it_is_left() {
    let (scripts, mut hosts) = Scripts::new();
    let client = Client::connect(scripts).await.unwrap();
    let mut host = hosts.recv().await.unwrap();
    let start = client.open(SessionStart::default());
    let (opened, _) = tokio::join!(start, host.ready(&["turns"]));
    let (session, mut events) = opened.unwrap();
    session.detach().await.unwrap();
    host.expect("session.close").await;
    assert_eq!(events.next().await, Ok(None));
    assert_eq!(session.send("x").await.err(), Some(ClientError::Detached));
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_open_leaves_no_session_behind() {
    let (scripts, mut hosts) = Scripts::new();
    let client = Client::connect(scripts).await.unwrap();
    let mut host = hosts.recv().await.unwrap();
    let opening = client.attach(session("s"), SessionAttach::default());
    tokio::select! {
        _ = opening => panic!("nothing answers it"),
        _ = host.expect("session.attach") => {}
    }
    host.expect("session.detach").await;
    let again = client.attach(session("s"), SessionAttach::default());
    let (again, _) = tokio::join!(again, host.attached(0, &Value::Null));
    again.unwrap();
}

#[tokio::test(start_paused = true)]
async fn unknown_entries_count_and_a_gap_is_read_again() {
    let (_client, mut host, _session, mut events) =
        attached(&json!({}), SessionAttach::default()).await;
    host.write_raw(b"noise\n{\"type\":\"output\"}\n").await;
    host.write(&entry("s", 1, "of.tomorrow", &json!({}))).await;
    host.write(&entry("s", 3, "output", &json!({"content": "early"})))
        .await;
    let attach = host.attached(3, &json!({})).await;
    assert_eq!((&attach["after"], &attach["epoch"]), (&json!(1), &json!(1)));
    for seq in [1, 2, 3, 3] {
        host.write(&entry("s", seq, "output", &json!({"content": "x"})))
            .await;
    }
    host.write(&json!({"type": "lag", "session_id": "s", "from": 4, "to": 9}))
        .await;
    host.write(&entry("s", 10, "output", &json!({"content": "x"})))
        .await;
    let mut seen = Vec::new();
    while seen.last() != Some(&Some(10)) {
        let event = events.next().await.unwrap().unwrap();
        let is_lag = matches!(event.body, EventBody::Relay(RelayBody::Lag(_)));
        assert_eq!(event.stamp.seq.is_none(), is_lag);
        seen.push(event.stamp.seq);
    }
    assert_eq!(seen, [Some(1), Some(2), Some(3), None, Some(10)]);
}

#[tokio::test(start_paused = true)]
async fn closing_a_client_writes_what_was_sent_and_ends_the_rest() {
    let (client, mut host, session, mut events) =
        attached(&json!({}), SessionAttach::default()).await;
    let mut turn = session.send("last").await.unwrap();
    let reads = async {
        host.expect("user.input").await;
        host.expect("session.detach").await;
        assert_eq!(host.read().await, None);
        drop(host);
    };
    tokio::join!(client.close(), reads);
    assert_eq!(turn.end().await, Err(ClientError::ClientClosed));
    assert_eq!(events.next().await, Ok(None));
    assert_eq!(session.detach().await, Err(ClientError::ClientClosed));
}

#[tokio::test(start_paused = true)]
async fn cancelling_the_next_event_loses_none() {
    let (_client, mut host, _session, mut events) =
        attached(&json!({}), SessionAttach::default()).await;
    let mut texts = Vec::new();
    for seq in 1..=100 {
        let wrote = async {
            host.write(&entry(
                "s",
                seq,
                "output",
                &json!({"content": seq.to_string()}),
            ))
            .await;
            tokio::task::yield_now().await;
        };
        tokio::select! {
            biased;
            event = events.next() => texts.push(event.unwrap().unwrap()),
            () = wrote => {}
        }
    }
    while texts.len() < 100 {
        texts.push(events.next().await.unwrap().unwrap());
    }
    for (event, seq) in texts.iter().zip(1u64..) {
        assert!(matches!(
            &event.body,
            EventBody::Adapter(AdapterBody::Output(_))
        ));
        assert_eq!(event.stamp.seq, Some(seq));
    }
}

#[tokio::test(start_paused = true)]
async fn a_session_is_attached_at_its_end_by_the_number_that_its_host_names() {
    let (scripts, mut hosts) = Scripts::new();
    let client = Client::connect(scripts).await.unwrap();
    let mut host = hosts.recv().await.unwrap();
    let attaching = client.attach_at_end(session("s"), Role::Control);
    let answer = async {
        assert!(host.expect("session.attach").await["after"].as_u64() > Some(1 << 40));
        host.write(
            &json!({"type": "session.refused", "session_id": "s", "reason": "ahead",
            "last_seq": 4}),
        )
        .await;
        assert_eq!(host.attached(4, &json!({})).await["after"], 4);
    };
    let (attached, ()) = tokio::join!(attaching, answer);
    let (_session, mut events) = attached.unwrap();
    host.write(&entry("s", 5, "output", &json!({"content": "x"})))
        .await;
    assert_eq!(events.next().await.unwrap().unwrap().stamp.seq, Some(5));

    let attaching = client.attach_at_end(session("gone"), Role::Control);
    let answer = async {
        host.expect("session.attach").await;
        host.write(&json!({"type": "session.refused", "session_id": "gone", "reason": "gone"}))
            .await;
    };
    let (refused, ()) = tokio::join!(attaching, answer);
    let Err(ClientError::SessionRefused { reason, .. }) = refused else {
        panic!("a session that is gone has no end")
    };
    assert_eq!(reason, Some(AttachRefusal::Gone));
}

#[tokio::test(start_paused = true)]
async fn a_file_is_placed_once_its_host_has_it_and_refused_with_the_reason() {
    let (scripts, mut hosts) = Scripts::new();
    let client = Client::connect(scripts).await.unwrap();
    let mut host = hosts.recv().await.unwrap();
    let attaching = client.attach(session("s"), SessionAttach::default());
    let named = json!({"listener": "l-1"});
    let (attached, _) = tokio::join!(attaching, host.attached(0, &named));
    let (session, mut events) = attached.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.txt");
    std::fs::write(&path, "abc").unwrap();
    let file = FileInput {
        file_path: path.to_str().unwrap().to_owned(),
        ..FileInput::default()
    };
    let delivered = |seq, by| entry("s", seq, "file.delivered", &json!({"by": by}));

    let placing = session.place_file(file.clone());
    let answer = async {
        host.expect("file.input").await;
        // A file of another client answers nothing.
        host.write(&delivered(1, "l-0")).await;
        drop(host);
        // The connection is lost before the host has it: it is sent again.
        let mut host = hosts.recv().await.unwrap();
        assert_eq!(
            host.attached(1, &json!({"listener": "l-2"})).await["after"],
            1
        );
        host.expect("file.input").await;
        host.write(&delivered(2, "l-2")).await;
        host
    };
    let (placed, mut host) = tokio::join!(placing, answer);
    assert_eq!(placed, Ok(()));
    for is_own in [false, true] {
        let event = events.try_next().expect("both entries are there");
        assert_eq!(event.is_own, is_own, "{event:?}");
    }

    let placing = session.place_file(file);
    let answer = async {
        host.expect("file.input").await;
        host.write(
            &json!({"type": "error", "session_id": "s", "category": "file_refused",
            "message": "too large", "fatal": false}),
        )
        .await;
    };
    let (refused, ()) = tokio::join!(placing, answer);
    assert_eq!(
        refused,
        Err(ClientError::RequestFailed("too large".to_owned()))
    );
    assert_eq!(events.try_next(), None, "the call has the refusal");
    let missing = FileInput {
        file_path: "/no/such/file".to_owned(),
        ..FileInput::default()
    };
    let refused = session.place_file(missing).await;
    assert!(matches!(refused, Err(ClientError::File { .. })));
}

#[tokio::test(start_paused = true)]
async fn entries_that_this_client_caused_are_its_own() {
    let (scripts, mut hosts) = Scripts::new();
    let client = Client::connect(scripts).await.unwrap();
    let mut host = hosts.recv().await.unwrap();
    let opening = client.open_as(session("s"), SessionStart::default());
    let (opened, id) = tokio::join!(opening, host.ready(&["turns", "journal"]));
    let (session, mut events) = opened.unwrap();
    assert_eq!((id.as_str(), session.id().as_str()), ("s", "s"));
    // Its name is unknown until an entry names its input.
    let turn = session.send("hello").await.unwrap();
    host.expect("user.input").await;
    let begun = |by: &str, message: &str| json!({"by": by, "turn_id": "t", "message_id": message, "content": "hello"});
    let entries = [
        ("turn.begin", begun("l-1", "other"), false),
        ("turn.begin", begun("l-2", turn.message_id().as_str()), true),
        (
            "request.decided",
            json!({"request_id": "r", "by": "l-1"}),
            false,
        ),
        (
            "request.decided",
            json!({"request_id": "r", "by": "l-2"}),
            true,
        ),
        ("stop.requested", json!({"by": "l-2"}), true),
        ("output", json!({"content": "x", "by": "l-2"}), false),
    ];
    for (seq, (kind, more, is_own)) in (1..).zip(entries) {
        host.write(&entry("s", seq, kind, &more)).await;
        let event = events.next().await.unwrap().unwrap();
        assert_eq!(event.is_own, is_own, "{event:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_that_fails_fast_waits_for_no_host_and_has_an_end() {
    let (scripts, mut hosts) = Scripts::new();
    let policy = ReconnectPolicy::default().fail_fast();
    let client = Client::connect_with(scripts, policy).await.unwrap();
    let mut host = hosts.recv().await.unwrap();
    let unserved = |id| {
        json!({"type": "session.refused", "session_id": id, "reason": "unavailable",
            "message": "its host is down"})
    };
    let attaching = client.attach(session("a"), SessionAttach::default());
    let answer = async {
        host.expect("session.attach").await;
        host.write(&unserved("a")).await;
    };
    let attaching = tokio::time::timeout(Duration::from_secs(1), attaching);
    let (refused, ()) = tokio::join!(attaching, answer);
    let refused = refused.expect("it is refused at once").unwrap_err();
    let is_meant = matches!(&refused, ClientError::SessionRefused { message, .. } if message == "its host is down");
    assert!(is_meant && !refused.is_permanent(), "{refused}");

    // A session that it had is waited for.
    let attaching = client.attach(session("b"), SessionAttach::default());
    let none = json!({});
    let (attached, _) = tokio::join!(attaching, host.attached(0, &none));
    let _session = attached.unwrap();
    host.write(&unserved("b")).await;
    host.attached(0, &json!({})).await;

    let listing = client.health(5);
    let answer = async {
        let list = host.expect("agents.list").await;
        assert_eq!(
            (&list["health"], &list["sessions"]),
            (&json!(true), &json!(5))
        );
        host.write(&json!({"type": "agents.list.result", "session_id": "",
            "request_id": list["request_id"], "agents": [{"id": "echo"}],
            "sessions": [{"id": "b", "agent_id": "echo"}]}))
            .await;
    };
    let (list, ()) = tokio::join!(listing, answer);
    assert_eq!(list.unwrap().sessions.unwrap()[0].id, "b");

    let (ended, ()) = tokio::join!(client.ended(), client.clone().close());
    assert_eq!(ended, ClientError::ClientClosed);
}

fn input_of(message_id: &str) -> Input {
    let mut input = Input::text("hello");
    input.message_id = Some(MessageId::new(message_id).unwrap());
    input
}

#[tokio::test(start_paused = true)]
async fn an_input_that_its_caller_sends_again_has_the_turn_of_before() {
    let (_client, mut host, session, mut events) =
        attached(&json!({}), SessionAttach::default()).await;
    let input = || input_of("m-1");
    let begin = json!({"turn_id": "t", "message_id": "m-1", "content": "hello"});
    let again = json!({"type": "input.result", "session_id": "s", "turn_id": "t",
        "message_id": "m-1", "seq": 1, "duplicate": true});
    let mut turn = session.send(input()).await.unwrap();
    assert_eq!(host.expect("user.input").await["message_id"], "m-1");
    // The entry of the first one is still on its way: so is its end.
    host.write(&again).await;
    assert!(turn.accepted().await.unwrap().duplicate);
    host.write(&entry("s", 1, "turn.begin", &begin)).await;
    events.next().await.unwrap().unwrap();
    // While it runs, it is the turn of both.
    let mut second = session.send(input()).await.unwrap();
    host.expect("user.input").await;
    host.write(&again).await;
    assert!(second.accepted().await.unwrap().duplicate);
    host.write(&entry("s", 2, "turn.complete", &json!({"turn_id": "t"})))
        .await;
    turn.end().await.unwrap();
    second.end().await.unwrap();

    let mut late = session.send(input()).await.unwrap();
    host.expect("user.input").await;
    host.write(&again).await;
    assert!(late.accepted().await.unwrap().duplicate);
    let end = timeout(Duration::from_secs(600), late.end()).await;
    assert!(matches!(end, Ok(Err(ClientError::RequestFailed(_)))));
}

#[tokio::test(start_paused = true)]
async fn the_turn_that_runs_is_stopped_by_its_reason_and_no_later_one() {
    let (scripts, mut hosts) = Scripts::new();
    let client = Client::connect(scripts).await.unwrap();
    let mut host = hosts.recv().await.unwrap();
    let attaching = client.attach(session("s"), SessionAttach::default());
    let nothing = json!({});
    let (attached, _) = tokio::join!(attaching, host.attached(0, &nothing));
    let (session, _events) = attached.unwrap();
    session.stop_running(StopReason::Policy).await.unwrap();
    let stop = host.expect("stop").await;
    assert_eq!(
        (stop.get("turn_id"), &stop["reason"]),
        (None, &json!("policy"))
    );
    drop(host);
    let mut host = hosts.recv().await.unwrap();
    // This one waits until the session is attached again.
    session.stop_running(StopReason::User).await.unwrap();
    host.attached(0, &json!({})).await;
    assert_eq!(host.expect("stop").await["reason"], "user");
    drop(host);
    let mut host = hosts.recv().await.unwrap();
    host.attached(0, &json!({})).await;
    for _ in 0..2 {
        session.send("next").await.unwrap();
        host.expect("user.input").await;
    }
}

#[tokio::test(start_paused = true)]
async fn calls_of_a_set_reach_the_host_in_order_and_results_follow_their_events() {
    let (_client, mut host, session, events) =
        attached(&json!({"turn_id": "t"}), SessionAttach::default()).await;
    let file = tempfile::NamedTempFile::new().unwrap();
    let file = FileInput {
        file_path: file.path().to_str().unwrap().to_owned(),
        ..FileInput::default()
    };
    let mut set = SessionSet::<&str, Vec<&str>>::default();
    let mut handled = Vec::new();
    set.watch("s", events);
    let placing = session.clone();
    let sending = session.clone();
    let steering = session.clone();
    set.call(
        async move { placing.place_file(file).await },
        |handled: &mut Vec<_>, _| handled.push("placed"),
    );
    set.call(async move { sending.send("hello").await }, |handled, _| {
        handled.push("sent");
    });
    let steer = input_of("m-2");
    let turn = trunkline_client::protocol::TurnId::new("t").unwrap();
    set.call(
        async move { steering.steer(turn, steer).await },
        |handled, result| {
            handled.push(if result.unwrap().delivered {
                "steered"
            } else {
                "not"
            })
        },
    );
    while let Some(finish) = set.try_next_result() {
        finish(&mut handled);
    }
    assert_eq!((&*handled, set.pending_calls()), (&["sent"][..], 2));
    host.expect("file.input").await;
    host.expect("user.input").await;
    assert_eq!(host.expect("user.input").await["message_id"], "m-2");
    host.write(&entry(
        "s",
        1,
        "steer.result",
        &json!({"message_id": "m-2", "delivered": true}),
    ))
    .await;
    let closed = json!({"reason": "idle"});
    host.write(&entry("s", 2, "session.closed", &closed)).await;
    while let Some(item) = set.next(true).await {
        match item {
            SetItem::Event(_, Ok(Some(_))) => handled.push("event"),
            SetItem::Event(_, end) => handled.push(if end.is_ok() { "end" } else { "failed" }),
            SetItem::Result(finish) => finish(&mut handled),
        }
    }
    handled.retain(|what| *what != "placed");
    assert_eq!(handled, ["sent", "event", "event", "end", "steered"]);
    assert!(!set.is_watching());
}
