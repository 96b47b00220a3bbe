//! Entry points of the fuzz targets. Not part of the API.

use super::chunked::ChunkedReader;
use super::client_hello::HelloReader;
use super::head::{CompleteHead, HeadBuffer, ProxyRequest, ServerResponse};

/// Returns the complete head at the beginning of `portions`, and its length. Returns `Err` if the
/// head is rejected.
#[allow(
    clippy::result_unit_err,
    reason = "that it is refused is all that is asked"
)]
pub fn read_head(portions: &[&[u8]]) -> Result<Option<(Vec<u8>, usize)>, ()> {
    let mut buffer = HeadBuffer::default();
    for portion in portions {
        if let Some(CompleteHead { head, .. }) = buffer.push(portion).map_err(drop)? {
            let length = head.len();
            return Ok(Some((head, length)));
        }
    }
    Ok(None)
}

/// Returns the head that the server receives, if `head` is a plain request that is forwarded.
pub fn rewrite_request(head: &[u8]) -> Option<Vec<u8>> {
    match ProxyRequest::parse(head, None).ok()? {
        ProxyRequest::Plain(plain) => Some(plain.rewritten),
        ProxyRequest::Connect(_) => None,
    }
}

/// Returns the head that the client receives, if the response is forwarded.
pub fn rewrite_response(head: &[u8], to_head: bool) -> Option<Vec<u8>> {
    Some(ServerResponse::parse(head, to_head, false).ok()?.rewritten)
}

/// Returns true if a chunked body is complete, and the rewritten body. Returns `None` if it is
/// rejected.
pub fn rewrite_chunked(portions: &[&[u8]]) -> Option<(bool, Vec<u8>)> {
    let mut reader = ChunkedReader::default();
    let mut out = Vec::new();
    let mut done = false;
    for portion in portions {
        done = reader.push(portion, &mut out).ok()?.is_some();
    }
    Some((done, out))
}

/// Returns the name in a ClientHello, true if there may be another one that is encrypted, and the
/// end of the message. Returns `None` if there is no ClientHello or it is rejected.
pub fn read_client_hello(portions: &[&[u8]]) -> Option<(Option<String>, bool, usize)> {
    let mut reader = HelloReader::default();
    let mut before = 0;
    for portion in portions {
        if let Some((hello, end)) = reader.push(portion).ok()? {
            return Some((hello.server_name, hello.encrypted, before + end));
        }
        before += portion.len();
    }
    None
}
