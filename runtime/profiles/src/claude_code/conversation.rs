//! A session: its options, the process that serves it, and what is kept between processes.

mod serve;

use std::sync::Arc;

use serde_json::{Value, json};
use trunkline_sdk::{
    Category, Error, Input, Session, SessionInfo, SessionUpdate, Turn, TurnComplete,
};
use uuid::Uuid;

use super::allow_list::AllowList;
use super::command_line::{self, Mode, ResumePoint};
use super::config::ClaudeCode;
use super::given::SessionFiles;
use super::native::text;
use super::process::{IdleProcess, RunningProcess, spawn_idle};
use super::turn::Memory;
use super::usage::Total;
use crate::agent::failure;
use crate::agent::options::{Options, filled};
use crate::agent::report::TurnReport;
use crate::agent::resume;
use crate::agent::version::{self, Version};

/// The member of `session_params` with the cost of the conversation so far, in US dollars: claude
/// reports totals.
const COST: &str = "cost_usd";

/// Member of the parameters: the last message of Claude's, by its id in the transcript.
const LAST_MESSAGE: &str = "last_message";

/// A session.
pub(crate) struct ClaudeConversation {
    session: Session,
    settings: Arc<ClaudeCode>,
    options: Options,
    given: SessionFiles,
    memory: Memory,
    version: Option<Version>,
    report: TurnReport,
    idle: Option<IdleProcess>,
}

impl ClaudeConversation {
    /// Opens a session. Its process is started by the first turn.
    pub(super) async fn open(
        session: &Session,
        settings: Arc<ClaudeCode>,
        mut options: Options,
    ) -> Result<Self, Error> {
        let is_id = |id: &str| Uuid::try_parse(id).is_ok();
        let resumed = resume::settle(session, &mut options, is_id).await;
        let last_message = resumed
            .as_ref()
            .and_then(|resumed| resumed.more.get(LAST_MESSAGE)?.as_str())
            .filter(|id| is_id(id))
            .map(str::to_owned);
        let copies = resume::settle_copy(session, &mut options, last_message.is_some()).await;
        let resumed = resumed.filter(|_| options.resume.is_some());
        let mut warnings = Vec::new();
        let has_begun = resumed.is_some();
        let cost = resumed.as_ref().map_or(Total::NEW, |resumed| {
            let cost = resumed
                .more
                .get(COST)
                .and_then(Value::as_f64)
                .filter(|cost| *cost >= 0.0);
            cost.map_or(Total::UNKNOWN, |cost| Total(Some(cost)))
        });
        let native = resumed.map_or_else(
            || Uuid::new_v4().to_string(),
            |resumed| resumed.native_session_id,
        );
        let given = SessionFiles::new(&settings, &options, session.id().as_str(), &mut warnings)?;
        AllowList::new(&options)?;
        // What is wrong with the options is reported before anything is asked of the session.
        command_line::launch(
            &settings,
            &options,
            None,
            ResumePoint::New(""),
            &given.files(),
            |_| false,
        )?;
        let conversation = Self {
            session: session.clone(),
            report: TurnReport::of_session(&options, has_begun),
            settings,
            options,
            given,
            memory: Memory {
                has_begun,
                resumes: has_begun,
                copies,
                last_message,
                cost,
                ..Memory::new(native)
            },
            version: None,
            idle: None,
        };
        // The mode and the model are known now only if they are configured or asked for.
        let in_force = conversation.in_force();
        session.info(SessionInfo {
            model: in_force.model,
            mode: in_force.mode,
            permission_mode: in_force.permission_mode,
            ..conversation.memory.info()
        });
        if conversation.settings.is_dangerous() {
            warnings.push(
                "claude runs every tool without asking: `dangerous` is configured".to_owned(),
            );
        }
        for message in warnings {
            conversation.warn(message).await;
        }
        Ok(conversation)
    }

    /// Serves a turn.
    pub(super) async fn turn(&mut self, turn: Turn, input: Input) {
        let (end, process) = self.serve(&turn, input).await;
        let end = self.completed(end);
        self.report
            .finish(turn, end, self.options.model.as_deref())
            .await;
        self.idle = process.map(|process| spawn_idle(process, self.session.clone()));
    }

    /// Adds the common members to a turn's end.
    fn completed(&mut self, end: TurnComplete) -> TurnComplete {
        let mut params = self.options.session_params(&self.memory.native);
        params.more.remove(COST);
        params.more.remove(LAST_MESSAGE);
        params.more.extend(
            self.memory
                .cost
                .0
                .map(|cost| (COST.to_owned(), cost.into())),
        );
        let last_message = self.memory.last_message.clone();
        params
            .more
            .extend(last_message.map(|id| (LAST_MESSAGE.to_owned(), id.into())));
        let own_id = self.memory.own_id();
        TurnComplete {
            provider: None,
            native_session_id: own_id.map(str::to_owned),
            session_params: own_id.and_then(|_| params.to_json()),
            ..end
        }
    }

    /// Changes options between turns. What a running process cannot change takes effect with the
    /// next one. Gives all options in force, changed or not.
    pub(super) async fn update(&mut self, update: SessionUpdate) -> Result<SessionInfo, Error> {
        let mut process = match self.idle.take() {
            Some(mut idle) => idle.end().await.flatten(),
            None => None,
        };
        if let Some(process) = &process {
            self.memory.heard(&process.talk.translator);
        }
        let updated = self.update_with(&mut process, update).await;
        self.idle = process.map(|process| spawn_idle(process, self.session.clone()));
        updated.map(|()| self.in_force())
    }

    /// The options in force, as far as they are known.
    fn in_force(&self) -> SessionInfo {
        let mode = self.memory.mode.clone().or_else(|| {
            match command_line::permission_mode(&self.settings, &self.options) {
                Ok(Mode::Of(mode)) => mode.map(str::to_owned),
                Ok(Mode::Dangerous) => Some("bypassPermissions".to_owned()),
                Err(_) => None,
            }
        });
        SessionInfo {
            model: self
                .memory
                .model
                .clone()
                .or_else(|| self.options.model.clone()),
            permission_mode: mode.clone(),
            mode,
            reasoning_effort: command_line::effort(&self.settings, &self.options)
                .map(str::to_owned),
            allowed_tools: self.options.allowed_tools.clone(),
            denied_tools: self.options.denied_tools.clone(),
            ..SessionInfo::default()
        }
    }

    async fn update_with(
        &mut self,
        process: &mut Option<RunningProcess>,
        update: SessionUpdate,
    ) -> Result<(), Error> {
        if let Some(model) = filled(update.model) {
            let model = crate::agent::model::resolve(&model, &self.settings.model_aliases);
            if let Some(process) = process.as_mut() {
                let request = json!({"subtype": "set_model", "model": model});
                let answer = process.ask(&request, &self.session).await;
                let answer = answer
                    .map_err(|why| Error::other(format!("the model stays as it is: {why}")))?;
                process.talk.translator.model = text(&answer, "model").map(str::to_owned);
                process.talk.translator.told.model = Some(model.clone());
            }
            self.memory.model = Some(model.clone());
            self.options.model = Some(model);
        }
        if let Some(mode) = filled(update.permission_mode).or_else(|| filled(update.mode)) {
            let known = command_line::known_mode(&mode, &self.settings)?;
            if let Some(process) = process.as_mut() {
                let request = json!({"subtype": "set_permission_mode", "mode": known});
                let answer = process.ask(&request, &self.session).await;
                answer.map_err(|why| {
                    Error::other(format!("the permission mode stays as it is: {why}"))
                })?;
                let told = &mut process.talk.translator.told;
                (told.permission_mode, told.mode) =
                    (Some(known.to_owned()), Some(known.to_owned()));
            }
            self.options.permission_mode = Some(known.to_owned());
            self.memory.mode = Some(known.to_owned());
        }
        let mut restarts = false;
        if let Some(effort) = filled(update.reasoning_effort) {
            restarts |= self.options.reasoning_effort.as_ref() != Some(&effort);
            self.options.reasoning_effort = Some(effort);
        }
        if let Some(tools) = update.allowed_tools {
            let before = self.options.allowed_tools.replace(tools);
            if let Err(error) = AllowList::new(&self.options) {
                self.options.allowed_tools = before;
                return Err(error);
            }
            restarts |= self.options.allowed_tools != before;
        }
        if let Some(tools) = update.denied_tools {
            restarts |= self.options.denied_tools.as_ref() != Some(&tools);
            self.options.denied_tools = Some(tools);
        }
        if restarts && let Some(process) = process.take() {
            process.end().await;
        }
        Ok(())
    }

    /// Ends the process.
    pub(super) async fn close(self) {
        if let Some(mut idle) = self.idle
            && let Some(process) = idle.end().await.flatten()
        {
            process.end().await;
        }
    }

    /// Starts a process that resumes the conversation, or begins it.
    async fn start(&mut self) -> Result<RunningProcess, Error> {
        let known = version::probe(&self.options.launch()).await;
        self.version = match known {
            Ok(version) => Some(version),
            Err(error) if error.failure().category == Some(Category::NotInstalled) => {
                return Err(error);
            }
            Err(error) => {
                tracing::debug!(%error, "claude reports no version: treated as the newest");
                None
            }
        };
        if self.memory.copies && !command_line::forks(self.version) {
            self.forget("this version of claude copies no conversation")
                .await;
        }
        let Memory {
            native,
            has_begun,
            copies,
            last_message,
            ..
        } = &self.memory;
        let begin = if *copies {
            ResumePoint::Fork(native, last_message.as_deref())
        } else if *has_begun {
            ResumePoint::Resume(native)
        } else {
            ResumePoint::New(native)
        };
        let is_set = |name: &str| std::env::var_os(name).is_some();
        let files = self.given.files();
        let launch = command_line::launch(
            &self.settings,
            &self.options,
            self.version,
            begin,
            &files,
            is_set,
        )?;
        let allow_list = AllowList::new(&self.options)?;
        RunningProcess::start(&launch, self.report.log(), allow_list).await
    }

    /// Begins a new conversation because the one to resume does not exist, and reports that.
    async fn forget(&mut self, why: &str) {
        let model = self.memory.model.take();
        let mode = self.memory.mode.take();
        self.memory = Memory {
            model,
            mode,
            ..Memory::new(Uuid::new_v4().to_string())
        };
        resume::lost(&self.session, why).await;
        self.session.info(self.memory.info());
    }

    async fn warn(&self, message: String) {
        self.session
            .emit(failure::warning(Category::Other, message))
            .await;
    }
}

#[cfg(test)]
mod tests;
