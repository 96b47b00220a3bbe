//! Looking at eight bytes at a time, for the short strings that most lines are made of.

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// A byte of zero in a word, as its high bit. Exact for the lowest such byte; what is above it may be wrong.
const fn zeros(word: u64) -> u64 {
    word.wrapping_sub(LOW) & !word & HIGH
}

/// The bytes that are a quote, a backslash or a control character: those that a JSON string cannot
/// hold as they are.
const fn special(word: u64) -> u64 {
    let quote = zeros(word ^ (LOW * b'"' as u64));
    let backslash = zeros(word ^ (LOW * b'\\' as u64));
    let control = word.wrapping_sub(LOW * 0x20) & !word & HIGH;
    quote | backslash | control
}

/// Returns the position of the first quote, backslash or control character.
#[inline]
pub(crate) fn first_special(bytes: &[u8]) -> Option<usize> {
    first(bytes, special)
}

/// Returns the position of the first byte that a writer must handle: one of [`first_special`]'s, or
/// the lead of U+2028 and U+2029.
#[inline]
pub(crate) fn first_to_escape(bytes: &[u8]) -> Option<usize> {
    first(bytes, |word| special(word) | zeros(word ^ (LOW * 0xE2)))
}

#[inline(always)]
fn first(bytes: &[u8], marks: impl Fn(u64) -> u64) -> Option<usize> {
    let mut rest = bytes;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let found = marks(u64::from_le_bytes(*word));
        if found != 0 {
            return Some(bytes.len() - rest.len() + (found.trailing_zeros() / 8) as usize);
        }
        rest = after;
    }
    let at = rest
        .iter()
        .position(|byte| marks(LOW * u64::from(*byte)) != 0)?;
    Some(bytes.len() - rest.len() + at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{first_special, first_to_escape};

    proptest! {
        #[test]
        fn they_find_what_a_plain_search_finds(
            bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(b'a')], 0..40),
        ) {
            let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
            prop_assert_eq!(first_special(&bytes), bytes.iter().position(special));
            let plain = bytes.iter().position(|byte| special(byte) || *byte == 0xE2);
            prop_assert_eq!(first_to_escape(&bytes), plain);
        }
    }
}
