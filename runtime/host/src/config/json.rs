//! JSON in which every key of an object occurs once: of two values, choosing one would be a guess.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::error::{ConfigError, Problem};

/// Reads a text, which may begin with a byte order mark.
///
/// # Errors
///
/// The text is not JSON, or a key occurs twice in one object.
pub(super) fn read(text: &[u8]) -> Result<Value, ConfigError> {
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    serde_json::from_slice(text)
        .map(|Once(value)| value)
        .map_err(|error| syntax_error(&error, text))
}

fn syntax_error(error: &serde_json::Error, text: &[u8]) -> ConfigError {
    let line = error.line();
    let column = error.column();
    let message = error.to_string();
    let place = format!(" at line {line} column {column}");
    let message = message.strip_suffix(&place).unwrap_or(&message);
    let message = match text.trim_ascii().first() {
        None => "the file is empty; the least is `{}`".to_owned(),
        Some(b'{' | b'[') => message.to_owned(),
        Some(_) => format!("{message}; a configuration is a JSON object, which begins with `{{`"),
    };
    ConfigError::new(
        "",
        Problem::Syntax {
            line,
            column,
            message,
        },
    )
}

struct Once(Value);

impl<'de> Deserialize<'de> for Once {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Values).map(Self)
    }
}

struct Values;

macro_rules! scalars {
    ($($visit:ident($Is:ty))+) => {$(
        fn $visit<E>(self, value: $Is) -> Result<Value, E> {
            Ok(value.into())
        }
    )+};
}

impl<'de> Visitor<'de> for Values {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    scalars! { visit_bool(bool) visit_i64(i64) visit_u64(u64) visit_f64(f64) visit_str(&str) }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        while let Some(Once(value)) = items.next_element()? {
            values.push(value);
        }
        Ok(values.into())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = members.next_key::<String>()? {
            if object.contains_key(&key) {
                let key = super::quantity::shown(&key);
                return Err(A::Error::custom(format!(
                    "the key `{key}` occurs twice; keep one"
                )));
            }
            let Once(value) = members.next_value()?;
            object.insert(key, value);
        }
        Ok(object.into())
    }
}
