//! An agent's answer to `initialize`, and known deviations from the specification.

use serde::Deserialize;
use serde_json::Value;
use trunkline_sdk::{Category, Error};

use super::read::{has, list, text};
use crate::agent::mcp::AcpTransports;
use crate::agents;

/// The version of the protocol that is spoken.
pub(crate) const VERSION: u64 = 1;

/// Identity and capabilities of an agent.
#[derive(Debug, Clone, Default)]
pub(crate) struct InitializeResponse {
    pub(crate) name: Option<String>,
    /// True if it resumes sessions and replays them.
    pub(crate) loads: bool,
    /// Goes on with sessions and repeats nothing.
    pub(crate) resumes: bool,
    pub(crate) lists: bool,
    pub(crate) closes: bool,
    /// Ends its own login by `logout`.
    pub(crate) logs_out: bool,
    /// Takes `additionalDirectories`.
    pub(crate) adds_directories: bool,
    /// Takes `systemPrompt`.
    pub(crate) takes_system_prompt: bool,
    pub(crate) images: bool,
    /// Takes texts as resources.
    pub(crate) resources: bool,
    pub(crate) mcp: AcpTransports,
    pub(crate) logins: Vec<Login>,
    pub(crate) quirks: Quirks,
}

/// A way to log in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Login {
    pub(crate) id: String,
    pub(crate) name: String,
    /// Variables that it needs, if it names them.
    pub(crate) variables: Vec<String>,
    /// True if a person logs in with the agent's own program.
    needs_terminal: bool,
}

/// Deviations of an agent from the specification, known by its name.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Quirks {
    /// The usage of a prompt covers the session so far.
    pub(crate) running_usage: bool,
    /// A failure of the model comes as text, and the prompt ends well.
    pub(crate) failures_as_text: FailuresAsText,
    /// Continues the replay after it has answered `session/load`.
    pub(crate) repeats_late: bool,
    /// `toolCallId` begins with the tool's name and `__`.
    pub(crate) names_tools_in_ids: bool,
    /// The title of a call's first sight is the tool's name.
    pub(crate) names_tools_in_titles: bool,
    /// Takes `_meta.systemPrompt.append`.
    pub(crate) appends_system_prompt: bool,
    /// Ends a turn well whose model was cut off, and counts no tokens for it.
    pub(crate) hides_cuts: bool,
    /// Repeats the request to its model, without limit, when an answer breaks off.
    pub(crate) restarts: bool,
    /// A request of permission names a call that there is not, beside the one that it asks about.
    pub(crate) asks_by_ids_of_their_own: bool,
    /// The command of a permission request is in its text only, behind these words.
    pub(crate) announces_commands: bool,
    /// Ends a turn well, and without a word, whose model failed.
    pub(crate) fails_in_silence: bool,
    /// Never asks in its mode `auto`, which for other agents means asking less.
    pub(crate) never_asks_in_auto: bool,
}

/// Text by which an agent reports that the model failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FailuresAsText {
    #[default]
    Never,
    /// `Error: …`, and no tokens are counted.
    Prefixed,
    /// The provider's JSON, and the usage is null.
    RawJson,
    /// `HTTP 401: …`, or that a call failed after retries, and there is no usage.
    Status,
}

impl Quirks {
    /// Differences of an agent that is not known: when it is done repeating is not known either.
    pub(crate) const UNKNOWN: Self = Self {
        running_usage: false,
        failures_as_text: FailuresAsText::Never,
        repeats_late: true,
        names_tools_in_ids: false,
        names_tools_in_titles: false,
        appends_system_prompt: false,
        hides_cuts: false,
        restarts: false,
        asks_by_ids_of_their_own: false,
        announces_commands: false,
        fails_in_silence: false,
        never_asks_in_auto: false,
    };
}

impl InitializeResponse {
    /// Reads the answer.
    ///
    /// # Errors
    /// `protocol` where the agent speaks another version.
    pub(crate) fn parse(answer: &Value) -> Result<Self, Error> {
        let version = answer["protocolVersion"].as_u64().unwrap_or(VERSION);
        if version != VERSION {
            return Err(Error::new(
                Category::Protocol,
                format!(
                    "the agent speaks version {version} of the Agent Client Protocol, not {VERSION}; install one that does"
                ),
            ));
        }
        let can = &answer["agentCapabilities"];
        let [prompt, session, mcp] = [
            "promptCapabilities",
            "sessionCapabilities",
            "mcpCapabilities",
        ]
        .map(|group| &can[group]);
        let info = &answer["agentInfo"];
        let name = text(info, "name").map(str::to_owned);
        Ok(Self {
            quirks: agents::quirks(name.as_deref().unwrap_or_default()),
            name,
            loads: has(can, "loadSession"),
            resumes: has(session, "resume"),
            lists: has(session, "list"),
            closes: has(session, "close"),
            logs_out: has(&can["auth"], "logout"),
            adds_directories: has(session, "additionalDirectories"),
            takes_system_prompt: has(session, "systemPrompt"),
            images: has(prompt, "image"),
            resources: has(prompt, "embeddedContext"),
            mcp: AcpTransports {
                http: has(mcp, "http"),
                sse: has(mcp, "sse"),
            },
            logins: list(answer, "authMethods")
                .iter()
                .take(64)
                .filter_map(Login::from_method)
                .collect(),
        })
    }

    /// Returns its name in an error.
    pub(crate) fn called(&self) -> &str {
        self.name.as_deref().unwrap_or("the agent")
    }

    /// The login that needs nothing but variables which are set.
    pub(crate) fn login_by_variables(&self, is_set: impl Fn(&str) -> bool) -> Option<&Login> {
        self.logins.iter().find(|login| {
            !login.needs_terminal
                && !login.variables.is_empty()
                && login.variables.iter().any(|name| is_set(name))
        })
    }

    /// The login of this id, which the configuration names.
    ///
    /// # Errors
    /// `auth` if the agent has no such login, or it needs a terminal.
    pub(crate) fn login(&self, id: &str) -> Result<&Login, Error> {
        let login = self.logins.iter().find(|login| login.id == id);
        let why = match login {
            Some(login) if !login.needs_terminal => return Ok(login),
            Some(_) => "needs a terminal",
            None => "does not exist",
        };
        let text = format!("login {id:?} of `auth_method` {why}; {}", self.login_hint());
        Err(Error::new(Category::Auth, text))
    }

    /// The ids of the logins that need no terminal, for an error.
    fn login_ids(&self) -> String {
        let logins = self.logins.iter().filter(|login| !login.needs_terminal);
        let ids: Vec<_> = logins.map(|login| format!("`{}`", login.id)).collect();
        ids.join(", ")
    }

    /// Returns the login hint: the variables and logins that the agent names.
    pub(crate) fn login_hint(&self) -> String {
        let variables: Vec<&str> = self
            .logins
            .iter()
            .flat_map(|login| &login.variables)
            .map(String::as_str)
            .collect();
        let names: Vec<&str> = self
            .logins
            .iter()
            .map(|login| login.name.as_str())
            .collect();
        let ids = self.login_ids();
        let or_by_method = if ids.is_empty() {
            String::new()
        } else {
            format!(", or set `auth_method` to one of its logins: {ids}")
        };
        match (variables.is_empty(), names.is_empty()) {
            (true, true) => "log in with the agent's own program".to_owned(),
            (true, false) => format!(
                "log in with the agent's own program ({}){or_by_method}",
                names.join("; ")
            ),
            (false, _) => format!(
                "set {}, or log in with the agent's own program ({}){or_by_method}",
                variables.join(" or "),
                names.join("; ")
            ),
        }
    }
}

impl Login {
    fn from_method(method: &Value) -> Option<Self> {
        let id = text(method, "id")?;
        let told = list(method, "vars")
            .iter()
            .filter_map(|one| text(one, "name").or_else(|| one.as_str()));
        let mut variables: Vec<String> = told.take(16).map(str::to_owned).collect();
        variables.extend(text(method, "varName").map(str::to_owned));
        if variables.is_empty() {
            // Variables of agents that take a key from their environment without naming it.
            let known: &[&str] = match id {
                "gemini-api-key" => &["GEMINI_API_KEY"],
                "vertex-ai" => &["GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI"],
                "openai-api-key" => &["OPENAI_API_KEY"],
                "codex-api-key" => &["CODEX_API_KEY"],
                "api-key" => &["OPENAI_API_KEY", "CODEX_API_KEY"],
                _ => &[],
            };
            variables.extend(known.iter().map(|name| (*name).to_owned()));
        }
        let name = text(method, "name")
            .unwrap_or(id)
            .chars()
            .take(120)
            .collect();
        Some(Self {
            id: id.to_owned(),
            name,
            variables,
            needs_terminal: text(method, "type") == Some("terminal"),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn capabilities_are_true_or_an_object_and_anything_else_is_none() {
        let initialized = InitializeResponse::parse(&json!({
            "protocolVersion": 1,
            "agentCapabilities": {
                "loadSession": true,
                "promptCapabilities": {"image": true, "embeddedContext": "yes"},
                "mcpCapabilities": {"http": true, "sse": 1},
                "sessionCapabilities": {"list": {}, "resume": null, "additionalDirectories": {}},
            },
            "agentInfo": {"name": "Copilot", "version": "1.0.102"},
            "authMethods": [{"id": "a", "type": "env_var", "vars": [{"name": "A_KEY"}]}, 7, {"name": "no id"}],
        }))
        .unwrap();
        assert!(
            initialized.loads
                && initialized.lists
                && !initialized.resumes
                && initialized.adds_directories
        );
        assert!(
            initialized.images
                && !initialized.resources
                && initialized.mcp.http
                && !initialized.mcp.sse
        );
        assert!(initialized.quirks.running_usage);
        assert_eq!(initialized.logins.len(), 1);
        assert_eq!(
            initialized
                .login_by_variables(|name| name == "A_KEY")
                .unwrap()
                .id,
            "a"
        );
        assert_eq!(initialized.login_by_variables(|_| false), None);
        assert!(initialized.login_hint().contains("A_KEY"));
    }

    #[test]
    fn a_login_is_named_with_the_next_step_and_one_in_a_terminal_is_refused() {
        let initialized = InitializeResponse::parse(&json!({ "authMethods": [
            { "id": "oauth", "name": "Browser" },
            { "id": "tty", "name": "Setup", "type": "terminal", "args": ["--setup"] },
        ] }))
        .unwrap();
        assert_eq!(initialized.login("oauth").unwrap().name, "Browser");
        for (id, part) in [("tty", "needs a terminal"), ("none", "does not exist")] {
            let error = initialized.login(id).unwrap_err();
            let text = error.to_string();
            for part in [
                part,
                "Browser; Setup",
                "`auth_method` to one of its logins: `oauth`",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
    }

    #[test]
    fn an_answer_of_any_shape_is_read_and_another_version_is_an_error() {
        for answer in [
            json!(null),
            json!([]),
            json!({"agentCapabilities": 3, "authMethods": {}}),
        ] {
            assert!(!InitializeResponse::parse(&answer).unwrap().loads);
        }
        let error = InitializeResponse::parse(&json!({"protocolVersion": 2})).unwrap_err();
        assert_eq!(error.failure().category, Some(Category::Protocol));
    }
}
