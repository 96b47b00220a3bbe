//! Real TLS: certificates, clients, servers, and the bytes of a ClientHello.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{
    ClientConfig, ClientConnection, RootCertStore, ServerConfig, SupportedProtocolVersion, crypto,
    version,
};
use tokio_rustls::{TlsAcceptor, TlsConnector};

/// A certificate for `allowed.test` and `other.test` with its key.
pub(crate) struct Identity {
    certificate: CertificateDer<'static>,
    key: Vec<u8>,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let names = ["allowed.test", "other.test", "localhost"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names).unwrap();
        Self {
            certificate: made.cert.der().clone(),
            key: made.signing_key.serialize_der(),
        }
    }

    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        self.acceptor_by(crypto::ring::default_provider())
    }

    /// Returns an acceptor that supports only one group for the key exchange, and not the first
    /// choice of clients. It requests a second ClientHello from every client.
    pub(crate) fn acceptor_that_retries(&self) -> TlsAcceptor {
        let mut provider = crypto::ring::default_provider();
        provider.kx_groups = vec![crypto::ring::kx_group::SECP384R1];
        self.acceptor_by(provider)
    }

    fn acceptor_by(&self, provider: crypto::CryptoProvider) -> TlsAcceptor {
        let key = PrivateKeyDer::try_from(self.key.clone()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(provider))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![self.certificate.clone()], key)
            .unwrap();
        TlsAcceptor::from(Arc::new(config))
    }

    pub(crate) fn client(&self) -> ClientConfig {
        self.client_of(&[&version::TLS12, &version::TLS13])
    }

    pub(crate) fn client_of(&self, versions: &[&'static SupportedProtocolVersion]) -> ClientConfig {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone()).unwrap();
        ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(versions)
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth()
    }

    /// Returns the certificate in the format that programs read.
    pub(crate) fn pem(&self) -> String {
        use std::fmt::Write as _;
        let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
        for line in base64(&self.certificate).as_bytes().chunks(64) {
            writeln!(text, "{}", std::str::from_utf8(line).unwrap()).unwrap();
        }
        text + "-----END CERTIFICATE-----\n"
    }
}

fn provider() -> Arc<crypto::CryptoProvider> {
    Arc::new(crypto::ring::default_provider())
}

fn base64(bytes: &[u8]) -> String {
    use ::base64::Engine as _;
    ::base64::engine::general_purpose::STANDARD.encode(bytes)
}

pub(crate) fn connector(config: ClientConfig) -> TlsConnector {
    TlsConnector::from(Arc::new(config))
}

pub(crate) fn name(text: &str) -> ServerName<'static> {
    ServerName::try_from(text.to_owned()).unwrap()
}

/// Returns the first message of a client with `config`.
pub(crate) fn first_bytes(config: ClientConfig, server: &str) -> Vec<u8> {
    let mut client = ClientConnection::new(Arc::new(config), name(server)).unwrap();
    let mut bytes = Vec::new();
    client.write_tls(&mut bytes).unwrap();
    bytes
}

/// Appends an extension to a ClientHello in one record.
pub(crate) fn with_extension(mut hello: Vec<u8>, kind: u16, content: &[u8]) -> Vec<u8> {
    let length = u16::try_from(content.len()).unwrap().to_be_bytes();
    let added = [&kind.to_be_bytes()[..], &length, content].concat();
    // Skips record header, message header, version and random, then the three vectors before the
    // extensions.
    let mut place = 5 + 4 + 2 + 32;
    place += 1 + usize::from(hello[place]);
    place += 2 + usize::from(u16::from_be_bytes([hello[place], hello[place + 1]]));
    place += 1 + usize::from(hello[place]);
    // All three lengths fit into the last two bytes of their fields.
    for place in [3, 7, place] {
        let grown = u16::from_be_bytes([hello[place], hello[place + 1]])
            + u16::try_from(added.len()).unwrap();
        hello[place..place + 2].copy_from_slice(&grown.to_be_bytes());
    }
    hello.extend(added);
    hello
}

/// A stream that writes one byte at a time.
pub(crate) struct Dribble<S>(pub(crate) S);

impl<S: AsyncWrite + Unpin> AsyncWrite for Dribble<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let byte = &bytes[..bytes.len().min(1)];
        Pin::new(&mut self.0).poll_write(cx, byte)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Dribble<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}
