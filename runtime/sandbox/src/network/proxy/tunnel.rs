//! A tunnel (CONNECT): plain HTTP requests, or opaque bytes after TLS has named the requested
//! server.

use std::io;
use std::pin::pin;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::network::client_hello::{ClientHello, HelloProblem, HelloReader};
use crate::network::host::{Host, Target};
use crate::network::refusal::{Denial, Failure, Reason, Stop, TLS_ALERT};
use crate::network::server_hello::{Answer, AnswerReader};

use super::connection::{Connection, READ};
use super::copy::{Activity, CopyError, copy, write};

/// Limit of a ClientHello with the headers of its records, in bytes.
const MAX_FRAMED_HELLO: usize = 64 * 1024;

impl Connection {
    /// Opens the tunnel, checks the ClientHello, and copies both directions until both have ended.
    ///
    /// A target that is an address was listed as such, so any protocol is allowed. A name is
    /// allowed only if TLS or each request names the same server, because an address may serve
    /// many.
    pub(super) async fn tunnel(&mut self, target: Target, mut held: Vec<u8>) -> Result<(), Stop> {
        let mut upstream = self.shared.dial(&target).await?;
        let limits = self.shared.options.limits;
        let activity = Activity::new();

        self.answered = true;
        let established = b"HTTP/1.1 200 Connection Established\r\n\r\n";
        let answered = timeout(limits.head, self.client.write_all(established)).await;
        if !matches!(answered, Ok(Ok(()))) {
            return Err(Stop::Failed(Failure::ClientGone));
        }
        // Bytes that the server sent and the client has not received yet.
        let mut greeting = Vec::new();
        if let Host::Name(name) = &target.host {
            let mut handshake = Handshake {
                upstream: &mut upstream,
                target: &target,
                name,
                held: &mut held,
                greeting: &mut greeting,
                activity: &activity,
            };
            let checked = tokio::select! {
                biased;
                checked = self.check(&mut handshake) => checked,
                () = activity.ceases(limits.idle) => Err(Stop::Failed(Failure::Idle(target.clone()))),
            };
            if let Err(Stop::Denied(denial)) = &checked {
                let is_tls = !matches!(denial.reason, Reason::NotTls);
                if !is_tls && begins_http(&held) {
                    drop(upstream);
                    return self.serve_requests(Some(&target), held).await.map(drop);
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
            write(&mut to_upstream, &held, &activity)
                .await
                .map_err(CopyError::Write)?;
            copy(&mut from_client, &mut to_upstream, u64::MAX, &activity).await?;
            to_upstream.shutdown().await.map_err(CopyError::Write)
        };
        let down = async {
            write(&mut to_client, &greeting, &activity)
                .await
                .map_err(CopyError::Write)?;
            copy(&mut from_upstream, &mut to_client, u64::MAX, &activity).await?;
            to_client.shutdown().await.map_err(CopyError::Write)
        };
        let both = pin!(async { tokio::try_join!(up, down) });
        // Progress takes precedence over the deadline.
        tokio::select! {
            biased;
            ended = both => match ended {
                Ok(_) => Ok(()),
                Err(error) => Err(Stop::Failed(Failure::Broken(target, error.into()))),
            },
            () = activity.ceases(limits.idle) => Err(Stop::Failed(Failure::Idle(target))),
        }
    }

    /// Checks the ClientHello and forwards it, and also a second one if the server requests it: it
    /// is not encrypted either, and could name another server. The bytes after a ClientHello are
    /// held until the server has answered.
    async fn check(&mut self, handshake: &mut Handshake<'_>) -> Result<(), Stop> {
        self.pass_hello(HelloReader::default(), handshake).await?;
        let mut answer = AnswerReader::default();
        let mut buffer = vec![0; READ];
        loop {
            let read = handshake.upstream.read(&mut buffer).await;
            let count = read.map_err(|error| handshake.broken(error))?;
            let bytes = buffer.get(..count).unwrap_or_default();
            handshake.activity.note();
            handshake.greeting.extend_from_slice(bytes);
            match answer.push(bytes) {
                None if count > 0 => {}
                None | Some(Answer::Other) => return Ok(()),
                Some(Answer::Retry) => break,
            }
        }
        let greeting = std::mem::take(handshake.greeting);
        write(&mut self.client, &greeting, handshake.activity)
            .await
            .map_err(|_| Stop::Failed(Failure::ClientGone))?;
        self.pass_hello(HelloReader::after_retry(), handshake).await
    }

    /// Reads, checks and forwards a ClientHello. The bytes after it stay held.
    async fn pass_hello(
        &mut self,
        reader: HelloReader,
        handshake: &mut Handshake<'_>,
    ) -> Result<(), Stop> {
        let read = timeout(
            self.shared.options.limits.hello,
            self.read_hello(reader, handshake.held),
        );
        let Ok(read) = read.await else {
            return Err(Stop::Failed(Failure::Slow));
        };
        handshake.activity.note();
        let checked =
            read?.and_then(|(hello, end)| check_name(&hello, handshake.name).map(|()| end));
        let end = checked.map_err(|reason| {
            Stop::Denied(Denial {
                reason,
                target: Some(handshake.target.clone()),
            })
        })?;
        let rest = handshake.held.split_off(end.min(handshake.held.len()));
        let hello = std::mem::replace(handshake.held, rest);
        let sent = write(handshake.upstream, &hello, handshake.activity).await;
        sent.map_err(|error| handshake.broken(error))
    }

    /// Reads a ClientHello into `held`, which contains the bytes so far. Returns it, and its end in
    /// `held`.
    async fn read_hello(
        &mut self,
        mut reader: HelloReader,
        held: &mut Vec<u8>,
    ) -> Result<Result<(ClientHello, usize), Reason>, Stop> {
        let mut read = reader.push(held);
        let mut before = 0;
        let mut buffer = vec![0; READ];
        loop {
            match read {
                Ok(Some((hello, end))) => return Ok(Ok((hello, before + end))),
                Ok(None) if held.len() <= MAX_FRAMED_HELLO => {}
                Ok(None) | Err(HelloProblem::Malformed) => return Ok(Err(Reason::MalformedTls)),
                Err(HelloProblem::NotTls) => return Ok(Err(Reason::NotTls)),
            }
            match self.client.read(&mut buffer).await {
                Ok(0) | Err(_) => return Err(Stop::Failed(Failure::ClientGone)),
                Ok(count) => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    before = held.len();
                    held.extend_from_slice(bytes);
                    read = reader.push(bytes);
                }
            }
        }
    }
}

/// Returns true if these may be the first bytes of a plain HTTP request.
fn begins_http(held: &[u8]) -> bool {
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
        .any(|method| held.starts_with(method) || method.starts_with(held))
}

/// State of a tunnel before TLS has named its server.
struct Handshake<'a> {
    upstream: &'a mut TcpStream,
    target: &'a Target,
    /// The name of the target.
    name: &'a str,
    /// Bytes of the client that were not forwarded yet.
    held: &'a mut Vec<u8>,
    /// Bytes of the server that were not forwarded yet.
    greeting: &'a mut Vec<u8>,
    activity: &'a Activity,
}

impl Handshake<'_> {
    fn broken(&self, error: io::Error) -> Stop {
        Stop::Failed(Failure::Broken(self.target.clone(), error))
    }
}

/// Checks that TLS names the same server as CONNECT.
fn check_name(hello: &ClientHello, name: &str) -> Result<(), Reason> {
    if hello.encrypted {
        return Err(Reason::EncryptedServerName);
    }
    let Some(server_name) = &hello.server_name else {
        return Err(Reason::NoServerName);
    };
    match Host::parse(server_name) {
        Ok(Host::Name(server_name)) if server_name == name => Ok(()),
        Ok(_) | Err(_) => Err(Reason::ServerName),
    }
}
