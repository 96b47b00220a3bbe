//! The events that most turns have, each by its own verb. All others go through [`Turn::emit`].

use trunkline_protocol::{
    Category, Compaction, ContextUsage, Custom, ErrorEvent, Json, Log, LogStream, Plan, PlanEntry,
    Progress, RateLimit, Thinking, ToolCallId, ToolEnd, ToolStart, ToolUpdate, Usage, Working,
};

use crate::Turn;

/// The outcome of a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ToolOutcome {
    /// Successful.
    Succeeded,
    /// Failed.
    Failed,
}

/// Events of a turn.
///
/// # Cancel safety
/// As [`Turn::emit`]: each event is sent whole, or not at all when the future is dropped first.
impl Turn {
    /// Sends a piece of what the model thinks.
    pub async fn thinking(&self, content: impl Into<String>) {
        self.emit(Thinking {
            content: content.into(),
            ..Thinking::default()
        })
        .await;
    }

    /// Reports that a tool call begins. A call that the turn leaves open is ended for it, as failed.
    pub async fn tool_start(
        &self,
        call: &ToolCallId,
        tool: impl Into<String>,
        input: Option<Json>,
    ) {
        self.emit(ToolStart {
            input,
            ..ToolStart::new(call.clone(), tool)
        })
        .await;
    }

    /// Sends what a tool call printed since the last update.
    pub async fn tool_update(&self, call: &ToolCallId, content: impl Into<String>) {
        self.emit(ToolUpdate {
            content: Some(content.into()),
            ..ToolUpdate::new(call.clone())
        })
        .await;
    }

    /// Reports that a tool call has ended.
    pub async fn tool_end(
        &self,
        call: &ToolCallId,
        content: impl Into<String>,
        outcome: ToolOutcome,
    ) {
        let end = ToolEnd {
            content: Some(content.into()),
            is_error: Some(outcome == ToolOutcome::Failed),
            ..ToolEnd::new(call.clone())
        };
        self.emit(end).await;
    }

    /// Sends the plan, whole each time.
    pub async fn plan(&self, entries: Vec<PlanEntry>) {
        self.emit(Plan {
            entries,
            ..Plan::default()
        })
        .await;
    }

    /// Reports progress in a line.
    pub async fn progress(&self, message: impl Into<String>) {
        self.emit(Progress {
            message: message.into(),
            ..Progress::default()
        })
        .await;
    }

    /// Sends a line for the log.
    pub async fn log(&self, stream: LogStream, content: impl Into<String>) {
        self.emit(Log {
            stream: Some(stream),
            content: content.into(),
            ..Log::default()
        })
        .await;
    }

    /// Reports an error that does not end the turn. Every host gets it, as text where need be ([ext.3]).
    pub async fn error(&self, category: Category, message: impl Into<String>) {
        let category = Some(category);
        let event = ErrorEvent {
            category,
            message: message.into(),
            fatal: Some(false),
            ..ErrorEvent::default()
        };
        self.emit(event).await;
    }

    /// Sends an event of the agent's own.
    pub async fn custom(&self, name: impl Into<String>, data: Option<Json>) {
        self.emit(Custom {
            name: name.into(),
            data,
            ..Custom::default()
        })
        .await;
    }

    /// Reports tokens and cost so far.
    pub async fn usage(&self, usage: Usage) {
        self.emit(usage).await;
    }

    /// Reports how full the context is.
    pub async fn context_usage(&self, usage: ContextUsage) {
        self.emit(usage).await;
    }

    /// Reports that the agent shortened its context.
    pub async fn compaction(&self, compaction: Compaction) {
        self.emit(compaction).await;
    }

    /// Reports how much of a provider's limit is used.
    pub async fn rate_limit(&self, limit: RateLimit) {
        self.emit(limit).await;
    }

    /// Reports that quiet work continues, so that no host takes it for a stall.
    pub async fn working(&self) {
        self.emit(Working {}).await;
    }
}
