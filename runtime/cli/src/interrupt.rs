//! The signals that a person or a supervisor sends.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// What was asked for from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interrupt {
    /// Ctrl-C.
    Key,
    /// The program must end.
    Terminate,
}

/// Watches for Ctrl-C, SIGTERM and SIGHUP; from now on none of them ends the program by itself.
#[derive(Debug)]
pub(crate) struct Interrupts {
    key: Signal,
    term: Signal,
    hangup: Signal,
}

impl Interrupts {
    /// Begins to watch.
    ///
    /// # Errors
    /// When the system refuses.
    pub(crate) fn watch() -> io::Result<Self> {
        Ok(Self {
            key: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// The next one.
    ///
    /// # Cancel safety
    /// Dropping the future loses no signal.
    pub(crate) async fn next(&mut self) -> Interrupt {
        tokio::select! {
            _ = self.key.recv() => Interrupt::Key,
            _ = self.term.recv() => Interrupt::Terminate,
            _ = self.hangup.recv() => Interrupt::Terminate,
        }
    }
}

/// Watches for Ctrl-C and SIGTERM; from now on neither ends the program by itself. The future waits
/// for one of them.
///
/// # Errors
/// When the system refuses.
pub(crate) fn stop_signal() -> io::Result<impl Future<Output = ()>> {
    let mut key = signal(SignalKind::interrupt())?;
    let mut term = signal(SignalKind::terminate())?;
    Ok(async move {
        tokio::select! {
            _ = key.recv() => {}
            _ = term.recv() => {}
        }
    })
}

impl Interrupt {
    /// The exit code that tells of it.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Key => crate::exit::INTERRUPTED,
            Self::Terminate => crate::exit::TERMINATED,
        }
    }
}
