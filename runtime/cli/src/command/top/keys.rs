//! Keys of `trunkline top`.

/// A key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TerminalKey {
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

impl TerminalKey {
    /// Parses the text of one key. Returns `None` for an unknown key.
    pub(super) fn parse(text: &str) -> Option<Self> {
        Some(match text {
            "\x1b" => Self::Escape,
            "\r" | "\n" => Self::Enter,
            "\x7f" | "\x08" => Self::Backspace,
            "\x03" => Self::Interrupt,
            "\x1b[A" | "\x1bOA" => Self::Up,
            "\x1b[B" | "\x1bOB" => Self::Down,
            "\x1b[H" | "\x1b[1~" | "\x1b[7~" | "\x1bOH" => Self::Home,
            "\x1b[F" | "\x1b[4~" | "\x1b[8~" | "\x1bOF" => Self::End,
            "\x1b[5~" => Self::PageUp,
            "\x1b[6~" => Self::PageDown,
            _ => {
                return text
                    .parse()
                    .ok()
                    .filter(|char: &char| !char.is_control())
                    .map(Self::Char);
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_parsed_and_unknown_ones_are_ignored() {
        for (text, key) in [
            ("a", Some(TerminalKey::Char('a'))),
            ("é", Some(TerminalKey::Char('é'))),
            ("\u{1b}[A", Some(TerminalKey::Up)),
            ("\u{1b}OB", Some(TerminalKey::Down)),
            ("\u{1b}[5~", Some(TerminalKey::PageUp)),
            ("\u{1b}", Some(TerminalKey::Escape)),
            ("\u{3}", Some(TerminalKey::Interrupt)),
            ("\u{1b}[1;5C", None),
            ("\u{1}", None),
        ] {
            assert_eq!(TerminalKey::parse(text), key, "{text:?}");
        }
    }
}
