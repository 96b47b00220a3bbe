//! Signals of the user or a supervisor.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Request to end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InterruptSignal {
    /// Ctrl-C.
    Key,
    /// SIGTERM or SIGHUP.
    Terminate,
}

/// Watches for Ctrl-C, SIGTERM and SIGHUP, which no longer end the program by themselves.
#[derive(Debug)]
pub(crate) struct InterruptSignals {
    key: Signal,
    term: Signal,
    hangup: Signal,
}

impl InterruptSignals {
    /// Starts to watch.
    ///
    /// # Errors
    /// The system refuses a signal handler.
    pub(crate) fn watch() -> io::Result<Self> {
        Ok(Self {
            key: signal(SignalKind::interrupt())?,
            term: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next signal.
    ///
    /// # Cancel safety
    /// Dropping the future loses no signal.
    pub(crate) async fn next(&mut self) -> InterruptSignal {
        tokio::select! {
            _ = self.key.recv() => InterruptSignal::Key,
            _ = self.term.recv() => InterruptSignal::Terminate,
            _ = self.hangup.recv() => InterruptSignal::Terminate,
        }
    }
}

/// Watches for Ctrl-C and SIGTERM, which no longer end the program by themselves. The future waits
/// for one of them.
///
/// # Errors
/// The system refuses a signal handler.
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

impl InterruptSignal {
    /// Returns the exit code for the signal.
    pub(crate) const fn exit_code(self) -> u8 {
        match self {
            Self::Key => crate::exit::INTERRUPTED,
            Self::Terminate => crate::exit::TERMINATED,
        }
    }
}
