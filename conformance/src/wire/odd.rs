//! Odd JSON that a reader must tolerate, made plain for a strict parser ([frame.10]).

/// The deepest nesting that is kept.
const DEPTH: usize = 100;

/// The same text without what a strict parser refuses. What is not JSON stays no JSON.
pub(super) fn tamed(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    let mut depth = 0_usize;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => {
                let end = string_end(bytes, at);
                if depth <= DEPTH {
                    paired(&text[at..end], &mut out);
                }
                at = end;
                continue;
            }
            b'[' | b'{' => {
                depth += 1;
                if depth == DEPTH + 1 {
                    out.push_str("null");
                }
            }
            b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == DEPTH {
                    at += 1;
                    continue;
                }
            }
            b'-' | b'0'..=b'9' if depth <= DEPTH => {
                let end = bytes[at..]
                    .iter()
                    .position(|byte| {
                        !matches!(byte, b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9')
                    })
                    .map_or(bytes.len(), |length| at + length);
                let number = &text[at..end];
                let out_of_range = number.parse::<f64>().is_ok_and(f64::is_infinite);
                out.push_str(if out_of_range { "0" } else { number });
                at = end;
                continue;
            }
            _ => {}
        }
        let width = text[at..].chars().next().map_or(1, char::len_utf8);
        if depth <= DEPTH {
            out.push_str(&text[at..at + width]);
        }
        at += width;
    }
    out
}

/// Returns the end of the string that begins at `from`, including its quotes.
fn string_end(bytes: &[u8], from: usize) -> usize {
    let mut at = from + 1;
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Copies a string with its quotes; an escape of an unpaired surrogate is replaced by the escape of
/// U+FFFD.
fn paired(string: &str, out: &mut String) {
    let unit = |at: usize| {
        let escape = string.get(at..at + 6)?.strip_prefix("\\u")?;
        u16::from_str_radix(escape, 16).ok()
    };
    let mut at = 0;
    while at < string.len() {
        if string.as_bytes()[at] == b'\\' {
            let (kept, width) = match (unit(at), unit(at + 6)) {
                (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => (&string[at..at + 12], 12),
                (Some(0xd800..=0xdfff), _) => ("\\ufffd", 6),
                (Some(_), _) => (&string[at..at + 6], 6),
                (None, _) => {
                    let next = string[at + 1..].chars().next().map_or(0, char::len_utf8);
                    (&string[at..at + 1 + next], 1 + next)
                }
            };
            out.push_str(kept);
            at += width;
        } else {
            let width = string[at..].chars().next().map_or(1, char::len_utf8);
            out.push_str(&string[at..at + width]);
            at += width;
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::wire::Parsed;

    #[test]
    fn odd_json_is_understood_and_bad_json_is_not() {
        let deep = format!(
            "{{\"a\":1,\"x\":{}{},\"b\":\"]\"}}",
            "[".repeat(10_000),
            "]".repeat(10_000)
        );
        let good = [
            (r#"{"a":"\ud83d"}"#.to_owned(), "a", "\"\u{fffd}\""),
            (
                r#"{"a":"\ud83d\ude00x\ude00\\ud83d"}"#.to_owned(),
                "a",
                "\"\u{1f600}x\u{fffd}\\\\ud83d\"",
            ),
            (r#"{"a":1e999,"b":2}"#.to_owned(), "b", "2"),
            (deep, "b", "\"]\""),
        ];
        for (line, member, value) in good {
            let parsed = Parsed::lenient(line.as_bytes());
            let message = parsed
                .message()
                .unwrap_or_else(|| panic!("{}", &line[..40.min(line.len())]));
            assert_eq!(message[member].to_string(), value);
        }
        for bad in [
            "{\"a\":\"\\ud83d",
            "{\"a\":}",
            "[1e999]",
            "{\"a\":\"\\u12\"}",
            "\u{e9}\\",
        ] {
            assert!(Parsed::lenient(bad.as_bytes()).message().is_none(), "{bad}");
        }
    }
}
