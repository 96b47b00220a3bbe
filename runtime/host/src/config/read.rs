//! Reading a value of a file as a type. An error has the place and never the value, which may be a secret.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use serde_path_to_error::Segment;

use super::error::{ConfigError, Problem};
use super::quantity::shown;

/// Error of a value that a type cannot read, with its place in the value.
pub type Refused = serde_path_to_error::Error<serde_json::Error>;

/// The fault with its place and without the value, for people.
pub fn said(refused: &Refused) -> String {
    let error = error_at("", refused, &[]);
    if error.at().is_empty() {
        error.problem().to_string()
    } else {
        format!("{}: {}", error.at(), error.problem())
    }
}

/// Reads the value at a place. A key that the type does not know is refused with the nearest one
/// that it does, or of `more`.
pub(super) fn read<T: DeserializeOwned>(
    value: &Value,
    at: &str,
    more: &[&str],
) -> Result<T, ConfigError> {
    object(value, at)?;
    serde_path_to_error::deserialize(value).map_err(|refused| error_at(at, &refused, more))
}

/// Reads an object as two types that share its keys: the first takes those that it knows. (serde's
/// `flatten` would let unknown keys pass.)
pub(super) fn read_both<A: DeserializeOwned, B: DeserializeOwned>(
    mut object: Map<String, Value>,
    at: &str,
    more: &[&str],
) -> Result<(A, B), ConfigError> {
    let first = take(&mut object, at)?;
    let others = keys_of::<A>();
    let more: Vec<_> = others
        .iter()
        .map(String::as_str)
        .chain(more.iter().copied())
        .collect();
    Ok((first, read(&Value::Object(object), at, &more)?))
}

/// Takes the keys that a type knows out of an object, and reads them.
pub(super) fn take<T: DeserializeOwned>(
    object: &mut Map<String, Value>,
    at: &str,
) -> Result<T, ConfigError> {
    let own = keys_of::<T>()
        .into_iter()
        .filter_map(|key| object.shift_remove_entry(&key))
        .collect();
    read(&Value::Object(own), at, &[])
}

/// The object at a place, whatever its keys.
pub(super) fn object<'a>(
    value: &'a Value,
    at: &str,
) -> Result<&'a Map<String, Value>, ConfigError> {
    value
        .as_object()
        .ok_or_else(|| ConfigError::wrong_type(at, "an object", kind(value)))
}

/// The keys that a type knows: what serde lists when it meets another.
pub(super) fn keys_of<T: DeserializeOwned>() -> Vec<String> {
    // As `read` does: another deserializer would compile every type of the configuration again.
    serde_path_to_error::deserialize(&serde_json::json!({ "": null })).map_or_else(
        |error| listed(&error.into_inner().to_string()),
        |_: T| Vec::new(),
    )
}

/// The place of a key.
pub(super) fn place(at: &str, key: &str) -> String {
    if at.is_empty() {
        key.to_owned()
    } else {
        format!("{at}.{key}")
    }
}

/// Returns the error of a missing key.
pub(super) fn missing(at: &str, key: &str) -> ConfigError {
    ConfigError::new(place(at, key), Problem::Missing)
}

/// Returns the name of a value's JSON type.
pub(super) fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    }
}

/// Returns the error of a value at a place.
pub(super) fn error_at(at: &str, refused: &Refused, more: &[&str]) -> ConfigError {
    let mut at = at.to_owned();
    for segment in refused.path() {
        match segment {
            Segment::Seq { index } => at.push_str(&format!("[{index}]")),
            Segment::Map { key } | Segment::Enum { variant: key } => at = place(&at, &shown(key)),
            Segment::Unknown => {}
        }
    }
    // The library keeps the cause only as text.
    let message = refused.inner().to_string();
    let near = |word: &str| {
        let known = listed(&message);
        nearest(
            word,
            &known
                .iter()
                .map(String::as_str)
                .chain(more.iter().copied())
                .collect::<Vec<_>>(),
        )
        .map(|near| format!("did you mean `{near}`?"))
    };
    let named = |prefix: &str| {
        message
            .strip_prefix(prefix)
            .and_then(|rest| rest.split_once('`'))
    };
    if let Some((key, _)) = named("unknown field `") {
        return ConfigError::new(at, Problem::UnknownKey { hint: near(key) });
    }
    if let Some((key, _)) = named("missing field `") {
        return missing(&at, key);
    }
    if let Some((word, _)) = named("unknown variant `") {
        let words: Vec<_> = listed(&message)
            .iter()
            .map(|word| format!("\"{word}\""))
            .collect();
        let hint = near(word)
            .map(|near| format!("; {near}"))
            .unwrap_or_default();
        return ConfigError::invalid(at, format!("it is not {}{hint}", words.join(" or ")));
    }
    ConfigError::new(at, without_value(&message))
}

/// The names in "unknown field `x`, expected `a` or `b`", but for the first.
fn listed(message: &str) -> Vec<String> {
    let expected = message
        .rsplit_once("`, expected ")
        .map_or("", |(_, expected)| expected);
    expected
        .split('`')
        .skip(1)
        .step_by(2)
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect()
}

/// Removes the value from a text such as "invalid type: string "…", expected a map".
fn without_value(message: &str) -> Problem {
    for marker in ["invalid type: ", "invalid value: "] {
        let Some((before, rest)) = message.split_once(marker) else {
            continue;
        };
        let Some((value, expected)) = rest.rsplit_once(", expected ") else {
            continue;
        };
        let expected = match expected {
            "a map" => "an object",
            "a sequence" => "an array",
            "string or map" => "a string",
            "f64" => "a number",
            "u16" => "a whole number from 0 to 65535",
            "u32" => "a whole number from 0 to 4294967295",
            "u64" | "usize" => "a whole number from 0 on",
            "i32" => "a whole number",
            structure if structure.starts_with("struct ") => "an object",
            other => other,
        };
        let found = match value
            .trim_start_matches("an ")
            .trim_start_matches("a ")
            .split(' ')
            .next()
        {
            Some("null") => "null",
            Some("boolean") => "a boolean",
            Some("integer" | "floating" | "number") => "a number",
            Some("map" | "object") => "an object",
            Some("sequence" | "array") => "an array",
            _ => "a string",
        };
        if before.is_empty() {
            return Problem::WrongType {
                expected: expected.to_owned(),
                found,
            };
        }
        return Problem::Invalid(format!("{before}expected {expected}, found {found}"));
    }
    Problem::Invalid(message.to_owned())
}

/// A hint at the known word that is most likely meant, else at all of them.
pub(super) fn nearest_or_all(word: &str, known: &[&str]) -> String {
    match nearest(word, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", known.join(", ")),
    }
}

/// The known word that `word` is most likely meant to be.
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    // Distance costs the product of both lengths.
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_lowercase();
    let within_word =
        |key: &str| lower.len() >= 3 && (key.starts_with(&lower) || lower.starts_with(key));
    known
        .iter()
        .map(|key| (strsim::damerau_levenshtein(&lower, key), *key))
        .filter(|(distance, key)| {
            *distance <= 1 + key.len().min(lower.len()).saturating_sub(1) / 4 || within_word(key)
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, key)| key)
}
