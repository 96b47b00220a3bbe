//! The forms of values in a file: durations, sizes, words, texts that mean something. `null` equals absent, which
//! `Option` sees to.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, Unexpected, Visitor};
use serde_json::{Map, Value};
use trunkline_process::Containment;

use super::agent::{OnAdapterExit, Unenforced};
use super::confinement::readable;
use super::keys::PlaceKeys;
use super::quantity::{duration_of_seconds, parse_duration, parse_size, shown};
use super::read::nearest;
use crate::policy::{Pattern, Unmatched};

#[cfg(test)]
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

/// How a value stands in a file.
pub(super) trait Form {
    /// What it is.
    type Is;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Is, D::Error>;

    #[cfg(test)]
    fn schema(generator: &mut SchemaGenerator) -> Schema;
}

/// A value of a form.
pub(super) struct As<F: Form>(pub(super) F::Is);

impl<'de, F: Form> Deserialize<'de> for As<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        F::read(deserializer).map(Self)
    }
}

#[cfg(test)]
impl<F: Form> JsonSchema for As<F> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> std::borrow::Cow<'static, str> {
        "As".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        F::schema(generator)
    }
}

/// Reads a value whole; `read` gives `None` for another type than `expected`.
pub(super) fn leaf<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &str,
    read: impl FnOnce(&Value) -> Option<Result<T, String>>,
) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    match read(&value) {
        Some(read) => read.map_err(D::Error::custom),
        None => Err(D::Error::invalid_type(Unexpected::Other(kind(&value)), &expected)),
    }
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "sequence",
        Value::Object(_) => "map",
    }
}

/// Forms whose values are read whole: the type, what is expected, the schema, and how it is read.
macro_rules! leaves {
    ($($(#[$doc:meta])* $Form:ident: $Is:ty = $expected:expr, $schema:tt, $read:expr;)+) => {$(
        $(#[$doc])*
        pub(super) enum $Form {}

        impl Form for $Form {
            type Is = $Is;

            fn read<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<$Is, D::Error> {
                $crate::config::form::leaf(deserializer, $expected, $read)
            }

            #[cfg(test)]
            fn schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!($schema)
            }
        }
    )+};
}

/// Forms that are texts with a meaning: the type, and what a text means or why it has none.
macro_rules! texts {
    ($($(#[$doc:meta])* $Form:ident: $Is:ty = $read:expr;)+) => {
        $crate::config::form::leaves! {$(
            $(#[$doc])*
            $Form: $Is = "a string", { "type": "string" }, |value| {
                let read: fn(String) -> Result<$Is, String> = $read;
                value.as_str().map(|text| $crate::config::form::without_nul(text).and_then(read))
            };
        )+}
    };
}

/// Forms that are one of a few words: the type, and each word with its meaning.
macro_rules! words {
    ($($(#[$doc:meta])* $Form:ident: $Is:ty = $first:literal $is:expr $(, $word:literal $means:expr)*;)+) => {
        leaves! {$(
            $(#[$doc])*
            $Form: $Is = concat!("\"", $first, "\"" $(, " or \"", $word, "\"")*),
            { "type": "string", "enum": [$first $(, $word)*] },
            |value| Some(match value.as_str()? {
                $first => Ok($is),
                $($word => Ok($means),)*
                other => {
                    let words = concat!("\"", $first, "\"" $(, " or \"", $word, "\"")*);
                    Err(format!("`{}` is not {words}", shown(other)))
                }
            });
        )+}
    };
}

leaves! {
    Flag: bool = "a boolean", { "type": "boolean" }, |value| value.as_bool().map(Ok);
    /// Anything at all.
    Any: Value = "any value", {}, |value| Some(Ok(value.clone()));
    /// An object, whatever its keys.
    AnyObject: Map<String, Value> = "an object", { "type": "object" }, |value| value.as_object().cloned().map(Ok);
    /// A text such as `1h30m`, or a number of seconds.
    Wait: Duration = "a duration such as \"30s\" or a number of seconds",
        { "type": ["string", "number"], "examples": ["30s", "1h30m"] },
        |value| match value {
            Value::String(text) => Some(parse_duration(text)),
            Value::Number(number) => Some(duration_of_seconds(number.as_f64().unwrap_or(f64::NAN))),
            _ => None,
        };
    /// What happens to what no pattern matches.
    UnmatchedWord: Unmatched = "\"ask\" or \"deny\"", { "type": "string", "enum": ["ask", "deny"] },
        |value| Some(match value.as_str()? {
            "ask" => Ok(Unmatched::Ask),
            "deny" => Ok(Unmatched::Deny),
            "allow" => {
                Err("approval is never a default; to allow everything write \"allow\": [\"*\"]".to_owned())
            }
            other => Err(format!("`{}` is not \"ask\" or \"deny\"", shown(other))),
        });
}

words! {
    ExitWord: OnAdapterExit = "restart" OnAdapterExit::Restart, "close" OnAdapterExit::Close;
    UnenforcedWord: Unenforced = "refuse" Unenforced::Refuse, "allow" Unenforced::Allow;
    RequiredWord: bool = "required" true, "optional" false;
    BackendWord: &'static str = "bubblewrap" "bubblewrap", "podman" "podman", "docker" "docker";
    ContainmentWord: Containment = "auto" Containment::Auto, "namespace" Containment::Namespace,
        "reaper" Containment::Reaper, "group" Containment::Group;
}

texts! {
    Text: String = Ok;
    /// A text that says something.
    Filled: String = |text| if text.trim().is_empty() { Err("it is empty".to_owned()) } else { Ok(text) };
    /// A path.
    Location: PathBuf = |text| {
        if text.trim().is_empty() { Err("it is empty".to_owned()) } else { Ok(text.into()) }
    };
    /// The id of an agent.
    Id: String = |id| match id {
        id if id.trim().is_empty() => Err("it is empty".to_owned()),
        id if id.len() > MAX_ID => Err(format!("it is longer than {MAX_ID} bytes")),
        id if id.chars().any(char::is_control) => Err("it has a control character".to_owned()),
        id => Ok(id),
    };
    /// The name of a variable. An error does not show it: who mistakes the key may have written a value, too.
    Variable: String = |name| {
        if is_variable(&name) { Ok(name) } else { Err("it is no name of a variable".to_owned()) }
    };
    /// The name of an extension.
    Extension: String = |name| {
        if EXTENSIONS.contains(&name.as_str()) {
            return Ok(name);
        }
        let hint = match nearest(&name, EXTENSIONS) {
            Some(near) => format!("did you mean `{near}`?"),
            None => format!("there are {}", EXTENSIONS.join(", ")),
        };
        Err(format!("`{}` is no extension; {hint}", shown(&name)))
    };
    /// A pattern of a policy.
    Allowed: Pattern = |text| text.parse::<Pattern>().map_err(|error| error.reason().to_owned());
    /// What can be reached: a name, an address, a range.
    Reachable: String = |name| {
        if name.trim().is_empty() {
            return Err("it is empty".to_owned());
        }
        readable(&name).map(|()| name)
    };
    /// `1000:1000`, user and group number, or one number for both.
    User: (u32, u32) = |text| {
        let (user, group) = text.split_once(':').unwrap_or((&text, &text));
        let unread = || format!("`{}` is no user and group number such as \"1000:1000\"", shown(&text));
        Ok((user.parse().map_err(|_| unread())?, group.parse().map_err(|_| unread())?))
    };
}

pub(super) use {leaves, texts};

/// The names of the extensions ([ext.5]).
const EXTENSIONS: &[&str] =
    &["turns", "events", "usage", "resume", "options", "questions", "flow", "control"];

/// The longest id of an agent, in bytes.
const MAX_ID: usize = 256;

pub(super) fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

pub(super) fn without_nul(text: &str) -> Result<String, String> {
    if text.contains('\0') { Err("it has a NUL character".to_owned()) } else { Ok(text.to_owned()) }
}

/// A whole number from `LEAST` on.
pub(super) struct Count<T, const LEAST: u64>(PhantomData<T>);

/// A number of bytes from `LEAST` on, or a text such as `16MiB`.
pub(super) struct Size<T, const LEAST: u64>(PhantomData<T>);

/// 0 is none.
pub(super) struct Unless0<F>(PhantomData<F>);

/// Above 0.
pub(super) struct Above0<F>(PhantomData<F>);

/// The word `none`, or another form.
pub(super) struct OrNone<F>(PhantomData<F>);

/// An array.
pub(super) struct List<F>(PhantomData<F>);

/// Variables, each a text or the place that has it.
pub(super) enum Variables {}

/// An object of known keys. (Without this form, serde would take an array of the values as well.)
pub(super) struct Part<T>(PhantomData<T>);

/// A text, or an object of known keys.
pub(super) struct TextOr<T>(PhantomData<T>);

/// What [`TextOr`] found.
pub(super) enum Either<T> {
    Text(String),
    Object(T),
}

/// An object in whose place a text may stand.
pub(super) trait Alternative: Section {
    /// What is expected there, both.
    const EXPECTED: &'static str;
    /// The texts, where they are few.
    #[cfg(test)]
    const WORDS: Option<&'static [&'static str]>;
}

/// What an object of a file is read as.
#[cfg(not(test))]
pub(super) trait Section: DeserializeOwned {}
#[cfg(not(test))]
impl<T: DeserializeOwned> Section for T {}
#[cfg(test)]
pub(super) trait Section: DeserializeOwned + JsonSchema {}
#[cfg(test)]
impl<T: DeserializeOwned + JsonSchema> Section for T {}

fn whole<T: TryFrom<u64>>(value: &Value, least: u64) -> Option<Result<T, String>> {
    let Value::Number(number) = value else { return None };
    Some(match number.as_u64() {
        Some(number) => from(number, least),
        None => Err(format!("{number} is no whole number from {least} on")),
    })
}

fn from<T: TryFrom<u64>>(number: u64, least: u64) -> Result<T, String> {
    if number < least {
        return Err(format!("{number} is below {least}"));
    }
    T::try_from(number).map_err(|_| "it is too large".to_owned())
}

impl<T: TryFrom<u64>, const LEAST: u64> Form for Count<T, LEAST> {
    type Is = T;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        leaf(deserializer, "a whole number", |value| whole(value, LEAST))
    }

    #[cfg(test)]
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "integer", "minimum": LEAST })
    }
}

impl<T: TryFrom<u64>, const LEAST: u64> Form for Size<T, LEAST> {
    type Is = T;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        leaf(deserializer, "a number of bytes or a string such as \"16MiB\"", |value| match value {
            Value::String(text) => Some(parse_size(text).and_then(|bytes| from(bytes, LEAST))),
            other => whole(other, LEAST),
        })
    }

    #[cfg(test)]
    fn schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": ["string", "integer"], "minimum": LEAST, "examples": ["64KiB", "16MiB"] })
    }
}

impl<F: Form<Is: Default + PartialEq>> Form for Unless0<F> {
    type Is = Option<F::Is>;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Is, D::Error> {
        F::read(deserializer).map(|number| Some(number).filter(|number| *number != F::Is::default()))
    }

    #[cfg(test)]
    fn schema(generator: &mut SchemaGenerator) -> Schema {
        F::schema(generator)
    }
}

impl<F: Form<Is: Default + PartialEq>> Form for Above0<F> {
    type Is = F::Is;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<F::Is, D::Error> {
        Unless0::<F>::read(deserializer)?.ok_or_else(|| D::Error::custom("it must be above 0"))
    }

    #[cfg(test)]
    fn schema(generator: &mut SchemaGenerator) -> Schema {
        F::schema(generator)
    }
}

impl<F: Form<Is = Option<u64>>> Form for OrNone<F> {
    type Is = Option<u64>;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Is, D::Error> {
        match Value::deserialize(deserializer)? {
            Value::String(word) if word == "none" => Ok(None),
            // Its errors have no place of their own, so none is lost.
            other => F::read(other).map_err(D::Error::custom),
        }
    }

    #[cfg(test)]
    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "anyOf": [{ "const": "none" }, F::schema(generator)] })
    }
}

impl<F: Form> Form for List<F> {
    type Is = Vec<F::Is>;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Is, D::Error> {
        Ok(Vec::deserialize(deserializer)?.into_iter().map(|As::<F>(item)| item).collect())
    }

    #[cfg(test)]
    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "array", "items": F::schema(generator) })
    }
}

impl Form for Variables {
    type Is = BTreeMap<String, Either<PlaceKeys>>;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Is, D::Error> {
        let read = BTreeMap::<String, As<TextOr<PlaceKeys>>>::deserialize(deserializer)?;
        Ok(read.into_iter().map(|(name, As(value))| (name, value)).collect())
    }

    #[cfg(test)]
    fn schema(generator: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "additionalProperties": TextOr::<PlaceKeys>::schema(generator) })
    }
}

impl<T: Section> Form for Part<T> {
    type Is = T;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        let read =
            deserializer.deserialize_any(ObjectOr { text: false, expected: "an object", of: PhantomData })?;
        match read {
            Either::Object(object) => Ok(object),
            Either::Text(_) => Err(D::Error::custom("expected an object")),
        }
    }

    #[cfg(test)]
    fn schema(generator: &mut SchemaGenerator) -> Schema {
        generator.subschema_for::<T>()
    }
}

impl<T: Alternative> Form for TextOr<T> {
    type Is = Either<T>;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Either<T>, D::Error> {
        deserializer.deserialize_any(ObjectOr { text: true, expected: T::EXPECTED, of: PhantomData })
    }

    #[cfg(test)]
    fn schema(generator: &mut SchemaGenerator) -> Schema {
        let text = T::WORDS
            .map_or_else(|| json_schema!({ "type": "string" }), |words| json_schema!({ "enum": words }));
        json_schema!({ "anyOf": [text, generator.subschema_for::<T>()] })
    }
}

struct ObjectOr<T> {
    expected: &'static str,
    /// Whether a text will do, too.
    text: bool,
    of: PhantomData<T>,
}

impl<'de, T: DeserializeOwned> Visitor<'de> for ObjectOr<T> {
    type Value = Either<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Either<T>, E> {
        if !self.text {
            return Err(E::invalid_type(Unexpected::Other("string"), &self));
        }
        without_nul(text).map(Either::Text).map_err(E::custom)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Either<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(map)).map(Either::Object)
    }
}
