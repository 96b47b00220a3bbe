//! pi, by its RPC mode: one process for each session, which takes prompts, steers and aborts as
//! lines of JSON.
//!
//! pi has no permissions: its tools run unasked. What a session allows is the list of its tools.

mod command_line;
mod conversation;
mod mcp_extension;
#[cfg(test)]
mod tests;
mod translate;
mod turn;

use trunkline_sdk::{
    Adapter, Category, Check, Description, Error, Input, Session, SessionInfo, SessionStart,
    SessionUpdate, Turn,
};

use self::conversation::PiConversation;
use self::mcp_extension::McpExtension;
use crate::agent::failure;
use crate::agent::options::Options;
use crate::agent::settings::settings;
use crate::agent::started;
use crate::agent::{credentials, describe, diagnose, mcp, model, native_id, resume};
use crate::agents::{self, McpVariables};

settings! {
    /// The configuration, key `pi`.
    struct Pi, "pi";
    {
        /// The service that runs the model, if the model's name does not include it.
        provider: String = String::new(),
        /// The effort of the model if a session sets none: `off`, `minimal`, `low`, `medium`,
        /// `high`, `xhigh`.
        thinking: String = String::new(),
        /// The only tools that the agent has. Empty: all of its own.
        allowed_tools: Vec<String> = Vec::new(),
        /// Keeps the agent from the network, but for its model: no updates, no downloads.
        offline: bool = true,
    }
}

/// The adapter of pi.
pub(crate) struct PiAdapter {
    settings: Pi,
}

impl PiAdapter {
    pub(crate) fn new(settings: Pi) -> Self {
        Self { settings }
    }
}

/// The options of `session.start` that hold.
const HONOURED: [&str; 5] = [
    "reasoning_effort",
    "system_prompt_mode",
    "allowed_tools",
    "mcp_servers",
    "skills",
];

/// Returns true if the list contains only names of tools, without patterns of their arguments.
fn are_names(tools: &[String]) -> bool {
    tools
        .iter()
        .all(|tool| !tool.contains(['(', ',']) && !tool.starts_with('-'))
}

impl Adapter for PiAdapter {
    type State = Option<PiConversation>;

    async fn turn(&self, turn: Turn, input: Input, state: &mut Self::State) -> Result<(), Error> {
        started(state)?.turn(turn, input).await;
        Ok(())
    }

    async fn start(&self, session: &Session, start: SessionStart) -> Result<Self::State, Error> {
        let mut options = Options::read(session, &self.settings.common(), start).await?;
        // pi accepts a path as well, and would open any file there.
        resume::settle(session, &mut options, native_id::is_uuid).await;
        let (servers, mut warnings) = mcp::parse(&options, McpVariables::Braced);
        let (extension, left_out) = McpExtension::new(servers)?;
        warnings.extend(left_out);
        for text in warnings {
            session.emit(failure::warning(Category::Other, text)).await;
        }
        PiConversation::new(session, self.settings.clone(), options, extension).map(Some)
    }

    /// Holds from the next turn on, for which the agent starts anew with the same conversation.
    async fn update(
        &self,
        _: &Session,
        update: SessionUpdate,
        state: &mut Self::State,
    ) -> Result<SessionInfo, Error> {
        if update
            .allowed_tools
            .as_deref()
            .is_some_and(|tools| !are_names(tools))
        {
            let why = "`allowed_tools`: pi runs tools without approval, so only names of tools can be enforced";
            return Err(Error::other(why));
        }
        let aliases = &self.settings.model_aliases;
        let info = started(state)?
            .change(|options| {
                options.model = update
                    .model
                    .map(|name| model::resolve(&name, aliases))
                    .or(options.model.take());
                options.reasoning_effort =
                    update.reasoning_effort.or(options.reasoning_effort.take());
                options.allowed_tools = update.allowed_tools.or(options.allowed_tools.take());
            })
            .await;
        Ok(info)
    }

    async fn close(&self, _: &Session, state: Self::State) {
        if let Some(conversation) = state {
            conversation.close().await;
        }
    }

    fn describe(&self) -> Description {
        describe::wrapped(
            "pi",
            credentials::for_profile("pi"),
            "interactive",
            Some(false),
        )
        .use_when(
            "a small coding agent with few tools is wanted, whose turns take steers",
            "tools need approval by a person, and pi cannot ask for it",
        )
        .honours(HONOURED)
        .steerable()
    }

    /// pi never asks before a tool runs, so a pattern cannot be enforced: only names of tools can.
    fn greet(&self, start: &SessionStart) -> SessionInfo {
        describe::greeting(&HONOURED, start, |option| match option {
            "allowed_tools" => start.allowed_tools.as_deref().is_none_or(are_names),
            _ => true,
        })
    }

    async fn diagnose(&self) -> Vec<Check> {
        diagnose::checks(agents::built_in("pi"), &self.settings.common()).await
    }
}
