//! The registry of the protocol's clauses: their demands, the side they bind, their level and
//! basis.
//!
//! The ids are those in `protocol/SPEC.md`; the data is `clauses.toml` beside this crate's
//! manifest.

use std::fmt;
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

#[cfg(test)]
mod tests;

/// One of the two programs on a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Side {
    /// The one that starts the process and writes its stdin.
    Host,
    /// The process that was started.
    Adapter,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Host => "host",
            Self::Adapter => "adapter",
        })
    }
}

/// Side that a clause binds, as SPEC.md names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum BoundSide {
    /// Hosts.
    Host,
    /// Adapters.
    Adapter,
    /// Either side.
    Both,
    /// A host that is driven over this protocol.
    Relay,
}

impl BoundSide {
    /// Returns true if the clause can be broken by a program on `side`. A relay is judged as a
    /// host.
    pub(crate) fn includes(self, side: Side) -> bool {
        match self {
            Self::Both => true,
            Self::Host | Self::Relay => side == Side::Host,
            Self::Adapter => side == Side::Adapter,
        }
    }
}

impl fmt::Display for BoundSide {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Host => "host",
            Self::Adapter => "adapter",
            Self::Both => "both",
            Self::Relay => "relay",
        })
    }
}

/// Level of a rule; the strongest word of a clause is the clause's level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Level {
    /// Worth a remark, never a failure.
    May,
    /// A warning, unless the run is strict.
    Should,
    /// A failure.
    Must,
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::May => "may",
            Self::Should => "should",
            Self::Must => "must",
        })
    }
}

/// Basis of a clause. Only breaches of the first three are reported as "violates the protocol".
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Basis {
    /// The ten messages of the published core.
    Spec,
    /// RFC 8259, UTF-8 and one JSON value a line.
    Json,
    /// Without it the published core cannot work.
    Derived,
    /// A choice of this specification. Results of schema 1 call it `profile`.
    #[serde(alias = "profile")]
    Choice,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Spec => "spec",
            Self::Json => "json",
            Self::Derived => "derived",
            Self::Choice => "choice",
        })
    }
}

/// A clause of the protocol.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Clause {
    /// The id in SPEC.md, such as `turn.1`.
    pub id: String,
    /// Side that it binds.
    pub binds: BoundSide,
    /// Level of its strongest word.
    pub level: Level,
    /// Basis.
    pub basis: Basis,
    /// Demand, in one line.
    pub wording: String,
    #[serde(default, skip_serializing_if = "Excuses::is_empty")]
    untestable: Excuses,
}

/// Reasons why one half of a clause, or the other, cannot be judged from outside.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Excuses {
    #[serde(skip_serializing_if = "Option::is_none")]
    host: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    adapter: Option<String>,
}

impl Excuses {
    fn is_empty(&self) -> bool {
        self.host.is_none() && self.adapter.is_none()
    }
}

impl Clause {
    /// Returns the reason why this clause's demand on `side` cannot be judged from outside; `None`
    /// if it can be, and must be tested.
    pub(crate) fn excuse(&self, side: Side) -> Option<&str> {
        match side {
            Side::Host => self.untestable.host.as_deref(),
            Side::Adapter => self.untestable.adapter.as_deref(),
        }
    }
}

/// Every clause, in the order of SPEC.md.
pub(crate) fn all() -> &'static [Clause] {
    #[derive(Deserialize)]
    struct Registry {
        clause: Vec<Clause>,
    }
    static ALL: LazyLock<Vec<Clause>> = LazyLock::new(|| {
        let registry: Registry = toml::from_str(include_str!("../clauses.toml"))
            .expect("the registry is checked by a test");
        registry.clause
    });
    &ALL
}

/// The clause of that id.
pub(crate) fn find(id: &str) -> Option<&'static Clause> {
    all().iter().find(|clause| clause.id == id)
}
