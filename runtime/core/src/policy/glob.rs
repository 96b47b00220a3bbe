//! The glob matcher: linear in the text for a given pattern, so a peer's text cannot make it slow.

use std::fmt;

/// Meaning of `/` in the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Separator {
    /// `*`, `?` and sets stop at `/`.
    Slash,
    /// `/` is a character like any other.
    None,
}

/// A parsed glob. It matches a text as a whole, never a part of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Glob {
    tokens: Vec<Token>,
    has_wildcard: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Literal(char),
    /// `?`
    One,
    /// `*`
    Star,
    /// `**`
    DoubleStar,
    /// `**/` at the start of a component: any number of whole components, also none.
    Folders,
    /// `[a-z]`, `[!a-z]`
    Set {
        negated: bool,
        ranges: Vec<(char, char)>,
    },
}

/// Error of a text that is not a glob.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BadGlob {
    OpenSet,
    ReversedRange,
    TrailingEscape,
}

impl fmt::Display for BadGlob {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenSet => "`[` has no matching `]`; write `\\[` for the character itself",
            Self::ReversedRange => "a range in `[…]` runs backwards",
            Self::TrailingEscape => "`\\` at the end escapes nothing",
        })
    }
}

impl Glob {
    pub(super) fn parse(text: &str) -> Result<Self, BadGlob> {
        let mut tokens = Vec::new();
        let mut has_wildcard = false;
        let mut chars = text.chars().peekable();
        while let Some(c) = chars.next() {
            let token = match c {
                '\\' => Token::Literal(chars.next().ok_or(BadGlob::TrailingEscape)?),
                '?' => Token::One,
                '[' => parse_set(&mut chars)?,
                '*' => {
                    let mut stars = 1;
                    while chars.next_if_eq(&'*').is_some() {
                        stars += 1;
                    }
                    let at_component_start =
                        matches!(tokens.last(), None | Some(Token::Literal('/')));
                    if stars == 1 {
                        Token::Star
                    } else if at_component_start && chars.next_if_eq(&'/').is_some() {
                        Token::Folders
                    } else {
                        Token::DoubleStar
                    }
                }
                other => Token::Literal(other),
            };
            has_wildcard |= !matches!(token, Token::Literal(_));
            tokens.push(token);
        }
        Ok(Self {
            tokens,
            has_wildcard,
        })
    }

    /// Returns true if it contains anything but literal characters.
    pub(super) fn has_wildcard(&self) -> bool {
        self.has_wildcard
    }

    /// Returns true if it is just `**`, or just `*` if `/` does not divide.
    pub(super) fn is_everything(&self, separator: Separator) -> bool {
        match self.tokens.as_slice() {
            [Token::DoubleStar] => true,
            [Token::Star] => separator == Separator::None,
            _ => false,
        }
    }

    /// Returns true if it contains a literal `/`.
    pub(super) fn has_slash(&self) -> bool {
        self.tokens
            .iter()
            .any(|token| matches!(token, Token::Literal('/') | Token::Folders))
    }

    /// Returns true if it has a literal `://` and is not over files by URL: what it matches is no path.
    pub(super) fn is_over_addresses(&self) -> bool {
        let is_text = |tokens: &[Token], text: &str| {
            let mut chars = tokens.iter().zip(text.chars());
            chars.all(|(token, c)| matches!(token, Token::Literal(literal) if literal.eq_ignore_ascii_case(&c)))
        };
        self.tokens.windows(3).any(|tokens| is_text(tokens, "://"))
            && !is_text(&self.tokens, "file:")
    }

    /// Returns true if it matches the whole of `text`. Walks the text once with the set of
    /// positions in the pattern that are reachable: time is at most the product of both lengths.
    pub(super) fn matches(&self, text: &str, separator: Separator) -> bool {
        let end = self.tokens.len();
        let mut now = vec![false; end + 1];
        let mut next = vec![false; end + 1];
        self.reach(&mut now, 0);
        for c in text.chars() {
            next.fill(false);
            let divides = separator == Separator::Slash && c == '/';
            for at in (0..end).filter(|&at| now[at]) {
                match &self.tokens[at] {
                    Token::Literal(literal) if *literal == c => self.reach(&mut next, at + 1),
                    Token::One if !divides => self.reach(&mut next, at + 1),
                    Token::Set { negated, ranges } if !divides => {
                        if ranges.iter().any(|&(low, high)| (low..=high).contains(&c)) != *negated {
                            self.reach(&mut next, at + 1);
                        }
                    }
                    Token::Star if !divides => self.reach(&mut next, at),
                    Token::DoubleStar => self.reach(&mut next, at),
                    // Within a component only this token itself stays; its end opens what follows.
                    Token::Folders if c == '/' => self.reach(&mut next, at),
                    Token::Folders => next[at] = true,
                    Token::Literal(_) | Token::One | Token::Set { .. } | Token::Star => {}
                }
            }
            std::mem::swap(&mut now, &mut next);
        }
        now[end]
    }

    /// Marks `at` and every position reachable from it without a character.
    fn reach(&self, set: &mut [bool], mut at: usize) {
        set[at] = true;
        while let Some(Token::Star | Token::DoubleStar | Token::Folders) = self.tokens.get(at) {
            at += 1;
            set[at] = true;
        }
    }
}

/// Parses the text after `[`, up to and including its `]`. A `]` right after the opening is
/// literal.
fn parse_set(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Result<Token, BadGlob> {
    let negated = chars.next_if(|c| matches!(c, '!' | '^')).is_some();
    let mut ranges = Vec::new();
    loop {
        let low = match chars.next().ok_or(BadGlob::OpenSet)? {
            ']' if !ranges.is_empty() => return Ok(Token::Set { negated, ranges }),
            '\\' => chars.next().ok_or(BadGlob::OpenSet)?,
            other => other,
        };
        let mut ahead = chars.clone();
        let is_range = ahead.next() == Some('-') && !matches!(ahead.next(), None | Some(']'));
        if !is_range {
            ranges.push((low, low));
            continue;
        }
        chars.next();
        let high = match chars.next().ok_or(BadGlob::OpenSet)? {
            '\\' => chars.next().ok_or(BadGlob::OpenSet)?,
            other => other,
        };
        if high < low {
            return Err(BadGlob::ReversedRange);
        }
        ranges.push((low, high));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(glob: &str, separator: Separator, yes: &[&str], no: &[&str]) {
        let parsed = Glob::parse(glob).unwrap();
        for text in yes {
            assert!(
                parsed.matches(text, separator),
                "`{glob}` should match `{text}`"
            );
        }
        for text in no {
            assert!(
                !parsed.matches(text, separator),
                "`{glob}` should not match `{text}`"
            );
        }
    }

    #[test]
    fn slash_stops_single_stars_in_paths() {
        check(
            "src/*.rs",
            Separator::Slash,
            &["src/a.rs", "src/.rs"],
            &["src/a/b.rs", "src/a.rsx", "a.rs"],
        );
        check("a?c", Separator::Slash, &["abc", "aéc"], &["a/c", "ac"]);
        check(
            "specs/**",
            Separator::Slash,
            &["specs/a", "specs/a/b", "specs/"],
            &["specs", "xspecs/a"],
        );
    }

    #[test]
    fn folders_match_none_or_many() {
        check(
            "**/.env",
            Separator::Slash,
            &[".env", "/.env", "a/.env", "/a/b/.env"],
            &["x.env", "a/x.env", ".env/a"],
        );
        check(
            "a/**/b",
            Separator::Slash,
            &["a/b", "a/x/b", "a/x/y/b"],
            &["ab", "a/xb", "a/x/yb"],
        );
        check("a**b", Separator::Slash, &["ab", "a/x/b"], &["a/x"]);
    }

    #[test]
    fn slash_is_plain_without_separator() {
        check(
            "git log*",
            Separator::None,
            &["git log", "git log a/b"],
            &["git status", "a git log"],
        );
        check("cat ?", Separator::None, &["cat /"], &["cat //"]);
    }

    #[test]
    fn sets_and_escapes() {
        check(
            "[a-c]x",
            Separator::Slash,
            &["ax", "cx"],
            &["dx", "x", "/x"],
        );
        check("[!a-c]x", Separator::Slash, &["dx"], &["ax", "/x"]);
        check("[]a-]", Separator::Slash, &["]", "a", "-"], &["b"]);
        check(r"\*\[", Separator::Slash, &["*["], &["a["]);
    }

    #[test]
    fn malformed_globs_are_refused() {
        assert_eq!(Glob::parse("[a"), Err(BadGlob::OpenSet));
        assert_eq!(Glob::parse("[]"), Err(BadGlob::OpenSet));
        assert_eq!(Glob::parse("[z-a]"), Err(BadGlob::ReversedRange));
        assert_eq!(Glob::parse("a\\"), Err(BadGlob::TrailingEscape));
    }

    #[test]
    fn many_stars_stay_linear_in_the_text() {
        let glob = Glob::parse(&"*a".repeat(200)).unwrap();
        assert!(!glob.matches(
            &"a".repeat(50_000).replace("aaaaaaaaaa", "aaaaaaaaab"),
            Separator::None
        ));
    }
}
