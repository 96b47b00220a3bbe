//! What a child may see and reach, beyond being contained.

use std::path::PathBuf;

/// What a child may see and reach.
///
/// Working directory, private folder and exchange folder are granted at the same absolute paths as outside
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
    /// As whom the child runs inside: user and group number. `None` is 1000 and 1000.
    pub user: Option<(u32, u32)>,
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
    },
    /// `docker run` of an image.
    Docker {
        /// The image.
        image: String,
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
    /// These names and addresses, through a proxy that checks them.
    Allow(Vec<String>),
}
