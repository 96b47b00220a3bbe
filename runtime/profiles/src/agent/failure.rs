//! Categories of agents' failures: detection tables, used only after a failure, since agents write
//! about rate limits, too.

mod retry;
mod sentence;
mod status;
mod table;

use std::{borrow::Cow, time::SystemTime};

use trunkline_sdk::protocol::ErrorEvent;
use trunkline_sdk::{Category, Error};

/// The longest message of a failure, in bytes.
pub(crate) const LONGEST_MESSAGE: usize = 4 * 1024;

/// Bytes of a long text that are searched, at either end.
const LOOKED_AT: usize = 32 * 1024;

/// Returns the category of a failure, by its text, and by the HTTP status if the text does not
/// help.
///
/// The text is the agent's error, never its earlier output.
pub(crate) fn classify(text: &str, http: Option<u16>) -> Category {
    let text = trunkline_sdk::preview::without_escapes(text);
    let text = ends(&text);
    table::by_words(&text)
        .or_else(|| http.and_then(|status| status::category(status, &text)))
        .or_else(|| status::in_text(&text).and_then(|status| status::category(status, &text)))
        .unwrap_or(Category::Other)
}

/// Checks a pattern of an agent's file.
///
/// # Errors
/// Why it is not a regular expression.
pub(crate) fn check_pattern(pattern: &str) -> Result<(), String> {
    table::check(pattern)
}

/// Returns true if the agent reports that it knows no session of the id to resume.
pub(crate) fn is_unknown_session(text: &str) -> bool {
    let text = trunkline_sdk::preview::without_escapes(text);
    table::is_unknown_session(&ends(&text))
}

/// Returns the time for a retry, if the text contains it: at least a minute from now, at most seven
/// days.
pub(crate) fn retry_at(text: &str, now: SystemTime) -> Option<SystemTime> {
    let text = trunkline_sdk::preview::without_escapes(text);
    retry::time(&ends(&text), now).map(|time| retry::clamp(time, now))
}

/// Returns the end of a turn that failed with this text: its category, the text without escapes and
/// cut, the status as the code, and the time for a retry if the text contains it. Used-up turns,
/// budgets and quotas end it as `limit`.
pub(crate) fn failed(text: impl Into<String>, http: Option<u16>) -> Error {
    let text = text.into();
    with_category(classify(&text, http), text, http)
}

/// [`failed`], for a category that is known already. Of a provider's JSON its message is shown.
pub(crate) fn with_category(
    category: Category,
    text: impl Into<String>,
    http: Option<u16>,
) -> Error {
    let text = text.into();
    let message = message(&sentence::unwrap_json(&text));
    let error = match category {
        Category::MaxTurns | Category::UsageLimit => Error::limit(category, message),
        _ => Error::new(category, message),
    };
    let error = match http {
        Some(status) => error.code(status.to_string()),
        None => error,
    };
    let waits = matches!(
        category,
        Category::RateLimit | Category::UsageLimit | Category::Overloaded | Category::Billing
    );
    match waits.then(|| retry_at(&text, SystemTime::now())).flatten() {
        Some(time) => error.retry_at(humantime::format_rfc3339_seconds(time).to_string()),
        None => error,
    }
}

/// Returns a partial failure, after which the turn or session continues.
pub(crate) fn warning(category: Category, message: impl Into<String>) -> ErrorEvent {
    let category = Some(category);
    let fatal = Some(false);
    ErrorEvent {
        category,
        message: message.into(),
        fatal,
        ..ErrorEvent::default()
    }
}

/// Returns the text for a person: no escapes, no secrets, not too long.
pub(crate) fn message(text: &str) -> String {
    let text = trunkline_sdk::preview::without_escapes(text);
    let text = text.trim();
    let text = trunkline_redact::text(start(text, LONGEST_MESSAGE * 2));
    let cut = start(&text, LONGEST_MESSAGE - '…'.len_utf8());
    if text.len() <= LONGEST_MESSAGE {
        text.into_owned()
    } else {
        format!("{cut}…")
    }
}

/// At most so many bytes of the text, whole characters.
fn start(text: &str, longest: usize) -> &str {
    &text[..text.floor_char_boundary(longest)]
}

/// The beginning and the end of a long text.
fn ends(text: &str) -> Cow<'_, str> {
    if text.len() <= 2 * LOOKED_AT {
        return Cow::Borrowed(text);
    }
    let end = text.ceil_char_boundary(text.len() - LOOKED_AT);
    Cow::Owned(format!("{}\n{}", start(text, LOOKED_AT), &text[end..]))
}

#[cfg(test)]
mod tests;
