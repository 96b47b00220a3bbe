//! The daemon's listener for other machines.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use anyhow::anyhow;
use clap::Args;
use tokio::net::TcpListener;
use trunkline_gateway::{HostName, Listener, Tls};

use crate::error::CliError;

/// Listener for other machines.
#[derive(Debug, Args)]
pub(super) struct ListenArgs {
    /// Also listens for other machines on this address and port; needs TLS or --insecure
    #[arg(long, value_name = "ADDRESS:PORT", value_parser = crate::option_value::parse_address)]
    listen: Option<SocketAddr>,

    /// Certificate chain for --listen, in PEM; `trunkline daemon reload` reads it again
    #[arg(
        long,
        value_name = "FILE",
        requires = "listen",
        requires = "tls_key",
        conflicts_with = "insecure"
    )]
    tls_cert: Option<PathBuf>,

    /// Private key of the certificate, in PEM, readable only by its owner and group
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,

    /// Further host name of this machine, besides the names in the certificate; may be repeated
    #[arg(long, value_name = "NAME", requires = "listen")]
    host_name: Vec<String>,

    /// Uses --listen without TLS: anyone on the way can read everything, also the tokens
    #[arg(long, requires = "listen")]
    insecure: bool,
}

impl ListenArgs {
    /// Returns the file of the private key, which must be hidden from agents.
    pub(super) fn key(&self) -> Option<&Path> {
        self.tls_key.as_deref()
    }

    /// Opens the listener. Returns it with its address for people.
    ///
    /// # Errors
    /// TLS is neither configured nor declined, no host name is known, or the address is unavailable.
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
                return Err(CliError::usage(anyhow!(
                    "--listen admits other machines, but has no TLS"
                ))
                .next("add --tls-cert FILE and --tls-key FILE, or --insecure"));
            }
        };
        let mut names: Vec<_> = self
            .host_name
            .iter()
            .cloned()
            .map(HostName::AnyPort)
            .collect();
        if !at.ip().is_unspecified() {
            names.push(HostName::AnyPort(host_name(at)));
        } else if tls.is_none() && names.is_empty() {
            return Err(CliError::usage(anyhow!(
                "--listen {at}: the host name of this machine is unknown"
            ))
            .next("add --host-name NAME, or use its address: --listen ADDRESS:PORT"));
        }
        let listener = TcpListener::bind(at).await.map_err(|error| {
            CliError::failed(anyhow!(error).context(format!("failed to listen on {at}")))
                .next("use another address or port: --listen ADDRESS:PORT")
        })?;
        let at = listener.local_addr()?;
        if tls.is_none() {
            let mut err = anstream::stderr();
            // A failure means that stderr is closed.
            let _ = std::io::Write::write_fmt(
                &mut err,
                format_args!(
                    "warning: {at} has no TLS: anyone between a client and this machine can read everything, \
                     also the tokens, and use them\n"
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

/// Formats an address as the host name of a request.
fn host_name(at: SocketAddr) -> String {
    let host = at.to_string();
    host.rsplit_once(':').unwrap_or_default().0.to_owned()
}
