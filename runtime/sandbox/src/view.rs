//! The file system of a child in bubblewrap: every mount, in order.

use std::io;
use std::path::{Path, PathBuf};

use crate::accounts::Own;
use crate::grant::{Access, Grant, Link, depth, follow};
use crate::{Network, Outlet};

/// Folder inside that is reserved for the sandbox itself.
pub(crate) const RESERVED: &str = "/run/trunkline";

/// Path of the proxy's socket inside. Short, because the name of a socket has at most 107 bytes.
pub(crate) const PROXY_SOCKET: &str = "/run/trunkline/proxy.sock";

/// Device that is mounted over a hidden file. A child cannot even open it, because it is a device.
pub(crate) const EMPTY: &str = "/dev/null";

/// Files of `/etc` that every child sees if they exist: certificates and the settings of the
/// libraries that use them, the loader's cache, targets of links in `/usr`, time zone, names of
/// services and of file types. Accounts and host names come from [`EtcFiles`]. Keys, passwords and
/// other settings stay outside.
pub(crate) const ETC: [&str; 18] = [
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/crypto-policies",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/os-release",
    "/etc/pki/ca-trust",
    "/etc/pki/tls/certs",
    "/etc/protocols",
    "/etc/services",
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/timezone",
];

/// Further files of `/etc` for a child with the network of the host.
pub(crate) const ETC_NETWORK: [&str; 4] = [
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/resolv.conf",
];

/// Files of `/proc` that show the machine instead of the child: keys and memory of the kernel, its
/// log, its timers. A child of root could read them.
const MASKED: [&str; 8] = [
    "/proc/kcore",
    "/proc/key-users",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/timer_list",
    "/proc/timer_stats",
];

/// Folders of programs and libraries. They are links into `/usr` on most systems, and folders on
/// some.
const BESIDE_USR: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Files of this machine that every child sees.
#[derive(Debug, Clone, Default)]
pub(crate) struct System {
    /// Visible folders.
    pub(crate) folders: Vec<PathBuf>,
    /// Visible links, with the target as it is written.
    pub(crate) links: Vec<Link>,
    /// Visible files and folders of `/etc`: the path inside, and the path without links that it
    /// leads to.
    pub(crate) etc: Vec<(PathBuf, PathBuf)>,
    /// The same for children with the network of the host.
    pub(crate) etc_network: Vec<(PathBuf, PathBuf)>,
    /// Hidden files of `/proc`.
    pub(crate) masked: Vec<PathBuf>,
}

impl System {
    /// Reads the files of this machine.
    pub(crate) fn read() -> Self {
        let mut system = Self {
            folders: vec!["/usr".into()],
            ..Self::default()
        };
        for path in BESIDE_USR {
            match std::fs::read_link(path) {
                Ok(target) => system.links.push(Link {
                    at: path.into(),
                    target,
                }),
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    system.folders.push(path.into())
                }
                Err(_) => {}
            }
        }
        let real = |path: &&str| Some((PathBuf::from(path), follow(Path::new(path)).ok()?.real));
        system.etc = ETC.iter().filter_map(real).collect();
        system.etc_network = ETC_NETWORK.iter().filter_map(real).collect();
        system.masked = MASKED
            .iter()
            .map(PathBuf::from)
            .filter(|path| path.exists())
            .collect();
        system
    }
}

/// A mount point and its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mount {
    pub(crate) at: PathBuf,
    pub(crate) what: What,
}

/// Content of a mount point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum What {
    /// The same path of the host, or an empty read-only cover over it.
    Host(Access),
    /// Another path of the host, read-only.
    Other(PathBuf),
    /// A symbolic link with this target.
    Link(PathBuf),
    /// A `/proc` with the processes of the child.
    Proc,
    /// A `/dev` with the devices that every program needs.
    Dev,
    /// An empty folder in memory.
    Empty,
}

/// All mounts of a child, from outer to inner.
#[derive(Debug, Clone)]
pub(crate) struct View {
    pub(crate) mounts: Vec<Mount>,
}

impl View {
    /// Combines the grants with the files that every child sees. A grant takes precedence.
    pub(crate) fn new(
        grants: &[Grant],
        system: &System,
        own: &Own,
        network: &Network,
        outlet: Option<&Outlet>,
    ) -> Self {
        let mut view = Self { mounts: Vec::new() };
        for grant in grants.iter().filter(|grant| !grant.given) {
            view.put(&grant.place.real, What::Host(grant.access));
        }
        view.put("/proc", What::Proc);
        view.put("/dev", What::Dev);
        view.put("/tmp", What::Empty);
        if view.is_host("/") {
            view.put("/run", What::Empty);
        }
        if let Some(outlet) = outlet {
            view.put(PROXY_SOCKET, What::Other(outlet.socket.clone()));
        }
        view.put_system(system, own, network);
        for link in grants.iter().flat_map(|grant| &grant.place.links) {
            if !view.shows(&link.at) {
                view.put(&link.at, What::Link(link.target.clone()));
            }
        }
        view.mounts
            .sort_by(|a, b| (depth(&a.at), &a.at).cmp(&(depth(&b.at), &b.at)));
        view
    }

    /// Adds programs, libraries and some files of `/etc`, unless a grant already shows them.
    fn put_system(&mut self, system: &System, own: &Own, network: &Network) {
        let everything = matches!(network, Network::All);
        let files = [
            ("/etc/passwd", &own.passwd),
            ("/etc/group", &own.group),
            ("/etc/hosts", &own.hosts),
        ];
        let files = files
            .into_iter()
            .map(|(at, source)| (Path::new(at), source));
        let network = if everything {
            system.etc_network.as_slice()
        } else {
            &[]
        };
        let etc = system
            .etc
            .iter()
            .chain(network)
            .map(|(at, source)| (at.as_path(), source));

        let granted = self.clone();
        for folder in system
            .folders
            .iter()
            .filter(|folder| !granted.shows(folder))
        {
            self.put(folder, What::Host(Access::Read));
        }
        for masked in &system.masked {
            self.put(masked, What::Other(EMPTY.into()));
        }
        for link in system.links.iter().filter(|link| !granted.shows(&link.at)) {
            self.put(&link.at, What::Link(link.target.clone()));
        }
        // If the host's own `hosts` is visible, it takes precedence.
        for (at, source) in etc.chain(files).filter(|(at, _)| !granted.shows(at)) {
            self.put(at, What::Other(source.clone()));
        }
    }

    /// Adds a mount, unless its mount point is taken.
    fn put(&mut self, at: impl AsRef<Path>, what: What) {
        let at = at.as_ref();
        if self.mounts.iter().all(|mount| mount.at != at) {
            self.mounts.push(Mount {
                at: at.to_owned(),
                what,
            });
        }
    }

    fn is_host(&self, at: &str) -> bool {
        self.mounts
            .iter()
            .any(|mount| mount.at == Path::new(at) && matches!(mount.what, What::Host(_)))
    }

    /// Returns true if `path` inside is the same file as outside. No part of `path` may be a link.
    pub(crate) fn shows(&self, path: &Path) -> bool {
        let over = self
            .mounts
            .iter()
            .filter(|mount| path.starts_with(&mount.at));
        let deepest = over.max_by_key(|mount| depth(&mount.at));
        deepest.is_some_and(|mount| match mount.what {
            What::Host(Access::Read | Access::Write) => true,
            What::Other(_) => mount.at == path,
            What::Host(Access::Covered | Access::Masked)
            | What::Link(_)
            | What::Proc
            | What::Dev
            | What::Empty => false,
        })
    }

    /// Returns true if the link at `at` exists inside and has the same target as outside.
    pub(crate) fn has_link(&self, at: &Path) -> bool {
        self.shows(at)
            || self
                .mounts
                .iter()
                .any(|mount| mount.at == at && matches!(mount.what, What::Link(_)))
    }
}

#[cfg(test)]
mod tests;
