//! What is to run in a sandbox, and the command line that comes out.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use crate::init::{Keep, Options};
use crate::limits::Limits;
use crate::sandbox::Container;

/// What is to run in a sandbox. All paths are absolute.
#[derive(Clone, Copy)]
pub struct Inside<'a> {
    /// The program. Without a slash it is searched in the child's `PATH`, with one it counts from `work_dir`.
    pub program: &'a OsStr,
    /// Its arguments, without the program's own name.
    pub args: &'a [OsString],
    /// The child's whole environment.
    pub environment: &'a BTreeMap<OsString, OsString>,
    /// What of it the configuration declared.
    pub declared: &'a BTreeMap<OsString, OsString>,
    /// Where it runs.
    pub work_dir: &'a Path,
    /// Its private folder, whose parent holds those of others.
    pub private: &'a Path,
    /// The temporary folder, within the private one.
    pub temp: &'a Path,
    /// The folder by which host and child hand files over: the host's to grant, whatever a policy says.
    pub exchange: Option<&'a Path>,
    /// The init program, which runs first.
    pub init: &'a Path,
    /// The descriptor on which the init program reports a failed start.
    pub status: Option<RawFd>,
    /// The way to the proxy.
    pub outlet: Option<&'a Outlet>,
    /// What the tree may take; a container is started with it.
    pub limits: Limits,
    /// Further folders of the host that nothing inside may see: an empty one lies over each that is there and lies in
    /// something that may be read. A grant to write around one, or within, is refused.
    pub hidden: &'a [PathBuf],
    /// Files that the host reads and trusts: read-only inside, wherever they lie. One that is absent where the child could
    /// make it is refused.
    pub unwritable: &'a [PathBuf],
    /// Files that the host would read and trust if they were there: as `unwritable`, but where the child could make one, an
    /// empty one is made before it starts.
    pub reserved: &'a [PathBuf],
}

/// The way from inside to the proxy outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlet {
    /// The port on which the init program listens inside.
    pub port: u16,
    /// The proxy's socket, outside.
    pub socket: PathBuf,
}

/// Whether descriptors of the host are open inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Descriptors {
    Passed,
    Lost,
}

/// How to start a program in its sandbox.
#[derive(Clone)]
pub struct CommandLine {
    /// The program that makes the sandbox.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// The container that has to be removed, once whoever was started has ended.
    pub container: Option<Container>,
}

impl fmt::Debug for CommandLine {
    /// Leaves out the values of variables, and the arguments: they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandLine")
            .field("program", &self.program)
            .field("args", &format_args!("{} of them", self.args.len()))
            .field("environment", &self.environment.keys().collect::<Vec<_>>())
            .field("container", &self.container)
            .finish()
    }
}

impl fmt::Debug for Inside<'_> {
    /// Leaves out the values of variables, and the arguments: they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Inside")
            .field("program", &self.program)
            .field("args", &format_args!("{} of them", self.args.len()))
            .field("work_dir", &self.work_dir)
            .field("private", &self.private)
            .field("init", &self.init)
            .field("outlet", &self.outlet)
            .finish_non_exhaustive()
    }
}

impl Inside<'_> {
    /// The command line of the init program, seen from inside, where the proxy's socket is `socket`.
    pub(crate) fn init_line(&self, descriptors: Descriptors, socket: &Path) -> Vec<OsString> {
        let status = match descriptors {
            Descriptors::Passed => self.status,
            Descriptors::Lost => None,
        };
        let bridge = self.outlet.map(|outlet| (outlet.port, socket.to_owned()));
        let command = std::iter::once(self.program.to_owned()).chain(self.args.iter().cloned()).collect();
        let options =
            Options { keep: Keep::Plain, lifeline: None, status, bridge, after: Vec::new(), command };
        std::iter::once(self.init.into()).chain(options.to_args()).collect()
    }

    /// The variable `name` of the child.
    pub(crate) fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment.get(OsStr::new(name)).map(OsString::as_os_str)
    }
}
