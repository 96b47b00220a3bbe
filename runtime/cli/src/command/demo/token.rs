//! Tokens that identify the text of one session.

/// Digits of the session number in a token.
const DIGITS: usize = 6;

/// Tokens of one run of the demo, unknown to any adapter.
#[derive(Debug, Clone)]
pub(super) struct SessionTokens {
    prefix: String,
}

impl SessionTokens {
    /// Creates the tokens of one run, with a number that distinguishes runs.
    pub(super) fn new(run: u64) -> Self {
        Self {
            prefix: format!("tk{run:016x}x"),
        }
    }

    /// Returns the token of a session.
    pub(super) fn for_session(&self, session: u32) -> String {
        format!("{}{session:0DIGITS$}", self.prefix)
    }

    /// Counts the tokens in a text that differ from this one, and those that equal it.
    pub(super) fn foreign_and_own(&self, text: &str, own: &str) -> (u64, u64) {
        let mut counted = (0, 0);
        for (at, _) in text.match_indices(&self.prefix) {
            match text.get(at..at + self.prefix.len() + DIGITS) {
                Some(token) if token == own => counted.1 += 1,
                Some(_) => counted.0 += 1,
                // Truncated: the session is unknown.
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
        let tokens = SessionTokens::new(7);
        let own = tokens.for_session(1);
        let other = tokens.for_session(2);
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
            tokens.foreign_and_own(&SessionTokens::new(8).for_session(2), &own),
            (0, 0)
        );
    }
}
