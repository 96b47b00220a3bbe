//! Permissions and questions.

use super::*;

fn permission(wire: &str, id: &str) -> Value {
    json!({
        "type": "permission.request", "session_id": wire, "request_id": id, "tool": "Bash", "description": "Delete the logs",
        "resource": "rm -r logs", "options": [{ "id": "x", "kind": "allow_always" }],
    })
}

/// A request as the hub has it.
async fn asked(ends: &mut Ends, wire: &str, id: &str) -> String {
    ends.host(permission(wire, id)).await;
    let (kind, payload) = ends.frames().pop().unwrap();
    assert_eq!(
        (kind.as_str(), &payload["resource"]),
        ("permission.request", &json!("rm -r logs"))
    );
    payload["request_id"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_request_is_decided_by_a_person_and_by_nothing_else() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let first = asked(&mut ends, &wire, "q-1").await;
    let second = asked(&mut ends, &wire, "q-2").await;
    assert_ne!(first, second, "an id of the agent's is no id of the hub's");
    for (kind, payload) in [
        (
            "permission.response",
            json!({ "session_id": "t", "request_id": first, "approved": true }),
        ),
        (
            "permission.response",
            json!({ "session_id": "s", "request_id": "q-1", "approved": true }),
        ),
        (
            "permission.response",
            json!({ "session_id": "s", "request_id": first, "approved": "true" }),
        ),
    ] {
        ends.hub(kind, payload).await;
        assert!(ends.lines().is_empty(), "no decision");
    }
    let decision =
        json!({ "session_id": "s", "request_id": first, "approved": true, "always_allow": true });
    ends.hub("permission.response", decision.clone()).await;
    let line = ends.lines().remove(0);
    assert_eq!(
        (
            &line["request_id"],
            &line["approved"],
            &line["always_allow"]
        ),
        (&json!("q-1"), &json!(true), &json!(true))
    );
    ends.hub("permission.response", decision).await;
    assert!(ends.lines().is_empty(), "it is settled");
    ends.hub(
        "permission.response",
        json!({ "session_id": "s", "request_id": second }),
    )
    .await;
    assert_eq!(ends.lines()[0]["approved"], false);
}

#[tokio::test(start_paused = true)]
async fn a_request_that_no_one_answers_is_denied() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let id = asked(&mut ends, &wire, "q-1").await;
    ends.at(74_999).await;
    assert!(ends.lines().is_empty());
    ends.at(75_000).await;
    let line = ends.lines().remove(0);
    assert_eq!(
        (&line["approved"], &line["reason"]),
        (&json!(false), &json!("timeout"))
    );
    ends.hub(
        "permission.response",
        json!({ "session_id": "s", "request_id": id, "approved": true }),
    )
    .await;
    assert!(ends.lines().is_empty(), "it comes too late");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_a_person_could_not_read_whole_is_denied() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let mut long = permission(&wire, "q-1");
    long["resource"] = json!("x".repeat(MAX_REQUEST_BYTES));
    ends.host(long).await;
    assert_eq!(ends.lines()[0]["approved"], false);
    assert_eq!(
        ends.words(),
        ["system: denied: Bash: the request is too long to be read"]
    );
}

#[tokio::test(start_paused = true)]
async fn requests_that_wait_for_the_hub_are_bounded() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    for number in 0..MAX_REQUESTS {
        ends.host(permission(&wire, &format!("q-{number}"))).await;
    }
    assert!(ends.lines().is_empty());
    ends.host(permission(&wire, "one-more")).await;
    let lines = ends.lines();
    assert_eq!(
        (lines.len(), &lines[0]["request_id"]),
        (1, &json!("one-more"))
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_settled_elsewhere_says_so() {
    let mut ends = Ends::new().await;
    let wire = ends.open_with(&["turns", "journal"]).await;
    let id = asked(&mut ends, &wire, "q-1").await;
    ends.host(json!({
        "type": "request.decided", "session_id": wire, "request_id": "q-1", "approved": true, "by": "l-2", "seq": 1,
    })).await;
    assert_eq!(
        ends.words(),
        ["system: the request is allowed elsewhere: Bash"]
    );
    ends.hub(
        "permission.response",
        json!({ "session_id": "s", "request_id": id, "approved": false }),
    )
    .await;
    assert!(ends.lines().is_empty());
    asked(&mut ends, &wire, "q-2").await;
    ends.host(json!({ "type": "permission.cancel", "session_id": wire, "request_id": "q-2" }))
        .await;
    assert_eq!(ends.words(), ["system: the request is withdrawn: Bash"]);
}

#[tokio::test(start_paused = true)]
async fn a_question_ends_the_hubs_turn_and_its_answer_goes_on() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let turn = ends.message("m-1", "deploy").await.unwrap();
    ends.output(&wire, &turn, "Let me ask.").await;
    ends.host(json!({
        "type": "input.request", "session_id": wire, "turn_id": turn, "request_id": "i-1", "prompt": "Where?",
        "fields": [{ "id": "where", "kind": "choice", "choices": [{ "id": "eu", "label": "Europe" }, { "id": "us" }] }],
    })).await;
    let words = ends.words();
    assert_eq!(
        (words[0].as_str(), words[1].as_str()),
        ("started m-1", "stdout: Let me ask.")
    );
    assert!(
        words[2].starts_with(r#"question: {"type":"tool_use","name":"AskUserQuestion","#),
        "{}",
        words[2]
    );
    assert_eq!(
        words[3], "completed m-1 0",
        "only then a hub with `turn_based` takes a message"
    );
    ends.message("m-2", "Mars").await;
    let words = ends.words();
    assert_eq!(
        (words[0].as_str(), words[1].as_str()),
        ("started m-2", "system: answer with one of the choices")
    );
    assert_eq!(words[3], "completed m-2 0");
    ends.hub("user.message", message("m-3", "Europe")).await;
    let line = ends.lines().remove(0);
    assert_eq!(
        (&line["type"], &line["values"]),
        (&json!("input.response"), &json!({ "where": "eu" }))
    );
    ends.output(&wire, &turn, "Done.").await;
    ends.end(&wire, &turn).await;
    assert_eq!(
        ends.words(),
        ["started m-3", "stdout: Done.", "completed m-3 0"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_that_is_withdrawn_takes_no_answer() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    let turn = ends.message("m-1", "deploy").await.unwrap();
    let question = json!({ "type": "input.request", "session_id": wire, "turn_id": turn, "request_id": "i-1", "prompt": "Where?" });
    ends.host(question.clone()).await;
    ends.words();
    ends.host(
        json!({ "type": "permission.cancel", "session_id": wire, "turn_id": turn, "request_id": "i-1" }),
    ).await;
    assert_eq!(ends.words(), ["system: the question is no longer open"]);
    ends.end(&wire, &turn).await;
    assert!(ends.words().is_empty(), "for the hub that turn has ended");
    let next = ends.message("m-2", "go on").await.unwrap();
    assert_ne!(next, turn);
    assert_eq!(ends.words(), ["started m-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_secret_is_not_asked_for_where_it_would_be_stored() {
    let mut ends = Ends::new().await;
    let wire = ends.open().await;
    ends.host(json!({
        "type": "input.request", "session_id": wire, "request_id": "i-1", "prompt": "Key?",
        "fields": [{ "id": "key", "kind": "secret" }],
    }))
    .await;
    assert_eq!(ends.lines()[0]["cancelled"], true);
    assert!(ends.words()[0].starts_with("system: a question of the agent was not asked here"));
}
