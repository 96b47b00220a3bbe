//! Unpaired surrogates ([frame.10]): legal in a JSON escape, impossible in UTF-8.

use std::borrow::Cow;

/// Replaces each unpaired surrogate escape in a JSON text by `\ufffd`. Node writes one when a delta
/// splits an emoji.
pub(crate) fn mend(json: &str) -> Cow<'_, str> {
    let bytes = json.as_bytes();
    let mut mended = String::new();
    let mut copied = 0;
    let mut at = 0;
    while let Some(found) = memchr::memchr(b'\\', bytes.get(at..).unwrap_or_default()) {
        let escape = at + found;
        at = escape + 2;
        let Some(first) = surrogate_at(bytes, escape) else {
            continue;
        };
        at = escape + 6;
        if first < 0xDC00 && surrogate_at(bytes, at).is_some_and(|second| second >= 0xDC00) {
            at += 6;
            continue;
        }
        mended.push_str(&json[copied..escape]);
        mended.push_str("\\ufffd");
        copied = escape + 6;
    }
    if copied == 0 {
        return Cow::Borrowed(json);
    }
    mended.push_str(&json[copied..]);
    Cow::Owned(mended)
}

/// The surrogate that a `\uXXXX` escape at this offset names, if it names one.
fn surrogate_at(bytes: &[u8], at: usize) -> Option<u16> {
    let escape = bytes.get(at..at + 6)?;
    if escape[0] != b'\\' || escape[1] != b'u' {
        return None;
    }
    let digits = std::str::from_utf8(&escape[2..]).ok()?;
    if !digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    u16::from_str_radix(digits, 16)
        .ok()
        .filter(|unit| (0xD800..0xE000).contains(unit))
}

#[cfg(test)]
mod tests {
    use super::mend;

    #[test]
    fn only_unpaired_surrogates_change() {
        for (given, wanted) in [
            (r"plain", r"plain"),
            (r"\ud83d\ude00", r"\ud83d\ude00"),
            (r"\uD83D\uDE00 \n", r"\uD83D\uDE00 \n"),
            (r"\ud83d", r"\ufffd"),
            (r"\ude00x", r"\ufffdx"),
            (r"\ud83d\ud83d\ude00", r"\ufffd\ud83d\ude00"),
            (r"\\ud83d", r"\\ud83d"),
            (r"\\\ud83d", r"\\\ufffd"),
            (r"a\ud83dA\ud83d", r"a\ufffdA\ufffd"),
            (r"\ud8", r"\ud8"),
            ("\\", "\\"),
        ] {
            assert_eq!(mend(given), wanted, "{given}");
        }
    }
}
