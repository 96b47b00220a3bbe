//! The one pass over a text that looks for shapes: literals without which there is none.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use crate::span::{Label, Span};
use crate::{field, token, url};

/// A shape of secret that a literal can begin, or be part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// A part of a secret name.
    Name,
    /// The beginning of a token.
    Token,
    /// A URL, which may hold a password.
    Url,
}

/// In lower case.
const ANCHORS: [(Lead, &[&str]); 3] = [
    (
        Lead::Name,
        &[
            "key",
            "token",
            "secret",
            "passw",
            "passphrase",
            "credential",
            "authorization",
            "auth",
            "bearer",
            "cookie",
            "jwt",
            "pwd",
            "connectionstring",
            "connection_string",
            "connection-string",
        ],
    ),
    (
        Lead::Token,
        &[
            "github_pat_",
            "ghp_",
            "gho_",
            "ghu_",
            "ghs_",
            "ghr_",
            "glpat-",
            "sk-",
            "xox",
            "akia",
            "aiza",
            "eyj",
            "signoz-ingestion-key=",
            "lin_oauth_",
            "lin_api_",
            "npm_",
            "atatt",
            "aswt_",
        ],
    ),
    (Lead::Url, &["://"]),
];

/// Text is looked at in windows of this many bytes, in lower case.
const WINDOW: usize = 1024;
/// Overlap of windows, in bytes; no anchor is longer.
const OVERLAP: usize = 32;

/// Limit of reads per byte behind anchors, beside [`ALLOWANCE`]. A text that exceeds it was made to
/// be slow and is hidden.
const READS: usize = 8;
/// Bytes that may be read for any text.
const ALLOWANCE: usize = 16 * 1024;

struct Searcher {
    automaton: AhoCorasick,
    leads: Vec<Lead>,
}

static SEARCHER: LazyLock<Searcher> = LazyLock::new(|| {
    let anchors = ANCHORS
        .iter()
        .flat_map(|(lead, texts)| texts.iter().map(move |text| (*lead, *text)));
    let (leads, texts): (Vec<_>, Vec<_>) = anchors.unzip();
    let automaton = AhoCorasick::builder()
        .match_kind(MatchKind::LeftmostLongest)
        .build(texts);
    Searcher {
        automaton: automaton.expect("few and short anchors make a small automaton"),
        leads,
    }
});

/// The shapes of secrets to look for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shapes {
    /// Also the values beside secret names, which can be words of a sentence.
    All,
    /// Tokens and passwords of URLs.
    Unambiguous,
}

/// Finds what looks like a secret in `text`, in time linear in its length.
pub(super) fn find(text: &[u8], shapes: Shapes, spans: &mut Vec<Span>) {
    let searcher = &*SEARCHER;
    let mut lower = [0; WINDOW];
    let mut begin = 0;
    let mut read = 0;
    loop {
        let window = &text[begin..text.len().min(begin + WINDOW)];
        let lower = &mut lower[..window.len()];
        lower.copy_from_slice(window);
        lower.make_ascii_lowercase();
        for found in searcher.automaton.find_iter(&*lower) {
            let at = begin + found.start()..begin + found.end();
            let from = at.start;
            read += match searcher.leads[found.pattern().as_usize()] {
                Lead::Name if shapes == Shapes::Unambiguous => 0,
                Lead::Name => field::find(text, at, spans),
                Lead::Token => token::find(text, from, spans),
                Lead::Url => url::find(text, at.end, spans),
            };
            if read > READS * text.len() + ALLOWANCE {
                spans.push(Span {
                    from,
                    hidden: from..text.len(),
                    label: Label::Shape("unread"),
                });
                return;
            }
        }
        if begin + WINDOW >= text.len() {
            return;
        }
        begin += WINDOW - OVERLAP;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_in_lower_case_and_fit_into_the_overlap() {
        for text in ANCHORS.iter().flat_map(|(_, texts)| *texts) {
            assert_eq!(*text, text.to_ascii_lowercase());
            assert!(text.len() < OVERLAP);
        }
    }

    #[test]
    fn a_shape_is_found_wherever_a_window_ends() {
        for before in WINDOW - 64..WINDOW + 64 {
            let text = format!("{}ghp_{}", " ".repeat(before), "a".repeat(20));
            let mut spans = Vec::new();
            find(text.as_bytes(), Shapes::All, &mut spans);
            assert_eq!(spans[0].hidden, before..before + 24);
        }
    }
}
