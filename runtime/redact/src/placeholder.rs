//! The replacement for a hidden part: `[REDACTED:name]`.

use std::sync::Arc;

/// The beginning of a replacement.
pub(super) const PLACEHOLDER: &[u8] = b"[REDACTED:";

/// The longest name in one.
const LONGEST_NAME: usize = 64;

/// Returns a name in the form that replacements use.
pub(super) fn clean_name(name: &str) -> Arc<str> {
    let clean = |letter: char| {
        if letter.is_ascii() && is_name(letter as u8) {
            letter
        } else {
            '_'
        }
    };
    name.chars()
        .take(LONGEST_NAME)
        .map(clean)
        .collect::<String>()
        .into()
}

/// Returns true if a value is one replacement and nothing else.
pub(super) fn is_hidden(value: &[u8]) -> bool {
    let Some(name) = value
        .strip_prefix(PLACEHOLDER)
        .and_then(|rest| rest.strip_suffix(b"]"))
    else {
        return false;
    };
    name.len() <= LONGEST_NAME && name.iter().all(|byte| is_name(*byte))
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_-.".contains(&byte)
}
