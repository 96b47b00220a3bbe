//! Texts with secrets: what is shown holds none, in one piece or in chunks, and stays as it is when
//! it is hidden again.

use std::sync::{Arc, LazyLock};

use trunkline_redact::{Redactor, Stream};

use super::{Target, portions};

/// Known values: with quotes and spaces, as base64 looks, of one letter.
const VALUES: [&str; 3] = [
    "pa\"ss w\u{f6}rd/with+more",
    "c29tZS1zZWNyZXQtdmFsdWU",
    "aaaaaaaaaaaaa",
];

static REDACTOR: LazyLock<Arc<Redactor>> =
    LazyLock::new(|| Arc::new(Redactor::new(VALUES.iter().map(|value| ("KNOWN", value)))));

pub(super) const REDACT: Target = Target {
    name: "redact",
    seeds: &[
        b"\x03\x05\x09\x02key c29tZS1zZWNyZXQtdmFsdWU and --password=hunter2hunter2 Bearer abcdefgh1\nnext aaaaaaaaaaaaaa\n",
        br"{\u0022a\u0022:\u0022pa\u0022ss w\u00f6rd\/with\u002Bmore\u0022,\u0022Authorization\u0022:\u0022Basic dTpw\u0022}",
        b"\x02\x08\x08pa%22ss%20w%C3%B6rd%2Fwith%2Bmore YzI5dFpTMXpa\nV055WlhRdGRt\nRnNkV1U= postgres://u:p@h/d ghp_0123456789abcdefghij\n",
    ],
    words: &[
        "\\", "\\\\", "\\u0022", "\\u00f6", "\\ud83d", "\\x41", "\\n", "%", "%22", "%2", "\n", "\r\n", "    ", "=", ":", "\"", "'", "[REDACTED:",
        "]", "token=", "Authorization: ", "Cookie: ", "sk-", "ghp_", "://", "@", "aaaaaaaa", "c29tZS1zZWNyZXQtdmFsdWU", "YzI5dFpTMXpa", "\0",
        "pa\"ss w\u{f6}rd/with+more", "YWFhYWFhYWFhYWFh",
    ],
    run,
};

fn run(input: &[u8]) {
    let (parts, whole) = portions(input);
    let shown = REDACTOR.bytes(whole);
    for value in VALUES {
        assert!(
            !holds(&shown, value),
            "it is shown: {:?} of {:?}",
            lossy(&shown),
            lossy(whole)
        );
    }
    let mut stream = Stream::with(REDACTOR.clone());
    let mut streamed = Vec::new();
    for part in parts {
        stream.push(part, |bytes| streamed.extend_from_slice(bytes));
    }
    stream.finish(|bytes| streamed.extend_from_slice(bytes));
    for value in VALUES {
        assert!(
            !holds(&streamed, value),
            "it is streamed: {:?} of {:?}",
            lossy(&streamed),
            lossy(whole)
        );
    }
}

fn holds(shown: &[u8], value: &str) -> bool {
    shown
        .windows(value.len())
        .any(|part| part == value.as_bytes())
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
