//! A tunnel (CONNECT): opaque bytes, once TLS has named the server that was asked for.

use std::pin::pin;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use crate::network::client_hello::{ClientHello, HelloProblem, HelloReader};
use crate::network::host::{Host, Target};
use crate::network::refusal::{Denial, Failure, Reason, Stop, TLS_ALERT};

use super::connection::{Connection, READ};
use super::copy::{Activity, Broke, copy, write};

/// The most bytes that a ClientHello may take with the headers of all its records.
const MAX_FRAMED_HELLO: usize = 64 * 1024;

impl Connection {
    /// Opens the tunnel, checks the ClientHello, and copies both directions until both have ended.
    ///
    /// A target that is an address was listed as such, and its operator vouches for whatever is spoken there. A
    /// name is vouched for only as long as TLS names the same server: behind one address there may be many.
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
        if let Host::Name(name) = &target.host {
            let Ok(checked) = timeout(limits.hello, self.check_hello(name, &mut held)).await else {
                return Err(Stop::Failed(Failure::Slow));
            };
            match checked? {
                Ok(()) => {}
                Err(reason) => {
                    let denial = Denial { reason, target: Some(target) };
                    let words = match denial.reason {
                        Reason::NotTls => denial.response(),
                        _ => TLS_ALERT.to_vec(),
                    };
                    // The denial counts whether or not the client waits to hear of it.
                    let _ = timeout(limits.linger, self.client.write_all(&words)).await;
                    return Err(Stop::Denied(denial));
                }
            }
        }

        let (mut from_client, mut to_client) = self.client.split();
        let (mut from_upstream, mut to_upstream) = upstream.split();
        let up = async {
            write(&mut to_upstream, &held, &activity).await.map_err(Broke::Writing)?;
            copy(&mut from_client, &mut to_upstream, u64::MAX, &activity).await?;
            to_upstream.shutdown().await.map_err(Broke::Writing)
        };
        let down = async {
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

    /// Reads the ClientHello into `held`, which has what came before, and judges it by the name of the tunnel.
    async fn check_hello(&mut self, name: &str, held: &mut Vec<u8>) -> Result<Result<(), Reason>, Stop> {
        let mut reader = HelloReader::default();
        let mut read = reader.push(held);
        let mut buffer = vec![0; READ];
        loop {
            match read {
                Ok(Some(hello)) => return Ok(judge(&hello, name)),
                Ok(None) if held.len() <= MAX_FRAMED_HELLO => {}
                Ok(None) | Err(HelloProblem::Malformed) => return Ok(Err(Reason::MalformedTls)),
                Err(HelloProblem::NotTls) => return Ok(Err(Reason::NotTls)),
            }
            match self.client.read(&mut buffer).await {
                Ok(0) | Err(_) => return Err(Stop::Failed(Failure::ClientGone)),
                Ok(count) => {
                    let bytes = buffer.get(..count).unwrap_or_default();
                    held.extend_from_slice(bytes);
                    read = reader.push(bytes);
                }
            }
        }
    }
}

/// Whether TLS names the server that CONNECT named.
fn judge(hello: &ClientHello, name: &str) -> Result<(), Reason> {
    if hello.encrypted {
        return Err(Reason::EncryptedServerName);
    }
    let Some(server_name) = &hello.server_name else { return Err(Reason::NoServerName) };
    match Host::parse(server_name) {
        Ok(Host::Name(server_name)) if server_name == name => Ok(()),
        Ok(_) | Err(_) => Err(Reason::ServerName),
    }
}
