//! Reading the members of a message ([msg.2], [msg.3], [frame.10]).
//!
//! A message is split into its members once; each is read by itself, so that the error names the
//! member, the last of duplicate keys wins, null equals absent, and a member that is not read can
//! hold anything.

use std::{borrow::Cow, collections::BTreeMap, fmt, marker::PhantomData};

use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::{Channel, Json, Meta, RequestId, SessionId, ToolCallId, id, surrogate};

/// The deepest nesting that is read ([frame.10]).
const MAX_DEPTH: usize = 128;

/// Reason why a line is not a message.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unread {
    /// No JSON object ([frame.6]).
    Noise,
    /// A type that this version does not know ([msg.2]).
    UnknownType {
        /// The type, cut to 64 bytes.
        kind: String,
    },
    /// A message with a member missing or of the wrong type ([msg.3]).
    Bad {
        /// Type of the message, if it is a known one.
        kind: Option<&'static str>,
        /// Session that it names, if it names one.
        session_id: Option<SessionId>,
        /// The member at fault.
        field: &'static str,
        /// The defect.
        why: Why,
    },
}

/// The fault of a member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// Absent or null.
    Missing,
    /// Of another JSON type, or out of range.
    WrongType,
    /// Nested deeper than 128 levels.
    TooDeep,
    /// An id that is empty, longer than 256 bytes, or not text ([msg.6]).
    BadId,
}

impl fmt::Display for Unread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noise => f.write_str("not a JSON object"),
            Self::UnknownType { kind } => write!(f, "unknown type {kind:?}"),
            Self::Bad {
                kind, field, why, ..
            } => {
                let kind = kind.unwrap_or("message");
                match why {
                    Why::Missing => write!(f, "{kind} without {field}"),
                    Why::WrongType => write!(f, "{kind} with a {field} of the wrong type"),
                    Why::TooDeep => write!(
                        f,
                        "{kind} with a {field} nested deeper than {MAX_DEPTH} levels"
                    ),
                    Why::BadId => {
                        write!(
                            f,
                            "{kind} with a {field} that is not an id of 1 to {} bytes",
                            id::MAX_ID_BYTES
                        )
                    }
                }
            }
        }
    }
}

impl std::error::Error for Unread {}

/// The member at fault and the fault, within a message whose type and session are known elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    pub(crate) field: &'static str,
    pub(crate) why: Why,
}

/// The members of an object that its reader knows, by name. Nulls count as absent; of duplicates
/// the last counts.
#[derive(Debug, Default)]
pub struct Fields<'a>(Vec<(&'static str, &'a RawValue)>);

impl<'a> Fields<'a> {
    /// Splits the text of an object, keeping the members of these names. Nothing when it is not a
    /// JSON object.
    pub(crate) fn split(object: &'a str, known: &[&[&'static str]]) -> Option<Self> {
        struct Members<'k, 'a>(&'k [&'k [&'static str]], PhantomData<&'a ()>);
        impl<'a> Visitor<'a> for Members<'_, 'a> {
            type Value = Fields<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members: Vec<(&'static str, &'a RawValue)> = Vec::new();
                while let Some(key) = map.next_key::<&'a RawValue>()? {
                    // A key that is not text, by an unpaired surrogate, is none that is known.
                    let key = text(key).unwrap_or_default();
                    let Some(name) = self.0.iter().copied().flatten().find(|name| **name == key)
                    else {
                        map.next_value::<IgnoredAny>()?;
                        continue;
                    };
                    let value: &'a RawValue = map.next_value()?;
                    match members.iter_mut().find(|(known, _)| known == name) {
                        Some(member) => member.1 = value,
                        None => members.push((name, value)),
                    }
                }
                Ok(Fields(members))
            }
        }
        let mut deserializer = serde_json::Deserializer::from_str(object);
        let fields = deserializer
            .deserialize_map(Members(known, PhantomData))
            .ok()?;
        deserializer.end().ok()?;
        Some(fields)
    }

    /// The member of this name, unless it is absent or null.
    pub(crate) fn get(&self, name: &str) -> Option<&'a RawValue> {
        let (_, value) = self.0.iter().find(|(known, _)| *known == name)?;
        (value.get() != "null").then_some(*value)
    }

    /// Returns every present member, as its JSON.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&'static str, &'a str)> {
        self.0.iter().map(|(name, raw)| (*name, raw.get()))
    }

    /// Reads the member of this name as the type of the field that takes it.
    pub(crate) fn read<T: Member>(&self, field: &'static str) -> Result<T, Fault> {
        T::read(self.get(field)).map_err(|why| Fault { field, why })
    }
}

/// The text of a JSON string, borrowed where it has no escapes. Nothing for other JSON and for an
/// unpaired surrogate.
fn text(raw: &RawValue) -> Option<Cow<'_, str>> {
    #[derive(serde::Deserialize)]
    struct Text<'a>(#[serde(borrow)] Cow<'a, str>);
    serde_json::from_str(raw.get()).ok().map(|Text(text)| text)
}

/// A member of a message as its field takes it: required, or an `Option`.
pub(crate) trait Member: Sized {
    /// Reads it; `None` where it is absent or null.
    fn read(raw: Option<&RawValue>) -> Result<Self, Why>;
}

/// A value of one JSON type.
pub(crate) trait Value: Sized {
    /// Reads it.
    fn from_json(raw: &RawValue) -> Result<Self, Why>;
}

impl<T: Value> Member for T {
    fn read(raw: Option<&RawValue>) -> Result<Self, Why> {
        let raw = raw.ok_or(Why::Missing)?;
        shallow(raw)?;
        T::from_json(raw)
    }
}

impl<T: Value> Member for Option<T> {
    /// A wrong type counts as absent ([msg.5]); nesting too deep and an impossible id do not
    /// ([frame.10], [msg.6]).
    fn read(raw: Option<&RawValue>) -> Result<Self, Why> {
        let Some(raw) = raw else { return Ok(None) };
        shallow(raw)?;
        match T::from_json(raw) {
            Ok(value) => Ok(Some(value)),
            Err(Why::Missing | Why::WrongType) => Ok(None),
            Err(why @ (Why::TooDeep | Why::BadId)) => Err(why),
        }
    }
}

/// Checks that a value nests no deeper than is read.
fn shallow(raw: &RawValue) -> Result<(), Why> {
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    if !raw.get().starts_with(['{', '[']) {
        return Ok(());
    }
    for byte in raw.get().bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'{' | b'[' if !in_string => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(Why::TooDeep);
                }
            }
            b'}' | b']' if !in_string => depth -= 1,
            _ => {}
        }
    }
    Ok(())
}

macro_rules! scalars {
    ($($scalar:ty),*) => {$(
        impl Value for $scalar {
            fn from_json(raw: &RawValue) -> Result<Self, Why> {
                serde_json::from_str(raw.get()).map_err(|_| Why::WrongType)
            }
        }
    )*};
}

scalars!(bool, u64, i32, f64);

impl Value for u32 {
    /// A larger integer is as good as the largest: versions and limits are compared only.
    fn from_json(raw: &RawValue) -> Result<Self, Why> {
        u64::from_json(raw).map(|number| Self::try_from(number).unwrap_or(Self::MAX))
    }
}

impl Value for String {
    /// Free text: an unpaired surrogate becomes U+FFFD ([frame.10]).
    fn from_json(raw: &RawValue) -> Result<Self, Why> {
        if let Some(text) = text(raw) {
            return Ok(text.into_owned());
        }
        serde_json::from_str(&surrogate::mend(raw.get())).map_err(|_| Why::WrongType)
    }
}

macro_rules! ids {
    ($($id:ident),*) => {$(
        impl Value for crate::$id {
            fn from_json(raw: &RawValue) -> Result<Self, Why> {
                let Some(id) = text_id(raw)? else { return Err(Why::Missing) };
                Self::new(&*id).map_err(|_| Why::BadId)
            }
        }
    )*};
}

ids!(SessionId, TurnId, RequestId, MessageId, ToolCallId);

/// The text of an id, nothing where it is empty. A string with an unpaired surrogate is not text
/// ([frame.10]).
pub(crate) fn text_id(raw: &RawValue) -> Result<Option<Cow<'_, str>>, Why> {
    match text(raw) {
        Some(id) => Ok((!id.is_empty()).then_some(id)),
        None if raw.get().starts_with('"') => Err(Why::BadId),
        None => Err(Why::WrongType),
    }
}

impl Value for Channel {
    fn from_json(raw: &RawValue) -> Result<Self, Why> {
        String::from_json(raw).map(|name| Self::named(&name))
    }
}

impl Value for Json {
    fn from_json(raw: &RawValue) -> Result<Self, Why> {
        Ok(Self::from_raw(raw))
    }
}

impl Value for Meta {
    fn from_json(raw: &RawValue) -> Result<Self, Why> {
        Self::new(Json::from_raw(raw)).ok_or(Why::WrongType)
    }
}

impl<T: Value> Value for Vec<T> {
    fn from_json(raw: &RawValue) -> Result<Self, Why> {
        let elements: Vec<&RawValue> =
            serde_json::from_str(raw.get()).map_err(|_| Why::WrongType)?;
        elements.into_iter().map(T::from_json).collect()
    }
}

impl<T: Value> Value for BTreeMap<String, T> {
    fn from_json(raw: &RawValue) -> Result<Self, Why> {
        let mended = surrogate::mend(raw.get());
        // `collect` would compile a sort for every type of values.
        let mut values = Self::new();
        for (name, raw) in
            serde_json::from_str::<BTreeMap<_, &RawValue>>(&mended).map_err(|_| Why::WrongType)?
        {
            values.insert(name, T::from_json(raw)?);
        }
        Ok(values)
    }
}

/// An object of the protocol: knows its members and reads them.
pub(crate) trait Object: Sized {
    /// The members that are read.
    const FIELDS: &'static [&'static str];

    /// Reads the members.
    fn read(fields: &Fields<'_>) -> Result<Self, Fault>;
}

impl<T: Object> Object for Box<T> {
    const FIELDS: &'static [&'static str] = T::FIELDS;

    fn read(fields: &Fields<'_>) -> Result<Self, Fault> {
        T::read(fields).map(Self::new)
    }
}

/// Reads an object in a field of another.
pub(crate) fn nested<T: Object>(raw: &RawValue) -> Result<T, Why> {
    let fields = Fields::split(raw.get(), &[T::FIELDS]).ok_or(Why::WrongType)?;
    T::read(&fields).map_err(|fault| match fault.why {
        Why::Missing => Why::WrongType,
        why => why,
    })
}

/// A field that may be left out when a message is written.
pub(crate) trait Absent {
    /// Returns true if this field is left out.
    fn is_absent(&self) -> bool;
}

impl<T> Absent for Option<T> {
    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

macro_rules! always_written {
    ($($type:ty),*) => {$( impl Absent for $type {
        fn is_absent(&self) -> bool {
            false
        }
    } )*};
}

always_written!(String, bool, u64, RequestId, ToolCallId, crate::Sha256);

impl<T> Absent for Vec<T> {
    fn is_absent(&self) -> bool {
        false
    }
}
