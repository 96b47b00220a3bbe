//! Failures, in the form of a turn's end.

use std::time::{Duration, SystemTime};

use reqwest::{StatusCode, Url, header::HeaderMap};
use trunkline_redact as redact;
use trunkline_sdk::{Category, Error, protocol::format_duration};

/// Reported bytes of a refusal's body.
pub(super) const TOLD: usize = 4096;

/// The longest wait that a server may name; beyond it, the date is taken for nonsense.
const LONGEST: Duration = Duration::from_secs(31 * 24 * 3600);

/// A request that came to nothing.
#[derive(Debug)]
pub(super) struct FailedRequest {
    pub(super) error: Error,
    /// Progress of the request.
    pub(super) reached: RequestProgress,
    /// Wait that the server demands.
    pub(super) wait: Option<Duration>,
}

/// Progress of a failed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RequestProgress {
    /// Nothing was sent: there was no connection.
    NoServer,
    /// The request may have been sent, without any reply.
    Perhaps,
    /// The server reports that it could not serve it now.
    Refused,
    /// The server has answered.
    Answered,
}

impl FailedRequest {
    fn new(reached: RequestProgress, category: Category, message: &str) -> Self {
        Self {
            error: Error::new(category, redact::text(message)),
            reached,
            wait: None,
        }
    }

    /// The request cannot be made: nothing was sent, and it is no use to try again.
    pub(super) fn unmade(message: &str) -> Self {
        Self::new(RequestProgress::Answered, Category::Other, message)
    }

    /// The same, of a request that some server has had.
    pub(super) fn has_arrived(self) -> Self {
        let reached = if self.reached == RequestProgress::NoServer {
            RequestProgress::Perhaps
        } else {
            self.reached
        };
        Self { reached, ..self }
    }

    /// No answer in time.
    pub(super) fn quiet(url: &Url, limit: Duration) -> Self {
        let text = format!(
            "{} has not answered for {}; a longer `timeout` waits longer",
            shown(url),
            format_duration(limit)
        );
        Self::new(RequestProgress::Perhaps, Category::Timeout, &text)
    }

    /// The client failed.
    pub(super) fn client(url: &Url, error: reqwest::Error) -> Self {
        let error = error.without_url();
        if error.is_connect() && error.is_timeout() {
            let text = format!(
                "no connection to {}: it took longer than `connect_timeout`",
                shown(url)
            );
            return Self::new(RequestProgress::NoServer, Category::Timeout, &text);
        }
        let (reached, what) = if error.is_connect() {
            (RequestProgress::NoServer, "no connection to")
        } else {
            (RequestProgress::Perhaps, "no answer from")
        };
        let why = innermost(&error);
        let hint = if why.contains("UnknownIssuer") {
            "; `ca_file` names certificates to trust"
        } else {
            ""
        };
        Self::new(
            reached,
            Category::Other,
            &format!("{what} {}: {why}{hint}", shown(url)),
        )
    }

    /// Returns the failure for a status that is not a success. `body` is the beginning of the
    /// answer.
    pub(super) fn status(
        url: &Url,
        status: StatusCode,
        headers: &HeaderMap,
        body: &str,
        now: SystemTime,
    ) -> Self {
        let body = body.trim();
        let colon = if body.is_empty() { "" } else { ": " };
        let text =
            redact::text(&format!("HTTP {status} from {}{colon}{body}", shown(url))).into_owned();
        let mut error = Error::new(category_of(status, body), text).code(status.as_str());
        let wait = headers
            .get("retry-after")
            .and_then(|value| value.to_str().ok());
        let wait = wait.and_then(|value| wait_of(value, now));
        if let Some(wait) = wait {
            error = error.retry_at(humantime::format_rfc3339_seconds(now + wait).to_string());
        }
        let reached = match status.as_u16() {
            429 | 502..=504 | 529 => RequestProgress::Refused,
            _ => RequestProgress::Answered,
        };
        Self {
            error,
            reached,
            wait,
        }
    }
}

/// Returns the text of an error's innermost cause: the layers above only repeat each other.
pub(super) fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    cause.to_string()
}

/// A URL without what may be secret in it: user, password, query and fragment.
pub(super) fn shown(url: &Url) -> String {
    format!("{}{}", url.origin().ascii_serialization(), url.path())
}

fn category_of(status: StatusCode, body: &str) -> Category {
    let body = body.to_ascii_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| body.contains(word));
    match status.as_u16() {
        401 | 403 | 407 => Category::Auth,
        402 => Category::Billing,
        408 | 504 => Category::Timeout,
        429 if says(&[
            "insufficient_quota",
            "quota exceeded",
            "usage limit",
            "usage_limit",
        ]) =>
        {
            Category::UsageLimit
        }
        429 => Category::RateLimit,
        503 | 529 => Category::Overloaded,
        500.. if says(&["overloaded"]) => Category::Overloaded,
        413 => Category::Oversize,
        400 | 422
            if says(&[
                "context_length_exceeded",
                "context length",
                "prompt is too long",
            ]) =>
        {
            Category::ContextExhausted
        }
        400 | 404 if says(&["model_not_found", "model not found"]) => Category::ModelNotFound,
        _ => Category::Other,
    }
}

/// Returns the wait in a `Retry-After`: seconds, or a date.
fn wait_of(value: &str, now: SystemTime) -> Option<Duration> {
    let value = value.trim();
    let wait = match value.parse::<u64>() {
        Ok(seconds) => Duration::from_secs(seconds),
        Err(_) => date_of(value)?.duration_since(now).unwrap_or_default(),
    };
    (wait <= LONGEST).then_some(wait)
}

/// A date as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
fn date_of(text: &str) -> Option<SystemTime> {
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (_, date) = text.split_once(", ")?;
    let mut words = date.split(' ');
    let day = words.next()?;
    let month = words.next()?;
    let year = words.next()?;
    let time = words.next()?;
    let month = MONTHS.iter().position(|known| *known == month)? + 1;
    humantime::parse_rfc3339(&format!("{year}-{month:02}-{day}T{time}Z")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failed(status: u16, headers: &[(&'static str, &str)], body: &str) -> Error {
        let url = Url::parse("https://user:pw@api.example.com:8443/v1?key=hunter2#x").unwrap();
        let mut map = HeaderMap::new();
        for (name, value) in headers {
            map.insert(*name, value.parse().unwrap());
        }
        let now = humantime::parse_rfc3339("1994-11-06T08:49:00Z").unwrap();
        FailedRequest::status(&url, StatusCode::from_u16(status).unwrap(), &map, body, now).error
    }

    #[test]
    fn a_status_has_its_category_and_the_first_words() {
        let error = failed(404, &[], " no such thing\n");
        let failure = error.failure();
        assert_eq!(
            failure.message.as_deref(),
            Some("HTTP 404 Not Found from https://api.example.com:8443/v1: no such thing")
        );
        assert_eq!(
            (failure.category, failure.code.as_deref()),
            (Some(Category::Other), Some("404"))
        );
        let category = |status, body| failed(status, &[], body).failure().category.unwrap();
        for (status, body, wanted) in [
            (401, "", Category::Auth),
            (403, "", Category::Auth),
            (402, "", Category::Billing),
            (408, "", Category::Timeout),
            (413, "", Category::Oversize),
            (429, "", Category::RateLimit),
            (
                429,
                r#"{"error":{"code":"insufficient_quota"}}"#,
                Category::UsageLimit,
            ),
            (400, "rate limit", Category::Other),
            (
                400,
                "This model's maximum context length is",
                Category::ContextExhausted,
            ),
            (
                404,
                r#"{"code":"model_not_found"}"#,
                Category::ModelNotFound,
            ),
            (500, "", Category::Other),
            (500, "Overloaded", Category::Overloaded),
            (503, "", Category::Overloaded),
            (529, "", Category::Overloaded),
        ] {
            assert_eq!(category(status, body), wanted, "{status} {body}");
        }
    }

    #[test]
    fn a_wait_is_told_as_a_time() {
        let at = |value: &str| {
            failed(429, &[("retry-after", value)], "")
                .failure()
                .retry_at
                .clone()
        };
        assert_eq!(at("30").as_deref(), Some("1994-11-06T08:49:30Z"));
        assert_eq!(
            at("Sun, 06 Nov 1994 08:49:37 GMT").as_deref(),
            Some("1994-11-06T08:49:37Z")
        );
        assert_eq!(
            at("Sun, 06 Nov 1993 08:49:37 GMT").as_deref(),
            Some("1994-11-06T08:49:00Z")
        );
        for nonsense in [
            "soon",
            "-1",
            "99999999999999999999",
            "4000000",
            "Sun, 36 Foo 1994 08:49:37 GMT",
        ] {
            assert_eq!(at(nonsense), None, "{nonsense}");
        }
    }
}
