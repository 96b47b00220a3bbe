//! The daemon of this user: its folder, and requests to it.

pub(crate) mod launch;

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::anyhow;
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trunkline_client::{ClientError, HttpClient, Method, ReconnectPolicy, StatusCode, UnixSocket};
use trunkline_host::{
    config::state_dir,
    protocol::{SessionId, Sha256},
    redact,
};

use crate::{
    error::CliError,
    journal::{SOCKET, has_host},
    private_file::write_private,
    target::EffectiveConfig,
};

/// Timeout for an answer about the daemon's state.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Option that selects a daemon.
#[derive(Debug, Clone, Args)]
pub(crate) struct DaemonSelection {
    /// Folder of the daemon [default: trunkline/daemon in the user's state folder, ~/.local/state]
    #[arg(long, value_name = "FOLDER", env = "TRUNKLINE_STATE")]
    state: Option<PathBuf>,
}

/// The private folder of a daemon.
#[derive(Debug, Clone)]
pub(crate) struct DaemonFolder(pub(crate) PathBuf);

/// A running daemon, as recorded in its folder.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct RunningDaemon {
    pub(crate) http: String,
    pub(crate) socket: PathBuf,
    pub(crate) pid: u32,
    /// `None` if no command can have the same configuration.
    #[serde(default)]
    pub(crate) effective: Option<EffectiveConfig>,
    /// Working directory at its start.
    #[serde(default)]
    pub(crate) folder: PathBuf,
}

impl DaemonSelection {
    /// Returns the folder, which may not exist yet.
    ///
    /// # Errors
    /// The user has no home folder and names no folder.
    pub(crate) fn folder(&self) -> Result<DaemonFolder, CliError> {
        let folder = match &self.state {
            Some(folder) => std::path::absolute(folder)?,
            None => {
                let folder = state_dir(|name| std::env::var_os(name)).ok_or_else(|| {
                    CliError::usage(anyhow!("the user has no home folder"))
                        .next("name the daemon's folder by --state FOLDER")
                })?;
                folder.join("daemon")
            }
        };
        Ok(DaemonFolder(folder))
    }
}

impl DaemonFolder {
    /// Creates the folder if it is missing. A folder that others can write to is rejected.
    ///
    /// # Errors
    /// The folder cannot be used.
    pub(crate) fn create_folder(&self) -> Result<(), CliError> {
        let named = |error: io::Error| {
            CliError::usage(anyhow!(error).context(format!(
                "failed to use the daemon's folder {}",
                self.0.display()
            )))
            .next("use another folder: --state FOLDER, or the variable TRUNKLINE_STATE")
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .map_err(named)?;
        let found = fs::metadata(&self.0).map_err(named)?;
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(named(io::Error::other("it belongs to another user")));
        }
        if found.mode() & 0o077 != 0 {
            fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700)).map_err(named)?;
        }
        Ok(())
    }

    /// Returns the folder of the daemon that serves only this adapter of the command line.
    pub(crate) fn of_adapter(&self, line: &str) -> Self {
        let name = hex_digest(line, 6);
        Self(self.0.join(format!("adapter-{name}")))
    }

    /// Returns the folder of the daemon with this journal, running or not.
    pub(crate) fn of_journal(journal: &Path) -> Option<Self> {
        let folder = Self(journal.parent()?.to_owned());
        (folder.journal() == journal && folder.file().exists()).then_some(folder)
    }

    pub(crate) fn journal(&self) -> PathBuf {
        self.0.join("journal")
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.journal().join(SOCKET)
    }

    fn file(&self) -> PathBuf {
        self.0.join("daemon.json")
    }

    /// Records the running daemon, for the user's commands.
    pub(crate) fn note(&self, running: &RunningDaemon) -> io::Result<()> {
        self.write(&self.file(), running)
    }

    /// Replaces a private file of the folder.
    fn write(&self, file: &Path, value: &impl Serialize) -> io::Result<()> {
        write_private(file, &serde_json::to_vec(value)?)
    }

    /// Removes the record of the running daemon.
    pub(crate) fn remove_record(&self) {
        // The file may be missing.
        let _ = fs::remove_file(self.file());
    }

    /// Reads the record of the running daemon.
    ///
    /// # Errors
    /// No daemon is running.
    pub(crate) fn running(&self) -> Result<RunningDaemon, CliError> {
        let record = fs::read(self.file())
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        record.ok_or_else(|| self.no_daemon_error())
    }

    /// Returns the configuration file of the daemon, if it is running and has one.
    pub(crate) fn config_file(&self) -> Option<PathBuf> {
        let running = self.running().ok().filter(|_| !self.is_down())?;
        running.effective?.file
    }

    /// Returns the error for a missing daemon.
    fn no_daemon_error(&self) -> CliError {
        CliError::failed(anyhow!("no daemon is running in {}", self.0.display()))
            .next("`trunkline up` starts one; --state FOLDER names another folder")
    }

    /// Returns the error for a daemon that does not answer.
    pub(crate) fn no_answer_error(&self) -> CliError {
        let folder = self.0.display();
        let process = match self.running() {
            Ok(running) => format!(" (process {})", running.pid),
            Err(_) => String::new(),
        };
        CliError::failed(anyhow!("the daemon in {folder}{process} does not answer")).next(
            "it is stopped or overloaded; try again, or end that process and run `trunkline up`",
        )
    }

    /// Sends a request, and returns the answer.
    ///
    /// # Errors
    /// No daemon is running, or it refused the request.
    pub(crate) async fn request(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, CliError> {
        let answered = self.http().request(method, path, body).await;
        answered.map_err(|error| self.failure(error))
    }

    /// Closes a session and removes it from the journal. Succeeds if the session does not exist.
    ///
    /// # Errors
    /// As for [`DaemonFolder::request`].
    pub(crate) async fn remove_session(&self, session: &SessionId) -> Result<(), CliError> {
        let removed = self.http().remove_session(session).await;
        self.unless(StatusCode::NOT_FOUND, removed).map(drop)
    }

    /// Stores a file with a session until the session is removed.
    ///
    /// # Errors
    /// As for [`DaemonFolder::request`].
    pub(crate) async fn keep_file(
        &self,
        session: &SessionId,
        bytes: Vec<u8>,
    ) -> Result<(), CliError> {
        let path = format!("{}/files?keep=true", session_path(session));
        let kept = self.http().request_bytes(Method::PUT, &path, bytes).await;
        kept.map(drop).map_err(|error| self.failure(error))
    }

    /// Reads a file that is stored with a session. `None` if the session has no such file.
    ///
    /// # Errors
    /// As for [`DaemonFolder::request`].
    pub(crate) async fn read_file(
        &self,
        session: &SessionId,
        sha256: &Sha256,
    ) -> Result<Option<Vec<u8>>, CliError> {
        let read = self.http().get_file(session, sha256).await;
        self.unless(StatusCode::NOT_FOUND, read)
    }

    /// Lets another host take over a session whose files no host has. Returns the id of that host,
    /// or `None` if a host already serves the session.
    ///
    /// # Errors
    /// As for [`DaemonFolder::request`].
    pub(crate) async fn relocate(&self, session: &SessionId) -> Result<Option<String>, CliError> {
        let path = format!("{}/relocate", session_path(session));
        let relocated = self.http().request(Method::POST, &path, None).await;
        let relocated = self.unless(StatusCode::CONFLICT, relocated)?;
        Ok(relocated.and_then(|host| host["host"].as_str().map(str::to_owned)))
    }

    /// Returns HTTP of the daemon. A failure is reported at once.
    fn http(&self) -> HttpClient {
        let policy = ReconnectPolicy::default().give_up_after(Duration::ZERO);
        HttpClient::from(UnixSocket::new(self.socket())).with_policy(policy)
    }

    /// Returns `None` for an answer of this status.
    fn unless<T>(
        &self,
        expected: StatusCode,
        answered: Result<T, ClientError>,
    ) -> Result<Option<T>, CliError> {
        match answered {
            Ok(answer) => Ok(Some(answer)),
            Err(ClientError::HttpRefused { status, .. }) if expected == status => Ok(None),
            Err(error) => Err(self.failure(error)),
        }
    }

    fn failure(&self, error: ClientError) -> CliError {
        match error {
            ClientError::Unreachable(error) if !error.is_permanent() => self.no_daemon_error(),
            ClientError::HttpRefused { message, .. } => {
                CliError::failed(anyhow!("{}", redact::text(&message)))
            }
            error => CliError::failed(anyhow!(error).context(format!(
                "failed to send a request to the daemon in {}",
                self.0.display()
            ))),
        }
    }

    /// Returns true if no process listens on the daemon's socket.
    pub(crate) fn is_down(&self) -> bool {
        !has_host(&self.journal())
    }
}

/// Returns the path of a session's resource.
fn session_path(session: &SessionId) -> String {
    let id = utf8_percent_encode(session.as_str(), NON_ALPHANUMERIC);
    format!("/v1/sessions/{id}")
}

/// Returns the first bytes of the SHA-256 of a text, in hexadecimal.
pub(crate) fn hex_digest(text: &str, bytes: usize) -> String {
    let digest = hmac_sha256::Hash::hash(text.as_bytes());
    let bytes = digest.iter().take(bytes);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the folder of the daemon that commands use.
pub(crate) fn folder() -> Option<DaemonFolder> {
    let state = DaemonSelection {
        state: std::env::var_os("TRUNKLINE_STATE").map(PathBuf::from),
    };
    state.folder().ok()
}

/// Returns the journal of the daemon, if it exists.
pub(crate) fn journal() -> Option<PathBuf> {
    folder()
        .map(|folder| folder.journal())
        .filter(|journal: &PathBuf| Path::is_dir(journal))
}
