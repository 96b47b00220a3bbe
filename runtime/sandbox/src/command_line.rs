//! The command line that starts a program in its sandbox.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::PathBuf;

use crate::Container;

/// The command line that starts a program in its sandbox.
#[derive(Clone)]
pub struct CommandLine {
    /// Program that creates the sandbox.
    pub program: PathBuf,
    /// Arguments of the program.
    pub args: Vec<OsString>,
    /// Complete environment of the program.
    pub environment: BTreeMap<OsString, OsString>,
    /// Container to remove after the program has ended.
    pub container: Option<Container>,
}

impl fmt::Debug for CommandLine {
    /// Leaves out arguments and values of variables, because they may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandLine")
            .field("program", &self.program)
            .field("args", &format_args!("{} of them", self.args.len()))
            .field("environment", &self.environment.keys().collect::<Vec<_>>())
            .field("container", &self.container)
            .finish()
    }
}
