use serde_json::json;

use super::*;

fn end(result: &Value, stopping: bool) -> (Status, Option<Category>, Option<String>) {
    let end = Outcome::of(result, None, None).end(stopping);
    let error = end.error.unwrap_or_default();
    (end.status.unwrap(), error.category, error.message)
}

#[test]
fn ends_are_told_apart() {
    let error = |category, message: &str| (Some(category), Some(message.to_owned()));
    for (result, (status, (category, message))) in [
        (
            json!({"subtype": "success", "is_error": false, "terminal_reason": "completed"}),
            (Status::Completed, (None, None)),
        ),
        (
            json!({"subtype": "success", "result": "ok"}),
            (Status::Completed, (None, None)),
        ),
        (
            json!({"subtype": "success", "is_error": true, "terminal_reason": "api_error", "api_error_status": 401,
                "result": "Failed to authenticate. API Error: 401 no"}),
            (
                Status::Failed,
                error(Category::Auth, "Failed to authenticate. API Error: 401 no"),
            ),
        ),
        (
            json!({"subtype": "success", "is_error": true, "terminal_reason": "completed",
                "result": "Not logged in · Please run /login"}),
            (
                Status::Failed,
                error(Category::Auth, "Not logged in · Please run /login"),
            ),
        ),
        (
            json!({"subtype": "success", "is_error": true, "api_error_status": 429, "result": "API Error: Request rejected (429)"}),
            (
                Status::Failed,
                error(Category::RateLimit, "API Error: Request rejected (429)"),
            ),
        ),
        (
            json!({"subtype": "error_max_turns", "is_error": true, "terminal_reason": "max_turns",
                "errors": ["Reached maximum number of turns (2)"]}),
            (
                Status::Limit,
                error(Category::MaxTurns, "Reached maximum number of turns (2)"),
            ),
        ),
        (
            json!({"subtype": "error_max_budget_usd", "is_error": true, "terminal_reason": "budget_exhausted",
                "errors": ["Reached maximum budget ($0.01)"]}),
            (
                Status::Limit,
                error(Category::UsageLimit, "Reached maximum budget ($0.01)"),
            ),
        ),
        (
            json!({"subtype": "success", "stop_reason": "refusal"}),
            (
                Status::Refused,
                error(Category::Other, "the model declined to answer"),
            ),
        ),
        (
            json!({"subtype": "error_during_execution", "is_error": true, "terminal_reason": "aborted_tools",
                "errors": ["[ede_diagnostic] x"]}),
            (Status::Stopped, (None, None)),
        ),
        (
            json!({"subtype": "error_during_execution", "is_error": true, "errors": ["[ede_diagnostic] x", "it broke"]}),
            (Status::Failed, error(Category::Other, "it broke")),
        ),
        (
            json!({"subtype": "error_of_the_future", "is_error": true}),
            (
                Status::Failed,
                error(
                    Category::Other,
                    "claude ended the turn with \"error_of_the_future\"",
                ),
            ),
        ),
    ] {
        assert_eq!(end(&result, false), (status, category, message), "{result}");
    }
}

#[test]
fn the_result_says_how_claude_ended() {
    let result = |text: Value| {
        Outcome::of(&text, None, None)
            .end(false)
            .result
            .map(|json| json.get().to_owned())
    };
    assert_eq!(
        result(json!({"subtype": "success"})).unwrap(),
        r#"{"subtype":"success"}"#
    );
    let limit =
        json!({"subtype": "error_max_turns", "is_error": true, "terminal_reason": "max_turns"});
    assert_eq!(
        result(limit).unwrap(),
        r#"{"subtype":"error_max_turns","terminal_reason":"max_turns"}"#
    );
    assert_eq!(result(json!({})), None);
}

#[test]
fn a_stop_is_told_as_such_unless_the_turn_was_over() {
    let cut = json!({"subtype": "error_during_execution", "is_error": true, "terminal_reason": "aborted_streaming",
        "stop_reason": "tool_use"});
    let end_of = |result: &Value| Outcome::of(result, None, None).end(true);
    assert_eq!(
        (end_of(&cut).status, end_of(&cut).stop_reason),
        (Some(Status::Stopped), None)
    );
    let done = json!({"subtype": "success", "is_error": false, "stop_reason": "end_turn"});
    assert_eq!(end_of(&done).status, Some(Status::Completed));
    assert!(Outcome::of(&cut, None, None).is_aborted());
    assert!(!Outcome::of(&cut, None, None).tells_usage());
}

#[test]
fn the_name_of_an_error_says_more_than_its_text() {
    let named = |name: &str, status| ApiError {
        name: name.to_owned(),
        text: "no".to_owned(),
        status,
    };
    let category = |name: &str, status, text: &str| {
        let result = json!({"subtype": "success", "is_error": true, "result": text});
        Outcome::of(&result, Some(named(name, status)), None)
            .end(false)
            .error
            .unwrap()
            .category
            .unwrap()
    };
    assert_eq!(category("billing_error", None, "x"), Category::Billing);
    assert_eq!(category("rate_limit", Some(429), "x"), Category::RateLimit);
    assert_eq!(
        category("server_error", None, "connection lost"),
        Category::Overloaded
    );
    assert_eq!(category("unknown", Some(529), "x"), Category::Overloaded);
    assert_eq!(
        category("model_not_found", Some(404), "x"),
        Category::ModelNotFound
    );
    let result = json!({"subtype": "success", "is_error": true});
    let time = "2030-01-01T00:00:00Z".to_owned();
    let outcome = Outcome::of(
        &result,
        Some(named("rate_limit", Some(429))),
        Some(time.clone()),
    );
    let error = outcome.end(false).error.unwrap();
    assert_eq!(
        (error.message.as_deref(), error.retry_at),
        (Some("no"), Some(time))
    );
}

#[test]
fn an_unknown_session_is_one_that_did_nothing() {
    let unknown = json!({"subtype": "error_during_execution", "is_error": true, "num_turns": 0,
        "errors": ["No conversation found with session ID: 99999999-2222-4333-8444-555555555555"]});
    assert!(Outcome::of(&unknown, None, None).is_unknown_session());
    let mut worked = unknown.clone();
    worked["num_turns"] = json!(2);
    assert!(!Outcome::of(&worked, None, None).is_unknown_session());
    for odd in [
        json!(null),
        json!([]),
        json!({"errors": 7, "num_turns": "x", "user_message_uuids": [1, "a"]}),
    ] {
        assert!(!Outcome::of(&odd, None, None).is_unknown_session());
    }
}
