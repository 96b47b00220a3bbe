//! Pending obligations of a side, and the clauses that are broken if they are never met.

use serde_json::Value;

use crate::clauses::Side;

/// A pending obligation of a side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OpenObligation {
    /// Side that owes it.
    pub by: Side,
    /// The session concerned; empty for the pipe.
    pub session: String,
    /// The obligation.
    pub what: Debt,
}

/// Kind of obligation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Debt {
    /// The `turn.complete` of a turn ([turn.1]).
    Turn {
        /// Id, if the host assigned one.
        turn_id: Option<String>,
        /// True if a `stop` concerned it.
        stopped: bool,
    },
    /// The `steer.result` of a steer ([turn.10]).
    Steer {
        /// The steer's own id.
        message_id: String,
    },
    /// The answer to a permission request ([permission.2]).
    Permission {
        /// Id of the request.
        request_id: String,
        /// True if the host must deny it by now: its turn was stopped or has ended
        /// ([permission.3]).
        due: bool,
    },
    /// The answer to a question (section 11.6).
    Question {
        /// Id of the request.
        request_id: String,
        /// True if the host must cancel it by now.
        due: bool,
    },
    /// The `tool.end` of a tool call (section 11.2); the host writes its own where the turn ends without it.
    Tool {
        /// The call.
        tool_call_id: String,
    },
    /// The `session.info` that answers a `session.update` (section 11.5).
    Info,
    /// The `pong` that answers a `ping` (section 11.8).
    Pong {
        /// Nonce of the `ping`.
        nonce: Value,
    },
    /// The answer to `sessions.list` or `agents.list`.
    List {
        /// Kind of the request.
        kind: &'static str,
        /// Id of the request.
        request_id: String,
    },
}

impl Debt {
    /// The clause that is broken when the debt is never paid.
    pub(super) fn broken(&self) -> Option<(&'static str, String)> {
        Some(match self {
            Self::Turn { turn_id, stopped } => {
                let turn = turn_id
                    .as_deref()
                    .map_or("a turn".to_owned(), |id| format!("the turn {id:?}"));
                let clause = if *stopped { "turn.4" } else { "turn.1" };
                (clause, format!("{turn} has no turn.complete"))
            }
            Self::Steer { message_id } => (
                "turn.10",
                format!("the steer {message_id:?} has no steer.result"),
            ),
            Self::Permission {
                request_id,
                due: true,
            } => (
                "permission.3",
                format!("{request_id:?} was never denied, and its turn is over"),
            ),
            Self::Question {
                request_id,
                due: true,
            } => (
                "permission.3",
                format!("{request_id:?} was never cancelled, and its turn is over"),
            ),
            Self::Permission { due: false, .. }
            | Self::Question { due: false, .. }
            | Self::Tool { .. } => {
                return None;
            }
            Self::Info => ("ext.5", "a session.update has no session.info".to_owned()),
            Self::Pong { nonce } => ("ext.5", format!("the ping {nonce} has no pong")),
            Self::List {
                kind: "agents.list",
                request_id,
            } => (
                "relay.4",
                format!("agents.list {request_id:?} has no result"),
            ),
            Self::List { kind, request_id } => {
                ("ext.5", format!("{kind} {request_id:?} has no result"))
            }
        })
    }
}
