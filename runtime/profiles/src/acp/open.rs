//! Opening a session with an agent: anew, or one that there was.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::{Instant, timeout, timeout_at};
use trunkline_sdk::protocol::{AdapterBody, Context};
use trunkline_sdk::{Category, Error, Session, SessionInfo};

use super::Acp;
use super::agent::Prepared;
use super::choose::{choose_effort, choose_mode, choose_model, choose_option, not_applied};
use super::files::Directories;
use super::initialize::InitializeResponse;
use super::process::{AgentLink, UPDATE, failure};
use super::read::text;
use super::request;
use super::session::AcpSession;
use super::translate::{EventTime, UpdateEvent, UpdateReader};
use crate::agent::log::SessionLog;
use crate::agent::mcp;
use crate::agent::options::Options;
use crate::agent::resume;
use crate::agent::rpc::{CallError, INTERNAL_ERROR, Inbox, InboxArrival, InboxMessage};
use crate::agent::skills::Roster;

/// Silence of an agent after which its replay counts as complete: for agents that answer first, and
/// for others.
const QUIET: Duration = Duration::from_millis(400);
const QUIET_AT_ONCE: Duration = Duration::from_millis(20);

/// The longest that such repetition is waited for.
const REPETITION: Duration = Duration::from_secs(20);

/// An open session.
pub(crate) struct OpenedSession {
    pub(crate) acp_session: Arc<AcpSession>,
    pub(crate) reader: UpdateReader,
    /// Instructions that go before the first prompt.
    pub(crate) preface: Option<String>,
    /// Skills that inputs may call.
    pub(crate) skills: Roster,
}

/// Parameters of a session's opening.
pub(crate) struct Opening {
    pub(crate) acp: Acp,
    pub(crate) session: Session,
    pub(crate) options: Options,
    pub(crate) log: Arc<SessionLog>,
    /// The agent's own id of the session that there was.
    pub(crate) native: Option<String>,
    /// Values of the agent's own options, by their ids.
    pub(crate) own_options: BTreeMap<String, Value>,
    /// True if the replay is reported.
    pub(crate) history: bool,
    /// True if the host gets a notice that the session keeps its context.
    pub(crate) resumed: bool,
}

/// Reason why a session was not resumed.
enum NotResumed {
    /// The agent does not know it, or cannot resume.
    Unknown(String),
    Failed(Error),
}

impl Opening {
    /// Opens the session.
    ///
    /// # Errors
    /// Why the agent did not start or did not take it.
    pub(crate) async fn open(mut self) -> Result<OpenedSession, Error> {
        let Prepared {
            launch,
            preface,
            kept,
            mut warnings,
            has_servers,
            skills,
        } = self.acp.prepare(&self.options).await?;
        // A list of skills without instructions replaces nothing.
        self.options.replaces_system_prompt &= self.options.system_prompt.is_some();
        self.options.system_prompt =
            skills.after(self.options.system_prompt.as_deref(), &mut warnings);
        let mut preface = skills.after(preface.as_deref(), &mut Vec::new());
        for warning in warnings {
            self.warn(Category::Other, warning).await;
        }
        if has_servers {
            self.options.mcp_servers.clear();
        }
        let link = self.acp.link(&launch, Some(&self.log)).await?;
        let mut inbox = Arc::new(Inbox::default());
        let mut reader = UpdateReader::new(link.initialized.quirks).with_skills(skills.commands());
        if preface.is_some()
            && (link.initialized.appends_by_meta() || link.initialized.takes_system_prompt)
        {
            preface = None;
        }
        let (id, answer, is_fresh) = match &self.native {
            Some(native) => match self.resume(&link, native, &inbox, &mut reader).await {
                Ok(answer) => {
                    if self.resumed {
                        self.tell(SessionInfo {
                            context: Some(Context::Kept),
                            ..SessionInfo::default()
                        });
                    }
                    (native.clone(), answer, false)
                }
                Err(NotResumed::Failed(error)) => return Err(error),
                Err(NotResumed::Unknown(why)) => {
                    // What is sent of the other is not this session's.
                    inbox = Arc::new(Inbox::default());
                    reader =
                        UpdateReader::new(link.initialized.quirks).with_skills(skills.commands());
                    resume::lost(
                        &self.session,
                        format!("session {native} cannot be resumed ({why})"),
                    )
                    .await;
                    let (id, answer) = self.new_session(&link, &inbox).await?;
                    (id, answer, true)
                }
            },
            None => {
                let (id, answer) = self.new_session(&link, &inbox).await?;
                (id, answer, true)
            }
        };
        if is_fresh {
            reader.totals.fresh();
        } else {
            // The agent has them from before.
            preface = None;
        }
        reader.choices.read(&answer);
        let directories = Directories::new(directories(&self.options));
        let acp_session = AcpSession::new(
            link,
            id.clone(),
            inbox,
            directories,
            launch,
            self.acp.agent().permissions(),
            kept,
        );
        let acp_session = Arc::new(acp_session);
        self.choose(&acp_session, &mut reader).await?;
        let native_session_id = Some(id);
        let commands = skills.commands().map(|_| reader.commands());
        self.tell(SessionInfo {
            native_session_id,
            commands,
            ..reader.choices.info()
        });
        Ok(OpenedSession {
            acp_session,
            reader,
            preface,
            skills,
        })
    }

    fn tell(&self, info: SessionInfo) {
        self.session.info(info);
    }

    async fn warn(&self, category: Category, message: String) {
        self.session
            .emit(crate::agent::failure::warning(category, message))
            .await;
    }

    /// The MCP servers that the agent reaches; what is wrong with the others is reported.
    async fn servers(&self, initialized: &InitializeResponse) -> Vec<Value> {
        let (servers, warnings) = mcp::parse(&self.options, self.acp.agent().file().mcp_variables);
        for warning in warnings {
            self.warn(Category::Other, warning).await;
        }
        let (written, warnings) = mcp::acp_servers(&servers, initialized.mcp);
        for warning in warnings {
            self.warn(
                Category::Other,
                format!("{warning}; the session continues without it"),
            )
            .await;
        }
        written
    }

    /// Returns the request that opens a session, of either kind, with members that only some agents
    /// accept.
    fn extended(&self, initialized: &InitializeResponse, mut request: Value) -> Value {
        if initialized.adds_directories && !self.options.add_dirs.is_empty() {
            request["additionalDirectories"] = json!(self.options.add_dirs);
        }
        if let Some(prompt) = &self.options.system_prompt {
            let replaces = self.options.replaces_system_prompt;
            if initialized.appends_by_meta() {
                let prompt = if replaces {
                    json!(prompt)
                } else {
                    json!({ "append": prompt })
                };
                request["_meta"] = json!({ "systemPrompt": prompt });
            } else if initialized.takes_system_prompt {
                let mode = if replaces { "override" } else { "append" };
                request["systemPrompt"] =
                    json!({ "mode": mode, "content": [{ "type": "text", "text": prompt }] });
            }
        }
        request
    }

    async fn new_session(
        &self,
        link: &Arc<AgentLink>,
        inbox: &Arc<Inbox>,
    ) -> Result<(String, Value), Error> {
        let _early = link.peer.routes.opening();
        let servers = self.servers(&link.initialized).await;
        let request = self.extended(
            &link.initialized,
            request::new_session(&cwd(&self.options), &servers),
        );
        let what = format!("{} did not open a session", link.initialized.called());
        let mut answer = self.call(link, "session/new", &request).await;
        if let Err(CallError::Rpc(error)) = &answer
            && error.code == -32000
            && self.authenticate(link).await?
        {
            answer = self.call(link, "session/new", &request).await;
        }
        let answer = answer.map_err(|error| self.failure(&error, &what, &link.initialized))?;
        match text(&answer, "sessionId") {
            Some(id) => {
                if let Some(other) = link.peer.routes.register(id, inbox) {
                    other.hand_over();
                }
                Ok((id.to_owned(), answer))
            }
            None => Err(Error::new(
                Category::Protocol,
                format!("{what}: its answer has no `sessionId`"),
            )),
        }
    }

    /// Logs in by the method that the configuration names, or else by one that takes its key from a
    /// variable which is set. Whether it did.
    async fn authenticate(&self, link: &AgentLink) -> Result<bool, Error> {
        let is_set = |name: &str| {
            let given = self
                .options
                .env
                .get(name)
                .is_some_and(|value| !value.is_empty());
            given || std::env::var_os(name).is_some_and(|value| !value.is_empty())
        };
        let login = match self.acp.agent().text("auth_method") {
            "" => link.initialized.login_by_variables(is_set),
            named => Some(link.initialized.login(named)?),
        };
        let Some(login) = login else {
            return Ok(false);
        };
        let request = request::authenticate(&login.id);
        let answer = link
            .peer
            .call::<_, Value>("authenticate", &request, self.deadline())
            .await;
        let what = format!(
            "{} did not log in by {:?}",
            link.initialized.called(),
            login.id
        );
        answer
            .map(|_| true)
            .map_err(|error| self.failure(&error, &what, &link.initialized))
    }

    /// Goes on with a session that there was.
    async fn resume(
        &self,
        link: &Arc<AgentLink>,
        native: &str,
        inbox: &Arc<Inbox>,
        reader: &mut UpdateReader,
    ) -> Result<Value, NotResumed> {
        let initialized = &link.initialized;
        let method = if initialized.loads {
            "session/load"
        } else if initialized.resumes {
            "session/resume"
        } else {
            return Err(NotResumed::Unknown(format!(
                "{} cannot resume sessions",
                initialized.called()
            )));
        };
        let servers = self.servers(initialized).await;
        let request = self.extended(
            initialized,
            request::earlier_session(native, &cwd(&self.options), &servers),
        );
        while let Some(wait) = self.acp.agent().wait_to_resume(&self.options, native) {
            tokio::time::sleep(wait).await;
        }
        let other = link.peer.routes.register(native, inbox);
        let what = format!("{} did not resume session {native}", initialized.called());
        let mut authenticated = false;
        let answer = loop {
            let call = self.call(link, method, &request);
            tokio::pin!(call);
            let answer = loop {
                tokio::select! {
                    biased;
                    arrival = inbox.next() => self.repeated(arrival, link, reader).await,
                    answer = &mut call => break answer,
                }
            };
            match answer {
                Err(CallError::Rpc(error)) if error.code == -32000 && !authenticated => {
                    authenticated = true;
                    if self.authenticate(link).await.map_err(NotResumed::Failed)? {
                        continue;
                    }
                    break Err(CallError::Rpc(error));
                }
                answer => break answer,
            }
        };
        if let Some(other) = other {
            match answer {
                // Its turn ends, and before one of this session begins.
                Ok(_) => {
                    other.hand_over();
                    link.cancel(native).await;
                }
                Err(_) => drop(link.peer.routes.register(native, &other)),
            }
        }
        let answer = answer.map_err(|error| match &error {
            CallError::Rpc(rpc) if rpc.code != -32000 => {
                let details = rpc.data.as_ref().and_then(|data| text(data, "details"));
                let why = details.map_or_else(
                    || error.to_string(),
                    |details| format!("{}: {details}", rpc.message),
                );
                NotResumed::Unknown(crate::agent::failure::message(&why))
            }
            _ => NotResumed::Failed(self.failure(&error, &what, initialized)),
        })?;
        let quiet = if initialized.quirks.repeats_late {
            QUIET
        } else {
            QUIET_AT_ONCE
        };
        let until = Instant::now() + REPETITION;
        while let Ok(Ok(arrival)) = timeout_at(until, timeout(quiet, inbox.next())).await {
            self.repeated(arrival, link, reader).await;
        }
        Ok(answer)
    }

    /// Reports an agent's replay as history if it was requested; otherwise discards it.
    async fn repeated(&self, arrival: InboxArrival, link: &AgentLink, reader: &mut UpdateReader) {
        let params = match arrival {
            InboxArrival::Mail(InboxMessage::Notification { method, params })
                if method == UPDATE =>
            {
                params
            }
            InboxArrival::Mail(InboxMessage::Request { id, .. }) => {
                let early = "the session is being resumed";
                return link.peer.refuse(&id, INTERNAL_ERROR, early);
            }
            InboxArrival::Lost(lost) => {
                return tracing::debug!(lost, "updates of a resumed session");
            }
            // Its first turn finds out that another session has taken it.
            InboxArrival::Mail(_) | InboxArrival::Taken => return,
        };
        let Ok(params) = serde_json::from_str::<Value>(params.get()) else {
            return;
        };
        let mut told = Vec::new();
        reader.update(&params["update"], EventTime::Before, &|_| None, &mut told);
        for told in told {
            match told {
                UpdateEvent::Info(info) => self.tell(*info),
                UpdateEvent::Text(output) if self.history => {
                    self.session.emit(AdapterBody::from(output)).await
                }
                UpdateEvent::Event(event) if self.history => self.session.emit(event).await,
                UpdateEvent::Text(_)
                | UpdateEvent::File(..)
                | UpdateEvent::Event(_)
                | UpdateEvent::SystemError
                | UpdateEvent::BrokeOff(_) => {}
            }
        }
    }

    /// Sets the mode, the model, the effort and the options that the session asks for.
    async fn choose(
        &self,
        acp_session: &AcpSession,
        reader: &mut UpdateReader,
    ) -> Result<(), Error> {
        let asked = self
            .options
            .mode
            .as_deref()
            .or(self.options.permission_mode.as_deref());
        let mode = asked.unwrap_or(self.acp.agent().start_mode());
        if !mode.is_empty() {
            choose_mode(
                &self.acp,
                acp_session,
                reader,
                self.acp.agent().mode_name(mode),
            )
            .await?;
        }
        if let Some(model) = &self.options.model
            && !self.acp.agent().starts_with_model()
            && let Err(error) = choose_model(&self.acp, acp_session, reader, model).await
        {
            self.warn(
                Category::ModelNotFound,
                format!("{error}; the agent's own model is used"),
            )
            .await;
        }
        // An effort restricts nothing: a session that cannot have it is opened all the same.
        if let Some(effort) = &self.options.reasoning_effort
            && let Err(why) = choose_effort(&self.acp, acp_session, reader, effort).await
        {
            let text = format!("`reasoning_effort` {effort:?} is not applied: {why}");
            self.warn(Category::Other, text).await;
        }
        for (id, value) in &self.own_options {
            if let Err(why) = choose_option(&self.acp, acp_session, reader, id, value).await {
                self.session.emit(not_applied(id, &why)).await;
            }
        }
        Ok(())
    }

    async fn call(
        &self,
        link: &AgentLink,
        method: &str,
        request: &Value,
    ) -> Result<Value, CallError> {
        let answer = link.peer.call(method, request, self.deadline()).await;
        if matches!(answer, Err(CallError::Late { .. })) {
            link.retire_if_mute().await;
        }
        answer
    }

    fn deadline(&self) -> Option<Duration> {
        self.options.deadlines.start
    }

    fn failure(&self, error: &CallError, what: &str, initialized: &InitializeResponse) -> Error {
        failure(error, what, initialized, self.acp.login_hint().as_deref())
    }
}

/// The agent's working directory. ACP takes absolute paths only.
pub(crate) fn cwd(options: &Options) -> PathBuf {
    options.work_dir().unwrap_or_else(|| PathBuf::from("/"))
}

/// The directories that the session may touch.
fn directories(options: &Options) -> Vec<PathBuf> {
    let more = options.add_dirs.iter().map(PathBuf::from);
    std::iter::once(cwd(options)).chain(more).collect()
}

impl InitializeResponse {
    /// Returns true if it takes instructions in `_meta.systemPrompt`.
    pub(crate) fn appends_by_meta(&self) -> bool {
        self.quirks.appends_system_prompt
    }
}
