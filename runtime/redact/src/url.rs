//! Passwords in URLs.

use crate::placeholder::is_hidden;
use crate::span::{Label, Span};

/// Bytes of a URL that are searched; user names and passwords are shorter.
const AUTHORITY: usize = 512;

/// Takes the password of the URL whose `://` ends at `at`, if it has one. Returns how many bytes were read.
pub(super) fn find(text: &[u8], at: usize, spans: &mut Vec<Span>) -> usize {
    let ends = |byte: &u8| byte.is_ascii_whitespace() || b"/?#\"'`<>\\".contains(byte);
    let rest = &text[at..text.len().min(at + AUTHORITY)];
    let authority = &rest[..rest.iter().position(ends).unwrap_or(rest.len())];
    let Some(end) = authority.iter().rposition(|byte| *byte == b'@') else {
        return authority.len();
    };
    let Some(colon) = authority[..end].iter().position(|byte| *byte == b':') else {
        return authority.len();
    };
    if colon + 1 < end && !is_hidden(&authority[colon + 1..end]) {
        let hidden = at + colon + 1..at + end;
        spans.push(Span {
            from: at - 3,
            hidden,
            label: Label::Shape("url_password"),
        });
    }
    authority.len()
}
