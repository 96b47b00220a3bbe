//! Sessions that end, by the hub or by the relay itself.

use std::time::Instant;

use crate::message::Message;
use crate::relay::Relay;
use crate::schema::ExtensionSet;
use crate::session::HubSession;
use crate::switches::{Mutant::*, Variant::*, broken, varied};

impl Relay {
    /// The hub closes a session: silence above, `session.close` below ([session.4]).
    pub(super) fn close(&mut self, session: &mut HubSession) {
        session.gone = true;
        self.hub.close(session.key);
        if varied(Vh06) && session.is_running() {
            let stop = Message::down("stop", &session.id);
            self.write(session, &stop);
        }
        let leaked = broken(SessionLeaked) && session.minted == 0;
        self.close_wire(session, leaked);
    }

    /// Ends the session of the wire, if there is one.
    pub(crate) fn close_wire(&mut self, session: &mut HubSession, silent: bool) {
        let Some(wire) = &session.wire else { return };
        let number = wire.process;
        let id = wire.id.clone();
        if !silent {
            let close = Message::down("session.close", &session.id);
            for _ in 0..if broken(CloseTwice) { 2 } else { 1 } {
                self.write(session, &close);
            }
        }
        if let Some(process) = self.processes.get_mut(&number) {
            process.wire.remove(&id);
            if varied(Vh05) || broken(CloseEndsProcess) {
                process.ending = Some((crate::child::CloseStep::Eof, Instant::now()));
                // The next session gets a process of its own.
                let agent = &mut self.agents[process.agent].process;
                agent.take_if(|current| *current == number);
            }
        }
        if !session.gone || !broken(ClosedIdDelivered) {
            session.wire = None;
        }
    }

    /// Ends a session from the relay's side ([session.8]): reported as `session.closed`, or as text
    /// to a core-only hub.
    pub(crate) fn close_by_itself(
        &mut self,
        session: &mut HubSession,
        reason: &str,
        category: &str,
        text: &str,
    ) {
        let mut closed = Message::up("session.closed", &session.id).with("reason", reason);
        closed.set_error(category, text);
        if !broken(ClosedUntold) {
            self.say(session, &closed);
        }
        self.close_wire(session, false);
        if session.hub.has(ExtensionSet::CONTROL) {
            session.gone = true;
            self.hub.finish(session.key);
        } else {
            session.ended = Some(text.to_owned());
        }
    }
}
