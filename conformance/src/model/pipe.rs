//! Messages of the pipe rather than a session: pings and lists.

use std::collections::HashMap;

use serde_json::Value;

use crate::clauses::Level;

use super::Message;
use super::shape::{ShapeFault, get, id};

/// The most pings that are remembered; beyond that a `pong` may answer any of them.
const MAX_PINGS: usize = 4096;

#[derive(Clone, Debug)]
struct Ping {
    nonce: Value,
    owed: bool,
}

#[derive(Clone, Copy, Debug)]
struct List {
    open: u32,
    owed: bool,
}

/// The questions and answers of one pipe.
#[derive(Clone, Debug, Default)]
pub(crate) struct PipeModel {
    pings: Vec<Ping>,
    lost: bool,
    lists: HashMap<(&'static str, String), List>,
}

impl PipeModel {
    /// Takes the host's message; `owed` where the adapter must answer it.
    pub(crate) fn ask(&mut self, kind: &'static str, message: &Message, owed: bool) {
        if kind == "ping" {
            if self.pings.len() < MAX_PINGS {
                let nonce = get(message, "nonce").cloned().unwrap_or_default();
                self.pings.push(Ping { nonce, owed });
            } else {
                self.lost = true;
            }
        } else if let Some(id) = id(message, "request_id") {
            let list = self
                .lists
                .entry((kind, id.to_owned()))
                .or_insert(List { open: 0, owed });
            list.open = list.open.saturating_add(1);
        }
    }

    /// Takes the adapter's answer.
    pub(crate) fn answer(
        &mut self,
        kind: &'static str,
        message: &Message,
    ) -> Result<(), ShapeFault> {
        let fault = |clause, text| {
            Err(ShapeFault {
                clause,
                level: Level::Must,
                text,
            })
        };
        if kind == "pong" {
            let nonce = get(message, "nonce").unwrap_or(&Value::Null);
            return match self.pings.iter().position(|ping| &ping.nonce == nonce) {
                Some(index) => {
                    self.pings.remove(index);
                    Ok(())
                }
                None if self.lost => Ok(()),
                None => fault("ext.5", "a pong that answers no ping".to_owned()),
            };
        }
        let (asked, clause) = if kind == "agents.list.result" {
            ("agents.list", "relay.4")
        } else {
            ("sessions.list", "ext.5")
        };
        let Some(id) = id(message, "request_id") else {
            return Ok(());
        };
        match self.lists.get_mut(&(asked, id.to_owned())) {
            Some(list) if list.open > 0 => {
                list.open -= 1;
                Ok(())
            }
            Some(_) => fault(clause, format!("a second {kind} for {id:?}")),
            None => fault(
                clause,
                format!("{kind} for {id:?}, which was never requested"),
            ),
        }
    }

    /// The nonces of the pings without their pong.
    pub(crate) fn pings(&self) -> impl Iterator<Item = &Value> {
        self.pings
            .iter()
            .filter(|ping| ping.owed)
            .map(|ping| &ping.nonce)
    }

    /// The lists without their result.
    pub(crate) fn lists(&self) -> impl Iterator<Item = (&'static str, &str)> {
        self.lists
            .iter()
            .filter(|(_, list)| list.owed && list.open > 0)
            .map(|((kind, id), _)| (*kind, id.as_str()))
    }
}
