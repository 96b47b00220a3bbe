//! Any agent that speaks the Agent Client Protocol: one process, many sessions.
//!
//! - pure readers of the agents' messages: `initialize`, `update`, `content`, `media`, `choices`,
//!   `permission`, `usage`, `answer`, `restarts`
//! - the process: `process` starts it and gives each session its messages
//! - a session: `open` makes or resumes it, `conversation` serves its turns, `command_detection`
//!   finds commands and skills in inputs, `session` and `asks` answer its requests, `files` and
//!   `terminals` execute them
//! - profiles: `agent` starts an agent by its file, `generic` is the configuration of agents
//!   without options of their own
//!
//! `request` makes the outgoing messages, and its tests compare them with the official types;
//! incoming messages are read member by member, so that one of a wrong type costs only itself.

mod agent;
mod answer;
mod choices;
mod choose;
mod command_detection;
mod content;
mod conversation;
mod files;
pub(crate) mod generic;
mod initialize;
mod line;
mod media;
mod open;
mod permission;
mod process;
mod prompt;
mod request;
mod requests;
mod restarts;
mod session;
mod shared;
mod terminals;
mod translate;
mod usage;

use std::sync::Arc;

use serde_json::{Value, json};
use trunkline_sdk::protocol::{SessionEntry, SessionUpdate, SessionsList};
use trunkline_sdk::{
    Adapter, Check, Description, Error, Input, Session, SessionInfo, SessionStart, Turn,
};

use self::agent::Prepared;
use self::conversation::AcpConversation;
use self::process::AgentLink;
use self::shared::SharedResources;
use crate::agent::launch::Launch;
use crate::agent::log::SessionLog;
use crate::agent::options::Options;
use crate::agent::read::{self, list, text};
use crate::agent::rpc::{IdlePolicy, Pool};
use crate::agent::settings::Common;
use crate::agent::started;
use crate::agent::{describe, diagnose, model, resume, version};

pub(crate) use self::agent::{AcpAgent, Transport, variable};
pub(crate) use self::initialize::Quirks;
pub(crate) use self::session::Permissions;

/// Name of the profile for any agent.
const PROFILE: &str = "acp";

/// Default limit of listed sessions.
const MOST_LISTED: usize = 200;

/// The options of `session.start` that every such agent honours.
const HONOURED: [&str; 7] = [
    "add_dirs",
    "reasoning_effort",
    "mode",
    "permission_mode",
    "mcp_servers",
    "resume",
    "skills",
];

/// The adapter of an agent that speaks ACP.
#[derive(Clone)]
pub(crate) struct Acp(Arc<Inner>);

struct Inner {
    agent: AcpAgent,
    pool: Pool<AgentLink>,
    shared: SharedResources,
}

impl Acp {
    pub(crate) fn new(agent: AcpAgent) -> Self {
        Self(Arc::new(Inner {
            agent,
            pool: Pool::default(),
            shared: SharedResources::default(),
        }))
    }

    /// Returns true if the installed version speaks ACP, or if its version is unknown.
    pub(crate) async fn is_spoken(&self) -> bool {
        let Some(since) = self.agent().first_version() else {
            return true;
        };
        version::find_version(self.common())
            .await
            .is_none_or(|version| version >= since)
    }

    fn agent(&self) -> &AcpAgent {
        &self.0.agent
    }

    fn common(&self) -> &Common {
        self.agent().common()
    }

    /// Returns the timeout for the agent's first message in a turn, if it hangs without credentials
    /// and none are found.
    fn first_word(&self, options: &Options) -> Option<std::time::Duration> {
        let accepted = self.agent().file().credentials.as_ref();
        let accepted = accepted.filter(|_| self.agent().side().hangs_without_credentials)?;
        let value = |name: &str| variable(options, name);
        let is_found = !accepted.found(value).is_empty()
            || accepted.file(value).is_some_and(|file| file.is_file());
        options.deadlines.start.filter(|_| !is_found)
    }

    /// Returns the profile's login hint, if it is better than the agent's.
    fn login_hint(&self) -> Option<String> {
        let known = self.agent().file().credentials.as_ref()?;
        Some(known.hint(|name| std::env::var(name).ok()))
    }

    /// The agent's own word for a model that is asked for.
    fn model(&self, asked: &str) -> String {
        self.agent()
            .model_name(&model::resolve(asked, &self.common().model_aliases))
    }

    /// Prepares the start of a session's agent. Its process works in the configured directory,
    /// since it serves sessions of many directories.
    async fn prepare(&self, options: &Options) -> Result<Prepared, Error> {
        let version = if self.agent().needs_version(options) {
            version::find_version(self.common()).await
        } else {
            None
        };
        let mut prepared = self.agent().prepare(options, version, &self.0.shared)?;
        let work_dir = &self.common().work_dir;
        prepared.launch.cwd = (!work_dir.is_empty()).then(|| work_dir.into());
        Ok(prepared)
    }

    /// Begins a session of which is settled whether it resumes one.
    pub(crate) fn begin(&self, session: &Session, mut options: Options) -> AcpConversation {
        options.model = options.model.map(|model| self.agent().model_name(&model));
        AcpConversation::new(self.clone(), session, options)
    }

    async fn link(
        &self,
        launch: &Launch,
        log: Option<&Arc<SessionLog>>,
    ) -> Result<Arc<AgentLink>, Error> {
        let deadline = self.common().deadlines.start;
        let start = AgentLink::start(launch, self.agent().offers_files(), deadline, log);
        self.0
            .pool
            .process(launch, IdlePolicy::Kept, log, start)
            .await
    }
}

impl Adapter for Acp {
    type State = Option<AcpConversation>;

    async fn turn(&self, turn: Turn, input: Input, state: &mut Self::State) -> Result<(), Error> {
        started(state)?.turn(turn, input).await;
        Ok(())
    }

    async fn start(&self, session: &Session, start: SessionStart) -> Result<Self::State, Error> {
        let mut options = Options::read(session, self.common(), start).await?;
        resume::settle(session, &mut options, |_| true).await;
        Ok(Some(self.begin(session, options)))
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

    async fn sessions(&self, asked: SessionsList) -> Result<Vec<SessionEntry>, Error> {
        let options = Options::configured(self.common());
        let prepared = self.prepare(&options).await?;
        let link = self.link(&prepared.launch, None).await?;
        let called = link.initialized.called();
        if !link.initialized.lists {
            return Err(Error::other(format!("{called} cannot list its sessions")));
        }
        let most = asked.limit.map_or(MOST_LISTED, |limit| limit as usize);
        let mut entries = Vec::new();
        let mut cursor = None;
        while entries.len() < most {
            let request = request::list_sessions(asked.cwd.as_deref(), cursor.take().as_deref());
            let answer = link
                .peer
                .call::<_, Value>("session/list", &request, options.deadlines.start)
                .await;
            let answer = answer.map_err(|error| {
                let what = format!("{called} did not list its sessions");
                process::failure(
                    &error,
                    &what,
                    &link.initialized,
                    self.login_hint().as_deref(),
                )
            })?;
            let before = entries.len();
            entries.extend(list(&answer, "sessions").iter().filter_map(entry));
            cursor = text(&answer, "nextCursor").map(str::to_owned);
            if cursor.is_none() || entries.len() == before {
                break;
            }
        }
        entries.truncate(most);
        Ok(entries)
    }

    async fn log_out(&self) -> Result<(), Error> {
        let options = Options::configured(self.common());
        let prepared = self.prepare(&options).await?;
        let link = self.link(&prepared.launch, None).await?;
        let called = link.initialized.called();
        if !link.initialized.logs_out {
            return Err(Error::refused(format!("{called} has no logout")));
        }
        let deadline = options.deadlines.start;
        let answer = link
            .peer
            .call::<_, Value>("logout", &json!({}), deadline)
            .await;
        answer.map(drop).map_err(|error| {
            let what = format!("{called} did not log out");
            process::failure(
                &error,
                &what,
                &link.initialized,
                self.login_hint().as_deref(),
            )
        })
    }

    fn describe(&self) -> Description {
        let agent = self.agent();
        let side = agent.side();
        let credentials = agent.file().credentials.as_ref();
        let description = describe::wrapped(agent.profile(), credentials, "interactive", None)
            .use_when(&side.use_when, &side.avoid_when)
            .honours(HONOURED)
            .honours(side.honours.iter().map(String::as_str));
        match side.configuration {
            Some(_) => description.honours(["temperature"]),
            None => description,
        }
    }

    async fn diagnose(&self) -> Vec<Check> {
        let mut checks = diagnose::checks(self.agent().file(), self.common()).await;
        if self.agent().is_dangerous() || self.agent().permissions() == Permissions::DangerousAllow
        {
            let text = "the configuration lets the agent run tools without approval";
            checks.push(Check::warn("agent.dangerous", text).hint("leave `dangerous` out"));
        }
        checks
    }
}

fn entry(session: &Value) -> Option<SessionEntry> {
    let member = |name: &str| text(session, name).map(str::to_owned);
    Some(SessionEntry {
        native_session_id: member("sessionId")?,
        title: member("title"),
        cwd: member("cwd"),
        created_at: member("createdAt"),
        updated_at: member("updatedAt"),
        ..SessionEntry::default()
    })
}
