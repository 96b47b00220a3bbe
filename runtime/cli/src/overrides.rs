//! Overrides of the agent's configuration by the command line.
//!
//! Overrides change the agent's entry, like an edited file. An override without a key in the entry
//! becomes an option of the session, and the session is refused if the adapter does not apply it,
//! so that no option is ignored.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::anyhow;
use clap::Args;
use serde_json::{Map, Value, json};
use trunkline_host::{
    config::{self, AgentConfig, EnvValue, Profile, SessionMay, SessionOption, Unenforced},
    policy::{Pattern, PatternError, Policy},
    protocol::{Json, SessionStart},
};

use crate::{error::CliError, session_backend::OPTIONS_TIMEOUT, target};

mod assign;

pub(crate) use assign::{assign, check_defaults};

/// Overrides of the agent for this run.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Agent options for this run")]
pub(crate) struct AgentOverrides {
    /// Model [default: $TRUNKLINE_MODEL, otherwise the configured model]
    #[arg(long, value_name = "NAME")]
    model: Option<String>,

    /// Mode of the agent, such as `plan`
    #[arg(long, value_name = "NAME")]
    mode: Option<String>,

    /// Permission mode of the agent, by the agent's own name
    #[arg(long, value_name = "NAME")]
    permission_mode: Option<String>,

    /// Instructions for the model
    #[arg(long, value_name = "TEXT")]
    system_prompt: Option<String>,

    /// Limit of model turns within one turn
    #[arg(long, value_name = "N", value_parser = crate::option_value::parse_count)]
    max_turns: Option<u64>,

    /// Working folder of the agent; relative paths of its command also start there
    #[arg(long, value_name = "FOLDER")]
    cwd: Option<PathBuf>,

    /// Further folder in which the agent may work; may be repeated
    #[arg(long, value_name = "FOLDER")]
    add_dir: Vec<PathBuf>,

    /// Approves tools without asking: `Tool` or `Tool(glob)`; may be repeated
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    allow: Vec<Pattern>,

    /// Denies tools without asking, with precedence over --allow; may be repeated
    #[arg(long, value_name = "PATTERN", value_parser = pattern)]
    deny: Vec<Pattern>,

    /// Environment variable of the agent; NAME without a value is inherited; may be repeated
    #[arg(long, value_name = "NAME[=VALUE]", value_parser = variable)]
    env: Vec<(String, EnvValue)>,

    /// Time limit of the turn, such as 10m; 0s removes the limit
    #[arg(long, value_name = "TIME", value_parser = crate::option_value::parse_time)]
    timeout: Option<Duration>,

    /// Key of the agent's entry or of its profile's object, with dots between its parts; VALUE is
    /// JSON, otherwise a string
    #[arg(short = 'c', long = "set", value_name = "PATH=VALUE", value_parser = assignment)]
    pub(crate) set: Vec<KeyAssignment>,

    /// JSON Schema of each answer.
    #[arg(skip)]
    pub(crate) output_schema: Option<Json>,

    /// True if the user may change the mode of a live session.
    #[arg(skip)]
    may_change_mode: bool,
}

/// A `key=value` of the command line.
#[derive(Clone)]
pub(crate) struct KeyAssignment {
    /// Key, with dots between its parts.
    pub(crate) key: String,
    pub(crate) value: Value,
}

impl std::fmt::Debug for KeyAssignment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The value may be a secret.
        f.debug_struct("Assignment")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// Parses a pattern. clap adds the option and the text to the error.
fn pattern(text: &str) -> Result<Pattern, String> {
    text.parse()
        .map_err(|error: PatternError| error.reason().to_owned())
}

pub(crate) fn assignment(text: &str) -> Result<KeyAssignment, String> {
    let (key, value) = text
        .split_once('=')
        .ok_or("expected KEY=VALUE, such as `turn_timeout=5m`")?;
    if key.split('.').any(str::is_empty) {
        return Err("the key has an empty part".to_owned());
    }
    let value = serde_json::from_str(value).unwrap_or_else(|_| value.into());
    Ok(KeyAssignment {
        key: key.to_owned(),
        value,
    })
}

fn variable(text: &str) -> Result<(String, EnvValue), String> {
    let (name, value) = match text.split_once('=') {
        Some((name, value)) => (name, EnvValue::Text(value.to_owned())),
        None => (text, EnvValue::FromEnv(text.to_owned())),
    };
    if name.is_empty() || text.contains('\0') {
        return Err("the name of the variable is missing".to_owned());
    }
    if value == EnvValue::FromEnv(name.to_owned()) && std::env::var_os(name).is_none() {
        return Err(format!("it is not set here; `--env {name}=VALUE` sets it"));
    }
    Ok((name.to_owned(), value))
}

impl AgentOverrides {
    /// Returns true if the overrides set a model.
    pub(crate) fn names_model(&self) -> bool {
        let is_model = |set: &KeyAssignment| set.key.rsplit('.').next() == Some("model");
        self.model.is_some() || self.set.iter().any(is_model)
    }

    /// Allows the user to change the mode of a live session.
    pub(crate) fn for_a_live_session(self) -> Self {
        Self {
            may_change_mode: true,
            ..self
        }
    }

    /// Returns the first option that requires a host in this process: any except the folder, which
    /// a session can name.
    pub(crate) fn own_host_option(&self) -> Option<&'static str> {
        let of_agent = [
            ("--model", self.model.is_some()),
            ("--mode", self.mode.is_some()),
            ("--permission-mode", self.permission_mode.is_some()),
            ("--system-prompt", self.system_prompt.is_some()),
            ("--max-turns", self.max_turns.is_some()),
            ("--add-dir", !self.add_dir.is_empty()),
            ("--output-schema", self.output_schema.is_some()),
        ];
        let all = of_agent.into_iter().chain(self.host_flags());
        all.into_iter()
            .find_map(|(flag, is_set)| is_set.then_some(flag))
    }

    /// Sets the working folder of the agent, unless `--cwd` is given.
    pub(crate) fn work_in(&mut self, folder: PathBuf) {
        self.cwd.get_or_insert(folder);
    }

    /// Returns the working folder of the agent.
    pub(crate) fn cwd(&self) -> Option<&Path> {
        self.cwd.as_deref()
    }

    /// Returns the flags that change the behaviour of a host, and whether they are set.
    fn host_flags(&self) -> [(&'static str, bool); 5] {
        [
            ("--allow", !self.allow.is_empty()),
            ("--deny", !self.deny.is_empty()),
            ("--env", !self.env.is_empty()),
            ("--timeout", self.timeout.is_some()),
            ("-c", !self.set.is_empty()),
        ]
    }

    /// Returns the options of a session of another process's host, whose entries cannot be changed.
    ///
    /// # Errors
    /// A flag requires a host in this process.
    pub(crate) fn session_start(&self) -> Result<SessionStart, CliError> {
        if let Some((flag, _)) = self.host_flags().into_iter().find(|(_, is_set)| *is_set) {
            return Err(CliError::usage(anyhow!(
                "{flag} requires a host in this process, but another process serves the journal"
            ))
            .next(format!(
                "omit {flag}, set it when that process is started, or use another --journal"
            )));
        }
        let cwd = self
            .cwd
            .as_deref()
            .map(|folder| absolute_folder("--cwd", folder))
            .transpose()?;
        Ok(SessionStart {
            model: self.model.clone(),
            mode: self.mode.clone(),
            permission_mode: self.permission_mode.clone(),
            system_prompt: self.system_prompt.clone(),
            max_turns: self.max_turns,
            cwd,
            add_dirs: self.added_folders()?,
            output_schema: self.output_schema.clone(),
            ..SessionStart::default()
        })
    }

    /// Returns the folders of --add-dir, if there are any.
    fn added_folders(&self) -> Result<Option<Vec<String>>, CliError> {
        let folders = self
            .add_dir
            .iter()
            .map(|folder| absolute_folder("--add-dir", folder));
        let folders: Vec<_> = folders.collect::<Result<_, _>>()?;
        Ok(Some(folders).filter(|folders| !folders.is_empty()))
    }

    /// Changes the agent's entry. Returns the options that its sessions must request and the
    /// adapter must apply.
    ///
    /// # Errors
    /// The agent cannot apply an option, which is named.
    pub(crate) fn apply(&self, agent: &mut AgentConfig) -> Result<SessionStart, CliError> {
        let mut entry = EntryEditor {
            agent,
            set: BTreeMap::new(),
        };
        let mut start = SessionStart {
            model: entry.set("--model", &["model"], &self.model)?,
            mode: entry.set("--mode", &["mode", "permission_mode"], &self.mode)?,
            permission_mode: entry.set(
                "--permission-mode",
                &["permission_mode"],
                &self.permission_mode,
            )?,
            system_prompt: entry.set("--system-prompt", &["system_prompt"], &self.system_prompt)?,
            max_turns: entry.set("--max-turns", &["max_turns"], &self.max_turns)?,
            output_schema: self.output_schema.clone(),
            ..SessionStart::default()
        };
        if let Some(folder) = &self.cwd {
            entry.work_in(&absolute_folder("--cwd", folder)?)?;
        }
        if let Some(folders) = self.added_folders()? {
            start.add_dirs = entry.add(folders)?;
        }
        let asked = [
            (SessionOption::Mode, start.mode.is_some()),
            (
                SessionOption::PermissionMode,
                start.permission_mode.is_some(),
            ),
            (SessionOption::AddDirs, start.add_dirs.is_some()),
            (SessionOption::Mode, self.may_change_mode),
        ];
        let may = asked.into_iter().filter(|(_, is_asked)| *is_asked);
        let agent = entry.agent;
        let allow = agent.permission.allow();
        let deny = agent.permission.deny();
        agent.permission = Policy::from_patterns(
            agent.permission.unmatched(),
            [allow, &self.allow].concat(),
            [deny, &self.deny].concat(),
        );
        agent.command.env.extend(self.env.iter().cloned());
        if let Some(timeout) = self.timeout {
            agent.timeouts.turn = Some(timeout).filter(|timeout| !timeout.is_zero());
        }
        agent.session_may = std::mem::take(&mut agent.session_may)
            .union(&SessionMay::listed(may.map(|(option, _)| option)));
        if start.options().next().is_some() {
            agent.unenforced = Unenforced::RefuseAny;
            if agent.profile == Profile::External {
                // A core-only adapter does not report which options it applies, and the user waits.
                agent.timeouts.start = agent.timeouts.start.min(OPTIONS_TIMEOUT);
            }
        }
        Ok(start)
    }
}

/// Returns the next step for options that an adapter does not apply, and that `why` names.
pub(crate) fn omit_unapplied(asked: &[&str], why: &str) -> Option<String> {
    let named = |name: &str| {
        why.split(|c: char| c != '_' && !c.is_alphanumeric())
            .any(|word| word == name)
    };
    let flags: Vec<_> = asked
        .iter()
        .filter(|name| named(name))
        .map(|name| flag(name))
        .collect();
    let flags = (!flags.is_empty()).then(|| flags.join(", "))?;
    Some(format!(
        "next: omit {flags}, which this adapter does not support"
    ))
}

/// Returns the flag for an option of a session.
fn flag(option: &str) -> String {
    match option {
        "add_dirs" => "--add-dir".to_owned(),
        name => format!("--{}", name.replace('_', "-")),
    }
}

/// Entry of the agent, and the flags that set keys of its profile.
struct EntryEditor<'a> {
    agent: &'a mut AgentConfig,
    set: BTreeMap<&'static str, &'static str>,
}

impl EntryEditor<'_> {
    /// Sets the first of these keys that the profile's object has. Returns the value if it has none
    /// of them, so that sessions request it. A profile has at most one of the keys.
    fn set<T: Clone + Into<Value>>(
        &mut self,
        flag: &'static str,
        keys: &'static [&'static str],
        value: &Option<T>,
    ) -> Result<Option<T>, CliError> {
        let (Some(value), Some(key)) = (value, self.key(keys)) else {
            return Ok(value.clone());
        };
        if let Some(first) = self.set.insert(key, flag) {
            return Err(CliError::usage(anyhow!(
                "{first} and {flag} both set `{key}` of {}",
                self.profile()
            ))
            .next("use only one of them"));
        }
        self.own().insert(key.to_owned(), value.clone().into());
        self.check(flag).map(|()| None)
    }

    /// Adds folders to the profile's list of folders. Returns them if it has none.
    fn add(&mut self, folders: Vec<String>) -> Result<Option<Vec<String>>, CliError> {
        let Some(key) = self.key(&["add_dirs", "additional_dirs", "include_directories"]) else {
            return Ok(Some(folders));
        };
        let list = self.own().entry(key).or_insert_with(|| json!([]));
        if let Value::Array(list) = list {
            list.extend(folders.into_iter().map(Value::from));
        }
        self.check("--add-dir").map(|()| None)
    }

    /// Sets the working folder of the process and of the wrapped program.
    fn work_in(&mut self, folder: &str) -> Result<(), CliError> {
        self.agent.command.work_dir = folder.into();
        if self.key(&["work_dir"]).is_some() {
            self.own().insert("work_dir".to_owned(), folder.into());
        }
        self.check("--cwd")
    }

    fn profile(&self) -> &str {
        self.agent.profile.name()
    }

    fn key(&self, keys: &'static [&'static str]) -> Option<&'static str> {
        keys.iter()
            .copied()
            .find(|key| knows(&self.agent.profile, key))
    }

    fn own(&mut self) -> &mut Map<String, Value> {
        let config = self.agent.config.get_or_insert_with(|| json!({}));
        if !config.is_object() {
            *config = json!({});
        }
        config
            .as_object_mut()
            .unwrap_or_else(|| unreachable!("it was just made an object"))
    }

    fn check(&self, flag: &str) -> Result<(), CliError> {
        let (Profile::BuiltIn(name), Some(config)) = (&self.agent.profile, &self.agent.config)
        else {
            return Ok(());
        };
        target::check(name, config).map_err(|refused| {
            CliError::usage(anyhow!(
                "failed to apply {flag}: {}",
                config::said(&refused)
            ))
        })
    }
}

/// Returns true if a profile's object has this key. The object of an external adapter is unknown,
/// and `echo` has none.
pub(crate) fn knows(profile: &Profile, key: &str) -> bool {
    let Some(profile) = target::built_in(profile) else {
        return false;
    };
    let is_unknown = |key: &str| {
        let refused = profile.check(&json!({ key: null }));
        refused.is_err_and(|refused| refused.inner().to_string().starts_with("unknown field"))
    };
    is_unknown("") && !is_unknown(key)
}

fn absolute_folder(flag: &str, folder: &Path) -> Result<String, CliError> {
    let next = "use an existing folder";
    let whole = std::path::absolute(folder)
        .ok()
        .filter(|whole| whole.is_dir());
    let whole = whole.ok_or_else(|| {
        CliError::usage(anyhow!("{flag} {}: no such folder", folder.display())).next(next)
    })?;
    let text = whole.into_os_string().into_string();
    text.map_err(|_| {
        CliError::usage(anyhow!(
            "{flag} {}: the name is not UTF-8",
            folder.display()
        ))
        .next(next)
    })
}

#[cfg(test)]
mod tests;
