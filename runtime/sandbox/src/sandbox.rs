//! What a sandbox is asked for.

use std::{ffi::OsString, path::PathBuf};

/// What a child may see and reach.
///
/// Working directory, private folder and exchange folders are granted at the same absolute paths as outside
/// ([file.6]); everything else has to be named.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sandbox {
    /// Who makes it.
    pub backend: Backend,
    /// Files and folders that may be read, absolute.
    pub read_only: Vec<PathBuf>,
    /// Files and folders that may be written, absolute.
    pub writable: Vec<PathBuf>,
    /// What may be reached over the network.
    pub network: Network,
    /// As whom the child runs inside: user and group number. `None` is 1000 and 1000 with
    /// bubblewrap, the host's own in a container.
    pub user: Option<(u32, u32)>,
    /// Programs that the child starts, which bubblewrap must not hide if they exist outside. No
    /// file names them: the program that knows the profiles does.
    pub programs: Vec<OsString>,
}

/// Who makes a sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// `bwrap`: namespaces of the host's own files.
    Bubblewrap,
    /// `podman run` of an image.
    Podman {
        /// The image.
        image: String,
        /// Arguments of podman itself, before `run`: `["--root", "/srv/containers"]`.
        options: Vec<String>,
    },
    /// `docker run` of an image.
    Docker {
        /// The image.
        image: String,
        /// Arguments of docker itself, before `run`: `["--context", "rootless"]`.
        options: Vec<String>,
    },
}

/// What a sandboxed child may reach over the network.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Network {
    /// Nothing.
    #[default]
    None,
    /// Everything that the host reaches.
    All,
    /// These names and addresses, through a proxy that checks them: entries of an
    /// [`AllowList`](crate::network::AllowList).
    Allow(Vec<String>),
}

impl Sandbox {
    /// Grants nothing but the folders that every child has, and no network.
    #[must_use]
    pub fn new(backend: Backend) -> Self {
        Self {
            backend,
            read_only: Vec::new(),
            writable: Vec::new(),
            network: Network::None,
            user: None,
            programs: Vec::new(),
        }
    }
}

impl Backend {
    /// Its name in a configuration.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Bubblewrap => "bubblewrap",
            Self::Podman { .. } => "podman",
            Self::Docker { .. } => "docker",
        }
    }

    /// Whether both keep their containers at the same place, whatever they run.
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

    /// The program that makes it.
    #[must_use]
    pub fn program(&self) -> &'static str {
        match self {
            Self::Bubblewrap => "bwrap",
            Self::Podman { .. } => "podman",
            Self::Docker { .. } => "docker",
        }
    }
}
