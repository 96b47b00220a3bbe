//! How to start a program in its sandbox.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::Container;

/// How to start a program in its sandbox.
#[derive(Clone)]
pub struct CommandLine {
    /// The program that makes the sandbox.
    pub program: PathBuf,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// Its whole environment.
    pub environment: BTreeMap<OsString, OsString>,
    /// The container that has to be removed, once the started program has ended.
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
