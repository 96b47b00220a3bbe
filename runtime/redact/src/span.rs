//! The parts of a text to hide.

use std::ops::Range;
use std::sync::Arc;

/// A part to hide.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Span {
    /// The beginning of the words that make it a secret. A text is not cut between here and the
    /// end.
    pub(super) from: usize,
    pub(super) hidden: Range<usize>,
    pub(super) label: Label,
}

/// The replacement of a hidden part.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Label {
    /// A registered value: its name.
    Value(Arc<str>),
    /// A shape.
    Shape(&'static str),
}

impl Span {
    fn is_value(&self) -> bool {
        matches!(self.label, Label::Value(_))
    }
}

/// Sorts spans and makes one of those that overlap, named after a registered value before a shape,
/// and the longest.
pub(super) fn merge(spans: &mut Vec<Span>) {
    if spans.len() < 2 {
        return;
    }
    spans.sort_by_key(|span| (span.hidden.start, span.hidden.end));
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    // The length of the span that gave the last one its name.
    let mut named_by = 0;
    for span in spans.drain(..) {
        let length = span.hidden.len();
        match merged.last_mut() {
            Some(last) if span.hidden.start < last.hidden.end || continues(last, &span) => {
                last.from = last.from.min(span.from);
                last.hidden.end = last.hidden.end.max(span.hidden.end);
                if (span.is_value(), length) > (last.is_value(), named_by) {
                    (last.label, named_by) = (span.label, length);
                }
            }
            _ => {
                named_by = length;
                merged.push(span);
            }
        }
    }
    *spans = merged;
}

/// Returns true if the second part continues the same value.
fn continues(last: &Span, next: &Span) -> bool {
    last.hidden.end == next.hidden.start && last.is_value() && last.label == next.label
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(hidden: Range<usize>, label: Label) -> Span {
        Span {
            from: hidden.start,
            hidden,
            label,
        }
    }

    #[test]
    fn what_overlaps_becomes_one_named_after_the_longest_value() {
        let shape = Label::Shape("s");
        let value = |name: &str| Label::Value(name.into());
        let mut spans = vec![
            span(30..40, shape.clone()),
            span(0..20, shape.clone()),
            span(18..25, value("1")),
            span(5..17, value("2")),
            span(40..45, shape.clone()),
            span(50..60, value("1")),
            span(60..70, value("1")),
        ];
        spans[0].from = 22;
        merge(&mut spans);
        let whole: Vec<_> = spans
            .iter()
            .map(|span| (span.hidden.clone(), span.label.clone()))
            .collect();
        let expected = [
            (0..25, value("2")),
            (30..40, shape.clone()),
            (40..45, shape),
            (50..70, value("1")),
        ];
        assert_eq!(whole, expected);
        assert_eq!(spans[1].from, 22);
    }
}
