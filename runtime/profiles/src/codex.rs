//! The profile `codex`: one `codex app-server` for all sessions, each of them a thread of it.
//!
//! - what is configured: `policy`; how programs are started: `command_line`
//! - the shared process and what it says: `server`, `inbox`
//! - a session and its turns: `thread`, `turning`, `request`, `history`
//! - what the native messages mean, without time and bytes: `translate`, `item`, `approval`, `fault`, `usage`, `shell`

mod approval;
mod command_line;
mod diagnose;
mod fault;
mod history;
mod inbox;
mod item;
mod policy;
mod request;
mod server;
mod shell;
mod thread;
mod translate;
mod turning;
mod usage;

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use trunkline_sdk::protocol::{Capabilities, SessionEntry, SessionsList};
use trunkline_sdk::{
    Adapter, Check, Description, Error, Input, Session, SessionInfo, SessionStart, SessionUpdate, Turn,
};

use self::policy::Policy;
use self::request::ThreadOptions;
use self::server::{Pool, Stay};
use self::thread::Thread;
use crate::agent::attachment::{self, Native};
use crate::agent::options::Options;
use crate::agent::settings::{Wait, settings};

settings! {
    /// The configuration of the profile, under the key `codex`.
    struct Settings, "codex";
    {
        /// When Codex asks: `untrusted`, `on-request` or `never`. Empty: as Codex itself is configured.
        approval_mode: String = String::new(),
        /// What confines commands: `read-only` or `workspace-write`. Empty: as Codex itself is configured.
        sandbox_mode: String = String::new(),
        /// A profile of Codex's own configuration. Such sessions run by `codex exec`, which alone knows profiles.
        profile: String = String::new(),
        /// Further folders that commands may write to.
        additional_dirs: Vec<String> = Vec::new(),
        /// Short for `on-request` and `workspace-write`.
        full_auto: bool = false,
        /// Lets Codex run anything, unasked and without a sandbox.
        dangerous_full_access: bool = false,
        /// The longest time in which Codex does nothing but try to reach its model again.
        retry_timeout: Wait = Wait::seconds(180),
    }
}

/// How long the list of sessions may take.
const LIST: Duration = Duration::from_secs(20);

/// The most sessions that are listed.
const MOST_LISTED: u32 = 500;

/// Drives Codex by its app server.
pub(crate) struct Codex {
    settings: Arc<Settings>,
    pool: Pool,
}

/// A session's state: none before it was started.
#[derive(Default)]
pub(crate) struct State(Option<Box<Thread>>, Option<Error>);

impl Codex {
    pub(crate) fn new(settings: Settings) -> Self {
        Self { settings: Arc::new(settings), pool: Pool::default() }
    }

    /// What a session asks for, as a thread that is not yet begun.
    fn thread(&self, start: SessionStart) -> Result<Thread, Error> {
        let common = self.settings.common();
        let asked_env = start.env.clone().unwrap_or_default();
        let options = Options::of(&common, start);
        let policy = Policy::of(&self.settings, &options)?;
        let (launch, tool_env) = command_line::app_server(&options, &common.env, &asked_env);
        let own = asked_env.is_empty() && options.args == common.args;
        let stay = if own { Stay::Kept } else { Stay::WithSessions };
        let (mcp_servers, mut warnings) = thread::mcp_servers(&options.mcp_servers);
        if policy.bypasses() {
            warnings
                .push("codex runs anything, unasked and without a sandbox: dangerous_full_access".to_owned());
        }
        let cwd = options.cwd.as_ref().map(|cwd| cwd.to_string_lossy().into_owned());
        let thread = ThreadOptions {
            cwd,
            add_dirs: self.settings.additional_dirs.iter().chain(&options.add_dirs).cloned().collect(),
            model: options.model.clone(),
            effort: options.reasoning_effort.clone(),
            policy,
            system_prompt: options.system_prompt.clone(),
            replaces: options.replaces_system_prompt,
            skills: None,
            tool_env,
            mcp_servers,
        };
        Ok(Thread::new(self.settings.clone(), options, launch, stay, thread, warnings))
    }
}

impl Adapter for Codex {
    type State = State;

    async fn start(&self, session: &Session, options: SessionStart) -> Result<State, Error> {
        let mut thread = self.thread(options)?;
        // Its failure is the first turn's, and the one after that tries again.
        let failure = thread.connect(&self.pool, session).await.err();
        Ok(State(Some(Box::new(thread)), failure))
    }

    async fn turn(&self, turn: Turn, input: Input, state: &mut State) -> Result<(), Error> {
        if let Some(failure) = state.1.take() {
            return Err(failure);
        }
        let Some(thread) = &mut state.0 else { return Err(Error::other("the session was not started")) };
        let session = turn.session().clone();
        let link = tokio::select! {
            biased;
            () = turn.stopped() => return Err(Error::stopped()),
            link = thread.connect(&self.pool, &session) => link?,
        };
        let attachments = attachment::read_all(input.files, Native::Images).await;
        let text = thread.prompt(&input.content, &session);
        let items = request::input(&text, &attachments);
        turning::run(turn, items, thread, &link).await;
        Ok(())
    }

    async fn update(
        &self,
        _: &Session,
        update: SessionUpdate,
        state: &mut State,
    ) -> Result<SessionInfo, Error> {
        match &mut state.0 {
            Some(thread) => thread.update(update),
            None => Ok(SessionInfo::default()),
        }
    }

    async fn close(&self, _: &Session, state: State) {
        if let Some(thread) = state.0 {
            thread.close().await;
        }
    }

    async fn sessions(&self, list: SessionsList) -> Result<Vec<SessionEntry>, Error> {
        let options = Options::of(&self.settings.common(), SessionStart::default());
        let (launch, _) = command_line::app_server(&options, &options.env, &Default::default());
        let server = self.pool.server(&launch, Stay::Kept, options.patience.start).await?;
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
        let data = found.get("data").and_then(Value::as_array).into_iter().flatten();
        Ok(data.filter_map(entry).collect())
    }

    fn describe(&self) -> Description {
        let danger = self.settings.dangerous_full_access;
        Description::new("codex", env!("CARGO_PKG_VERSION"))
            .use_when(
                "code is to be read, changed and tried out by OpenAI's Codex, with approvals by people",
                "one answer of a model is enough, or no `codex` program can be installed",
            )
            .capabilities(Capabilities {
                native_session_ids: Some(true),
                turn_completion: Some(true),
                resume_attach: Some(true),
                exec_model: Some("run-to-completion".to_owned()),
                max_sessions: None,
            })
            .resumes()
            .steerable()
            .modes(Policy::modes(danger))
            .honours([
                "resume",
                "cwd",
                "add_dirs",
                "model",
                "reasoning_effort",
                "system_prompt",
                "system_prompt_mode",
                "mode",
                "permission_mode",
                "mcp_servers",
                "skills",
                "env",
                "variables",
                "extra_args",
            ])
    }

    async fn diagnose(&self) -> Vec<Check> {
        diagnose::checks(&self.settings).await
    }
}

/// A thread as a session that can be resumed.
fn entry(thread: &Value) -> Option<SessionEntry> {
    let text = |key: &str| thread.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let time = |key: &str| {
        let seconds = thread.get(key)?.as_u64()?.min(253_402_300_799);
        let time = std::time::UNIX_EPOCH + Duration::from_secs(seconds);
        Some(humantime::format_rfc3339_seconds(time).to_string())
    };
    let title = text("name").or_else(|| text("preview"));
    Some(SessionEntry {
        native_session_id: text("id")?.to_owned(),
        title: title.map(|title| crate::agent::title::cut(title, 200)),
        cwd: text("cwd").map(str::to_owned),
        message_count: None,
        created_at: time("createdAt"),
        updated_at: time("updatedAt"),
    })
}
