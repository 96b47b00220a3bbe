//! A tunnel (CONNECT): plain HTTP requests, or opaque bytes after TLS has named the requested
//! server.

use std::io;
use std::pin::pin;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::network::client_hello::{ClientHello, HelloProblem, HelloReader};
use crate::network::host::{NetworkTarget, TargetHost};
use crate::network::refusal::{
    ConnectionError, ConnectionFailure, DenialReason, RequestDenial, TLS_ALERT,
};
use crate::network::server_hello::{AnswerReader, ServerAnswer};

use super::connection::{ClientConnection, READ_BYTES};
use super::copy::{CopyError, CopyProgress, copy, write};

/// Limit of a ClientHello with the headers of its records, in bytes.
const MAX_FRAMED_HELLO: usize = 64 * 1024;

impl ClientConnection {
    /// Opens the tunnel, checks the ClientHello, and copies both directions until both have ended.
    ///
    /// A target that is an address was listed as such, so any protocol is allowed. A name is
    /// allowed only if TLS or each request names the same server, because an address may serve
    /// many.
    pub(super) async fn tunnel(
        &mut self,
        target: NetworkTarget,
        mut read_ahead: Vec<u8>,
    ) -> Result<(), ConnectionError> {
        let mut upstream = self.shared.dial(&target).await?;
        let limits = self.shared.options.limits;
        let progress = CopyProgress::new();

        self.answered = true;
        let established = b"HTTP/1.1 200 Connection Established\r\n\r\n";
        let answered = timeout(limits.head, self.client.write_all(established)).await;
        if !matches!(answered, Ok(Ok(()))) {
            return Err(ConnectionFailure::ClientGone.into());
        }
        // Bytes that the server sent and the client has not received yet.
        let mut greeting = Vec::new();
        if let TargetHost::Name(name) = &target.host {
            let mut handshake = Handshake {
                upstream: &mut upstream,
                target: &target,
                name,
                read_ahead: &mut read_ahead,
                greeting: &mut greeting,
                progress: &progress,
            };
            let checked = tokio::select! {
                biased;
                checked = self.check_handshake(&mut handshake) => checked,
                () = progress.wait_for_silence(limits.idle) => {
                    Err(ConnectionFailure::Idle(target.clone()).into())
                }
            };
            if let Err(ConnectionError::Denied(denial)) = &checked {
                let is_tls = !matches!(denial.reason, DenialReason::NotTls);
                if !is_tls && begins_http(&read_ahead) {
                    drop(upstream);
                    return self
                        .serve_requests(Some(&target), read_ahead)
                        .await
                        .map(drop);
                }
                let answer = if is_tls {
                    TLS_ALERT.to_vec()
                } else {
                    denial.response()
                };
                // The denial counts whether or not the client reads it.
                let _ = timeout(limits.linger, self.client.write_all(&answer)).await;
            }
            checked?;
        }

        let (mut from_client, mut to_client) = self.client.split();
        let (mut from_upstream, mut to_upstream) = upstream.split();
        let up = async {
            write(&mut to_upstream, &read_ahead, &progress)
                .await
                .map_err(CopyError::Write)?;
            copy(&mut from_client, &mut to_upstream, u64::MAX, &progress).await?;
            to_upstream.shutdown().await.map_err(CopyError::Write)
        };
        let down = async {
            write(&mut to_client, &greeting, &progress)
                .await
                .map_err(CopyError::Write)?;
            copy(&mut from_upstream, &mut to_client, u64::MAX, &progress).await?;
            to_client.shutdown().await.map_err(CopyError::Write)
        };
        let both = pin!(async { tokio::try_join!(up, down) });
        // Progress takes precedence over the deadline.
        tokio::select! {
            biased;
            ended = both => match ended {
                Ok(_) => Ok(()),
                Err(error) => Err(ConnectionFailure::Broken(target, error.into()).into()),
            },
            () = progress.wait_for_silence(limits.idle) => {
                Err(ConnectionFailure::Idle(target).into())
            }
        }
    }

    /// Checks the ClientHello and forwards it, and also a second one if the server requests it: it
    /// is not encrypted either, and could name another server. The bytes after a ClientHello are
    /// stay in `read_ahead` until the server has answered.
    async fn check_handshake(
        &mut self,
        handshake: &mut Handshake<'_>,
    ) -> Result<(), ConnectionError> {
        self.forward_hello(HelloReader::default(), handshake)
            .await?;
        let mut answer = AnswerReader::default();
        let mut buffer = vec![0; READ_BYTES];
        loop {
            let read = handshake.upstream.read(&mut buffer).await;
            let count = read.map_err(|error| handshake.broken_connection(error))?;
            let bytes = buffer.get(..count).unwrap_or_default();
            handshake.progress.record();
            handshake.greeting.extend_from_slice(bytes);
            match answer.push(bytes) {
                None if count > 0 => {}
                None | Some(ServerAnswer::Other) => return Ok(()),
                Some(ServerAnswer::Retry) => break,
            }
        }
        let greeting = std::mem::take(handshake.greeting);
        write(&mut self.client, &greeting, handshake.progress)
            .await
            .map_err(|_| ConnectionError::Failed(ConnectionFailure::ClientGone))?;
        self.forward_hello(HelloReader::after_retry(), handshake)
            .await
    }

    /// Reads, checks and forwards a ClientHello. The bytes after it stay in `read_ahead`.
    async fn forward_hello(
        &mut self,
        reader: HelloReader,
        handshake: &mut Handshake<'_>,
    ) -> Result<(), ConnectionError> {
        let read = timeout(
            self.shared.options.limits.hello,
            self.read_hello(reader, handshake.read_ahead),
        );
        let Ok(read) = read.await else {
            return Err(ConnectionFailure::Slow.into());
        };
        handshake.progress.record();
        let checked =
            read?.and_then(|(hello, end)| check_name(&hello, handshake.name).map(|()| end));
        let end = checked.map_err(|reason| {
            ConnectionError::Denied(RequestDenial {
                reason,
                target: Some(handshake.target.clone()),
            })
        })?;
        let rest = handshake
            .read_ahead
            .split_off(end.min(handshake.read_ahead.len()));
        let hello = std::mem::replace(handshake.read_ahead, rest);
        let sent = write(handshake.upstream, &hello, handshake.progress).await;
        sent.map_err(|error| handshake.broken_connection(error))
    }

    /// Reads a ClientHello into `read_ahead`, which contains the bytes so far. Returns it, and its
    /// end in `read_ahead`.
    async fn read_hello(
        &mut self,
        mut reader: HelloReader,
        read_ahead: &mut Vec<u8>,
    ) -> Result<Result<(ClientHello, usize), DenialReason>, ConnectionError> {
        let mut read = reader.push(read_ahead);
        let mut before = 0;
        let mut buffer = vec![0; READ_BYTES];
        loop {
            match read {
                Ok(Some((hello, end))) => return Ok(Ok((hello, before + end))),
                Ok(None) if read_ahead.len() <= MAX_FRAMED_HELLO => {}
                Ok(None) | Err(HelloProblem::Malformed) => {
                    return Ok(Err(DenialReason::MalformedTls));
                }
                Err(HelloProblem::NotTls) => return Ok(Err(DenialReason::NotTls)),
            }
            match self.client.read(&mut buffer).await {
                Ok(0) | Err(_) => {
                    return Err(ConnectionFailure::ClientGone.into());
                }
                Ok(count) => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    before = read_ahead.len();
                    read_ahead.extend_from_slice(bytes);
                    read = reader.push(bytes);
                }
            }
        }
    }
}

/// Returns true if these may be the first bytes of a plain HTTP request.
fn begins_http(read_ahead: &[u8]) -> bool {
    const METHODS: [&[u8]; 7] = [
        b"GET ",
        b"HEAD ",
        b"POST ",
        b"PUT ",
        b"PATCH ",
        b"DELETE ",
        b"OPTIONS ",
    ];
    METHODS
        .iter()
        .any(|method| read_ahead.starts_with(method) || method.starts_with(read_ahead))
}

/// State of a tunnel before TLS has named its server.
struct Handshake<'a> {
    upstream: &'a mut TcpStream,
    target: &'a NetworkTarget,
    /// The name of the target.
    name: &'a str,
    /// Bytes of the client that were not forwarded yet.
    read_ahead: &'a mut Vec<u8>,
    /// Bytes of the server that were not forwarded yet.
    greeting: &'a mut Vec<u8>,
    progress: &'a CopyProgress,
}

impl Handshake<'_> {
    fn broken_connection(&self, error: io::Error) -> ConnectionError {
        ConnectionError::Failed(ConnectionFailure::Broken(self.target.clone(), error))
    }
}

/// Checks that TLS names the same server as CONNECT.
fn check_name(hello: &ClientHello, name: &str) -> Result<(), DenialReason> {
    if hello.encrypted {
        return Err(DenialReason::EncryptedServerName);
    }
    let Some(server_name) = &hello.server_name else {
        return Err(DenialReason::NoServerName);
    };
    match TargetHost::parse(server_name) {
        Ok(TargetHost::Name(server_name)) if server_name == name => Ok(()),
        Ok(_) | Err(_) => Err(DenialReason::ServerName),
    }
}
