//! Memory of a parsed JSON text: a value costs dozens of bytes, however short it is written.

use memchr::memchr2;

/// Length up to which a text cannot contain too many values, in bytes.
const SMALL: usize = 1024 * 1024;

/// Limit of a text's values: parsed, they take tens of MiB. Agents' messages have a few thousand.
const MOST: usize = 512 * 1024;

/// Returns true if a text contains too many values to be parsed. Every value but the first follows
/// `,`, `[` or `{`; these characters within strings are text.
pub(crate) fn is_crowded(json: &[u8]) -> bool {
    if json.len() <= SMALL {
        return false;
    }
    let mut values = 0;
    let mut rest = json;
    while let Some((&byte, behind)) = rest.split_first() {
        rest = behind;
        match byte {
            b'"' => rest = behind_string(rest),
            b',' | b'[' | b'{' => values += 1,
            _ => {}
        }
        if values > MOST {
            return true;
        }
    }
    false
}

fn behind_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr2(b'"', b'\\', rest) {
        let is_end = rest[at] == b'"';
        rest = rest
            .get(if is_end { at + 1 } else { at + 2 }..)
            .unwrap_or_default();
        if is_end {
            return rest;
        }
    }
    &[]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_and_text_is_not() {
        let check = |json: String, crowded| {
            assert_eq!(is_crowded(json.as_bytes()), crowded, "{}", &json[..40])
        };
        check(format!("[{}0]", "0,".repeat(MOST + 1)), true);
        check(format!("[{}0]", "{},".repeat(MOST)), true);
        check("[".repeat(3 * MOST), true);
        check(format!("[{}0]", "\"a\\\"\",".repeat(MOST + 1)), true);
        check(format!("[{}0]", "0,".repeat(MOST / 4)), false);
        let text = "a, [b], {c: \\\"d\\\\\\\"},".repeat(MOST);
        check(format!("{{\"text\":\"{text}\"}}"), false);
        check(format!("{{\"text\":\"{text}"), false);
        check(format!("{{\"a\":\"{}\\", "x".repeat(SMALL)), false);
    }
}
