//! A shell script in the place of an agent's program.

use std::{
    fs::OpenOptions,
    os::unix::fs::OpenOptionsExt,
    path::PathBuf,
    process::Command,
    time::{Duration, Instant},
};

use rustix::{fs::OFlags, io::Errno};
use serde_json::{Value, json};

use crate::adapter::{Adapter, LIMIT};

/// A folder with the script, which finds it as `$HERE`.
pub(crate) struct Cli {
    folder: tempfile::TempDir,
}

impl Cli {
    /// Creates a CLI. A script that ignores `--version` has none, and reports that at once.
    pub(crate) fn new(script: &str) -> Self {
        let cli = Self {
            folder: tempfile::tempdir().unwrap(),
        };
        assert!(
            Command::new("mkfifo")
                .arg(cli.file("witness"))
                .status()
                .unwrap()
                .success()
        );
        let version = if script.contains("--version") {
            ""
        } else {
            "[ \"$*\" = --version ] && exit"
        };
        let script = format!("exec 9<>\"$HERE/witness\"\n{version}\n{script}");
        std::fs::write(cli.file("cli.sh"), script).unwrap();
        cli
    }

    /// A file beside the script.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns its adapter, with more keys in the configuration.
    pub(crate) fn adapter(&self, profile: &str, more: &Value) -> Adapter {
        let mut config = json!({
            "command": "sh",
            "args": [self.file("cli.sh")],
            "env": { "HERE": self.folder.path() },
        });
        config
            .as_object_mut()
            .unwrap()
            .extend(more.as_object().unwrap().clone());
        Adapter::start(profile, &config)
    }

    /// Waits until no process of it is left: all of them hold the witness.
    pub(crate) fn gone(&self) {
        let until = Instant::now() + LIMIT;
        let flags = OFlags::NONBLOCK.bits().cast_signed();
        loop {
            let held = OpenOptions::new()
                .write(true)
                .custom_flags(flags)
                .open(self.file("witness"));
            match held.map_err(|error| error.raw_os_error()) {
                Ok(_) => assert!(Instant::now() < until, "no process is left"),
                Err(error) => return assert_eq!(error, Some(Errno::NXIO.raw_os_error())),
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}
