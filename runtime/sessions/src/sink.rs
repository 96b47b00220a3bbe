//! The client of a session that no log on disk stores.

use futures_util::future::BoxFuture;
use trunkline_protocol::{AdapterBody, HostMessage, Meta, TurnId};

use crate::entry::EntryBody;

/// The only client of a session without a journal: it gets each entry at once, and in order.
///
/// The client bounds what waits for its reader. While it has no room the session takes no further
/// event of its agent, and the host's spool holds the rest ([relay.5], [flow.3]). Replies do not
/// wait, and are never dropped ([relay.6]).
pub trait EntrySink: Send {
    /// Begins a turn under its id in the session. `is_named` is false if the input had no id.
    fn begin_turn(&mut self, turn: &TurnId, is_named: bool);

    /// Passes on an entry.
    fn entry(&mut self, turn: Option<TurnId>, body: EntryBody, meta: Option<Meta>);

    /// Passes on a reply to a message of the client. Returns true if the reply ended a pause, which
    /// would have held back too much ([relay.5]).
    fn reply(&mut self, turn: Option<TurnId>, body: AdapterBody) -> bool;

    /// Counts an answer that no request waits for.
    fn count_late_answer(&self);

    /// Returns the message with the members that the client has passed in files ([large.2]), or the
    /// message without them and the reason.
    fn read_members(
        &self,
        message: HostMessage,
    ) -> BoxFuture<'static, (HostMessage, Option<String>)>;

    /// Returns true if the client can get this message, however it is cut ([frame.11]).
    fn fits(&self, turn: Option<&TurnId>, body: &AdapterBody) -> bool;

    /// Returns true if the client can answer questions ([ext.3]).
    fn answers_questions(&self) -> bool;

    /// Returns true if there is room for a further entry, and no held entry goes before it.
    fn has_room(&self) -> bool;

    /// Waits until [`EntrySink::has_room`], and passes on held entries meanwhile.
    ///
    /// # Cancel safety
    /// Loses nothing.
    fn room(&mut self) -> BoxFuture<'_, ()>;

    /// Returns true if entries are held until others have ended or have been read.
    fn has_held(&self) -> bool;

    /// Returns true if too much waits to be read to accept a further input ([relay.6]).
    fn is_full(&self) -> bool;

    /// Holds everything back ([flow.1]).
    fn pause(&mut self);

    /// Releases what a pause holds back.
    fn resume(&mut self);

    /// Returns true if the client knows by `session.closed` that the session has ended, and needs
    /// no answer afterwards ([session.8]).
    fn knows_end(&self) -> bool;

    /// Waits until the client may have read everything.
    ///
    /// # Cancel safety
    /// Loses nothing.
    fn drained(&mut self) -> BoxFuture<'_, ()>;

    /// Passes on held entries as far as they fit, and counts the rest: nothing more comes.
    fn drop_held(&mut self);

    /// Drops what the client has not read: it has closed the session ([session.4]).
    fn close(&mut self);
}
