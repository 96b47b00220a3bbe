//! Reading JSON of whatever shape: what is not there, or is something else, is nothing.

use serde_json::{Map, Value};
use trunkline_sdk::Json;

/// The text at a member, unless it is empty.
pub(crate) fn text<'v>(value: &'v Value, member: &str) -> Option<&'v str> {
    value.get(member)?.as_str().filter(|text| !text.is_empty())
}

/// The elements of a list at a member.
pub(crate) fn list<'v>(value: &'v Value, member: &str) -> &'v [Value] {
    value[member].as_array().map_or(&[], Vec::as_slice)
}

/// The count at a member.
pub(crate) fn count(value: &Value, member: &str) -> Option<u64> {
    whole(value.get(member)?)
}

/// A number as a count; a fraction is cut.
pub(crate) fn whole(number: &Value) -> Option<u64> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "negative ones are filtered"
    )]
    number.as_u64().or_else(|| {
        number
            .as_f64()
            .filter(|count| *count >= 0.0)
            .map(|count| count as u64)
    })
}

/// Returns true if a member is `true` or an object.
pub(crate) fn has(value: &Value, member: &str) -> bool {
    matches!(
        value.get(member),
        Some(Value::Bool(true) | Value::Object(_))
    )
}

/// Returns true if a value is absent or empty.
pub(crate) fn says_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(members) => members.is_empty(),
        Value::Array(elements) => elements.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Returns the protocol's own JSON, unless the value is empty.
pub(crate) fn json(value: &Value) -> Option<Json> {
    if says_nothing(value) {
        None
    } else {
        Json::from_serialize(value).ok()
    }
}

/// Removes the members of an object that are null.
pub(crate) fn without_nulls(object: Value) -> Map<String, Value> {
    let Value::Object(mut members) = object else {
        return Map::new();
    };
    members.retain(|_, value| !value.is_null());
    members
}
