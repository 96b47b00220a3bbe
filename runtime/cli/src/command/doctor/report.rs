//! Checks and their results. The worst check decides the status.

use serde::{Deserialize, Serialize};
use trunkline_host::redact;
pub(super) use trunkline_sdk::Level;

use crate::terminal::plain_line;

/// Combined result of several checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum CheckStatus {
    Pass,
    Warn,
    Fail,
}

impl CheckStatus {
    /// Combines levels: an error fails, a warning warns.
    fn combine(levels: impl IntoIterator<Item = Level>) -> Self {
        levels
            .into_iter()
            .max()
            .map_or(Self::Pass, |worst| match worst {
                Level::Info => Self::Pass,
                Level::Warn => Self::Warn,
                Level::Error => Self::Fail,
            })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Warn => "warn",
            Self::Fail => "fail",
        }
    }
}

/// A check and its result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct DoctorCheck {
    pub(super) code: String,
    pub(super) level: Level,
    #[serde(default)]
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

/// Declares every code with its level and its meaning.
macro_rules! codes {
    ($($code:ident = $name:literal, $level:ident, $meaning:literal;)*) => {
        /// Code of a check. Stable, because scripts match on it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum CheckCode { $($code),* }

        impl CheckCode {
            /// Every code, in the order of the table.
            pub(super) const ALL: &[Self] = &[$(Self::$code),*];

            pub(super) fn name(self) -> &'static str {
                match self { $(Self::$code => $name),* }
            }

            pub(super) fn level(self) -> Level {
                match self { $(Self::$code => Level::$level),* }
            }

            pub(super) fn meaning(self) -> &'static str {
                match self { $(Self::$code => $meaning),* }
            }
        }
    };
}

codes! {
    ConfigUnused = "config.unused", Info, "a key of the configuration has no effect";
    PolicyApplied = "policy.applied", Info, "the organisation's policy was read";
    PolicyNarrowed = "policy.narrowed", Info, "the policy restricts the agent's entry";
    PolicyRefused = "policy.refused", Error, "the policy forbids the agent's entry";
    PolicyUnreadable = "policy.unreadable", Error, "the policy cannot be read, so no agent can run";
    ChoiceAgent = "choice.agent", Info, "an environment variable selects the agent of `run`, `chat` and `serve`";
    ChoiceUnknown = "choice.unknown", Warn, "an environment variable names an unknown agent";
    ChoiceModel = "choice.model", Info, "an environment variable selects the model";
    StateUsable = "state_dir.usable", Info, "records of running processes can be stored";
    StateUnusable = "state_dir.unusable", Warn, "records cannot be stored, so no later run ends processes that outlive a crash";
    SpoolUsable = "spool_dir.usable", Info, "unread output can be stored on disk";
    SpoolUnusable = "spool_dir.unusable", Error, "unread output cannot be stored: a turn with much of it is ended";
    TempUsable = "temp_dir.usable", Info, "private folders of processes can be created";
    TempUnusable = "temp_dir.unusable", Error, "private folders cannot be created, so no agent can start";
    AgentUnchecked = "agent.unchecked", Error, "not checked: the host or the process cannot be created";
    ProfileUnknown = "profile.unknown", Error, "the built-in adapter does not exist";
    CommandFound = "command.found", Info, "the program exists and is executable";
    CommandMissing = "command.missing", Error, "the program does not exist";
    CommandNotExecutable = "command.not_executable", Error, "the program is not executable";
    CommandInterpreter = "command.interpreter", Error, "the program is a script whose interpreter is missing";
    CommandInImage = "command.in_image", Info, "the image of the container must contain the program";
    CommandVersion = "command.version", Info, "the reported version";
    WorkDirUsable = "work_dir.usable", Info, "the working directory exists";
    WorkDirUnusable = "work_dir.unusable", Error, "the working directory is missing, or cannot be entered";
    RootMissing = "file_roots.missing", Warn, "a folder of `file_roots` is missing or unusable";
    EnvGiven = "env.given", Info, "names of the variables of the process";
    EnvWithheld = "env.withheld", Info, "withheld variables that load code and are not declared";
    EnvMissing = "env.missing", Warn, "a variable of `env_passthrough` is not set";
    EnvUnresolved = "env.unresolved", Error, "a value is neither in its file nor in the host's environment";
    EnvEmpty = "env.empty", Warn, "a value from a file or a variable is empty";
    CredentialsNone = "credentials.none", Info, "no variable looks like a credential";
    CredentialsPresent = "credentials.present", Info, "variables that look like credentials";
    CredentialsKept = "credentials.kept", Info, "credentials of the host that `pass_credentials: false` withholds";
    CredentialInFile = "credentials.in_file", Warn, "the configuration file contains a credential";
    CredentialOpen = "credentials.open", Warn, "every user can read the file of a credential";
    ContainmentUsed = "containment.used", Info, "how the processes of the agent are ended";
    ContainmentWeaker = "containment.weaker", Warn, "a weaker containment than possible, and the reason";
    ContainmentUnavailable = "containment.unavailable", Error, "the requested containment does not work here";
    LimitsEnforced = "limits.enforced", Info, "the limits and their enforcers";
    LimitsWeaker = "limits.weaker", Warn, "a requested limit applies only partly, or not at all";
    SandboxNone = "sandbox.none", Info, "no sandbox: the agent has the rights of the host's user";
    SandboxUsed = "sandbox.used", Info, "the sandbox, and its access to the network";
    NetworkOpen = "network.open", Warn, "skills or MCP servers can send data out, because the network is open";
    SandboxWeaker = "sandbox.weaker", Warn, "the sandbox works, but could be stronger";
    SandboxRefused = "sandbox.refused", Error, "a path for the sandbox or the program inside is missing";
    SandboxImageMissing = "sandbox.image_missing", Error, "the image of its container is not on this machine";
    SandboxUnavailable = "sandbox.unavailable", Error, "the requested sandbox does not work here";
    AdapterNotAsked = "adapter.not_asked", Info, "not queried: only agents marked `sdk: true` support `--diagnose`";
    AdapterDiagnosed = "adapter.diagnosed", Info, "result of `--diagnose`; its checks follow as `adapter:CODE`";
    AdapterSilent = "adapter.silent", Error, "`--diagnose` did not end in time";
    AdapterUnclear = "adapter.unclear", Error, "`--diagnose` printed no report";
    HostHealthy = "host.healthy", Info, "the agent is healthy in the running host";
    HostUnhealthy = "host.unhealthy", Warn, "the agent has a problem in the running host, such as repeated failures";
    StartStarted = "start.started", Info, "with --start: the process started";
    StartFailed = "start.failed", Error, "with --start: the process did not start";
    StartReady = "start.ready", Info, "with --start: it reported that it is ready";
    StartQuiet = "start.quiet", Info, "with --start: it did not report that it is ready, which core-only adapters never do";
    StartEnded = "start.ended", Error, "with --start: it ended before the end of its stdin";
    StartStopped = "start.stopped", Info, "with --start: it ended at the end of its stdin";
    StartKilled = "start.killed", Warn, "with --start: it had to be killed";
}

impl CheckCode {
    /// Creates the result of a check of this program.
    pub(super) fn check(self, message: impl AsRef<str>) -> DoctorCheck {
        DoctorCheck {
            code: self.name().to_owned(),
            level: self.level(),
            message: clean_text(message.as_ref()),
            detail: None,
            hint: None,
        }
    }
}

impl DoctorCheck {
    /// Cleans a check that an adapter reported, under a code that shows its origin.
    pub(super) fn of_adapter(self) -> Self {
        let is_plain = |c: &char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
        let code: String = self
            .code
            .chars()
            .filter(is_plain)
            .take(MAX_CODE_CHARS)
            .collect();
        Self {
            code: format!("adapter:{code}"),
            message: shown_foreign(&self.message),
            detail: self.detail.map(|detail| shown_foreign(&detail)),
            hint: self.hint.map(|hint| clean_text(&hint)),
            ..self
        }
    }

    /// Adds the output of a program, or of the system, that the check is about.
    pub(super) fn detail(self, detail: impl AsRef<str>) -> Self {
        Self {
            detail: Some(shown_foreign(detail.as_ref())),
            ..self
        }
    }

    /// Adds the next step.
    pub(super) fn hint(self, hint: impl AsRef<str>) -> Self {
        Self {
            hint: Some(clean_text(hint.as_ref())),
            ..self
        }
    }
}

/// Limit of an adapter's code, in characters.
const MAX_CODE_CHARS: usize = 64;

/// Limit of a text of a check, in characters, because some texts come from untrusted programs.
const MAX_TEXT_CHARS: usize = 2000;

/// Cleans a text for display: one line, without known secrets and control characters.
pub(super) fn clean_text(text: &str) -> String {
    plain_line(&redact::message(text.trim()), MAX_TEXT_CHARS)
}

/// Cleans a text of another program: also redacts anything that looks like a secret.
pub(super) fn shown_foreign(text: &str) -> String {
    clean_text(&redact::text(text))
}

/// Report about one agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct AgentReport {
    pub(super) agent: String,
    pub(super) profile: String,
    pub(super) status: CheckStatus,
    pub(super) checks: Vec<DoctorCheck>,
    pub(super) tested_at: String,
}

/// The whole report.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct DoctorReport {
    pub(super) status: CheckStatus,
    /// Source of the configuration.
    pub(super) configuration: String,
    /// Checks that concern every agent.
    pub(super) host: HostReport,
    pub(super) agents: Vec<AgentReport>,
}

/// Checks that concern every agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct HostReport {
    pub(super) status: CheckStatus,
    pub(super) checks: Vec<DoctorCheck>,
}

impl AgentReport {
    pub(super) fn new(
        agent: &str,
        profile: &str,
        checks: Vec<DoctorCheck>,
        tested_at: String,
    ) -> Self {
        let status = CheckStatus::combine(checks.iter().map(|check| check.level));
        Self {
            agent: clean_text(agent),
            profile: profile.to_owned(),
            status,
            checks,
            tested_at,
        }
    }
}

impl DoctorReport {
    pub(super) fn new(
        configuration: &str,
        host: Vec<DoctorCheck>,
        agents: Vec<AgentReport>,
    ) -> Self {
        let host = HostReport {
            status: CheckStatus::combine(host.iter().map(|check| check.level)),
            checks: host,
        };
        let worst = agents
            .iter()
            .map(|agent| agent.status)
            .chain([host.status])
            .max();
        Self {
            status: worst.unwrap_or(CheckStatus::Pass),
            configuration: clean_text(configuration),
            host,
            agents,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn any_error_fails_and_any_warning_warns() {
        use Level::{Error, Info, Warn};
        for (levels, status) in [
            (&[][..], CheckStatus::Pass),
            (&[Info, Info], CheckStatus::Pass),
            (&[Info, Warn], CheckStatus::Warn),
            (&[Error, Warn, Info], CheckStatus::Fail),
        ] {
            assert_eq!(
                CheckStatus::combine(levels.iter().copied()),
                status,
                "{levels:?}"
            );
        }
        let agent =
            |code: CheckCode| AgentReport::new("a", "echo", vec![code.check("x")], String::new());
        let status = |host: CheckCode, code| {
            DoctorReport::new("", vec![host.check("x")], vec![agent(code)]).status
        };
        assert_eq!(
            status(CheckCode::TempUsable, CheckCode::CommandFound),
            CheckStatus::Pass
        );
        assert_eq!(
            status(CheckCode::StateUnusable, CheckCode::CommandFound),
            CheckStatus::Warn
        );
        assert_eq!(
            status(CheckCode::TempUsable, CheckCode::CommandMissing),
            CheckStatus::Fail
        );
    }

    #[test]
    fn every_code_is_there_once() {
        let names: BTreeSet<_> = CheckCode::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), CheckCode::ALL.len());
        assert!(CheckCode::ALL.iter().all(|code| !code.meaning().is_empty()));
    }

    #[test]
    fn a_foreign_text_stays_a_line_of_bounded_length() {
        let check = CheckCode::AdapterUnclear
            .check("a\nb\u{1b}[2Jc")
            .detail("x".repeat(5000))
            .hint(" h ");
        assert_eq!(check.message, "a b [2Jc");
        assert_eq!(check.detail.unwrap().chars().count(), MAX_TEXT_CHARS + 1);
        assert_eq!(check.hint.as_deref(), Some("h"));
    }
}
