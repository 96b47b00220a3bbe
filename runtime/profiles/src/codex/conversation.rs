//! A session: a thread of the app server, begun or gone on with, over any number of app servers.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio_util::task::AbortOnDropHandle;
use trunkline_sdk::protocol::Context;
use trunkline_sdk::{Category, Error, Session, SessionInfo, SessionUpdate};

use super::history;
use super::models;
use super::policy::{Policy, Sandbox};
use super::process::{BETWEEN_TURNS, Server};
use super::request::{Overrides, ThreadOptions, is_unconfined};
use super::skills::input_text;
use super::translate::Translator;
use crate::agent::failure;
use crate::agent::launch::Launch;
use crate::agent::options::Options;
use crate::agent::report::{TurnReport, meta_log};
use crate::agent::resume;
use crate::agent::rpc::{CallError, IdlePolicy, Inbox, Pool};
use crate::agent::skills::Roster;
use crate::agents::McpVariables;

/// Timeout for the answer to a request that asks no model, if no start timeout is configured.
pub(super) const ANSWER: Duration = Duration::from_secs(60);

/// Timeout for the last requests of a session that closes.
const CLOSE: Duration = Duration::from_millis(400);

/// Member of the parameters: the id of the last turn that began.
pub(super) const LAST_TURN: &str = "last_turn";

/// A session over the app server.
pub(super) struct AppServerThread {
    pub(super) options: Options,
    pub(super) settings: Arc<super::Settings>,
    launch: Launch,
    stay: IdlePolicy,
    pub(super) thread: ThreadOptions,
    pub(super) link: Option<Arc<ThreadLink>>,
    /// Task that reports the models of the app server.
    models: Option<AbortOnDropHandle<()>>,
    /// The thread's id, once it has one.
    id: Option<String>,
    /// True if there is something to remember.
    pub(super) spoken: bool,
    /// True until Codex has copied the thread `id`, which stays as it is.
    pub(super) copies: bool,
    /// The last turn that began in the thread, up to which a copy is made.
    pub(super) last_turn: Option<String>,
    pub(super) translator: Translator,
    pub(super) report: TurnReport,
    /// Changes for the next turn.
    pub(super) overrides: Overrides,
    /// A turn that may run on, after its host was reported of its end.
    pub(super) unfinished: Option<String>,
    pub(super) model: Option<String>,
    pub(super) provider: Option<String>,
    skills: Roster,
    /// Warnings for the first turn.
    pub(super) warnings: Vec<String>,
}

/// A thread as a running app server knows it.
#[derive(Debug)]
pub(super) struct ThreadLink {
    pub(super) server: Arc<Server>,
    pub(super) thread: String,
    pub(super) inbox: Arc<Inbox>,
}

impl ThreadLink {
    fn new(server: Arc<Server>, thread: String) -> Arc<Self> {
        let inbox = Arc::new(Inbox::default());
        inbox.pause(BETWEEN_TURNS);
        if let Some(before) = server.peer.routes.register(&thread, &inbox) {
            before.hand_over();
        }
        Arc::new(Self {
            server,
            thread,
            inbox,
        })
    }

    /// Returns true if a turn can begin with it.
    fn is_fit(&self) -> bool {
        self.server.peer.is_fit() && !self.inbox.is_taken()
    }
}

/// Origin of a session's thread.
enum ThreadOrigin {
    New,
    Resumed,
}

impl AppServerThread {
    pub(super) fn new(
        settings: Arc<super::Settings>,
        options: Options,
        launch: Launch,
        stay: IdlePolicy,
        thread: ThreadOptions,
        skills: Roster,
        warnings: Vec<String>,
    ) -> Self {
        let id = options.resumed_id();
        let last_turn = last_turn(&options);
        let report = TurnReport::of_session(&options, id.is_some());
        Self {
            spoken: id.is_some(),
            copies: false,
            last_turn,
            model: thread.model.clone(),
            options,
            settings,
            launch,
            stay,
            thread,
            link: None,
            models: None,
            id,
            translator: Translator::default(),
            report,
            overrides: Overrides::default(),
            unfinished: None,
            provider: None,
            skills,
            warnings,
        }
    }

    /// The link to a living app server that knows the thread.
    ///
    /// # Errors
    /// Where Codex does not start, or does not take the thread.
    pub(super) async fn connect(
        &mut self,
        pool: &Pool<Server>,
        session: &Session,
    ) -> Result<Arc<ThreadLink>, Error> {
        if let Some(link) = self.link.as_ref().filter(|link| link.is_fit()) {
            return Ok(link.clone());
        }
        self.link = None;
        self.unfinished = None;
        let start = self.options.deadlines.start;
        let log = Some(self.report.log());
        let starting = Server::start(&self.launch, start, log);
        let server = pool.process(&self.launch, self.stay, log, starting).await?;
        let first = self.id.is_some() && self.options.resume.is_some();
        let (link, started, begun) = self.open(&server, session).await?;
        self.learn(&started, session);
        let context = match begun {
            ThreadOrigin::New => None,
            ThreadOrigin::Resumed => first.then_some(Context::Kept),
        };
        self.models = Some(models::tell(&server, session));
        let history = self.options.resume.take().and_then(|resume| resume.history) == Some(true);
        session.info(SessionInfo {
            native_session_id: Some(link.thread.clone()),
            context,
            ..self.info()
        });
        if history && matches!(begun, ThreadOrigin::Resumed) {
            history::replay(&link.server.peer, &link.thread, session).await;
        }
        self.link = Some(link.clone());
        Ok(link)
    }

    async fn open(
        &mut self,
        server: &Arc<Server>,
        session: &Session,
    ) -> Result<(Arc<ThreadLink>, Value, ThreadOrigin), Error> {
        let deadline = Some(self.options.deadlines.start.unwrap_or(ANSWER));
        if let Some(source) = self.id.clone().filter(|_| self.copies) {
            match self.fork(&source, server, deadline).await {
                Ok((link, started)) => return Ok((link, started, ThreadOrigin::Resumed)),
                Err(error @ CallError::Rpc(_)) => {
                    self.id = None;
                    self.copies = false;
                    resume::lost(session, error.error("codex did not copy the thread")).await;
                }
                Err(error) => return Err(error.error("codex did not copy the thread")),
            }
        }
        if let Some(id) = self.id.clone().filter(|_| self.spoken) {
            let link = ThreadLink::new(server.clone(), id.clone());
            self.translator = Translator::default();
            match server
                .peer
                .call("thread/resume", &self.thread.resume(&id), deadline)
                .await
            {
                Ok(started) => return Ok((link, started, ThreadOrigin::Resumed)),
                Err(error) if is_unknown(&error) => {
                    self.id = None;
                    resume::lost(session, error.error("codex did not resume the thread")).await;
                }
                Err(error) => return Err(error.error("codex did not resume the thread")),
            }
        }
        let _early = server.peer.routes.opening();
        let mut started = self.start_thread(server, deadline).await?;
        if is_unconfined(&started) && !self.thread.policy.danger {
            // Codex's own configuration sets this, and ours has not allowed it.
            self.thread.policy.sandbox = Some(Sandbox::WorkspaceWrite);
            self.warnings.push(
                "codex is configured to work without a sandbox; that holds here only with `dangerous_full_access`: \
                 it works in workspace-write"
                    .to_owned(),
            );
            started = self.start_thread(server, deadline).await?;
        }
        let id = started["thread"]["id"].as_str();
        let Some(id) = id.map(str::to_owned) else {
            return Err(Error::new(
                Category::Protocol,
                "codex began a thread without an id",
            ));
        };
        self.translator = Translator::fresh();
        self.id = Some(id.clone());
        self.spoken = false;
        self.last_turn = None;
        Ok((
            ThreadLink::new(server.clone(), id),
            started,
            ThreadOrigin::New,
        ))
    }

    /// Copies a thread, and continues with the copy.
    async fn fork(
        &mut self,
        source: &str,
        server: &Arc<Server>,
        deadline: Option<Duration>,
    ) -> Result<(Arc<ThreadLink>, Value), CallError> {
        let _early = server.peer.routes.opening();
        let params = self.thread.fork(source, self.last_turn.as_deref());
        let started: Value = server.peer.call("thread/fork", &params, deadline).await?;
        let Some(id) = started["thread"]["id"].as_str().map(str::to_owned) else {
            return Err(CallError::Shape("a copy without an id".to_owned()));
        };
        self.translator = Translator::default();
        self.id = Some(id.clone());
        self.copies = false;
        Ok((ThreadLink::new(server.clone(), id), started))
    }

    async fn start_thread(
        &self,
        server: &Server,
        deadline: Option<Duration>,
    ) -> Result<Value, Error> {
        let params = self.thread.start();
        let started = server.peer.call("thread/start", &params, deadline).await;
        started.map_err(|error| error.error("codex began no thread"))
    }

    /// Takes Codex's information about the thread, and the settings that a resumed thread must be
    /// sent again.
    fn learn(&mut self, started: &Value, session: &Session) {
        let text = |key: &str| started[key].as_str().map(str::to_owned);
        self.model = text("model").or(self.model.take());
        self.provider = text("modelProvider").or(self.provider.take());
        if is_unconfined(started) && !self.thread.policy.danger {
            let policy = Policy {
                sandbox: Some(Sandbox::WorkspaceWrite),
                ..self.thread.policy
            };
            self.thread.policy = policy;
            self.overrides.policy = Some(policy);
            tracing::warn!(session = %session.id(), "a thread without a sandbox is resumed with one");
        }
    }

    /// Returns the known options in force.
    pub(super) fn info(&self) -> SessionInfo {
        let policy = self.thread.policy;
        SessionInfo {
            model: self.model.clone(),
            reasoning_effort: self.thread.effort.clone(),
            mode: policy.mode().map(str::to_owned),
            permission_mode: policy.approval.map(|approval| approval.name().to_owned()),
            ..SessionInfo::default()
        }
    }

    /// Takes options for the next turn.
    pub(super) fn update(&mut self, update: SessionUpdate) -> Result<SessionInfo, Error> {
        let changed = Overrides::read(update, self.thread.policy, &self.settings)?;
        self.thread.policy = changed.policy.unwrap_or(self.thread.policy);
        if changed.model.is_some() {
            self.thread.model.clone_from(&changed.model);
            self.model.clone_from(&changed.model);
        }
        self.thread.effort = changed.effort.clone().or(self.thread.effort.take());
        let Overrides {
            model,
            effort,
            policy,
        } = std::mem::take(&mut self.overrides);
        self.overrides = Overrides {
            model: changed.model.or(model),
            effort: changed.effort.or(effort),
            policy: changed.policy.or(policy),
        };
        Ok(self.info())
    }

    /// Returns the text that Codex is sent for an input.
    pub(super) fn input(&mut self, content: &str, session: &Session) -> String {
        let warnings = &mut self.warnings;
        input_text(&self.skills, content, session, &self.options, warnings)
    }

    /// Tells what is amiss, once.
    pub(super) async fn warn(&mut self, turn: &trunkline_sdk::Turn) {
        for content in std::mem::take(&mut self.warnings) {
            turn.emit(meta_log(content)).await;
        }
    }

    /// Lets the app server forget the thread, which can be resumed later, unless another session works on it.
    pub(super) async fn close(mut self) {
        let Some(link) = self.link.take() else { return };
        let peer = &link.server.peer;
        let last = async {
            if let Some(turn) = self.unfinished.take() {
                let params = json!({ "threadId": link.thread, "turnId": turn });
                // It has ended by itself, or ends with the process.
                let _ = peer.call::<_, Value>("turn/interrupt", &params, None).await;
            }
            if link.inbox.is_taken() {
                return;
            }
            let params = json!({ "threadId": link.thread });
            // A version without it keeps the thread loaded, which is harmless.
            let _ = peer
                .call::<_, Value>("thread/unsubscribe", &params, None)
                .await;
        };
        let _ = tokio::time::timeout(CLOSE, last).await;
    }
}

/// Returns the last turn that the parameters of a resumed thread name.
pub(super) fn last_turn(options: &Options) -> Option<String> {
    let kept = options.resumed.as_ref()?;
    Some(kept.more.get(LAST_TURN)?.as_str()?.to_owned())
}

/// Returns true if the app server knows no such thread.
fn is_unknown(error: &CallError) -> bool {
    let CallError::Rpc(error) = error else {
        return false;
    };
    let text = error.message.to_ascii_lowercase();
    failure::is_unknown_session(&error.message)
        || [
            "no rollout found",
            "thread not found",
            "invalid session id",
            "invalid thread id",
        ]
        .iter()
        .any(|words| text.contains(words))
}

/// The `mcp_servers` tables for a thread, and what is wrong with those that are left out.
pub(super) fn mcp_servers(options: &Options) -> (Map<String, Value>, Vec<String>) {
    let (servers, mut warnings) = crate::agent::mcp::parse(options, McpVariables::Braced);
    let (tables, left_out) = crate::agent::mcp::codex_config(&servers);
    warnings.extend(left_out);
    (tables, warnings)
}
