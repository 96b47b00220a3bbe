//! A program's connection to the proxy.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::UnixStream;

use rustix::event::PollFlags;

/// Maximum of buffered bytes in one direction.
const BUFFER: usize = 16 * 1024;

/// Rounds that a link gets before the others have their turn.
const ROUNDS: usize = 4;

/// Maximum of bytes that a program may send to a proxy that has closed.
const MAX_DISCARDED: usize = 64 * 1024 * 1024;

/// Two sockets, neither of which blocks, and what is on its way between them.
#[derive(Debug)]
pub(super) struct SocketPair {
    program: TcpStream,
    proxy: UnixStream,
    up: Flow,
    down: Flow,
}

/// The link has nothing more to do.
#[derive(Debug)]
pub(super) struct Over;

impl SocketPair {
    pub(super) fn new(program: TcpStream, proxy: UnixStream) -> io::Result<Self> {
        program.set_nonblocking(true)?;
        program.set_nodelay(true)?;
        proxy.set_nonblocking(true)?;
        Ok(Self {
            program,
            proxy,
            up: Flow::default(),
            down: Flow::default(),
        })
    }

    /// Returns the events to poll for on each socket.
    pub(super) fn interests(&self) -> [(BorrowedFd<'_>, PollFlags); 2] {
        [
            (
                self.program.as_fd(),
                self.up.wants_input() | self.down.wants_output(),
            ),
            (
                self.proxy.as_fd(),
                self.down.wants_input() | self.up.wants_output(),
            ),
        ]
    }

    /// Copies what is available without waiting.
    ///
    /// A proxy may close after it has read enough, while its answer is still on the way: further
    /// input of the program is discarded then. A program that has ended needs no answer.
    pub(super) fn copy(&mut self) -> Result<(), Over> {
        for _ in 0..ROUNDS {
            let program = &self.program;
            let proxy = &self.proxy;
            let sent = match self.up.step(&mut &*program, &mut &*proxy, || {
                proxy.shutdown(Shutdown::Write)
            }) {
                Ok(moved) => moved,
                Err(Broke::Output) => self.up.discard(),
                Err(Broke::Input) => return Err(Over),
            };
            let got = match self.down.step(&mut &*proxy, &mut &*program, || {
                program.shutdown(Shutdown::Write)
            }) {
                Ok(moved) => moved,
                Err(Broke::Input) => self.down.end(),
                Err(Broke::Output) => return Err(Over),
            };
            if (sent, got) == (Moved::No, Moved::No) {
                break;
            }
        }
        // While the program still sends, closing would reset the connection and take the rest of
        // the answer with it.
        let over = self.up.state == FlowState::Done && self.down.state == FlowState::Done;
        if over || self.up.discarded > MAX_DISCARDED {
            Err(Over)
        } else {
            Ok(())
        }
    }
}

/// A direction of a connection.
///
/// ```text
///  Open ── end of input ──► Draining ── buffer empty, output shut ──► Done
///    └────── output broke ──► Discarding ────── end of input ───────────┘
/// ```
#[derive(Debug, Default)]
struct Flow {
    buffer: Vec<u8>,
    /// Number of buffered bytes that were written.
    written: usize,
    /// Number of discarded bytes.
    discarded: usize,
    state: FlowState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum FlowState {
    #[default]
    Open,
    Draining,
    Discarding,
    Done,
}

/// The broken end of a direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Broke {
    Input,
    Output,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moved {
    Yes,
    No,
}

impl Flow {
    fn wants_input(&self) -> PollFlags {
        let reads =
            matches!(self.state, FlowState::Open | FlowState::Discarding) && self.buffer.is_empty();
        if reads {
            PollFlags::IN
        } else {
            PollFlags::empty()
        }
    }

    fn wants_output(&self) -> PollFlags {
        if self.buffer.is_empty() {
            PollFlags::empty()
        } else {
            PollFlags::OUT
        }
    }

    /// There is no more input, however it ended.
    fn end(&mut self) -> Moved {
        self.state = FlowState::Draining;
        Moved::Yes
    }

    /// The receiver is gone.
    fn discard(&mut self) -> Moved {
        self.buffer = Vec::new();
        let ended = matches!(self.state, FlowState::Draining | FlowState::Done);
        self.state = if ended {
            FlowState::Done
        } else {
            FlowState::Discarding
        };
        Moved::Yes
    }

    /// Reads if the buffer is empty, writes if it is not, and ends the output after the end of the input.
    fn step(
        &mut self,
        from: &mut impl Read,
        to: &mut impl Write,
        shut: impl FnOnce() -> io::Result<()>,
    ) -> Result<Moved, Broke> {
        let mut moved = Moved::No;
        if !self.wants_input().is_empty() {
            self.buffer.resize(BUFFER, 0);
            let read = from.read(&mut self.buffer);
            self.buffer.truncate(*read.as_ref().unwrap_or(&0));
            self.written = 0;
            match read {
                Ok(0) if self.state == FlowState::Discarding => self.state = FlowState::Done,
                Ok(0) => self.state = FlowState::Draining,
                Ok(_) => moved = Moved::Yes,
                Err(error) if can_wait(&error) => {}
                Err(_) => return Err(Broke::Input),
            }
            if self.state == FlowState::Discarding {
                self.discarded += self.buffer.len();
                self.buffer.clear();
            }
        }
        while let Some(rest) = self
            .buffer
            .get(self.written..)
            .filter(|rest| !rest.is_empty())
        {
            match to.write(rest) {
                Ok(count) if count > 0 => {
                    self.written += count;
                    moved = Moved::Yes;
                }
                Err(error) if can_wait(&error) => return Ok(moved),
                Ok(_) | Err(_) => return Err(Broke::Output),
            }
        }
        // An idle connection holds no buffer.
        self.buffer = Vec::new();
        if self.state == FlowState::Draining {
            shut().map_err(|_| Broke::Output)?;
            self.state = FlowState::Done;
        }
        Ok(moved)
    }
}

fn can_wait(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
