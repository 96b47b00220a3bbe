//! The words that distinguish failures.

use std::sync::LazyLock;

use regex::bytes::{RegexSet, RegexSetBuilder};
use trunkline_sdk::Category;

use crate::agents::{self, AgentFile};

/// The patterns of `words.txt`, in its order; each category is followed by the patterns in the
/// agents' files.
static PATTERNS: LazyLock<Vec<(Category, &str)>> = LazyLock::new(|| {
    let mut category = Category::Other;
    let mut patterns = Vec::new();
    let of_agents = |category: Category| {
        let patterns = agents::all().flat_map(AgentFile::failures);
        patterns.filter(move |(of, _)| *of == category)
    };
    for line in include_str!("words.txt").lines() {
        let heading = line
            .strip_prefix('[')
            .and_then(|line| Category::named(line.strip_suffix(']')?));
        match heading {
            Some(named) => {
                patterns.extend(of_agents(category));
                category = named;
            }
            None if line.is_empty() || line.starts_with('#') => {}
            None => patterns.push((category, line)),
        }
    }
    patterns.extend(of_agents(category));
    patterns
});

/// Returns the category of the first pattern that is found.
pub(super) fn by_words(text: &str) -> Option<Category> {
    static WORDS: LazyLock<RegexSet> =
        LazyLock::new(|| set(PATTERNS.iter().map(|(_, pattern)| *pattern)));
    let first = WORDS.matches(text.as_bytes()).iter().next()?;
    PATTERNS.get(first).map(|(category, _)| *category)
}

/// Returns true if an agent reports that it does not know a session.
pub(super) fn is_unknown_session(text: &str) -> bool {
    static WORDS: LazyLock<RegexSet> = LazyLock::new(|| {
        let unknown = |(category, _): &&(Category, _)| *category == Category::SessionNotFound;
        set(PATTERNS.iter().filter(unknown).map(|(_, pattern)| *pattern))
    });
    WORDS.is_match(text.as_bytes())
}

/// Checks a pattern of an agent's file.
pub(super) fn check(pattern: &str) -> Result<(), String> {
    build(std::iter::once(pattern))
        .map(drop)
        .map_err(|error| error.to_string())
}

fn set(patterns: impl Iterator<Item = &'static str>) -> RegexSet {
    #[expect(
        clippy::expect_used,
        reason = "a constant table, compiled in every test; tables in files are checked when they are read"
    )]
    build(patterns).expect("each pattern is checked")
}

/// All words are ASCII, so bytes are compared: the automaton is a fraction of that for Unicode.
fn build<'p>(patterns: impl Iterator<Item = &'p str>) -> Result<RegexSet, regex::Error> {
    RegexSetBuilder::new(patterns)
        .unicode(false)
        .case_insensitive(true)
        .multi_line(true)
        .build()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_heading_is_a_category() {
        let is_heading = |pattern: &str| pattern.starts_with('[') && pattern.ends_with(']');
        for (category, pattern) in PATTERNS.iter() {
            assert!(!is_heading(pattern), "{pattern}");
            assert_ne!(*category, Category::Other, "{pattern}");
        }
        assert!(PATTERNS.len() > 130);
    }
}
