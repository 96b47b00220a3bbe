use std::time::{Duration, SystemTime, UNIX_EPOCH};

use proptest::prelude::*;
use trunkline_sdk::Status;

use super::*;

#[test]
fn failures_have_their_category() {
    for (text, http, category) in [
        // As recorded.
        ("Not logged in · Please run /login", None, Category::Auth),
        (
            "Failed to authenticate. API Error: 401 fake error 401",
            Some(401),
            Category::Auth,
        ),
        (
            "API Error: Request rejected (429) · fake error 429",
            None,
            Category::RateLimit,
        ),
        (
            "API Error: 500 fake error 500. This is a server-side issue, usually temporary — try again in a moment.",
            Some(500),
            Category::Other,
        ),
        ("API Error: 400 fake error 400", Some(400), Category::Other),
        (
            "API Error: Connection refused — a firewall or proxy may be blocking it (ECONNREFUSED)",
            None,
            Category::Other,
        ),
        (
            "Reached maximum number of turns (2)",
            None,
            Category::MaxTurns,
        ),
        ("error_max_budget_usd", None, Category::UsageLimit),
        (
            "unexpected status 401 Unauthorized: fake error 401, url: http://127.0.0.1:8765/v1/responses",
            None,
            Category::Auth,
        ),
        (
            "exceeded retry limit, last status: 429 Too Many Requests",
            None,
            Category::RateLimit,
        ),
        (
            "stream disconnected before completion: fake failure in mid stream",
            None,
            Category::Other,
        ),
        (
            "We’re currently experiencing high demand, which may cause temporary errors.",
            None,
            Category::Overloaded,
        ),
        (
            "Missing environment variable: `FAKE_KEY`.",
            None,
            Category::Auth,
        ),
        (
            "[API Error: fake error 429]\nPlease wait and try again later. To increase your limits, request a quota increase through AI Studio, or switch to another /auth method",
            None,
            Category::RateLimit,
        ),
        (
            r#"{"error":{"code":429,"message":"fake error 429","status":"RESOURCE_EXHAUSTED"}}"#,
            None,
            Category::RateLimit,
        ),
        (
            "When using Gemini API, you must specify the GEMINI_API_KEY environment variable.",
            None,
            Category::Auth,
        ),
        (
            "Invalid session identifier \"x\".",
            None,
            Category::SessionNotFound,
        ),
        ("No authentication information found.", None, Category::Auth),
        (
            "No LLM provider configured. Run `hermes model` to select a provider",
            None,
            Category::Auth,
        ),
        (
            "The fake credential was rejected. Update the API key and retry.",
            None,
            Category::Auth,
        ),
        (
            "No session, task, or name matched 'x'",
            None,
            Category::SessionNotFound,
        ),
        (
            "\u{1b}[91m\u{1b}[1mError: \u{1b}[0mSession not found",
            None,
            Category::SessionNotFound,
        ),
        (
            "Model not found: fake/absent.",
            None,
            Category::ModelNotFound,
        ),
        ("fake error 429", Some(429), Category::RateLimit),
        ("fake error 429", None, Category::RateLimit),
        ("fake error 401", Some(401), Category::Auth),
        ("Authentication required", None, Category::Auth),
        (
            "run ended with an auto-rejected permission; pass --auto",
            None,
            Category::PermissionDenied,
        ),
        (
            "no rollout found for thread id 99999999-2222-4333-8444-555555555555",
            None,
            Category::SessionNotFound,
        ),
        (
            "thread not found: 99999999-2222-4333-8444-555555555555",
            None,
            Category::SessionNotFound,
        ),
        (
            "Resource not found: Session 00000000-0000-4000-8000-000000000000 not found",
            None,
            Category::SessionNotFound,
        ),
        ("Invalid auth method selected.", None, Category::Auth),
        (
            "To authenticate, you can use any of the following methods:\n  • Start 'copilot'",
            None,
            Category::Auth,
        ),
        (
            "Gemini API key is missing or not configured.",
            None,
            Category::Auth,
        ),
        (
            "To resume by session or task ID:  copilot --resume=<id>",
            None,
            Category::SessionNotFound,
        ),
        (
            "[claude-code:unrecognized_model] {\"model\":\"nope\"}",
            None,
            Category::Other,
        ),
        (
            "Model metadata for `nope` not found. Defaulting to fallback metadata",
            None,
            Category::Other,
        ),
        (
            "Failed to get response from the AI model; retried 5 times (total retry wait time: 15.61 seconds) Last error: 500 fake error 500",
            Some(500),
            Category::Other,
        ),
        (
            "MCP config file not found: /x/absent.json",
            None,
            Category::Other,
        ),
        ("Model provider `absent` not found", None, Category::Other),
        ("Session ID 1 is already in use.", None, Category::Other),
        (
            "Loop detected, stopping execution",
            None,
            Category::ToolLoop,
        ),
        // In the wording of providers and older agents.
        (
            "prompt is too long: 210000 tokens > 200000 maximum",
            Some(400),
            Category::ContextExhausted,
        ),
        (
            "This model's maximum context length is 128000 tokens",
            None,
            Category::ContextExhausted,
        ),
        (
            "Your input exceeds the context window of this model",
            None,
            Category::ContextExhausted,
        ),
        ("context_length_exceeded", None, Category::ContextExhausted),
        ("ContextWindowExceeded", None, Category::ContextExhausted),
        ("spawn E2BIG", None, Category::ContextExhausted),
        (
            "You've hit your limit · resets 3pm (UTC)",
            None,
            Category::UsageLimit,
        ),
        ("You’ve hit your weekly limit", None, Category::UsageLimit),
        (
            "Claude AI usage limit reached|1764000000",
            None,
            Category::UsageLimit,
        ),
        (
            "5-hour limit reached ∙ resets 3am",
            None,
            Category::UsageLimit,
        ),
        (
            "You've hit your usage limit. Upgrade to Pro or try again at 8:35 PM.",
            None,
            Category::UsageLimit,
        ),
        (
            "Your workspace is out of credits. Ask your workspace owner to refill in order to continue.",
            None,
            Category::UsageLimit,
        ),
        (
            "You exceeded your current quota, please check your plan and billing details.",
            Some(429),
            Category::UsageLimit,
        ),
        ("Credit balance is too low", None, Category::Billing),
        ("billing_error", None, Category::Billing),
        ("", Some(402), Category::Billing),
        (
            "rate_limit_error: This request would exceed your organization's rate limit",
            None,
            Category::RateLimit,
        ),
        ("Rate limit reached for gpt-5.5", None, Category::RateLimit),
        (
            "ThrottlingException: Rate exceeded",
            None,
            Category::RateLimit,
        ),
        ("TooManyRequestsException", None, Category::RateLimit),
        (
            "overloaded_error: Overloaded",
            Some(529),
            Category::Overloaded,
        ),
        ("503 Service Unavailable", None, Category::Overloaded),
        ("", Some(529), Category::Overloaded),
        ("invalid x-api-key", None, Category::Auth),
        ("Incorrect API key provided", None, Category::Auth),
        (
            "API key not valid. Please pass a valid API key.",
            Some(400),
            Category::Auth,
        ),
        ("OAuth token has expired", None, Category::Auth),
        ("ExpiredTokenException", None, Category::Auth),
        (
            "AccessDeniedException: not authorized to perform bedrock:InvokeModel",
            None,
            Category::Auth,
        ),
        (
            r#"{"type":"not_found_error","message":"model: nope"}"#,
            Some(404),
            Category::ModelNotFound,
        ),
        (
            "The model `nope` does not exist or you do not have access to it",
            Some(404),
            Category::ModelNotFound,
        ),
        (
            "models/nope is not found for API version v1beta",
            Some(404),
            Category::ModelNotFound,
        ),
        (
            "There's an issue with the selected model (nope).",
            None,
            Category::ModelNotFound,
        ),
        ("Not Found", Some(404), Category::Other),
        ("Request timed out.", None, Category::Timeout),
        ("", Some(504), Category::Timeout),
        ("", Some(408), Category::Timeout),
        ("spawn codex ENOENT", None, Category::NotInstalled),
        (
            "the native binary was terminated by signal SIGKILL; no platform package fits",
            None,
            Category::ProcessExit,
        ),
        // Numbers that count, and texts about such things.
        ("wrote 4290 bytes", None, Category::Other),
        ("error 4290 of 5000", None, Category::Other),
        ("wrote 429 bytes", None, Category::Other),
        ("syntax error at line 429", None, Category::Other),
        ("agents write about rate limits", None, Category::Other),
        ("could not compile the rate limiter", None, Category::Other),
        ("the test of rate-limiting failed", None, Category::Other),
        ("port 4010 is taken", None, Category::Other),
        ("file not found", None, Category::Other),
        (
            "the session failed since the command was not found",
            None,
            Category::Other,
        ),
        ("the model said no", None, Category::Other),
        ("", None, Category::Other),
        ("", Some(500), Category::Other),
        ("", Some(418), Category::Other),
    ] {
        assert_eq!(classify(text, http), category, "{text:?} {http:?}");
    }
}

#[test]
fn unknown_sessions_are_told_from_other_failures() {
    for text in [
        "No conversation found with session ID: 9",
        "--resume requires a valid session ID when used with --print; \"x\" does not match any session title",
        "unknown thread",
        "Session no-such-session not found",
        "Session not found: no-such-session",
        "Invalid params: session not found: no-such-session",
        "conversation with id abc not found",
        "missing rollout path for thread x",
        "state db missing rollout path",
        "NotFoundError",
        "Resource not found",
        "Error: Invalid session ID. Must be a valid UUID.",
        "resource not found: /x/session/y.json",
        "No session found",
        "cannot resume",
        "\u{1b}[91mError: \u{1b}[0mSession not found",
    ] {
        assert!(is_unknown_session(text), "{text}");
    }
    for text in [
        "",
        "ProviderModelNotFoundError",
        "Model not found: x",
        "the session ended: file a/b/c of the project not found",
        "no session token",
        "Method not found",
        "command not found",
    ] {
        assert!(!is_unknown_session(text), "{text}");
    }
}

/// 2026-05-14 12:00:00 UTC, a Thursday.
fn noon() -> SystemTime {
    humantime::parse_rfc3339("2026-05-14T12:00:00Z").unwrap()
}

#[test]
fn times_to_retry_are_read() {
    for (text, time) in [
        ("resets 3pm (UTC)", "2026-05-14T15:00:00Z"),
        ("resets 3pm (GMT)", "2026-05-14T15:00:00Z"),
        ("resets 3am", "2026-05-15T03:00:00Z"),
        ("resets 11:59am (UTC)", "2026-05-14T12:01:00Z"),
        ("resets 11:50am (UTC)", "2026-05-15T11:50:00Z"),
        ("resets May 14, 5pm (UTC)", "2026-05-14T17:00:00Z"),
        ("resets May 16, 5:30pm (UTC)", "2026-05-16T17:30:00Z"),
        ("try again at 8:35 PM", "2026-05-14T20:35:00Z"),
        ("or try again at 12:05 AM.", "2026-05-15T00:05:00Z"),
        (
            "try again at May 15th, 2026 8:35 PM.",
            "2026-05-15T20:35:00Z",
        ),
        ("try again at 20:35", "2026-05-14T20:35:00Z"),
        ("retry after 300 seconds", "2026-05-14T12:05:00Z"),
        ("Retry-After: 300", "2026-05-14T12:05:00Z"),
        ("please wait 5 minutes", "2026-05-14T12:05:00Z"),
        ("Please try again in 1h 20m", "2026-05-14T13:20:00Z"),
        (
            "Please try again in 2 hours and 3 minutes.",
            "2026-05-14T14:03:00Z",
        ),
        ("Please retry in 334.5s.", "2026-05-14T12:05:34Z"),
        (r#""retryDelay": "334s""#, "2026-05-14T12:05:34Z"),
        (
            "Your quota will reset after 2h3m5s.",
            "2026-05-14T14:03:05Z",
        ),
        ("usage limit reached|1778770800", "2026-05-14T15:00:00Z"),
        (r#"{"resetsAt":1778770800}"#, "2026-05-14T15:00:00Z"),
        ("resets at 2026-05-14T15:00:00.123Z", "2026-05-14T15:00:00Z"),
        // Held between a minute and seven days.
        ("try again in 20ms", "2026-05-14T12:01:00Z"),
        ("try again in 5s", "2026-05-14T12:01:00Z"),
        ("try again in 30 days", "2026-05-21T12:00:00Z"),
        (r#"{"resetsAt":1600000000}"#, "2026-05-14T12:01:00Z"),
        ("resets Jan 2, 5pm", "2026-05-21T12:00:00Z"),
    ] {
        let found =
            retry_at(text, noon()).map(|time| humantime::format_rfc3339_seconds(time).to_string());
        assert_eq!(found.as_deref(), Some(time), "{text}");
    }
    for text in [
        "",
        "try again later",
        "try again in a moment",
        "resets soon",
        "resets 25pm",
        "try again at 99:99",
        "retry 3 of 5",
        "resets 3pm (America/New_York)",
        "resets Foo 3",
        "try again at 7",
        "resets 13:77",
        "resets Feb 31, 5pm",
    ] {
        assert_eq!(retry_at(text, noon()), None, "{text}");
    }
}

#[test]
fn a_failed_turn_tells_all_that_is_known() {
    let error = failed(
        "\u{1b}[31mYou've hit your usage limit; try again in 2 hours\u{1b}[0m\n",
        Some(429),
    );
    assert_eq!(error.status(), Status::Limit);
    let failure = error.failure();
    assert_eq!(failure.category, Some(Category::UsageLimit));
    assert_eq!(
        failure.message.as_deref(),
        Some("You've hit your usage limit; try again in 2 hours")
    );
    assert_eq!(failure.code.as_deref(), Some("429"));
    let retry = humantime::parse_rfc3339(failure.retry_at.as_deref().unwrap()).unwrap();
    let hours = retry
        .duration_since(SystemTime::now())
        .unwrap()
        .as_secs()
        .div_ceil(60);
    assert!((119..=120).contains(&hours), "{hours}");

    let error = failed("boom, try again in 2 hours", None);
    assert_eq!(error.status(), Status::Failed);
    assert_eq!(
        (
            error.failure().code.as_deref(),
            error.failure().retry_at.as_deref()
        ),
        (None, None)
    );
}

#[test]
fn a_message_is_cut_at_a_character_and_holds_no_secret() {
    let long = message(&"ü".repeat(5000));
    assert!(
        long.len() <= LONGEST_MESSAGE && long.ends_with("ü…"),
        "{}",
        long.len()
    );
    assert_eq!(message(&"x".repeat(LONGEST_MESSAGE)).len(), LONGEST_MESSAGE);
    assert!(
        !message("key sk-ant-abcdefghijklmnopqrstuvwxyz0123456789 is wrong").contains("abcdefghij")
    );
}

#[test]
fn the_end_of_a_long_text_counts() {
    let text = format!("{}\nToo Many Requests", "ü".repeat(1_000_000));
    assert_eq!(classify(&text, None), Category::RateLimit);
}

proptest! {
    #[test]
    fn any_text_is_taken(text in "(\\PC|resets |try again (in|at) |[0-9]{1,12}|[ :apm]|May |session |not found)*", http in proptest::option::of(any::<u16>()), seconds in 0_u64..4_000_000_000) {
        let now = UNIX_EPOCH + Duration::from_secs(seconds);
        classify(&text, http);
        is_unknown_session(&text);
        if let Some(time) = retry_at(&text, now) {
            prop_assert!(time >= now + Duration::from_secs(60) && time <= now + Duration::from_secs(7 * 86_400));
        }
        let error = failed(text, http);
        prop_assert!(error.failure().message.as_deref().unwrap_or_default().len() <= LONGEST_MESSAGE);
    }
}
