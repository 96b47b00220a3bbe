//! A message as a whole: its session, turn and body.

use crate::{
    AdapterBody, HostBody, HubBody, Large, Meta, RelayBody, SessionId, TurnId, Unread, escape,
    field::{Fault, Fields},
    head::Head,
};

/// A message from the host to the adapter.
pub type HostMessage = Envelope<HostBody>;

/// A message from the adapter to the host.
pub type AdapterMessage = Envelope<AdapterBody>;

/// A message from a hub to a relay that keeps a journal, beside those that any host sends ([journal.1]).
pub type HubMessage = Envelope<HubBody>;

/// A message from a relay that keeps a journal to its hub, beside those that any adapter sends ([journal.1]).
pub type RelayMessage = Envelope<RelayBody>;

/// Initial capacity of a line, in bytes: most messages fit, and need no second allocation.
const COMMON_LINE_BYTES: usize = 160;

/// A message: the ids that every one has, and its body.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope<B> {
    /// The session that it belongs to; [`SessionId::none`] for messages of the pipe ([msg.1]).
    pub session_id: SessionId,
    /// The turn that it belongs to (`turns`, [turn.9]).
    pub turn_id: Option<TurnId>,
    /// Data that passes through untouched ([ext.4]).
    pub meta: Option<Meta>,
    /// Members that are in files; their values here are placeholders (`large`).
    pub large: Option<Box<Large>>,
    /// The content of the message.
    pub body: B,
}

impl<B: Body> Envelope<B> {
    /// A message of a session, outside any turn.
    #[must_use]
    pub fn new(session_id: SessionId, body: impl Into<B>) -> Self {
        Self {
            session_id,
            turn_id: None,
            meta: None,
            large: None,
            body: body.into(),
        }
    }

    /// The same message as part of a turn.
    #[must_use]
    pub fn of_turn(self, turn_id: Option<TurnId>) -> Self {
        Self { turn_id, ..self }
    }

    /// Reads a line without its LF.
    ///
    /// # Errors
    /// [`Unread`], which distinguishes noise, an unknown type, and a bad message.
    pub fn parse(line: &str) -> Result<Self, Unread> {
        Head::read(line)?.message()
    }

    /// Appends the message as one line with its LF ([frame.1], [frame.8]).
    pub fn write(&self, out: &mut Vec<u8>) {
        self.write_with(self.meta.as_ref(), self.large.as_deref(), out, |out| {
            self.body.write_members(out)
        });
    }

    /// Appends a line with the ids of this message, and with the members that `body` writes as an object.
    pub(crate) fn write_with(
        &self,
        meta: Option<&Meta>,
        large: Option<&Large>,
        out: &mut Vec<u8>,
        body: impl FnOnce(&mut Vec<u8>),
    ) {
        out.extend_from_slice(b"{\"type\":\"");
        out.extend_from_slice(self.body.type_name().as_bytes());
        out.extend_from_slice(b"\",\"session_id\":");
        escape::write_str(out, self.session_id.as_str());
        if let Some(turn_id) = &self.turn_id {
            out.extend_from_slice(b",\"turn_id\":");
            escape::write_str(out, turn_id.as_str());
        }
        // The body is written as an object of its own, whose brace becomes the comma after the ids.
        let brace = out.len();
        body(out);
        if out[brace..] == *b"{}" {
            out.truncate(brace);
        } else {
            out[brace] = b',';
            out.pop();
        }
        if let Some(meta) = meta {
            out.extend_from_slice(b",\"_meta\":");
            out.extend_from_slice(meta.json().get().as_bytes());
        }
        if let Some(large) = large {
            out.extend_from_slice(b",\"large\":");
            escape::write_value(out, large);
        }
        out.extend_from_slice(b"}\n");
    }

    /// The message as one line with its LF.
    #[must_use]
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = Vec::with_capacity(COMMON_LINE_BYTES);
        self.write(&mut line);
        line
    }
}

/// The message's content with these members, each by its name and its JSON, in the place of what it has.
///
/// # Errors
/// [`Unread::Bad`] when one is not of its type.
pub fn filled<B: Body>(body: &B, members: &[(String, String)]) -> Result<B, Unread> {
    let mut text = Vec::new();
    body.write_members(&mut text);
    let mut text = String::from_utf8(text).map_err(|_| Unread::Noise)?;
    text.truncate(text.len() - 1);
    for (name, json) in members {
        // Of duplicate keys the last counts ([frame.10]).
        let comma = if text == "{" { "" } else { "," };
        text.push_str(&format!("{comma}\"{name}\":"));
        text.push_str(json);
    }
    text.push('}');
    let kind = B::named(body.type_name()).ok_or(Unread::Noise)?;
    let fields = Fields::split(&text, &[B::fields(kind)]).ok_or(Unread::Noise)?;
    B::read(kind, &fields).map_err(|Fault { field, why }| Unread::Bad {
        kind: Some(B::name_of(kind)),
        session_id: None,
        field,
        why,
    })
}

/// The content of a message of one direction: [`HostBody`] or [`AdapterBody`], [`HubBody`] or [`RelayBody`].
pub trait Body: direction::Direction {}

impl Body for HostBody {}
impl Body for AdapterBody {}
impl Body for HubBody {}
impl Body for RelayBody {}

pub(crate) mod direction {
    use crate::{
        field::{Fault, Fields},
        fit::Shorten,
        head::Head,
    };

    /// A direction's messages: their types, how they are read and written.
    pub trait Direction: Sized {
        /// The types of this direction.
        type Kind: Copy + Shorten;

        fn type_name(&self) -> &'static str;
        fn write_members(&self, out: &mut Vec<u8>);
        fn named(name: &str) -> Option<Self::Kind>;
        fn name_of(kind: Self::Kind) -> &'static str;
        fn is_of_pipe(kind: Self::Kind) -> bool;
        fn fields(kind: Self::Kind) -> &'static [&'static str];
        fn from_head(kind: Self::Kind, head: &mut Head<'_>) -> Option<Self>;
        fn read(kind: Self::Kind, fields: &Fields<'_>) -> Result<Self, Fault>;
        #[cfg(feature = "schema")]
        fn schema(kind: Self::Kind, generator: &mut schemars::SchemaGenerator) -> schemars::Schema;
    }
}
