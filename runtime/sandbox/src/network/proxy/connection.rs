//! A client's connection: plain requests, or a tunnel.

use std::sync::Arc;

use tokio::io::AsyncWriteExt;
use tokio::net::UnixStream;
use tokio::time::timeout;
use trunkline_redact as redact;

use crate::network::host::NetworkTarget;
use crate::network::refusal::{ConnectionError, RequestDenial};

use super::ProxyState;

/// Size of a read, in bytes.
pub(super) const READ_BYTES: usize = 16 * 1024;

/// A client's connection.
#[derive(Debug)]
pub(super) struct ClientConnection {
    pub(super) client: UnixStream,
    pub(super) shared: Arc<ProxyState>,
    /// True if the client has received a part of its response, so that a refusal cannot be sent.
    pub(super) answered: bool,
}

impl ClientConnection {
    pub(super) fn new(client: UnixStream, shared: Arc<ProxyState>) -> Self {
        Self {
            client,
            shared,
            answered: false,
        }
    }

    /// Serves the connection to its end. Each wait has a deadline.
    pub(super) async fn run(mut self) {
        let Err(stop) = self.serve().await else {
            return;
        };
        self.report(&stop);
        let response = match &stop {
            ConnectionError::Denied(denial) => Some(denial.response()),
            ConnectionError::Failed(failure) => failure.response(),
        };
        if let Some(response) = response.filter(|_| !self.answered) {
            let answered = async {
                self.client.write_all(&response).await?;
                self.client.shutdown().await
            };
            // A failure means that the client does not read its response.
            let _ = timeout(self.shared.options.limits.linger, answered).await;
        }
    }

    async fn serve(&mut self) -> Result<(), ConnectionError> {
        match self.serve_requests(None, Vec::new()).await? {
            Some((target, rest)) => self.tunnel(target, rest).await,
            None => Ok(()),
        }
    }

    /// Counts and logs, with hosts and ports only: paths, queries and malformed hosts may contain
    /// secrets.
    fn report(&self, stop: &ConnectionError) {
        let agent = self.shared.label.as_str();
        match stop {
            ConnectionError::Denied(RequestDenial { reason, target }) => {
                self.shared.counters.denied.increment();
                let (host, port) = target.as_ref().map(host_and_port).unwrap_or_default();
                let host = &*redact::text(&host);
                tracing::warn!(target: "trunkline::network", agent, host, port, reason = reason.code(), "denied");
            }
            ConnectionError::Failed(failure) => {
                self.shared.counters.failed.increment();
                tracing::debug!(target: "trunkline::network", agent, error = &*redact::text(&failure.to_string()), "failed");
            }
        }
    }
}

fn host_and_port(target: &NetworkTarget) -> (String, u16) {
    (target.host.to_string(), target.port)
}
