//! Text of others in texts of ours: a peer may write anything, and no report may be broken or steered by it.

/// A text on one line without anything that a terminal would obey: control characters, those that change the
/// direction of writing, and those that cannot be seen are written as escapes.
pub fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '\n' => shown.push_str("\\n"),
            '\r' => shown.push_str("\\r"),
            '\t' => shown.push_str("\\t"),
            unseen if is_unseen(unseen) => shown.push_str(&format!("\\u{{{:x}}}", u32::from(unseen))),
            plain => shown.push(plain),
        }
    }
    shown
}

/// The first bytes of a text, cut between characters, with its whole length where something was cut.
pub fn cut(text: &str, most: usize) -> String {
    if text.len() <= most {
        return text.to_owned();
    }
    let end = (0..=most).rev().find(|end| text.is_char_boundary(*end)).unwrap_or_default();
    format!("{}… ({} bytes)", &text[..end], text.len())
}

/// A text for one line of a report.
pub fn short(text: &str, most: usize) -> String {
    visible(&cut(text, most))
}

/// For XML and HTML, in text and in quoted attributes. What XML cannot hold is written as an escape.
pub(super) fn xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            '\n' | '\t' => escaped.push(character),
            unseen if is_unseen(unseen) => escaped.push_str(&format!("\\u{{{:x}}}", u32::from(unseen))),
            plain => escaped.push(plain),
        }
    }
    escaped
}

/// For one line of Markdown, with no markup of its own.
pub(super) fn markdown(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in visible(text).chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            // No mention of a person, no link by itself.
            '@' => escaped.push_str("&#64;"),
            ':' => escaped.push_str("&#58;"),
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '#' | '+' | '-' | '!' | '|'
            | '~' => {
                escaped.push('\\');
                escaped.push(character);
            }
            plain => escaped.push(plain),
        }
    }
    escaped
}

/// A fence for a Markdown block that the text cannot close.
pub(super) fn fence_for(text: &str) -> String {
    let (mut longest, mut run) = (0, 0);
    for character in text.chars() {
        run = if character == '`' { run + 1 } else { 0 };
        longest = longest.max(run);
    }
    "`".repeat((longest + 1).max(3))
}

/// A double-quoted scalar of YAML on one line.
pub(super) fn yaml(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            unseen if is_unseen(unseen) || unseen == '\t' || unseen == '\r' => {
                quoted.push_str(&format!("\\U{:08X}", u32::from(unseen)));
            }
            plain => quoted.push(plain),
        }
    }
    quoted.push('"');
    quoted
}

/// The text of a workflow command of GitHub.
pub(super) fn workflow_data(text: &str) -> String {
    text.replace('%', "%25").replace('\r', "%0D").replace('\n', "%0A")
}

/// A property of a workflow command of GitHub.
pub(super) fn workflow_property(text: &str) -> String {
    workflow_data(text).replace(':', "%3A").replace(',', "%2C")
}

/// Whether a character is not to be seen, or changes how others are seen.
fn is_unseen(character: char) -> bool {
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
        assert_eq!(visible("a\u{1b}[2J\nb\u{202e}c\u{9b}1m"), "a\\u{1b}[2J\\nb\\u{202e}c\\u{9b}1m");
        assert_eq!(visible("größe 世界"), "größe 世界");
    }

    #[test]
    fn a_cut_falls_between_characters() {
        assert_eq!(cut("äöü", 3), "ä… (6 bytes)");
        assert_eq!(cut("abc", 3), "abc");
    }

    #[test]
    fn markup_becomes_text() {
        assert_eq!(xml("<a b='c\"&\u{0}"), "&lt;a b=&#39;c&quot;&amp;\\u{0}");
        assert_eq!(markdown("[x](y) | `@me`\n"), "\\[x\\]\\(y\\) \\| \\`&#64;me\\`\\\\n");
        assert_eq!(fence_for("a ```` b"), "`````");
        assert_eq!(yaml("a\"\\\u{85}\n"), "\"a\\\"\\\\\\U00000085\\n\"");
        assert_eq!(workflow_property("a:b,c%\n"), "a%3Ab%2Cc%25%0A");
    }
}
