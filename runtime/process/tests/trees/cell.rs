//! One cell of the matrix, by name.

use trunkline_process::Containment;

/// What holds the tree together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    Namespace,
    Reaper,
    Group,
    /// A sandbox, which has a PID namespace.
    Bubblewrap,
    /// One with a deadline, which has an init outside too.
    Dated,
}

pub(crate) const HOLDERS: [Holder; 5] = [
    Holder::Namespace,
    Holder::Reaper,
    Holder::Group,
    Holder::Bubblewrap,
    Holder::Dated,
];

impl Holder {
    /// The containment that is asked for.
    pub(crate) fn containment(self) -> Containment {
        match self {
            Self::Namespace => Containment::Namespace,
            Self::Reaper => Containment::Reaper,
            Self::Group => Containment::Group,
            Self::Bubblewrap | Self::Dated => Containment::Auto,
        }
    }

    pub(crate) fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// How many processes stand between host and program.
    pub(crate) fn processes(self) -> usize {
        match self {
            Self::Group => 0,
            Self::Reaper => 1,
            Self::Namespace => 2,
            Self::Bubblewrap => 3,
            Self::Dated => 4,
        }
    }
}

/// What the child starts; see `tree.py`.
pub(crate) const KINDS: [&str; 6] = ["plain", "wrapper", "deaf", "daemon", "hopper", "holder"];

/// How the tree comes to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dying {
    /// The host stops the child in its steps.
    Stop,
    /// The host drops the child.
    Drop,
    /// The child ends by itself.
    End,
    /// The child is killed by somebody else.
    Killed,
    /// The host leaves without a word to the child.
    HostExits,
    /// The host is killed.
    HostKilled,
}

pub(crate) const DYINGS: [Dying; 6] = [
    Dying::Stop,
    Dying::Drop,
    Dying::End,
    Dying::Killed,
    Dying::HostExits,
    Dying::HostKilled,
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) holder: Holder,
    pub(crate) dying: Dying,
    pub(crate) kind: &'static str,
}

impl Cell {
    /// Whether its holder promises that nothing is left; a group's promise goes further where a cgroup knows
    /// its processes.
    pub(crate) fn is_promised(self, counted: bool) -> bool {
        let leaves_its_group = matches!(self.kind, "daemon" | "hopper" | "holder");
        let host_dies = matches!(self.dying, Dying::HostExits | Dying::HostKilled);
        match self.holder {
            Holder::Namespace | Holder::Reaper | Holder::Bubblewrap | Holder::Dated => true,
            // Of a wrapper's child no one is left to kill the group.
            Holder::Group if host_dies => !leaves_its_group && self.kind != "wrapper",
            Holder::Group => !leaves_its_group || counted,
        }
    }

    /// Whether it applies: a child that minds nothing does not end by itself. What a deadline
    /// changes, a few kinds tell.
    pub(crate) fn is_possible(self) -> bool {
        let minds_nothing = self.dying == Dying::End && self.kind == "deaf";
        let is_like_another = matches!(self.kind, "plain" | "hopper" | "holder");
        !(minds_nothing || (self.holder == Holder::Dated && is_like_another))
    }

    pub(crate) fn name(self) -> String {
        format!("{}/{:?}/{}", self.holder.name(), self.dying, self.kind)
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        all().find(|cell| cell.name() == name)
    }
}

pub(crate) fn all() -> impl Iterator<Item = Cell> {
    HOLDERS.into_iter().flat_map(|holder| {
        DYINGS.into_iter().flat_map(move |dying| {
            KINDS.into_iter().map(move |kind| Cell {
                holder,
                dying,
                kind,
            })
        })
    })
}
