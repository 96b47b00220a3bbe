//! A cell of the matrix, by name.

use trunkline_process::Containment;

/// Containment of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holder {
    Namespace,
    Reaper,
    Group,
    /// A sandbox, which has a PID namespace.
    Bubblewrap,
    /// A sandbox with a deadline, which has an init outside too.
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

    /// Returns the number of processes between host and program.
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

/// Kinds of trees that the child starts; see `tree.py`.
pub(crate) const KINDS: [&str; 6] = ["plain", "wrapper", "deaf", "daemon", "hopper", "holder"];

/// End of the tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dying {
    /// The host stops the child in its steps.
    Stop,
    /// The host drops the child.
    Drop,
    /// The child ends by itself.
    End,
    /// Another process kills the child.
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
    /// Returns true if its holder guarantees that nothing is left. A group guarantees more if a
    /// cgroup knows its processes.
    pub(crate) fn is_promised(self, counted: bool) -> bool {
        let leaves_its_group = matches!(self.kind, "daemon" | "hopper" | "holder");
        let host_dies = matches!(self.dying, Dying::HostExits | Dying::HostKilled);
        match self.holder {
            Holder::Namespace | Holder::Reaper | Holder::Bubblewrap | Holder::Dated => true,
            // The group of a wrapper's child has no killer left.
            Holder::Group if host_dies => !leaves_its_group && self.kind != "wrapper",
            Holder::Group => !leaves_its_group || counted,
        }
    }

    /// Returns true if the cell is possible: a child that ignores everything does not end by
    /// itself. A few kinds are enough for the effect of a deadline.
    pub(crate) fn is_possible(self) -> bool {
        let minds_nothing = self.dying == Dying::End && self.kind == "deaf";
        let is_like_another = matches!(self.kind, "plain" | "hopper" | "holder");
        !(minds_nothing || (self.holder == Holder::Dated && is_like_another))
    }

    pub(crate) fn name(self) -> String {
        format!("{}/{:?}/{}", self.holder.name(), self.dying, self.kind)
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
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
