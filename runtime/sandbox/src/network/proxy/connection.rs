//! One connection of a client: one request, or one tunnel.

use std::sync::Arc;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::time::timeout;
use trunkline_redact as redact;

use crate::network::head::{HeadBuffer, Request, Whole, target_of};
use crate::network::host::Target;
use crate::network::refusal::{Denial, Failure, Reason, Stop};

use super::Shared;

/// Bytes of one read.
pub(super) const READ: usize = 16 * 1024;

/// A client's connection.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) client: UnixStream,
    pub(super) shared: Arc<Shared>,
    /// The client has had its answer, or a part of it: a refusal can no more be put into words.
    pub(super) answered: bool,
}

impl Connection {
    pub(super) fn new(client: UnixStream, shared: Arc<Shared>) -> Self {
        Self {
            client,
            shared,
            answered: false,
        }
    }

    /// Serves the connection to its end; every wait in it has a deadline.
    pub(super) async fn run(mut self) {
        let Err(stop) = self.serve().await else {
            return;
        };
        self.tell(&stop);
        let response = match &stop {
            Stop::Denied(denial) => Some(denial.response()),
            Stop::Failed(failure) => failure.response(),
        };
        if let Some(response) = response.filter(|_| !self.answered) {
            let answered = async {
                self.client.write_all(&response).await?;
                self.client.shutdown().await
            };
            // A client that does not take its answer goes without.
            let _ = timeout(self.shared.limits.linger, answered).await;
        }
    }

    async fn serve(&mut self) -> Result<(), Stop> {
        let Ok(read) = timeout(self.shared.limits.head, self.read_request(&[], None)).await else {
            return Err(Stop::Failed(Failure::Slow));
        };
        match read? {
            Some((Request::Connect(target), rest)) => self.tunnel(target, rest).await,
            Some((Request::Plain(request), rest)) => self.forward(request, rest).await,
            None => Ok(()),
        }
    }

    /// Reads a request's head, which begins with `held`, and what came with it; `None` if the
    /// client went without a request. In a tunnel the request must be a plain one for the tunnel's
    /// target.
    async fn read_request(
        &mut self,
        held: &[u8],
        tunnel: Option<&Target>,
    ) -> Result<Option<(Request, Vec<u8>)>, Stop> {
        let denied = |problem, target| {
            Stop::Denied(Denial {
                reason: Reason::Head(problem),
                target,
            })
        };
        let mut head = HeadBuffer::default();
        let mut buffer = [0; 4 * 1024];
        let mut whole = head
            .push(held)
            .map_err(|problem| denied(problem, tunnel.cloned()))?;
        loop {
            if let Some(Whole { head, rest }) = whole {
                let request = match tunnel {
                    None => Request::parse(&head),
                    Some(target) => Request::parse_in_tunnel(&head, target),
                };
                let request = request.map_err(|problem| {
                    denied(problem, tunnel.cloned().or_else(|| target_of(&head)))
                })?;
                return Ok(Some((request, rest)));
            }
            match self.client.read(&mut buffer).await {
                Ok(0) | Err(_) if head.is_empty() => return Ok(None),
                Ok(0) | Err(_) => return Err(Stop::Failed(Failure::ClientGone)),
                Ok(count) => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    whole = head
                        .push(bytes)
                        .map_err(|problem| denied(problem, tunnel.cloned()))?;
                }
            }
        }
    }

    /// Serves one plain HTTP request in a tunnel, `held` being its beginning. It is judged as one
    /// outside of a tunnel: its `Host` must be the tunnel's target. Some clients, such as Node's
    /// `fetch`, tunnel `http://` URLs too.
    pub(super) async fn forward_in_tunnel(
        &mut self,
        target: &Target,
        held: &[u8],
    ) -> Result<(), Stop> {
        // The client waits for an answer to this request; that to CONNECT it has.
        self.answered = false;
        let Ok(read) = timeout(
            self.shared.limits.head,
            self.read_request(held, Some(target)),
        )
        .await
        else {
            return Err(Stop::Failed(Failure::Slow));
        };
        match read? {
            Some((Request::Plain(request), rest)) => self.forward(request, rest).await,
            Some((Request::Connect(_), _)) | None => Ok(()),
        }
    }

    /// Counts and logs. Hosts and ports only: paths and queries may hold secrets, and so may
    /// whatever could not be read as a host.
    fn tell(&self, stop: &Stop) {
        let agent = self.shared.label.as_str();
        match stop {
            Stop::Denied(Denial { reason, target }) => {
                self.shared.counters.denied();
                let (host, port) = target.as_ref().map(host_and_port).unwrap_or_default();
                let host = &*redact::text(&host);
                tracing::warn!(target: "trunkline::network", agent, host, port, reason = reason.code(), "denied");
            }
            Stop::Failed(failure) => {
                self.shared.counters.failed();
                tracing::debug!(target: "trunkline::network", agent, error = &*redact::text(&failure.to_string()), "failed");
            }
        }
    }
}

fn host_and_port(target: &Target) -> (String, u16) {
    (target.host.to_string(), target.port)
}
