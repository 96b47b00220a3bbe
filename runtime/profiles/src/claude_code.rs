//! The profile `claude-code`: Anthropic's Claude Code, one `claude` process for each session, with
//! JSON lines in both directions.
//!
//! - `config`, `command_line`: its start
//! - `given`, `agent_file`, `project_mcp`: its input files
//! - `native`, `event`, `translate`, `answer`, `diff`, `usage`, `outcome`: the meaning of its
//!   lines; pure
//! - `control`: its control protocol, by which it asks for permission and is interrupted
//! - `sessions`, `transcript_summary`: its stored conversations
//! - `talk`, `turn`: the dialogue within a turn and between turns; pure
//! - `process`, `conversation`: a process, and the session that outlives it

mod agent_file;
mod allow_list;
mod answer;
mod command_line;
mod config;
mod control;
mod conversation;
mod diagnose;
mod diff;
mod event;
mod given;
mod native;
mod outcome;
mod process;
mod project_mcp;
mod sessions;
mod talk;
mod transcript_summary;
mod translate;
mod turn;
mod usage;

use std::sync::Arc;
use std::time::Duration;

use trunkline_sdk::protocol::{Mode, Model, SessionEntry, SessionsList};
use trunkline_sdk::{
    Adapter, Check, Description, Error, Input, Session, SessionInfo, SessionStart, SessionUpdate,
    Turn,
};

pub(crate) use self::config::ClaudeCode as Settings;
use self::conversation::ClaudeConversation;
use crate::acp::variable;
use crate::agent::options::Options;
use crate::agent::started;
use crate::agent::{credentials, describe};

/// Time for a turn to end after a stop: for an interrupt, and a kill after it.
pub(crate) const STOP_GRACE: Duration = Duration::from_secs(7);

/// The options of `session.start` that hold.
pub(crate) const HONOURED: [&str; 14] = [
    "add_dirs",
    "reasoning_effort",
    "system_prompt_mode",
    "mode",
    "permission_mode",
    "allowed_tools",
    "denied_tools",
    "allowed_domains",
    "max_turns",
    "max_cost_usd",
    "output_schema",
    "mcp_servers",
    "skills",
    "resume",
];

/// Checks what the opening of a session checks of the configuration.
///
/// # Errors
/// As of [`command_line::launch`].
pub(crate) fn check(settings: &Settings) -> Result<(), Error> {
    let options = Options::configured(&settings.common());
    let files = command_line::Files::default();
    command_line::launch(
        settings,
        &options,
        None,
        command_line::ResumePoint::New(""),
        &files,
        |_| false,
    )
    .map(drop)
}

/// The modes that a session may ask for.
const MODES: &[(&str, &str)] = &[
    ("default", "Asks before it changes anything"),
    ("plan", "Plans and changes nothing"),
    ("acceptEdits", "Edits files without asking"),
    ("dontAsk", "Denies what it would ask for"),
];

const MODELS: &[(&str, &str)] = &[("sonnet", "Sonnet"), ("opus", "Opus"), ("haiku", "Haiku")];

/// Claude Code.
#[derive(Clone)]
pub(crate) struct ClaudeCode {
    settings: Arc<Settings>,
}

impl ClaudeCode {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings: Arc::new(settings),
        }
    }

    /// Returns true if a session may have MCP servers.
    fn has_servers(&self, start: &SessionStart) -> bool {
        let Self { settings } = self;
        start.mcp_servers.is_some() || settings.mcp_servers.is_some() || settings.project_mcp
    }

    /// Returns true if a session can reach only the domains that it names: by Claude's sandbox,
    /// which does not contain MCP servers, and which a settings file could open.
    fn holds_domains(&self, start: &SessionStart) -> bool {
        let is_closed = self
            .settings
            .setting_sources
            .as_ref()
            .is_some_and(Vec::is_empty);
        let is_within = |domain: &String| self.settings.allowed_domains.contains(domain);
        self.settings.sandbox
            && is_closed
            && !self.has_servers(start)
            && start.allowed_domains.iter().flatten().all(is_within)
    }
}

impl Adapter for ClaudeCode {
    type State = Option<ClaudeConversation>;

    async fn start(&self, session: &Session, start: SessionStart) -> Result<Self::State, Error> {
        let options = Options::read(session, &self.settings.common(), start).await?;
        ClaudeConversation::open(session, self.settings.clone(), options)
            .await
            .map(Some)
    }

    async fn turn(&self, turn: Turn, input: Input, state: &mut Self::State) -> Result<(), Error> {
        started(state)?.turn(turn, input).await;
        Ok(())
    }

    async fn update(
        &self,
        _: &Session,
        update: SessionUpdate,
        state: &mut Self::State,
    ) -> Result<SessionInfo, Error> {
        started(state)?.update(update).await
    }

    async fn close(&self, _: &Session, state: Self::State) {
        if let Some(conversation) = state {
            conversation.close().await;
        }
    }

    async fn sessions(&self, list: SessionsList) -> Result<Vec<SessionEntry>, Error> {
        let options = Options::configured(&self.settings.common());
        let home = sessions::home(|name| variable(&options, name)).ok_or_else(|| {
            Error::other(
                "where Claude keeps its conversations is not known: set HOME or CLAUDE_CONFIG_DIR",
            )
        })?;
        let read = move || sessions::list(&home, list.cwd.as_deref(), list.limit);
        let entries = tokio::task::spawn_blocking(read).await;
        entries
            .map_err(|_| Error::other("the conversations that Claude has kept could not be read"))
    }

    fn describe(&self) -> Description {
        let models = MODELS.iter().map(|(id, label)| Model {
            id: (*id).to_owned(),
            label: Some((*label).to_owned()),
            description: None,
        });
        let modes = MODES.iter().map(|(id, name)| Mode {
            id: (*id).to_owned(),
            name: Some((*name).to_owned()),
            description: None,
        });
        describe::wrapped("claude-code", credentials::for_profile("claude-code"), "interactive", Some(true))
            .use_when(
                "code is read, changed and run in a folder, with tools, permissions and a memory of the conversation",
                "the program must ask for nothing outside its folder, or answers must come within a second",
            )
            .takes_updated_input()
            .forks()
            .steerable()
            .honours(HONOURED)
            .models(models.collect())
            .modes(modes.collect())
    }

    fn greet(&self, start: &SessionStart) -> SessionInfo {
        describe::greeting(&HONOURED, start, |option| match option {
            "allowed_domains" => self.holds_domains(start),
            _ => true,
        })
    }

    async fn diagnose(&self) -> Vec<Check> {
        diagnose::diagnose(&self.settings).await
    }
}
