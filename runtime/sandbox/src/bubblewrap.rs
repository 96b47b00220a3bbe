//! The command line of bubblewrap. A pure function of its arguments.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use crate::grant::PathAccess;
use crate::network::proxy_variables;
use crate::support::BubblewrapTool;
use crate::view::{FileView, MountContent, NULL_DEVICE, PROXY_SOCKET};
use crate::{CommandLine, Inside, Network};
use trunkline_process::loads_natively;
use trunkline_process::{Descriptors, MountIdentity};

/// Size limit of `/tmp` in bytes, which is in memory. Large files belong in `TMPDIR`.
const TMP_BYTES: &str = "1073741824";

/// Returns the command line that runs the init program in bubblewrap. The init program runs the
/// child, if each of `places` has this device and inode number inside.
pub(crate) fn command_line(
    tool: &BubblewrapTool,
    view: &FileView,
    network: &Network,
    user: (u32, u32),
    home: &OsStr,
    places: Vec<MountIdentity>,
    inside: &Inside<'_>,
) -> CommandLine {
    let mut args = BwrapArguments(isolation_args(tool.disable_userns, network));
    args.push(["--uid", &user.0.to_string(), "--gid", &user.1.to_string()]);
    for mount in &view.mounts {
        args.push_mount(&mount.at, &mount.content);
    }
    // Only now: the mounts inside these folders need writable mount points.
    for cover in view
        .mounts
        .iter()
        .filter(|mount| mount.content == MountContent::Host(PathAccess::Covered))
    {
        args.push([OsStr::new("--remount-ro"), cover.at.as_os_str()]);
    }
    args.push(["--remount-ro", "/"]);
    args.push([OsStr::new("--chdir"), inside.work_dir.as_os_str()]);

    let mut environment = child_environment(home, inside);
    // If these variables were in the environment of bwrap, it would load their code outside.
    let loading: Vec<OsString> = environment
        .keys()
        .filter(|name| loads_natively(name))
        .cloned()
        .collect();
    for name in loading {
        if let Some(value) = environment.remove(&name) {
            args.push([OsStr::new("--setenv"), &name, &value]);
        }
    }
    args.push(["--"]);
    args.0
        .extend(inside.init_line(Descriptors::Passed, Path::new(PROXY_SOCKET), places));
    CommandLine {
        program: tool.program.clone(),
        args: args.0,
        environment,
        container: None,
    }
}

/// Returns the flags that isolate a child, independent of its mounts.
pub(crate) fn isolation_args(disable_userns: bool, network: &Network) -> Vec<OsString> {
    let mut args = vec!["--unshare-user", "--unshare-all"];
    if matches!(network, Network::All) {
        args.push("--share-net");
    }
    if disable_userns {
        args.push("--disable-userns");
    }
    args.extend(["--die-with-parent", "--cap-drop", "ALL"]);
    args.into_iter().map(Into::into).collect()
}

fn child_environment(home: &OsStr, inside: &Inside<'_>) -> BTreeMap<OsString, OsString> {
    let mut environment = inside.environment.clone();
    environment.insert("HOME".into(), home.to_owned());
    if let Some(outlet) = inside.outlet {
        environment.extend(proxy_variables(outlet.port));
    }
    environment
}

struct BwrapArguments(Vec<OsString>);

impl BwrapArguments {
    fn push<A: AsRef<OsStr>>(&mut self, args: impl IntoIterator<Item = A>) {
        self.0
            .extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
    }

    fn push_mount(&mut self, at: &Path, content: &MountContent) {
        let at = at.as_os_str();
        match content {
            MountContent::Host(PathAccess::Covered) => self.push([OsStr::new("--tmpfs"), at]),
            MountContent::Host(PathAccess::Masked) => {
                self.push([OsStr::new("--ro-bind"), NULL_DEVICE.as_ref(), at])
            }
            MountContent::Host(PathAccess::Read) => self.push([OsStr::new("--ro-bind"), at, at]),
            MountContent::Host(PathAccess::Write) => self.push([OsStr::new("--bind"), at, at]),
            MountContent::Other(source) => {
                self.push([OsStr::new("--ro-bind"), source.as_os_str(), at])
            }
            MountContent::Link(target) => {
                self.push([OsStr::new("--symlink"), target.as_os_str(), at])
            }
            MountContent::Proc => {
                self.push([OsStr::new("--proc"), at]);
                self.push([OsStr::new("--remount-ro"), at]);
            }
            MountContent::Dev => self.push([OsStr::new("--dev"), at]),
            MountContent::Empty => self.push([
                OsStr::new("--size"),
                TMP_BYTES.as_ref(),
                "--tmpfs".as_ref(),
                at,
            ]),
        }
    }
}

#[cfg(test)]
mod tests;
