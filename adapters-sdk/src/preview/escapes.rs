//! Escape sequences of terminals, which CLIs write even where there is none.

use std::borrow::Cow;

const ESCAPE: char = '\u{1b}';

/// Removes what a terminal would act on and not show: CSI, OSC and other escape sequences, and
/// control characters but tab and newline. A sequence that never ends is removed up to the end of
/// its line.
#[must_use]
pub fn without_escapes(text: &str) -> Cow<'_, str> {
    if !text.contains(is_unseen) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(char) = rest.next() {
        match char {
            ESCAPE => skip_sequence(&mut rest),
            '\u{9b}' => skip_csi(&mut rest),
            // A line feed follows where it ends a line.
            _ if is_unseen(char) => {}
            _ => shown.push(char),
        }
    }
    Cow::Owned(shown)
}

fn is_unseen(char: char) -> bool {
    char.is_control() && !matches!(char, '\t' | '\n')
}

/// Skips what follows an escape character.
fn skip_sequence(rest: &mut std::str::Chars<'_>) {
    let ahead = rest.clone();
    match rest.next() {
        Some('[') => skip_csi(rest),
        Some(']' | 'P' | 'X' | '^' | '_') => skip_string(rest),
        // nF: intermediates, then one final.
        Some(' '..='/') => {
            while let Some(char) = next_on_line(rest) {
                if !matches!(char, ' '..='/') {
                    break;
                }
            }
        }
        Some('0'..='~') | None => {}
        // Not a sequence: only the escape is removed.
        Some(_) => *rest = ahead,
    }
}

/// Skips parameters and intermediates up to the final character of a CSI.
fn skip_csi(rest: &mut std::str::Chars<'_>) {
    loop {
        let ahead = rest.clone();
        match rest.next() {
            Some('@'..='~') | None => return,
            Some(' '..='?') => {}
            Some(_) => {
                *rest = ahead;
                return;
            }
        }
    }
}

/// Skips a string up to BEL or ST.
fn skip_string(rest: &mut std::str::Chars<'_>) {
    while let Some(char) = next_on_line(rest) {
        match char {
            '\u{7}' | '\u{9c}' => return,
            ESCAPE => {
                let ahead = rest.clone();
                if rest.next() != Some('\\') {
                    *rest = ahead;
                    skip_sequence(rest);
                }
                return;
            }
            _ => {}
        }
    }
}

/// The next character, unless the line ends before it.
fn next_on_line(rest: &mut std::str::Chars<'_>) -> Option<char> {
    let ahead = rest.clone();
    match rest.next() {
        Some('\n') => {
            *rest = ahead;
            None
        }
        next => next,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_acts_on_is_gone() {
        for (text, shown) in [
            ("plain text\n\tü", "plain text\n\tü"),
            (
                "\u{1b}[91m\u{1b}[1mError: \u{1b}[0mSession not found",
                "Error: Session not found",
            ),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://a\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}]never ended\nnext", "\nnext"),
            ("\u{1b}(Bx\u{1b}7y\u{1b}=z", "xyz"),
            ("\u{9b}31mred", "red"),
            ("\u{1b}[?25l\u{1b}[2Kdone\r\n", "done\n"),
            ("a\u{1b}", "a"),
            ("a\u{1b}[", "a"),
            ("a\u{1b}[12\nb", "a\nb"),
            ("\u{1b}ü", "ü"),
            ("bell\u{7} null\0", "bell null"),
        ] {
            assert_eq!(without_escapes(text), shown, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_taken_and_a_second_pass_finds_nothing(text in "(\\PC|[\u{1b}\u{7}\n\u{9b}\\[\\]0-9;m])*") {
            let once = without_escapes(&text).into_owned();
            prop_assert!(!once.contains(ESCAPE));
            prop_assert_eq!(without_escapes(&once), once.as_str());
        }
    }
}
