//! What a turn tells of the agent's work: titles for its tools, and an eye on their repetition.

use serde_json::Value;
use trunkline_sdk::protocol::{AdapterBody, ToolStart};
use trunkline_sdk::{Category, Error, Turn, preview};

use super::tool_loop::{ToolLoop, ToolLoopAction, Verdict};

/// Emits a turn's events. Lives as long as its session: loops reach over turns.
#[derive(Debug)]
pub(crate) struct Report {
    action: ToolLoopAction,
    tools: ToolLoop,
}

impl Report {
    pub(crate) fn new(action: ToolLoopAction) -> Self {
        Self { action, tools: ToolLoop::default() }
    }

    /// Emits an event. A tool call gets its title where the agent gives none.
    ///
    /// # Errors
    /// `tool_loop` when the agent turns in circles, and such a turn must end.
    pub(crate) async fn emit(&mut self, turn: &Turn, event: impl Into<AdapterBody>) -> Result<(), Error> {
        match event.into() {
            AdapterBody::ToolStart(start) => self.tool_start(turn, *start).await,
            event => {
                turn.emit(event).await;
                Ok(())
            }
        }
    }

    async fn tool_start(&mut self, turn: &Turn, mut start: ToolStart) -> Result<(), Error> {
        let input = start.input.as_ref().and_then(|input| input.to::<Value>().ok());
        if start.title.is_none() {
            start.title = preview::tool_call(&start.tool, input.as_ref());
        }
        let verdict = match self.action {
            ToolLoopAction::Off => Verdict::Fine,
            ToolLoopAction::Warn | ToolLoopAction::End => {
                self.tools.saw(&start.tool, input.as_ref().unwrap_or(&Value::Null))
            }
        };
        turn.emit(start).await;
        match verdict {
            Verdict::Fine => {}
            Verdict::Block(reason) if self.action == ToolLoopAction::End => {
                return Err(Error::new(Category::ToolLoop, format!("tool-loop: {reason}")));
            }
            Verdict::Warn(reason) | Verdict::Block(reason) => {
                turn.error(Category::ToolLoop, format!("tool-loop: {reason}")).await;
            }
        }
        Ok(())
    }
}
