//! One connection of a program and its way to the proxy.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::PollFlags;

/// What waits in one direction at most.
const BUFFER: usize = 16 * 1024;

/// Rounds that a link gets before the others have their turn.
const ROUNDS: usize = 4;

/// Two sockets, neither of which blocks, and what is on its way between them.
#[derive(Debug)]
pub(super) struct Link {
    program: TcpStream,
    proxy: UnixStream,
    up: Flow,
    down: Flow,
}

/// The link has nothing more to do.
#[derive(Debug)]
pub(super) struct Over;

impl Link {
    pub(super) fn new(program: TcpStream, proxy: UnixStream) -> io::Result<Self> {
        program.set_nonblocking(true)?;
        program.set_nodelay(true)?;
        proxy.set_nonblocking(true)?;
        Ok(Self { program, proxy, up: Flow::default(), down: Flow::default() })
    }

    /// What each socket is waited for.
    pub(super) fn interests(&self) -> [(BorrowedFd<'_>, PollFlags); 2] {
        [
            (self.program.as_fd(), self.up.wants_input() | self.down.wants_output()),
            (self.proxy.as_fd(), self.down.wants_input() | self.up.wants_output()),
        ]
    }

    /// Copies what can be copied without waiting.
    pub(super) fn copy(&mut self) -> Result<(), Over> {
        for _ in 0..ROUNDS {
            let (program, proxy) = (&self.program, &self.proxy);
            let sent = self.up.step(&mut &*program, &mut &*proxy, || proxy.shutdown(Shutdown::Write));
            let got = self.down.step(&mut &*proxy, &mut &*program, || program.shutdown(Shutdown::Write));
            match (sent, got) {
                (Ok(Moved::No), Ok(Moved::No)) => break,
                (Ok(_), Ok(_)) => {}
                (Err(_), _) | (_, Err(_)) => return Err(Over),
            }
        }
        if self.up.is_done() && self.down.is_done() { Err(Over) } else { Ok(()) }
    }
}

/// One direction.
///
/// ```text
///  Open ── end of input ──► Draining ── buffer empty, output shut ──► Done
/// ```
#[derive(Debug, Default)]
struct Flow {
    buffer: Vec<u8>,
    /// What of the buffer was written.
    written: usize,
    state: State,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Open,
    Draining,
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    Yes,
    No,
}

impl Flow {
    fn wants_input(&self) -> PollFlags {
        if self.state == State::Open && self.buffer.is_empty() { PollFlags::IN } else { PollFlags::empty() }
    }

    fn wants_output(&self) -> PollFlags {
        if self.buffer.is_empty() { PollFlags::empty() } else { PollFlags::OUT }
    }

    fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Reads if the buffer is empty, writes if it is not, and ends the output after the end of the input.
    fn step(
        &mut self,
        from: &mut impl Read,
        to: &mut impl Write,
        shut: impl FnOnce() -> io::Result<()>,
    ) -> io::Result<Moved> {
        let mut moved = Moved::No;
        if self.state == State::Open && self.buffer.is_empty() {
            self.buffer.resize(BUFFER, 0);
            let read = from.read(&mut self.buffer);
            self.buffer.truncate(*read.as_ref().unwrap_or(&0));
            self.written = 0;
            match read {
                Ok(0) => self.state = State::Draining,
                Ok(_) => moved = Moved::Yes,
                Err(error) if can_wait(&error) => {}
                Err(error) => return Err(error),
            }
        }
        while let Some(rest) = self.buffer.get(self.written..).filter(|rest| !rest.is_empty()) {
            match to.write(rest) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(count) => {
                    self.written += count;
                    moved = Moved::Yes;
                }
                Err(error) if can_wait(&error) => return Ok(moved),
                Err(error) => return Err(error),
            }
        }
        // An idle connection holds no buffer.
        self.buffer = Vec::new();
        if self.state == State::Draining {
            shut()?;
            self.state = State::Done;
        }
        Ok(moved)
    }
}

fn can_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
