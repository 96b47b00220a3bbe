//! The nine extensions, and sets of them ([ext.5]).

/// An extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    Turns,
    Events,
    Usage,
    Resume,
    Options,
    Questions,
    Flow,
    Control,
    Large,
}

impl Extension {
    pub(crate) const ALL: [Self; 9] = [
        Self::Turns,
        Self::Events,
        Self::Usage,
        Self::Resume,
        Self::Options,
        Self::Questions,
        Self::Flow,
        Self::Control,
        Self::Large,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Turns => "turns",
            Self::Events => "events",
            Self::Usage => "usage",
            Self::Resume => "resume",
            Self::Options => "options",
            Self::Questions => "questions",
            Self::Flow => "flow",
            Self::Control => "control",
            Self::Large => "large",
        }
    }

    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|extension| extension.name() == name)
    }
}

/// A set of extensions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extensions(u16);

impl Extensions {
    pub(crate) fn has(self, extension: Extension) -> bool {
        self.0 & (1 << extension as u16) != 0
    }

    pub(crate) fn insert(&mut self, extension: Extension) {
        self.0 |= 1 << extension as u16;
    }

    pub(crate) fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }
}
