//! What a child may see and reach, beyond being contained.
//!
//! [`wrap`] turns a [`Sandbox`] and what is to run [`Inside`] it into one [`CommandLine`]: bubblewrap with the host's
//! own files, or a container of podman or docker. It looks at files and starts nothing; the rest is a pure function
//! of what it saw. The init program always runs first inside, at the path that it has outside.
//!
//! # What is granted
//!
//! Everything lies at the same absolute path as outside ([file.6]):
//!
//! | what | how |
//! |---|---|
//! | working directory | writable, unless it lies in something listed as read-only |
//! | exchange folder, temporary folder | writable |
//! | private folder, so that `ADAPTER_CONFIG` can be read | read-only |
//! | `read_only`, `writable` | as they say; of two that are nested the inner one counts |
//! | the init program | read-only |
//! | what the host reads and trusts ([`Inside::unwritable`], [`Inside::reserved`]) | read-only, where it lies in something writable |
//! | private folders of others, records of children | not at all: an empty folder lies over them where what is around may be read; nothing around may be written |
//!
//! Folders between something read-only and the writable folder around it are mounted onto themselves: what is a mount
//! point cannot be renamed, so nothing else can take the read-only thing's place.
//!
//! A path may be a symbolic link, or lead through some: the thing itself is granted, and both names work. A link
//! that lies in something writable may not lead out of it: whatever ran inside before could have turned it.
//!
//! # Bubblewrap
//!
//! | flags | why |
//! |---|---|
//! | `--unshare-all` | namespaces of its own for processes, mounts, network, IPC, host name, users, control groups |
//! | `--die-with-parent` | the kernel ends everything inside when bwrap or the host dies |
//! | `--cap-drop ALL` | a root host's child would keep every capability within its user namespace |
//! | `--disable-userns` | no namespaces inside it: they open kernel code that is closed otherwise; left out where bwrap does not know it or is setuid |
//! | `--uid`, `--gid` | an ordinary number inside; outside it stays the host's own user |
//! | `--ro-bind /usr`, links or binds of `/bin`, `/lib`… | programs and libraries |
//! | `--proc /proc --remount-ro /proc` | only its own processes, and no setting of the kernel: a child of root owns `/proc/sys`, and `core_pattern` is a way out |
//! | `--ro-bind /dev/null` over `/proc/keys` and its like | what shows the kernel's keys, memory and log, as a child of root could read them |
//! | `--dev /dev` | `null`, `zero`, `full`, `random`, `urandom`, `tty`, `pts`, `shm`; nothing of the machine |
//! | `--tmpfs /tmp` | empty; the temporary folder and whatever is granted below `/tmp` is mounted into it |
//! | `--ro-bind` of some files of `/etc` | certificates, loader, time zone, names of services; no accounts, no keys |
//! | `/etc/passwd`, `/etc/group`, `/etc/hosts` | of our own: the user inside, `localhost`; programs look both up |
//! | `--share-net`, only for [`Network::All`] | with the host's `resolv.conf` and `hosts` |
//! | the proxy's socket at `/run/trunkline/proxy.sock` | only for [`Network::Allow`]: there is no route but this one |
//!
//! There is no `--new-session`, since the child leads a session already, with a session keyring of its own, and no `--clearenv`: the environment that
//! bwrap is started with is curated, and values in an argument can be read by everybody on the machine. Variables
//! that load code into a program (`LD_*` and its like) are the exception: bwrap would load that code outside, so
//! they are set inside by `--setenv`.
//!
//! What is *not* kept out: with [`Network::All`] the child reaches the host's abstract sockets and everything that
//! listens on loopback; a granted socket or a granted device is granted with all it can do.
//!
//! # Containers
//!
//! `podman run` and `docker run` of an image, with the same folders. The image brings programs and libraries; the folders
//! above are mounted, the working directory is the same. The client's death does not end a container, so it has a
//! name, by which an [init](crate::init) beside the client removes it, also when the host is gone, and a label, by which
//! [`sweep_containers`] finds what even that left.

mod accounts;
mod bubblewrap;
mod container;
mod error;
mod grant;
mod inside;
mod podman;
mod policy;
mod search;
mod support;
mod view;

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

pub use self::error::SandboxError;
pub use self::inside::{CommandLine, Inside, Outlet};
pub use self::podman::{Container, sweep_containers};
pub use self::policy::{Asked, Narrowed, Policy, PolicyError};
pub use self::support::{Support, support};

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
    /// As whom the child runs inside: user and group number. `None` is 1000 and 1000 with bubblewrap, the host's own
    /// in a container.
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
        Self { backend, read_only: Vec::new(), writable: Vec::new(), network: Network::None, user: None }
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

    fn options(&self) -> &[String] {
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

/// The command line that starts a program in its sandbox.
///
/// Looks at files, writes a few small ones into the private folder, and blocks for both.
///
/// # Errors
///
/// When something that was to be granted is missing or may not be granted, when the program would not be found
/// inside, or when the backend cannot be used here.
pub fn wrap(sandbox: &Sandbox, inside: &Inside<'_>) -> Result<CommandLine, SandboxError> {
    if matches!(sandbox.network, Network::Allow(_)) && inside.outlet.is_none() {
        return Err(SandboxError::NoOutlet);
    }
    let grants = grant::grants(sandbox, inside)?;
    match &sandbox.backend {
        Backend::Bubblewrap => {
            let tool = support::bubblewrap()?;
            let user = sandbox.user.unwrap_or((1000, 1000));
            let home = grant::home(&grants, inside);
            let own = accounts::write(inside.private, user, &home)?;
            let system = view::System::read();
            let view = view::View::new(&grants, &system, &own, &sandbox.network, inside.outlet);
            search::visible(&view, inside)?;
            Ok(bubblewrap::command_line(&tool, &view, &sandbox.network, user, &home, inside))
        }
        Backend::Podman { image, options } | Backend::Docker { image, options } => {
            let machine = container::Machine::read(sandbox.backend.program())?;
            if let Some(variables) = container::variables_file(inside)? {
                write_secret(&container::variables_place(inside.private), &variables)?;
            }
            let run = container::Run {
                backend: &sandbox.backend,
                image,
                options,
                grants: &grants,
                machine: &machine,
            };
            container::command_line(&run, sandbox, inside)
        }
    }
}

/// Writes a file that only the host's user can read.
fn write_secret(path: &Path, content: &[u8]) -> Result<(), SandboxError> {
    let write = || -> io::Result<()> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?.write_all(content)
    };
    write().map_err(|source| SandboxError::Write { path: path.to_owned(), source })
}
