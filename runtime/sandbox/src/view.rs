//! The file system of a child in bubblewrap: every mount, in order.

use std::io;
use std::path::{Path, PathBuf};

use crate::accounts::EtcFiles;
use crate::grant::{PathAccess, PathGrant, SymbolicLink, follow_links, path_depth};
use crate::{Network, Outlet};

/// Folder inside that is reserved for the sandbox itself.
pub(crate) const RESERVED_FOLDER: &str = "/run/trunkline";

/// Path of the proxy's socket inside. Short, because the name of a socket has at most 107 bytes.
pub(crate) const PROXY_SOCKET: &str = "/run/trunkline/proxy.sock";

/// Device that is mounted over a hidden file. A child cannot even open it, because it is a device.
pub(crate) const NULL_DEVICE: &str = "/dev/null";

/// Files of `/etc` that every child sees if they exist: certificates and the settings of the
/// libraries that use them, the loader's cache, targets of links in `/usr`, time zone, names of
/// services and of file types. Accounts and host names come from [`EtcFiles`]. Keys, passwords and
/// other settings stay outside.
pub(crate) const ETC_FILES: [&str; 18] = [
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
pub(crate) const ETC_NETWORK_FILES: [&str; 4] = [
    "/etc/gai.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/resolv.conf",
];

/// Files of `/proc` that show the machine instead of the child: keys and memory of the kernel, its
/// log, its timers. A child of root could read them.
const MASKED_PROC_FILES: [&str; 8] = [
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
const PROGRAM_FOLDERS: [&str; 6] = ["/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Files of this machine that every child sees.
#[derive(Debug, Clone, Default)]
pub(crate) struct SystemFiles {
    /// Visible folders.
    pub(crate) folders: Vec<PathBuf>,
    /// Visible links, with the target as it is written.
    pub(crate) links: Vec<SymbolicLink>,
    /// Visible files and folders of `/etc`: the path inside, and the path without links that it
    /// leads to.
    pub(crate) etc: Vec<(PathBuf, PathBuf)>,
    /// The same for children with the network of the host.
    pub(crate) etc_network: Vec<(PathBuf, PathBuf)>,
    /// Hidden files of `/proc`.
    pub(crate) masked: Vec<PathBuf>,
}

impl SystemFiles {
    /// Reads the files of this machine.
    pub(crate) fn read() -> Self {
        let mut system = Self {
            folders: vec!["/usr".into()],
            ..Self::default()
        };
        for path in PROGRAM_FOLDERS {
            match std::fs::read_link(path) {
                Ok(target) => system.links.push(SymbolicLink {
                    at: path.into(),
                    target,
                }),
                Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                    system.folders.push(path.into())
                }
                Err(_) => {}
            }
        }
        let real = |path: &&str| {
            Some((
                PathBuf::from(path),
                follow_links(Path::new(path)).ok()?.real,
            ))
        };
        system.etc = ETC_FILES.iter().filter_map(real).collect();
        system.etc_network = ETC_NETWORK_FILES.iter().filter_map(real).collect();
        system.masked = MASKED_PROC_FILES
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
    pub(crate) content: MountContent,
}

/// Content of a mount point.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum MountContent {
    /// The same path of the host, or an empty read-only cover over it.
    Host(PathAccess),
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
pub(crate) struct FileView {
    pub(crate) mounts: Vec<Mount>,
}

impl FileView {
    /// Combines the grants with the files that every child sees. A grant takes precedence.
    pub(crate) fn new(
        grants: &[PathGrant],
        system: &SystemFiles,
        etc_files: &EtcFiles,
        network: &Network,
        outlet: Option<&Outlet>,
    ) -> Self {
        let mut view = Self { mounts: Vec::new() };
        for grant in grants.iter().filter(|grant| !grant.is_implied) {
            view.add_mount(&grant.place.real, MountContent::Host(grant.access));
        }
        view.add_mount("/proc", MountContent::Proc);
        view.add_mount("/dev", MountContent::Dev);
        view.add_mount("/tmp", MountContent::Empty);
        if view.is_host_path("/") {
            view.add_mount("/run", MountContent::Empty);
        }
        if let Some(outlet) = outlet {
            view.add_mount(PROXY_SOCKET, MountContent::Other(outlet.socket.clone()));
        }
        view.add_system_files(system, etc_files, network);
        for link in grants.iter().flat_map(|grant| &grant.place.links) {
            if !view.shows_host_path(&link.at) {
                view.add_mount(&link.at, MountContent::Link(link.target.clone()));
            }
        }
        view.mounts
            .sort_by(|a, b| (path_depth(&a.at), &a.at).cmp(&(path_depth(&b.at), &b.at)));
        view
    }

    /// Adds programs, libraries and some files of `/etc`, unless a grant already shows them.
    fn add_system_files(&mut self, system: &SystemFiles, etc_files: &EtcFiles, network: &Network) {
        let everything = matches!(network, Network::All);
        let files = [
            ("/etc/passwd", &etc_files.passwd),
            ("/etc/group", &etc_files.group),
            ("/etc/hosts", &etc_files.hosts),
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
            .filter(|folder| !granted.shows_host_path(folder))
        {
            self.add_mount(folder, MountContent::Host(PathAccess::Read));
        }
        for masked in &system.masked {
            self.add_mount(masked, MountContent::Other(NULL_DEVICE.into()));
        }
        for link in system
            .links
            .iter()
            .filter(|link| !granted.shows_host_path(&link.at))
        {
            self.add_mount(&link.at, MountContent::Link(link.target.clone()));
        }
        // If the host's own `hosts` is visible, it takes precedence.
        for (at, source) in etc
            .chain(files)
            .filter(|(at, _)| !granted.shows_host_path(at))
        {
            self.add_mount(at, MountContent::Other(source.clone()));
        }
    }

    /// Adds a mount, unless its mount point is taken.
    fn add_mount(&mut self, at: impl AsRef<Path>, content: MountContent) {
        let at = at.as_ref();
        if self.mounts.iter().all(|mount| mount.at != at) {
            self.mounts.push(Mount {
                at: at.to_owned(),
                content,
            });
        }
    }

    fn is_host_path(&self, at: &str) -> bool {
        self.mounts.iter().any(|mount| {
            mount.at == Path::new(at) && matches!(mount.content, MountContent::Host(_))
        })
    }

    /// Returns true if `path` inside is the same file as outside. No part of `path` may be a link.
    pub(crate) fn shows_host_path(&self, path: &Path) -> bool {
        let over = self
            .mounts
            .iter()
            .filter(|mount| path.starts_with(&mount.at));
        let deepest = over.max_by_key(|mount| path_depth(&mount.at));
        deepest.is_some_and(|mount| match mount.content {
            MountContent::Host(PathAccess::Read | PathAccess::Write) => true,
            MountContent::Other(_) => mount.at == path,
            MountContent::Host(PathAccess::Covered | PathAccess::Masked)
            | MountContent::Link(_)
            | MountContent::Proc
            | MountContent::Dev
            | MountContent::Empty => false,
        })
    }

    /// Returns true if the link at `at` exists inside and has the same target as outside.
    pub(crate) fn contains_link(&self, at: &Path) -> bool {
        self.shows_host_path(at)
            || self
                .mounts
                .iter()
                .any(|mount| mount.at == at && matches!(mount.content, MountContent::Link(_)))
    }
}

#[cfg(test)]
mod tests;
