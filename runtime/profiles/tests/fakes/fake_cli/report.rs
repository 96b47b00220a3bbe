//! The player's reports to the test: lines of JSON on a socket of the test.

use std::{io::Write, os::unix::net::UnixStream, path::Path};

use serde_json::Value;

/// The way to the test; silent where there is none.
#[derive(Debug)]
pub(crate) struct Report(Option<UnixStream>);

impl Report {
    /// Connects to the test's socket.
    pub(crate) fn to(socket: Option<&Path>) -> Self {
        Self(socket.and_then(|socket| UnixStream::connect(socket).ok()))
    }

    /// Sends a report. If the test has ended it is dropped.
    pub(crate) fn tell(&mut self, what: &Value) {
        if let Some(stream) = &mut self.0 {
            drop(stream.write_all(format!("{what}\n").as_bytes()));
        }
    }
}
