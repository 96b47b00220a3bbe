//! How a child's descendants are kept from outliving it.

use std::fmt;

/// How a child's descendants are kept from outliving it.
///
/// | | after the child's end | after SIGKILL of the host | needs |
/// |---|---|---|---|
/// | `Namespace` | the kernel kills all | the kernel kills all | a PID namespace, an [init program](crate::init) |
/// | `Reaper` | the init program kills all | the init program kills all | an [init program](crate::init) that is not killed itself |
/// | `Group` | its process group | its process group ends with the child's pipes, at best | nothing |
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Containment {
    /// The best of the others that works here.
    #[default]
    Auto,
    /// A PID namespace of its own. Its end is the end of every process in it, whoever ends it.
    Namespace,
    /// A small process between host and child, the subreaper of all descendants. It ends them when the child ends
    /// and when the host does.
    Reaper,
    /// A process group. A descendant that makes a session of its own leaves it.
    Group,
}

impl Containment {
    /// Its name in a configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Namespace => "namespace",
            Self::Reaper => "reaper",
            Self::Group => "group",
        }
    }
}

impl fmt::Display for Containment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
