//! Restricts a child's access to files and network, in addition to its containment and limits.
//!
//! # Theory of operation
//!
//! A [`Sandbox`] is a plain value that describes the grants of one child. [`ChildSpec::sandbox`]
//! accepts it, and [`spawn`](trunkline_process::spawn()) requests its command line. [`wrap`]
//! converts the sandbox and the program [`Inside`] to one [`CommandLine`]: bubblewrap with the
//! host's own files, or a container of podman or docker. It reads metadata of files and starts no
//! process; the rest is a pure function of the result. Inside bubblewrap, the init program of
//! `trunkline-process` runs first, at the same path as outside.
//!
//! A child that may reach some of the network ([`Network::Allow`]) has no route. Its
//! [`Child`](trunkline_process::Child) owns a [`Proxy`](network::Proxy), a single task with all
//! connections. The child reaches it through the bridge, a thread of the init program. Dropping the
//! child drops the proxy, its connections and its socket. Nothing outlives a child, with one
//! exception: a container, if its host was killed together with the init next to its client.
//! [`sweep_containers`] removes those.
//!
//! A [`Policy`] contains the limits of an organisation. It narrows the settings of an agent before
//! the start.
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
//! # Grants
//!
//! Every path inside is the same absolute path as outside ([file.6]):
//!
//! | path | access |
//! |---|---|
//! | working directory | writable, unless a read-only grant contains it |
//! | exchange folder, temporary folder | writable |
//! | private folder, which contains `ADAPTER_CONFIG` | read-only |
//! | `read_only`, `writable` | by name; of two nested paths, the inner one counts |
//! | init program | read-only |
//! | [`Inside::unwritable`], [`Inside::reserved`] | read-only within a writable grant |
//! | private folders of others, [`Inside::hidden`] | none |
//! | [`Inside::covered`] | none |
//!
//! The host reads and trusts the unwritable and reserved files. An empty folder covers a private or
//! hidden folder within a readable grant, and a writable grant around one is rejected. An empty
//! folder or the null device hides a covered path within a readable or writable grant.
//!
//! The folders between a read-only path and the writable folder around it are mounted onto
//! themselves. A mount point cannot be renamed, so the child cannot replace the read-only path.
//!
//! A path may be or contain a symbolic link. Its target is granted, and both names work. No link on
//! the way may be in a folder that any child of this process may write, now or earlier: it could
//! have changed the link. [`guard_writable`] names these folders before the first start. Inside
//! bubblewrap, the init program compares each mounted path with the one that was checked, because a
//! running child could exchange it between check and mount.
//!
//! # Bubblewrap
//!
//! | flags | effect |
//! |---|---|
//! | `--unshare-all` | own namespaces |
//! | `--die-with-parent` | the kernel ends everything inside when bwrap or the host dies |
//! | `--cap-drop ALL` | no capabilities, not even for the child of a root host |
//! | `--disable-userns` | no user namespaces inside |
//! | `--uid`, `--gid` | an ordinary id inside; outside it is the host's own user |
//! | `--ro-bind /usr`, links or binds of `/bin`, `/lib`… | programs and libraries |
//! | `--proc /proc --remount-ro /proc` | only its own processes, and no kernel settings |
//! | `--ro-bind /dev/null` over files of `/proc` | no keys, memory and log of the kernel |
//! | `--dev /dev` | the standard devices, and no device of the machine |
//! | `--tmpfs /tmp` | empty; temporary folder and grants below `/tmp` are mounted into it |
//! | `--ro-bind` of some files of `/etc` | certificates, loader, time zone, names of services |
//! | own `/etc/passwd`, `/etc/group`, `/etc/hosts` | the user inside, `localhost` |
//! | `--share-net`, only for [`Network::All`] | also shows the host's `resolv.conf` and `hosts` |
//! | socket `/run/trunkline/proxy.sock` | only for [`Network::Allow`]: the only way out |
//!
//! Details:
//!
//! - The namespaces separate processes, mounts, network, IPC, host name, users and control groups.
//! - Without `--cap-drop`, the child of a root host would keep every capability within its user
//!   namespace.
//! - User namespaces inside would open kernel code that is closed otherwise. `--disable-userns` is
//!   left out if bwrap does not know it or is set-user-id.
//! - A child of root owns `/proc/sys`, and could leave the sandbox through `core_pattern`. It could
//!   also read the files of `/proc` that `/dev/null` covers.
//! - `/etc` shows no accounts and no keys of the host. Programs look up both the user and
//!   `localhost`.
//! - `/dev` contains `null`, `zero`, `full`, `random`, `urandom`, `tty`, `pts` and `shm`.
//! - `--new-session` is not needed, because the child already leads a session, with its own session
//!   keyring.
//! - `--clearenv` is not needed, because bwrap starts with a curated environment. Values in
//!   arguments would be readable by every user of the machine. Variables that load code into a
//!   program (`LD_*` and similar) are set by `--setenv` nevertheless: bwrap would load that code
//!   outside.
//!
//! Limits: with [`Network::All`] the child reaches the host's abstract sockets and every service on
//! loopback. A granted socket or device is granted with everything that it can do.
//!
//! # Containers
//!
//! `podman run` and `docker run` of an image, with the same folders. The image contains programs
//! and libraries. The granted folders are mounted, and the working directory is the same. A
//! container does not end with its client. It has a name, by which an
//! [init](trunkline_process::init) next to the client removes it, even after the host was killed.
//! It also has a label, by which [`sweep_containers`] finds the remaining ones.

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
pub use crate::grant::{guard_writable, resolve_guarded};
pub use crate::podman::{Container, sweep_containers};
pub use crate::policy::{AgentConfinement, AllowedRoots, NarrowedConfinement, Policy, PolicyError};
pub use crate::sandbox::{Backend, Network, Sandbox};
pub use crate::support::{BackendSupport, check_backend};
pub use crate::wrap::wrap;
pub use trunkline_process::{Inside, Outlet};
