//! Compression by gzip, and entity tags.
//!
//! Answers with a secret are not compressed: their length would depend on it.

use std::io::Write;

use axum::{
    body::{Body, BodyDataStream, HttpBody},
    extract::Request,
    http::{HeaderMap, HeaderValue, Method, StatusCode, header},
    middleware::Next,
    response::Response,
};
use bytes::Bytes;
use flate2::{Compression, write::GzEncoder};
use futures_util::StreamExt;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::{
    auth::{handover, token::hex},
    http::{
        problem::{Answer, Problem},
        routes::read,
    },
};

/// Paths whose answers have a secret.
const SECRET_PATHS: [&str; 3] = ["/v1/tokens", "/v1/handover", handover::PATH];

/// Shortest body that is compressed, in bytes.
const MIN_COMPRESSED: u64 = 1024;

/// Longest body that gets an entity tag, or is compressed at once, in bytes.
const MAX_WHOLE: u64 = 8 * 1024 * 1024;

/// Compressed event streams at a time, of about 300 KiB each. A further one is sent as it is.
static COMPRESSED_STREAMS: Semaphore = Semaphore::const_new(64);

/// Gives an answer its entity tag, leaves out a body that the client has, and compresses it for a
/// client that accepts this.
pub(crate) async fn encode(request: Request, next: Next) -> Answer<Response> {
    let has_secret = SECRET_PATHS.contains(&request.uri().path());
    let is_get = request.method() == Method::GET;
    let headers = request.headers();
    check_request_codings(headers)?;
    let known = headers.get(header::IF_NONE_MATCH).cloned();
    let accepts_gzip = accepts_gzip(headers);
    let response = next.run(request).await;
    let is_encoded = response.headers().contains_key(header::CONTENT_ENCODING);
    if has_secret || !is_get {
        return Ok(response);
    }
    let response = if is_encoded {
        response
    } else {
        encode_body(response, accepts_gzip).await?
    };
    let tag = response.headers().get(header::ETAG);
    if response.status() == StatusCode::OK && matches_tag(known.as_ref(), tag) {
        let (mut head, _) = response.into_parts();
        for name in [
            header::CONTENT_TYPE,
            header::CONTENT_LENGTH,
            header::CONTENT_ENCODING,
        ] {
            head.headers.remove(name);
        }
        head.status = StatusCode::NOT_MODIFIED;
        return Ok(Response::from_parts(head, Body::empty()));
    }
    Ok(response)
}

/// Refuses a compressed request.
fn check_request_codings(headers: &HeaderMap) -> Answer<()> {
    let has_other = |name, plain: &str| {
        let mut values = headers.get_all(name).iter();
        values.any(|value| !value.as_bytes().eq_ignore_ascii_case(plain.as_bytes()))
    };
    if has_other(header::TRANSFER_ENCODING, "chunked") {
        return Err(Problem::unsupported(
            "the only transfer coding of a request is `chunked`",
        ));
    }
    if has_other(header::CONTENT_ENCODING, "identity") {
        return Err(Problem::new(
            StatusCode::UNSUPPORTED_MEDIA_TYPE,
            "the body of a request may not be compressed; leave `Content-Encoding` out",
        ));
    }
    Ok(())
}

async fn encode_body(response: Response, accepts_gzip: bool) -> Answer<Response> {
    let (mut head, body) = response.into_parts();
    let kind = head.headers.get(header::CONTENT_TYPE);
    let kind = kind.and_then(|kind| kind.to_str().ok()).unwrap_or_default();
    let is_events = kind.starts_with("text/event-stream");
    let is_json = kind.starts_with("application/json");
    if !is_json && !kind.starts_with("text/") {
        return Ok(Response::from_parts(head, body));
    }
    head.headers
        .append(header::VARY, HeaderValue::from_static("accept-encoding"));
    if is_events {
        let permit = accepts_gzip.then(|| COMPRESSED_STREAMS.try_acquire().ok());
        let Some(permit) = permit.flatten() else {
            return Ok(Response::from_parts(head, body));
        };
        mark_gzip(&mut head.headers);
        let body = GzipStream::new(body, permit).into_body();
        return Ok(Response::from_parts(head, body));
    }
    let Some(length) = body.size_hint().exact().filter(|size| *size <= MAX_WHOLE) else {
        return Ok(Response::from_parts(head, body));
    };
    let mut bytes = read(body, usize::MAX).await?;
    if is_json && head.status == StatusCode::OK {
        let tag = format!("W/\"{}\"", digest(&bytes));
        let tag = HeaderValue::try_from(tag).ok();
        tag.map(|tag| head.headers.entry(header::ETAG).or_insert(tag));
    }
    if accepts_gzip && length >= MIN_COMPRESSED {
        mark_gzip(&mut head.headers);
        bytes = gzip(&bytes, Compression::fast());
    }
    Ok(Response::from_parts(head, Body::from(bytes)))
}

fn mark_gzip(headers: &mut HeaderMap) {
    headers.remove(header::CONTENT_LENGTH);
    headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
}

/// Returns a digest for an entity tag.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex(&hmac_sha256::Hash::hash(bytes))[..32].to_owned()
}

/// Compresses a whole body.
pub(crate) fn gzip(bytes: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), level);
    encoder
        .write_all(bytes)
        .and_then(|()| encoder.finish())
        .expect("a Vec takes all")
}

/// Returns `true` if a client accepts gzip by its name.
pub(crate) fn accepts_gzip(headers: &HeaderMap) -> bool {
    let values = headers.get_all(header::ACCEPT_ENCODING).into_iter();
    let values = values.filter_map(|value| value.to_str().ok());
    values.flat_map(|value| value.split(',')).any(|coding| {
        let (name, quality) = coding.split_once(';').unwrap_or((coding, "q=1"));
        let quality = quality.trim().strip_prefix("q=");
        let quality = quality.and_then(|quality| quality.parse::<f32>().ok());
        name.trim().eq_ignore_ascii_case("gzip") && quality.is_some_and(|quality| quality > 0.0)
    })
}

/// Compares a tag with the tags of `If-None-Match`, weakly.
fn matches_tag(known: Option<&HeaderValue>, tag: Option<&HeaderValue>) -> bool {
    let (Some(known), Some(tag)) = (known, tag) else {
        return false;
    };
    let opaque = |tag: &'_ str| tag.trim().trim_start_matches("W/").to_owned();
    let (Ok(known), Ok(tag)) = (known.to_str(), tag.to_str()) else {
        return false;
    };
    known
        .split(',')
        .any(|known| known.trim() == "*" || opaque(known) == opaque(tag))
}

/// A body whose chunks can each be decompressed as soon as they arrive.
struct GzipStream {
    body: BodyDataStream,
    /// `None` after the end.
    encoder: Option<GzEncoder<Vec<u8>>>,
    _permit: SemaphorePermit<'static>,
}

impl GzipStream {
    fn new(body: Body, permit: SemaphorePermit<'static>) -> Self {
        Self {
            body: body.into_data_stream(),
            encoder: Some(GzEncoder::new(Vec::new(), Compression::fast())),
            _permit: permit,
        }
    }

    fn into_body(self) -> Body {
        let next = async |mut stream: Self| stream.next().await.map(|chunk| (chunk, stream));
        Body::from_stream(futures_util::stream::unfold(self, next))
    }

    async fn next(&mut self) -> Option<Result<Bytes, axum::Error>> {
        // A stream that has ended is not polled again.
        self.encoder.as_ref()?;
        let chunk = match self.body.next().await {
            Some(Ok(chunk)) => chunk,
            Some(Err(error)) => return Some(Err(error)),
            None => {
                let rest = self.encoder.take()?.finish();
                return Some(rest.map(Bytes::from).map_err(axum::Error::new));
            }
        };
        let encoder = self.encoder.as_mut()?;
        let written = encoder.write_all(&chunk).and_then(|()| encoder.flush());
        let compressed = std::mem::take(encoder.get_mut());
        Some(
            written
                .map(|()| compressed.into())
                .map_err(axum::Error::new),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_used_for_clients_that_accept_it() {
        for (value, accepts) in [
            ("gzip", true),
            ("br, GZIP;q=0.5", true),
            ("deflate, gzip ; q=0", false),
            ("gzip;q=x", false),
            ("br", false),
            ("*", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(value));
            assert_eq!(accepts_gzip(&headers), accepts, "{value}");
        }
    }

    #[test]
    fn tags_are_compared_weakly() {
        let tag = HeaderValue::from_static("W/\"a\"");
        for (known, matches) in [
            ("\"a\"", true),
            ("W/\"b\" , W/\"a\"", true),
            ("*", true),
            ("a", false),
            ("\"b\"", false),
        ] {
            let known = HeaderValue::from_static(known);
            assert_eq!(matches_tag(Some(&known), Some(&tag)), matches, "{known:?}");
        }
    }
}
