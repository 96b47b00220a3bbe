//! An agent that speaks ACP, by its file and its configuration: how it is started for a session.

use std::borrow::Cow;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use trunkline_sdk::Error;

use super::session::Permissions;
use super::shared::SharedResources;
use crate::agent::launch::Launch;
use crate::agent::mcp;
use crate::agent::options::Options;
use crate::agent::permission_rules::Unallowed;
use crate::agent::settings::Common;
use crate::agent::skills::{self, Roster};
use crate::agent::version::{FirstVersions, Version};
use crate::agent::{model, opencode_config, variables};
use crate::agents::{
    AcpSide, AgentFile, ConfigurationWay, McpServersWay, MinuteFiles, SkillsWay, SystemPromptWay,
};

/// Limit for the number of projects of the agent's own that are looked through.
const MAX_PROJECTS: usize = 4096;

/// A session's agent: how it is started, and what it is given besides the protocol.
pub(crate) struct Prepared {
    pub(crate) launch: Launch,
    /// Instructions that go before the first prompt, for want of a better channel.
    pub(crate) preface: Option<String>,
    /// Files that the agent reads; removed when the session's last use of them ends.
    pub(crate) kept: Vec<Box<dyn std::any::Any + Send + Sync>>,
    /// Requests that could not be met.
    pub(crate) warnings: Vec<String>,
    /// True if the launch includes the session's MCP servers: they are not named in the protocol
    /// then.
    pub(crate) has_servers: bool,
    /// Skills that are put into the inputs which call them, for want of a channel of the agent's own.
    pub(crate) skills: Roster,
}

impl Prepared {
    /// An agent whose instructions go before the first prompt.
    pub(crate) fn new(launch: Launch, options: &Options) -> Self {
        Self {
            launch,
            preface: options.system_prompt.clone(),
            kept: Vec::new(),
            warnings: Vec::new(),
            has_servers: false,
            skills: Roster::default(),
        }
    }

    fn set(&mut self, variable: &str, value: impl Into<OsString>) {
        self.launch = self.launch.clone().env(variable, value);
    }

    /// Links the session's skills into a folder of the agent's own, beneath its home.
    pub(crate) fn install_skills(&mut self, options: &Options, folder: Option<&Path>) {
        let (skills, warnings) = skills::parse(&options.skills);
        self.warnings.extend(warnings);
        if skills.is_empty() {
            return;
        }
        let Some(folder) = folder else {
            return self
                .warnings
                .push("skills are left out: the agent's home is not known".to_owned());
        };
        match skills::install(&skills, folder) {
            Ok(installed) => {
                for name in installed.skipped() {
                    self.warnings.push(format!(
                        "skill {name}: the agent has another one of that name"
                    ));
                }
                self.kept.push(Box::new(installed));
            }
            Err(error) => self.warnings.push(format!(
                "skills are left out: {}: {error}",
                folder.display()
            )),
        }
    }
}

/// Transport to such an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Transport {
    /// Over the Agent Client Protocol; over JSON lines where the installed version lacks it.
    #[default]
    Acp,
    /// One process per turn, which writes JSON lines.
    Json,
}

/// An agent that speaks ACP: its file, and its configuration.
#[derive(Clone)]
pub(crate) struct AcpAgent {
    profile: &'static str,
    file: &'static AgentFile,
    side: &'static AcpSide,
    common: Common,
    /// Options of the configuration, by key.
    configured: Map<String, Value>,
}

impl AcpAgent {
    /// Makes the agent of a file by a configuration, of which `common` is shared by all agents.
    /// `profile` is its name in lists.
    ///
    /// # Panics
    /// If the file has no `acp`: files of built-in agents are checked by tests, and an operator's
    /// when it is read.
    pub(crate) fn new(
        profile: &'static str,
        file: &'static AgentFile,
        common: Common,
        configuration: &impl Serialize,
    ) -> Self {
        #[expect(clippy::expect_used, reason = "checked when the file was read")]
        let side = file.acp.as_ref().expect("the file has `acp`");
        let configured = match serde_json::to_value(configuration) {
            Ok(Value::Object(configured)) => configured,
            _ => Map::new(),
        };
        let command = Some(common.command).filter(|command| !command.is_empty());
        let command = command.unwrap_or_else(|| file.program.clone());
        let takes_temperature = side.configuration.is_some();
        Self {
            profile,
            file,
            side,
            common: Common {
                command,
                takes_temperature,
                ..common
            },
            configured,
        }
    }

    /// Name of the profile.
    pub(crate) fn profile(&self) -> &'static str {
        self.profile
    }

    pub(crate) fn file(&self) -> &'static AgentFile {
        self.file
    }

    pub(crate) fn side(&self) -> &'static AcpSide {
        self.side
    }

    /// The part of the configuration that all agents share.
    pub(crate) fn common(&self) -> &Common {
        &self.common
    }

    /// First versions that have an option.
    pub(crate) fn since(&self) -> FirstVersions<'static> {
        self.file.since()
    }

    /// The first version that speaks ACP, if not all do.
    pub(crate) fn first_version(&self) -> Option<Version> {
        self.since().first_version(self.side.first.as_deref()?)
    }

    fn option<'c, T: Deserialize<'c>>(&'c self, key: &str) -> Option<T> {
        T::deserialize(self.configured.get(key)?).ok()
    }

    /// The text of an option of the configuration; empty if there is none.
    pub(crate) fn text(&self, key: &str) -> &str {
        self.option(key).unwrap_or_default()
    }

    /// The transport that is configured.
    pub(crate) fn transport(&self) -> Transport {
        self.option("transport").unwrap_or_default()
    }

    /// Returns the authority for permissions.
    pub(crate) fn permissions(&self) -> Permissions {
        self.option("permission").unwrap_or_default()
    }

    /// Returns true if the configuration lets the agent run tools unasked.
    pub(crate) fn is_dangerous(&self) -> bool {
        self.option("dangerous").unwrap_or_default()
    }

    /// Returns true if the agent may read and write files through the host.
    pub(crate) fn offers_files(&self) -> bool {
        self.option("client_files").unwrap_or_default()
    }

    /// Returns true if the model is given by the command line rather than within the protocol.
    pub(crate) fn starts_with_model(&self) -> bool {
        let mut options = self.side.options.iter();
        options.any(|option| option.option == "model")
    }

    /// The mode that the configuration chooses; empty if it chooses none.
    pub(crate) fn configured_mode(&self) -> &str {
        self.file
            .modes
            .option
            .as_deref()
            .map_or("", |key| self.text(key))
    }

    /// The mode of sessions that ask for none; empty is the agent's own.
    pub(crate) fn start_mode(&self) -> &str {
        match self.configured_mode() {
            "" => &self.file.modes.start,
            configured => configured,
        }
    }

    /// The agent's own name for a mode.
    pub(crate) fn mode_name<'m>(&'m self, asked: &'m str) -> &'m str {
        self.file
            .modes
            .names
            .get(asked)
            .map_or(asked, String::as_str)
    }

    /// Returns true if the file lists a mode as one that runs tools unasked.
    pub(crate) fn is_dangerous_mode(&self, mode: &str) -> bool {
        let mut modes = self.file.modes.dangerous.iter();
        modes.any(|dangerous| dangerous.eq_ignore_ascii_case(mode))
    }

    /// The agent's own name for a model.
    pub(crate) fn model_name(&self, asked: &str) -> String {
        match self.side.configuration {
            Some(_) => model::split(asked, Some(self.text("provider"))).full(),
            None => asked.to_owned(),
        }
    }

    /// The temperature that a session asks for, and the mode that it is for.
    pub(crate) fn temperature<'a>(&'a self, options: &'a Options) -> Option<(&'a str, f64)> {
        let configured = Some(self.configured_mode()).filter(|mode| !mode.is_empty());
        let mode = options.mode.as_deref().or(configured);
        Some((
            mode.unwrap_or(&self.file.modes.default),
            options.temperature?,
        ))
    }

    /// Tools that are not allowed become this, unless all of them are allowed.
    pub(crate) fn unallowed(&self, unallowed: Unallowed) -> Option<Unallowed> {
        Some(unallowed).filter(|_| !self.is_dangerous())
    }

    /// Variable of the agent's configuration beside the user's own files.
    pub(crate) fn configuration_variable(&self) -> Option<&'static str> {
        match self.side.configuration.as_ref()? {
            ConfigurationWay::Opencode { variable } => Some(variable),
        }
    }

    /// Error of an agent whose configuration cannot be made to ask.
    pub(crate) fn asks_no_one(&self) -> Error {
        Error::refused(format!(
            "`{}` is not a JSON object, so that the agent cannot be made to ask before its tools run; write it without \
             comments, or set `dangerous: true` in the agent's configuration",
            self.configuration_variable().unwrap_or_default()
        ))
    }

    /// Returns true if the command line of such a session depends on the version. The first session
    /// of all waits for it then.
    pub(crate) fn needs_version(&self, options: &Options) -> bool {
        let mut limited = self
            .side
            .options
            .iter()
            .filter(|option| option.since.is_some());
        self.side.older.is_some()
            || limited.any(|option| !self.values(&option.option, options).is_empty())
    }

    /// Prepares the start of the agent for a session. `version` is known if [`Self::needs_version`]
    /// asked for it.
    ///
    /// # Errors
    /// If a file cannot be written, or the agent cannot be made to ask.
    pub(crate) fn prepare(
        &self,
        options: &Options,
        version: Option<Version>,
        shared: &SharedResources,
    ) -> Result<Prepared, Error> {
        let older = self.side.older.as_ref();
        let args = match older.filter(|older| !self.since().has(&older.until, version)) {
            Some(older) => &older.args,
            None => &self.side.args,
        };
        let mut warnings = Vec::new();
        let launch = options.launch().args(args);
        let launch = self.with_options(launch, options, version, &mut warnings);
        let mut prepared = Prepared::new(launch, options);
        prepared.warnings = warnings;
        self.give_prompt(options, shared, &mut prepared)?;
        self.give_servers(options, shared, &mut prepared)?;
        match &self.side.configuration {
            Some(ConfigurationWay::Opencode { variable }) => {
                self.give_configuration(variable, options, shared, &mut prepared)?;
            }
            None => self.give_skills(options, &mut prepared),
        }
        Ok(prepared)
    }

    /// Adds the arguments and variables of the file's options, however the agent is spoken to. An
    /// option that the version lacks is left out and reported.
    pub(crate) fn with_options(
        &self,
        mut launch: Launch,
        options: &Options,
        version: Option<Version>,
        warnings: &mut Vec<String>,
    ) -> Launch {
        for (name, value) in &self.side.env {
            if variable(options, name).is_none() && !self.is_dangerous() {
                launch = launch.env(name, value);
            }
        }
        for option in &self.side.options {
            let name = &option.option;
            let values = self.values(name, options);
            if values.is_empty() {
                continue;
            }
            let since = option.since.as_deref().unwrap_or_default();
            if let Err(why) = self.since().need(since, &format!("`{name}`"), version) {
                warnings.push(format!("`{name}` is left out: {why}"));
                continue;
            }
            for value in &values {
                launch = match option.args.as_slice() {
                    [flag, place] if place == "{}" => launch.option(flag, Some(value)),
                    args => launch.args(args.iter().map(|arg| arg.replace("{}", value))),
                };
                if let Some(variable) = &option.variable {
                    launch = launch.env(variable, value.as_ref());
                }
            }
        }
        if self.allows_all(options) {
            return launch;
        }
        let unset = self.side.unset.iter();
        unset.fold(launch, |launch, name| launch.without(name))
    }

    /// Returns the values of an option: the session's, and those in the configuration.
    fn values<'o>(&'o self, name: &str, options: &'o Options) -> Vec<Cow<'o, str>> {
        let borrowed = |values: &'o [String]| {
            values
                .iter()
                .map(|value| Cow::from(value.as_str()))
                .collect()
        };
        let configured = match self.configured.get(name) {
            Some(Value::Bool(true)) => vec![Cow::from("true")],
            Some(Value::String(text)) if !text.is_empty() => vec![Cow::from(text.as_str())],
            Some(Value::Number(number)) if number.as_u64() != Some(0) => {
                vec![Cow::from(number.to_string())]
            }
            Some(Value::Array(values)) => {
                let texts = values.iter().filter_map(Value::as_str);
                texts.map(Cow::from).collect()
            }
            _ => Vec::new(),
        };
        match name {
            "model" => options
                .model
                .as_deref()
                .map(Cow::from)
                .into_iter()
                .collect(),
            "reasoning_effort" => options
                .reasoning_effort
                .as_deref()
                .map(Cow::from)
                .into_iter()
                .collect(),
            "add_dirs" => borrowed(&options.add_dirs),
            "denied_tools" => {
                let asked = options.denied_tools.iter().flatten();
                configured
                    .into_iter()
                    .chain(asked.map(|tool| Cow::from(tool.as_str())))
                    .collect()
            }
            // A session narrows what runs unasked; it widens it only if everything runs unasked anyway.
            "allowed_tools" => match &options.allowed_tools {
                Some(asked) => {
                    let asked = asked.iter().map(|tool| Cow::from(tool.as_str()));
                    asked
                        .filter(|tool| self.is_dangerous() || configured.contains(tool))
                        .collect()
                }
                None => configured,
            },
            _ => configured,
        }
    }

    /// Returns true if every tool runs unasked.
    pub(crate) fn allows_all(&self, options: &Options) -> bool {
        self.is_dangerous() && options.allowed_tools.is_none()
    }

    fn give_prompt(
        &self,
        options: &Options,
        shared: &SharedResources,
        prepared: &mut Prepared,
    ) -> Result<(), Error> {
        let Some(prompt) = options.system_prompt.as_deref() else {
            return Ok(());
        };
        match &self.side.system_prompt {
            SystemPromptWay::File { replaces, .. }
                if *replaces && !options.replaces_system_prompt => {}
            SystemPromptWay::FirstPrompt => {}
            SystemPromptWay::File { variable, .. } => {
                let file = shared.prompt(prompt)?;
                prepared.set(variable, file.path());
                prepared.kept.push(Box::new(file));
                prepared.preface = None;
            }
            SystemPromptWay::InstructionsFolder { variable: list } => {
                let folder = shared.instructions(prompt)?;
                let mut folders = folder.path().as_os_str().to_owned();
                if let Some(own) = variable(options, list) {
                    folders.push(",");
                    folders.push(own);
                }
                prepared.set(list, folders);
                prepared.kept.push(Box::new(folder));
                prepared.preface = None;
            }
        }
        Ok(())
    }

    fn give_servers(
        &self,
        options: &Options,
        shared: &SharedResources,
        prepared: &mut Prepared,
    ) -> Result<(), Error> {
        if self.side.mcp_servers == McpServersWay::Protocol {
            return Ok(());
        }
        let (servers, warnings) = mcp::parse(options, self.file.mcp_variables);
        prepared.warnings.extend(warnings);
        prepared.has_servers = true;
        if servers.is_empty() {
            return Ok(());
        }
        let (config, variables) = mcp::copilot_config(&servers);
        let file = shared.servers(&config)?;
        let mut place = OsString::from("@");
        place.push(file.path());
        let launch = prepared
            .launch
            .clone()
            .arg("--additional-mcp-config")
            .arg(place);
        prepared.launch = launch.envs(variables);
        prepared.kept.push(Box::new(file));
        Ok(())
    }

    fn give_skills(&self, options: &Options, prepared: &mut Prepared) {
        match &self.side.skills {
            SkillsWay::Inputs => {
                prepared.skills = Roster::from_skills(&options.skills, &mut prepared.warnings);
            }
            SkillsWay::Folder {
                variable,
                in_home,
                folder,
            } => {
                let home = home_folder(options, variable, in_home);
                let folder = home.map(|home| home.join(folder));
                prepared.install_skills(options, folder.as_deref());
            }
        }
    }

    /// Gives permissions, skills, instructions and temperature by the variable of the agent's
    /// configuration. The user's own files lose nothing by it but what they allow unasked.
    fn give_configuration(
        &self,
        name: &str,
        options: &Options,
        shared: &SharedResources,
        prepared: &mut Prepared,
    ) -> Result<(), Error> {
        let (skills, warnings) = skills::parse(&options.skills);
        prepared.warnings.extend(warnings);
        let skills = if skills.is_empty() {
            None
        } else {
            Some(shared.skills(&skills)?)
        };
        let prompt = options.system_prompt.as_deref();
        let prompt = prompt.map(|prompt| shared.prompt(prompt)).transpose()?;
        let content = opencode_config::content(
            variable(options, name).as_deref(),
            self.unallowed(Unallowed::Asked),
            &[],
            skills.as_deref(),
            prompt.as_deref(),
            self.temperature(options),
        );
        match content {
            Ok(Some(content)) => {
                prepared.set(name, content);
                prepared.preface = None;
            }
            Ok(None) => {}
            Err(why) if self.is_dangerous() => prepared.warnings.push(why),
            Err(_) => return Err(self.asks_no_one()),
        }
        prepared.kept.push(Box::new((skills, prompt)));
        Ok(())
    }

    /// Time for which a session of this id must not be resumed yet, lest the agent lose it.
    pub(crate) fn wait_to_resume(&self, options: &Options, id: &str) -> Option<Duration> {
        let MinuteFiles {
            variable,
            folder,
            below,
        } = self.side.minute_files.as_ref()?;
        let folders = home_folder(options, variable, "")?.join(folder);
        let now = SystemTime::now();
        let file = minute_file(id, now);
        let folders = std::fs::read_dir(folders).ok()?;
        let mut projects = folders.take(MAX_PROJECTS).filter_map(Result::ok);
        let exists = projects.any(|project| project.path().join(below).join(&file).exists());
        let seconds = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs() % 60;
        exists.then(|| Duration::from_secs(61 - seconds))
    }
}

/// Name of the file in which an agent keeps a session that it begins at this time.
fn minute_file(id: &str, time: SystemTime) -> String {
    let time = humantime::format_rfc3339_seconds(time)
        .to_string()
        .replace(':', "-");
    let minute = &time[..time.floor_char_boundary(16)];
    let id = &id[..id.floor_char_boundary(8)];
    format!("session-{minute}-{id}.jsonl")
}

/// The value of a variable for the agent of a session: the session's, else this process's. An empty
/// one is none.
pub(crate) fn variable(options: &Options, name: &str) -> Option<String> {
    variables::value(&options.env, name).filter(|value| !value.is_empty())
}

/// A folder that a variable names, or else one beneath the home.
pub(crate) fn home_folder(options: &Options, named: &str, in_home: &str) -> Option<PathBuf> {
    let home = || Some(PathBuf::from(variable(options, "HOME")?).join(in_home));
    variable(options, named).map(PathBuf::from).or_else(home)
}

#[cfg(test)]
mod tests;
