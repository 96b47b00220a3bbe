//! Members of Claude's lines, read whatever their shape: what is not there, or is something else, is nothing.

use serde_json::Value;

pub(super) use crate::agent::read::{count, list, text};

/// An amount: not negative, not endless.
pub(super) fn amount(value: &Value, name: &str) -> Option<f64> {
    value
        .get(name)?
        .as_f64()
        .filter(|amount| *amount >= 0.0 && amount.is_finite())
}

pub(super) fn is_true(value: &Value, name: &str) -> bool {
    value.get(name).is_some_and(|value| value == true)
}

/// The texts of a list.
pub(super) fn texts(value: &Value, name: &str) -> Vec<String> {
    list(value, name)
        .iter()
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect()
}

/// Returns the text of a message or a tool's result: itself, or the texts of its blocks.
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
    match block["type"].as_str() {
        Some("text") | None => block
            .as_str()
            .or_else(|| block.get("text")?.as_str())
            .map(str::to_owned),
        Some("image") => Some("[image]".to_owned()),
        Some("document") => Some("[document]".to_owned()),
        Some(_) => None,
    }
}
