//! Values beside a secret name: options, assignments, headers, JSON fields, bearer tokens.

use std::ops::Range;

use crate::names::{LONGEST, Meaning, meaning};
use crate::placeholder::is_hidden;
use crate::span::{Label, Span};
use crate::value::{self, Quote, blank, quote};

/// The separator between a name and its value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Join {
    /// `--name value`, `["--name", "value"]`
    Option,
    /// `name=value`
    Assignment,
    /// `name: value`
    Header,
    /// `"name": value`
    Field,
    /// `Bearer value`
    Bearer,
}

impl Join {
    const fn label(self) -> &'static str {
        match self {
            Self::Option => "option",
            Self::Assignment => "assignment",
            Self::Header => "header",
            Self::Field => "json_field",
            Self::Bearer => "bearer",
        }
    }
}

/// Takes the value of the name around `anchor`, if it is a secret's and has one. Returns how many
/// bytes were read.
pub(super) fn find(text: &[u8], anchor: Range<usize>, spans: &mut Vec<Span>) -> usize {
    let Some(name) = name_around(text, anchor) else {
        return 0;
    };
    let Some((join, at)) = join(text, &name) else {
        return 0;
    };
    let Some(meaning) = meaning(&text[name.clone()]) else {
        return 0;
    };
    if join == Join::Bearer && meaning != Meaning::Bearer {
        return 0;
    }
    let Some(hidden) = hidden(text, at, join, meaning) else {
        return 0;
    };
    let read = hidden.len();
    spans.push(Span {
        from: name.start,
        hidden,
        label: Label::Shape(join.label()),
    });
    read
}

/// The whole name that an anchor is part of; `None` where it is too long for one, or a path in code.
fn name_around(text: &[u8], anchor: Range<usize>) -> Option<Range<usize>> {
    let part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"_-.".contains(byte);
    let before = text[..anchor.start]
        .iter()
        .rev()
        .take(LONGEST)
        .take_while(part)
        .count();
    let after = text[anchor.end..]
        .iter()
        .take(LONGEST)
        .take_while(part)
        .count();
    let mut start = anchor.start - before;
    let end = anchor.end + after;
    // The letter of a JSON escape is not part of the name.
    if matches!(text[..start], [.., b'\\']) && b"nrt".contains(&text[start]) && start < anchor.start
    {
        start += 1;
    }
    (end - start <= LONGEST && !text[..start].ends_with(b"::")).then_some(start..end)
}

/// Finds the separator behind a name, and the beginning of the value.
fn join(text: &[u8], name: &Range<usize>) -> Option<(Join, usize)> {
    let closing = quote(text, name.end);
    let after_name = closing.map_or(name.end, |quote| quote.end);
    let at = blank(text, after_name);
    match text.get(at..)? {
        [b':', b':', ..] | [b':', b'/', b'/', ..] => None,
        [b':', b'=', ..] | [b'=', b'>' | b'=', ..] => Some((Join::Assignment, blank(text, at + 2))),
        [b'=', ..] if text[name.start] == b'-' => Some((Join::Option, blank(text, at + 1))),
        [b'=', ..] => Some((Join::Assignment, blank(text, at + 1))),
        [b':', ..] => {
            let join = if closing.is_some() {
                Join::Field
            } else {
                Join::Header
            };
            Some((join, blank(text, at + 1)))
        }
        [b',', ..] if text[name.start] == b'-' && closing.is_some() => {
            let at = blank(text, at + 1);
            quote(text, at).map(|_| (Join::Option, at))
        }
        [next, ..] if at > after_name && closing.is_none() => match text[name.start] {
            b'-' if *next != b'-' => Some((Join::Option, at)),
            b'b' | b'B' => Some((Join::Bearer, at)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the range to hide of the value that begins at `at`.
fn hidden(text: &[u8], at: usize, join: Join, meaning: Meaning) -> Option<Range<usize>> {
    let (range, quoted) = match value::opening(text, at) {
        Some(quote) => (quote.end..value::closing(text, quote), Some(quote)),
        None if join != Join::Assignment && join != Join::Option && text.get(at) == Some(&b'{') => {
            return None;
        }
        None if join == Join::Field && text.get(at) == Some(&b'[') => {
            if value::is_hidden_list(&text[at..]) {
                return None;
            }
            (value::list(text, at), None)
        }
        None if meaning == Meaning::Cookie => (at..value::rest_of_line(text, at), None),
        None => (at..value::bare(text, at), None),
    };
    let range = match meaning {
        Meaning::Authorization => credentials(text, range, quoted),
        _ => range,
    };
    let may_be_word = quoted.is_none()
        && matches!(join, Join::Header | Join::Field)
        && (matches!(meaning, Meaning::Secret | Meaning::Token) || text.get(at) == Some(&b'['));
    if may_be_word && value::is_in_sentence(text, &range) {
        return None;
    }
    let value = &text[range.clone()];
    let is_secret = match meaning {
        Meaning::Token => !value::is_count(value),
        Meaning::Bearer => value::looks_random(value),
        Meaning::Secret | Meaning::Authorization | Meaning::Cookie => true,
    };
    // A word after a space may be the next word of a sentence.
    let is_short =
        join == Join::Option && quoted.is_none() && text[at - 1] != b'=' && value.len() < 4;
    (is_secret && !is_short && !is_hidden(value) && !value::is_nothing(value)).then_some(range)
}

/// Credentials without the word for their scheme, which is kept.
fn credentials(text: &[u8], range: Range<usize>, quoted: Option<Quote>) -> Range<usize> {
    /// Schemes with one word behind them.
    const PLAIN: [&[u8]; 7] = [
        b"bearer",
        b"basic",
        b"token",
        b"apikey",
        b"key",
        b"negotiate",
        b"ntlm",
    ];
    let line = quoted.map_or_else(|| value::rest_of_line(text, range.start), |_| range.end);
    let word = text[range.start..line]
        .iter()
        .position(|byte| !(byte.is_ascii_alphanumeric() || *byte == b'-'))
        .map_or(line, |length| range.start + length);
    let rest = blank(text, word).min(line);
    let scheme = text[range.start..word].to_ascii_lowercase();
    if rest == word || rest == line || scheme.len() < 3 || !scheme[0].is_ascii_alphabetic() {
        range
    } else if quoted.is_some() {
        rest..range.end
    } else if PLAIN.contains(&scheme.as_slice()) {
        rest..value::bare(text, rest)
    } else if [b"digest".as_slice(), b"hawk", b"signature", b"oauth"].contains(&scheme.as_slice())
        || scheme.starts_with(b"aws4-")
    {
        rest..value::line_end(text, rest)
    } else if value::looks_random(&text[rest..value::bare(text, rest).min(line)]) {
        // A scheme that is not known, or a password with a space.
        range.start..value::bare(text, rest)
    } else {
        range
    }
}
