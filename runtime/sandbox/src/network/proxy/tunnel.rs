//! A tunnel (CONNECT): opaque bytes, once TLS has named the server that was asked for, or one plain
//! HTTP request to it.

use std::pin::pin;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::network::client_hello::{ClientHello, HelloProblem, HelloReader};
use crate::network::host::{Host, Target};
use crate::network::refusal::{Denial, Failure, Reason, Stop, TLS_ALERT};
use crate::network::server_hello::{Answer, AnswerReader};

use super::connection::{Connection, READ};
use super::copy::{Activity, Broke, copy, write};

/// The most bytes that a ClientHello may take with the headers of all its records.
const MAX_FRAMED_HELLO: usize = 64 * 1024;

impl Connection {
    /// Opens the tunnel, checks the ClientHello, and copies both directions until both have ended.
    ///
    /// A target that is an address was listed as such, and its operator vouches for whatever is
    /// spoken there. A name is vouched for only as long as TLS names the same server: behind one
    /// address there may be many.
    pub(super) async fn tunnel(&mut self, target: Target, mut held: Vec<u8>) -> Result<(), Stop> {
        let mut upstream = self.shared.dial(&target).await?;
        let limits = self.shared.limits;
        let activity = Activity::new();

        self.answered = true;
        let established = b"HTTP/1.1 200 Connection Established\r\n\r\n";
        let answered = timeout(limits.head, self.client.write_all(established)).await;
        if !matches!(answered, Ok(Ok(()))) {
            return Err(Stop::Failed(Failure::ClientGone));
        }
        // What was read of each side and not passed on yet.
        let mut greeting = Vec::new();
        if let Host::Name(name) = &target.host {
            let mut handshake = Handshake {
                upstream: &mut upstream,
                name,
                held: &mut held,
                greeting: &mut greeting,
            };
            let checked = tokio::select! {
                biased;
                checked = self.check(&mut handshake, &target, &activity) => checked?,
                () = activity.ceases(limits.idle) => return Err(Stop::Failed(Failure::Idle(target))),
            };
            if matches!(checked, Err(Reason::NotTls)) && begins_http(&held) {
                drop(upstream);
                return self.forward_in_tunnel(&target, &held).await;
            }
            if let Err(reason) = checked {
                let denial = Denial {
                    reason,
                    target: Some(target),
                };
                let words = match denial.reason {
                    Reason::NotTls => denial.response(),
                    _ => TLS_ALERT.to_vec(),
                };
                // The denial counts whether or not the client waits to hear of it.
                let _ = timeout(limits.linger, self.client.write_all(&words)).await;
                return Err(Stop::Denied(denial));
            }
        }

        let (mut from_client, mut to_client) = self.client.split();
        let (mut from_upstream, mut to_upstream) = upstream.split();
        let up = async {
            write(&mut to_upstream, &held, &activity)
                .await
                .map_err(Broke::Writing)?;
            copy(&mut from_client, &mut to_upstream, u64::MAX, &activity).await?;
            to_upstream.shutdown().await.map_err(Broke::Writing)
        };
        let down = async {
            write(&mut to_client, &greeting, &activity)
                .await
                .map_err(Broke::Writing)?;
            copy(&mut from_upstream, &mut to_client, u64::MAX, &activity).await?;
            to_client.shutdown().await.map_err(Broke::Writing)
        };
        let both = pin!(async { tokio::try_join!(up, down) });
        // A tunnel that moves on goes before its deadline.
        tokio::select! {
            biased;
            ended = both => match ended {
                Ok(_) => Ok(()),
                Err(Broke::Reading(error) | Broke::Writing(error)) => Err(Stop::Failed(Failure::Broken(target, error))),
            },
            () = activity.ceases(limits.idle) => Err(Stop::Failed(Failure::Idle(target))),
        }
    }

    /// Judges the ClientHello, passes it on, and judges a second one if the server asks for it: the
    /// second is in the clear too, and might name another server. Nothing that follows a
    /// ClientHello is passed on before the server has answered.
    async fn check(
        &mut self,
        handshake: &mut Handshake<'_>,
        target: &Target,
        activity: &Activity,
    ) -> Result<Result<(), Reason>, Stop> {
        let broken = |error| Stop::Failed(Failure::Broken(target.clone(), error));
        if let Err(reason) = self
            .pass_hello(HelloReader::default(), handshake, target, activity)
            .await?
        {
            return Ok(Err(reason));
        }
        let mut answer = AnswerReader::default();
        let mut buffer = vec![0; READ];
        loop {
            let count = handshake.upstream.read(&mut buffer).await.map_err(broken)?;
            let bytes = buffer.get(..count).unwrap_or_default();
            activity.note();
            handshake.greeting.extend_from_slice(bytes);
            match answer.push(bytes) {
                None if count > 0 => {}
                None | Some(Answer::Other) => return Ok(Ok(())),
                Some(Answer::Retry) => break,
            }
        }
        let greeting = std::mem::take(handshake.greeting);
        write(&mut self.client, &greeting, activity)
            .await
            .map_err(|_| Stop::Failed(Failure::ClientGone))?;
        self.pass_hello(HelloReader::after_retry(), handshake, target, activity)
            .await
    }

    /// Reads a ClientHello, judges it by the tunnel's name, and passes it on; what follows it stays held.
    async fn pass_hello(
        &mut self,
        reader: HelloReader,
        handshake: &mut Handshake<'_>,
        target: &Target,
        activity: &Activity,
    ) -> Result<Result<(), Reason>, Stop> {
        let Ok(read) = timeout(
            self.shared.limits.hello,
            self.read_hello(reader, handshake.held),
        )
        .await
        else {
            return Err(Stop::Failed(Failure::Slow));
        };
        activity.note();
        let (hello, end) = match read? {
            Ok(read) => read,
            Err(reason) => return Ok(Err(reason)),
        };
        if let Err(reason) = judge(&hello, handshake.name) {
            return Ok(Err(reason));
        }
        let rest = handshake.held.split_off(end.min(handshake.held.len()));
        let hello = std::mem::replace(handshake.held, rest);
        let sent = write(handshake.upstream, &hello, activity).await;
        sent.map_err(|error| Stop::Failed(Failure::Broken(target.clone(), error)))?;
        Ok(Ok(()))
    }

    /// Reads a ClientHello into `held`, which has what came before; gives it, and where in `held` it ends.
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

/// Whether these first bytes may be those of a plain HTTP request.
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

/// A tunnel whose server was not named yet.
struct Handshake<'a> {
    upstream: &'a mut TcpStream,
    /// The name that CONNECT gave.
    name: &'a str,
    /// Read from the client and not passed on.
    held: &'a mut Vec<u8>,
    /// Read from the server and not passed on.
    greeting: &'a mut Vec<u8>,
}

/// Whether TLS names the server that CONNECT named.
fn judge(hello: &ClientHello, name: &str) -> Result<(), Reason> {
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
