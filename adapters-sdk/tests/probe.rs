//! The conformance probe: carried by every adapter, off unless asked for.

use serde_json::{Value, json};
use trunkline_sdk::{
    Extensions, Server, SessionStart, Status,
    protocol::{AdapterBody, AdapterKind, ClosedReason},
    testing::{Host, Offer, Scripted, TestSession, TestTurn},
};

fn probed() -> Host {
    Host::with(
        Server::new(Scripted::new()).probing(),
        Offer::These(Extensions::all()),
        4096,
    )
}

fn script(steps: impl Into<Value>) -> String {
    json!({ "$probe": 1, "do": steps.into(), "text": "from the script" }).to_string()
}

async fn run(session: &TestSession, steps: Value) -> TestTurn {
    session
        .send_with(script(steps), |request| {
            request.resource.iter().any(|file| file.contains("yes"))
        })
        .await
}

fn data(turn: &TestTurn) -> Value {
    serde_json::from_str(&turn.text()).expect("one object")
}

#[tokio::test(start_paused = true)]
async fn a_script_is_plain_text_where_the_probe_is_off() {
    let host = Host::with(Server::new(Scripted::new()), Offer::Core, 64);
    let text = script(json!([["say", "hello"]]));
    assert_eq!(host.open().send(text.clone()).await.text(), text);
}

#[tokio::test(start_paused = true)]
async fn what_is_no_script_goes_to_the_adapter() {
    let host = probed();
    let session = host.open();
    for text in ["hello", "{", "{}", "{\"do\":[]}", "[1]"] {
        assert_eq!(session.send(text).await.text(), text);
    }
}

#[tokio::test(start_paused = true)]
async fn text_variables_and_the_unknown() {
    let host = probed();
    let session = host.open();
    let other = host.open();
    let hello = data(&run(&session, json!([["hello"]])).await);
    assert!(
        hello["ops"]
            .as_array()
            .is_some_and(|ops| ops.contains(&json!("ask"))),
        "{hello}"
    );
    assert!(hello["adapter"].is_string());
    assert_eq!(
        run(
            &session,
            json!([["say", "a"], ["say", "b", "stderr"], ["complete"]])
        )
        .await
        .text(),
        "a"
    );
    assert_eq!(
        run(&session, json!([["echo"]])).await.text(),
        "from the script"
    );
    run(&session, json!([["set", "k", "v"]])).await;
    assert_eq!(
        data(&run(&session, json!([["get", "k"]])).await)["value"],
        "v"
    );
    assert_eq!(
        data(&run(&other, json!([["get", "k"]])).await)["value"],
        Value::Null
    );
    let unknown = run(&session, json!([["fly"], ["say", "never"]])).await;
    assert_eq!(data(&unknown), json!({ "$probe": 1, "unsupported": "fly" }));
    assert_eq!(unknown.end.status, Some(Status::Completed));
    assert_eq!(
        data(&run(&session, json!([["ready"]])).await)["extensions"]
            .as_array()
            .map(Vec::len),
        Some(8)
    );
}

#[tokio::test(start_paused = true)]
async fn busy_turns_tick_and_can_be_stopped() {
    let host = probed();
    let session = host.open();
    assert_eq!(
        run(&session, json!([["sleep", 200]])).await.text(),
        "tick".repeat(4)
    );
    session.begin(script(json!([["until_stop"], ["say", "never"]])));
    tokio::time::sleep(std::time::Duration::from_millis(120)).await;
    session.stop();
    let stopped = session.finish().await;
    assert_eq!(
        (stopped.text().as_str(), stopped.end.status),
        ("ticktick", Some(Status::Stopped))
    );
}

#[tokio::test(start_paused = true)]
async fn an_effect_happens_only_if_it_was_approved() {
    let folder = tempfile::tempdir().expect("a folder");
    let ask = |name: &str| json!({ "tool": "t", "description": "d", "resource": name, "effect": folder.path().join(name) });
    let host = probed();
    let session = host.open();
    let turn = run(
        &session,
        json!([["ask", ask("yes-1"), ask("no-1"), ask("yes-2")]]),
    )
    .await;
    assert_eq!(turn.text().matches("\"approved\":true").count(), 2);
    session.begin(script(json!([["ask", ask("yes-3")]])));
    let id = session.asked().await;
    session.stop();
    session.answer(&id, true);
    assert_eq!(session.finish().await.end.status, Some(Status::Stopped));
    let mut found: Vec<_> = std::fs::read_dir(folder.path())
        .expect("there")
        .map(|entry| {
            entry
                .expect("an entry")
                .file_name()
                .into_string()
                .expect("text")
        })
        .collect();
    found.sort();
    assert_eq!(found, ["yes-1", "yes-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_report_knows_inputs_files_and_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("f");
    std::fs::write(&path, b"abc").expect("written");
    let host = probed();
    let session = host.open();
    let other = host.open();
    session.file(path.to_str().expect("text"));
    session.file("/no/such/file");
    session.send("abc").await;
    run(&session, json!([["ask", { "resource": "yes" }]])).await;
    let report = data(&run(&session, json!([["report"]])).await);
    let sha256 = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(report["count"], 3);
    assert_eq!(report["inputs"][0], json!({ "bytes": 3, "sha256": sha256 }));
    assert_eq!(
        (&report["files"][0]["bytes"], &report["files"][0]["sha256"]),
        (&json!(3), &json!(sha256))
    );
    assert!(report["files"][1]["error"].is_string());
    assert_eq!(report["permissions"][0]["approved"], true);
    assert_eq!(
        data(&run(&other, json!([["report"]])).await)["files"],
        json!([])
    );
}

#[tokio::test(start_paused = true)]
async fn events_ends_files_and_questions() {
    let folder = tempfile::tempdir().expect("a folder");
    let exchange_dir = folder.path().to_str().map(str::to_owned);
    let host = probed();
    let session = host.open_with(SessionStart {
        exchange_dir,
        ..SessionStart::default()
    });
    let turn = run(
        &session,
        json!([
            ["event", { "type": "thinking", "content": "hm" }],
            ["event", { "type": "no such" }],
            ["info", { "model": "m" }],
            ["question", { "prompt": "?", "fields": [{ "id": "a" }] }],
            ["file", "a.bin", "application/octet-stream", 1000],
            ["complete", { "status": "limit", "summary": "enough" }],
        ]),
    )
    .await;
    let kinds: Vec<_> = turn.messages[1..]
        .iter()
        .map(|message| message.body.kind())
        .collect();
    use AdapterKind as K;
    assert_eq!(
        kinds,
        [
            K::Thinking,
            K::SessionInfo,
            K::InputRequest,
            K::Output,
            K::FileOutput
        ]
    );
    assert_eq!(
        (turn.end.status, turn.end.summary.as_deref()),
        (Some(Status::Limit), Some("enough"))
    );
    assert_eq!(
        run(&session, json!([["complete", "refused"]]))
            .await
            .end
            .status,
        Some(Status::Refused)
    );
    let failed = run(&session, json!([["fail", "ow"]])).await.end;
    assert_eq!(
        (
            failed.status,
            failed.error.and_then(|e| e.message).as_deref()
        ),
        (Some(Status::Failed), Some("ow"))
    );
    let closed = run(&session, json!([["close_session", "limit"]])).await;
    assert_eq!(closed.end.status, Some(Status::Failed));
    let reason = session.wait_for(|body| match body {
        AdapterBody::SessionClosed(closed) => Some(closed.reason),
        _ => None,
    });
    assert_eq!(reason.await, Some(ClosedReason::Limit));
}
