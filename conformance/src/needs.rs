//! Needs of a case, and the abilities that an author declares.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A need of a case.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Need {
    /// These operations of the probe.
    Probe(Vec<&'static str>),
    /// These operations of the probe, or this recipe.
    ProbeOr(Vec<&'static str>, &'static str),
    /// This recipe.
    Recipe(&'static str),
    /// A declared ability.
    Ability(Ability),
    /// An extension that the adapter agrees on when it is offered.
    Extension(&'static str),
    /// Any extension at all.
    AnyExtension,
    /// The second adapter of a host: `{adapter2}` in its command.
    SecondAdapter,
    /// A journal that a host keeps: `{journal}` in its command.
    Journal,
    /// A socket on which that host takes further hubs.
    Hubs,
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probe(ops) => write!(f, "the probe ({})", ops.join(", ")),
            Self::ProbeOr(ops, recipe) => {
                write!(f, "the probe ({}) or recipe `{recipe}`", ops.join(", "))
            }
            Self::Recipe(recipe) => write!(f, "recipe `{recipe}`"),
            Self::Ability(ability) => write!(f, "ability `{}`", ability.name()),
            Self::Extension(name) => write!(f, "extension `{name}`"),
            Self::AnyExtension => f.write_str("an extension"),
            Self::SecondAdapter => f.write_str("`{adapter2}` in the command"),
            Self::Journal => f.write_str("extension `journal`, with `{journal}` in the command"),
            Self::Hubs => f.write_str("`hubs`, the socket for further hubs"),
        }
    }
}

/// An ability that an author declares of an adapter or host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ability {
    /// Turns of different sessions run at the same time.
    ConcurrentTurns,
    /// Inputs during a turn are queued.
    QueuesInput,
    /// Asks for permission.
    Permissions,
    /// Accepts files.
    FilesIn,
    /// Sends files.
    FilesOut,
    /// One process serves many sessions (a host's promise about its adapter).
    Multiplexes,
    /// Restarts an adapter after its end.
    Restarts,
}

impl Ability {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::ConcurrentTurns,
        Self::QueuesInput,
        Self::Permissions,
        Self::FilesIn,
        Self::FilesOut,
        Self::Multiplexes,
        Self::Restarts,
    ];

    /// Finds the ability of that name; `also` is a further name that the caller knows.
    ///
    /// # Errors
    ///
    /// A message with the known names.
    pub(crate) fn parse(name: &str, also: &str) -> Result<Self, String> {
        let ability = Self::ALL.into_iter().find(|ability| ability.name() == name);
        ability.ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            format!("unknown ability `{name}`; known are {also}, {known}")
        })
    }

    /// The name in the configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::ConcurrentTurns => "concurrent_turns",
            Self::QueuesInput => "queues_input",
            Self::Permissions => "permissions",
            Self::FilesIn => "files_in",
            Self::FilesOut => "files_out",
            Self::Multiplexes => "multiplexes",
            Self::Restarts => "restarts",
        }
    }
}
