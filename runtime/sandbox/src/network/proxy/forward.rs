//! Plain HTTP requests and their responses.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;

use crate::network::head::{PlainRequest, ProxyRequest, ServerResponse, parse_reported_target};
use crate::network::host::NetworkTarget;
use crate::network::refusal::{ConnectionError, ConnectionFailure, DenialReason, RequestDenial};

use super::connection::ClientConnection;
use super::copy::{CopyError, CopyProgress, HeadError, StreamRest, write};

impl ClientConnection {
    /// Serves plain requests until the client ends, and checks each of them. Returns the target of
    /// a tunnel and the bytes that follow, if the client requests one.
    ///
    /// In a tunnel, every request must be for its target.
    pub(super) async fn serve_requests(
        &mut self,
        tunnel: Option<&NetworkTarget>,
        mut read_ahead: Vec<u8>,
    ) -> Result<Option<(NetworkTarget, Vec<u8>)>, ConnectionError> {
        let mut is_first = true;
        loop {
            // An earlier response does not belong to this request.
            self.answered = false;
            match self.read_request(tunnel, read_ahead, is_first).await? {
                None => return Ok(None),
                Some((ProxyRequest::Connect(target), rest)) => return Ok(Some((target, rest))),
                Some((ProxyRequest::Plain(request), rest)) => {
                    match self.forward(request, rest).await? {
                        None => return Ok(None),
                        Some(rest) => read_ahead = rest,
                    }
                }
            }
            is_first = false;
        }
    }

    /// Reads a request that begins with `read_ahead`. Returns it with the bytes that came after it,
    /// or `None` if the client ended without a request.
    async fn read_request(
        &mut self,
        tunnel: Option<&NetworkTarget>,
        read_ahead: Vec<u8>,
        is_first: bool,
    ) -> Result<Option<(ProxyRequest, Vec<u8>)>, ConnectionError> {
        let denied = |problem, target: Option<NetworkTarget>| {
            ConnectionError::Denied(RequestDenial {
                reason: DenialReason::Head(problem),
                target: target.or_else(|| tunnel.cloned()),
            })
        };
        let is_idle = !is_first && read_ahead.is_empty();
        let mut rest = StreamRest {
            read_ahead,
            from: &mut self.client,
        };
        let progress = CopyProgress::new();
        let read = timeout(self.shared.options.limits.head, rest.read_head(&progress)).await;
        let head = match read {
            Ok(Ok(head)) => head,
            Ok(Err(HeadError::Missing(_))) => return Ok(None),
            Ok(Err(HeadError::Cut(_))) => {
                return Err(ConnectionFailure::ClientGone.into());
            }
            Ok(Err(HeadError::Problem(problem))) => return Err(denied(problem, None)),
            // An open connection without a further request is not an error.
            Err(_) if is_idle && !progress.has_started() => return Ok(None),
            Err(_) => return Err(ConnectionFailure::Slow.into()),
        };
        let request = ProxyRequest::parse(&head, tunnel);
        let request = request.map_err(|problem| {
            denied(
                problem,
                tunnel
                    .is_none()
                    .then(|| parse_reported_target(&head))
                    .flatten(),
            )
        })?;
        Ok(Some((request, rest.read_ahead)))
    }

    /// Forwards a request and its response. Returns the bytes after the request if the connection
    /// stays open for another one.
    ///
    /// The connection to the server serves only this request. A response that comes before the
    /// complete request was sent ends the client's connection.
    async fn forward(
        &mut self,
        request: PlainRequest,
        read_ahead: Vec<u8>,
    ) -> Result<Option<Vec<u8>>, ConnectionError> {
        let target = &request.target;
        let mut upstream = self.shared.dial(target).await?;
        let progress = CopyProgress::new();
        let idle = self.shared.options.limits.idle;
        let (from_upstream, to_upstream) = upstream.split();
        let (from_client, to_client) = self.client.split();
        let mut body = StreamRest {
            read_ahead,
            from: from_client,
        };
        let is_sent = AtomicBool::new(false);
        let ended = {
            let upload = upload(&mut body, to_upstream, &request, &progress, &is_sent);
            let answered = &mut self.answered;
            let download = download(
                from_upstream,
                to_client,
                &request,
                &progress,
                &is_sent,
                answered,
            );
            tokio::pin!(upload, download);
            let mut is_uploading = true;
            loop {
                tokio::select! {
                    biased;
                    ended = &mut download => break ended,
                    // Not dropped: its half of the connection stays open until the response has
                    // ended.
                    sent = &mut upload, if is_uploading => { sent?; is_uploading = false; }
                    () = progress.wait_for_silence(idle) => {
                        break Err(ConnectionFailure::Idle(target.clone()).into());
                    }
                }
            }
        };
        Ok(ended?.then_some(body.read_ahead))
    }
}

/// Sends the request. An error of the server is ignored, because it may still respond.
async fn upload(
    body: &mut StreamRest<impl AsyncRead + Unpin>,
    mut to: impl AsyncWrite + Unpin,
    request: &PlainRequest,
    progress: &CopyProgress,
    is_sent: &AtomicBool,
) -> Result<(), ConnectionError> {
    if write(&mut to, &request.rewritten, progress).await.is_err() {
        return Ok(());
    }
    match body.copy_body(request.body, &mut to, progress).await {
        Ok(()) => is_sent.store(true, Ordering::Relaxed),
        Err(CopyError::Write(_)) => {}
        Err(CopyError::Read(_)) => {
            return Err(ConnectionFailure::ClientGone.into());
        }
        Err(CopyError::Malformed) => {
            return Err(ConnectionError::Denied(RequestDenial {
                reason: DenialReason::Body,
                target: Some(request.target.clone()),
            }));
        }
    }
    Ok(())
}

/// Forwards interim responses and the final one to the client. Returns true if its connection stays
/// open.
async fn download(
    from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    request: &PlainRequest,
    progress: &CopyProgress,
    is_sent: &AtomicBool,
    answered: &mut bool,
) -> Result<bool, ConnectionError> {
    let target = &request.target;
    let gone = |_| ConnectionError::Failed(ConnectionFailure::ClientGone);
    let cut = |error| ConnectionError::Failed(ConnectionFailure::Broken(target.clone(), error));
    let bad =
        |problem| ConnectionError::Failed(ConnectionFailure::BadResponse(target.clone(), problem));
    let mut rest = StreamRest {
        read_ahead: Vec::new(),
        from,
    };
    let response = loop {
        let head = rest
            .read_head(progress)
            .await
            .map_err(|error| match error {
                HeadError::Problem(problem) => bad(problem),
                HeadError::Missing(error) | HeadError::Cut(error) => cut(error),
            })?;
        let may_keep_open = request.keeps_open && is_sent.load(Ordering::Relaxed);
        let response = ServerResponse::parse(&head, request.is_head, may_keep_open).map_err(bad)?;
        *answered |= !response.is_interim;
        write(&mut to, &response.rewritten, progress)
            .await
            .map_err(gone)?;
        if !response.is_interim {
            break response;
        }
    };
    match rest.copy_body(response.body, &mut to, progress).await {
        Ok(()) => {}
        Err(CopyError::Write(error)) => return Err(gone(error)),
        Err(error) => return Err(cut(error.into())),
    }
    if !response.keeps_open {
        // Fails if the client has closed the connection.
        let _ = to.shutdown().await;
    }
    Ok(response.keeps_open)
}
