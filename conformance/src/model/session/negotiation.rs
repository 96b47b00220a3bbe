//! Agreement of a session, and the messages that it allows ([ext.2]).

use serde_json::Value;

use super::super::{
    Message,
    extension::{Extension, Extensions},
    shape::{gated, get},
    table::Table,
};
use super::{Agreement, Faults, InputModes, ModelSession, add, allows};
use crate::clauses::Level::Must;

impl ModelSession {
    pub(super) fn ready(&mut self, message: &Message, faults: &mut Faults, of_host: &mut Faults) {
        if self.agreement != Agreement::Unknown {
            return add(
                faults,
                "ext.2",
                Must,
                "session.ready is not the first message of its session",
            );
        }
        let Some(offered) = self.offered else {
            self.agreement = Agreement::Core;
            return;
        };
        let mut agreed = Extensions::default();
        for name in get(message, "extensions")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            let Some(name) = name.as_str() else { continue };
            match Extension::named(name).filter(|&extension| offered.has(extension)) {
                Some(extension) => agreed.insert(extension),
                None if self.offered_names.iter().any(|offered| offered == name) => {}
                None => add(
                    faults,
                    "ext.2",
                    Must,
                    format!("session.ready lists {name:?}, which was not offered"),
                ),
            }
        }
        self.agreement = Agreement::On(agreed);
        let protocol = get(message, "protocol").and_then(Value::as_u64);
        if let (Some(theirs), Some(ours)) = (protocol, self.protocol)
            && theirs > ours
        {
            add(
                faults,
                "ext.2",
                Must,
                format!("session.ready answers version {ours} by {theirs}"),
            );
        }
        self.input_modes(message);
        if self.nameless && agreed.has(Extension::Turns) {
            add(
                of_host,
                "turn.9",
                Must,
                "user.input without turn_id, and turns were offered",
            );
        }
    }

    /// Returns true if the message was agreed on; its fields are judged one by one.
    pub(super) fn may_say(
        &self,
        message: &Message,
        table: &'static Table,
        faults: &mut Faults,
    ) -> bool {
        let negotiated = matches!(table.name, "session.ready" | "session.info");
        if negotiated && !matches!(self.agreement, Agreement::On(_)) {
            if table.name == "session.info" || self.offered.is_none() {
                add(
                    faults,
                    "ext.2",
                    Must,
                    format!("{} in a core-only session", table.name),
                );
            }
            return false;
        }
        if !allows(table.gate, self.agreed()) {
            add(
                faults,
                "ext.2",
                Must,
                format!("{} was not agreed on", table.name),
            );
            return false;
        }
        for (name, gate) in gated(message, table) {
            if !allows(gate, self.agreed()) {
                add(
                    faults,
                    "ext.2",
                    Must,
                    format!("{name} of {} was not agreed on", table.name),
                );
            }
        }
        true
    }

    pub(super) fn input_modes(&mut self, message: &Message) {
        let Some(modes) = get(message, "input_modes").and_then(Value::as_array) else {
            return;
        };
        if self.has(Extension::Turns) && modes.iter().all(Value::is_string) {
            let lists = |name| modes.iter().any(|mode| mode == name);
            self.modes = InputModes {
                queue: lists("queue"),
                steer: lists("steer"),
            };
        }
    }
}
