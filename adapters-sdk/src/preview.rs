//! Text and tool calls in short, as a screen or a log shows them.
//!
//! ```
//! use trunkline_sdk::preview;
//!
//! let input = serde_json::json!({ "command": "git status\ngit diff", "timeout": 5 });
//! assert_eq!(preview::tool_call("Bash", Some(&input)).as_deref(), Some("git status"));
//! assert_eq!(preview::text("one  line\nand another"), "one line and another");
//! ```

mod escapes;
mod tool;

pub use self::escapes::without_escapes;
pub use self::tool::{tool_call, tool_input};

/// The longest preview, in characters.
pub const LONGEST: usize = 200;

/// A text on one line: without escape sequences, its spaces as one each, cut to [`LONGEST`] characters.
#[must_use]
pub fn text(text: &str) -> String {
    // What is far behind the cut is not looked at.
    let beginning = &text[..text.floor_char_boundary(text.len().min(64 * LONGEST))];
    let mut line = String::new();
    for word in without_escapes(beginning).split_whitespace() {
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
        if line.chars().nth(LONGEST).is_some() {
            break;
        }
    }
    cut(&line, LONGEST)
}

/// The first so many characters, the last of them an ellipsis where there are more.
#[must_use]
pub fn cut(text: &str, longest: usize) -> String {
    match text.char_indices().nth(longest) {
        None => text.to_owned(),
        Some(_) => text
            .chars()
            .take(longest.saturating_sub(1))
            .chain(['…'])
            .collect(),
    }
}

#[cfg(test)]
mod tests;
