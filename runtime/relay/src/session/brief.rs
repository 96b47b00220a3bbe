//! A failure as shown to a hub without the extensions: a sentence or two in a conversation.

/// Maximum length of the shown text, in bytes.
const LONGEST: usize = 1024;

/// Separator between a failure and its stderr.
const LAST_WORDS: &str = "; its last words on stderr:\n";

/// Keeps only the last line of the adapter's stderr. `tail` is that text, if the message does not
/// contain it.
pub(super) fn shorten(message: &mut String, tail: Option<&str>) {
    let (what, said) = message
        .split_once(LAST_WORDS)
        .unwrap_or((message, tail.unwrap_or_default()));
    let last = said
        .lines()
        .rev()
        .map(str::trim)
        .find(|line| !line.is_empty());
    let short = match last {
        Some(last) => format!("{}; its last words on stderr: {}", cut(what), cut(last)),
        None => cut(what).to_owned(),
    };
    *message = short;
}

fn cut(text: &str) -> &str {
    &text[..text.floor_char_boundary(LONGEST / 2 - 32)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_stays_and_the_text_is_bounded() {
        let short = |message: &str, tail: Option<&str>| {
            let mut message = message.to_owned();
            shorten(&mut message, tail);
            assert!(message.len() <= LONGEST);
            message
        };
        assert_eq!(short("it ended", None), "it ended");
        assert_eq!(
            short("it ended", Some("a\nb\n\n")),
            "it ended; its last words on stderr: b"
        );
        let long = format!("it ended{LAST_WORDS}{}the last\n", "noise\n".repeat(10_000));
        assert_eq!(
            short(&long, Some("other")),
            "it ended; its last words on stderr: the last"
        );
        let wide = "\u{1F600}".repeat(9_000);
        let both = short(&wide, Some(&wide));
        assert!(both.contains("; its last words on stderr: \u{1F600}"));
    }
}
