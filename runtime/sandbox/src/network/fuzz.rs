//! A door for the fuzz targets; no part of the API.

use super::chunked::ChunkedReader;
use super::client_hello::HelloReader;
use super::head::{HeadBuffer, Request, Response, Whole};

/// The whole head at the beginning of what comes in portions, and how much of it all that is; `Err`
/// where it is refused.
#[allow(
    clippy::result_unit_err,
    reason = "that it is refused is all that is asked"
)]
pub fn whole_head(portions: &[&[u8]]) -> Result<Option<(Vec<u8>, usize)>, ()> {
    let mut buffer = HeadBuffer::default();
    for portion in portions {
        if let Some(Whole { head, .. }) = buffer.push(portion).map_err(drop)? {
            let length = head.len();
            return Ok(Some((head, length)));
        }
    }
    Ok(None)
}

/// What a server gets of a plain request, if it is passed on.
pub fn request(head: &[u8]) -> Option<Vec<u8>> {
    match Request::parse(head, None).ok()? {
        Request::Plain(plain) => Some(plain.rewritten),
        Request::Connect(_) => None,
    }
}

/// What a client gets of a response's head, if it is passed on.
pub fn response(head: &[u8], to_head: bool) -> Option<Vec<u8>> {
    Some(Response::parse(head, to_head, false).ok()?.rewritten)
}

/// Whether a chunked body is complete, and how it is written anew; nothing where it is refused.
pub fn chunked(portions: &[&[u8]]) -> Option<(bool, Vec<u8>)> {
    let (mut reader, mut out, mut done) = (ChunkedReader::default(), Vec::new(), false);
    for portion in portions {
        done = reader.push(portion, &mut out).ok()?.is_some();
    }
    Some((done, out))
}

/// The name in a ClientHello, whether there may be another that is encrypted, and where the message
/// ends; nothing where there is none, or it is refused.
pub fn client_hello(portions: &[&[u8]]) -> Option<(Option<String>, bool, usize)> {
    let (mut reader, mut before) = (HelloReader::default(), 0);
    for portion in portions {
        if let Some((hello, end)) = reader.push(portion).ok()? {
            return Some((hello.server_name, hello.encrypted, before + end));
        }
        before += portion.len();
    }
    None
}
