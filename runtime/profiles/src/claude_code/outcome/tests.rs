use serde_json::json;

use super::*;

/// The end of a turn without signs other than this result.
fn ended(
    result: &Value,
    api_error: Option<ApiError>,
    resets_at: Option<String>,
    stopping: bool,
) -> TurnComplete {
    ResultLine::read(result, api_error, resets_at).end(stopping)
}

fn end(result: &Value, stopping: bool) -> (Status, Option<Category>, Option<String>) {
    let end = ended(result, None, None, stopping);
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
fn the_result_is_the_answer_as_data() {
    let result = |line: Value| {
        ended(&line, None, None, false)
            .result
            .map(|json| json.get().to_owned())
    };
    assert_eq!(
        result(json!({"subtype": "success", "result": "Four."})),
        None
    );
    assert_eq!(
        result(json!({"subtype": "error_max_turns", "is_error": true})),
        None
    );
    let structured =
        json!({"subtype": "success", "stop_reason": "tool_use", "structured_output": {"sum": 4}});
    assert_eq!(result(structured).unwrap(), r#"{"sum":4}"#);
    assert_eq!(
        result(json!({"subtype": "success", "structured_output": null})),
        None
    );
}

#[test]
fn a_stop_is_told_as_such_unless_the_turn_was_over() {
    let cut = json!({"subtype": "error_during_execution", "is_error": true, "terminal_reason": "aborted_streaming",
        "stop_reason": "tool_use"});
    let end_of = |result: &Value| ended(result, None, None, true);
    assert_eq!(
        (end_of(&cut).status, end_of(&cut).stop_reason),
        (Some(Status::Stopped), None)
    );
    let done = json!({"subtype": "success", "is_error": false, "stop_reason": "end_turn"});
    assert_eq!(end_of(&done).status, Some(Status::Completed));
    assert!(ResultLine::read(&cut, None, None).is_aborted());
    assert!(!ResultLine::read(&cut, None, None).tells_usage());
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
        ended(&result, Some(named(name, status)), None, false)
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
    let named = Some(named("rate_limit", Some(429)));
    let error = ended(&result, named, Some(time.clone()), false)
        .error
        .unwrap();
    assert_eq!(
        (error.message.as_deref(), error.retry_at),
        (Some("no"), Some(time))
    );
}

#[test]
fn an_unknown_session_is_one_that_did_nothing() {
    let unknown = json!({"subtype": "error_during_execution", "is_error": true, "num_turns": 0,
        "errors": ["No conversation found with session ID: 99999999-2222-4333-8444-555555555555"]});
    assert!(ResultLine::read(&unknown, None, None).is_unknown_session());
    let mut worked = unknown.clone();
    worked["num_turns"] = json!(2);
    assert!(!ResultLine::read(&worked, None, None).is_unknown_session());
    for odd in [
        json!(null),
        json!([]),
        json!({"errors": 7, "num_turns": "x", "user_message_uuids": [1, "a"]}),
    ] {
        assert!(!ResultLine::read(&odd, None, None).is_unknown_session());
    }
}

#[test]
fn a_turn_is_completed_only_if_every_member_of_the_result_agrees() {
    let good = || json!({"subtype": "success", "is_error": false, "terminal_reason": "completed", "stop_reason": "end_turn", "result": "Four."});
    for (member, value, status, text) in [
        ("stop_reason", json!("stop_sequence"), Status::Completed, ""),
        ("stop_reason", json!(null), Status::Completed, ""),
        ("terminal_reason", json!(null), Status::Completed, ""),
        ("stop_reason", json!("tool_use"), Status::Failed, "tool_use"),
        (
            "stop_reason",
            json!("pause_turn"),
            Status::Failed,
            "pause_turn",
        ),
        (
            "stop_reason",
            json!("max_tokens"),
            Status::Limit,
            "output limit",
        ),
        (
            "stop_reason",
            json!("model_context_window_exceeded"),
            Status::Limit,
            "context",
        ),
        ("stop_reason", json!("refusal"), Status::Refused, "declined"),
        (
            "terminal_reason",
            json!("malformed_tool_use_exhausted"),
            Status::Failed,
            "malformed_tool_use_exhausted",
        ),
        (
            "terminal_reason",
            json!("api_error"),
            Status::Failed,
            "api_error",
        ),
        (
            "terminal_reason",
            json!("of_the_future"),
            Status::Failed,
            "of_the_future",
        ),
        (
            "terminal_reason",
            json!("max_turns"),
            Status::Limit,
            "Four.",
        ),
        (
            "terminal_reason",
            json!("aborted_tools"),
            Status::Stopped,
            "",
        ),
        (
            "subtype",
            json!("error_of_the_future"),
            Status::Failed,
            "error_of_the_future",
        ),
        ("is_error", json!(true), Status::Failed, "Four."),
    ] {
        let mut result = good();
        result[member] = value;
        let (was, _, message) = end(&result, false);
        assert_eq!(was, status, "{result}");
        assert!(message.unwrap_or_default().contains(text), "{result}");
        if text.starts_with(|first: char| first.is_lowercase()) && member == "terminal_reason" {
            let end = ended(&result, None, None, false);
            assert_eq!(end.stop_reason.as_deref(), Some(text), "{result}");
        }
    }
}

#[test]
fn a_reason_that_is_not_known_is_kept_beside_an_answer() {
    let unknown = json!({"subtype": "success", "terminal_reason": "completed", "stop_reason": "of_the_future"});
    let outcome = ResultLine::read(&unknown, None, None);
    let mut signs = EndSigns::default();
    signs.note_event(&trunkline_sdk::protocol::Output::text("Four.").into());
    outcome.sign(&mut signs);
    let answered = outcome.complete(signs.judge());
    assert_eq!(answered.status, Some(Status::Completed));
    assert_eq!(answered.stop_reason.as_deref(), Some("of_the_future"));
    assert_eq!(outcome.end(false).status, Some(Status::Failed));
}

#[test]
fn an_error_of_the_api_behind_which_nothing_came_fails_a_success() {
    let good =
        json!({"subtype": "success", "terminal_reason": "completed", "stop_reason": "end_turn"});
    let error = ApiError {
        name: "rate_limit".to_owned(),
        text: "slow down".to_owned(),
        status: Some(429),
    };
    let error = ended(&good, Some(error), None, false).error.unwrap();
    assert_eq!(
        (error.category, error.message.as_deref()),
        (Some(Category::RateLimit), Some("slow down"))
    );
}
