//! Start of a daemon: the facts that another process needs to start the same daemon again.

use std::{
    ffi::OsString,
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    process::Command,
};

use serde::{Deserialize, Serialize};
use trunkline_host::config::FILE_VARIABLE;

use super::DaemonFolder;
use crate::target::{AGENT, MODEL, is_set};

/// The start of a daemon. Its file in the daemon's folder is for this user only.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DaemonLaunch {
    /// The arguments of the program.
    pub(crate) arguments: Vec<String>,
    /// The folder in which it was started.
    pub(crate) folder: PathBuf,
    /// The configuration file, if neither an argument nor the folder leads to it.
    pub(crate) configuration: Option<PathBuf>,
    /// The default agent, if an argument or a variable names one.
    pub(crate) agent: Option<String>,
    /// The address of HTTP.
    pub(crate) http: SocketAddr,
    /// Names of the variables that it had and its agents use.
    pub(crate) variables: Vec<String>,
    /// True if its supervisor starts it again.
    pub(crate) is_supervised: bool,
    /// The cause of an orderly end.
    #[serde(default)]
    pub(crate) ended: Option<DaemonEnd>,
}

/// The cause of a daemon's orderly end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum DaemonEnd {
    /// `trunkline down`: only a user starts a daemon after it.
    Down,
    /// SIGTERM or Ctrl-C.
    Signal,
}

/// The arguments of this process.
///
/// # Errors
/// The argument that is not UTF-8.
pub(crate) fn own_arguments() -> Result<Vec<String>, OsString> {
    std::env::args_os()
        .skip(1)
        .map(OsString::into_string)
        .collect()
}

impl DaemonLaunch {
    /// Reads the start of the folder's last daemon. `None` if none was noted.
    ///
    /// # Errors
    /// The file cannot be read or is not a launch.
    pub(crate) fn read(folder: &DaemonFolder) -> io::Result<Option<Self>> {
        let path = file(folder);
        let read = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            read => read.and_then(|bytes| Ok(serde_json::from_slice(&bytes)?)),
        };
        read.map_err(|error| {
            let path = path.display();
            io::Error::other(format!(
                "failed to read {path}: {error}; `trunkline up` writes it again"
            ))
        })
    }

    /// Writes it into the daemon's folder.
    pub(crate) fn write(&self, folder: &DaemonFolder) -> io::Result<()> {
        folder.write(&file(folder), self)
    }

    /// Records the end of the daemon. Returns false if the folder has no launch.
    pub(crate) fn note_end(folder: &DaemonFolder, ended: DaemonEnd) -> io::Result<bool> {
        let Some(launch) = Self::read(folder)? else {
            return Ok(false);
        };
        let ended = Some(ended);
        Self { ended, ..launch }.write(folder)?;
        Ok(true)
    }

    /// Returns true if `trunkline down` ended the daemon.
    pub(crate) fn is_down(&self) -> bool {
        self.ended == Some(DaemonEnd::Down)
    }

    /// The first variable that the daemon had and this process lacks.
    pub(crate) fn missing_variable(&self) -> Option<&str> {
        let mut names = self.variables.iter().map(String::as_str);
        names.find(|name| !is_set(name))
    }

    /// The command that starts the daemon again, with the values of this process's environment. The
    /// daemon logs to `log` if it logged to stderr.
    pub(crate) fn command(&self, state: &DaemonFolder, log: &Path) -> io::Result<Command> {
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(&self.arguments)
            .current_dir(&self.folder)
            .env("TRUNKLINE_STATE", &state.0);
        let names_log =
            |argument: &String| argument == "--log-file" || argument.starts_with("--log-file=");
        if !self.arguments.iter().any(names_log) {
            command.arg("--log-file").arg(log);
        }
        match &self.configuration {
            Some(path) => command.env(FILE_VARIABLE, path),
            None => command.env_remove(FILE_VARIABLE),
        };
        match &self.agent {
            Some(agent) => command.env(AGENT, agent),
            None => command.env_remove(AGENT),
        };
        if !self.variables.iter().any(|name| name == MODEL) {
            command.env_remove(MODEL);
        }
        Ok(command)
    }
}

fn file(folder: &DaemonFolder) -> PathBuf {
    folder.0.join("launch.json")
}
