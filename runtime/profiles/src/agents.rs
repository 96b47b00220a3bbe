//! Agents as data: one JSON file describes an agent, `agents/NAME.json` or a file of an operator's
//! own.
//!
//! A file holds facts: how the program is installed, started and logged in, and how it differs from
//! the protocol. What needs code is named by the file and implemented once: a one-shot dialect of
//! [`oneshot`](crate::oneshot), a way of giving instructions, skills or MCP servers of
//! [`acp::AcpAgent`](crate::acp::AcpAgent).

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::sync::{LazyLock, OnceLock};

use serde::Deserialize;
use trunkline_sdk::Category;

use crate::acp::Quirks;
use crate::agent::credentials::Credentials;
use crate::agent::failure;
use crate::agent::native_id;
use crate::agent::version::{FirstVersions, Version};

/// Limit for the size of an operator's file, in bytes.
const MAX_FILE_BYTES: u64 = 256 * 1024;

/// An agent's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AgentFile {
    /// Name of the profile, and of the file.
    pub(crate) name: String,
    /// Name of the product.
    pub(crate) title: String,
    /// Purpose in one line.
    pub(crate) description: String,
    /// Program: a name that is looked up in PATH, or a path.
    pub(crate) program: String,
    /// Command that installs the program.
    pub(crate) install: String,
    /// Version that was run in the tests with real programs; `null` if none was, and the facts are
    /// the documentation's.
    #[serde(deserialize_with = "Option::deserialize")]
    pub(crate) tested: Option<String>,
    /// Page of the agent's own documentation that the facts are from.
    #[serde(default)]
    pub(crate) documentation: String,
    /// Credentials that the agent takes.
    pub(crate) credentials: Option<Credentials>,
    /// Reason for the absence of `credentials`.
    #[serde(default)]
    #[cfg_attr(not(test), expect(dead_code, reason = "for the reader of a file"))]
    pub(crate) no_credentials: String,
    /// Variables that choose the model if neither session nor configuration names one.
    #[serde(default)]
    pub(crate) model_variables: ModelVariables,
    /// Key of an agent of the host's configuration that holds the profile's options.
    #[serde(default = "generic_key")]
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "for the host's list, which tests write")
    )]
    pub(crate) key: String,
    /// First versions that have an option or a command. What is not listed every version has.
    #[serde(default)]
    since: BTreeMap<String, Version>,
    /// Names by which the agent reports itself in `initialize`, in lower case.
    #[serde(default)]
    agent_info: Vec<String>,
    /// Differences from the protocol.
    #[serde(default)]
    quirks: Quirks,
    /// Modes that the agent works in.
    #[serde(default)]
    pub(crate) modes: Modes,
    /// Regular expressions for the agent's own words of failures, by category.
    #[serde(default)]
    failures: BTreeMap<String, Vec<String>>,
    /// Form of the ids of conversations, which become arguments.
    #[serde(default)]
    session_id: SessionIdForm,
    /// Variables in MCP servers: expanded by the adapter, or left to the agent.
    #[serde(default)]
    pub(crate) mcp_variables: McpVariables,
    /// Dialect of the agent's one-shot runs.
    #[serde(default)]
    pub(crate) oneshot: Option<Oneshot>,
    /// The agent's side of the Agent Client Protocol. Absent: its profile is Rust.
    #[serde(default)]
    pub(crate) acp: Option<AcpSide>,
}

fn generic_key() -> String {
    "acp".to_owned()
}

/// Variables that choose an agent's model.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct ModelVariables {
    /// Program for which the profile reads them. Unset: the agent itself does.
    pub(crate) read_for: Option<String>,
    pub(crate) model: Option<String>,
    /// Provider of the model.
    pub(crate) provider: Option<String>,
}

/// Modes of an agent.
#[derive(Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Modes {
    /// Key of the configuration that chooses the mode.
    pub(crate) option: Option<String>,
    /// Mode that is chosen if neither session nor configuration names one.
    pub(crate) start: String,
    /// Mode in which the agent begins by itself, if an option of its own needs the name.
    pub(crate) default: String,
    /// Modes in which a person is asked, or nothing happens; the strictest first. Those of one step
    /// ask the same.
    pub(crate) asking: Vec<Vec<String>>,
    /// Modes that ask less.
    pub(crate) looser: Vec<String>,
    /// Modes that run tools unasked, beyond the names that are known for any agent: `dangerous:
    /// true` allows them.
    pub(crate) dangerous: Vec<String>,
    /// The agent's own names of modes that configurations call otherwise.
    pub(crate) names: BTreeMap<String, String>,
}

/// Form of an agent's own ids of conversations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum SessionIdForm {
    /// One word with a digit, which no agent takes for an option or a path.
    #[default]
    Word,
    /// A UUID as such ids are written.
    Uuid,
}

/// The side that expands variables in MCP servers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum McpVariables {
    /// The adapter, for `${NAME}` and `${NAME:-default}`.
    #[default]
    Braced,
    /// The adapter, for `$NAME` too, since the agent's own files have that form.
    Bare,
    /// The agent.
    LeftToAgent,
}

/// Dialect of the one-shot runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Oneshot {
    Gemini,
    Copilot,
    Kilo,
    Opencode,
}

/// An agent's side of ACP.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct AcpSide {
    /// When the profile is the right one, and when it is not.
    pub(crate) use_when: String,
    pub(crate) avoid_when: String,
    /// Arguments that make the program speak ACP, after those in the configuration.
    pub(crate) args: Vec<String>,
    /// Arguments of older versions.
    #[serde(default)]
    pub(crate) older: Option<OlderArgs>,
    /// Member of `since` that names the first version which speaks ACP.
    #[serde(default)]
    pub(crate) first: Option<String>,
    /// Variables of the process, unless the configuration or the session sets them.
    #[serde(default)]
    pub(crate) env: BTreeMap<String, String>,
    /// Variables that the process does not get, unless every tool runs unasked.
    #[serde(default)]
    pub(crate) unset: Vec<String>,
    /// Options of the session or of the configuration that the command line takes, in their order.
    #[serde(default)]
    pub(crate) options: Vec<CommandLineOption>,
    /// Delivery of instructions.
    #[serde(default)]
    pub(crate) system_prompt: SystemPromptWay,
    /// Delivery of skills.
    #[serde(default)]
    pub(crate) skills: SkillsWay,
    /// Delivery of MCP servers.
    #[serde(default)]
    pub(crate) mcp_servers: McpServersWay,
    /// Configuration beside the user's own files: permissions, instructions, skills and temperature go by it.
    #[serde(default)]
    pub(crate) configuration: Option<ConfigurationWay>,
    /// Options of `session.start` that the agent honours besides those for every ACP agent.
    #[serde(default)]
    pub(crate) honours: Vec<String>,
    /// The agent is silent forever if it has no credentials.
    #[serde(default)]
    pub(crate) hangs_without_credentials: bool,
    /// Files of sessions that are named by the minute.
    #[serde(default)]
    pub(crate) minute_files: Option<MinuteFiles>,
}

/// Arguments of versions before one.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct OlderArgs {
    pub(crate) args: Vec<String>,
    /// Member of `since` that names the first version which takes the other arguments.
    pub(crate) until: String,
}

/// An option that becomes arguments or a variable.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CommandLineOption {
    /// Key of `session.start` or of the configuration.
    pub(crate) option: String,
    /// Arguments for each value, which takes the place of `{}`.
    #[serde(default)]
    pub(crate) args: Vec<String>,
    /// Variable that gets the value.
    #[serde(default)]
    pub(crate) variable: Option<String>,
    /// Member of `since` that names the first version which takes it.
    #[serde(default)]
    pub(crate) since: Option<String>,
}

/// Delivery of instructions to an agent.
#[derive(Debug, Default, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum SystemPromptWay {
    /// Before the first prompt.
    #[default]
    FirstPrompt,
    /// A file that a variable names. `replaces`: only instructions that take the place of the
    /// agent's own; others go before the first prompt.
    File {
        variable: String,
        #[serde(default)]
        replaces: bool,
    },
    /// A folder with an instructions file, added to the list of a variable.
    InstructionsFolder { variable: String },
}

/// Delivery of skills to an agent.
#[derive(Debug, Default, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum SkillsWay {
    /// Put into the inputs that call them.
    #[default]
    Inputs,
    /// Linked into a folder of the agent's own: `folder` below what `variable` names, or else below
    /// `in_home` in HOME.
    Folder {
        variable: String,
        in_home: String,
        folder: String,
    },
}

/// Delivery of MCP servers to an agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum McpServersWay {
    /// Named by the protocol.
    #[default]
    Protocol,
    /// A file of Copilot's form: over ACP it drops servers that are programs without a message.
    CopilotFile,
}

/// Configuration beside the user's own files.
#[derive(Debug, Deserialize)]
#[serde(tag = "by", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum ConfigurationWay {
    /// JSON of opencode's form in a variable.
    Opencode { variable: String },
}

/// Files of sessions that are named by the minute in which a session was begun or resumed: the
/// agent begins one anew that exists, so that a session resumed within its minute would be lost.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MinuteFiles {
    /// Variable that names the agent's home; HOME if it is not set.
    pub(crate) variable: String,
    /// Folder of projects in that home, and the folder with sessions in each.
    pub(crate) folder: String,
    pub(crate) below: String,
}

impl AgentFile {
    /// Reads an agent's file, and checks what its type cannot.
    ///
    /// # Errors
    /// The member that is wrong, and why.
    fn parse(text: &str) -> Result<Self, String> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let file: Self = serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
            let path = error.path().to_string();
            let why = error.inner().to_string();
            if path == "." {
                why
            } else {
                format!("`{path}`: {why}")
            }
        })?;
        deserializer.end().map_err(|error| error.to_string())?;
        file.check()?;
        Ok(file)
    }

    fn check(&self) -> Result<(), String> {
        for (member, text) in [("name", &self.name), ("program", &self.program)] {
            if text.trim().is_empty() {
                return Err(format!("`{member}`: it is empty"));
            }
        }
        if let Some(credentials) = &self.credentials
            && credentials.login().parts().is_none()
        {
            return Err("`credentials.login.command`: it is empty".to_owned());
        }
        for (category, patterns) in &self.failures {
            if Category::named(category).is_none() {
                return Err(format!(
                    "`failures.{category}`: it is not a category of failures"
                ));
            }
            for (index, pattern) in patterns.iter().enumerate() {
                failure::check_pattern(pattern)
                    .map_err(|why| format!("`failures.{category}[{index}]`: {why}"))?;
            }
        }
        let Some(side) = &self.acp else { return Ok(()) };
        let older = side
            .older
            .as_ref()
            .map(|older| ("older.until".to_owned(), &older.until));
        let first = side.first.as_ref().map(|first| ("first".to_owned(), first));
        let options = side
            .options
            .iter()
            .enumerate()
            .filter_map(|(index, option)| {
                Some((format!("options[{index}].since"), option.since.as_ref()?))
            });
        for (member, what) in older.into_iter().chain(first).chain(options) {
            if !self.since.contains_key(what) {
                return Err(format!("`acp.{member}`: `since` has no member {what:?}"));
            }
        }
        Ok(())
    }

    /// First versions that have something.
    pub(crate) fn since(&self) -> FirstVersions<'_> {
        FirstVersions {
            agent: &self.program,
            update: &self.install,
            first: &self.since,
        }
    }

    /// Returns true if this can be the agent's own id of a conversation.
    pub(crate) fn is_session_id(&self, id: &str) -> bool {
        match self.session_id {
            SessionIdForm::Word => native_id::is_word(id),
            SessionIdForm::Uuid => native_id::is_uuid(id),
        }
    }

    /// Patterns of failures with their categories.
    pub(crate) fn failures(&self) -> impl Iterator<Item = (Category, &str)> {
        self.failures.iter().flat_map(|(category, patterns)| {
            let category = Category::named(category).unwrap_or(Category::Other);
            patterns
                .iter()
                .map(move |pattern| (category, pattern.as_str()))
        })
    }
}

/// The built-in agents, by name.
static BUILT_IN: LazyLock<Vec<AgentFile>> = LazyLock::new(|| {
    let files: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/agents.rs"));
    let read = |(name, text): &(&str, &str)| {
        #[expect(clippy::panic, reason = "a constant, read in every test")]
        AgentFile::parse(text).unwrap_or_else(|why| panic!("{name}: {why}"))
    };
    files.iter().map(read).collect()
});

/// The operator's file that this process's adapter was configured with.
static OWN: OnceLock<&'static AgentFile> = OnceLock::new();

/// The agents that this process knows: the built-in ones, and the operator's.
pub(crate) fn all() -> impl Iterator<Item = &'static AgentFile> {
    BUILT_IN.iter().chain(OWN.get().copied())
}

/// Returns true for the operator's file.
pub(crate) fn is_operators(file: &AgentFile) -> bool {
    OWN.get().is_some_and(|own| std::ptr::eq(*own, file))
}

/// The agent of a profile. Nothing if the profile wraps none.
pub(crate) fn by_name(name: &str) -> Option<&'static AgentFile> {
    all().find(|file| file.name == name)
}

/// The agent of a profile that has a file.
///
/// # Panics
/// If there is no such file: the name is a constant.
#[expect(clippy::panic, reason = "a constant name, which tests check")]
pub(crate) fn built_in(name: &str) -> &'static AgentFile {
    by_name(name).unwrap_or_else(|| panic!("{name} has no file in agents/"))
}

/// Differences from the protocol of the agent that reports itself by this name.
pub(crate) fn quirks(reported: &str) -> Quirks {
    let reported = reported.to_ascii_lowercase();
    let known = all().find(|file| file.agent_info.contains(&reported));
    // A file that names no reported name is of the agent that runs.
    let own = || OWN.get().copied().filter(|file| file.agent_info.is_empty());
    known
        .or_else(own)
        .map_or(Quirks::UNKNOWN, |file| file.quirks)
}

/// Reads an operator's file.
///
/// # Errors
/// The file, the member that is wrong, and why.
pub(crate) fn read(path: &Path) -> Result<AgentFile, String> {
    let refused = |why: String| format!("agent file {}: {why}", path.display());
    let text = read_text(path).map_err(|why| refused(why.to_string()))?;
    let file = AgentFile::parse(&text).map_err(refused)?;
    if BUILT_IN.iter().any(|known| known.name == file.name) {
        let why = format!(
            "`name`: {} is a built-in agent; choose another name",
            file.name
        );
        return Err(refused(why));
    }
    if file.acp.is_none() {
        return Err(refused(
            "`acp`: it is missing: how the agent speaks ACP".to_owned(),
        ));
    }
    if file.oneshot.is_some() {
        return Err(refused(
            "`oneshot`: only built-in agents have a dialect".to_owned(),
        ));
    }
    Ok(file)
}

fn read_text(path: &Path) -> std::io::Result<String> {
    let mut text = String::new();
    let file = std::fs::File::open(path)?;
    if !file.metadata()?.is_file() {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    file.take(MAX_FILE_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_FILE_BYTES {
        let why = format!("it is longer than {MAX_FILE_BYTES} bytes");
        return Err(std::io::Error::other(why));
    }
    Ok(text)
}

/// Makes an operator's file known to this process, which runs one adapter: the first one stays.
pub(crate) fn adopt(file: AgentFile) -> &'static AgentFile {
    OWN.get_or_init(|| Box::leak(Box::new(file)))
}

#[cfg(test)]
mod tests;
