//! Where a daemon listens for other machines, and how.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::anyhow;
use clap::Args;
use tokio::net::TcpListener;
use trunkline_gateway::{HostName, Listener, Tls};

use crate::error::CliError;

/// A further address, which other machines can reach.
#[derive(Debug, Args)]
pub(super) struct Listen {
    /// Where it listens for other machines, too: an address and a port. Needs TLS, or --insecure
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::option_value::parse_address)]
    listen: Option<SocketAddr>,

    /// The certificate for --listen, with those above it, in PEM. `trunkline daemon reload` reads it again
    #[arg(
        long,
        value_name = "FILE",
        requires = "listen",
        requires = "tls_key",
        conflicts_with = "insecure"
    )]
    tls_cert: Option<PathBuf>,

    /// Its private key, in PEM: no one but its owner and group may read it
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// A name by which others call this machine, beside those of the certificate; may be repeated
    #[arg(long, value_name = "NAME", requires = "listen")]
    host_name: Vec<String>,

    /// Has --listen go without TLS: who is on the way reads all, tokens too
    #[arg(long, requires = "listen")]
    insecure: bool,
}

impl Listen {
    /// The file of the private key, which no agent is to see.
    pub(super) fn key(&self) -> Option<&Path> {
        self.tls_key.as_deref()
    }

    /// Listens there. Gives the way in, and its address for people.
    ///
    /// # Errors
    /// Why it does not: without TLS it must be wanted, and some name must lead here.
    pub(super) async fn open(&self) -> Result<Option<(Listener, String)>, CliError> {
        let Some(at) = self.listen else {
            return Ok(None);
        };
        let tls = match (&self.tls_cert, &self.tls_key) {
            (Some(certificate), Some(key)) => {
                Some(Tls::open(certificate.clone(), key.clone()).map_err(CliError::usage)?)
            }
            _ if self.insecure => None,
            _ => {
                return Err(CliError::usage(anyhow!("--listen lets other machines in, and has no TLS"))
                    .next("give it a certificate by --tls-cert FILE and --tls-key FILE; or say --insecure"));
            }
        };
        let mut names: Vec<_> = self
            .host_name
            .iter()
            .cloned()
            .map(HostName::AnyPort)
            .collect();
        if !at.ip().is_unspecified() {
            names.push(HostName::AnyPort(bare(at)));
        } else if tls.is_none() && names.is_empty() {
            return Err(CliError::usage(anyhow!(
                "no name is known by which others call this machine"
            ))
            .next("name it by --host-name NAME, or its address by --listen ADDRESS:PORT"));
        }
        let listener = TcpListener::bind(at).await.map_err(|error| {
            CliError::failed(anyhow!(error).context(format!("failed to listen on {at}")))
                .next("name another address or port by --listen ADDRESS:PORT")
        })?;
        let at = listener.local_addr()?;
        if tls.is_none() {
            let mut err = anstream::stderr();
            // In vain where no one reads it.
            let _ = std::io::Write::write_fmt(
                &mut err,
                format_args!(
                    "warning: {at} has no TLS: who is between a client and this machine reads all that is said, \
                     tokens too, and can use them\n"
                ),
            );
        }
        let scheme = if tls.is_some() { "https" } else { "http" };
        Ok(Some((
            Listener {
                listener,
                names,
                tls,
            },
            format!("{scheme}://{at}"),
        )))
    }
}

/// An address as a request names it as its host.
fn bare(at: SocketAddr) -> String {
    match at {
        SocketAddr::V4(at) => at.ip().to_string(),
        SocketAddr::V6(at) => format!("[{}]", at.ip()),
    }
}
