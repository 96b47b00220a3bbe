//! JSON that passes through untouched.

use std::{borrow::Cow, fmt, io};

use serde::{Serialize, Serializer};
use serde_json::value::RawValue;

use crate::surrogate;

/// Any JSON value, kept as its text: what this project has no opinion on.
#[derive(Clone)]
pub struct Json(Box<RawValue>);

impl Json {
    /// The JSON of a value.
    ///
    /// # Errors
    /// When the value has no JSON form (a map whose keys are not strings, for example).
    pub fn from_serialize(value: &(impl Serialize + ?Sized)) -> Result<Self, serde_json::Error> {
        serde_json::value::to_raw_value(value).map(|raw| Self::from_raw(&raw))
    }

    /// Keeps a piece of a line. CR between tokens becomes a space, U+2028 and U+2029 their escapes,
    /// and an unpaired surrogate U+FFFD, since the piece will be written again ([frame.1],
    /// [frame.2], [frame.10]).
    pub(crate) fn from_raw(raw: &RawValue) -> Self {
        let text = surrogate::mend(raw.get());
        let clean = memchr::memchr2(b'\r', b'\n', text.as_bytes()).is_none()
            && !text.contains(['\u{2028}', '\u{2029}']);
        if clean && matches!(text, Cow::Borrowed(_)) {
            return Self(raw.to_owned());
        }
        let text = text
            .replace(['\r', '\n'], " ")
            .replace('\u{2028}', "\\u2028")
            .replace('\u{2029}', "\\u2029");
        Self(RawValue::from_string(text).unwrap_or_else(|_| raw.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn get(&self) -> &str {
        self.0.get()
    }

    /// The value as a type.
    ///
    /// # Errors
    /// When it does not have that type's shape.
    pub fn to<T: serde::de::DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }
}

impl PartialEq for Json {
    /// Compares texts, not values.
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.0.serialize(serializer)
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Json {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Json".into()
    }

    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        schemars::json_schema!(true)
    }
}

/// The `_meta` member: an object of up to [`Meta::MAX_BYTES`] that passes through unchanged, also
/// through a relay ([ext.4]). A larger one, or one that is not an object, is dropped and the
/// message remains valid ([msg.7]).
#[derive(Debug, Clone, PartialEq)]
pub struct Meta(Json);

impl Meta {
    /// The largest `_meta`, in bytes of its text.
    pub const MAX_BYTES: usize = 64 * 1024;

    /// Takes an object as `_meta`; nothing when it is not an object or too large.
    #[must_use]
    pub fn new(json: Json) -> Option<Self> {
        (json.get().starts_with('{') && json.get().len() <= Self::MAX_BYTES).then_some(Self(json))
    }

    /// The object.
    #[must_use]
    pub fn json(&self) -> &Json {
        &self.0
    }
}

/// The size of a value as JSON, in bytes: the weight of what is rare and has many members.
pub fn json_len(value: &impl Serialize) -> usize {
    struct Count(usize);

    impl io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    // Neither the counter nor a message fails; what was counted until then would be good enough.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}
