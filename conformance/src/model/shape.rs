//! Shape of a single message: the fields and types in its table.

use serde_json::Value;

use crate::clauses::{Level, Side};

use super::Message;
use super::extension::Extension;
use super::table::{self, Field, Gate, Presence, Scope, Table, ValueType};

/// The most bytes of an id ([msg.1], [msg.6]).
const MAX_ID: usize = 256;
/// The most bytes of `_meta` ([msg.7]).
const MAX_META: usize = 64 * 1024;
/// Type that section 12 reserves for a later version ([relay.3]).
const RESERVED_TYPE: &str = "session.attach";
const RESERVED_FIELD: &str = "seq";

/// Something wrong with a message on its own.
#[derive(Debug)]
pub(crate) struct ShapeFault {
    pub(crate) clause: &'static str,
    pub(crate) level: Level,
    pub(crate) text: String,
}

/// Classification of a message.
#[derive(Debug)]
pub(crate) enum MessageClass {
    /// A message of this table.
    Known(&'static Table),
    /// A type of this protocol that the other side writes.
    Reversed(&'static Table),
    /// An unknown type: ignored.
    Unknown(String),
    /// A message that every reader drops.
    Bad,
}

/// A message, judged by itself.
#[derive(Debug)]
pub(crate) struct Shape {
    pub(crate) kindred: MessageClass,
    pub(crate) faults: Vec<ShapeFault>,
}

/// Judges `message`, written by `by`.
pub(crate) fn judge(message: &Message, by: Side) -> Shape {
    let mut judge = Judge::default();
    let kindred = judge.message(message, by);
    Shape {
        kindred,
        faults: judge.faults,
    }
}

/// The value of a field; null is absent ([msg.3]).
pub(crate) fn get<'a>(message: &'a Message, name: &str) -> Option<&'a Value> {
    message.get(name).filter(|value| !value.is_null())
}

/// The value of a field that is a string.
pub(crate) fn text<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    get(message, name)?.as_str()
}

/// An id; an empty one is absent ([msg.6]).
pub(crate) fn id<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    text(message, name).filter(|id| !id.is_empty())
}

/// The fields that are present and need an extension, each once.
pub(crate) fn gated<'a>(
    message: &'a Message,
    table: &'static Table,
) -> impl Iterator<Item = (&'static str, Gate)> + 'a {
    fields(table)
        .filter(|field| field.gate != Gate::Open && get(message, field.name).is_some())
        .map(|field| (field.name, field.gate))
}

/// All that a message of `table` may carry.
fn fields(table: &'static Table) -> impl Iterator<Item = &'static Field> {
    let of_session = table.from == Side::Adapter && table.scope == Scope::Session;
    let of_events = matches!(table.gate, Gate::One(Extension::Events))
        || matches!(table.name, "output" | "permission.request");
    table
        .fields
        .iter()
        .chain(if of_session { table::TURN_ID } else { &[] })
        .chain(if of_events { table::OF_EVENTS } else { &[] })
        .chain(table::META)
}

#[derive(Default)]
struct Judge {
    faults: Vec<ShapeFault>,
    bad: bool,
}

impl Judge {
    fn message(&mut self, message: &Message, by: Side) -> MessageClass {
        let Some(name) = self.kind_of(message) else {
            return MessageClass::Bad;
        };
        let table = table::find(name);
        self.session_id(message, table);
        if name == RESERVED_TYPE {
            self.fault("relay.3", Level::Should, format!("{name} is reserved"));
        }
        let Some(table) = table else {
            return if self.bad {
                MessageClass::Bad
            } else {
                MessageClass::Unknown(name.to_owned())
            };
        };
        if table.from != by {
            return if self.bad {
                MessageClass::Bad
            } else {
                MessageClass::Reversed(table)
            };
        }
        for field in fields(table) {
            self.field(table, message, field);
        }
        if message.contains_key(RESERVED_FIELD) {
            self.fault(
                "relay.3",
                Level::Should,
                format!("the field {RESERVED_FIELD} is reserved"),
            );
        }
        if self.bad {
            MessageClass::Bad
        } else {
            MessageClass::Known(table)
        }
    }

    fn kind_of<'a>(&mut self, message: &'a Message) -> Option<&'a str> {
        let name = text(message, "type");
        if name.is_none() {
            self.drop("msg.1", "type is missing or no string".to_owned());
        }
        name
    }

    fn session_id(&mut self, message: &Message, table: Option<&Table>) {
        let Some(id) = text(message, "session_id") else {
            return self.drop("msg.1", "session_id is missing or no string".to_owned());
        };
        match table.map(|table| table.scope) {
            Some(Scope::Pipe) if !id.is_empty() => {
                self.drop("msg.1", "a message of the pipe names a session".to_owned());
            }
            Some(Scope::Session) if id.is_empty() => {
                self.drop("msg.6", "session_id is empty".to_owned())
            }
            _ if id.len() > MAX_ID => {
                self.drop("msg.6", format!("session_id is {} bytes long", id.len()))
            }
            _ => {}
        }
    }

    fn field(&mut self, table: &Table, message: &Message, field: &Field) {
        let name = field.name;
        let value = get(message, name)
            .filter(|value| !(matches!(field.kind, ValueType::Id) && value.as_str() == Some("")));
        let Some(value) = value else {
            return match field.presence {
                Presence::Required => self.drop("msg.3", format!("{name} is missing")),
                Presence::Owed => self.fault("msg.3", Level::Must, format!("{name} is missing")),
                // What is absent denies, so a host that means to approve has lost its answer
                // ([permission.4]).
                Presence::Written if name == "approved" => {
                    self.fault(
                        "permission.4",
                        Level::Must,
                        "approved is missing".to_owned(),
                    );
                }
                Presence::Written => {
                    self.fault("msg.3", Level::Should, format!("{name} is not written"))
                }
                Presence::Optional => {}
            };
        };
        if matches!(field.kind, ValueType::Id) && value.as_str().is_some_and(|id| id.len() > MAX_ID)
        {
            return self.drop("msg.6", format!("{name} is longer than {MAX_ID} bytes"));
        }
        if name == "_meta" {
            return self.meta(value);
        }
        let Err(wrong) = fits(value, field.kind) else {
            return;
        };
        let text = format!("{name} {wrong}");
        match field.presence {
            Presence::Required if wrong == TypeMismatch::NotAbsolute => {
                self.fault("file.1", Level::Must, text)
            }
            Presence::Required if matches!(wrong, TypeMismatch::Type | TypeMismatch::Within) => {
                self.drop("msg.3", text)
            }
            Presence::Owed => self.fault("msg.3", Level::Must, text),
            Presence::Written if name == "approved" => {
                self.fault("permission.4", Level::Must, text)
            }
            // The one field whose absence is fine and whose wrong type is not ([msg.3]).
            Presence::Written if table.name == "user.input" => self.drop("msg.3", text),
            _ => match wrong {
                TypeMismatch::NotListed if name == "category" => {
                    self.fault("ext.6", Level::Should, text)
                }
                TypeMismatch::NotListed => self.fault("msg.2", Level::Should, text),
                TypeMismatch::NotCategory => self.fault("ext.6", Level::Should, text),
                _ => self.fault("msg.5", Level::Should, text),
            },
        }
    }

    fn meta(&mut self, value: &Value) {
        if !value.is_object() {
            return self.fault("ext.4", Level::Should, "_meta is not an object".to_owned());
        }
        // The text on the wire may be longer than this, never shorter by much: only a clear case is reported.
        if value.to_string().len() > MAX_META {
            self.fault(
                "ext.4",
                Level::Should,
                "_meta is longer than 64 KiB".to_owned(),
            );
        }
    }

    fn fault(&mut self, clause: &'static str, level: Level, text: String) {
        self.faults.push(ShapeFault {
            clause,
            level,
            text,
        });
    }

    fn drop(&mut self, clause: &'static str, text: String) {
        self.bad = true;
        self.fault(clause, Level::Must, text);
    }
}

/// Mismatch of a value and its type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TypeMismatch {
    Type,
    NotListed,
    NotCategory,
    NotAbsolute,
    NotTime,
    Within,
}

impl std::fmt::Display for TypeMismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Type => "is of the wrong type",
            Self::NotListed => "has a value that is not listed",
            Self::NotCategory => "holds a category that is not listed",
            Self::NotAbsolute => "is not an absolute path",
            Self::NotTime => "is not an RFC 3339 time",
            Self::Within => "holds a member that is missing or of the wrong type",
        })
    }
}

fn fits(value: &Value, kind: ValueType) -> Result<(), TypeMismatch> {
    let right = match kind {
        ValueType::Text | ValueType::Id => value.is_string(),
        ValueType::Path => match value.as_str() {
            Some(path) if !is_absolute(path) => return Err(TypeMismatch::NotAbsolute),
            path => path.is_some(),
        },
        ValueType::Bool => value.is_boolean(),
        ValueType::Uint => whole(value).is_some_and(|n| n >= 0) || value.is_u64(),
        ValueType::Int => whole(value).is_some_and(|n| i32::try_from(n).is_ok()),
        ValueType::Number => value.is_number(),
        ValueType::Time => match value.as_str() {
            Some(time) if !is_time(time) => return Err(TypeMismatch::NotTime),
            time => time.is_some(),
        },
        ValueType::Any => true,
        ValueType::Strings => value
            .as_array()
            .is_some_and(|items| items.iter().all(Value::is_string)),
        ValueType::OneOf(listed) => match value.as_str() {
            Some(one) if !listed.contains(&one) => return Err(TypeMismatch::NotListed),
            one => one.is_some(),
        },
        ValueType::Object(fields) => match value.as_object() {
            Some(object) => return members(object, fields),
            None => false,
        },
        ValueType::List(fields) => match value.as_array() {
            Some(items) => {
                for item in items {
                    members(item.as_object().ok_or(TypeMismatch::Within)?, fields)?;
                }
                true
            }
            None => false,
        },
        ValueType::Map(kind) => match value.as_object() {
            Some(object) => {
                for member in object.values() {
                    fits(member, *kind).map_err(|_| TypeMismatch::Within)?;
                }
                true
            }
            None => false,
        },
    };
    if right {
        Ok(())
    } else {
        Err(TypeMismatch::Type)
    }
}

fn members(object: &Message, fields: &[Field]) -> Result<(), TypeMismatch> {
    for field in fields {
        match get(object, field.name) {
            None if field.presence == Presence::Required => return Err(TypeMismatch::Within),
            None => {}
            Some(value) => match fits(value, field.kind) {
                Ok(()) => {}
                Err(TypeMismatch::NotListed) if field.name == "category" => {
                    return Err(TypeMismatch::NotCategory);
                }
                Err(wrong @ (TypeMismatch::NotListed | TypeMismatch::NotTime)) => {
                    return Err(wrong);
                }
                Err(_) => return Err(TypeMismatch::Within),
            },
        }
    }
    Ok(())
}

/// The integer that a number is, written with or without a fraction of zero.
fn whole(value: &Value) -> Option<i64> {
    value.as_i64().or_else(|| {
        let float = value
            .as_f64()
            .filter(|float| float.fract() == 0.0 && float.abs() < 9e15)?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "within the exact integers of a float"
        )]
        Some(float as i64)
    })
}

fn is_absolute(path: &str) -> bool {
    let bytes = path.as_bytes();
    let drive = bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.get(1) == Some(&b':')
        && matches!(bytes.get(2), Some(b'/' | b'\\'));
    path.starts_with('/') || path.starts_with("\\\\") || drive
}

/// Returns true if the text has the form of RFC 3339. Days of a month are not counted.
fn is_time(text: &str) -> bool {
    let digits = |part: &str, most: u32| {
        part.len() == 2
            && part.bytes().all(|b| b.is_ascii_digit())
            && part.parse::<u32>().is_ok_and(|n| n <= most)
    };
    let clock = |hour: &str, minute: &str| digits(hour, 23) && digits(minute, 59);
    let Some((date, time)) = text.split_once(['T', 't', ' ']) else {
        return false;
    };
    let date: Vec<_> = date.split('-').collect();
    let [year, month, day] = date[..] else {
        return false;
    };
    let Some(cut) = time.find(['Z', 'z', '+', '-']) else {
        return false;
    };
    let (time, offset) = time.split_at(cut);
    let offset_fits = matches!(offset, "Z" | "z")
        || offset
            .get(1..)
            .and_then(|rest| rest.split_once(':'))
            .is_some_and(|(h, m)| clock(h, m));
    let (time, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let time: Vec<_> = time.split(':').collect();
    let [hour, minute, second] = time[..] else {
        return false;
    };
    year.len() == 4
        && year.bytes().all(|b| b.is_ascii_digit())
        && digits(month, 12)
        && digits(day, 31)
        && clock(hour, minute)
        && digits(second, 60)
        && !fraction.is_empty()
        && fraction.bytes().all(|b| b.is_ascii_digit())
        && offset_fits
}

#[cfg(test)]
mod tests;
