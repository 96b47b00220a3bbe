//! The daemon as the host of an ACP client.

use std::{collections::BTreeMap, future::pending, path::PathBuf, sync::Arc};

use tempfile::TempDir;
use tokio::io::split;
use trunkline_acp::{Host, Options};
use trunkline_client::{Connect, ConnectError, Pipe};
use trunkline_protocol::{SessionId, Sha256};

use super::{
    super::{agents, sessions, socket::PIPE_BYTES},
    MAX_MESSAGE_BYTES,
};
use crate::{
    auth::{authorizer::HubOrigin, principal::Principal},
    gateway::Shared,
    http::problem::Problem,
    peers::router,
};

/// Returns the host of a client and the options of its agent.
pub(super) fn serve_as(
    shared: Arc<Shared>,
    principal: &Principal,
    agent: Option<String>,
) -> (GatewayHost, Options) {
    let mut options = Options::new(&shared.options.version);
    options.agent = agent;
    options.is_local = matches!(principal, Principal::User);
    options.denies_at_end = false;
    options.may_approve = principal.may_approve();
    options.max_line = MAX_MESSAGE_BYTES;
    let files = tempfile::Builder::new().prefix("trunkline-acp-").tempdir();
    let files = files.inspect_err(|error| {
        tracing::warn!("a client of ACP can send no files: failed to make a folder: {error}");
    });
    let files = files.ok().map(Arc::new);
    options.files = files.as_ref().map(|files| files.path().to_owned());
    // The relay checks the folders of sessions: it has the rules of their agents.
    let host = GatewayHost {
        shared,
        principal: principal.clone(),
        _files: files,
    };
    (host, options)
}

/// Host with the sessions of this daemon that the client may see.
#[derive(Clone)]
pub(super) struct GatewayHost {
    shared: Arc<Shared>,
    principal: Principal,
    /// Folder of the client's files, removed with its last user.
    _files: Option<Arc<TempDir>>,
}

impl Connect for GatewayHost {
    async fn connect(&mut self) -> Result<Pipe, ConnectError> {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        let Self {
            shared, principal, ..
        } = self.clone();
        // Ends with its pipe.
        tokio::spawn(async move {
            let (input, output) = split(far);
            router::serve(
                &shared,
                &principal,
                HubOrigin::OwnAcp,
                input,
                output,
                pending(),
            )
            .await;
        });
        let (input, output) = split(near);
        Ok(Pipe::new(input, output))
    }
}

impl Host for GatewayHost {
    async fn remove(self, session: String) -> Result<(), String> {
        let id = SessionId::new(session).map_err(|error| error.to_string())?;
        sessions::end(&self.shared, &self.principal, &id, true)
            .await
            .map_err(Problem::into_detail)
    }

    async fn keep_file(
        self,
        session: SessionId,
        file: PathBuf,
        sha256: Sha256,
    ) -> Result<(), String> {
        let sessions = self.shared.sessions_for(&self.principal);
        let kept = sessions.keep_file(&session, file, sha256.to_string()).await;
        kept.map_err(|error| error.to_string())
    }

    async fn read_file(
        self,
        session: SessionId,
        sha256: Sha256,
    ) -> Result<Option<Vec<u8>>, String> {
        let sessions = self.shared.sessions_for(&self.principal);
        let found = sessions.file(&session, &sha256.to_string()).await;
        let Some(path) = found.map_err(|error| error.to_string())? else {
            return Ok(None);
        };
        let read = tokio::fs::read(path).await;
        read.map(Some).map_err(|error| error.to_string())
    }

    async fn work_dirs(self) -> Result<BTreeMap<String, String>, String> {
        Ok(agents::work_dirs(&self.shared, &self.principal))
    }
}
