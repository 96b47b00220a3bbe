//! Detects an agent that repeats the same tool calls: warns its user, and ends the turn if the
//! rules demand it.

use std::time::Instant;

use serde_json::Value;
use trunkline_protocol::{
    Category, ErrorEvent, Meta, StopReason, ToolStart,
    tool_loop::{ToolLoopAction, Verdict},
};

use super::{Core, reason::Limit};
use crate::{Cause, TurnScope};

impl Core {
    /// Reports a tool call, and a warning about those before it. Calls count over the turns of a
    /// session.
    pub(super) fn tool_start(
        &mut self,
        index: u32,
        scope: TurnScope,
        start: Box<ToolStart>,
        meta: Option<Box<Meta>>,
        now: Instant,
    ) {
        let verdict = self.judge_call(index, scope, &start);
        self.deliver(index, scope, start.into(), meta);
        match verdict {
            Verdict::Fine => {}
            Verdict::Block(why) if self.rules.tool_loop == ToolLoopAction::End => {
                let stop = self.stop_at(Cause::ToolLoop, Limit::ToolLoop, Some(&why));
                if let TurnScope::Running(turn) = scope {
                    self.stop_turn(index, turn, Some(stop), StopReason::Policy, now);
                }
            }
            Verdict::Warn(why) | Verdict::Block(why) => {
                let error = ErrorEvent {
                    category: Some(Category::ToolLoop),
                    message: format!("the agent may be going in circles: {why}"),
                    fatal: Some(false),
                    ..ErrorEvent::default()
                };
                self.deliver(index, scope, error.into(), None);
            }
        }
    }

    fn judge_call(&mut self, index: u32, scope: TurnScope, start: &ToolStart) -> Verdict {
        if self.rules.tool_loop == ToolLoopAction::Off || !matches!(scope, TurnScope::Running(_)) {
            return Verdict::Fine;
        }
        let Some(session) = self.get(index) else {
            return Verdict::Fine;
        };
        let input = start
            .input
            .as_ref()
            .and_then(|input| input.to::<Value>().ok())
            .unwrap_or_default();
        session.known().calls.saw(&start.tool, &input)
    }
}
