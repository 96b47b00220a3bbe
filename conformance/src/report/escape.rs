//! Text of others in texts of ours: a peer may write anything, and no report may be broken or steered by it.

use crate::printable::{is_unseen, visible};

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
            unseen if is_unseen(unseen) => {
                escaped.push_str(&format!("\\u{{{:x}}}", u32::from(unseen)))
            }
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
            '\\' | '`' | '*' | '_' | '{' | '}' | '[' | ']' | '(' | ')' | '#' | '+' | '-' | '!'
            | '|' | '~' => {
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
    let mut longest = 0;
    let mut run = 0;
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
    text.replace('%', "%25")
        .replace('\r', "%0D")
        .replace('\n', "%0A")
}

/// A property of a workflow command of GitHub.
pub(super) fn workflow_property(text: &str) -> String {
    workflow_data(text).replace(':', "%3A").replace(',', "%2C")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn markup_becomes_text() {
        assert_eq!(xml("<a b='c\"&\u{0}"), "&lt;a b=&#39;c&quot;&amp;\\u{0}");
        assert_eq!(
            markdown("[x](y) | `@me`\n"),
            "\\[x\\]\\(y\\) \\| \\`&#64;me\\`\\\\n"
        );
        assert_eq!(fence_for("a ```` b"), "`````");
        assert_eq!(yaml("a\"\\\u{85}\n"), "\"a\\\"\\\\\\U00000085\\n\"");
        assert_eq!(workflow_property("a:b,c%\n"), "a%3Ab%2Cc%25%0A");
    }
}
