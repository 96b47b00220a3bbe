//! The program under test, as its author describes it: a command, and the content of
//! `conform.toml`.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;

use crate::{
    build::Build,
    class::Class,
    clauses::Side,
    needs::{Ability, Need},
};

mod config;

pub(crate) use self::config::{read_config, sides_of};

/// Subject of a test and its promises: the content of `conform.toml`, for a
/// [`Suite`](crate::Suite).
///
/// Starts with nothing declared, the default limits and the directory of the calling process; the
/// public fields may be set before it is passed to [`Suite::new`](crate::Suite::new).
#[derive(Debug, Clone)]
pub struct Subject {
    /// Adapter or host.
    pub(crate) side: Side,
    /// The program and its arguments. A host's has `{adapter}` in it.
    pub command: Vec<String>,
    /// Build of the program, before it is judged.
    pub(crate) build: Option<Build>,
    /// Working directory.
    pub cwd: PathBuf,
    /// Variables to set.
    pub env: BTreeMap<String, String>,
    /// Demands that count as failures.
    pub(crate) class: Class,
    /// Time limits.
    pub limits: Limits,
    /// Declared abilities.
    pub abilities: BTreeSet<Ability>,
    /// Texts that provoke a behaviour in this adapter.
    pub recipes: Recipes,
    /// Use of the probe.
    pub(crate) probe: ProbeUse,
    /// The probe's operations, as its `hello` listed them; empty without a probe.
    pub(crate) probe_ops: BTreeSet<String>,
    /// The extensions that it agreed on when all were offered.
    pub(crate) extensions: BTreeSet<String>,
    /// Unix socket on which a host with a journal accepts further hubs; the path may contain
    /// `{journal}`.
    pub hubs: Option<String>,
    /// True if it lists `journal` to a hub that asks for it.
    pub(crate) journal: bool,
    /// The program that plays the adapter for a host: this suite's own binary.
    pub(crate) stub: PathBuf,
    /// Values that never appear in a transcript.
    pub redact: Vec<String>,
}

/// Use of the probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProbeUse {
    /// If the adapter has one.
    Auto,
    /// Never.
    Off,
}

/// Time limits, and the size of inputs that an adapter accepts.
#[derive(Debug, Clone, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Seconds of the `build`.
    pub build_s: f64,
    /// Seconds until the first turn can be answered.
    pub startup_s: f64,
    /// Seconds of the longest ordinary turn.
    pub turn_s: f64,
    /// Seconds from a stop to the end of its turn.
    pub stop_s: f64,
    /// The longest line that it promises to accept, in bytes, or as text: `16MiB`.
    #[serde(deserialize_with = "config::size")]
    pub max_line: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            build_s: 600.0,
            startup_s: 20.0,
            turn_s: 120.0,
            stop_s: 10.0,
            max_line: 16 << 20,
        }
    }
}

/// Texts that provoke a behaviour.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Recipes {
    /// A short ordinary turn.
    pub quick: Option<String>,
    /// A turn that lasts until it is stopped, or at least a minute.
    pub long: Option<String>,
    /// A guarded action; `{effect_path}` is the file that it creates.
    pub permission: Option<String>,
    /// A file for the host.
    pub file_out: Option<String>,
    /// A failure inside the adapter.
    pub error: Option<String>,
    /// A turn whose output holds `{nonce}` and nothing else.
    pub nonce: Option<String>,
    /// A turn after which the conversation holds `{nonce}`.
    pub remember: Option<String>,
    /// A turn whose output holds what `remember` asked for.
    pub recall: Option<String>,
}

impl Recipes {
    /// The names of all recipes.
    pub(crate) const NAMES: [&str; 8] = [
        "quick",
        "long",
        "permission",
        "file_out",
        "error",
        "nonce",
        "remember",
        "recall",
    ];

    /// The recipe of a name.
    pub fn get(&self, name: &str) -> Option<&str> {
        match name {
            "quick" => self.quick.as_deref(),
            "long" => self.long.as_deref(),
            "permission" => self.permission.as_deref(),
            "file_out" => self.file_out.as_deref(),
            "error" => self.error.as_deref(),
            "nonce" => self.nonce.as_deref(),
            "remember" => self.remember.as_deref(),
            "recall" => self.recall.as_deref(),
            _ => None,
        }
    }
}

impl Subject {
    /// An adapter that is started by a command, with nothing declared.
    pub fn adapter(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(Side::Adapter, command)
    }

    /// A host that is started by a command with `{adapter}` in it.
    pub fn host(command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self::new(Side::Host, command)
    }

    fn new(side: Side, command: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            side,
            command: command.into_iter().map(Into::into).collect(),
            build: None,
            cwd: std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")),
            env: BTreeMap::new(),
            class: Class::default(),
            limits: Limits::default(),
            abilities: BTreeSet::new(),
            recipes: Recipes::default(),
            probe: ProbeUse::Auto,
            probe_ops: BTreeSet::new(),
            extensions: BTreeSet::new(),
            hubs: None,
            journal: false,
            stub: std::env::current_exe()
                .unwrap_or_else(|_| PathBuf::from("trunkline-conformance")),
            redact: Vec::new(),
        }
    }

    /// Declares every ability.
    #[must_use]
    pub fn with_all_abilities(mut self) -> Self {
        self.abilities = Ability::ALL.into_iter().collect();
        self
    }

    /// Sets the program that plays the adapter for a host, if it is not the running one.
    #[must_use]
    pub fn with_stub(mut self, stub: impl AsRef<Path>) -> Self {
        stub.as_ref().clone_into(&mut self.stub);
        self
    }

    /// The first thing that a case needs and this program did not declare.
    pub fn lacks(&self, needs: &[Need]) -> Option<String> {
        needs.iter().find_map(|need| match need {
            Need::Probe(ops) => self
                .lacking_op(ops)
                .map(|op| format!("probe operation `{op}`")),
            Need::ProbeOr(ops, recipe) => self
                .lacking_op(ops)
                .filter(|_| self.recipes.get(recipe).is_none())
                .map(|op| format!("recipe `{recipe}` or probe operation `{op}`")),
            Need::Recipe(name) => self
                .recipes
                .get(name)
                .is_none()
                .then(|| format!("recipe `{name}`")),
            Need::AnyExtension => self
                .extensions
                .is_empty()
                .then(|| "an extension".to_owned()),
            Need::Ability(ability) => {
                (!self.abilities.contains(ability)).then(|| format!("ability `{}`", ability.name()))
            }
            Need::Extension(name) => {
                (!self.extensions.contains(*name)).then(|| format!("extension `{name}`"))
            }
            Need::SecondAdapter => {
                let has = self
                    .command
                    .iter()
                    .any(|argument| argument.contains("{adapter2}"));
                (!has).then(|| "`{adapter2}` in the command".to_owned())
            }
            Need::Journal if !self.keeps_journal() => Some("`{journal}` in the command".to_owned()),
            Need::Journal => (!self.journal).then(|| "extension `journal`".to_owned()),
            Need::Hubs => self.hubs.is_none().then(|| Need::Hubs.to_string()),
        })
    }

    /// Returns true if its command has a place for the folder of a journal.
    pub(crate) fn keeps_journal(&self) -> bool {
        self.command
            .iter()
            .any(|argument| argument.contains("{journal}"))
    }

    fn lacking_op<'a>(&self, ops: &[&'a str]) -> Option<&'a str> {
        ops.iter()
            .find(|op| !self.probe_ops.contains(**op))
            .copied()
    }
}

/// Time limits on this machine with this program, as measured by the calibration.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bounds {
    /// From the start of the process to the end of its first turn, as measured.
    pub start: Duration,
    /// An ordinary turn, as measured (median).
    pub turn: Duration,
    /// Time to wait for an expected message before something else is tried.
    pub deadline: Duration,
    /// The longest wait for the end of a turn.
    pub longest: Duration,
    /// The quiet window after a fence.
    pub quiet: Duration,
    /// The longest wait from a stop to the end of its turn.
    pub stop: Duration,
    /// Factor of every stated bound.
    pub scale: f64,
}

impl Bounds {
    /// Derives the bounds from what was measured.
    pub(crate) fn from_measured(
        start: Duration,
        turn: Duration,
        limits: &Limits,
        scale: f64,
    ) -> Self {
        let longest = Duration::from_secs_f64(limits.turn_s * scale);
        Self {
            start,
            turn,
            // Most cases start a process of their own: its start is part of what they first wait for.
            deadline: (turn * 20)
                .max(Duration::from_secs(2))
                .max(start * 2)
                .mul_f64(scale)
                .min(longest),
            longest,
            quiet: (turn * 5).clamp(Duration::from_millis(250), Duration::from_secs(3)),
            stop: Duration::from_secs_f64(limits.stop_s * scale),
            scale,
        }
    }

    /// A bound in seconds, on this machine.
    pub(crate) fn secs(&self, stated: f64) -> Duration {
        Duration::from_secs_f64(stated * self.scale)
    }

    /// The same with more time: for a failure that is tried again.
    #[must_use]
    pub(crate) fn stretched(&self, by: f64) -> Self {
        Self {
            deadline: self.deadline.mul_f64(by),
            longest: self.longest.mul_f64(by.min(2.0)),
            quiet: self.quiet.mul_f64(by.min(2.0)),
            stop: self.stop.mul_f64(by),
            scale: self.scale * by,
            ..*self
        }
    }
}
