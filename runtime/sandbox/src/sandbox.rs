//! Settings of a sandbox.

use std::{ffi::OsString, path::PathBuf};

use crate::policy::AllowedRoots;

/// Files and network that a child may use.
///
/// Working directory, private folder and exchange folders are granted at the same absolute paths as
/// outside ([file.6]). Everything else must be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// Program that creates the sandbox.
    pub backend: Backend,
    /// Absolute paths of files and folders that the child may read.
    pub read_only: Vec<PathBuf>,
    /// Absolute paths of files and folders that the child may write.
    pub writable: Vec<PathBuf>,
    /// Network access of the child.
    pub network: Network,
    /// User and group id of the child inside. `None` means 1000 and 1000 with bubblewrap, and the
    /// ids of the host in a container.
    pub user: Option<(u32, u32)>,
    /// Programs that the child starts. If they exist outside, bubblewrap must not hide them. No
    /// configuration file names them: the program that knows the profiles sets them.
    pub programs: Vec<OsString>,
    /// Limits of policies for the paths above and the working directory, without links. Set by
    /// [`Policy::narrow`](crate::Policy::narrow), and checked again at each start.
    pub allowed: Vec<AllowedRoots>,
}

/// Program that creates sandboxes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// `bwrap`: namespaces with the host's own files.
    Bubblewrap,
    /// `podman run` of an image.
    Podman {
        /// Name of the image.
        image: String,
        /// Arguments of podman itself, before `run`: `["--root", "/srv/containers"]`.
        options: Vec<String>,
    },
    /// `docker run` of an image.
    Docker {
        /// Name of the image.
        image: String,
        /// Arguments of docker itself, before `run`: `["--context", "rootless"]`.
        options: Vec<String>,
    },
}

/// Network access of a sandboxed child.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Network {
    /// No network.
    #[default]
    None,
    /// The network of the host.
    All,
    /// Only these names and addresses, through a proxy that checks them: entries of an
    /// [`AllowList`](crate::network::AllowList).
    Allow(Vec<String>),
}

impl Sandbox {
    /// Creates a sandbox with the folders that every child has, and without a network.
    #[must_use]
    pub fn new(backend: Backend) -> Self {
        Self {
            backend,
            read_only: Vec::new(),
            writable: Vec::new(),
            network: Network::None,
            user: None,
            programs: Vec::new(),
            allowed: Vec::new(),
        }
    }
}

impl Backend {
    /// Returns the name that a configuration uses.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Podman { .. } => "podman",
            Self::Docker { .. } => "docker",
        }
    }

    /// Returns true if both use the same engine with the same options, and so the same store of
    /// containers. The images may differ.
    #[must_use]
    pub fn is_same_engine(&self, other: &Self) -> bool {
        self.name() == other.name() && self.options() == other.options()
    }

    pub(crate) fn options(&self) -> &[String] {
        match self {
            Self::Bubblewrap => &[],
            Self::Podman { options, .. } | Self::Docker { options, .. } => options,
        }
    }

    /// Returns the name of the program that creates the sandbox.
    #[must_use]
    pub fn program(&self) -> &'static str {
        match self {
            Self::Bubblewrap => "bwrap",
            Self::Podman { .. } => "podman",
            Self::Docker { .. } => "docker",
        }
    }
}
