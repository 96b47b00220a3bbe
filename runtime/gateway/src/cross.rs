//! Pages of other sites that the operator has named: what their browser asks first, and what it has
//! to read in an answer before it hands it over (the fetch standard's CORS). There are no cookies,
//! so a page has what its token gives it.

use axum::{
    extract::Request,
    http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header},
    response::{IntoResponse, Response},
};

/// Whether a browser only asks whether a page may ask.
pub(crate) fn is_preflight(request: &Request) -> bool {
    request.method() == Method::OPTIONS
        && request
            .headers()
            .contains_key(header::ACCESS_CONTROL_REQUEST_METHOD)
}

/// What a page may send. The browser remembers it for ten minutes.
pub(crate) fn preflight() -> Response {
    const HEADERS: [(HeaderName, &str); 3] = [
        (
            header::ACCESS_CONTROL_ALLOW_METHODS,
            "GET, POST, PUT, DELETE",
        ),
        (
            header::ACCESS_CONTROL_ALLOW_HEADERS,
            "authorization, content-type, idempotency-key, last-event-id, acp-connection-id, acp-session-id",
        ),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, HEADERS).into_response()
}

/// Says that pages of this origin may read an answer.
pub(crate) fn readable_for(origin: HeaderValue, headers: &mut HeaderMap) {
    headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    headers.insert(
        header::ACCESS_CONTROL_EXPOSE_HEADERS,
        HeaderValue::from_static("location, retry-after, acp-connection-id"),
    );
    headers.append(header::VARY, HeaderValue::from_static("origin"));
}
