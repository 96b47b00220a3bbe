//! Request until its answer begins: redirects, refusals, and retries.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use reqwest::{
    Client, Method, Response, StatusCode, Url,
    header::{HeaderMap, LOCATION},
};
use tokio::time::{sleep, timeout};
use uuid::Uuid;

use super::{
    config::{HttpConfig, Redirects, Retry},
    failure::{FailedRequest, RequestProgress, TOLD, shown},
};
use crate::agent::deadlines::within;

/// Limit of redirects.
const REDIRECTS: usize = 5;

/// Timeout for the beginning of a refusal's body.
const REFUSAL: Duration = Duration::from_secs(5);

/// The first wait before something is tried again; it doubles each time.
const FIRST_WAIT: Duration = Duration::from_millis(250);

/// The longest wait before something is tried again. A server that asks for a longer one is not asked again.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// A request, ready to be sent.
#[derive(Debug, Clone)]
pub(super) struct PreparedRequest {
    pub(super) method: Method,
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    pub(super) body: Option<Bytes>,
}

/// Sends a request, again where that is safe, until an answer begins.
pub(super) async fn send(
    client: &Client,
    config: &HttpConfig,
    first: &PreparedRequest,
) -> Result<Response, FailedRequest> {
    let mut tries = 0;
    loop {
        let failed = match follow(client, config, first).await {
            Ok(response) => return Ok(response),
            Err(failed) => failed,
        };
        let left = tries < config.max_retries;
        let Some(wait) = (left && may_repeat(config.retry, &first.method, &failed))
            .then(|| wait_before(tries, failed.wait, jitter()))
            .flatten()
        else {
            return Err(failed);
        };
        tracing::debug!(url = shown(&first.url), tries, ?wait, error = %failed.error, "the request is sent again");
        sleep(wait).await;
        tries += 1;
    }
}

async fn follow(
    client: &Client,
    config: &HttpConfig,
    first: &PreparedRequest,
) -> Result<Response, FailedRequest> {
    let mut hop = first.clone();
    for hops in 0..=REDIRECTS {
        // Behind a redirect the request has been somewhere, and may have done something there.
        let failed = |failed: FailedRequest| {
            if hops == 0 {
                failed
            } else {
                failed.has_arrived()
            }
        };
        let mut request = client
            .request(hop.method.clone(), hop.url.clone())
            .headers(hop.headers.clone());
        if let Some(body) = &hop.body {
            request = request.body(body.clone());
        }
        let sent = within(config.timeout.0, request.send()).await;
        let response = sent.map_err(|longest| FailedRequest::quiet(&hop.url, longest))?;
        let response = response.map_err(|error| failed(FailedRequest::client(&hop.url, error)))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        let location = response
            .headers()
            .get(LOCATION)
            .and_then(|value| value.to_str().ok());
        if let (true, Some(location)) = (status.is_redirection(), location)
            && config.redirects != Redirects::None
        {
            hop = redirected(&hop, status, location, config.redirects)
                .map_err(|why| FailedRequest::unmade(&why))?;
            continue;
        }
        return Err(refused(&hop.url, response).await);
    }
    Err(FailedRequest::unmade(&format!(
        "{} redirects more than {REDIRECTS} times",
        shown(&first.url)
    )))
}

async fn refused(url: &Url, mut response: Response) -> FailedRequest {
    let status = response.status();
    let headers = response.headers().clone();
    let mut body = Vec::new();
    // An unreadable body is not reported; the status is enough.
    let _ = timeout(REFUSAL, async {
        while body.len() < TOLD
            && let Ok(Some(piece)) = response.chunk().await
        {
            body.extend_from_slice(&piece);
        }
    })
    .await;
    body.truncate(TOLD);
    FailedRequest::status(
        url,
        status,
        &headers,
        &String::from_utf8_lossy(&body),
        SystemTime::now(),
    )
}

/// Returns the target of a redirect. Headers and body are sent only to the origin that they were
/// configured for.
fn redirected(
    hop: &PreparedRequest,
    status: StatusCode,
    location: &str,
    allowed: Redirects,
) -> Result<PreparedRequest, String> {
    let from = shown(&hop.url);
    let mut url = hop
        .url
        .join(location)
        .map_err(|error| format!("{from} redirects to no URL: {error}"))?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(format!(
            "{from} redirects to {}:, which is not followed",
            url.scheme()
        ));
    }
    if hop.url.scheme() == "https" && url.scheme() == "http" {
        return Err(format!(
            "{from} redirects to {} without TLS, which is not followed",
            shown(&url)
        ));
    }
    // What the server made up is not sent as a credential; what was configured for the origin is.
    let same_origin = url.origin() == hop.url.origin();
    let (user, password) = if same_origin {
        (hop.url.username(), hop.url.password())
    } else {
        ("", None)
    };
    let _ = url
        .set_username(user)
        .and_then(|()| url.set_password(password));
    let keeps_method =
        matches!(status.as_u16(), 307 | 308) || matches!(hop.method, Method::GET | Method::HEAD);
    let method = if keeps_method {
        hop.method.clone()
    } else {
        Method::GET
    };
    let body = hop.body.clone().filter(|_| keeps_method);
    if !same_origin && allowed == Redirects::SameOrigin {
        return Err(format!(
            "{from} redirects to {}, which is not followed; if it may be, set `base_url` to it, or `redirects` to \"any\"",
            shown(&url)
        ));
    }
    if !same_origin && body.is_some() {
        return Err(format!(
            "{from} wants the request sent to {}, which is not done",
            shown(&url)
        ));
    }
    let mut headers = if same_origin {
        hop.headers.clone()
    } else {
        HeaderMap::new()
    };
    if body.is_none() {
        headers.remove("content-type");
    }
    Ok(PreparedRequest {
        method,
        url,
        headers,
        body,
    })
}

/// Returns true if a request may be sent again.
fn may_repeat(retry: Retry, method: &Method, failed: &FailedRequest) -> bool {
    match (retry, failed.reached) {
        (Retry::Never, _) | (_, RequestProgress::Answered) => false,
        (Retry::Always, _) | (Retry::Safe, RequestProgress::NoServer) => true,
        (Retry::Safe, RequestProgress::Perhaps | RequestProgress::Refused) => {
            method.is_idempotent()
        }
    }
}

/// The wait before the next try, with full jitter; nothing where the server asks for more than is waited.
fn wait_before(tries: u32, asked: Option<Duration>, jitter: f64) -> Option<Duration> {
    let wait = FIRST_WAIT
        .saturating_mul(2_u32.saturating_pow(tries))
        .min(LONGEST_WAIT)
        .mul_f64(jitter);
    match asked {
        Some(asked) => (asked <= LONGEST_WAIT).then(|| asked + wait),
        None => Some(wait),
    }
}

/// A number from 0 to 1.
fn jitter() -> f64 {
    f64::from(u32::try_from(Uuid::new_v4().as_u128() & 0xFFFF).unwrap_or_default())
        / f64::from(0xFFFF)
}

#[cfg(test)]
mod tests {
    use trunkline_sdk::Error;

    use super::*;

    fn hop(method: Method, url: &str, body: Option<&'static str>) -> PreparedRequest {
        let mut headers = HeaderMap::new();
        headers.insert("x-key", "secret".parse().unwrap());
        headers.insert("content-type", "text/plain".parse().unwrap());
        PreparedRequest {
            method,
            url: Url::parse(url).unwrap(),
            headers,
            body: body.map(Bytes::from),
        }
    }

    fn go(
        from: &PreparedRequest,
        status: u16,
        to: &str,
        allowed: Redirects,
    ) -> Result<(String, bool, bool), String> {
        let next = redirected(from, StatusCode::from_u16(status).unwrap(), to, allowed)?;
        Ok((
            format!("{} {}", next.method, next.url),
            next.headers.contains_key("x-key"),
            next.body.is_some(),
        ))
    }

    #[test]
    fn a_redirect_takes_no_credential_elsewhere() {
        let post = hop(Method::POST, "https://a.example/x", Some("body"));
        let get = hop(Method::GET, "https://a.example/x", None);
        let ok = |text: &str, key, body| Ok((text.to_owned(), key, body));
        use Redirects::{Any, SameOrigin};
        assert_eq!(
            go(&post, 307, "/y", SameOrigin),
            ok("POST https://a.example/y", true, true)
        );
        assert_eq!(
            go(&post, 303, "/y", SameOrigin),
            ok("GET https://a.example/y", true, false)
        );
        assert_eq!(
            go(&post, 302, "https://u:p@a.example/y", SameOrigin),
            ok("GET https://a.example/y", true, false)
        );
        let own = hop(Method::GET, "https://me:pw@a.example/x", None);
        for to in ["/y", "https://a.example/y", "https://u:p@a.example/y"] {
            assert_eq!(
                go(&own, 302, to, Any),
                ok("GET https://me:pw@a.example/y", true, false)
            );
        }
        assert_eq!(
            go(&own, 302, "https://b.example/", Any),
            ok("GET https://b.example/", false, false)
        );
        assert!(
            go(&post, 302, "https://b.example/", SameOrigin)
                .unwrap_err()
                .contains("https://b.example/")
        );
        assert!(go(&get, 302, "https://a.example:444/", SameOrigin).is_err());
        assert_eq!(
            go(&post, 303, "https://b.example/", Any),
            ok("GET https://b.example/", false, false)
        );
        assert_eq!(
            go(&get, 308, "https://b.example/", Any),
            ok("GET https://b.example/", false, false)
        );
        assert!(
            go(&post, 308, "https://b.example/", Any).is_err(),
            "the input goes to no one else"
        );
        assert!(
            go(&get, 302, "http://a.example/", Any)
                .unwrap_err()
                .contains("without TLS")
        );
        assert!(go(&get, 302, "file:///etc/passwd", Any).is_err());
    }

    #[test]
    fn only_what_is_safe_is_sent_again() {
        let repeats = |retry, method: Method, reached| {
            may_repeat(
                retry,
                &method,
                &FailedRequest {
                    error: Error::other(""),
                    reached,
                    wait: None,
                },
            )
        };
        let get = || Method::GET;
        let post = || Method::POST;
        use RequestProgress::{Answered, NoServer, Perhaps, Refused};
        assert!(repeats(Retry::Safe, post(), NoServer));
        assert!(!repeats(Retry::Safe, post(), Perhaps) && !repeats(Retry::Safe, post(), Refused));
        assert!(repeats(Retry::Safe, get(), Perhaps) && repeats(Retry::Safe, Method::PUT, Refused));
        assert!(
            repeats(Retry::Always, post(), Refused) && !repeats(Retry::Always, get(), Answered)
        );
        assert!(!repeats(Retry::Never, get(), NoServer));
    }

    #[test]
    fn waits_grow_and_a_long_one_is_not_waited() {
        let wait = |tries, asked: Option<u64>, jitter| {
            wait_before(tries, asked.map(Duration::from_secs), jitter)
        };
        assert_eq!(wait(0, None, 1.0), Some(FIRST_WAIT));
        assert_eq!(wait(1, None, 0.5), Some(FIRST_WAIT));
        assert_eq!(wait(40, None, 1.0), Some(LONGEST_WAIT));
        assert_eq!(wait(0, Some(3), 0.0), Some(Duration::from_secs(3)));
        assert_eq!(wait(0, Some(11), 0.0), None);
        assert!((0.0..=1.0).contains(&jitter()));
    }
}
