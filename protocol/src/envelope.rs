//! A message as a whole: whose it is, and what it says.

use crate::{AdapterBody, HostBody, Meta, SessionId, TurnId, Unread, escape, head::Head};

/// A message from the host to the adapter.
pub type HostMessage = Envelope<HostBody>;

/// A message from the adapter to the host.
pub type AdapterMessage = Envelope<AdapterBody>;

/// A message: the ids that every one has, and its body.
#[derive(Debug, Clone, PartialEq)]
pub struct Envelope<B> {
    /// The session that it belongs to; [`SessionId::none`] for messages of the pipe ([msg.1]).
    pub session_id: SessionId,
    /// The turn that it belongs to (`turns`, [turn.9]).
    pub turn_id: Option<TurnId>,
    /// Data that passes through untouched ([ext.4]).
    pub meta: Option<Meta>,
    /// The content of the message.
    pub body: B,
}

impl<B: Body> Envelope<B> {
    /// A message of a session, outside any turn.
    #[must_use]
    pub fn new(session_id: SessionId, body: impl Into<B>) -> Self {
        Self { session_id, turn_id: None, meta: None, body: body.into() }
    }

    /// The same message as part of a turn.
    #[must_use]
    pub fn of_turn(self, turn_id: Option<TurnId>) -> Self {
        Self { turn_id, ..self }
    }

    /// Reads a line without its LF.
    ///
    /// # Errors
    /// [`Unread`], which says whether the line is noise, of an unknown type, or a bad message.
    pub fn parse(line: &str) -> Result<Self, Unread> {
        Head::read(line)?.message()
    }

    /// Appends the message as one line with its LF ([frame.1], [frame.8]).
    pub fn write(&self, out: &mut Vec<u8>) {
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
        self.body.write_members(out);
        if out[brace..] == *b"{}" {
            out.truncate(brace);
        } else {
            out[brace] = b',';
            out.pop();
        }
        if let Some(meta) = &self.meta {
            out.extend_from_slice(b",\"_meta\":");
            out.extend_from_slice(meta.json().get().as_bytes());
        }
        out.extend_from_slice(b"}\n");
    }

    /// The message as one line with its LF.
    #[must_use]
    pub fn to_line(&self) -> Vec<u8> {
        let mut line = Vec::new();
        self.write(&mut line);
        line
    }
}

/// The content of a message of one direction: [`HostBody`] or [`AdapterBody`].
pub trait Body: direction::Direction {}

impl Body for HostBody {}
impl Body for AdapterBody {}

pub(crate) mod direction {
    use crate::{
        field::{Fault, Fields},
        head::Head,
    };

    /// A direction's messages: their types, how they are read and written.
    pub trait Direction: Sized {
        /// The types of this direction.
        type Kind: Copy;

        fn type_name(&self) -> &'static str;
        fn write_members(&self, out: &mut Vec<u8>);
        fn named(name: &str) -> Option<Self::Kind>;
        fn name_of(kind: Self::Kind) -> &'static str;
        fn is_of_pipe(kind: Self::Kind) -> bool;
        fn fields(kind: Self::Kind) -> &'static [&'static str];
        fn from_head(kind: Self::Kind, head: &mut Head<'_>) -> Option<Self>;
        fn read(kind: Self::Kind, fields: &Fields<'_>) -> Result<Self, Fault>;
    }
}
