//! Parses the keys of a terminal.

use crate::terminal::first_key;

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Key {
    Char(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    /// Ctrl-C, which is no signal while keys are read one by one.
    Interrupt,
}

/// Limit of a key sequence, in bytes; a longer one is no key.
const MAX_SEQUENCE_BYTES: usize = 16;

/// Parser of keys in the bytes of a terminal.
#[derive(Debug, Default)]
pub(super) struct KeyParser {
    read: Vec<u8>,
}

impl KeyParser {
    /// Adds bytes, and returns the complete keys.
    pub(super) fn parse(&mut self, read: &[u8]) -> Vec<Key> {
        self.read.extend_from_slice(read);
        let mut keys = Vec::new();
        while let Some((key, bytes)) = first(&self.read) {
            self.read.drain(..bytes);
            keys.extend(key);
        }
        keys
    }

    /// Returns true after an Esc that may start a sequence.
    pub(super) fn is_in_sequence(&self) -> bool {
        !self.read.is_empty()
    }

    /// Ends an incomplete sequence after a timeout: an Esc is a key by itself.
    pub(super) fn give_up(&mut self) -> Option<Key> {
        let is_escape = self.read == [0x1b];
        self.read.clear();
        is_escape.then_some(Key::Escape)
    }
}

/// Parses the first key, `None` if it is unknown, and its length. Returns `None` if its end is
/// missing.
fn first(read: &[u8]) -> Option<(Option<Key>, usize)> {
    if read == [0x1b] {
        return None;
    }
    let Some(bytes) = first_key(read) else {
        return (read.len() > MAX_SEQUENCE_BYTES).then_some((None, read.len()));
    };
    let key = match bytes {
        b"\x1b" => Some(Key::Escape),
        b"\r" | b"\n" => Some(Key::Enter),
        b"\x7f" | b"\x08" => Some(Key::Backspace),
        b"\x03" => Some(Key::Interrupt),
        b"\x1b[A" | b"\x1bOA" => Some(Key::Up),
        b"\x1b[B" | b"\x1bOB" => Some(Key::Down),
        b"\x1b[H" | b"\x1b[1~" | b"\x1b[7~" | b"\x1bOH" => Some(Key::Home),
        b"\x1b[F" | b"\x1b[4~" | b"\x1b[8~" | b"\x1bOF" => Some(Key::End),
        b"\x1b[5~" => Some(Key::PageUp),
        b"\x1b[6~" => Some(Key::PageDown),
        [..0x20, ..] => None,
        _ => std::str::from_utf8(bytes)
            .ok()
            .and_then(|text| text.chars().next())
            .map(Key::Char),
    };
    Some((key, bytes.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_however_the_bytes_come() {
        let typed = "aé\u{1b}[A\u{1b}OB\u{1b}[5~\u{1b}[1;5C\r\u{7f}\u{3}q".as_bytes();
        let wanted = [
            Key::Char('a'),
            Key::Char('é'),
            Key::Up,
            Key::Down,
            Key::PageUp,
            Key::Enter,
            Key::Backspace,
            Key::Interrupt,
            Key::Char('q'),
        ];
        assert_eq!(KeyParser::default().parse(typed), wanted);
        let mut keys = KeyParser::default();
        let by_byte: Vec<_> = typed.iter().flat_map(|byte| keys.parse(&[*byte])).collect();
        assert_eq!(by_byte, wanted);
    }

    #[test]
    fn an_escape_alone_is_a_key_and_what_is_no_key_does_no_harm() {
        let mut keys = KeyParser::default();
        assert_eq!(keys.parse(b"\x1b"), []);
        assert!(keys.is_in_sequence());
        assert_eq!(keys.give_up(), Some(Key::Escape));
        assert_eq!(keys.parse(b"\x1bq"), [Key::Escape, Key::Char('q')]);
        assert_eq!(keys.parse(b"\xff\x01\x1b[99999999999999999999"), []);
        assert_eq!(
            keys.parse(b"q"),
            [Key::Char('q')],
            "what is too long is given up"
        );
        assert_eq!(keys.parse(b"\x1b[1"), []);
        assert_eq!(
            (keys.give_up(), keys.parse(b"q")),
            (None, vec![Key::Char('q')])
        );
    }
}
