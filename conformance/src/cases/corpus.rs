//! F-corpus: lines that are not messages, each of which some real program has been seen to write or
//! to die of.

/// A malformed line, named, without its LF.
#[derive(Debug, Clone)]
pub(super) struct Malformed {
    /// Description.
    pub(super) name: &'static str,
    /// Bytes.
    pub(super) bytes: Vec<u8>,
}

/// All of them. `session` is the id of an open session: a line may look as if it spoke of it.
pub(super) fn malformed(session: &str) -> Vec<Malformed> {
    let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
    let text = |name, text: String| Malformed {
        name,
        bytes: text.into_bytes(),
    };
    let within = |name, odd: &[u8]| {
        let mut bytes =
            format!("{{\"type\":\"user.input\",\"session_id\":\"{session}\",\"content\":\"")
                .into_bytes();
        bytes.extend_from_slice(odd);
        bytes.extend_from_slice(b"\"}");
        Malformed { name, bytes }
    };
    vec![
        text("empty object", "{}".into()),
        text(
            "truncated object",
            format!("{{\"type\":\"user.input\",\"session_id\":\"{session}\",\"cont"),
        ),
        text(
            "trailing comma",
            format!("{{\"type\":\"stop\",\"session_id\":\"{session}\",}}"),
        ),
        text(
            "single quotes",
            format!("{{'type':'stop','session_id':'{session}'}}"),
        ),
        text("bare word", "hello".into()),
        text("number", "42".into()),
        text("string", "\"stop\"".into()),
        text("null", "null".into()),
        text("array", format!("[\"stop\",\"{session}\"]")),
        text(
            "two objects on one line",
            format!("{{\"type\":\"x\"}}{{\"type\":\"stop\",\"session_id\":\"{session}\"}}"),
        ),
        text(
            "object and garbage",
            format!("{{\"type\":\"stop\",\"session_id\":\"{session}\"}} trailing"),
        ),
        text(
            "NaN",
            format!("{{\"type\":\"stop\",\"session_id\":\"{session}\",\"n\":NaN}}"),
        ),
        within("control character in a string", b"\x01"),
        within("tab in a string", b"a\tb"),
        within("lone continuation byte", b"\x80"),
        within("overlong encoding", b"\xc0\xaf"),
        within("surrogate as bytes", b"\xed\xa0\x80"),
        Malformed {
            name: "UTF-16LE",
            bytes: "{\"type\":\"stop\"}"
                .encode_utf16()
                .flat_map(u16::to_le_bytes)
                .collect(),
        },
        text("10,000 levels", nested),
        text("1e999", "1e999".into()),
        text("2 MB key", format!("{{\"{}\":1}}", "k".repeat(2_000_000))),
        text(
            "HTML error page",
            "<html><body><h1>502 Bad Gateway</h1></body></html>".into(),
        ),
        text(
            "coloured log line",
            "\u{1b}[32mINFO\u{1b}[0m server started".into(),
        ),
        text("Content-Length header", "Content-Length: 5".into()),
        Malformed {
            name: "NUL bytes",
            bytes: b"\0\0\0\0".to_vec(),
        },
    ]
}
