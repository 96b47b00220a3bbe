//! A host that is a child process of this program.

use std::{ffi::OsStr, process::Stdio};

use tokio::process::Command;

use super::{Connect, Pipe};
use crate::ConnectError;

/// A command such as `trunkline serve --journal FOLDER`, which is started, and started again when
/// it ends.
///
/// Its stderr is this program's, unless the command redirects it. It ends with the client. Exit
/// status 2, a wrong configuration, is permanent, and so is a program that cannot be started.
#[derive(Debug)]
pub struct ChildProcess {
    command: Command,
}

impl ChildProcess {
    /// A program with arguments.
    #[must_use]
    pub fn new<S: AsRef<OsStr>>(
        program: impl AsRef<OsStr>,
        arguments: impl IntoIterator<Item = S>,
    ) -> Self {
        let mut command = Command::new(program);
        command.args(arguments);
        Self::from_command(command)
    }

    /// A command with an environment, a folder or a stderr of its own. Its stdin and stdout are the
    /// connection.
    #[must_use]
    pub fn from_command(command: impl Into<Command>) -> Self {
        let mut command = command.into();
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        Self { command }
    }
}

impl Connect for ChildProcess {
    async fn connect(&mut self) -> Result<Pipe, ConnectError> {
        let program = self.command.as_std().get_program().display().to_string();
        let mut child = self.command.spawn().map_err(|error| {
            ConnectError::permanent(format!("the command {program} was not started: {error}"))
        })?;
        let (Some(input), Some(output)) = (child.stdout.take(), child.stdin.take()) else {
            return Err(ConnectError::permanent(format!(
                "the command {program} has no pipes"
            )));
        };
        Ok(Pipe::new(input, output).of_child(child))
    }
}
