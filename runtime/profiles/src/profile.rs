//! The profiles, and their execution.

use std::{ffi::OsString, marker::PhantomData, process::ExitCode, sync::LazyLock, time::Duration};

use serde::de::{DeserializeOwned, Error as _};
use serde_json::Value;
use serde_path_to_error::Track;
use trunkline_sdk::{Adapter, Error, Program};

use crate::acp::generic;
use crate::agent::credentials::Credentials;
use crate::agent::{log, model};
use crate::agents::{self, AgentFile, Oneshot};
use crate::oneshot::{copilot, gemini, opencode};
use crate::{
    Echo, claude_code, codex, generic_cli, generic_http, generic_job, mock, oneshot, pi, replay,
};

/// Time for the dropped processes of an ended adapter to end. The rest of the 5 s of [process.1]
/// belongs to its host.
const SETTLE: Duration = Duration::from_secs(1);

/// Reason why an object is not a configuration of a profile, with the key. The text may contain the
/// value.
pub type Refused = serde_path_to_error::Error<serde_json::Error>;

/// A built-in adapter.
#[derive(Debug, Clone, Copy)]
pub struct Profile {
    /// Name in the configuration and for `trunkline adapter`.
    pub name: &'static str,
    /// Purpose, in a line.
    pub description: &'static str,
    /// The agent that it wraps, if any.
    agent: Option<&'static AgentFile>,
    check: fn(&Value) -> Result<(), Refused>,
    run: fn(&Self, Vec<OsString>) -> ExitCode,
    #[cfg(test)]
    schema: Option<tests::Checked>,
}

impl Profile {
    /// Reads an object as the adapter does when it starts, checks it as the opening of a session
    /// does, and changes nothing.
    ///
    /// # Errors
    /// The first thing that is wrong with it.
    pub fn check(&self, config: &Value) -> Result<(), Refused> {
        (self.check)(config)
    }

    /// The credentials that its agent takes. `None` if it wraps none that is known.
    #[must_use]
    pub fn credentials(&self) -> Option<&'static Credentials> {
        self.agent?.credentials.as_ref()
    }

    /// Returns true if its agent may have a logout: a command, or the method of ACP, which only the
    /// agent knows.
    #[must_use]
    pub fn may_log_out(&self) -> bool {
        let has_command = self
            .credentials()
            .is_some_and(|known| known.logout().is_some());
        has_command || self.name == "acp"
    }

    /// The variables by which its agent finds the way out of this machine: proxies, and
    /// certificates of authorities.
    #[must_use]
    pub fn network_variables(&self) -> &'static [&'static str] {
        match self.agent {
            Some(_) => NETWORK_VARIABLES,
            None => &[],
        }
    }

    /// Returns true if its adapter enforces `denied_tools` of a session ([ext.7]).
    #[must_use]
    pub fn denies_tools(&self) -> bool {
        const OPTION: &str = "denied_tools";
        let mut of_file = self
            .agent
            .iter()
            .flat_map(|agent| &agent.acp)
            .flat_map(|acp| &acp.honours);
        of_file.any(|option| option == OPTION)
            || (self.name == "claude-code" && claude_code::HONOURED.contains(&OPTION))
    }

    /// Facts of the agent that it wraps, if that is a known one.
    #[must_use]
    pub fn wrapped(&self) -> Option<WrappedAgent> {
        let agent = self.agent.filter(|agent| !agent.install.is_empty())?;
        Some(WrappedAgent {
            title: &agent.title,
            program: &agent.program,
            install: &agent.install,
            tested: agent.tested.as_deref(),
            documentation: &agent.documentation,
        })
    }

    /// Returns the variables that choose its agent's model, if neither session nor configuration
    /// names one.
    pub fn model_variables(&self) -> impl Iterator<Item = &'static str> + use<> {
        model::variables(self.name)
    }

    /// Returns true if its adapter works in any folder that a session names. The others have no use
    /// for one.
    #[must_use]
    pub fn knows_folders(&self) -> bool {
        !WITHOUT_FOLDERS.contains(&self.name)
    }
}

/// Variables that agents document for proxies and certificates.
const NETWORK_VARIABLES: &[&str] = &[
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "NODE_USE_ENV_PROXY",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "REQUESTS_CA_BUNDLE",
    "CODEX_CA_CERTIFICATE",
];

/// Facts of an agent that a profile wraps.
#[derive(Debug, Clone, Copy)]
pub struct WrappedAgent {
    /// Name of the product.
    pub title: &'static str,
    /// Program, unless the configuration names another.
    pub program: &'static str,
    /// Command that installs it.
    pub install: &'static str,
    /// Version that was run in the tests with real programs; `None` if none was: the facts come
    /// from `documentation`.
    pub tested: Option<&'static str>,
    /// Page of the agent's own documentation.
    pub documentation: &'static str,
}

/// The profiles whose adapters honour no `cwd`.
const WITHOUT_FOLDERS: [&str; 4] = ["generic-http", "echo", "mock", "replay"];

/// The type that a profile reads as its configuration, and the schema that was made of it.
struct Configured<C>(&'static str, PhantomData<C>);

impl<C: DeserializeOwned> Configured<C> {
    fn by<A: Adapter>(self, build: impl FnOnce(C) -> A + Send + 'static) -> Program {
        Program::configured_by(self.0, build)
    }
}

/// The error for a configuration that can be read, and with which no session could be opened.
fn unusable(error: &Error) -> Refused {
    Refused::new(Track::new().path(), serde_json::Error::custom(error))
}

/// An entry of the table. `opens` checks what the opening of each session checks of the
/// configuration. What is read, what is checked and what the schema describes are the one type that
/// it names. The closure makes the program of a configuration; `before` answers arguments for which
/// no adapter is run.
macro_rules! profile {
    ($name:expr, $description:expr, $schema:literal, $Config:ty, $program:expr $(, before $before:path)? $(, opens $opens:path)?) => {{
        // Checked in, and held against the type by a test, so that no schema generator is in the build.
        const SCHEMA: &str = include_str!(concat!("../schema/", $schema, ".schema.json"));
        Profile {
            name: $name,
            description: $description,
            agent: agents::by_name($name),
            check: |config| {
                let config: $Config = serde_path_to_error::deserialize(config)?;
                $($opens(&config).map_err(|error| unusable(&error))?;)?
                drop(config);
                Ok(())
            },
            run: |profile, arguments| {
                $(if let Some(code) = $before(&arguments) {
                    return code;
                })?
                let program: fn(Configured<$Config>, &Profile, &[OsString]) -> Program = $program;
                let program = program(Configured(SCHEMA, PhantomData), profile, &arguments);
                program.arguments(arguments).run()
            },
            #[cfg(test)]
            schema: Some(tests::Checked { name: $schema, is: SCHEMA, of_type: || schemars::schema_for!($Config) }),
        }
    }};
}

/// The profile of an agent that has a file.
macro_rules! wrapping {
    ($file:expr, $($rest:tt)*) => {{
        let file = $file;
        profile! { file.name.as_str(), file.description.as_str(), $($rest)* }
    }};
}

/// Every profile, in the order in which they are listed.
pub static PROFILES: LazyLock<Vec<Profile>> = LazyLock::new(|| {
    let mut profiles = vec![
        wrapping! { agents::built_in("claude-code"), "claude-code", claude_code::Settings, |config, _, _| {
            config.by(claude_code::ClaudeCode::new).stop_grace(claude_code::STOP_GRACE)
        }, opens claude_code::check },
        wrapping! { agents::built_in("codex"), "codex", codex::Settings, |config, _, _| {
            config.by(codex::Codex::new)
        }, opens codex::check },
    ];
    let (with_dialect, others): (Vec<_>, Vec<_>) = agents::all()
        .filter(|file| file.acp.is_some() && file.name != "acp")
        .partition(|file| file.oneshot.is_some());
    profiles.extend(with_dialect.into_iter().map(of_agent));
    profiles.push(
        wrapping! { agents::built_in("pi"), "pi", pi::Pi, |config, _, _| {
            config.by(pi::PiAdapter::new)
        } },
    );
    profiles.extend(others.into_iter().map(of_agent));
    profiles.extend(of_programs());
    profiles
});

/// The profile of an agent that speaks ACP.
fn of_agent(file: &'static AgentFile) -> Profile {
    match file.oneshot {
        Some(Oneshot::Gemini) => {
            wrapping! { file, "gemini-cli", gemini::Gemini, |config, _, _| {
                config.by(|settings| oneshot::adapter(gemini::GeminiRuns::from(settings)))
            } }
        }
        Some(Oneshot::Copilot) => {
            wrapping! { file, "github-copilot", copilot::Copilot, |config, _, _| {
                config.by(|settings| oneshot::adapter(copilot::CopilotRuns::from(settings)))
            } }
        }
        Some(Oneshot::Kilo) => {
            wrapping! { file, "kilo-code", opencode::Kilo, |config, _, _| {
                config.by(|settings| oneshot::adapter(opencode::OpencodeRuns::from(settings)))
            } }
        }
        Some(Oneshot::Opencode) => {
            wrapping! { file, "opencode", opencode::Opencode, |config, _, _| {
                config.by(|settings| oneshot::adapter(opencode::OpencodeRuns::from(settings)))
            } }
        }
        None => Profile {
            // That of the profile `acp`, which a test holds against the type.
            #[cfg(test)]
            schema: None,
            ..wrapping! { file, "acp", generic::NamedSettings, |config, profile, _| {
                let file = agents::built_in(profile.name);
                config.by(move |settings| generic::named_adapter(file, settings))
            } }
        },
    }
}

/// The profiles of any program, and those for tests.
fn of_programs() -> [Profile; 7] {
    [
        wrapping! { agents::built_in("acp"), "acp", generic::Settings, |config, _, _| {
            config.by(generic::adapter).described(generic::description())
        } },
        profile! { "generic-cli", "Any interactive program: input to its stdin, its output the answer",
        "generic-cli", generic_cli::CliConfig, |config, _, arguments| {
            let own = generic_cli::pty::OwnCommand::from_arguments(arguments);
            let program = config.by(|config| generic_cli::GenericCli::new(config, own));
            program.described(generic_cli::description(false))
        }, before generic_cli::pty::asked },
        profile! { "generic-job", "Any program that runs to its end: each input a run, its output the answer",
        "generic-job", generic_job::JobConfig, |config, _, _| {
            config.by(generic_job::GenericJob::new).described(generic_job::description())
        } },
        profile! { "generic-http", "Any server: each input a request, its response the answer, streamed where it is",
        "generic-http", generic_http::HttpConfig, |config, _, _| {
            config.by(generic_http::GenericHttp::new).described(generic_http::description())
        } },
        Profile {
            name: "echo",
            description: "Repeats its input; commands show permissions, files, stops and failures",
            agent: None,
            check: |_| Ok(()),
            run: |_, arguments| Program::new(Echo).arguments(arguments).run(),
            #[cfg(test)]
            schema: None,
        },
        profile! { "mock", "Plays a script of outputs, delays, tools, permissions and failures; for tests",
        "mock", mock::MockConfig, |config, _, _| config.by(mock::Mock::new) },
        profile! { "replay", "A recorded session, played back in its own time or at once",
        "replay", replay::ReplayConfig, |config, _, _| {
            config.by(replay::Replay::new).described(replay::description())
        } },
    ]
}

/// Runs a profile as this process's adapter until its host is done with it, and returns what `main`
/// returns. Nothing when there is no such profile.
///
/// The arguments are those after the profile's name: `--describe`, `--diagnose` and `--log-out` are answered.
pub fn run<S: Into<OsString>>(
    name: &str,
    arguments: impl IntoIterator<Item = S>,
) -> Option<ExitCode> {
    let profile = PROFILES.iter().find(|profile| profile.name == name)?;
    log::set_profile(profile.name);
    let code = (profile.run)(profile, arguments.into_iter().map(Into::into).collect());
    if !trunkline_process::settle(SETTLE) {
        tracing::debug!("what agents leave behind is left to the host");
    }
    Some(code)
}

#[cfg(test)]
mod tests {
    use std::{fs, path::PathBuf};

    use super::*;

    /// The checked-in schema, and the schema of the type.
    #[derive(Debug, Clone, Copy)]
    pub(super) struct Checked {
        pub(super) name: &'static str,
        pub(super) is: &'static str,
        pub(super) of_type: fn() -> schemars::Schema,
    }

    #[test]
    fn the_checked_in_schemas_are_current() {
        for schema in PROFILES.iter().filter_map(|profile| profile.schema) {
            let name = schema.name;
            let now = serde_json::to_string_pretty(&(schema.of_type)().to_value()).unwrap() + "\n";
            let file = PathBuf::from(env!("CARGO_MANIFEST_DIR"))
                .join(format!("schema/{name}.schema.json"));
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                fs::write(&file, now).unwrap();
                continue;
            }
            assert!(
                schema.is == now,
                "{} has drifted; UPDATE_GOLDEN=1 rewrites it",
                file.display()
            );
        }
    }

    #[test]
    fn a_configuration_is_checked_as_the_adapter_reads_it() {
        let check = |name: &str, config: Value| {
            let profile = PROFILES
                .iter()
                .find(|profile| profile.name == name)
                .unwrap();
            profile
                .check(&config)
                .map_err(|refused| (refused.path().to_string(), refused.to_string()))
        };
        assert!(check("codex", serde_json::json!({ "model": "m" })).is_ok());
        for (profile, config, option) in [
            (
                "codex",
                serde_json::json!({ "sandbox_mode": "danger-full-access" }),
                "dangerous_full_access",
            ),
            (
                "codex",
                serde_json::json!({ "approval_mode": "sometimes" }),
                "approval",
            ),
            (
                "claude-code",
                serde_json::json!({ "permission_mode": "bypassPermissions" }),
                "dangerous",
            ),
            (
                "claude-code",
                serde_json::json!({ "permission_mode": "sometimes" }),
                "permission mode",
            ),
            (
                "claude-code",
                serde_json::json!({ "args": ["--dangerously-skip-permissions"] }),
                "dangerous",
            ),
        ] {
            let (_, why) = check(profile, config.clone()).unwrap_err();
            assert!(
                why.contains(option),
                "what refuses every session is an error of the file: {config}: {why}"
            );
        }
        let (path, why) =
            check("mock", serde_json::json!({ "turns": [{ "stps": [] }] })).unwrap_err();
        assert!(
            path == "turns[0].stps" && why.contains("unknown field `stps`"),
            "{path}: {why}"
        );
        assert!(
            check("acp", serde_json::json!({}))
                .unwrap_err()
                .1
                .contains("`command` is missing")
        );
        assert!(check("echo", serde_json::json!({ "any": 1 })).is_ok());
    }
}
