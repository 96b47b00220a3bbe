//! A real server of its own, on a port that is free.

use std::{
    fs,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread::sleep,
    time::{Duration, Instant},
};

use tempfile::TempDir;

/// A server that ends with this.
#[derive(Debug)]
pub(crate) struct Server {
    pub(crate) child: Child,
    port: u16,
    pub(crate) folder: Arc<TempDir>,
}

impl Server {
    /// Starts a server with JetStream; `None`, with a note, without `nats-server`.
    pub(crate) fn start() -> Option<Self> {
        Self::with(&["-p", "-1", "-js"])
    }

    /// Starts a server with JetStream and this additional configuration.
    #[allow(dead_code, reason = "not every test that has this file uses it")]
    pub(crate) fn configured(config: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("config");
        fs::write(&file, config).unwrap();
        Self::within(
            Arc::new(folder),
            &["-p", "-1", "-js", "-c", file.to_str().unwrap()],
        )
    }

    /// Starts a server with these arguments.
    pub(crate) fn with(args: &[&str]) -> Option<Self> {
        Self::within(Arc::new(tempfile::tempdir().unwrap()), args)
    }

    /// Starts a server on the content of a folder.
    pub(crate) fn within(folder: Arc<TempDir>, args: &[&str]) -> Option<Self> {
        let program =
            std::env::var("TRUNKLINE_NATS_SERVER").unwrap_or_else(|_| "nats-server".to_owned());
        let log = folder.path().join("log");
        let started = Command::new(&program)
            .args(["-a", "127.0.0.1", "--ports_file_dir"])
            .arg(folder.path())
            .arg("-sd")
            .arg(folder.path())
            .arg("-l")
            .arg(&log)
            .args(args)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let child = match started {
            Ok(child) => child,
            Err(error) => {
                trunkline_testing::skipped(&format!("no program nats-server: {program}: {error}"));
                return None;
            }
        };
        let file = folder
            .path()
            .join(format!("nats-server_{}.ports", child.id()));
        let until = Instant::now() + Duration::from_secs(30);
        // It writes the file when it listens.
        let port = loop {
            let ports = fs::read_to_string(&file).unwrap_or_default();
            let ports: serde_json::Value = serde_json::from_str(&ports).unwrap_or_default();
            let urls = ports["nats"].as_array().or(ports["tls"].as_array());
            let port = urls.and_then(|urls| urls[0].as_str()?.rsplit(':').next()?.parse().ok());
            if let Some(port) = port {
                break port;
            }
            let log = || fs::read_to_string(&log).unwrap_or_default();
            assert!(
                Instant::now() < until,
                "{program} does not listen: {}",
                log()
            );
            sleep(Duration::from_millis(5));
        };
        Some(Self {
            child,
            port,
            folder,
        })
    }

    /// Returns its log.
    #[allow(dead_code, reason = "not every test that has this file uses it")]
    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap()
    }

    /// Returns its address.
    pub(crate) fn url(&self) -> String {
        format!("nats://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log());
        }
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}
