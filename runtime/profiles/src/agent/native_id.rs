//! Agents' own ids of conversations, as a host returns them: they come from outside, and are used
//! in command lines.

use uuid::Uuid;

/// The longest id, in bytes.
const LONGEST: usize = 128;

/// Returns true if it is one word that no agent takes for an option, a path or a choice of its own
/// such as "the latest one".
pub(crate) fn is_word(id: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
    let begins = id
        .bytes()
        .next()
        .is_some_and(|first| first.is_ascii_alphanumeric());
    begins
        && id.len() <= LONGEST
        && id.bytes().all(is_part)
        && id.bytes().any(|byte| byte.is_ascii_digit())
}

/// Returns true if it is a UUID in the usual notation.
pub(crate) fn is_uuid(id: &str) -> bool {
    id.len() == 36 && Uuid::try_parse(id).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_mean_something_else_is_no_id() {
        let uuid = "01a1fbd6-2be9-7b82-96db-8adea1e2bc7a";
        assert!(is_word(uuid) && is_word("ses_e0423aff2ffex6HJ4ylos9LwUS"));
        assert!(is_uuid(uuid));
        for other in [
            "",
            "latest",
            "-1",
            "--auto",
            "../x1",
            "/tmp/1.jsonl",
            "a b1",
            "1\n",
            &"1".repeat(129),
        ] {
            assert!(!is_word(other) && !is_uuid(other), "{other}");
        }
        assert!(!is_uuid("5") && !is_uuid(&uuid.replace('-', "")));
    }
}
