//! TLS with a certificate and a key from files, which can be reloaded.

use std::{
    fs::{File, Metadata},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
    time::Duration,
};

use rustls::{
    ServerConfig,
    client::verify_server_name,
    crypto::ring::default_provider,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
    server::ParsedCertificate,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::timeout,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

/// Timeout for a TLS handshake.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Limit for a certificate or key file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Certificate and key of a listener. Clones share them.
#[derive(Debug, Clone)]
pub struct Tls(Arc<TlsFiles>);

#[derive(Debug)]
struct TlsFiles {
    certificate: PathBuf,
    key: PathBuf,
    current: RwLock<LoadedCertificate>,
}

#[derive(Debug, Clone)]
struct LoadedCertificate {
    config: Arc<ServerConfig>,
    /// The server's own certificate, without its chain.
    certificate: CertificateDer<'static>,
}

/// Error of a certificate or its key.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{} cannot be read: {error}", .path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The file system's error.
        error: io::Error,
    },
    /// Others than the key's owner and group can read it, or its group can change it.
    #[error("the key {} is open to others: `chmod 600` it, or 640 for its group", .0.display())]
    Open(PathBuf),
    /// A file has no certificate or no key.
    #[error("{} has no {what} in PEM", .path.display())]
    Empty {
        /// The file.
        path: PathBuf,
        /// The missing content.
        what: &'static str,
    },
    /// The certificate and the key do not match, or cannot be used.
    #[error("the certificate {} and the key {} cannot be used together: {error}", .certificate.display(), .key.display())]
    Pair {
        /// File of the certificate.
        certificate: PathBuf,
        /// File of the key.
        key: PathBuf,
        /// The reason.
        error: rustls::Error,
    },
}

impl Tls {
    /// Reads the PEM files: the certificate with its chain, and its key. Blocks for the disk.
    ///
    /// # Errors
    /// See [`TlsError`].
    pub fn open(certificate: PathBuf, key: PathBuf) -> Result<Self, TlsError> {
        let current = RwLock::new(LoadedCertificate::read(&certificate, &key)?);
        Ok(Self(Arc::new(TlsFiles {
            certificate,
            key,
            current,
        })))
    }

    /// Reads the files again, for new connections. Blocks for the disk.
    ///
    /// # Errors
    /// See [`TlsError`]. The old certificate and key stay in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let loaded = LoadedCertificate::read(&self.0.certificate, &self.0.key)?;
        *self
            .0
            .current
            .write()
            .unwrap_or_else(PoisonError::into_inner) = loaded;
        Ok(())
    }

    fn current(&self) -> LoadedCertificate {
        self.0
            .current
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// Returns true if the certificate is valid for this host name or IP address.
    pub(crate) fn is_for(&self, name: &str) -> bool {
        let name = name.trim_start_matches('[').trim_end_matches(']');
        let loaded = self.current();
        let (Ok(name), Ok(own)) = (
            ServerName::try_from(name),
            ParsedCertificate::try_from(&loaded.certificate),
        ) else {
            return false;
        };
        verify_server_name(&own, &name).is_ok()
    }

    /// Performs the handshake with a client, within its timeout.
    pub(crate) async fn shake_hands<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let agreed = TlsAcceptor::from(self.current().config).accept(stream);
        timeout(HANDSHAKE_TIMEOUT, agreed)
            .await
            .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

impl LoadedCertificate {
    fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let (pem, _) = read_file(certificate)?;
        let chain: Vec<_> = CertificateDer::pem_slice_iter(&pem)
            .filter_map(Result::ok)
            .collect();
        let empty = |path: &Path, what| TlsError::Empty {
            path: path.to_owned(),
            what,
        };
        let own = chain
            .first()
            .cloned()
            .ok_or_else(|| empty(certificate, "certificate"))?;
        let (pem, found) = read_file(key)?;
        if found.permissions().mode() & 0o027 != 0 {
            return Err(TlsError::Open(key.to_owned()));
        }
        let secret = PrivateKeyDer::from_pem_slice(&pem).map_err(|_| empty(key, "private key"))?;
        let built = ServerConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .and_then(|builder| {
                builder
                    .with_no_client_auth()
                    .with_single_cert(chain, secret)
            });
        let mut config = built.map_err(|error| TlsError::Pair {
            certificate: certificate.to_owned(),
            key: key.to_owned(),
            error,
        })?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Self {
            config: Arc::new(config),
            certificate: own,
        })
    }
}

/// Reads a file and its metadata from one handle, so that both describe the same file.
fn read_file(path: &Path) -> Result<(Vec<u8>, Metadata), TlsError> {
    let mut bytes = Vec::new();
    let mut read = || {
        let file = File::open(path)?;
        let found = file.metadata()?;
        file.take(MAX_FILE_BYTES).read_to_end(&mut bytes)?;
        Ok(found)
    };
    let found = read().map_err(|error| TlsError::File {
        path: path.to_owned(),
        error,
    })?;
    Ok((bytes, found))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use rustls::pki_types::PrivateKeyDer as Key;

    use super::*;

    fn pem(what: &str, der: &[u8]) -> String {
        use std::fmt::Write;
        const LETTERS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        let mut text = format!("-----BEGIN {what}-----\n");
        for (at, three) in der.chunks(3).enumerate() {
            let number = three
                .iter()
                .fold(0u32, |sum, byte| sum << 8 | u32::from(*byte))
                << (8 * (3 - three.len()));
            for place in 0..4 {
                let letter = LETTERS[(number >> (18 - 6 * place) & 63) as usize];
                text.push(if place > three.len() {
                    '='
                } else {
                    char::from(letter)
                });
            }
            if at % 16 == 15 {
                text.push('\n');
            }
        }
        let _ = write!(text, "\n-----END {what}-----\n");
        text
    }

    fn write(folder: &Path, name: &str) -> (PathBuf, PathBuf) {
        let self_signed =
            rcgen::generate_simple_self_signed(vec![name.to_owned(), "127.0.0.1".to_owned()])
                .unwrap();
        let certificate = folder.join(format!("{name}.pem"));
        let key = folder.join(format!("{name}.key"));
        fs::write(&certificate, pem("CERTIFICATE", self_signed.cert.der())).unwrap();
        let secret = Key::try_from(self_signed.signing_key.serialize_der()).unwrap();
        fs::write(&key, pem("PRIVATE KEY", secret.secret_der())).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        (certificate, key)
    }

    /// Creates a self-signed certificate for a name.
    pub(crate) fn self_signed(folder: &Path, name: &str) -> Tls {
        let (certificate, key) = write(folder, name);
        Tls::open(certificate, key).unwrap()
    }

    #[test]
    fn a_certificate_says_its_names_and_one_that_is_wrong_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let (certificate, key) = write(folder.path(), "a.example");
        let (other, others_key) = write(folder.path(), "b.example");
        let tls = Tls::open(certificate.clone(), key.clone()).unwrap();
        let is_for = |wanted: [bool; 5]| {
            let names = ["a.example", "127.0.0.1", "b.example", "::1", ""];
            assert_eq!(names.map(|name| tls.is_for(name)), wanted);
        };
        is_for([true, true, false, false, false]);

        let said = |certificate: &Path, key: &Path| {
            Tls::open(certificate.to_owned(), key.to_owned())
                .unwrap_err()
                .to_string()
        };
        assert!(said(&certificate, &others_key).contains("cannot be used together"));
        assert!(said(&key, &key).contains("has no certificate in PEM"));
        assert!(
            said(&certificate, &certificate)
                .ends_with("is open to others: `chmod 600` it, or 640 for its group")
        );
        for (mode, is_taken) in [
            (0o640, true),
            (0o400, true),
            (0o644, false),
            (0o601, false),
            (0o660, false),
        ] {
            fs::set_permissions(&key, fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(
                Tls::open(certificate.clone(), key.clone()).is_ok(),
                is_taken,
                "{mode:o}"
            );
        }
        fs::remove_file(&key).unwrap();
        assert!(said(&certificate, &key).contains("cannot be read"));
        assert!(tls.reload().is_err());
        is_for([true, true, false, false, false]);

        fs::rename(other, certificate).unwrap();
        fs::rename(others_key, key).unwrap();
        tls.reload().unwrap();
        is_for([false, true, true, false, false]);
    }
}
