//! The stream of the changes of all sessions.

use serde_json::{Value, json};
use trunkline_gateway::Scope;

use crate::{
    client::{Client, StreamingResponse},
    cluster::Cluster,
};

/// Text in every input, and so in every output.
const MARKER: &str = "content-of-the-conversation";

/// An event: its position and its data.
type Event = (String, Value);

/// A stream of events that is read.
struct Events {
    coming: StreamingResponse,
    unread: String,
}

impl Events {
    async fn open(client: &Client, after: Option<&str>) -> Self {
        let headers: Vec<_> = after
            .iter()
            .map(|after| ("last-event-id", *after))
            .collect();
        let coming = client.begin("GET", "/v1/events", &headers, "").await;
        assert_eq!(coming.status, 200);
        Self {
            coming,
            unread: String::new(),
        }
    }

    /// Reads the next event. `None` at the end of the stream.
    async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some((block, rest)) = self.unread.split_once("\n\n") {
                let fields = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
                let event = fields("data: ").map(|data| {
                    let data: Value = serde_json::from_str(data).unwrap();
                    assert_eq!(fields("event: "), data["type"].as_str());
                    (fields("id: ").unwrap().to_owned(), data)
                });
                self.unread = rest.to_owned();
                if event.is_some() {
                    return event;
                }
            }
            let chunk = self.coming.next().await?;
            self.unread.push_str(&String::from_utf8_lossy(&chunk));
            assert!(!self.unread.contains(MARKER), "{}", self.unread);
        }
    }

    /// Reads events until one of this type and change.
    async fn until(&mut self, kind: &str, change: Value) -> Vec<Event> {
        let mut read = Vec::new();
        loop {
            let event = self.next().await.unwrap();
            let is_last = event.1["type"] == kind && event.1["change"] == change;
            read.push(event);
            if is_last {
                return read;
            }
        }
    }
}

async fn open(client: &Client, title: &str) -> String {
    let options = json!({ "options": { "title": title } });
    let opened = client.post("/v1/sessions", &options).await.must_be(201);
    opened.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_stream_begins_with_a_snapshot_and_continues_behind_a_position() {
    let cluster = Cluster::with_hosts(1).await;
    let (ann, _) = cluster.bearer(0, Scope::Control, false);
    let (bob, _) = cluster.bearer(0, Scope::Control, false);
    let (boss, boss_id) = cluster.bearer(0, Scope::Observe, true);
    let id = open(&ann, "Of Ann").await;
    ann.turn(&id, MARKER).await;

    // A permission waits when the snapshot is read.
    let mut of_ann = Events::open(&ann, None).await;
    let (position, snapshot) = of_ann.next().await.unwrap();
    assert_eq!(snapshot["complete"], true);
    let session = &snapshot["sessions"][0];
    assert_eq!(
        (
            &session["id"],
            &session["agent"],
            &session["title"],
            &session["state"]
        ),
        (&json!(id), &json!("echo"), &json!("Of Ann"), &json!("idle"))
    );
    assert!(session["last_seq"].as_u64().unwrap() >= 3, "{session}");
    let path = format!("/v1/sessions/{id}/inputs");
    let input = json!({ "content": format!("/tool {MARKER}") });
    ann.post(&path, &input).await.must_be(202);
    let asked = of_ann.until("request", json!("opened")).await;
    let request = &asked.last().unwrap().1;
    assert_eq!(
        (&request["request"], &request["session_id"]),
        (&json!("permission"), &json!(id))
    );
    let mut again = Events::open(&ann, None).await;
    let snapshot = again.next().await.unwrap().1;
    let waiting = &snapshot["sessions"][0];
    assert_eq!(waiting["state"], "running");
    assert_eq!(waiting["turn_id"], request["turn_id"]);
    assert_eq!(waiting["requests"][0]["id"], request["request_id"]);
    assert!(waiting["requests"][0]["since"].is_string(), "{waiting}");

    let answer = format!(
        "/v1/sessions/{id}/requests/{}",
        request["request_id"].as_str().unwrap()
    );
    ann.post(&answer, &json!({ "approved": true }))
        .await
        .must_be(200);
    let rest = of_ann.until("turn", json!("ended")).await;
    let answered = rest
        .iter()
        .find(|event| event.1["change"] == "answered")
        .unwrap();
    assert_eq!(answered.1["approved"], true);
    assert!(
        answered.1["by"].as_str().unwrap().starts_with("t-"),
        "{answered:?}"
    );
    assert_eq!(rest.last().unwrap().1["status"], "completed");

    // Behind each position comes exactly what followed it.
    let mut all = vec![(position, Value::Null)];
    all.extend(asked);
    all.extend(rest);
    for (at, (position, _)) in all.iter().enumerate() {
        let mut resumed = Events::open(&ann, Some(position)).await;
        for event in &all[at + 1..] {
            assert_eq!(resumed.next().await.as_ref(), Some(event));
        }
    }
    let last = &all.last().unwrap().0;
    let mut by_query = ann
        .begin(
            "GET",
            &format!("/v1/events?after={}", all[all.len() - 2].0),
            &[],
            "",
        )
        .await;
    let padding = by_query.next().await.unwrap();
    assert!(padding.starts_with(b"retry: 1000\n:"));
    let event = String::from_utf8(by_query.next().await.unwrap().to_vec()).unwrap();
    assert!(
        event.starts_with(&format!("id: {last}\nevent: turn\n")),
        "{event}"
    );

    // Others see nothing of it, or all.
    let mut of_bob = Events::open(&bob, None).await;
    assert_eq!(of_bob.next().await.unwrap().1["sessions"], json!([]));
    let mut of_boss = Events::open(&boss, None).await;
    assert_eq!(
        of_boss.next().await.unwrap().1["sessions"][0]["id"],
        json!(id)
    );
    let secret = open(&ann, "Hidden").await;
    let own = open(&bob, "Of Bob").await;
    assert_eq!(of_bob.next().await.unwrap().1["session_id"], json!(own));
    let opened = of_boss.until("session", json!("opened")).await;
    assert_eq!(opened.last().unwrap().1["session_id"], json!(secret));

    // The stream ends with its token.
    cluster.daemons[0].tokens.revoke(&boss_id).unwrap();
    while of_boss.next().await.is_some() {}
    cluster.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_that_is_unknown_or_too_old_resets_the_stream() {
    let cluster = Cluster::with_hosts(1).await;
    let user = cluster.user(0);
    let id = open(&user, "One").await;
    let reset = async |after: &str, reason: &str| {
        let mut events = Events::open(&user, Some(after)).await;
        let (position, reset) = events.next().await.unwrap();
        assert_eq!(
            (&*position, &reset),
            ("", &json!({"type": "reset", "reason": reason}))
        );
        let (position, snapshot) = events.next().await.unwrap();
        assert_eq!(snapshot["sessions"][0]["id"], json!(id));
        assert!(!position.is_empty());
        position
    };
    let old = reset("0123456789abcdef-1", "unknown_position").await;
    let mut stalled = Events::open(&user, None).await;
    // An edit of the title is one change.
    let sessions = &cluster.daemons[0].sessions;
    let edited = async |number: usize| {
        let edit = trunkline_protocol::SessionEdit {
            request_id: trunkline_protocol::RequestId::new("e").unwrap(),
            title: Some(format!("{number} {}", "x".repeat(180))),
            archived: None,
        };
        let session = trunkline_protocol::SessionId::new(&*id).unwrap();
        assert_eq!(sessions.edit(&session, edit).await.error, None);
    };
    for number in 0..4200 {
        edited(number).await;
    }
    reset(&old, "too_old").await;
    // What the stalled reader has in its socket comes first.
    let reason = loop {
        let event = stalled.next().await.unwrap().1;
        if event["type"] == "reset" {
            break event["reason"].clone();
        }
    };
    assert_eq!(reason, "too_old");
    let snapshot = stalled.next().await.unwrap().1;
    assert!(
        snapshot["sessions"][0]["title"]
            .as_str()
            .unwrap()
            .starts_with("4199 ")
    );
    edited(5000).await;
    let next = stalled.until("session", json!("title")).await;
    assert!(next[0].1["title"].as_str().unwrap().starts_with("5000 "));
    cluster.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_long_snapshot_comes_in_pages() {
    let cluster = Cluster::with_hosts(1).await;
    let user = cluster.user(0);
    let mut ids = Vec::new();
    for number in 0..300 {
        ids.push(open(&user, &format!("{number} {}", "x".repeat(180))).await);
    }
    let mut events = Events::open(&user, None).await;
    let mut found = Vec::new();
    let mut pages = 0;
    loop {
        let (position, page) = events.next().await.unwrap();
        assert_eq!(page["type"], "snapshot");
        let is_complete = page["complete"] == true;
        assert_eq!(
            position.is_empty(),
            !is_complete,
            "only a whole snapshot has a position"
        );
        assert!(page.to_string().len() < 80 * 1024);
        let sessions = page["sessions"].as_array().unwrap();
        found.extend(
            sessions
                .iter()
                .map(|session| session["id"].as_str().unwrap().to_owned()),
        );
        pages += 1;
        if is_complete {
            break;
        }
    }
    assert_eq!(found, ids);
    assert!(pages > 1);
    cluster.down().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn webhooks_get_the_changes_that_they_name_without_content() {
    let cluster = Cluster::with_hosts(1).await;
    let (sender, mut bodies) = tokio::sync::mpsc::channel(64);
    let answer = async move |uri: axum::http::Uri, body: String| {
        sender.send((uri.path().to_owned(), body)).await.unwrap();
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = axum::Router::new().fallback(answer);
    let serving = tokio::spawn(async move { axum::serve(listener, router).await });
    let file = json!({
        "agents": [{"id": "echo", "profile": "echo"}, {"id": "other", "profile": "echo"}],
        "webhooks": [
            {"name": "usual", "url": format!("{url}/usual"), "secret": "s"},
            {"name": "others", "url": format!("{url}/others"), "secret": "s", "agents": ["other"]},
            {"name": "titles", "url": format!("{url}/titles"), "secret": "s", "events": ["session.closed"]},
        ],
    });
    let folder = std::path::Path::new("/");
    let config = trunkline_host::config::Config::parse(file.to_string().as_bytes(), folder);
    let webhooks = &cluster.daemons[0].webhooks;
    webhooks.replace(webhooks.prepare(&config.unwrap().webhooks).unwrap());

    // Without a title, the first input is the title.
    let user = cluster.user(0);
    let id = user.open().await;
    let mut events = Events::open(&user, None).await;
    events.next().await.unwrap();
    let path = format!("/v1/sessions/{id}/inputs");
    user.post(&path, &json!({ "content": format!("/tool {MARKER}") }))
        .await
        .must_be(202);
    // The title is in the stream, but in no webhook.
    let asked = loop {
        let chunk = String::from_utf8(events.coming.next().await.unwrap().to_vec()).unwrap();
        if let Some(data) = chunk.lines().find(|line| line.contains("\"permission\"")) {
            break serde_json::from_str::<Value>(data.strip_prefix("data: ").unwrap()).unwrap();
        }
    };
    let request = asked["request_id"].as_str().unwrap();
    let answer = format!("/v1/sessions/{id}/requests/{request}");
    user.post(&answer, &json!({ "approved": true }))
        .await
        .must_be(200);
    let ended = user
        .ask_with("DELETE", &format!("/v1/sessions/{id}"), &[], "")
        .await;
    ended.must_be(204);
    let mut usual = Vec::new();
    let mut titles = 0;
    while usual.len() < 3 || titles < 1 {
        let (path, body) = bodies.recv().await.unwrap();
        assert!(!body.contains(MARKER), "{body}");
        let event: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (&event["session_id"], &event["attempt"]),
            (&json!(id), &json!(1))
        );
        let name = format!(
            "{}.{}",
            event["type"].as_str().unwrap(),
            event["change"].as_str().unwrap()
        );
        match &*path {
            "/usual" => usual.push(name),
            "/titles" => {
                assert_eq!(
                    (name.as_str(), &event["title"]),
                    ("session.closed", &Value::Null)
                );
                titles += 1;
            }
            other => panic!("{other}"),
        }
    }
    assert_eq!(usual, ["request.opened", "request.answered", "turn.ended"]);
    let line = r#"trunkline_webhook_deliveries_total{hook="usual",result="delivered"} 3"#;
    // It is counted when the answer is there.
    while !String::from_utf8_lossy(&user.get("/metrics").await.must_be(200).body).contains(line) {
        tokio::task::yield_now().await;
    }
    serving.abort();
    cluster.down().await;
}
