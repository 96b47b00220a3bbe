//! Registered values, found wherever they stand.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use aho_corasick::{AhoCorasick, MatchKind};

use super::forms::{Form, forms};
use super::grams::Grams;
use super::span::{Label, Span};

/// A secret and what it is called.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret {
    pub(super) name: Arc<str>,
    /// One of its parts; at least 12 bytes.
    pub(super) part: Arc<[u8]>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// What finds registered values.
pub(super) struct Values {
    names: Vec<Arc<str>>,
    grams: Grams,
    automaton: Option<AhoCorasick>,
    /// For each pattern of the automaton, its name and how it came from its value.
    patterns: Vec<(usize, Form)>,
}

impl Values {
    pub(super) fn new(secrets: impl Iterator<Item = Secret>) -> Self {
        let (mut names, mut patterns, mut texts) = (Vec::new(), Vec::new(), Vec::new());
        for secret in secrets {
            for (form, text) in forms(&secret.part) {
                patterns.push((names.len(), form));
                texts.push(text);
            }
            names.push(secret.name);
        }
        let grams = Grams::new(texts.iter().map(Vec::as_slice));
        // Overlapping values are all hidden, so every match is wanted, not the leftmost alone.
        let automaton = AhoCorasick::builder().match_kind(MatchKind::Standard).build(&texts).ok();
        Self { names, grams, automaton, patterns }
    }

    pub(super) fn name(&self, index: usize) -> &str {
        &self.names[index]
    }

    /// Finds every value in `text`.
    pub(super) fn find(&self, text: &[u8], spans: &mut Vec<Span>) {
        let Some(automaton) = &self.automaton else { return };
        if !self.grams.may_be_in(text) {
            return;
        }
        for found in automaton.find_overlapping_iter(text) {
            let (name, form) = self.patterns[found.pattern().as_usize()];
            let hidden = match form {
                Form::Plain => found.range(),
                Form::Base64 => whole_run(text, found.range()),
            };
            let span = Span { from: hidden.start, hidden, label: Label::Value(name) };
            // A run of one letter matches a value of that letter at every place.
            match spans.last_mut() {
                Some(last)
                    if last.label == span.label
                        && (last.hidden.start..=last.hidden.end).contains(&span.hidden.start) =>
                {
                    last.hidden.end = last.hidden.end.max(span.hidden.end);
                }
                _ => spans.push(span),
            }
        }
    }
}

/// The characters of base64 around a match: those next to it carry bits of the value.
fn whole_run(text: &[u8], found: Range<usize>) -> Range<usize> {
    /// As many characters as three bytes make, and padding.
    const EDGE: usize = 6;
    let is_part = |byte: &&u8| byte.is_ascii_alphanumeric() || b"+/-_=".contains(byte);
    let before = text[..found.start].iter().rev().take(EDGE).take_while(is_part).count();
    let after = text[found.end..].iter().take(EDGE).take_while(is_part).count();
    found.start - before..found.end + after
}
