//! The console: a page and its assets, which this program contains. They have nothing of this daemon.

use std::sync::LazyLock;

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderName, HeaderValue, header},
    response::{IntoResponse, Response},
};
use flate2::Compression;

use crate::http::{
    encoding::{accepts_gzip, digest, gzip},
    problem::Problem,
};

/// The page, and the place in it for a value.
const PAGE: &str = include_str!("../../console/dist/index.html");
const HEAD: &str = "</head>";
const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

/// No script but its own, nothing of another site, no markup from text.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' blob:; \
                      connect-src 'self'; manifest-src 'self'; base-uri 'none'; \
                      form-action 'self'; frame-ancestors 'none'; require-trusted-types-for 'script'";

const POLICY_HEADER: (HeaderName, HeaderValue) = (
    header::CONTENT_SECURITY_POLICY,
    HeaderValue::from_static(POLICY),
);

/// A file of this program, which all clients share.
#[derive(Debug)]
pub(crate) struct ConsoleAsset {
    kind: &'static str,
    plain: Bytes,
    gzip: Bytes,
    digest: String,
}

impl ConsoleAsset {
    fn new(kind: &'static str, text: &'static str) -> Self {
        Self {
            kind,
            plain: Bytes::from_static(text.as_bytes()),
            gzip: gzip(text.as_bytes(), Compression::best()).into(),
            digest: digest(text.as_bytes()),
        }
    }

    /// Answers with the file, compressed if the client accepts that. A browser asks each time
    /// whether its copy is current.
    pub(crate) fn respond(&self, headers: &HeaderMap) -> Response {
        let cache = (header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        let vary = (header::VARY, HeaderValue::from_static("accept-encoding"));
        let kind = (header::CONTENT_TYPE, HeaderValue::from_static(self.kind));
        let is_gzip = accepts_gzip(headers);
        let (body, suffix) = if is_gzip {
            (&self.gzip, "-gzip")
        } else {
            (&self.plain, "")
        };
        let answer = ([kind, POLICY_HEADER, cache, vary], body.clone());
        let mut response = answer.into_response();
        let headers = response.headers_mut();
        if is_gzip {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        // The forms are different bytes, so each has its strong tag.
        if let Ok(tag) = HeaderValue::try_from(format!("\"{}{suffix}\"", self.digest)) {
            headers.insert(header::ETAG, tag);
        }
        response
    }
}

/// Lists the assets by their paths. Each is compressed when it is first used.
macro_rules! assets {
    ($($path:literal, $kind:expr, $file:literal;)*) => {
        pub(crate) static ASSETS: [(&str, LazyLock<ConsoleAsset>); 7] = [$((
            $path,
            LazyLock::new(|| {
                ConsoleAsset::new($kind, include_str!(concat!("../../console/dist/", $file)))
            }),
        )),*];
    };
}

assets! {
    "/", HTML, "index.html";
    "/app.js", SCRIPT, "app.js";
    "/app.css", "text/css; charset=utf-8", "app.css";
    "/icon.svg", SVG, "icon.svg";
    "/icon-maskable.svg", SVG, "icon-maskable.svg";
    "/manifest.webmanifest", "application/manifest+json", "manifest.webmanifest";
    "/worker.js", SCRIPT, "worker.js";
}

/// Returns the page with a value for its script: `code` pairs the browser, `why` is a refusal.
pub(crate) fn page_with(name: &str, value: &str) -> Response {
    let value = value
        .replace('&', "&amp;")
        .replace('"', "&quot;")
        .replace('<', "&lt;");
    let meta = format!("<meta name=\"trunkline-{name}\" content=\"{value}\">{HEAD}");
    let page = PAGE.replacen(HEAD, &meta, 1);
    let kind = (header::CONTENT_TYPE, HeaderValue::from_static(HTML));
    let cache = (header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    ([kind, POLICY_HEADER, cache], page).into_response()
}

/// Returns the page that shows a problem.
pub(crate) fn failed_page(problem: Problem) -> Response {
    (problem.status(), page_with("why", &problem.into_detail())).into_response()
}
