//! The first read of a line: what every message has, and the text of the frequent ones.

use std::{borrow::Cow, fmt, marker::PhantomData};

use serde::de::{Deserialize, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::{
    Envelope, Large, SessionId, TurnId, Unread,
    envelope::Body,
    field::{Fault, Fields, Member, Value, Why, text_id},
    id::MAX_ID_BYTES,
    line::BOM,
    scan::{self, Name, Scanned},
    stamp::{STAMP, Stamp},
};

/// The members that every message may have, and those specific to `output` and `user.input`.
///
/// One pass over the line fills it, borrowing from the line. It is all that a plain `output` and a
/// plain `turn.complete` need; [`Head::message`] reads the other kinds' own members.
#[derive(Debug)]
pub struct Head<'a> {
    /// The type, as written.
    pub kind: Cow<'a, str>,
    /// The session, as written: at most 256 bytes, empty for messages of the pipe.
    pub session_id: Cow<'a, str>,
    /// The turn, if any.
    pub turn_id: Option<Cow<'a, str>>,
    pub(crate) channel: Option<Cow<'a, str>>,
    content: Option<Cow<'a, str>>,
    /// True if there were no other members.
    plain: bool,
    line: &'a str,
}

impl<'a> Head<'a> {
    /// Reads a line without its LF.
    ///
    /// # Errors
    /// [`Unread::Noise`] for what is not a JSON object, [`Unread::Bad`] where `type`, `session_id`
    /// or `turn_id` are unusable.
    pub fn read(line: &'a str) -> Result<Self, Unread> {
        let scanned = scan::scan(line).or_else(|| scan_generally(line));
        match scanned {
            Some(Scanned {
                kind: Some(kind),
                session_id: Some(session_id),
                turn_id,
                content,
                channel,
                plain,
            }) => {
                let turn_id = turn_id.filter(|id| !id.is_empty());
                if let Some(unread) = too_long_id(&session_id, turn_id.as_deref()) {
                    return Err(unread);
                }
                Ok(Self {
                    kind,
                    session_id,
                    turn_id,
                    channel,
                    content,
                    plain,
                    line,
                })
            }
            // Unusual: read again, member by member, to find the defect.
            _ => Self::read_slowly(line),
        }
    }

    fn read_slowly(line: &'a str) -> Result<Self, Unread> {
        const FIELDS: &[&str] = &["type", "session_id", "turn_id"];
        let Some(fields) = Fields::split(line, &[FIELDS]) else {
            return Err(Unread::Noise);
        };
        let bad = |field, why| Unread::Bad {
            kind: None,
            session_id: session_in(&fields),
            field,
            why,
        };
        let required = |field| {
            let raw = fields.get(field).ok_or(Why::Missing);
            raw.and_then(text_id)
                .map_err(|why| bad(field, why))
                .map(|id| id.unwrap_or_default().into_owned())
        };
        let kind = required("type")?;
        let session_id = required("session_id")?;
        let turn_id: Option<TurnId> = fields
            .read("turn_id")
            .map_err(|fault| bad(fault.field, fault.why))?;
        if let Some(unread) = too_long_id(&session_id, turn_id.as_ref().map(TurnId::as_str)) {
            return Err(unread);
        }
        Ok(Self {
            kind: Cow::Owned(kind),
            session_id: Cow::Owned(session_id),
            turn_id: turn_id.map(|id| Cow::Owned(id.as_str().to_owned())),
            channel: None,
            content: None,
            plain: false,
            line,
        })
    }

    /// The message's type in this direction.
    ///
    /// # Errors
    /// [`Unread::UnknownType`], or [`Unread::Bad`] when a session's message names none ([msg.1]).
    pub fn kind_of<B: Body>(&self) -> Result<B::Kind, Unread> {
        let Some(kind) = B::named(&self.kind) else {
            let mut kind = self.kind.to_string();
            kind.truncate(kind.floor_char_boundary(64));
            return Err(Unread::UnknownType { kind });
        };
        if self.session_id.is_empty() && !B::is_of_pipe(kind) {
            let name = Some(B::name_of(kind));
            return Err(Unread::Bad {
                kind: name,
                session_id: None,
                field: "session_id",
                why: Why::BadId,
            });
        }
        Ok(kind)
    }

    /// The whole message.
    ///
    /// # Errors
    /// [`Unread`], as [`Envelope::parse`].
    pub fn message<B: Body>(mut self) -> Result<Envelope<B>, Unread> {
        let (body, meta) = self.body()?;
        Ok(self.envelope(body, meta))
    }

    /// The whole message, and what its entry of a journal has beside it.
    ///
    /// # Errors
    /// [`Unread`], as [`Envelope::parse`].
    pub(crate) fn stamped<B: Body>(mut self) -> Result<(Envelope<B>, Stamp), Unread> {
        let kind = self.kind_of::<B>()?;
        let mut stamp = Stamp::default();
        let (body, meta) =
            self.body_beside(kind, STAMP, |fields| stamp = Stamp::from_fields(fields))?;
        Ok((self.envelope(body, meta), stamp))
    }

    fn envelope<B>(self, body: B, meta: Option<crate::Meta>) -> Envelope<B> {
        let session_id = SessionId::new(&*self.session_id).unwrap_or_else(|_| SessionId::none());
        let turn_id = self.turn_id.as_deref().and_then(|id| TurnId::new(id).ok());
        let large = self.large().map(Box::new);
        Envelope {
            session_id,
            turn_id,
            meta,
            large,
            body,
        }
    }

    /// Returns the members of the message that are in files. `None` if it names none (`large`).
    #[must_use]
    pub fn large(&self) -> Option<Large> {
        if self.plain || memchr::memmem::find(self.line.as_bytes(), b"\"large\"").is_none() {
            return None;
        }
        Fields::split(self.line, &[&["large"]])?
            .read("large")
            .ok()
            .flatten()
    }

    /// The body and the `_meta`. The ids stay with the head.
    ///
    /// # Errors
    /// [`Unread`], as [`Envelope::parse`].
    pub fn body<B: Body>(&mut self) -> Result<(B, Option<crate::Meta>), Unread> {
        let kind = self.kind_of::<B>()?;
        self.body_of(kind)
    }

    /// Returns the body and the `_meta` of a message whose type [`Head::kind_of`] has returned.
    ///
    /// # Errors
    /// [`Unread`], as [`Envelope::parse`].
    pub fn body_of<B: Body>(&mut self, kind: B::Kind) -> Result<(B, Option<crate::Meta>), Unread> {
        self.body_beside(kind, &[], |_| ())
    }

    /// The same, and `beside` reads the members of these names.
    #[inline]
    fn body_beside<B: Body>(
        &mut self,
        kind: B::Kind,
        names: &[&'static str],
        beside: impl FnOnce(&Fields<'_>),
    ) -> Result<(B, Option<crate::Meta>), Unread> {
        if self.plain
            && let Some(body) = B::from_head(kind, self)
        {
            return Ok((body, None));
        }
        let Some(fields) = Fields::split(self.line, &[&["_meta"], names, B::fields(kind)]) else {
            return Err(Unread::Noise);
        };
        beside(&fields);
        let bad = |Fault { field, why }: Fault| Unread::Bad {
            kind: Some(B::name_of(kind)),
            session_id: SessionId::new(&*self.session_id).ok(),
            field,
            why,
        };
        let body = B::read(kind, &fields).map_err(bad)?;
        Ok((body, fields.read("_meta").map_err(bad)?))
    }

    /// Returns true if the message has nothing but type, ids, content and channel.
    #[inline]
    #[must_use]
    pub fn is_plain(&self) -> bool {
        self.plain
    }

    pub(crate) fn take_content(&mut self) -> Option<String> {
        self.content.take().map(Cow::into_owned)
    }
}

/// Returns the defect if an id has more than 256 bytes.
fn too_long_id(session_id: &str, turn_id: Option<&str>) -> Option<Unread> {
    let long = |id: &str| id.len() > MAX_ID_BYTES;
    let field = match turn_id {
        _ if long(session_id) => "session_id",
        Some(turn_id) if long(turn_id) => "turn_id",
        _ => return None,
    };
    Some(Unread::Bad {
        kind: None,
        session_id: SessionId::new(session_id).ok(),
        field,
        why: Why::BadId,
    })
}

fn session_in(fields: &Fields<'_>) -> Option<SessionId> {
    Option::read(fields.get("session_id")).ok().flatten()
}

/// The session that a cut line names within its first bytes ([frame.5]). `None` if they name none.
#[must_use]
pub fn session_named_in(first: &[u8]) -> Option<SessionId> {
    SessionId::from_json(member_in(first, "session_id")?).ok()
}

/// The type that a cut line names within its first bytes ([frame.5]). `None` if they name none.
#[must_use]
pub fn type_named_in(first: &[u8]) -> Option<String> {
    String::from_json(member_in(first, "type")?).ok()
}

/// Returns a member of an object of which only the beginning is available.
fn member_in<'a>(first: &'a [u8], name: &str) -> Option<&'a RawValue> {
    let first = first.strip_prefix(BOM).unwrap_or(first);
    let mut rest = first.trim_ascii_start().strip_prefix(b"{")?;
    loop {
        let (key, after) = split_token(rest)?;
        rest = after.trim_ascii_start().strip_prefix(b":")?;
        let (value, after) = split_token(rest)?;
        if key
            .strip_prefix(b"\"")
            .and_then(|key| key.strip_suffix(b"\""))
            == Some(name.as_bytes())
        {
            return serde_json::from_slice(value).ok();
        }
        rest = after.trim_ascii_start().strip_prefix(b",")?;
    }
}

/// Splits one whole JSON token off the front; nothing when it does not end here.
fn split_token(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let bytes = bytes.trim_ascii_start();
    let mut depth = 0_usize;
    let mut in_string = false;
    let mut escaped = false;
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => {
                in_string = !in_string;
                if !in_string && depth == 0 {
                    return Some(bytes.split_at(at + 1));
                }
            }
            _ if in_string => {}
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    return Some(bytes.split_at(at + 1));
                }
            }
            b',' | b'}' | b':' if depth == 0 => return (at > 0).then(|| bytes.split_at(at)),
            _ => {}
        }
    }
    None
}

/// Reads a line that has more than strings, or strings that the scan leaves.
pub(crate) fn scan_generally(line: &str) -> Option<Scanned<'_>> {
    let mut deserializer = serde_json::Deserializer::from_str(line);
    let scanned = deserializer.deserialize_map(Scan(PhantomData)).ok()?;
    deserializer.end().ok()?;
    Some(scanned)
}

struct Scan<'a>(PhantomData<&'a ()>);

impl<'a> Visitor<'a> for Scan<'a> {
    type Value = Scanned<'a>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'a>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut scanned = Scanned {
            plain: true,
            ..Scanned::default()
        };
        while let Some(name) = map.next_key()? {
            let slot = match name {
                Name::Kind => &mut scanned.kind,
                Name::SessionId => &mut scanned.session_id,
                Name::TurnId => &mut scanned.turn_id,
                Name::Content => &mut scanned.content,
                Name::Channel => &mut scanned.channel,
                Name::Other => {
                    scanned.plain = false;
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            let Text(text) = map.next_value()?;
            *slot = Some(text);
        }
        Ok(scanned)
    }
}

impl<'a> Deserialize<'a> for Name {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl Visitor<'_> for Names {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E: Error>(self, name: &str) -> Result<Name, E> {
                Ok(Name::parse(name))
            }
        }
        deserializer.deserialize_identifier(Names)
    }
}

/// A string, borrowed if it has no escapes. (A plain `Cow` would always be owned.)
struct Text<'a>(Cow<'a, str>);

impl<'a> Deserialize<'a> for Text<'a> {
    fn deserialize<D: Deserializer<'a>>(deserializer: D) -> Result<Self, D::Error> {
        struct Strings;
        impl<'a> Visitor<'a> for Strings {
            type Value = Text<'a>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E: Error>(self, text: &'a str) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<'a>, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        deserializer.deserialize_str(Strings)
    }
}
