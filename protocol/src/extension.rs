//! The extensions' names, as a set ([ext.5]).

use bitflags::bitflags;

/// The version of the protocol that this crate speaks.
pub const PROTOCOL: u32 = 1;

bitflags! {
    /// A set of extensions; each is independent of the others ([ext.5]).
    #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
    pub struct Extensions: u16 {
        /// Turn ids, statuses, steering.
        const TURNS = 1;
        /// Thinking, tools, plans, progress, logs.
        const EVENTS = 1 << 1;
        /// Tokens and cost.
        const USAGE = 1 << 2;
        /// Native session ids, kept and lost contexts.
        const RESUME = 1 << 3;
        /// Options of a session: model, tools, working directory.
        const OPTIONS = 1 << 4;
        /// Questions to the user.
        const QUESTIONS = 1 << 5;
        /// Pausing and resuming one session.
        const FLOW = 1 << 6;
        /// Liveness, the adapter's own end of a session, richer permissions.
        const CONTROL = 1 << 7;
        /// Files with size and digest.
        const LARGE = 1 << 8;
    }
}

const NAMES: [(&str, Extensions); 9] = [
    ("turns", Extensions::TURNS),
    ("events", Extensions::EVENTS),
    ("usage", Extensions::USAGE),
    ("resume", Extensions::RESUME),
    ("options", Extensions::OPTIONS),
    ("questions", Extensions::QUESTIONS),
    ("flow", Extensions::FLOW),
    ("control", Extensions::CONTROL),
    ("large", Extensions::LARGE),
];

impl Extensions {
    /// The extension of this name, or the empty set when the name is unknown.
    #[must_use]
    pub fn named(name: &str) -> Self {
        NAMES
            .iter()
            .find(|(known, _)| *known == name)
            .map_or(Self::empty(), |(_, extension)| *extension)
    }

    /// The set of the names that are known; others are left out ([ext.2]).
    pub fn from_names<I: IntoIterator<Item = S>, S: AsRef<str>>(names: I) -> Self {
        names
            .into_iter()
            .map(|name| Self::named(name.as_ref()))
            .collect()
    }

    /// The names in this set, in the order of the specification.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        NAMES
            .iter()
            .filter(move |(_, extension)| self.contains(*extension))
            .map(|(name, _)| *name)
    }

    /// The names in this set as a list, as `session.start` and `session.ready` carry them.
    #[must_use]
    pub fn to_names(self) -> Vec<String> {
        self.names().map(str::to_owned).collect()
    }
}
