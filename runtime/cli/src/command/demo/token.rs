//! A text that only one session knows.

use std::fmt;

/// Digits of a session's number in its token.
const DIGITS: usize = 6;

/// The tokens of one run of the demo: no adapter has seen them before.
#[derive(Debug, Clone)]
pub(super) struct Tokens {
    prefix: String,
}

/// The token of one session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Token(String);

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Tokens {
    /// Tokens with this in them, which tells this run from others.
    pub(super) fn new(run: u64) -> Self {
        Self {
            prefix: format!("tk{run:016x}x"),
        }
    }

    /// The token of a session.
    pub(super) fn of(&self, session: u32) -> Token {
        Token(format!("{}{session:0DIGITS$}", self.prefix))
    }

    /// How many tokens in a text are not this one, and how many are.
    pub(super) fn foreign_and_own(&self, text: &str, own: &Token) -> (u64, u64) {
        let mut counted = (0, 0);
        for (at, _) in text.match_indices(&self.prefix) {
            match text.get(at..at + self.prefix.len() + DIGITS) {
                Some(token) if token == own.0 => counted.1 += 1,
                Some(_) => counted.0 += 1,
                // Cut off: its session is unknown.
                None => {}
            }
        }
        counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_foreign_token_is_found() {
        let tokens = Tokens::new(7);
        let (own, other) = (tokens.of(1), tokens.of(2));
        assert_eq!(
            tokens.foreign_and_own(&format!("{own}{own} ran {own}"), &own),
            (0, 3)
        );
        assert_eq!(
            tokens.foreign_and_own(&format!("{own} {other}"), &own),
            (1, 1)
        );
        assert_eq!(
            tokens.foreign_and_own("tk0000000000000007x0000", &own),
            (0, 0)
        );
        assert_eq!(
            tokens.foreign_and_own(&Tokens::new(8).of(2).to_string(), &own),
            (0, 0)
        );
    }
}
