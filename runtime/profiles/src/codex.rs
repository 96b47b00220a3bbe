//! The profile `codex`: one `codex app-server` for all sessions, each of them a thread of it.
//!
//! - what is configured: `policy`; how programs are started: `command_line`
//! - the shared process: `process`
//! - a session and its turns: `conversation`, `turn`, `retries`, `request`, `history`, `models`
//! - what the native messages mean, without time and bytes: `translate`, `item`, `approval`,
//!   `fault`, `usage`, `shell`

mod approval;
mod command_line;
mod conversation;
mod diagnose;
mod exec;
mod fault;
mod history;
mod item;
mod login;
mod models;
mod policy;
mod process;
mod request;
mod retries;
mod shell;
mod skills;
mod translate;
mod turn;
mod usage;

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use trunkline_sdk::protocol::{SessionEntry, SessionsList};
use trunkline_sdk::{
    Adapter, Check, Description, Error, Input, Session, SessionInfo, SessionStart, SessionUpdate,
    Turn,
};

use self::command_line::TurnRoute;
use self::conversation::{AppServerThread, ThreadLink, last_turn};
use self::exec::Exec;
use self::policy::Policy;
use self::process::Server;
use self::request::ThreadOptions;
use self::skills::read_skills;
use crate::agent::attachment::{self, Native};
use crate::agent::deadlines::until_stopped;
use crate::agent::end::undelivered;
use crate::agent::options::Options;
use crate::agent::read;
use crate::agent::rpc::{IdlePolicy, Pool};
use crate::agent::settings::{Wait, settings};
use crate::agent::{credentials, describe, resume, version};

settings! {
    /// The configuration of the profile, under the key `codex`.
    struct Settings, "codex";
    {
        /// When Codex asks: `untrusted`, `on-request` or `never`. Empty: as Codex itself is configured.
        #[cfg_attr(test, schemars(extend("enum" = policy::schema_values(policy::Approval::ALL.map(policy::Approval::name)))))]
        approval_mode: String = String::new(),
        /// Sandbox of commands: `read-only` or `workspace-write`. Empty: the one in Codex's own
        /// configuration.
        #[cfg_attr(test, schemars(extend("enum" = policy::schema_values(policy::Sandbox::ALL.map(policy::Sandbox::name)))))]
        sandbox_mode: String = String::new(),
        /// A profile of Codex's own configuration. Such sessions run by `codex exec`, the only mode
        /// with profiles.
        profile: String = String::new(),
        /// Further folders that commands may write to.
        additional_dirs: Vec<String> = Vec::new(),
        /// Short for `on-request` and `workspace-write`.
        full_auto: bool = false,
        /// Lets Codex run anything, unasked and without a sandbox.
        dangerous_full_access: bool = false,
        /// Transport to Codex: `app-server`, or `exec`, one process per turn, which never asks.
        /// Empty: by its version.
        transport: Transport = Transport::Auto,
        /// The longest time in which Codex does nothing but try to reach its model again.
        retry_timeout: Wait = Wait::seconds(180),
    }
}

/// Checks what the opening of a session checks of the configuration.
///
/// # Errors
/// As of [`Policy::resolve`].
pub(crate) fn check(settings: &Settings) -> Result<(), Error> {
    Policy::resolve(settings, &Options::configured(&settings.common())).map(drop)
}

/// Transport to Codex.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Transport {
    /// By its version.
    #[default]
    #[serde(rename = "", alias = "auto")]
    Auto,
    /// One app server for all sessions.
    AppServer,
    /// One process per turn.
    Exec,
}

/// Timeout of the list of sessions.
const LIST: Duration = Duration::from_secs(20);

/// The most sessions that are listed.
const MOST_LISTED: u32 = 500;

/// Drives Codex by its app server.
pub(crate) struct Codex {
    settings: Arc<Settings>,
    pool: Pool<Server>,
}

/// State of a session.
#[derive(Default)]
pub(crate) struct CodexState(KeptThread);

#[derive(Default)]
enum KeptThread {
    /// Not started.
    #[default]
    None,
    /// A thread of the app server, and the failure of its start, which its first turn reports.
    Thread(Box<AppServerThread>, Option<Error>),
    /// One process per turn.
    Exec(Box<Exec>),
}

impl Codex {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings: Arc::new(settings),
            pool: Pool::default(),
        }
    }

    /// Returns a session with its options, not yet begun.
    async fn session(&self, session: &Session, start: SessionStart) -> Result<KeptThread, Error> {
        let common = self.settings.common();
        let asked_env = start.env.clone().unwrap_or_default();
        let mut options = Options::read(session, &common, start).await?;
        // It is used in the command line, and must not be an option there.
        resume::settle(session, &mut options, |id| !id.starts_with('-')).await;
        let policy = Policy::resolve(&self.settings, &options)?;
        let (launch, tool_env) = command_line::app_server(&options, &common.env, &asked_env);
        let own = asked_env.is_empty() && options.args == common.args;
        let stay = if own {
            IdlePolicy::Kept
        } else {
            IdlePolicy::WithSessions
        };
        let mut warnings = Vec::new();
        if policy.bypasses() {
            warnings.push(
                "codex runs anything, unasked and without a sandbox: dangerous_full_access"
                    .to_owned(),
            );
        }
        let skills = read_skills(&options, &mut warnings);
        if let Some(commands) = skills.commands() {
            session.info(SessionInfo {
                commands: Some(commands),
                ..SessionInfo::default()
            });
        }
        // A program that is not there is the turn's failure.
        let version = version::probe(&options.launch()).await.ok();
        let way = TurnRoute::choose(version, &self.settings);
        let names_end = last_turn(&options).is_some();
        let copies = resume::settle_copy(session, &mut options, names_end).await;
        if copies && way == TurnRoute::Exec {
            resume::lose_copy(session, &mut options, "`codex exec` copies no thread").await;
        }
        if way == TurnRoute::Exec {
            let exec = Exec::new(
                self.settings.clone(),
                options,
                version,
                policy,
                skills,
                warnings,
            )?;
            return Ok(KeptThread::Exec(Box::new(exec)));
        }
        let (mcp_servers, wrong) = conversation::mcp_servers(&options);
        warnings.extend(wrong);
        let cwd = options
            .cwd
            .as_ref()
            .map(|cwd| cwd.to_string_lossy().into_owned());
        let (base, developer) = if options.replaces_system_prompt {
            (options.system_prompt.clone(), None)
        } else {
            (None, options.system_prompt.clone())
        };
        let thread = ThreadOptions {
            cwd,
            add_dirs: self
                .settings
                .additional_dirs
                .iter()
                .chain(&options.add_dirs)
                .cloned()
                .collect(),
            model: options.model.clone(),
            effort: options.reasoning_effort.clone(),
            policy,
            base,
            developer: skills.after(developer.as_deref(), &mut warnings),
            tool_env,
            mcp_servers,
            output_schema: options
                .output_schema
                .as_deref()
                .and_then(|schema| serde_json::from_str(schema).ok()),
        };
        let mut thread = AppServerThread::new(
            self.settings.clone(),
            options,
            launch,
            stay,
            thread,
            skills,
            warnings,
        );
        thread.copies = copies;
        Ok(KeptThread::Thread(Box::new(thread), None))
    }
}

impl Codex {
    /// The link of a thread whose earlier turns have ended.
    async fn ready(
        &self,
        turn: &Turn,
        thread: &mut AppServerThread,
    ) -> Result<Arc<ThreadLink>, Error> {
        loop {
            let connecting = thread.connect(&self.pool, turn.session());
            let link = until_stopped(turn, connecting).await?;
            if turn::finish_earlier(turn, thread, &link).await? {
                return Ok(link);
            }
        }
    }
}

impl Adapter for Codex {
    type State = CodexState;

    async fn start(&self, session: &Session, options: SessionStart) -> Result<CodexState, Error> {
        let mut state = self.session(session, options).await?;
        match &mut state {
            // Its failure is the first turn's, and the one after that tries again.
            KeptThread::Thread(thread, failure) => {
                *failure = thread.connect(&self.pool, session).await.err()
            }
            KeptThread::Exec(exec) => session.info(exec.info()),
            KeptThread::None => {}
        }
        Ok(CodexState(state))
    }

    async fn turn(&self, turn: Turn, input: Input, state: &mut CodexState) -> Result<(), Error> {
        let thread = match &mut state.0 {
            KeptThread::None => return Err(Error::other("the session was not started")),
            KeptThread::Exec(exec) => {
                let attachments = attachment::read_all(input.files, Native::Images).await;
                exec.turn(turn, &input.content, attachments).await;
                return Ok(());
            }
            KeptThread::Thread(thread, failure) => match failure.take() {
                Some(failure) => {
                    let end = undelivered(&failure);
                    thread.report.finish(turn, end, None).await;
                    return Ok(());
                }
                None => thread,
            },
        };
        let session = turn.session().clone();
        let link = match self.ready(&turn, thread).await {
            Ok(link) => link,
            Err(error) => {
                let end = undelivered(&error);
                thread.report.finish(turn, end, None).await;
                return Ok(());
            }
        };
        let attachments = attachment::read_all(input.files, Native::Images).await;
        let text = thread.input(&input.content, &session);
        let items = request::input(&text, &attachments);
        turn::run(turn, items, thread, &link).await;
        Ok(())
    }

    async fn update(
        &self,
        _: &Session,
        update: SessionUpdate,
        state: &mut CodexState,
    ) -> Result<SessionInfo, Error> {
        match &mut state.0 {
            KeptThread::Thread(thread, _) => thread.update(update),
            KeptThread::Exec(exec) => exec.update(update),
            KeptThread::None => Ok(SessionInfo::default()),
        }
    }

    async fn close(&self, _: &Session, state: CodexState) {
        if let KeptThread::Thread(thread, _) = state.0 {
            thread.close().await;
        }
    }

    async fn sessions(&self, list: SessionsList) -> Result<Vec<SessionEntry>, Error> {
        let options = Options::configured(&self.settings.common());
        let (launch, _) = command_line::app_server(&options, &options.env, &Default::default());
        let start = Server::start(&launch, options.deadlines.start, None);
        let server = self
            .pool
            .process(&launch, IdlePolicy::Kept, None, start)
            .await?;
        let mut params =
            json!({ "limit": list.limit.unwrap_or(100).min(MOST_LISTED), "sortKey": "updated_at" });
        if let Some(cwd) = &list.cwd {
            params["cwd"] = cwd.as_str().into();
        }
        let found: Value = server
            .peer
            .call("thread/list", &params, Some(LIST))
            .await
            .map_err(|error| error.error("codex lists no sessions"))?;
        let data = read::list(&found, "data").iter();
        Ok(data.filter_map(entry).collect())
    }

    fn describe(&self) -> Description {
        let danger = self.settings.dangerous_full_access;
        let wrapped = describe::wrapped(
            "codex",
            credentials::for_profile("codex"),
            "run-to-completion",
            Some(true),
        );
        let wrapped = match TurnRoute::choose(None, &self.settings) {
            TurnRoute::AppServer => wrapped.forks(),
            TurnRoute::Exec => wrapped,
        };
        wrapped
            .use_when(
                "OpenAI's Codex reads, changes and runs code, with approvals by people",
                "one answer of a model is enough, or no `codex` program can be installed",
            )
            .steerable()
            .modes(Policy::modes(danger))
            .honours([
                "resume",
                "add_dirs",
                "reasoning_effort",
                "system_prompt_mode",
            ])
            .honours([
                "mode",
                "permission_mode",
                "mcp_servers",
                "skills",
                "output_schema",
            ])
    }

    async fn diagnose(&self) -> Vec<Check> {
        diagnose::checks(&self.settings).await
    }
}

/// A thread as a session that can be resumed.
fn entry(thread: &Value) -> Option<SessionEntry> {
    let text = |key: &str| read::text(thread, key);
    let time = |key: &str| thread[key].as_u64().map(translate::timestamp);
    let title = text("name").or_else(|| text("preview"));
    Some(SessionEntry {
        native_session_id: text("id")?.to_owned(),
        title: title.map(|title| trunkline_sdk::preview::cut(title, 200)),
        cwd: text("cwd").map(str::to_owned),
        created_at: time("createdAt"),
        updated_at: time("updatedAt"),
        ..SessionEntry::default()
    })
}
