//! A case's end of a pair of pipes, or of a connection: threads write, read and record.

use std::{
    fs::File,
    io,
    net::Shutdown,
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::Path,
    sync::Arc,
    thread,
    time::Duration,
};

use super::{
    Exit,
    pipes::{self, StdinState, StdoutState, Write1},
};
use crate::{
    history::{Intent, Tape},
    watched::Watched,
};

/// Both directions to a program, by its stdin and stdout or by a socket.
#[derive(Debug, Clone)]
pub(crate) struct Pipe {
    /// Recorder of all traffic.
    pub(crate) tape: Tape,
    pub(super) input: Arc<Watched<StdinState>>,
    pub(super) output: Arc<Watched<StdoutState>>,
}

impl Pipe {
    /// Serves both directions. `ended` is the end of the program, if known.
    pub(super) fn serve(
        tape: Tape,
        stdin: Option<OwnedFd>,
        stdout: Option<OwnedFd>,
        ended: &Arc<Watched<Option<Exit>>>,
    ) -> Self {
        let pipe = Self {
            tape,
            input: Arc::default(),
            output: Arc::default(),
        };
        if let Some(stdin) = stdin {
            let own = pipe.clone();
            let ended = Arc::clone(ended);
            thread::spawn(move || pipes::write_all(stdin, &own.input, &ended, &own.tape));
        }
        if let Some(stdout) = stdout {
            let own = pipe.clone();
            thread::spawn(move || {
                pipes::read_stdout(File::from(stdout), &own.output, &own.input, &own.tape)
            });
        }
        pipe
    }

    /// Connects to the socket of a host.
    ///
    /// # Errors
    ///
    /// When nothing listens there.
    pub(crate) fn connect(path: &Path, tape: Tape) -> io::Result<Connection> {
        let stream = UnixStream::connect(path)?;
        let ends = (stream.try_clone()?.into(), stream.try_clone()?.into());
        let pipe = Self::serve(tape, Some(ends.0), Some(ends.1), &Arc::default());
        Ok(Connection { stream, pipe })
    }

    /// Queues bytes. Never waits.
    pub(crate) fn write(&self, bytes: Vec<u8>, intent: Intent) {
        self.write_in_pieces(bytes, Vec::new(), Duration::ZERO, intent);
    }

    /// Queues bytes that are written in pieces, cut at the given offsets, with a pause at each cut.
    pub(super) fn write_in_pieces(
        &self,
        bytes: Vec<u8>,
        cuts: Vec<usize>,
        gap: Duration,
        intent: Intent,
    ) {
        self.input.change(|input| {
            input.waiting.push_back(Write1 {
                bytes,
                cuts,
                gap,
                intent,
            })
        });
    }

    /// Pauses or resumes reading.
    pub(crate) fn pause_reading(&self, paused: bool) {
        self.output.change(|output| output.paused = paused);
    }
}

/// A hub's connection to a host. Dropping it ends both directions.
#[derive(Debug)]
pub(crate) struct Connection {
    stream: UnixStream,
    /// Recorded traffic.
    pub(crate) pipe: Pipe,
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.pipe.input.change(|input| input.broken = true);
        self.pipe.output.change(|output| output.close = true);
        // The host may have ended it.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
