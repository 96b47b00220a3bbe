//! Exit of a process.

use std::fmt;

use rustix::process::WaitIdStatus;

use crate::signal;

/// Exit of a process: an exit code, a signal, or unknown.
///
/// Its text reads `exit status 3`, `signal 9 (SIGKILL)` or `unknown exit status`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Exit {
    /// The exit code, 0 to 255, of a process that ended by itself.
    pub code: Option<i32>,
    /// The number of the signal that ended it.
    pub signal: Option<i32>,
}

impl Exit {
    /// Other code took the status: the embedder reaps every child (`waitpid(-1)`), or ignores
    /// SIGCHLD.
    pub const UNKNOWN: Self = Self {
        code: None,
        signal: None,
    };

    /// Returns true if it ended by itself with code 0.
    #[must_use]
    pub fn success(self) -> bool {
        self.code == Some(0)
    }

    pub(crate) fn from_wait(status: &WaitIdStatus) -> Self {
        Self {
            code: status.exit_status(),
            signal: status.terminating_signal(),
        }
    }
}

impl fmt::Display for Exit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.code, self.signal) {
            (Some(code), _) => write!(f, "exit status {code}"),
            (None, Some(number)) => match signal::name(number) {
                Some(name) => write!(f, "signal {number} ({name})"),
                None => write!(f, "signal {number}"),
            },
            (None, None) => f.write_str("unknown exit status"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_exit_reads_as_a_cause() {
        let coded = |code| {
            Exit {
                code: Some(code),
                signal: None,
            }
            .to_string()
        };
        let signalled = |number| {
            Exit {
                code: None,
                signal: Some(number),
            }
            .to_string()
        };
        assert_eq!(coded(0), "exit status 0");
        assert_eq!(coded(3), "exit status 3");
        assert_eq!(signalled(9), "signal 9 (SIGKILL)");
        assert_eq!(signalled(15), "signal 15 (SIGTERM)");
        assert_eq!(signalled(40), "signal 40");
        assert_eq!(Exit::UNKNOWN.to_string(), "unknown exit status");
        assert!(!Exit::UNKNOWN.success());
    }
}
