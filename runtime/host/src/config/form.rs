//! The forms of values in a file: durations, sizes, words, texts that mean something. `null` equals
//! absent, which `Option` sees to.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::path::PathBuf;
use std::time::Duration;

use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{
    Deserialize, DeserializeOwned, Deserializer, Error, MapAccess, SeqAccess, Unexpected, Visitor,
};
use serde_json::{Map, Value};
use trunkline_process::Containment;
use trunkline_protocol::tool_loop::ToolLoopAction;
use trunkline_sandbox::network::AllowList;
use trunkline_wirelog::Content;

use super::agent::{OnAdapterExit, Unenforced};
use super::keys::{NetworkKeys, PlaceKeys, SandboxKeys};
use super::limits::JournalSync;
use super::network_options::NetworkOption;
use super::quantity::{duration_of_seconds, parse_duration, parse_size, shown};
use super::read::{kind, nearest_or_all};
use super::session_may::SessionMay;
use super::webhook::WEBHOOK_EVENTS;
use super::{EnvValue, Network, defaults};
use crate::policy::{Pattern, Unmatched};

/// Form of a value in a file.
pub(super) trait Form {
    /// Type of the value.
    type Is;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Is, D::Error>;

    #[cfg(test)]
    const SCHEMA: super::schema::Make;
}

/// A value of a form.
pub(super) struct As<F: Form>(pub(super) F::Is);

impl<'de, F: Form> Deserialize<'de> for As<F> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        F::read(deserializer).map(Self)
    }
}

/// Reads a value whole; `read` gives `None` for another type than `expected`.
fn leaf<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    expected: &str,
    read: impl FnOnce(&Value) -> Option<Result<T, String>>,
) -> Result<T, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let wrong = || D::Error::invalid_type(Unexpected::Other(kind(&value)), &expected);
    read(&value).ok_or_else(wrong)?.map_err(D::Error::custom)
}

/// Forms whose values are read whole: the type, what is expected, the schema, and how it is read.
macro_rules! leaves {
    ($($(#[$doc:meta])* $Form:ident: $Is:ty = $expected:expr, $schema:tt, $read:expr;)+) => {$(
        $(#[$doc])*
        pub(super) enum $Form {}

        impl Form for $Form {
            type Is = $Is;

            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$Is, D::Error> {
                leaf(deserializer, $expected, $read)
            }

            #[cfg(test)]
            const SCHEMA: super::schema::Make = |_| schemars::json_schema!($schema);
        }
    )+};
}

/// Forms that are texts with a meaning: the type, and what a text means or why it has none.
macro_rules! texts {
    ($($(#[$doc:meta])* $Form:ident: $Is:ty = $read:expr;)+) => {
        leaves! {$(
            $(#[$doc])*
            $Form: $Is = "a string", { "type": "string" }, |value| {
                let read: fn(String) -> Result<$Is, String> = $read;
                value.as_str().map(|text| without_nul(text).and_then(read))
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

const WAIT: &str = "a duration such as \"30s\" or a number of seconds";
const SIZE: &str = "a number of bytes or a string such as \"16MiB\"";
const COUNT: &str = "a whole number";

leaves! {
    /// An option that a client over a network may set.
    OverNetwork: NetworkOption = "a string", { "enum": (NetworkOption::ALL.map(NetworkOption::name)) },
        |value| value.as_str().map(NetworkOption::from_name);
    Flag: bool = "a boolean", { "type": "boolean" }, |value| value.as_bool().map(Ok);
    /// Anything at all.
    Any: Value = "any value", {}, |value| Some(Ok(value.clone()));
    /// An object, whatever its keys.
    AnyObject: Map<String, Value> = "an object", { "type": "object" }, |value| value.as_object().cloned().map(Ok);
    /// A duration: a text such as `1h30m`, or a number of seconds.
    Wait: Duration = WAIT, { "type": ["string", "number"] }, wait;
    /// A duration above 0.
    Positive: Duration = WAIT, { "type": ["string", "number"] }, |value| wait(value).map(|wait| {
        unless_0(wait)?.ok_or_else(|| "it must be above 0".to_owned())
    });
    /// A duration, of which 0 is none.
    WaitLimit: Option<Duration> = WAIT, { "type": ["string", "number"] }, |value| wait(value).map(unless_0);
    /// A size on disk: a number of bytes, or a text such as `16MiB`.
    Bytes: u64 = SIZE, { "type": ["string", "integer"], "minimum": 0 }, |value| size(value, 0);
    /// A size, of which 0 is none.
    BytesLimit: Option<u64> = SIZE, { "type": ["string", "integer"], "minimum": 0 }, |value| size(value, 0).map(unless_0);
    /// A size, of which 0 and `none` are none.
    BytesOrNone: Option<u64> = SIZE, { "type": ["string", "integer"], "minimum": 0 },
        |value| if value == "none" { Some(Ok(None)) } else { size(value, 0).map(unless_0) };
    /// A size in memory.
    Memory: usize = SIZE, { "type": ["string", "integer"], "minimum": 0 }, |value| size(value, 0);
    /// A size in memory above 0.
    SomeMemory: usize = SIZE, { "type": ["string", "integer"], "minimum": 1 }, |value| size(value, 1);
    /// The length of a line, which is never below what every peer accepts.
    Line: usize = SIZE, { "type": ["string", "integer"], "minimum": (defaults::MIN_MAX_LINE) },
        |value| size(value, defaults::MIN_MAX_LINE as u64);
    /// A number above 0.
    Count: usize = COUNT, { "type": "integer", "minimum": 1 }, |value| count(value, 1);
    /// A number of standby processes: one serves all sessions of an agent.
    Standby: bool = COUNT, { "type": "integer", "minimum": 0, "maximum": 1 }, |value| count(value, 0).map(|number| {
        match number? {
            0_u64 => Ok(false),
            1 => Ok(true),
            more => Err(format!("{more} is above 1: one process serves all sessions of an agent")),
        }
    });
    /// A number of failures, above 0.
    Failures: u32 = COUNT, { "type": "integer", "minimum": 1 }, |value| count(value, 1);
    /// A number of sessions, of which 0 is none.
    Sessions: Option<usize> = COUNT, { "type": "integer", "minimum": 0 }, |value| count(value, 0).map(unless_0);
    /// A number of processes, of which 0 is none.
    Processes: Option<u64> = COUNT, { "type": "integer", "minimum": 0 }, |value| count(value, 0).map(unless_0);
    /// A number, of which 0 and `none` are none.
    CountOrNone: Option<u64> = COUNT, { "anyOf": [{ "const": "none" }, { "type": "integer", "minimum": 0 }] },
        |value| if value == "none" { Some(Ok(None)) } else { count(value, 0).map(unless_0) };
    /// Decision for actions that no pattern matches.
    UnmatchedWord: Unmatched = "\"ask\" or \"deny\"", { "type": "string", "enum": ["ask", "deny"] },
        |value| Some(match value.as_str()? {
            "ask" => Ok(Unmatched::Ask),
            "deny" => Ok(Unmatched::Deny),
            "allow" => Err("approval is never a default; to allow everything write \"allow\": [\"*\"]".to_owned()),
            other => Err(format!("`{}` is not \"ask\" or \"deny\"", shown(other))),
        });
}

words! {
    ExitWord: OnAdapterExit = "restart" OnAdapterExit::Restart, "close" OnAdapterExit::Close;
    UnenforcedWord: Unenforced = "refuse" Unenforced::Refuse, "allow" Unenforced::Allow;
    RequiredWord: bool = "required" true, "optional" false;
    ContentWord: Content = "full" Content::Full, "head" Content::Head, "none" Content::None;
    SyncWord: JournalSync = "normal" JournalSync::Normal, "full" JournalSync::Full;
    LoopWord: ToolLoopAction = "off" ToolLoopAction::Off, "warn" ToolLoopAction::Warn, "end" ToolLoopAction::End;
    BackendWord: &'static str = "bubblewrap" "bubblewrap", "podman" "podman", "docker" "docker";
    ContainmentWord: Containment = "auto" Containment::Auto, "namespace" Containment::Namespace,
        "reaper" Containment::Reaper, "group" Containment::Group;
}

texts! {
    Text: String = Ok;
    /// A text that is not empty.
    Filled: String = filled;
    /// A path.
    Location: PathBuf = |text| filled(text).map(PathBuf::from);
    /// The id of an agent.
    Id: String = |id| match filled(id)? {
        id if id.len() > MAX_ID => Err(format!("it is longer than {MAX_ID} bytes")),
        id if id.chars().any(char::is_control) => Err("it has a control character".to_owned()),
        id => Ok(id),
    };
    /// The name of a variable. An error does not show it: who mistakes the key may have written a value, too.
    Variable: String = |name| {
        if is_variable(&name) { Ok(name) } else { Err("it is not the name of a variable".to_owned()) }
    };
    /// The name of an extension.
    Extension: String = |name| {
        if EXTENSIONS.contains(&name.as_str()) {
            return Ok(name);
        }
        Err(format!("`{}` is not an extension; {}", shown(&name), nearest_or_all(&name, EXTENSIONS)))
    };
    /// An event of a webhook.
    WebhookEvent: String = |name| {
        if WEBHOOK_EVENTS.contains(&name.as_str()) {
            return Ok(name);
        }
        Err(format!("`{}` is not an event; {}", shown(&name), nearest_or_all(&name, &WEBHOOK_EVENTS)))
    };
    /// An option that a session may set.
    Granted: SessionMay = |name| SessionMay::from_names([name.as_str()]).map_err(|error| error.to_string());
    /// A pattern of a policy.
    Allowed: Pattern = |text| text.parse::<Pattern>().map_err(|error| error.reason().to_owned());
    /// Permission mode of an Amurg file; an empty text means absent.
    AmurgMode: Option<&'static str> = |mode| match AMURG_MODES.iter().find(|known| **known == mode) {
        Some(known) => Ok(Some(*known)),
        None if mode.is_empty() => Ok(None),
        None => Err(format!("`{}` is not a mode; there are {}", shown(&mode), AMURG_MODES.join(", "))),
    };
    /// A reachable name, address or range.
    Reachable: String = |name| {
        let name = filled(name)?;
        readable(&name).map(|()| name)
    };
    /// `1000:1000`, user and group number, or one number for both.
    User: (u32, u32) = |text| {
        let (user, group) = text.split_once(':').unwrap_or((&text, &text));
        let unread = |_| format!("`{}` is not a user and group number such as \"1000:1000\"", shown(&text));
        Ok((user.parse().map_err(unread)?, group.parse().map_err(unread)?))
    };
}

/// The names of the extensions ([ext.5]).
const EXTENSIONS: &[&str] = &[
    "turns",
    "events",
    "usage",
    "resume",
    "options",
    "questions",
    "flow",
    "control",
    "large",
];

/// Permission modes of an Amurg file.
const AMURG_MODES: [&str; 6] = [
    "skip",
    "strict",
    "auto",
    "acceptEdits",
    "bypassPermissions",
    "plan",
];

/// The longest id of an agent, in bytes.
const MAX_ID: usize = 256;

fn is_variable(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// Checks an entry as the sandbox will, so that a start does not fail by it.
pub(super) fn readable(entry: &str) -> Result<(), String> {
    AllowList::parse([entry])
        .map(drop)
        .map_err(|error| format!("failed to {error}"))
}

fn filled(text: String) -> Result<String, String> {
    if text.trim().is_empty() {
        Err("it is empty".to_owned())
    } else {
        Ok(text)
    }
}

fn without_nul(text: &str) -> Result<String, String> {
    if text.contains('\0') {
        Err("it has a NUL character".to_owned())
    } else {
        Ok(text.to_owned())
    }
}

fn wait(value: &Value) -> Option<Result<Duration, String>> {
    match value {
        Value::String(text) => Some(parse_duration(text)),
        Value::Number(number) => Some(duration_of_seconds(number.as_f64().unwrap_or(f64::NAN))),
        _ => None,
    }
}

fn size<T: TryFrom<u64>>(value: &Value, least: u64) -> Option<Result<T, String>> {
    match value {
        Value::String(text) => Some(parse_size(text).and_then(|bytes| at_least(bytes, least))),
        other => count(other, least),
    }
}

fn count<T: TryFrom<u64>>(value: &Value, least: u64) -> Option<Result<T, String>> {
    let Value::Number(number) = value else {
        return None;
    };
    let whole = number
        .as_u64()
        .ok_or_else(|| format!("{number} is not a whole number of at least {least}"));
    Some(whole.and_then(|number| at_least(number, least)))
}

fn at_least<T: TryFrom<u64>>(number: u64, least: u64) -> Result<T, String> {
    if number < least {
        return Err(format!("{number} is below {least}"));
    }
    T::try_from(number).map_err(|_| "it is too large".to_owned())
}

fn unless_0<T: Default + PartialEq>(read: Result<T, String>) -> Result<Option<T>, String> {
    read.map(|number| Some(number).filter(|number| *number != T::default()))
}

/// An array.
pub(super) struct List<F>(PhantomData<F>);

/// An object of known keys. (Without this form, serde would take an array of the values as well.)
pub(super) struct Part<T>(PhantomData<T>);

/// Variables, each a text or the place that has it.
pub(super) enum Variables {}

impl<F: Form> Form for List<F> {
    type Is = Vec<F::Is>;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Is, D::Error> {
        Ok(Vec::deserialize(deserializer)?
            .into_iter()
            .map(|As::<F>(item)| item)
            .collect())
    }

    #[cfg(test)]
    const SCHEMA: super::schema::Make = super::schema::list::<F>;
}

impl<T: super::schema::Described> Form for Part<T> {
    type Is = T;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<T, D::Error> {
        let shape = Shape {
            expected: "an object",
            text: false,
            list: false,
            of: PhantomData,
        };
        deserializer
            .deserialize_any(shape)?
            .map_err(D::Error::custom)
    }

    #[cfg(test)]
    const SCHEMA: super::schema::Make = |generator| generator.subschema_for::<T>();
}

/// Forms that are a text or something else: the type, what else, whether that is an array, what is
/// expected, the schema, and what either means.
macro_rules! eithers {
    ($($(#[$doc:meta])* $Form:ident: $Is:ty = $Else:ty, $list:literal, $expected:literal, $schema:expr, $text:expr, $else:expr;)+) => {$(
        $(#[$doc])*
        pub(super) enum $Form {}

        impl Form for $Form {
            type Is = $Is;

            fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<$Is, D::Error> {
                let of_text: fn(String) -> Result<$Is, D::Error> = $text;
                let of_else: fn($Else) -> Result<$Is, D::Error> = $else;
                let shape = Shape { expected: $expected, text: true, list: $list, of: PhantomData };
                deserializer.deserialize_any(shape)?.map_or_else(of_text, of_else)
            }

            #[cfg(test)]
            const SCHEMA: super::schema::Make = $schema;
        }
    )+};
}

eithers! {
    SandboxOrNone: Option<SandboxKeys> = SandboxKeys, false, "an object or \"none\"",
        |generator| super::schema::words_or::<SandboxKeys>(generator, &["none"]),
        |word| match word.as_str() {
            "none" => Ok(None),
            _ => Err(D::Error::invalid_type(Unexpected::Other("a string"), &"an object or \"none\"")),
        },
        |keys| Ok(Some(keys));
    /// The reachable network.
    Reach: Network = NetworkKeys, false, "\"none\", \"all\" or an object",
        |generator| super::schema::words_or::<NetworkKeys>(generator, &["none", "all"]),
        |word| match word.as_str() {
            "none" => Ok(Network::None),
            "all" => Ok(Network::All),
            other => Err(D::Error::custom(format!("`{}` is not \"none\" or \"all\"", shown(other)))),
        },
        |keys| match keys.allow {
            Some(As(allow)) => Ok(Network::Allow(allow)),
            None => Err(D::Error::missing_field("allow")),
        };
    /// The value of a variable, or the place that has it.
    ValueOrPlace: EnvValue = PlaceKeys, false, "a string, {\"from_env\": \"NAME\"} or {\"from_file\": \"PATH\"}",
        |generator| super::schema::words_or::<PlaceKeys>(generator, &[]),
        |text| Ok(EnvValue::Text(text)),
        |keys| match (keys.from_env, keys.from_file) {
            (Some(As(variable)), None) => Ok(EnvValue::FromEnv(variable)),
            (None, Some(As(file))) => Ok(EnvValue::FromFile(file)),
            _ => Err(D::Error::custom("name one place, `from_env` or `from_file`")),
        };
    /// Options that a session may set: a list, or `all`.
    Options: SessionMay = Vec<As<Granted>>, true, "an array or \"all\"", super::schema::session_may,
        |word| match word.as_str() {
            "all" => Ok(SessionMay::All),
            other => Err(D::Error::custom(format!("`{}` is not \"all\"", shown(other)))),
        },
        |options| Ok(options.into_iter().fold(SessionMay::NONE, |may, As(one)| may.union(&one)));
}

impl Form for Variables {
    type Is = BTreeMap<String, EnvValue>;

    fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Self::Is, D::Error> {
        let read = BTreeMap::<String, As<ValueOrPlace>>::deserialize(deserializer)?;
        match read.keys().find(|name| !is_variable(name)) {
            Some(name) => Err(D::Error::custom(format!(
                "`{}` is not the name of a variable",
                shown(name)
            ))),
            None => Ok(read
                .into_iter()
                .map(|(name, As(value))| (name, value))
                .collect()),
        }
    }

    #[cfg(test)]
    const SCHEMA: super::schema::Make = super::schema::variables;
}

/// Accepted JSON types: a value that is not text is read as `T`.
struct Shape<T> {
    expected: &'static str,
    text: bool,
    list: bool,
    of: PhantomData<T>,
}

impl<'de, T: DeserializeOwned> Visitor<'de> for Shape<T> {
    type Value = Result<T, String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        if !self.text {
            return Err(E::invalid_type(Unexpected::Other("a string"), &self));
        }
        without_nul(text).map(Err).map_err(E::custom)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, items: A) -> Result<Self::Value, A::Error> {
        if !self.list {
            return Err(A::Error::invalid_type(Unexpected::Seq, &self));
        }
        T::deserialize(SeqAccessDeserializer::new(items)).map(Ok)
    }

    fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Self::Value, A::Error> {
        if self.list {
            return Err(A::Error::invalid_type(Unexpected::Map, &self));
        }
        T::deserialize(MapAccessDeserializer::new(members)).map(Ok)
    }
}
