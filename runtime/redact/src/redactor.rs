//! Hiding secrets in a text.

use std::borrow::Cow;
use std::fmt;
use std::sync::{PoisonError, RwLock, RwLockReadGuard};

use crate::anchors::{self, Shapes};
use crate::forms::parts;
use crate::placeholder::{PLACEHOLDER, clean_name};
use crate::span::{Label, Span, merge};
use crate::values::{Secret, Values};

/// Hides registered values and well-known shapes of secrets; see the [module](super).
///
/// Its `Debug` text shows no values.
#[derive(Default)]
pub struct Redactor {
    values: RwLock<Values>,
}

impl fmt::Debug for Redactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redactor")
            .field("values", &self.values().count())
            .finish_non_exhaustive()
    }
}

impl Redactor {
    /// Makes one that knows these secrets, each a name and a value, and every shape. What is
    /// shorter than 12 bytes is no secret.
    pub fn new<N: AsRef<str>, V: AsRef<[u8]>>(secrets: impl IntoIterator<Item = (N, V)>) -> Self {
        let redactor = Self::default();
        redactor.change(|values| {
            for (name, value) in secrets {
                let name = clean_name(name.as_ref());
                for part in parts(value.as_ref()) {
                    values.add(&Secret {
                        name: name.clone(),
                        part: part.into(),
                    });
                }
            }
        });
        redactor
    }

    fn values(&self) -> RwLockReadGuard<'_, Values> {
        self.values.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes what is known. Who hides at that moment is waited for.
    pub(super) fn change<T>(&self, change: impl FnOnce(&mut Values) -> T) -> T {
        change(&mut self.values.write().unwrap_or_else(PoisonError::into_inner))
    }

    /// Hides what is secret in a text. A clean text is returned as it is.
    #[must_use]
    pub fn text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        into_text(text, self.bytes(text.as_bytes()))
    }

    /// The same for bytes, which need not be text.
    #[must_use]
    pub fn bytes<'a>(&self, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        shown(bytes, &self.spans(bytes))
    }

    /// Hides secrets in a message of this program's own: registered values, tokens by their form
    /// and passwords of URLs. A value beside a name is shown: `token: unknown key` is a
    /// sentence. Text from elsewhere goes through [`Redactor::text`] before it enters a message.
    #[must_use]
    pub fn message<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let spans = self.find(text.as_bytes(), Shapes::Unambiguous);
        into_text(text, shown(text.as_bytes(), &spans))
    }

    /// Returns the parts to hide, in order and without overlap.
    pub(super) fn spans(&self, text: &[u8]) -> Vec<Span> {
        self.find(text, Shapes::All)
    }

    fn find(&self, text: &[u8], shapes: Shapes) -> Vec<Span> {
        let mut spans = Vec::new();
        self.values().find(text, &mut spans);
        anchors::find(text, shapes, &mut spans);
        merge(&mut spans);
        spans
    }

    /// Returns the beginning of the last lines that should wait for the next line, because a value
    /// may continue there.
    pub(super) fn complete(&self, lines: &[u8]) -> usize {
        let Some(mut open) = self.values().open_from(lines) else {
            return lines.len();
        };
        // What is shown now must not end within another value.
        for span in self.spans(lines).iter().rev() {
            if span.hidden.end > open {
                open = open.min(span.from);
            }
        }
        lines[..open]
            .iter()
            .rposition(|byte| *byte == b'\n')
            .map_or(0, |at| at + 1)
    }
}

/// The text with the spans hidden, or as it is if there are none.
fn shown<'a>(text: &'a [u8], spans: &[Span]) -> Cow<'a, [u8]> {
    if spans.is_empty() {
        return Cow::Borrowed(text);
    }
    let mut shown = Vec::with_capacity(text.len());
    write(text, spans, &mut shown);
    Cow::Owned(shown)
}

/// Turns the shown bytes of a text into text again.
fn into_text<'a>(text: &'a str, shown: Cow<'a, [u8]>) -> Cow<'a, str> {
    match shown {
        Cow::Borrowed(_) => Cow::Borrowed(text),
        // A value may begin or end within a letter.
        Cow::Owned(bytes) => Cow::Owned(match String::from_utf8(bytes) {
            Ok(text) => text,
            Err(error) => String::from_utf8_lossy(error.as_bytes()).into_owned(),
        }),
    }
}

/// Appends the text with the spans hidden.
pub(super) fn write(text: &[u8], spans: &[Span], shown: &mut Vec<u8>) {
    let mut at = 0;
    for span in spans {
        shown.extend_from_slice(&text[at..span.hidden.start]);
        let name = match &span.label {
            Label::Value(name) => name,
            Label::Shape(name) => *name,
        };
        shown.extend_from_slice(PLACEHOLDER);
        shown.extend_from_slice(name.as_bytes());
        shown.push(b']');
        at = span.hidden.end;
    }
    shown.extend_from_slice(&text[at..]);
}
