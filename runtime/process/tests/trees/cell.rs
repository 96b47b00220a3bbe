//! One cell of the matrix, by name.

use trunkline_process::Containment;

pub(crate) const CONTAINMENTS: [Containment; 3] =
    [Containment::Namespace, Containment::Reaper, Containment::Group];

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

pub(crate) const DYINGS: [Dying; 6] =
    [Dying::Stop, Dying::Drop, Dying::End, Dying::Killed, Dying::HostExits, Dying::HostKilled];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Cell {
    pub(crate) containment: Containment,
    pub(crate) dying: Dying,
    pub(crate) kind: &'static str,
}

impl Cell {
    /// Whether this containment promises that nothing is left; a group's promise goes further where a cgroup knows
    /// its processes.
    pub(crate) fn is_promised(self, counted: bool) -> bool {
        let leaves_its_group = matches!(self.kind, "daemon" | "hopper" | "holder");
        let host_dies = matches!(self.dying, Dying::HostExits | Dying::HostKilled);
        match self.containment {
            Containment::Namespace | Containment::Reaper => true,
            // Of a wrapper's child nobody is left to kill the group.
            Containment::Group if host_dies => !leaves_its_group && self.kind != "wrapper",
            Containment::Group => !leaves_its_group || counted,
            Containment::Auto => false,
        }
    }

    /// Whether it applies: a child that minds nothing does not end by itself.
    pub(crate) fn is_possible(self) -> bool {
        !(self.dying == Dying::End && self.kind == "deaf")
    }

    pub(crate) fn name(self) -> String {
        format!("{}/{:?}/{}", self.containment, self.dying, self.kind)
    }

    pub(crate) fn of(name: &str) -> Option<Self> {
        all().find(|cell| cell.name() == name)
    }
}

pub(crate) fn all() -> impl Iterator<Item = Cell> {
    CONTAINMENTS.into_iter().flat_map(|containment| {
        DYINGS
            .into_iter()
            .flat_map(move |dying| KINDS.into_iter().map(move |kind| Cell { containment, dying, kind }))
    })
}
