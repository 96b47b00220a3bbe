//! What was checked and how it came out. The worst check decides.

use serde::Serialize;
use trunkline_host::redact;
pub(super) use trunkline_sdk::Level;

use crate::terminal::plain_line;

/// What all checks of one thing come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Status {
    Pass,
    Warn,
    Fail,
}

impl Status {
    /// Any error fails, any warning warns.
    fn of(levels: impl IntoIterator<Item = Level>) -> Self {
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

/// One thing that was checked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Check {
    pub(super) code: String,
    pub(super) level: Level,
    pub(super) message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) detail: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) hint: Option<String>,
}

/// Declares every code with its level and what it means.
macro_rules! codes {
    ($($code:ident = $name:literal, $level:ident, $meaning:literal;)*) => {
        /// What a check may find. Names do not change: scripts look for them.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub(super) enum Code { $($code),* }

        impl Code {
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
    PolicyNarrowed = "policy.narrowed", Info, "the policy takes something from what the entry says";
    PolicyRefused = "policy.refused", Error, "the policy forbids what the entry says";
    PolicyUnreadable = "policy.unreadable", Error, "the policy cannot be read, so no agent is run";
    ChoiceAgent = "choice.agent", Info, "the environment names the agent of `run`, `chat` and `serve`";
    ChoiceUnknown = "choice.unknown", Warn, "it names one that is neither configured nor built in";
    ChoiceModel = "choice.model", Info, "a variable of the environment chooses the model";
    StateUsable = "state_dir.usable", Info, "records of live processes can be kept";
    StateUnusable = "state_dir.unusable", Warn, "they cannot: nothing ends what a power cut leaves";
    SpoolUsable = "spool_dir.usable", Info, "unread output can wait on disk";
    SpoolUnusable = "spool_dir.unusable", Error, "it cannot: a turn with much unread output is ended";
    TempUsable = "temp_dir.usable", Info, "private folders of processes can be made";
    TempUnusable = "temp_dir.unusable", Error, "they cannot: no agent starts";
    AgentUnchecked = "agent.unchecked", Error, "it was not looked at: the host or its process cannot be made";
    ProfileUnknown = "profile.unknown", Error, "this program has no such built-in adapter";
    CommandFound = "command.found", Info, "the program is there and may be run";
    CommandMissing = "command.missing", Error, "it is not";
    CommandNotExecutable = "command.not_executable", Error, "it is there and may not be run";
    CommandInterpreter = "command.interpreter", Error, "it is a script whose interpreter is missing";
    CommandInImage = "command.in_image", Info, "it is the image of the container that has to have the program";
    CommandVersion = "command.version", Info, "which version it says it is";
    WorkDirUsable = "work_dir.usable", Info, "the working directory is there";
    WorkDirUnusable = "work_dir.unusable", Error, "it is missing, or may not be entered";
    RootMissing = "file_roots.missing", Warn, "a folder that files may come from is not there, or cannot be one";
    EnvGiven = "env.given", Info, "the names that the process gets";
    EnvWithheld = "env.withheld", Info, "names that load code, withheld because they are not declared";
    EnvMissing = "env.missing", Warn, "a name of `env_passthrough` that the host does not have";
    EnvUnresolved = "env.unresolved", Error, "a value that is neither in its file nor in the host's environment";
    EnvEmpty = "env.empty", Warn, "a value from elsewhere that is empty";
    CredentialsNone = "credentials.none", Info, "no name in its environment looks like a credential";
    CredentialsPresent = "credentials.present", Info, "those that do";
    CredentialsKept = "credentials.kept", Info, "credentials of the host that `pass_credentials: false` keeps from it";
    CredentialInFile = "credentials.in_file", Warn, "the configuration file itself holds one";
    CredentialOpen = "credentials.open", Warn, "a file with one may be read by every user";
    ContainmentUsed = "containment.used", Info, "how what it starts is kept from outliving it";
    ContainmentWeaker = "containment.weaker", Warn, "the same, and why it is not a better way";
    ContainmentUnavailable = "containment.unavailable", Error, "the way that was asked for does not work here";
    LimitsEnforced = "limits.enforced", Info, "who makes the limits hold";
    LimitsWeaker = "limits.weaker", Warn, "a limit that was asked for holds for less than the whole tree, or not";
    SandboxNone = "sandbox.none", Info, "it has the rights of the user who runs the host";
    SandboxUsed = "sandbox.used", Info, "what makes the sandbox, and what can be reached from it";
    NetworkOpen = "network.open", Warn, "skills or MCP servers can carry data out: nothing bounds what is reached";
    SandboxWeaker = "sandbox.weaker", Warn, "the sandbox works, and could be stronger";
    SandboxRefused = "sandbox.refused", Error, "what it is to be given is missing, or the program is not there inside";
    SandboxImageMissing = "sandbox.image_missing", Error, "the image of its container is not on this machine";
    SandboxUnavailable = "sandbox.unavailable", Error, "the sandbox that was asked for does not work here";
    AdapterNotAsked = "adapter.not_asked", Info, "not marked `sdk: true`: it would take `--diagnose` for a run";
    AdapterDiagnosed = "adapter.diagnosed", Info, "what its own `--diagnose` came to; its checks follow as `adapter:CODE`";
    AdapterSilent = "adapter.silent", Error, "its `--diagnose` did not end in time";
    AdapterUnclear = "adapter.unclear", Error, "its `--diagnose` gave no report";
    HostHealthy = "host.healthy", Info, "the running host finds nothing wrong with its agent of this name";
    HostUnhealthy = "host.unhealthy", Warn, "the running host's agent of this name has a problem, such as turns that fail alike";
    StartStarted = "start.started", Info, "with --start: the process started";
    StartFailed = "start.failed", Error, "with --start: it did not";
    StartReady = "start.ready", Info, "with --start: it said that it is ready";
    StartQuiet = "start.quiet", Info, "with --start: it did not say so, as adapters that know the core alone do not";
    StartEnded = "start.ended", Error, "with --start: it ended by itself before it was asked to";
    StartStopped = "start.stopped", Info, "with --start: it ended when it was asked to";
    StartKilled = "start.killed", Warn, "with --start: it had to be killed";
}

impl Check {
    /// What was found, in a sentence of its own.
    pub(super) fn new(code: Code, message: impl AsRef<str>) -> Self {
        Self {
            code: code.name().to_owned(),
            level: code.level(),
            message: shown(message.as_ref()),
            detail: None,
            hint: None,
        }
    }

    /// A check that an adapter made itself.
    pub(super) fn of_adapter(code: String, level: Level, message: &str) -> Self {
        Self {
            code,
            level,
            message: shown_foreign(message),
            detail: None,
            hint: None,
        }
    }

    /// Adds the words of a program, or of the system, that the check is about.
    pub(super) fn detail(self, detail: impl AsRef<str>) -> Self {
        Self {
            detail: Some(shown_foreign(detail.as_ref())),
            ..self
        }
    }

    /// Adds what to do about it.
    pub(super) fn hint(self, hint: impl AsRef<str>) -> Self {
        Self {
            hint: Some(shown(hint.as_ref())),
            ..self
        }
    }
}

/// The longest text of a check, in characters: some come from programs that are not trusted.
const MOST: usize = 2000;

/// A text as it may be shown: without known secrets, on one line, without characters that steer a terminal.
pub(super) fn shown(text: &str) -> String {
    plain_line(&redact::message(text.trim()), MOST)
}

/// The same for a text that this program did not write: what looks like a secret is hidden, too.
pub(super) fn shown_foreign(text: &str) -> String {
    shown(&redact::text(text))
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct AgentReport {
    pub(super) agent: String,
    pub(super) profile: String,
    pub(super) status: Status,
    pub(super) checks: Vec<Check>,
    pub(super) tested_at: String,
}

/// Everything.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Report {
    pub(super) status: Status,
    /// Where the configuration comes from.
    pub(super) configuration: String,
    /// What concerns every agent.
    pub(super) host: HostReport,
    pub(super) agents: Vec<AgentReport>,
}

/// What concerns every agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct HostReport {
    pub(super) status: Status,
    pub(super) checks: Vec<Check>,
}

impl AgentReport {
    pub(super) fn new(agent: &str, profile: &str, checks: Vec<Check>, tested_at: String) -> Self {
        let status = Status::of(checks.iter().map(|check| check.level));
        Self {
            agent: shown(agent),
            profile: profile.to_owned(),
            status,
            checks,
            tested_at,
        }
    }
}

impl Report {
    pub(super) fn new(configuration: &str, host: Vec<Check>, agents: Vec<AgentReport>) -> Self {
        let host = HostReport {
            status: Status::of(host.iter().map(|check| check.level)),
            checks: host,
        };
        let worst = agents
            .iter()
            .map(|agent| agent.status)
            .chain([host.status])
            .max();
        Self {
            status: worst.unwrap_or(Status::Pass),
            configuration: shown(configuration),
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
            (&[][..], Status::Pass),
            (&[Info, Info], Status::Pass),
            (&[Info, Warn], Status::Warn),
            (&[Error, Warn, Info], Status::Fail),
        ] {
            assert_eq!(Status::of(levels.iter().copied()), status, "{levels:?}");
        }
        let agent =
            |code| AgentReport::new("a", "echo", vec![Check::new(code, "x")], String::new());
        let status =
            |host, code| Report::new("", vec![Check::new(host, "x")], vec![agent(code)]).status;
        assert_eq!(status(Code::TempUsable, Code::CommandFound), Status::Pass);
        assert_eq!(
            status(Code::StateUnusable, Code::CommandFound),
            Status::Warn
        );
        assert_eq!(status(Code::TempUsable, Code::CommandMissing), Status::Fail);
    }

    #[test]
    fn every_code_is_there_once() {
        let names: BTreeSet<_> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(names.len(), Code::ALL.len());
        assert!(Code::ALL.iter().all(|code| !code.meaning().is_empty()));
    }

    #[test]
    fn a_foreign_text_stays_a_line_of_bounded_length() {
        let check = Check::new(Code::AdapterUnclear, "a\nb\u{1b}[2Jc")
            .detail("x".repeat(5000))
            .hint(" h ");
        assert_eq!(check.message, "a b [2Jc");
        assert_eq!(check.detail.unwrap().chars().count(), MOST + 1);
        assert_eq!(check.hint.as_deref(), Some("h"));
    }
}
