//! A connection that breaks, and a hub that means harm.

use super::*;

#[tokio::test(start_paused = true)]
async fn what_the_hub_may_have_missed_is_marked_and_ends_come_again() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let turn = ends.message("m-1", "one").await.unwrap();
    ends.output(&wire, &turn, "Some text.\n\n").await;
    ends.at(1000).await;
    ends.end(&wire, &turn).await;
    assert_eq!(
        ends.words(),
        ["started m-1", "stdout: Some text.\n\n", "completed m-1 0"]
    );
    // The hub has read what came before, and the first of these.
    ends.bridge.out.is_read(2);
    ends.bridge.disconnected();
    ends.settle().await;
    let next = ends.message("m-2", "two").await.unwrap();
    ends.end(&wire, &next).await;
    ends.hub("hello.ack", json!({ "ok": true })).await;
    let mark =
        "system: The connection to the hub broke. The last output before this line may be missing.";
    assert_eq!(
        ends.words(),
        [mark, "completed m-1 0", "started m-2", "completed m-2 0"]
    );
}

#[tokio::test(start_paused = true)]
async fn nothing_is_marked_where_the_hub_has_read_everything() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let turn = ends.message("m-1", "one").await.unwrap();
    ends.output(&wire, &turn, "Some text.").await;
    ends.end(&wire, &turn).await;
    ends.words();
    let sent = ends.bridge.out.ask();
    ends.bridge.out.is_read(sent);
    ends.bridge.disconnected();
    ends.settle().await;
    ends.hub("hello.ack", json!({ "ok": true })).await;
    assert!(ends.words().is_empty());
}

fn permission(wire: &str, id: &str) -> Value {
    json!({
        "type": "permission.request", "session_id": wire, "request_id": id, "tool": "Bash", "description": "Delete the logs",
        "resource": "rm -r logs",
    })
}

#[tokio::test(start_paused = true)]
async fn requests_of_a_lost_hub_are_denied() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    ends.host(permission(&wire, "q-1")).await;
    let id = ends.frames().remove(0).1["request_id"].clone();
    ends.bridge.disconnected();
    ends.settle().await;
    ends.host(permission(&wire, "q-2")).await;
    let lines = ends.lines();
    assert_eq!(lines.len(), 2);
    assert!(
        lines
            .iter()
            .all(|line| line["approved"] == false && line["reason"] == "policy"),
        "{lines:?}"
    );
    ends.hub("hello.ack", json!({ "ok": true })).await;
    ends.hub(
        "permission.response",
        json!({ "session_id": "s", "request_id": id, "approved": true }),
    )
    .await;
    assert!(ends.lines().is_empty());
    let denied = |why| format!("system: denied: Bash: {why}");
    let words = ends.words();
    assert_eq!(
        words[0], "created true",
        "the hub had not shown that it read it"
    );
    assert_eq!(
        words[1..],
        [
            denied("the connection to the hub broke"),
            denied("there is no connection to the hub")
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn requests_wait_for_the_next_connection_where_the_operator_says_so() {
    let mut ends = Ends::with(WhenLost::Wait).await;
    let wire = ends.open().await;
    ends.host(permission(&wire, "q-1")).await;
    let before = ends.frames().remove(0).1["request_id"].clone();
    ends.at(70_000).await;
    ends.bridge.disconnected();
    ends.settle().await;
    ends.host(permission(&wire, "q-2")).await;
    ends.at(600_000).await;
    assert!(ends.lines().is_empty(), "they wait");
    ends.hub("hello.ack", json!({ "ok": true })).await;
    let frames = ends.frames();
    assert_eq!(
        frames
            .iter()
            .filter(|(kind, _)| kind == "permission.request")
            .count(),
        2
    );
    ends.hub(
        "permission.response",
        json!({ "session_id": "s", "request_id": before, "approved": true }),
    )
    .await;
    assert!(
        ends.lines().is_empty(),
        "the hub of before is not asked any more"
    );
    let now = frames.last().unwrap().1["request_id"].clone();
    ends.hub(
        "permission.response",
        json!({ "session_id": "s", "request_id": now, "approved": true }),
    )
    .await;
    assert_eq!(ends.lines()[0]["approved"], true);
}

#[tokio::test(start_paused = true)]
async fn frames_without_sense_change_nothing() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    for text in [
        "",
        "garbage",
        "[]",
        "null",
        r#"{"type":"user.message"}"#,
        r#"{"type":"user.message","payload":{"session_id":"","message_id":"m","agent_id":"r.a"}}"#,
        r#"{"type":"user.message","payload":{"session_id":"s","message_id":[],"agent_id":"r.a"}}"#,
        r#"{"type":"permission.response","payload":{"session_id":"s","request_id":"unknown","approved":true}}"#,
        r#"{"type":"hello.ack","payload":{"ok":false,"error":"late"}}"#,
        r#"{"type":"runtime.token_refresh","payload":{"token":"two words"}}"#,
        r#"{"type":"runtime.token_refresh","payload":{"token":""}}"#,
        r#"{"type":"agent.output","payload":{"session_id":"s","channel":"stdout","content":"x"}}"#,
        &format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000)),
    ] {
        assert!(
            ends.bridge.handle_frame(text) == FrameEffect::None,
            "{}",
            &text[..text.len().min(80)]
        );
        assert!(ends.lines().is_empty() && ends.words().is_empty());
    }
    assert!(
        ends.hub("runtime.token_refresh", json!({ "token": "r:1:ab" }))
            .await
            == FrameEffect::Token("r:1:ab".to_owned())
    );
    ends.hub("ping", json!({})).await;
    assert_eq!(ends.words(), ["pong"]);
    ends.hub("session.close", json!({ "session_id": "s" }))
        .await;
    assert_eq!(
        (&ends.lines()[0]["session_id"], ends.bridge.sessions.len()),
        (&json!(wire), 0)
    );
}

#[tokio::test(start_paused = true)]
async fn a_flood_of_messages_is_refused_and_each_has_its_end() {
    let mut ends = Ends::new().await;
    ends.open().await;
    for number in 0..200 {
        ends.message(&format!("m-{number}"), "x").await;
    }
    let words = ends.words();
    let open = ends.bridge.sessions["s"].turns.len();
    assert_eq!(open, crate::session::MAX_OPEN_TURNS);
    let refused = words
        .iter()
        .filter(|word| word.starts_with("completed") && word.ends_with(" 1"))
        .count();
    assert_eq!(refused, 200 - open);
    assert_eq!(
        words.last().unwrap(),
        "started m-0",
        "the hub waits for the one that runs"
    );
}

#[tokio::test(start_paused = true)]
async fn the_end_of_the_connector_ends_every_turn() {
    let mut ends = Ends::new().await;
    ends.open().await;
    ends.message("m-1", "one").await;
    ends.words();
    ends.bridge.end_all("the runtime ends");
    ends.settle().await;
    assert_eq!(ends.lines()[0]["type"], "session.close");
    assert_eq!(
        ends.words(),
        ["system: the runtime ends", "completed m-1 1"]
    );
}
