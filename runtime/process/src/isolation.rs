//! The door for sandboxes: what is to run in one, and the command line that comes out.

use std::any::Any;
use std::collections::BTreeMap;
use std::error::Error;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::io;
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};

use crate::init::{InitOptions, Keep};
use crate::limits::Limits;

/// A sandbox: keeps a child from the host's files, processes and network.
///
/// It has a PID namespace: everything inside ends with the started process, or with its container.
pub trait Isolation: fmt::Debug + Send + Sync {
    /// The command line that runs a program inside; the [init program](crate::init) runs first, by
    /// [`Inside::init_line`].
    ///
    /// A start calls it where blocking is allowed, within the runtime of [`spawn`](crate::spawn()).
    ///
    /// # Errors
    ///
    /// When it cannot be made here, or would lack what the program needs.
    fn isolate(&self, inside: &Inside<'_>) -> Result<Isolated, IsolationError>;
}

/// Command line that starts a program inside.
#[derive(Debug)]
pub struct Isolated {
    /// The program that makes the sandbox.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The whole environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// Owner of the sandbox's end.
    pub holder: Holder,
    /// Resource that lives as long as the child, such as a proxy.
    pub attachment: Attachment,
}

/// Owner of a sandbox, whose end ends everything inside.
#[derive(Debug)]
pub enum Holder {
    /// The process that is started.
    Process,
    /// The engine of a container. It limits the container itself, and may outlive its client.
    Engine {
        /// The command line that removes the container, run when the client has ended or the host is gone.
        removal: Vec<OsString>,
    },
}

/// Resource that lives as long as a child: dropping the [`Child`](crate::Child) drops it.
#[derive(Default)]
pub struct Attachment(Option<Box<dyn Any + Send + Sync>>);

impl Attachment {
    /// Keeps a value.
    pub fn new(value: impl Any + Send + Sync) -> Self {
        Self(Some(Box::new(value)))
    }

    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        self.0.as_ref()?.downcast_ref()
    }
}

impl fmt::Debug for Attachment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Attachment")
            .field(&self.0.is_some())
            .finish()
    }
}

/// Error of a sandbox that could not be made.
#[derive(Debug)]
pub enum IsolationError {
    /// Isolation that cannot be made here, or not as requested; the text reads after "failed to".
    Refused(Box<dyn Error + Send + Sync>),
    /// There is no such program, inside or outside.
    NotFound {
        /// The program.
        program: OsString,
        /// The child's `PATH`.
        path: OsString,
    },
    /// The system is short of something.
    System(io::Error),
}

/// A program for a sandbox. All paths are absolute.
#[derive(Clone, Copy)]
pub struct Inside<'a> {
    /// Name in logs.
    pub label: &'a str,
    /// The program. Without a slash it is searched in the child's `PATH`, with one it counts from `work_dir`.
    pub program: &'a OsStr,
    /// Arguments without the program's own name.
    pub args: &'a [OsString],
    /// The child's whole environment.
    pub environment: &'a BTreeMap<OsString, OsString>,
    /// Variables that the configuration declared.
    pub declared: &'a BTreeMap<OsString, OsString>,
    /// Working directory.
    pub work_dir: &'a Path,
    /// Private folder, whose parent holds the folders of other children.
    pub private: &'a Path,
    /// The temporary folder, within the private one.
    pub temp: &'a Path,
    /// Folder in which host and child exchange files. The host grants it, whatever the policy is.
    pub exchange: Option<&'a Path>,
    /// The init program, which runs first.
    pub init: &'a Path,
    /// The descriptor on which the init program reports a failed start.
    pub status: Option<RawFd>,
    /// Route to a proxy. Unknown at a start: the sandbox that makes a proxy sets it.
    pub outlet: Option<&'a Outlet>,
    /// Limits of the tree; a container is started with them.
    pub limits: Limits,
    /// Further folders of the host that are invisible inside: an empty folder covers each that
    /// exists within a readable one. A grant to write around or within one is refused.
    pub hidden: &'a [PathBuf],
    /// Files and folders of the host that cannot be read, written or connected to inside, even if
    /// the folder around them can: something empty covers each that exists and cannot be replaced.
    /// A grant within one is refused.
    pub covered: &'a [PathBuf],
    /// Files that the host reads and trusts: read-only inside, in any folder. A missing one that
    /// the child could make is refused.
    pub unwritable: &'a [PathBuf],
    /// Files that the host would read and trust if they existed: as `unwritable`, but a missing one
    /// that the child could make is made empty before it starts.
    pub reserved: &'a [PathBuf],
}

/// The way from inside to a proxy outside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outlet {
    /// The port on which the init program listens inside.
    pub port: u16,
    /// The proxy's socket, outside.
    pub socket: PathBuf,
}

/// Device and inode number of a mounted path, and the path.
pub type MountIdentity = ((u64, u64), PathBuf);

/// Visibility of the host's descriptors inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Descriptors {
    /// Open, under their own numbers.
    Passed,
    /// Closed.
    Lost,
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
    /// Returns the command line of the init program, as seen inside, with the proxy's socket at
    /// `socket`. The program starts only if each of `places` has this device and inode number.
    #[must_use]
    pub fn init_line(
        &self,
        descriptors: Descriptors,
        socket: &Path,
        places: Vec<MountIdentity>,
    ) -> Vec<OsString> {
        let status = match descriptors {
            Descriptors::Passed => self.status,
            Descriptors::Lost => None,
        };
        let bridge = self.outlet.map(|outlet| (outlet.port, socket.to_owned()));
        let command = std::iter::once(self.program.to_owned())
            .chain(self.args.iter().cloned())
            .collect();
        let options = InitOptions {
            status,
            bridge,
            places,
            command,
            ..InitOptions::new(Keep::Plain)
        };
        std::iter::once(self.init.into())
            .chain(options.to_args())
            .collect()
    }

    /// The variable `name` of the child.
    #[must_use]
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.environment
            .get(OsStr::new(name))
            .map(OsString::as_os_str)
    }
}
