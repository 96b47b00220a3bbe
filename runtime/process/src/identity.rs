//! Identity of a process beyond its id.

use std::fmt;

use rustix::process::Pid;

use crate::system::proc::{self, Stat};

/// A process that cannot be mistaken for another: the boot of the machine, the PID namespace, its
/// number, its own start.
///
/// Its text has these four, with dots between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessIdentity {
    boot: String,
    namespace: u64,
    pid: u32,
    /// In ticks since the boot.
    started: u64,
}

impl ProcessIdentity {
    /// This process. `None` where `/proc` does not show it.
    #[must_use]
    pub fn of_this() -> Option<Self> {
        let pid = std::process::id();
        let boot = proc::boot()
            .ok()?
            .chars()
            .filter(char::is_ascii_hexdigit)
            .collect();
        Some(Self {
            boot,
            namespace: proc::namespace().ok()?,
            pid,
            started: started(pid)?,
        })
    }

    /// Reads its text; what follows after a further dot is ignored.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('.');
        let mut next = || parts.next();
        let boot = next()?;
        let namespace = next()?;
        let pid = next()?;
        let started = next()?;
        Some(Self {
            boot: boot.to_owned(),
            namespace: namespace.parse().ok()?,
            pid: pid.parse().ok()?,
            started: started.parse().ok()?,
        })
    }

    /// Returns true if it certainly no longer runs. Ids of another namespace prove nothing here.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        let Some(this) = Self::of_this() else {
            return false;
        };
        self.boot != this.boot
            || (self.namespace == this.namespace && started(self.pid) != Some(self.started))
    }
}

impl fmt::Display for ProcessIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}.{}.{}.{}",
            self.boot, self.namespace, self.pid, self.started
        )
    }
}

fn started(pid: u32) -> Option<u64> {
    Some(Stat::read(Pid::from_raw(pid.cast_signed())?)?.started)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_certainly_runs_no_longer_is_gone() {
        let this = ProcessIdentity::of_this().unwrap();
        assert_eq!(
            ProcessIdentity::parse(&format!("{this}.more")),
            Some(this.clone())
        );
        assert!(!this.is_gone());
        let before = ProcessIdentity {
            boot: "before".to_owned(),
            ..this.clone()
        };
        assert!(before.is_gone(), "the machine was started again");
        let other = ProcessIdentity {
            started: this.started + 1,
            ..this.clone()
        };
        assert!(other.is_gone(), "the number belongs to another process now");
        let elsewhere = ProcessIdentity {
            namespace: this.namespace + 1,
            ..other
        };
        assert!(
            !elsewhere.is_gone(),
            "numbers of another namespace say nothing"
        );
        for strange in ["", "x", "a.b.c.d.e", "1-2-3-4"] {
            assert_eq!(ProcessIdentity::parse(strange), None, "{strange}");
        }
    }
}
