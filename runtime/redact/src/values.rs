//! Registered values, found anywhere in a text.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Bound::{Excluded, Included, Unbounded};
use std::ops::Range;
use std::sync::Arc;

use crate::escaped::{self, View};
use crate::forms::{Form, forms};
use crate::grams::{Grams, SHORTEST, STEP};
use crate::span::{Label, Span};
use crate::wrapped::{EDGE, Heads, is_base64};

/// Layers of escapes that are decoded: a JSON text in a JSON text, an address in an address.
const MAX_ESCAPES: usize = 2;

/// A secret and what it is called.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Secret {
    pub(super) name: Arc<str>,
    /// A part of it; at least 12 bytes.
    pub(super) part: Arc<[u8]>,
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// A pattern to search for: one form of a value.
struct Pattern {
    name: Arc<str>,
    form: Form,
    /// Number of secrets that have this form.
    holders: usize,
}

/// The searcher for registered values. The cost of adding or removing a value depends on its
/// length, not on the number of values.
#[derive(Default)]
pub(super) struct Values {
    patterns: BTreeMap<Box<[u8]>, Pattern>,
    grams: Grams,
    heads: Heads,
    secrets: usize,
}

impl Values {
    /// Returns the number of known secrets; each part of a value counts.
    pub(super) const fn count(&self) -> usize {
        self.secrets
    }

    pub(super) fn add(&mut self, secret: &Secret) {
        self.secrets += 1;
        for (form, text) in forms(&secret.part) {
            if let Some(known) = self.patterns.get_mut(text.as_slice()) {
                known.holders += 1;
                continue;
            }
            self.grams.add(&text);
            if form == Form::Base64 {
                self.heads.add(&text);
            }
            let pattern = Pattern {
                name: secret.name.clone(),
                form,
                holders: 1,
            };
            self.patterns.insert(text.into(), pattern);
        }
    }

    /// Forgets what [`Values::add`] took, unless another secret has the same form.
    pub(super) fn remove(&mut self, secret: &Secret) {
        self.secrets = self.secrets.saturating_sub(1);
        for (_, text) in forms(&secret.part) {
            let Some(known) = self.patterns.get_mut(text.as_slice()) else {
                continue;
            };
            known.holders -= 1;
            if known.holders == 0 {
                let form = known.form;
                self.patterns.remove(text.as_slice());
                self.grams.remove(&text);
                if form == Form::Base64 {
                    self.heads.remove(&text);
                }
            }
        }
    }

    /// Finds every value in `text`: plain, broken over lines, and behind escapes.
    pub(super) fn find(&self, text: &[u8], spans: &mut Vec<Span>) {
        if !self.patterns.is_empty() {
            self.find_to(MAX_ESCAPES, text, spans);
        }
    }

    fn find_to(&self, depth: usize, text: &[u8], spans: &mut Vec<Span>) {
        self.find_plain(text, spans);
        let longest = |joined: &[u8]| {
            self.longest(joined)
                .map(|(length, pattern)| (length, Label::Value(pattern.name.clone())))
        };
        self.heads.find(text, longest, spans);
        if depth == 0 {
            return;
        }
        let mut found = Vec::new();
        for view in [escaped::backslashes(text), escaped::percents(text)]
            .into_iter()
            .flatten()
        {
            self.find_to(depth - 1, &view.text, &mut found);
            spans.extend(found.drain(..).map(|span| in_original(&view, span)));
        }
    }

    fn find_plain(&self, text: &[u8], spans: &mut Vec<Span>) {
        for at in self.grams.hits(text) {
            // It may be any of the grams that a value begins with.
            for start in (at + 1).saturating_sub(STEP)..=at {
                let Some((length, pattern)) = self.longest(&text[start..]) else {
                    continue;
                };
                let found = start..start + length;
                let hidden = match pattern.form {
                    Form::Plain => found,
                    Form::Base64 => whole_run(text, found),
                };
                let span = Span {
                    from: hidden.start,
                    hidden,
                    label: Label::Value(pattern.name.clone()),
                };
                // A run of one letter matches a value of that letter at every place.
                match spans.last_mut() {
                    Some(last)
                        if last.label == span.label
                            && (last.hidden.start..=last.hidden.end)
                                .contains(&span.hidden.start) =>
                    {
                        last.hidden.end = last.hidden.end.max(span.hidden.end);
                    }
                    _ => spans.push(span),
                }
            }
        }
    }

    /// The longest pattern that `text` begins with, and its length.
    fn longest(&self, text: &[u8]) -> Option<(usize, &Pattern)> {
        let mut most = text.len();
        while most >= SHORTEST {
            // A prefix of the text sorts before the text, the longest such pattern last, unless
            // other patterns are in between. Those differ from the text somewhere, and no pattern
            // longer than that position can match.
            let before = (Unbounded, Included(&text[..most]));
            let (pattern, of) = self.patterns.range::<[u8], _>(before).next_back()?;
            let common = pattern
                .iter()
                .zip(text)
                .take_while(|(one, other)| one == other)
                .count();
            if common == pattern.len() {
                return Some((common, of));
            }
            most = common;
        }
        None
    }

    /// Returns where, in whole lines, the base64 text of a value may begin that continues on the
    /// next line.
    pub(super) fn open_from(&self, lines: &[u8]) -> Option<usize> {
        self.heads.open_from(lines, |begun| {
            let behind = (Excluded(begun), Unbounded);
            let next = self.patterns.range::<[u8], _>(behind).next();
            next.is_some_and(|(pattern, of)| of.form == Form::Base64 && pattern.starts_with(begun))
        })
    }
}

fn in_original(view: &View, span: Span) -> Span {
    let hidden = view.original(span.hidden);
    Span {
        from: view.original(span.from..span.from).start.min(hidden.start),
        hidden,
        label: span.label,
    }
}

/// The characters of base64 around a match: those next to it carry bits of the value.
fn whole_run(text: &[u8], found: Range<usize>) -> Range<usize> {
    let before = text[..found.start]
        .iter()
        .rev()
        .take(EDGE)
        .take_while(|byte| is_base64(**byte))
        .count();
    let after = text[found.end..]
        .iter()
        .take(EDGE)
        .take_while(|byte| is_base64(**byte))
        .count();
    found.start - before..found.end + after
}
