//! Hiding secrets in a text.

use std::borrow::Cow;
use std::fmt;

use super::anchors;
use super::forms::parts;
use super::shared::clean_name;
use super::span::{Label, Span, merge};
use super::values::{Secret, Values};

/// Hides registered values and well-known shapes of secrets; see the [module](super).
///
/// Immutable. Its `Debug` text shows no values.
pub struct Redactor {
    values: Values,
    count: usize,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor").field("values", &self.count).finish_non_exhaustive()
    }
}

impl Redactor {
    /// Makes one that knows these secrets, each a name and a value, and every shape. What is shorter than 12 bytes is
    /// no secret.
    pub fn new<N: AsRef<str>, V: AsRef<[u8]>>(secrets: impl IntoIterator<Item = (N, V)>) -> Self {
        let mut known = Vec::new();
        for (name, value) in secrets {
            let name = clean_name(name.as_ref());
            let parts = parts(value.as_ref()).into_iter();
            known.extend(parts.map(|part| Secret { name: name.clone(), part: part.into() }));
        }
        Self::of(known.into_iter())
    }

    pub(super) fn of(secrets: impl ExactSizeIterator<Item = Secret>) -> Self {
        Self { count: secrets.len(), values: Values::new(secrets) }
    }

    /// Hides what is secret in a text. A clean text is returned as it is.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        match self.bytes(text.as_bytes()) {
            Cow::Borrowed(_) => Cow::Borrowed(text),
            // A value may begin or end within a letter.
            Cow::Owned(bytes) => Cow::Owned(match String::from_utf8(bytes) {
                Ok(text) => text,
                Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
            }),
        }
    }

    /// The same for bytes, which need not be text.
    #[must_use]
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let spans = self.spans(bytes);
        if spans.is_empty() {
            return Cow::Borrowed(bytes);
        }
        let mut shown = Vec::with_capacity(bytes.len());
        self.write(bytes, &spans, &mut shown);
        Cow::Owned(shown)
    }

    /// What is to be hidden, in order, none overlapping another.
    pub(super) fn spans(&self, text: &[u8]) -> Vec<Span> {
        let mut spans = Vec::new();
        self.values.find(text, &mut spans);
        anchors::find(text, &mut spans);
        merge(&mut spans);
        spans
    }

    /// Appends the text with the spans hidden.
    pub(super) fn write(&self, text: &[u8], spans: &[Span], shown: &mut Vec<u8>) {
        let mut at = 0;
        for span in spans {
            shown.extend_from_slice(&text[at..span.hidden.start]);
            let name = match span.label {
                Label::Value(index) => self.values.name(index),
                Label::Shape(name) => name,
            };
            shown.extend_from_slice(super::value::PLACEHOLDER);
            shown.extend_from_slice(name.as_bytes());
            shown.push(b']');
            at = span.hidden.end;
        }
        shown.extend_from_slice(&text[at..]);
    }
}
