//! Options of a session, over the profile's configuration.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;
use trunkline_redact::HeldSecrets;
use trunkline_sdk::protocol::{Resume, SystemPromptMode};
use trunkline_sdk::{
    Category, Error, Json, Session, SessionParams, SessionStart, TurnComplete, template,
};

use super::deadlines::Deadlines;
use super::failure;
use super::launch::Launch;
use super::settings::Common;
use super::system_prompt::LONGEST_ARGUMENT;
use super::tool_loop::ToolLoopAction;
use super::{model, secrets, variables};

/// A session's options: from `session.start`, otherwise the configuration's. An empty string is
/// none.
#[derive(Clone)]
pub(crate) struct Options {
    pub(crate) command: String,
    /// Arguments of the configuration, then of the session.
    pub(crate) args: Vec<String>,
    /// Working directory of the agent; `None` is this process's directory.
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) add_dirs: Vec<String>,
    /// Variables of the agent: the configuration's, the session's `variables` under their prefix, its `env`.
    pub(crate) env: BTreeMap<String, String>,
    pub(crate) model: Option<String>,
    pub(crate) reasoning_effort: Option<String>,
    pub(crate) system_prompt: Option<String>,
    /// In place of the agent's own instructions.
    pub(crate) replaces_system_prompt: bool,
    pub(crate) mode: Option<String>,
    pub(crate) permission_mode: Option<String>,
    pub(crate) allowed_tools: Option<Vec<String>>,
    pub(crate) denied_tools: Option<Vec<String>>,
    pub(crate) allowed_domains: Option<Vec<String>>,
    pub(crate) max_turns: Option<u64>,
    pub(crate) max_cost_usd: Option<f64>,
    pub(crate) temperature: Option<f64>,
    /// JSON Schema of the answers, at most [`LONGEST_ARGUMENT`] bytes.
    pub(crate) output_schema: Option<String>,
    /// MCP servers: the configuration's, then the session's.
    pub(crate) mcp_servers: Vec<Value>,
    /// Skills: the configuration's folders, then the session's.
    pub(crate) skills: Vec<Value>,
    pub(crate) prompt_template: String,
    pub(crate) variables: BTreeMap<String, String>,
    pub(crate) tool_loop: ToolLoopAction,
    pub(crate) deadlines: Deadlines,
    pub(crate) resume: Option<Resume>,
    /// Parameters with which the conversation was resumed.
    pub(crate) resumed: Option<SessionParams>,
    /// Secrets in the options.
    _secrets: Arc<HeldSecrets>,
}

/// A text that is asked for; an empty one is none.
pub(crate) fn filled(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty())
}

/// Checks the JSON Schema of a session's answers, which an agent may receive as an argument.
///
/// # Errors
/// The schema is no object, or too long.
fn check_schema(schema: &Json) -> Result<(), Error> {
    if !schema.get().starts_with('{') {
        return Err(Error::refused("`output_schema` must be an object"));
    }
    if schema.get().len() > LONGEST_ARGUMENT {
        return Err(Error::refused(format!(
            "`output_schema` has {} bytes; at most {LONGEST_ARGUMENT} are accepted",
            schema.get().len()
        )));
    }
    Ok(())
}

impl Options {
    /// Reads what a session asks for, and reports a wish that the agent cannot be given and that
    /// restricts nothing.
    ///
    /// # Errors
    /// As of [`Options::new`].
    pub(crate) async fn read(
        session: &Session,
        common: &Common,
        start: SessionStart,
    ) -> Result<Self, Error> {
        if start.temperature.is_some() && !common.takes_temperature {
            let text = format!(
                "`temperature` is not applied: {} takes none",
                common.command
            );
            session.emit(failure::warning(Category::Other, text)).await;
        }
        Self::new(common, start)
    }

    /// Creates the options of a session; their secrets are hidden in all output from now on, while
    /// these options are in use.
    ///
    /// # Errors
    /// They hold more secrets than can be hidden, or an `output_schema` that no agent accepts.
    pub(crate) fn new(common: &Common, start: SessionStart) -> Result<Self, Error> {
        let secrets = secrets::hold(&start)?;
        start.output_schema.as_ref().map_or(Ok(()), check_schema)?;
        Ok(Self {
            _secrets: secrets,
            ..Self::merged(common, start)
        })
    }

    /// Creates the options of the configuration.
    pub(crate) fn configured(common: &Common) -> Self {
        Self::merged(common, SessionStart::default())
    }

    fn merged(common: &Common, start: SessionStart) -> Self {
        let asked = |asked: Option<String>, configured: &str| {
            filled(asked).or_else(|| filled(Some(configured.to_owned())))
        };
        let mut env = common.env.clone();
        let is_configured = |name: &str| common.env.contains_key(name);
        env.extend(variables::environment(
            &common.variables_prefix,
            &start,
            is_configured,
        ));
        let variables = template::variables(&start);
        env.extend(start.env.unwrap_or_default());
        let model = asked(start.model, &common.model)
            .map(|name| model::resolve(&name, &common.model_aliases));
        let session = |json: Option<Json>| json.and_then(|json| json.to::<Value>().ok());
        Self {
            command: common.command.clone(),
            args: common
                .args
                .iter()
                .cloned()
                .chain(start.extra_args.unwrap_or_default())
                .collect(),
            cwd: asked(start.cwd, &common.work_dir).map(PathBuf::from),
            add_dirs: start.add_dirs.unwrap_or_default(),
            env,
            model,
            reasoning_effort: asked(start.reasoning_effort, ""),
            system_prompt: asked(start.system_prompt, &common.system_prompt),
            replaces_system_prompt: start.system_prompt_mode == Some(SystemPromptMode::Replace),
            mode: asked(start.mode, ""),
            permission_mode: asked(start.permission_mode, ""),
            allowed_tools: start.allowed_tools,
            denied_tools: start.denied_tools,
            allowed_domains: start.allowed_domains,
            max_turns: start.max_turns,
            max_cost_usd: start.max_cost_usd,
            temperature: start.temperature,
            output_schema: start.output_schema.map(|schema| schema.get().to_owned()),
            mcp_servers: common
                .mcp_servers
                .clone()
                .into_iter()
                .chain(session(start.mcp_servers))
                .collect(),
            skills: common
                .skills
                .iter()
                .map(|path| Value::from(path.as_str()))
                .chain(session(start.skills))
                .collect(),
            prompt_template: common.prompt_template.clone(),
            variables,
            tool_loop: common.tool_loop,
            deadlines: common.deadlines,
            resume: start.resume,
            resumed: None,
            _secrets: Arc::default(),
        }
    }

    /// The conversation that is resumed, as the agent calls it.
    pub(crate) fn resumed_id(&self) -> Option<String> {
        self.resume.as_ref()?.native_session_id.clone()
    }

    /// Returns the agent's working directory: an absolute path.
    pub(crate) fn work_dir(&self) -> Option<PathBuf> {
        match &self.cwd {
            Some(cwd) => std::path::absolute(cwd).ok(),
            None => std::env::current_dir().ok(),
        }
    }

    /// Names the conversation in the end of a turn, so that it can be resumed.
    pub(crate) fn name_session(&self, end: &mut TurnComplete, native: Option<&str>) {
        end.native_session_id = native.map(str::to_owned);
        end.session_params = native.and_then(|id| self.session_params(id).to_json());
    }

    /// Returns the parameters to resume the conversation of this native id: its id, its working
    /// directory, and other stored values.
    pub(crate) fn session_params(&self, native: &str) -> SessionParams {
        let cwd = self
            .work_dir()
            .and_then(|cwd| cwd.into_os_string().into_string().ok());
        let kept = self
            .resumed
            .as_ref()
            .filter(|kept| kept.native_session_id == native);
        let kept = kept.cloned().unwrap_or_else(|| SessionParams::new(native));
        SessionParams { cwd, ..kept }
    }

    /// Returns the text that the agent is sent for an input, without its files.
    pub(crate) fn words(&self, input: &str, session: &Session) -> String {
        let template = match self.prompt_template.as_str() {
            "default" => template::DEFAULT,
            own => own,
        };
        template::fill(template, input, session.id().as_str(), &self.variables)
    }

    /// Returns the start of the agent: its program, the arguments of configuration and session, its
    /// directory and environment. The profile adds its own arguments.
    pub(crate) fn launch(&self) -> Launch {
        Launch::new(&self.command)
            .args(&self.args)
            .envs(&self.env)
            .cwd(self.cwd.clone())
    }
}
