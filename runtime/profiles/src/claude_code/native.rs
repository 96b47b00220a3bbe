//! Members of Claude's lines, read whatever their shape: what is not there, or is something else, is nothing.

use serde_json::Value;

/// A text; not an empty one.
pub(super) fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name)?.as_str().filter(|text| !text.is_empty())
}

pub(super) fn number(value: &Value, name: &str) -> Option<u64> {
    let number = value.get(name)?;
    number.as_u64().or_else(|| {
        let number = number.as_f64().filter(|number| (0.0..9e15).contains(number))?;
        // Whole, not negative and small enough: the cast is exact but for the fraction.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "bounded above")]
        Some(number as u64)
    })
}

/// An amount: not negative, not endless.
pub(super) fn amount(value: &Value, name: &str) -> Option<f64> {
    value.get(name)?.as_f64().filter(|amount| *amount >= 0.0 && amount.is_finite())
}

pub(super) fn is_true(value: &Value, name: &str) -> bool {
    value.get(name).is_some_and(|value| value == true)
}

pub(super) fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The texts of a list.
pub(super) fn texts(value: &Value, name: &str) -> Vec<String> {
    list(value, name).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// What a message or a tool's result says: a text, or the texts of its blocks.
pub(super) fn content(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(blocks)) => {
            let texts: Vec<_> = blocks.iter().filter_map(block).collect();
            texts.join("\n")
        }
        Some(Value::Null) | None => String::new(),
        Some(other) => other.to_string(),
    }
}

fn block(block: &Value) -> Option<String> {
    match block.get("type").and_then(Value::as_str) {
        Some("text") | None => block.as_str().or_else(|| block.get("text")?.as_str()).map(str::to_owned),
        Some("image") => Some("[image]".to_owned()),
        Some("document") => Some("[document]".to_owned()),
        Some(_) => None,
    }
}
