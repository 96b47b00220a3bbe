//! The console: a page and its assets, which this program carries. They hold nothing of this daemon.

use axum::{
    http::{HeaderValue, header},
    response::{IntoResponse, Response},
};

/// The page, and where the token of a handover stands in it.
const PAGE: &str = include_str!("../../console/dist/index.html");
const HEAD: &str = "</head>";

/// No script but its own, nothing of another site, no markup from text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
                      connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
                      require-trusted-types-for 'script'";

/// The page.
pub(crate) fn page() -> Response {
    asset("text/html; charset=utf-8", PAGE)
}

/// The page for one who has given a good code. A token has letters, digits and `_` alone.
pub(crate) fn page_with(token: &str) -> Response {
    let meta = format!("<meta name=\"trunkline-token\" content=\"{token}\">{HEAD}");
    let page = PAGE.replacen(HEAD, &meta, 1);
    let mut response = asset("text/html; charset=utf-8", page);
    response
        .headers_mut()
        .insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

pub(crate) fn script() -> Response {
    asset(
        "text/javascript; charset=utf-8",
        include_str!("../../console/dist/app.js"),
    )
}

pub(crate) fn style() -> Response {
    asset(
        "text/css; charset=utf-8",
        include_str!("../../console/dist/app.css"),
    )
}

pub(crate) fn icon() -> Response {
    asset("image/svg+xml", include_str!("../../console/dist/icon.svg"))
}

fn asset(kind: &'static str, body: impl IntoResponse) -> Response {
    const HEADERS: [(header::HeaderName, HeaderValue); 2] = [
        (
            header::CONTENT_SECURITY_POLICY,
            HeaderValue::from_static(POLICY),
        ),
        // Of this program's version alone.
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
    ];
    (
        [(header::CONTENT_TYPE, HeaderValue::from_static(kind))],
        HEADERS,
        body,
    )
        .into_response()
}
