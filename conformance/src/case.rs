//! What a case is: a stimulus, an expectation, and the clause that it stands for.

use std::fmt;

use serde::Serialize;

use crate::{
    clauses::{Basis, Level, Side},
    trial::Trial,
    verdict::Outcome,
};

/// One case of the catalogue.
#[derive(Debug)]
pub struct Case {
    /// `A-FRM-01`: side, family, number. Never used again for another case.
    pub id: &'static str,
    /// What it is about, in a few words.
    pub title: &'static str,
    /// The clause of SPEC.md that it reports under.
    pub clause: &'static str,
    /// How binding the clause is here.
    pub level: Level,
    /// Where the demand comes from.
    pub basis: Basis,
    /// What the program under test must offer for the case to run.
    pub needs: &'static [Need],
    /// Whether it belongs to the smoke set.
    pub smoke: bool,
    /// What the runner does.
    pub stimulus: &'static str,
    /// What it accepts.
    pub expected: &'static str,
    /// Drives the program and judges what is special to this case; the oracles judge the rest.
    pub run: fn(&mut Trial<'_>) -> Outcome,
}

impl Case {
    /// Which side it judges, by its id.
    pub fn side(&self) -> Side {
        if self.id.starts_with('H') { Side::Host } else { Side::Adapter }
    }

    /// `FRM`: the part of the id between the dashes.
    pub fn family(&self) -> &'static str {
        self.id.split('-').nth(1).unwrap_or_default()
    }

    /// What a case is before its table says more: a MUST that needs nothing.
    pub const NEW: Self = Self {
        id: "",
        title: "",
        clause: "",
        level: Level::Must,
        basis: Basis::Derived,
        needs: &[],
        smoke: false,
        stimulus: "",
        expected: "",
        run: |_| Ok(()),
    };
}

/// What a case needs of the program under test.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// These operations of the probe.
    Probe(&'static [&'static str]),
    /// These operations of the probe, or this recipe.
    ProbeOr(&'static [&'static str], &'static str),
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
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Probe(ops) => write!(f, "the probe ({})", ops.join(", ")),
            Self::ProbeOr(ops, recipe) => write!(f, "the probe ({}) or recipe `{recipe}`", ops.join(", ")),
            Self::Recipe(recipe) => write!(f, "recipe `{recipe}`"),
            Self::Ability(ability) => write!(f, "ability `{}`", ability.name()),
            Self::Extension(name) => write!(f, "extension `{name}`"),
            Self::AnyExtension => f.write_str("an extension"),
            Self::SecondAdapter => f.write_str("`{adapter2}` in the command"),
        }
    }
}

/// What an author declares of an adapter or host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Ability {
    /// Turns of different sessions run at the same time.
    ConcurrentTurns,
    /// Inputs during a turn are queued.
    QueuesInput,
    /// It asks for permission.
    Permissions,
    /// It takes files.
    FilesIn,
    /// It sends files.
    FilesOut,
    /// One process serves many sessions (a host's promise about its adapter).
    Multiplexes,
    /// It starts an adapter again after its end.
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

    /// As it stands in the configuration.
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

/// How a verdict was reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Only the pipe was used; what the texts mean was not looked at.
    BlackBox,
    /// A text of the author's provoked the behaviour.
    Recipe,
    /// The probe provoked it: certifies the transport, not the model behind it.
    Probe,
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::BlackBox => "black box",
            Self::Recipe => "recipe",
            Self::Probe => "probe",
        })
    }
}
