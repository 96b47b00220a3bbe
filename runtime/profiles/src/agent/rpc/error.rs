//! Errors of a call.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use trunkline_sdk::{Category, Error, protocol::format_duration};

use crate::agent::end::explain_timeout;
use crate::agent::process::ProcessEnd;

/// An error of JSON-RPC.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub(crate) struct RpcError {
    #[serde(default)]
    pub(crate) code: i64,
    #[serde(default)]
    pub(crate) message: String,
    #[serde(default)]
    pub(crate) data: Option<Value>,
}

impl RpcError {
    /// Reads the error of an answer, of any shape.
    pub(super) fn from_value(error: Value) -> Self {
        let text = error.to_string();
        serde_json::from_value(error).unwrap_or(Self {
            code: 0,
            message: text,
            data: None,
        })
    }
}

/// Errors of a call.
#[derive(Debug, Clone)]
pub(crate) enum CallError {
    /// The agent answered with an error.
    Rpc(RpcError),
    /// The agent's answer has not the shape that it should.
    Shape(String),
    /// No answer came in time. The end of the agent's stderr may name the cause.
    Late { wait: Duration, stderr: String },
    /// The agent has ended.
    Gone(ProcessEnd),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rpc(error) => write!(f, "{} (code {})", error.message, error.code),
            Self::Shape(why) => write!(f, "an answer of unknown shape: {why}"),
            Self::Late { wait, .. } => write!(f, "no answer within {}", format_duration(*wait)),
            Self::Gone(ended) => write!(f, "the agent ended: {}", ended.exit),
        }
    }
}

impl CallError {
    /// The failure of a turn or a start, in which `what` was asked.
    pub(crate) fn error(&self, what: &str) -> Error {
        match self {
            Self::Rpc(error) => {
                let data = error
                    .data
                    .as_ref()
                    .map(|data| format!(" {data}"))
                    .unwrap_or_default();
                let http = u16::try_from(error.code)
                    .ok()
                    .filter(|code| (400..600).contains(code));
                crate::agent::failure::failed(format!("{what}: {}{data}", error.message), http)
                    .code(error.code.to_string())
            }
            Self::Shape(_) => Error::new(Category::Protocol, format!("{what}: {self}")),
            Self::Late { stderr, .. } => {
                let timeout = Error::new(Category::Timeout, format!("{what}: {self}"));
                explain_timeout(timeout, None, stderr)
            }
            Self::Gone(ended) => ended.error(),
        }
    }
}
