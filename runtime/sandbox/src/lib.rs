//! What a child may see and reach, beyond being contained: files, network, limits.
//!
//! # Theory of operation
//!
//! A [`Sandbox`] is a plain value, what one child is granted; [`ChildSpec::sandbox`] takes it.
//! Nothing runs for it until
//! [`spawn`](trunkline_process::spawn()) asks for its command line. [`wrap`] turns it and what is to run [`Inside`] it
//! into one [`CommandLine`]: bubblewrap with the host's own files, or a container of podman or
//! docker. It looks at files and starts nothing; the rest is a pure function of what it saw. The
//! init program of `trunkline-process` runs first inside bubblewrap, at the path that it has
//! outside.
//!
//! A child that may reach some of the network ([`Network::Allow`]) has no route. Behind its
//! [`Child`](trunkline_process::Child) runs a [`Proxy`](network::Proxy), one task that holds every connection; a thread
//! of the init program, the bridge, is the way to it. Dropping the child drops the proxy, its
//! connections and its socket. Nothing else runs here, and nothing outlives a child but a container
//! whose host was killed together with the init beside its client: [`sweep_containers`] removes
//! those.
//!
//! A [`Policy`] is what an organisation allows: it only takes away from what an agent asks for,
//! before the start.
//!
//! ```no_run
//! use trunkline_process::{ChildSpec, init, spawn};
//! use trunkline_sandbox::{Backend, Network, Sandbox};
//!
//! # async fn child() -> Result<(), Box<dyn std::error::Error>> {
//! init::hook(); // The first statement of `main`.
//! let mut sandbox = Sandbox::new(Backend::Bubblewrap);
//! sandbox.network = Network::Allow(vec!["api.example.com:443".to_owned()]);
//! let child = spawn(ChildSpec::new("agent").work_dir("/home/me/project").sandbox(sandbox)).await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`ChildSpec::sandbox`]: trunkline_process::ChildSpec::sandbox
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
//! | what the host keeps to itself elsewhere ([`Inside::covered`]) | not at all: an empty folder or the empty device lies over it where what is around may be read or written |
//!
//! Folders between something read-only and the writable folder around it are mounted onto
//! themselves: what is a mount point cannot be renamed, so nothing else can take the read-only
//! thing's place.
//!
//! A path may be a symbolic link, or lead through some: the thing itself is granted, and both names
//! work. A link that lies in something writable may not lead out of it: whatever ran inside before
//! could have turned it.
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
//! There is no `--new-session`, since the child leads a session already, with a session keyring of
//! its own, and no `--clearenv`: the environment that bwrap is started with is curated, and values
//! in an argument can be read by everybody on the machine. Variables that load code into a program
//! (`LD_*` and its like) are the exception: bwrap would load that code outside, so they are set
//! inside by `--setenv`.
//!
//! What is *not* kept out: with [`Network::All`] the child reaches the host's abstract sockets and
//! everything that listens on loopback; a granted socket or a granted device is granted with all it
//! can do.
//!
//! # Containers
//!
//! `podman run` and `docker run` of an image, with the same folders. The image brings programs and
//! libraries; the folders above are mounted, the working directory is the same. The client's death
//! does not end a container, so it has a name, by which an [init](trunkline_process::init) beside
//! the client removes it, even when the host is gone, and a label, by which
//! [`sweep_containers`] finds what even that left.

#![forbid(unsafe_code)]

mod accounts;
mod bubblewrap;
mod command_line;
mod container;
mod error;
mod grant;
pub mod network;
mod podman;
mod policy;
mod sandbox;
mod search;
mod support;
mod tool;
mod view;
mod wrap;

pub use crate::command_line::CommandLine;
pub use crate::error::SandboxError;
pub use crate::podman::{Container, sweep_containers};
pub use crate::policy::{Asked, Narrowed, Policy, PolicyError};
pub use crate::sandbox::{Backend, Network, Sandbox};
pub use crate::support::{Support, support};
pub use crate::wrap::wrap;
pub use trunkline_process::{Inside, Outlet};
