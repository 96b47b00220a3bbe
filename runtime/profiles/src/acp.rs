//! Any agent that speaks the Agent Client Protocol: one process, many sessions.
//!
//! - pure: `initialize`, `update`, `content`, `media`, `choices`, `permission`, `usage`, `answer`, `restarts` read what agents say
//! - the process: `link` starts it and gives each session its `inbox`
//! - a session: `open` makes or resumes it, `conversation` serves its turns, `command_detection` finds commands and
//!   skills in inputs, `session` and `asks` answer its requests, `files` and `terminals` do what they ask for
//! - profiles: `agent` says how one agent differs from another, `generic` is the profile `acp`
//!
//! `request` makes what is sent, and its tests compare that with the official types; what comes is read member by
//! member, so that one of a wrong type costs itself only.

mod agent;
mod answer;
mod choices;
mod choose;
mod command_detection;
mod content;
mod conversation;
mod files;
pub(crate) mod generic;
mod inbox;
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

use serde_json::Value;
use trunkline_sdk::protocol::{SessionEntry, SessionUpdate, SessionsList};
use trunkline_sdk::{
    Adapter, Check, Description, Error, Input, Session, SessionInfo, SessionStart, Turn,
};

use self::conversation::Conversation;
use self::process::{Link, Pool};
use crate::agent::launch::Launch;
use crate::agent::options::Options;
use crate::agent::read::{self, list, text};
use crate::agent::settings::Common;
use crate::agent::started::started;
use crate::agent::{credentials, describe, diagnose, model, resume, version};

pub(crate) use self::agent::{Facts, Kind, Prepared, Transport, home_folder, variable};
pub(crate) use self::generic::{adapter, description};
pub(crate) use self::session::Permissions;
pub(crate) use self::shared::Shared;

/// The most sessions that are listed where the host does not say.
const MOST_LISTED: usize = 200;

/// The options of `session.start` that every such agent honours.
const HONOURED: [&str; 6] = [
    "add_dirs",
    "reasoning_effort",
    "mode",
    "permission_mode",
    "mcp_servers",
    "resume",
];

/// The adapter of an agent that speaks ACP.
#[derive(Clone)]
pub(crate) struct Acp(Arc<Inner>);

struct Inner {
    kind: Box<dyn Kind>,
    common: Common,
    pool: Pool,
    shared: Shared,
}

impl Acp {
    pub(crate) fn new(kind: impl Kind) -> Self {
        let common = kind.common();
        Self(Arc::new(Inner {
            kind: Box::new(kind),
            common,
            pool: Pool::default(),
            shared: Shared::default(),
        }))
    }

    /// Whether the installed version speaks ACP. One whose version is not known does.
    pub(crate) async fn is_spoken(&self) -> bool {
        let Some(since) = self.facts().since else {
            return true;
        };
        version::of(self.common())
            .await
            .is_none_or(|version| version >= since)
    }

    fn kind(&self) -> &dyn Kind {
        self.0.kind.as_ref()
    }

    fn facts(&self) -> Facts<'_> {
        self.kind().facts()
    }

    fn common(&self) -> &Common {
        &self.0.common
    }

    /// How long the agent may say nothing at all in a turn, where it hangs without credentials and none are found.
    fn first_word(&self, options: &Options) -> Option<std::time::Duration> {
        let accepted = credentials::of(self.facts().profile)
            .filter(|_| self.facts().hangs_without_credentials)?;
        let value = |name: &str| variable(options, name);
        let is_found = !accepted.found(value).is_empty()
            || accepted.file(value).is_some_and(|file| file.is_file());
        options.deadlines.start.filter(|_| !is_found)
    }

    /// What to do without credentials, where the profile knows better than the agent says.
    fn login_hint(&self) -> Option<String> {
        credentials::of(self.facts().profile)
            .map(|known| known.hint(|name| std::env::var(name).ok()))
    }

    /// The agent's own word for a model that is asked for.
    fn model(&self, asked: &str) -> String {
        self.kind()
            .model(&model::resolve(asked, &self.common().model_aliases))
    }

    /// How the agent of a session is started. Its process works where the configuration says, since it serves sessions
    /// of many directories.
    async fn prepare(&self, options: &Options) -> Result<Prepared, Error> {
        let version = match self.kind().minds_version(options) {
            true => version::of(self.common()).await,
            false => None,
        };
        let mut prepared = self.kind().prepare(options, version, &self.0.shared)?;
        let work_dir = &self.common().work_dir;
        prepared.launch.cwd = (!work_dir.is_empty()).then(|| work_dir.into());
        Ok(prepared)
    }

    /// Begins a session of which is settled whether it resumes one.
    pub(crate) fn begin(&self, session: &Session, mut options: Options) -> Conversation {
        options.model = options.model.map(|model| self.kind().model(&model));
        Conversation::new(self.clone(), session, options)
    }

    async fn link(&self, launch: &Launch) -> Result<Arc<Link>, Error> {
        self.0
            .pool
            .link(
                launch,
                self.facts().client_files,
                self.common().deadlines.start,
            )
            .await
    }
}

impl Adapter for Acp {
    type State = Option<Conversation>;

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
        let link = self.link(&prepared.launch).await?;
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

    fn describe(&self) -> Description {
        let Facts {
            profile,
            use_when: [use_when, avoid_when],
            honours,
            ..
        } = self.facts();
        let description =
            describe::wrapped(profile, "interactive", None).use_when(use_when, avoid_when);
        description
            .honours(HONOURED)
            .honours(honours.iter().copied())
    }

    async fn diagnose(&self) -> Vec<Check> {
        let mut checks = diagnose::checks(self.facts().profile, self.common()).await;
        if self.facts().is_dangerous || self.facts().permissions == Permissions::DangerousAllow {
            let text = "the configuration lets the agent run tools that no one is asked about";
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
