//! YAML of a manifest as JSON, from a parser's events. Bounded against documents that unfold: an
//! alias counts as much as what it repeats.

use std::collections::HashMap;

use granit_parser::{Event, Parser, ScalarStyle, Span, Tag};
use serde_json::{Map, Number, Value};

/// The most values of a document, aliases unfolded.
const MOST_VALUES: usize = 100_000;

/// The deepest nesting.
const DEEPEST: usize = 64;

/// Reads one document.
///
/// # Errors
/// What is wrong, with its line and column.
pub(super) fn read(text: &str) -> Result<Value, String> {
    let mut reader = Reader {
        events: Parser::new_from_str(text),
        anchors: HashMap::new(),
        values: 0,
    };
    loop {
        match reader.next()? {
            (Event::StreamStart | Event::DocumentStart(..), _) => {}
            (Event::StreamEnd, _) => return Ok(Value::Null),
            (event, at) => {
                let value = reader.value(event, at, 0)?;
                return match (reader.next()?, reader.next()?) {
                    (_, (Event::StreamEnd, _)) => Ok(value),
                    (_, (_, at)) => Err(wrong(at, "a second document; a manifest is one")),
                };
            }
        }
    }
}

fn wrong(at: Span, what: &str) -> String {
    format!(
        "line {}, column {}: {what}",
        at.start.line(),
        at.start.col() + 1
    )
}

struct Reader<'a> {
    events: Parser<'a, granit_parser::StrInput<'a>>,
    /// What aliases may repeat, and how many values it has.
    anchors: HashMap<usize, (Value, usize)>,
    values: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), String> {
        match self.events.next() {
            Some(Ok(event)) => Ok(event),
            Some(Err(error)) => Err(error.to_string()),
            None => Ok((Event::StreamEnd, Span::default())),
        }
    }

    fn count(&mut self, values: usize, at: Span) -> Result<(), String> {
        self.values += values;
        if self.values > MOST_VALUES {
            return Err(wrong(
                at,
                &format!("more than {MOST_VALUES} values, with aliases unfolded"),
            ));
        }
        Ok(())
    }

    fn value(&mut self, event: Event<'a>, at: Span, depth: usize) -> Result<Value, String> {
        if depth > DEEPEST {
            return Err(wrong(at, &format!("nested deeper than {DEEPEST}")));
        }
        self.count(1, at)?;
        let before = self.values;
        let (value, anchor) = match event {
            Event::Scalar(text, style, anchor, tag) => {
                (scalar(&text, style, tag.as_deref()), anchor)
            }
            Event::SequenceStart(_, anchor, _) => {
                let mut items = Vec::new();
                loop {
                    match self.next()? {
                        (Event::SequenceEnd, _) => break,
                        (event, at) => items.push(self.value(event, at, depth + 1)?),
                    }
                }
                (Value::Array(items), anchor)
            }
            Event::MappingStart(_, anchor, _) => (Value::Object(self.mapping(depth)?), anchor),
            Event::Alias(anchor) => {
                let Some((value, values)) = self.anchors.get(&anchor) else {
                    return Err(wrong(at, "an alias within what it repeats"));
                };
                let (value, values) = (value.clone(), *values);
                self.count(values - 1, at)?;
                return Ok(value);
            }
            _ => return Err(wrong(at, "a value is missing")),
        };
        if anchor > 0 {
            let size = self.values - before + 1;
            // The copy that waits for its aliases counts too.
            self.count(size, at)?;
            self.anchors.insert(anchor, (value.clone(), size));
        }
        Ok(value)
    }

    fn mapping(&mut self, depth: usize) -> Result<Map<String, Value>, String> {
        let mut members = Map::new();
        let mut merged = Vec::new();
        loop {
            let (key, key_at) = match self.next()? {
                (Event::MappingEnd, _) => break,
                (Event::Scalar(key, style, 0, _), at) => (
                    if style == ScalarStyle::Plain && key == "<<" {
                        None
                    } else {
                        Some(key)
                    },
                    at,
                ),
                (_, at) => return Err(wrong(at, "a key that is not plain text")),
            };
            let (event, at) = self.next()?;
            let value = self.value(event, at, depth + 1)?;
            match (key, value) {
                (None, Value::Object(more)) => merged.push(more),
                (None, Value::Array(list)) => {
                    for item in list {
                        let Value::Object(more) = item else {
                            return Err(wrong(at, "`<<` merges mappings"));
                        };
                        merged.push(more);
                    }
                }
                (None, _) => return Err(wrong(at, "`<<` merges mappings")),
                (Some(key), value) => {
                    if members.insert(key.to_string(), value).is_some() {
                        return Err(wrong(key_at, &format!("the key `{key}` stands twice")));
                    }
                }
            }
        }
        for (key, value) in merged.into_iter().flatten() {
            members.entry(key).or_insert(value);
        }
        Ok(members)
    }
}

/// A scalar by the core schema of YAML 1.2; what JSON has no number for stays a string.
fn scalar(text: &str, style: ScalarStyle, tag: Option<&Tag>) -> Value {
    if style != ScalarStyle::Plain || tag.is_some_and(|tag| tag.suffix() == "str") {
        return Value::String(text.to_owned());
    }
    match text {
        "" | "~" | "null" | "Null" | "NULL" => Value::Null,
        "true" | "True" | "TRUE" => Value::Bool(true),
        "false" | "False" | "FALSE" => Value::Bool(false),
        _ => number(text).map_or_else(|| Value::String(text.to_owned()), Value::Number),
    }
}

fn number(text: &str) -> Option<Number> {
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return u64::from_str_radix(digits, radix).ok().map(Number::from);
        }
    }
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !unsigned.starts_with(|first: char| first.is_ascii_digit() || first == '.')
        || !unsigned
            .bytes()
            .all(|byte| byte.is_ascii_digit() || b".eE+-".contains(&byte))
    {
        return None;
    }
    let whole = text.strip_prefix('+').unwrap_or(text);
    let integer = whole
        .parse::<u64>()
        .map(Number::from)
        .or_else(|_| whole.parse::<i64>().map(Number::from));
    integer
        .ok()
        .or_else(|| Number::from_f64(text.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn scalars_follow_the_core_schema() {
        let text = "a: 1\nb: -2\nc: 0x1F\nd: 1.5\ne: ~\nf: yes\ng: 'true'\nh: True\ni: +12e3\nj: !!str 5\nk: 1.2.3\nl: .inf\n\
                    m: 12:30\nn:\no: |\n  two\n  lines\n";
        let expected = json!({
            "a": 1, "b": -2, "c": 31, "d": 1.5, "e": null, "f": "yes", "g": "true", "h": true, "i": 12e3, "j": "5",
            "k": "1.2.3", "l": ".inf", "m": "12:30", "n": null, "o": "two\nlines\n",
        });
        assert_eq!(read(text), Ok(expected));
    }

    #[test]
    fn aliases_repeat_and_mappings_merge() {
        let text = "base: &b { x: 1, y: [1, 2] }\none: *b\ntwo: { <<: *b, x: 2 }\nthree: { <<: [{ z: 1 }, *b] }\n";
        let base = json!({ "x": 1, "y": [1, 2] });
        let expected = json!({
            "base": base, "one": base, "two": { "x": 2, "y": [1, 2] }, "three": { "z": 1, "x": 1, "y": [1, 2] },
        });
        assert_eq!(read(text), Ok(expected));
    }

    #[test]
    fn what_unfolds_without_end_is_refused() {
        let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
        for n in 1..10 {
            let before = format!("*a{}", n - 1);
            bomb += &format!("a{n}: &a{n} [{}]\n", vec![before; 10].join(", "));
        }
        assert!(read(&bomb).unwrap_err().contains("aliases unfolded"));
        assert!(read(&"[".repeat(1000)).is_err());
        assert!(
            read(&format!("{}{}", "[".repeat(70), "]".repeat(70)))
                .unwrap_err()
                .contains("deeper")
        );
        assert!(read("a: &a [*a]").is_err());
    }

    #[test]
    fn errors_say_where() {
        assert_eq!(
            read("a: 1\na: 2"),
            Err("line 2, column 1: the key `a` stands twice".to_owned())
        );
        assert!(
            read("a: 1\n---\nb: 2")
                .unwrap_err()
                .contains("a second document")
        );
        assert!(read("{ [a]: 1 }").unwrap_err().contains("key"));
        assert!(read("a: [").is_err());
        assert_eq!(read(""), Ok(Value::Null));
    }
}
