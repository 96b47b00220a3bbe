//! The daemon of this user: its folder, and how to ask it.

pub(crate) mod launch;

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
};

use anyhow::anyhow;
use clap::Args;
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use trunkline_gateway::{Method, StatusCode, send_request};
use trunkline_host::{config::state_dir, redact};

use crate::{
    error::CliError,
    journal::{SOCKET, has_host},
    private_file::write_private,
};

/// Which daemon.
#[derive(Debug, Clone, Args)]
pub(crate) struct State {
    /// The daemon's folder [default: trunkline/daemon in the user's state folder, ~/.local/state]
    #[arg(long, value_name = "FOLDER", env = "TRUNKLINE_STATE")]
    state: Option<PathBuf>,
}

/// The folder of a daemon, which is this user's alone.
#[derive(Debug, Clone)]
pub(crate) struct Folder(pub(crate) PathBuf);

/// A daemon that runs, as its folder tells.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) http: String,
    pub(crate) socket: PathBuf,
    pub(crate) pid: u32,
    /// Its configuration, as [`Target::effective`](crate::target::Target::effective) tells whether another is the same.
    /// `None` where no other is.
    #[serde(default)]
    pub(crate) configuration: Option<String>,
    /// The folder in which it was started.
    #[serde(default)]
    pub(crate) folder: PathBuf,
}

impl State {
    /// The folder, which may not be there yet.
    ///
    /// # Errors
    /// When the user has no home, and names none.
    pub(crate) fn folder(&self) -> Result<Folder, CliError> {
        let folder = match &self.state {
            Some(folder) => std::path::absolute(folder)?,
            None => {
                let folder = state_dir(|name| std::env::var_os(name)).ok_or_else(|| {
                    CliError::usage(anyhow!("the user has no home"))
                        .next("name the daemon's folder by --state FOLDER")
                })?;
                folder.join("daemon")
            }
        };
        Ok(Folder(folder))
    }
}

impl Folder {
    /// Makes the folder where it is not there. One that others may write to is refused.
    ///
    /// # Errors
    /// Why it cannot be used.
    pub(crate) fn make(&self) -> Result<(), CliError> {
        let named = |error: io::Error| {
            CliError::usage(
                anyhow!(error).context(format!("failed to use the folder {}", self.0.display())),
            )
        };
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)
            .map_err(named)?;
        let found = fs::metadata(&self.0).map_err(named)?;
        if found.uid() != rustix::process::geteuid().as_raw() {
            return Err(named(io::Error::other("it is another user's")));
        }
        if found.mode() & 0o077 != 0 {
            fs::set_permissions(&self.0, fs::Permissions::from_mode(0o700)).map_err(named)?;
        }
        Ok(())
    }

    /// The folder of the daemon that has an adapter of the command line alone.
    pub(crate) fn of_adapter(&self, line: &str) -> Self {
        let name = hex_digest(line, 6);
        Self(self.0.join(format!("adapter-{name}")))
    }

    /// The folder of the daemon that has, or had, this journal.
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

    /// Writes where the daemon is, for the user's commands.
    pub(crate) fn note(&self, running: &Running) -> io::Result<()> {
        self.write(&self.file(), running)
    }

    /// Replaces a file of the folder, which is for this user only.
    fn write(&self, file: &Path, value: &impl Serialize) -> io::Result<()> {
        write_private(file, &serde_json::to_vec(value)?)
    }

    /// Forgets it.
    pub(crate) fn forget(&self) {
        // It may be gone.
        let _ = fs::remove_file(self.file());
    }

    /// Where the daemon of this folder is, as it noted.
    ///
    /// # Errors
    /// That there is none.
    pub(crate) fn running(&self) -> Result<Running, CliError> {
        let noted = fs::read(self.file())
            .ok()
            .and_then(|bytes| serde_json::from_slice(&bytes).ok());
        noted.ok_or_else(|| self.none())
    }

    /// That no daemon runs.
    fn none(&self) -> CliError {
        CliError::failed(anyhow!("no daemon runs in {}", self.0.display()))
            .next("`trunkline up` starts one; --state FOLDER names another folder")
    }

    /// Asks the daemon. Gives its answer, or its problem as a fault.
    ///
    /// # Errors
    /// When it is not there, or refuses.
    pub(crate) async fn ask(&self, method: Method, path: &str) -> Result<Value, CliError> {
        accepted(self.answer(method, path, Vec::new()).await?)
    }

    /// The same, with a body.
    ///
    /// # Errors
    /// As [`Folder::ask`].
    pub(crate) async fn tell(
        &self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<Value, CliError> {
        accepted(
            self.answer(method, path, body.to_string().into_bytes())
                .await?,
        )
    }

    /// Closes a session and removes it from the journal. One that is not there is removed.
    ///
    /// # Errors
    /// As [`Folder::ask`].
    pub(crate) async fn remove(&self, session: &str) -> Result<(), CliError> {
        let path = format!("{}?remove=true", session_path(session));
        match self.answer(Method::DELETE, &path, Vec::new()).await? {
            (StatusCode::NOT_FOUND, _) => Ok(()),
            answer => accepted(answer).map(drop),
        }
    }

    /// Stores a file with a session until the session is removed.
    ///
    /// # Errors
    /// As [`Folder::ask`].
    pub(crate) async fn keep_file(&self, session: &str, bytes: Vec<u8>) -> Result<(), CliError> {
        let path = format!("{}/files?keep=true", session_path(session));
        accepted(self.answer(Method::PUT, &path, bytes).await?).map(drop)
    }

    /// Reads a file that is stored with a session, of at most 4 MiB. `None`: it has no such file.
    ///
    /// # Errors
    /// As [`Folder::ask`].
    pub(crate) async fn read_file(
        &self,
        session: &str,
        sha256: &str,
    ) -> Result<Option<Vec<u8>>, CliError> {
        let path = format!("{}/files/{sha256}", session_path(session));
        match self.answer_bytes(Method::GET, &path, Vec::new()).await? {
            (StatusCode::NOT_FOUND, _) => Ok(None),
            (StatusCode::OK, bytes) => Ok(Some(bytes)),
            (status, bytes) => {
                let problem = serde_json::from_slice(&bytes).unwrap_or_default();
                accepted((status, problem)).map(|_| None)
            }
        }
    }

    /// Has a host take over a session whose files no host has. Gives which; `None`: a host serves it, and it stays there.
    ///
    /// # Errors
    /// As [`Folder::ask`].
    pub(crate) async fn relocate(&self, session: &str) -> Result<Option<String>, CliError> {
        let path = format!("{}/relocate", session_path(session));
        match self.answer(Method::POST, &path, Vec::new()).await? {
            (StatusCode::CONFLICT, _) => Ok(None),
            answer => Ok(accepted(answer)?["host"].as_str().map(str::to_owned)),
        }
    }

    /// What the daemon answers, be it a refusal.
    async fn answer(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Value), CliError> {
        let (status, body) = self.answer_bytes(method, path, body).await?;
        Ok((status, serde_json::from_slice(&body).unwrap_or_default()))
    }

    async fn answer_bytes(
        &self,
        method: Method,
        path: &str,
        body: Vec<u8>,
    ) -> Result<(StatusCode, Vec<u8>), CliError> {
        let answered = send_request(&self.socket(), method, path, body).await;
        let (status, body) = answered.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => self.none(),
            _ => CliError::failed(
                anyhow!(error).context(format!("failed to ask the daemon in {}", self.0.display())),
            ),
        })?;
        Ok((status, body.into()))
    }

    /// Whether no process listens on the daemon's socket any more.
    pub(crate) fn is_down(&self) -> bool {
        !has_host(&self.journal())
    }
}

/// An answer, or the problem that it tells of.
fn session_path(session: &str) -> String {
    format!(
        "/v1/sessions/{}",
        utf8_percent_encode(session, NON_ALPHANUMERIC)
    )
}

/// The first bytes of the SHA-256 of a text, in hexadecimal.
pub(crate) fn hex_digest(text: &str, bytes: usize) -> String {
    let digest = hmac_sha256::Hash::hash(text.as_bytes());
    let bytes = digest.iter().take(bytes);
    bytes.map(|byte| format!("{byte:02x}")).collect()
}

fn accepted((status, body): (StatusCode, Value)) -> Result<Value, CliError> {
    if status.is_success() {
        return Ok(body);
    }
    let detail = body["detail"].as_str().unwrap_or("the daemon refused");
    Err(CliError::failed(anyhow!("{}", redact::text(detail))))
}

/// The folder of the daemon that commands use.
pub(crate) fn folder() -> Option<Folder> {
    let state = State {
        state: std::env::var_os("TRUNKLINE_STATE").map(PathBuf::from),
    };
    state.folder().ok()
}

/// The folder of the daemon's journal, where there is one.
pub(crate) fn journal() -> Option<PathBuf> {
    folder()
        .map(|folder| folder.journal())
        .filter(|journal: &PathBuf| Path::is_dir(journal))
}
