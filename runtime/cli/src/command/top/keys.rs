//! What is typed, key by key.

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
    /// Ctrl-C: no signal while keys are read one by one.
    Interrupt,
}

/// The longest sequence that is waited for, in bytes. What is longer is no key.
const LONGEST: usize = 16;

/// Finds keys in the bytes of a terminal.
#[derive(Debug, Default)]
pub(super) struct Keys {
    read: Vec<u8>,
}

impl Keys {
    /// Takes what was read, and gives the keys that are whole.
    pub(super) fn take(&mut self, read: &[u8]) -> Vec<Key> {
        self.read.extend_from_slice(read);
        let mut keys = Vec::new();
        while let Some((key, bytes)) = first(&self.read) {
            self.read.drain(..bytes);
            keys.extend(key);
        }
        keys
    }

    /// Whether an Esc has come that may begin a sequence.
    pub(super) fn is_in_sequence(&self) -> bool {
        !self.read.is_empty()
    }

    /// Nothing more has come for a while: an Esc is a key by itself.
    pub(super) fn give_up(&mut self) -> Option<Key> {
        let is_escape = self.read == [0x1b];
        self.read.clear();
        is_escape.then_some(Key::Escape)
    }
}

/// The first key, if it is one that is known, and its length; nothing where its end has not come.
fn first(read: &[u8]) -> Option<(Option<Key>, usize)> {
    let key = match *read.first()? {
        0x1b => return sequence(read),
        b'\r' | b'\n' => Key::Enter,
        0x7f | 0x08 => Key::Backspace,
        0x03 => Key::Interrupt,
        byte if byte < 0x20 => return Some((None, 1)),
        byte if byte < 0x80 => Key::Char(char::from(byte)),
        byte => {
            let length = match byte {
                0xc0..=0xdf => 2,
                0xe0..=0xef => 3,
                0xf0..=0xf7 => 4,
                _ => 1,
            };
            let bytes = read.get(..length)?;
            let char = std::str::from_utf8(bytes)
                .ok()
                .and_then(|text| text.chars().next());
            return Some((char.map(Key::Char), length));
        }
    };
    Some((Some(key), 1))
}

fn sequence(read: &[u8]) -> Option<(Option<Key>, usize)> {
    match *read.get(1)? {
        b'[' => {
            let Some(end) = read
                .iter()
                .skip(2)
                .position(|byte| (0x40..=0x7e).contains(byte))
            else {
                return (read.len() > LONGEST).then_some((None, read.len()));
            };
            let key = match &read[2..end + 3] {
                b"A" => Some(Key::Up),
                b"B" => Some(Key::Down),
                b"H" | b"1~" | b"7~" => Some(Key::Home),
                b"F" | b"4~" | b"8~" => Some(Key::End),
                b"5~" => Some(Key::PageUp),
                b"6~" => Some(Key::PageDown),
                _ => None,
            };
            Some((key, end + 3))
        }
        b'O' => {
            let key = match *read.get(2)? {
                b'A' => Some(Key::Up),
                b'B' => Some(Key::Down),
                b'H' => Some(Key::Home),
                b'F' => Some(Key::End),
                _ => None,
            };
            Some((key, 3))
        }
        // An Esc, and then another key.
        _ => Some((Some(Key::Escape), 1)),
    }
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
        assert_eq!(Keys::default().take(typed), wanted);
        let mut keys = Keys::default();
        let by_byte: Vec<_> = typed.iter().flat_map(|byte| keys.take(&[*byte])).collect();
        assert_eq!(by_byte, wanted);
    }

    #[test]
    fn an_escape_alone_is_a_key_and_what_is_no_key_does_no_harm() {
        let mut keys = Keys::default();
        assert_eq!(keys.take(b"\x1b"), []);
        assert!(keys.is_in_sequence());
        assert_eq!(keys.give_up(), Some(Key::Escape));
        assert_eq!(keys.take(b"\x1bq"), [Key::Escape, Key::Char('q')]);
        assert_eq!(keys.take(b"\xff\x01\x1b[99999999999999999999"), []);
        assert_eq!(
            keys.take(b"q"),
            [Key::Char('q')],
            "what is too long is given up"
        );
        assert_eq!(keys.take(b"\x1b[1"), []);
        assert_eq!(
            (keys.give_up(), keys.take(b"q")),
            (None, vec![Key::Char('q')])
        );
    }
}
