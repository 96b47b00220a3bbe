//! Text out of bytes that come in pieces, cut anywhere.

/// Turns pieces of bytes into text. A character that a piece cuts in two is held until its rest
/// comes; what is not UTF-8 becomes U+FFFD.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    /// The beginning of a character: at most three bytes.
    held: Vec<u8>,
}

impl Decoder {
    /// The text of all bytes so far that was not given before.
    pub(crate) fn push(&mut self, bytes: &[u8]) -> String {
        if self.held.is_empty() {
            return self.take(bytes);
        }
        let mut joined = std::mem::take(&mut self.held);
        joined.extend_from_slice(bytes);
        self.take(&joined)
    }

    fn take(&mut self, bytes: &[u8]) -> String {
        let whole = bytes.len() - unfinished(bytes);
        self.held = bytes[whole..].to_vec();
        String::from_utf8_lossy(&bytes[..whole]).into_owned()
    }

    /// Returns the held bytes at the end, which cannot be completed.
    pub(crate) fn finish(&mut self) -> String {
        String::from_utf8_lossy(&std::mem::take(&mut self.held)).into_owned()
    }
}

/// Returns the number of bytes at the end that begin a character and do not complete it.
fn unfinished(bytes: &[u8]) -> usize {
    let tail = &bytes[bytes.len().saturating_sub(3)..];
    let Some(back) = tail
        .iter()
        .rev()
        .position(|byte| byte & 0b1100_0000 != 0b1000_0000)
    else {
        return 0;
    };
    let start = &tail[tail.len() - 1 - back..];
    match std::str::from_utf8(start) {
        Err(error) if error.valid_up_to() == 0 && error.error_len().is_none() => start.len(),
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn in_pieces(bytes: &[u8], size: usize) -> Vec<String> {
        let mut decoder = Decoder::default();
        let mut pieces: Vec<String> = bytes
            .chunks(size)
            .map(|piece| decoder.push(piece))
            .collect();
        pieces.push(decoder.finish());
        pieces
    }

    #[test]
    fn a_cut_character_waits_for_its_rest() {
        assert_eq!(in_pieces("aé".as_bytes(), 2), ["a", "é", ""]);
        assert_eq!(
            in_pieces("\u{1F600}!".as_bytes(), 1),
            ["", "", "", "\u{1F600}", "!", ""]
        );
        assert_eq!(
            in_pieces(b"a\xF0\x9F", 8),
            ["a", "\u{FFFD}"],
            "a rest that never comes"
        );
        assert_eq!(in_pieces(b"\xFFa", 1), ["\u{FFFD}", "a", ""]);
        assert_eq!(
            in_pieces(b"\x80\x80\x80\x80", 4).concat(),
            "\u{FFFD}".repeat(4)
        );
    }

    proptest! {
        #[test]
        fn text_is_the_same_however_it_is_cut(text in "\\PC{0,40}", size in 1usize..7) {
            prop_assert_eq!(in_pieces(text.as_bytes(), size).concat(), text);
        }

        #[test]
        fn any_bytes_give_what_they_give_at_once(bytes in proptest::collection::vec(any::<u8>(), 0..40), size in 1usize..7) {
            prop_assert_eq!(in_pieces(&bytes, size).concat(), String::from_utf8_lossy(&bytes));
        }
    }
}
