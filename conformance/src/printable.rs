//! Texts of others on a line of ours: short, and nothing in them that a terminal would obey.

/// A text on one line without anything that a terminal would obey: control characters, those that change the
/// direction of writing, and those that cannot be seen are written as escapes.
pub(crate) fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            unseen if is_unseen(unseen) => {
                shown.push_str(&format!("\\u{{{:x}}}", u32::from(unseen)))
            }
            plain => shown.push(plain),
        }
    }
    shown
}

/// The first bytes of a text, cut between characters, with its whole length where something was cut.
pub(crate) fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most)
        .rev()
        .find(|end| text.is_char_boundary(*end))
        .unwrap_or_default();
    format!("{}… ({} bytes)", &text[..end], text.len())
}

/// A text for one line of a report.
pub(crate) fn short(text: &str, most: usize) -> String {
    visible(&cut(text, most))
}

/// Returns true if a character is invisible, or changes how others are displayed.
pub(crate) fn is_unseen(character: char) -> bool {
    let point = u32::from(character);
    (character.is_control() && character != '\n' && character != '\t')
        || matches!(character,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
        || point & 0xfffe == 0xfffe
        || (0xfdd0..=0xfdef).contains(&point)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_not_steered() {
        assert_eq!(
            visible("a\u{1b}[2J\nb\u{202e}c\u{9b}1m"),
            "a\\u{1b}[2J\\nb\\u{202e}c\\u{9b}1m"
        );
        assert_eq!(visible("größe 世界"), "größe 世界");
    }

    #[test]
    fn a_cut_falls_between_characters() {
        assert_eq!(cut("äöü", 3), "ä… (6 bytes)");
        assert_eq!(cut("abc", 3), "abc");
    }
}
