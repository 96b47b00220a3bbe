//! Options beyond the harmless ones that a session may set.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use super::quantity::shown;
use super::read::nearest_or_all;

/// The options that sessions of an agent may set without being held to its configuration ([ext.7]).
///
/// Every session may set what is harmless: the model, a system prompt, variables, denials, lower
/// bounds. The options of [`SessionOption`] can widen what the operator allowed. A session sets one
/// only to a value that is known to stay within the configuration, or where it is listed here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SessionMay {
    /// These options, to any value; none by default.
    Listed(BTreeSet<SessionOption>),
    /// Every option, to any value.
    All,
}

/// Makes the type of one table: each option with its name, which is the name of the field.
macro_rules! options {
    ($(#[$about:meta])* $Enum:ident { $($(#[$doc:meta])* $Option:ident = $name:literal,)+ }) => {
        $(#[$about])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum $Enum {
            $($(#[$doc])* $Option,)+
        }

        impl $Enum {
            /// Every such option.
            pub const ALL: [Self; [$($name),+].len()] = [$(Self::$Option),+];

            /// Returns the name, which is the name of the field.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$Option => $name,)+
                }
            }
        }
    };
}

pub(super) use options;

options! {
    /// An option of `session.start` and `session.update` that can widen an agent's configuration.
    SessionOption {
    /// `cwd`, outside `work_dir` and `allowed_dirs`.
    Cwd = "cwd",
    /// `add_dirs`, outside them.
    AddDirs = "add_dirs",
    /// `mode`, to one that is not known to ask at least as much as the configured one.
    Mode = "mode",
    /// `permission_mode`, likewise.
    PermissionMode = "permission_mode",
    /// `allowed_tools`: some agents run these without asking.
    AllowedTools = "allowed_tools",
    /// `allowed_domains`, beyond the configured ones.
    AllowedDomains = "allowed_domains",
    /// `mcp_servers`: a server can be any program, and any address that tools reach.
    McpServers = "mcp_servers",
    /// `skills`: folders with instructions and scripts.
    Skills = "skills",
    /// `env`: variables that configure the agent or load code into it.
    Env = "env",
    /// `extra_args`: arguments of the agent's command.
    ExtraArgs = "extra_args",
    /// `options`: options of the agent's own, of which only the agent knows what they allow.
    Options = "options",
    }
}

/// The fields of the `options` extension that every session may set.
pub(crate) const HARMLESS: &[&str] = &[
    "user_id",
    "task_id",
    "run_id",
    "role",
    "iteration",
    "variables",
    "model",
    "reasoning_effort",
    "temperature",
    "system_prompt",
    "system_prompt_mode",
    "denied_tools",
    "max_turns",
    "max_cost_usd",
    "max_tokens",
    "turn_timeout_ms",
    "inactivity_timeout_ms",
    "output_schema",
];

/// A name that is not an option of a session.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{}` is not an option of a session; {hint}", shown(.name))]
pub struct UnknownOption {
    name: String,
    hint: String,
}

impl SessionMay {
    /// Nothing beyond what is harmless; the default.
    pub const NONE: Self = Self::Listed(BTreeSet::new());

    /// These options.
    pub fn listed(options: impl IntoIterator<Item = SessionOption>) -> Self {
        Self::Listed(options.into_iter().collect())
    }

    /// Reads names of options, or the one word `all`. Harmless options may be among them; every
    /// session may set those.
    ///
    /// # Errors
    /// A name that is no option, with the nearest one.
    pub fn from_names<'n>(names: impl IntoIterator<Item = &'n str>) -> Result<Self, UnknownOption> {
        let mut options = BTreeSet::new();
        for name in names {
            match name {
                "all" => return Ok(Self::All),
                harmless if HARMLESS.contains(&harmless) => {}
                name => drop(options.insert(name.parse()?)),
            }
        }
        Ok(Self::Listed(options))
    }

    /// Returns true if a session may set this option to any value.
    pub fn has(&self, option: SessionOption) -> bool {
        match self {
            Self::Listed(options) => options.contains(&option),
            Self::All => true,
        }
    }

    /// The options that either allows.
    #[must_use]
    pub fn union(self, other: &Self) -> Self {
        match (self, other) {
            (Self::Listed(mut options), Self::Listed(more)) => {
                options.extend(more);
                Self::Listed(options)
            }
            _ => Self::All,
        }
    }
}

impl Default for SessionMay {
    fn default() -> Self {
        Self::NONE
    }
}

impl FromStr for SessionOption {
    type Err = UnknownOption;

    fn from_str(name: &str) -> Result<Self, UnknownOption> {
        let unknown = || {
            let known: Vec<_> = Self::ALL
                .map(Self::name)
                .into_iter()
                .chain(["all"])
                .collect();
            UnknownOption {
                name: name.to_owned(),
                hint: nearest_or_all(name, &known),
            }
        };
        Self::ALL
            .into_iter()
            .find(|option| option.name() == name)
            .ok_or_else(unknown)
    }
}

impl fmt::Display for SessionOption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
