//! HTTP requests to one host about sessions of another.

use axum::body::{Body, Bytes};
use serde_json::{Value, json};
use trunkline_gateway::{Scope, SessionLocation};

use crate::{
    client::{Client, ids},
    cluster::Cluster,
};

/// Returns the response that all gateways give to a path.
async fn alike(clients: &[&Client], path: &str) -> (u16, Value) {
    let mut answers = Vec::new();
    for client in clients {
        let answer = client.get(path).await;
        let kind = answer.headers.get("content-type").cloned();
        let mut body: Value = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
        // Each principal has its own name.
        body.as_object_mut().map(|body| body.remove("listener"));
        answers.push(((answer.status, body), kind));
    }
    assert!(
        answers.iter().all(|answer| *answer == answers[0]),
        "{path}: {answers:?}"
    );
    answers.remove(0).0
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_route_gives_through_another_gateway_what_it_gives_at_the_sessions_own() {
    let cluster = Cluster::with_hosts(3).await;
    cluster.known.next_at("b");
    let through = cluster.user(0);
    let own = cluster.user(1);
    let third = cluster.user(2);
    let all = [&through, &own, &third];
    let options = json!({ "options": { "title": "Far away", "model": "m" } });
    let opened = through.post("/v1/sessions", &options).await.must_be(201);
    let id = opened.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(opened.headers["location"], format!("/v1/sessions/{id}"));
    assert_eq!(opened.json()["agent"], "echo");
    assert_eq!(
        cluster.known.row(&id),
        Some(SessionLocation::There("b".to_owned()))
    );
    assert_eq!(
        cluster.daemons[0].sessions.journal().sessions(),
        0,
        "it is at the other host alone"
    );

    let session = format!("/v1/sessions/{id}");
    assert_eq!(through.turn(&id, "hello").await, "hello");
    let key = [("idempotency-key", "k-1")];
    let input = json!({ "content": "again" }).to_string();
    let path = format!("{session}/inputs?wait=end");
    let first = through
        .ask_with("POST", &path, &key, input.clone())
        .await
        .must_be(200)
        .json();
    let second = own
        .ask_with("POST", &path, &key, input)
        .await
        .must_be(200)
        .json();
    assert_eq!(
        first["turn_id"], second["turn_id"],
        "it is one input, whichever way it came"
    );

    // A file is uploaded, named by an input, and downloaded.
    let file = vec![7u8; 300_000];
    let put = through
        .ask_with("PUT", &format!("{session}/files?name=x"), &[], file.clone())
        .await
        .must_be(201);
    let sha256 = put.json()["sha256"].as_str().unwrap().to_owned();
    let input = json!({ "content": "look", "files": [sha256] });
    through.post(&path, &input).await.must_be(200);
    for client in all {
        let given = client
            .get(&format!("{session}/files/{sha256}?name=y"))
            .await
            .must_be(200);
        assert_eq!(given.body, file);
        assert_eq!(given.headers["content-length"], "300000");
        assert_eq!(
            given.headers["content-disposition"],
            "attachment; filename*=UTF-8''y"
        );
    }

    // A permission and a stop.
    let taken = through
        .post(
            &format!("{session}/inputs"),
            &json!({ "content": "/tool ls" }),
        )
        .await
        .must_be(202);
    let after = taken.json()["seq"].as_u64().unwrap();
    let mut events = through
        .begin("GET", &format!("{session}/events?after={after}"), &[], "")
        .await;
    assert_eq!(
        (
            events.status,
            events.headers["x-accel-buffering"].to_str().unwrap()
        ),
        (200, "no")
    );
    assert_eq!(
        events.headers["content-type"],
        "text/event-stream; charset=utf-8"
    );
    events.ids_until("event: permission.request").await;
    let shown = alike(&all, &session).await.1;
    assert_eq!(shown["state"], "running");
    let history = alike(&all, &format!("{session}/history")).await.1;
    let asked = history["entries"]
        .as_array()
        .unwrap()
        .iter()
        .find(|entry| entry["type"] == "permission.request");
    let request = asked.unwrap()["request_id"].as_str().unwrap().to_owned();
    let answer = format!("{session}/requests/{request}");
    through
        .post(&answer, &json!({ "approved": true }))
        .await
        .must_be(200);
    events.ids_until("event: turn.complete").await;
    own.post(&format!("{session}/stop"), &json!({}))
        .await
        .must_be(409);
    through
        .post(&format!("{session}/stop"), &json!({}))
        .await
        .must_be(409);

    // A title, the whole of it, and its end. A search is of one host.
    let title = json!({ "title": "Renamed from afar" }).to_string();
    through
        .ask_with("PATCH", &session, &[], title)
        .await
        .must_be(204);
    assert_eq!(alike(&all, &session).await.1["title"], "Renamed from afar");
    let end = alike(&all, &format!("{session}/history?before=end&limit=2")).await;
    let entries = end.1["entries"].as_array().unwrap();
    assert_eq!(entries[1]["type"], "session.edited");
    let whole = own.get(&format!("{session}/export")).await.must_be(200);
    let lines = whole.body.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(end.1["last"], lines);
    for client in all {
        let export = client.get(&format!("{session}/export")).await.must_be(200);
        assert_eq!(export.body, whole.body);
        let name = format!("attachment; filename=\"session-{id}.jsonl\"");
        assert_eq!(export.headers["content-disposition"], name);
    }
    for (client, host, hits) in [(&through, "a", 0), (&own, "b", 1)] {
        let found = client.get("/v1/search?q=from+AFAR").await.must_be(200);
        assert_eq!(found.json()["host"], host);
        assert_eq!(found.json()["hits"].as_array().unwrap().len(), hits);
    }

    // Both gateways refuse alike.
    for path in [
        "/v1/sessions/never-was".to_owned(),
        "/v1/sessions/never-was/history".to_owned(),
        "/v1/sessions/never-was/events".to_owned(),
        format!("{session}/history?from=2&limit=3"),
        format!("{session}/history?unknown=1"),
        "/v1/sessions/never-was/export".to_owned(),
        format!("{session}/files/0"),
        format!("{session}/events?after=100000"),
    ] {
        alike(&all, &path).await;
    }
    through
        .post(&format!("{session}/inputs"), &json!({ "unknown": 1 }))
        .await
        .must_be(400);
    through
        .post("/v1/sessions", &json!({ "agent": "nowhere" }))
        .await
        .must_be(503);
    through
        .post("/v1/sessions", &json!({ "options": { "unknown": 1 } }))
        .await
        .must_be(422);

    through
        .ask_with("DELETE", &format!("{session}?remove=true"), &[], "")
        .await
        .must_be(204);
    assert_eq!(alike(&all, &session).await.0, 404);
    cluster.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_go_on_by_their_number_through_any_gateway() {
    let cluster = Cluster::with_hosts(3).await;
    cluster.known.next_at("b");
    let id = cluster.user(0).open().await;
    let path = format!("/v1/sessions/{id}/events");
    let mut seen = Vec::new();
    let mut last = "0".to_owned();
    for round in 0..6 {
        let client = cluster.user(round % 3);
        let mut events = client
            .begin("GET", &path, &[("last-event-id", &last)], "")
            .await;
        assert_eq!(events.status, 200);
        let text = format!("word {round}");
        assert_eq!(client.turn(&id, &text).await, text);
        let heard = events.ids_until("event: turn.complete").await;
        last = heard.last().unwrap().to_string();
        seen.extend(heard);
    }
    assert_eq!(
        seen,
        (1..=seen.len() as u64).collect::<Vec<_>>(),
        "each once, in order"
    );
    cluster.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_judges_who_asks_and_a_client_cannot_say_who_it_is() {
    let cluster = Cluster::with_hosts(2).await;
    cluster.known.next_at("b");
    let (ann, ann_id) = cluster.bearer(0, Scope::Control, false);
    let (bob, _) = cluster.bearer(0, Scope::Control, false);
    let (watcher, _) = cluster.bearer(0, Scope::Observe, true);
    let (far, _) = cluster.bearer(1, Scope::Control, false);
    cluster.adapters_run().await;
    let id = ann.open().await;
    let session = format!("/v1/sessions/{id}");
    assert_eq!(ann.turn(&id, "mine").await, "mine");
    for stranger in [&bob, &far] {
        for path in [
            &session,
            &format!("{session}/events"),
            &format!("{session}/history"),
        ] {
            stranger.get(path).await.must_be(404);
        }
        stranger
            .post(&format!("{session}/inputs"), &json!({ "content": "x" }))
            .await
            .must_be(404);
    }
    watcher.get(&session).await.must_be(200);
    watcher
        .post(&format!("{session}/inputs"), &json!({ "content": "x" }))
        .await
        .must_be(403);
    watcher.post("/v1/sessions", &json!({})).await.must_be(403);
    ann.post(
        "/v1/sessions",
        &json!({ "options": { "env": { "A": "b" } } }),
    )
    .await
    .must_be(403);

    // Clients cannot send the headers of gateways: neither a principal nor an id.
    let known = cluster.daemons[1].sessions.journal().sessions();
    let forged = [
        ("trunkline-new-session", "chosen"),
        ("connection", "close, authorization, trunkline-new-session"),
        ("x-forwarded-user", "root"),
    ];
    let made = ann
        .ask_with("POST", "/v1/sessions", &forged, "{}")
        .await
        .must_be(201)
        .json();
    assert_ne!(made["id"], "chosen");
    let at_own = far
        .ask_with("POST", "/v1/sessions", &forged, "{}")
        .await
        .must_be(201)
        .json();
    assert_ne!(at_own["id"], "chosen");
    assert_eq!(cluster.daemons[1].sessions.journal().sessions(), known + 2);
    let forged = [
        ("trunkline-who", r#"{"who":"user"}"#),
        ("connection", "host"),
    ];
    bob.ask_with("GET", &session, &forged, "")
        .await
        .must_be(404);

    // Revoking a token at its own host ends its streams from the other host.
    let mut events = ann
        .begin("GET", &format!("{session}/events"), &[], "")
        .await;
    events.ids_until("event: turn.complete").await;
    let waits = tokio::spawn({
        let ann = ann.clone();
        let path = format!("{session}/inputs?wait=end");
        async move {
            ann.post(&path, &json!({ "content": "/sleep 600" }))
                .await
                .status
        }
    });
    events.ids_until("event: turn.begin").await;
    let begun = tokio::time::Instant::now();
    cluster.daemons[0].tokens.revoke(&ann_id).unwrap();
    events.rest().await;
    assert_eq!(waits.await.unwrap(), 401);
    assert!(
        begun.elapsed() < std::time::Duration::from_secs(5),
        "{:?}",
        begun.elapsed()
    );
    ann.get(&session).await.must_be(401);
    cluster.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_is_not_there_is_named_and_a_stream_of_it_ends() {
    let cluster = Cluster::with_hosts(2).await;
    cluster.known.next_at("b");
    let user = cluster.user(0);
    let id = user.open().await;
    let session = format!("/v1/sessions/{id}");
    user.turn(&id, "one").await;

    // The session moves: the stream ends after complete events.
    let mut events = user
        .begin("GET", &format!("{session}/events"), &[], "")
        .await;
    let heard = events.ids_until("event: turn.complete").await;
    cluster.known.put(
        &id,
        SessionLocation::Unavailable {
            host: "b".to_owned(),
            why: "its lease is over".to_owned(),
        },
    );
    assert_eq!(events.rest().await, "");
    let refused = user.get(&session).await.must_be(503);
    assert_eq!(refused.headers["retry-after"], "1");
    let told = refused.json()["detail"].as_str().unwrap().to_owned();
    assert!(
        told.contains("host b") && told.contains("its lease is over"),
        "{told}"
    );
    user.post(&format!("{session}/inputs"), &json!({ "content": "x" }))
        .await
        .must_be(503);

    // The host is lost during a stream, and during a request.
    cluster
        .known
        .put(&id, SessionLocation::There("b".to_owned()));
    let mut events = user
        .begin("GET", &format!("{session}/events"), &[], "")
        .await;
    assert_eq!(events.ids_until("event: turn.complete").await, heard);
    let waits = tokio::spawn({
        let user = user.clone();
        let path = format!("{session}/inputs?wait=end");
        async move { user.post(&path, &json!({ "content": "/sleep 600" })).await }
    });
    events.ids_until("event: turn.begin").await;
    cluster.known.cut("b");
    assert_eq!(ids(&events.rest().await), [0; 0], "nothing is said twice");
    let cut = waits.await.unwrap().must_be(503).json();
    assert!(cut["detail"].as_str().unwrap().contains("host b"), "{cut}");
    user.get(&session).await.must_be(503);

    cluster.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_no_host_serves_is_taken_over_when_an_admin_asks_any_gateway() {
    let cluster = Cluster::with_hosts(3).await;
    cluster.known.next_at("b");
    let user = cluster.user(0);
    let id = user.open().await;
    let session = format!("/v1/sessions/{id}");
    let relocate = format!("/v1/sessions/{id}/relocate");
    assert_eq!(user.get(&session).await.must_be(200).json()["host"], "b");

    // A session that is served stays.
    for host in 0..3 {
        let told = cluster
            .user(host)
            .post(&relocate, &json!({}))
            .await
            .must_be(409)
            .json();
        assert!(
            told["detail"]
                .as_str()
                .unwrap()
                .contains("serves the session"),
            "{told}"
        );
    }
    user.post("/v1/sessions/never/relocate", &json!({}))
        .await
        .must_be(404);

    let away = SessionLocation::Unavailable {
        host: "z".to_owned(),
        why: "no host has the storage disk".to_owned(),
    };
    cluster.known.put(&id, away.clone());
    user.get(&session).await.must_be(503);
    for (scope, all_sessions) in [(Scope::Control, true), (Scope::Admin, false)] {
        cluster
            .bearer(0, scope, all_sessions)
            .0
            .post(&relocate, &json!({}))
            .await
            .must_be(403);
    }
    cluster.known.next_nowhere();
    let told = user.post(&relocate, &json!({})).await.must_be(503).json();
    assert!(
        told["detail"].as_str().unwrap().contains("none has room"),
        "{told}"
    );
    assert_eq!(cluster.known.row(&id), Some(away));

    // Any host can receive the request.
    cluster.known.next_at("b");
    let (admin, _) = cluster.bearer(2, Scope::Admin, true);
    assert_eq!(
        admin.post(&relocate, &json!({})).await.must_be(200).json(),
        json!({ "host": "b" })
    );
    assert_eq!(user.turn(&id, "hello").await, "hello");
    cluster.down().await;
}

/// Two hosts may each regard the other one as the owner.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_is_carried_once() {
    let cluster = Cluster::with_hosts(3).await;
    let seen_by_b = SessionLocation::There("c".to_owned());
    cluster
        .known
        .put("moving", SessionLocation::There("b".to_owned()));
    cluster.known.put_at("b", "moving", seen_by_b);
    let told = cluster
        .user(0)
        .get("/v1/sessions/moving")
        .await
        .must_be(503)
        .json();
    assert!(
        told["detail"]
            .as_str()
            .unwrap()
            .contains("has moved to the host c"),
        "{told}"
    );
    cluster.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bodies_that_are_too_long_or_cut_are_refused_alike() {
    let cluster = Cluster::with_hosts(2).await;
    cluster.known.next_at("b");
    let id = cluster.user(0).open().await;
    let session = format!("/v1/sessions/{id}");
    let inputs = format!("{session}/inputs");
    cluster.adapters_run().await;
    let (user, (watcher, _)) = (cluster.user(0), cluster.bearer(0, Scope::Observe, true));
    let content = "x".repeat(1024 * 1024 - 64);
    user.post(&inputs, &json!({ "content": content }))
        .await
        .must_be(202);
    for length in [1024 * 1024 + 1, 8 * 1024 * 1024] {
        let of = |length: usize| {
            let chunks = (0..length)
                .step_by(32 * 1024)
                .map(move |at| (length - at).min(32 * 1024));
            let chunks =
                chunks.map(|bytes| Ok::<_, std::io::Error>(Bytes::from(vec![b' '; bytes])));
            Body::from_stream(futures_util::stream::iter(chunks))
        };
        let long = user
            .ask_with("POST", &inputs, &[], of(length))
            .await
            .must_be(413)
            .json();
        assert_eq!(long["detail"], "the body has more than 1048576 bytes");
        watcher
            .ask_with("PUT", &format!("{session}/files"), &[], of(length))
            .await
            .must_be(403);
        // With an announced size.
        user.ask_with("POST", &inputs, &[], vec![b' '; length])
            .await
            .must_be(413);
    }
    cluster.down().await;
}
