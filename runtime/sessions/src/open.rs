//! Open items of a session: turns, requests, tool calls, steers. A pure function of the entries, so
//! that every reader of them gets the same result.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};
use trunkline_protocol::{
    AdapterBody, Delivered, MessageId, RelayBody, RequestId, ToolCallId, TurnId,
};

/// Maximum number of remembered tool calls without an end.
const TOOLS: usize = 1024;

/// Open items, in the order in which they were opened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct OpenItems {
    pub(crate) turns: VecDeque<OpenTurn>,
    pub(crate) requests: Vec<OpenRequest>,
    pub(crate) tools: Vec<OpenTool>,
    /// Inputs that were accepted for a running turn, without a result yet.
    pub(crate) steers: Vec<Option<IdText<MessageId>>>,
}

/// A turn that has no end yet.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenTurn {
    pub(crate) id: IdText<TurnId>,
    /// Progress of its input.
    pub(crate) reached: InputProgress,
}

/// Progress of an input on its way to the adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum InputProgress {
    /// The input is stored.
    Journal,
    /// The input may have been written to the adapter.
    Pipe,
    /// The adapter has sent something in reply.
    Adapter,
}

impl InputProgress {
    /// Returns the known state of the delivery.
    pub(crate) fn delivered(self) -> Delivered {
        match self {
            Self::Journal => Delivered::No,
            Self::Pipe => Delivered::Unknown,
            Self::Adapter => Delivered::Yes,
        }
    }
}

/// A request without an answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenRequest {
    pub(crate) id: IdText<RequestId>,
    pub(crate) turn: Option<IdText<TurnId>>,
    #[serde(default)]
    pub(crate) is_question: bool,
}

/// A tool call without an end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OpenTool {
    pub(crate) id: IdText<ToolCallId>,
    pub(crate) turn: Option<IdText<TurnId>>,
}

/// An id, serialized as its text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct IdText<T>(pub(crate) T);

macro_rules! text {
    ($($Id:ident),*) => {$(
        impl Serialize for IdText<$Id> {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.0.as_str())
            }
        }

        impl<'de> Deserialize<'de> for IdText<$Id> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = String::deserialize(deserializer)?;
                $Id::new(text).map(Self).map_err(serde::de::Error::custom)
            }
        }
    )*};
}

text!(TurnId, RequestId, MessageId, ToolCallId);

impl OpenItems {
    /// Returns `true` if nothing is open.
    pub(crate) fn is_empty(&self) -> bool {
        self == &Self::default()
    }

    /// Applies an entry with a message of the adapter.
    pub(crate) fn take_adapter(&mut self, turn: Option<&TurnId>, body: &AdapterBody) {
        let of_turn = || turn.cloned().map(IdText);
        match body {
            AdapterBody::TurnComplete(_) => {
                let Some(turn) = turn else { return };
                if let Some(at) = self.turns.iter().position(|open| open.id.0 == *turn) {
                    self.turns.remove(at);
                }
                self.tools
                    .retain(|open| open.turn.as_ref().is_none_or(|of| of.0 != *turn));
                self.requests
                    .retain(|open| open.turn.as_ref().is_none_or(|of| of.0 != *turn));
                return;
            }
            AdapterBody::PermissionRequest(request) => {
                self.requests.push(OpenRequest {
                    id: IdText(request.request_id.clone()),
                    turn: of_turn(),
                    is_question: false,
                });
            }
            AdapterBody::InputRequest(request) => {
                self.requests.push(OpenRequest {
                    id: IdText(request.request_id.clone()),
                    turn: of_turn(),
                    is_question: true,
                });
            }
            // We write no end for tool calls above the limit.
            AdapterBody::ToolStart(_) if self.tools.len() == TOOLS => {}
            AdapterBody::ToolStart(start) => {
                self.tools.push(OpenTool {
                    id: IdText(start.tool_call_id.clone()),
                    turn: of_turn(),
                });
            }
            AdapterBody::ToolEnd(end) => self.tools.retain(|open| open.id.0 != end.tool_call_id),
            AdapterBody::SteerResult(result) => {
                let is_it = |open: &Option<IdText<MessageId>>| {
                    open.as_ref().map(|id| &id.0) == result.message_id.as_ref()
                };
                if let Some(at) = self.steers.iter().position(is_it) {
                    self.steers.remove(at);
                }
                return;
            }
            _ => {}
        }
        if let Some(turn) = turn {
            self.reached(turn, InputProgress::Adapter);
        }
    }

    /// Applies an entry with a message of the relay.
    pub(crate) fn take_relay(&mut self, turn: Option<&TurnId>, body: &RelayBody) {
        match body {
            RelayBody::TurnBegin(_) => {
                self.turns.extend(turn.cloned().map(|id| OpenTurn {
                    id: IdText(id),
                    reached: InputProgress::Journal,
                }));
            }
            RelayBody::InputSteered(steered) => {
                self.steers.push(steered.message_id.clone().map(IdText))
            }
            RelayBody::RequestDecided(decided) => {
                self.requests.retain(|open| open.id.0 != decided.request_id);
            }
            _ => {}
        }
    }

    /// Notes the progress of the input of a turn.
    pub(crate) fn reached(&mut self, turn: &TurnId, reached: InputProgress) {
        if let Some(open) = self.turns.iter_mut().find(|open| open.id.0 == *turn) {
            open.reached = reached;
        }
    }
}
