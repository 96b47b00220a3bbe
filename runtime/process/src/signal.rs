//! The signals that a host sends on purpose, and the names of all.

/// A signal to a child's process group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Signal {
    /// SIGINT: what a terminal sends on Ctrl-C; agents often take it as "stop this turn".
    Interrupt,
    /// SIGTERM: finish up and end. Wakes stopped processes too, so that they can.
    Terminate,
    /// SIGKILL: end now; cannot be refused.
    Kill,
}

impl Signal {
    pub(crate) fn to_rustix(self) -> rustix::process::Signal {
        match self {
            Self::Interrupt => rustix::process::Signal::INT,
            Self::Terminate => rustix::process::Signal::TERM,
            Self::Kill => rustix::process::Signal::KILL,
        }
    }
}

/// The name of a signal number on this platform, such as `SIGKILL`; `None` for real-time and unknown ones.
pub(crate) fn name(number: i32) -> Option<&'static str> {
    use rustix::process::Signal as S;
    const NAMES: [(S, &str); 31] = [
        (S::HUP, "SIGHUP"),
        (S::INT, "SIGINT"),
        (S::QUIT, "SIGQUIT"),
        (S::ILL, "SIGILL"),
        (S::TRAP, "SIGTRAP"),
        (S::ABORT, "SIGABRT"),
        (S::BUS, "SIGBUS"),
        (S::FPE, "SIGFPE"),
        (S::KILL, "SIGKILL"),
        (S::USR1, "SIGUSR1"),
        (S::SEGV, "SIGSEGV"),
        (S::USR2, "SIGUSR2"),
        (S::PIPE, "SIGPIPE"),
        (S::ALARM, "SIGALRM"),
        (S::TERM, "SIGTERM"),
        (S::STKFLT, "SIGSTKFLT"),
        (S::CHILD, "SIGCHLD"),
        (S::CONT, "SIGCONT"),
        (S::STOP, "SIGSTOP"),
        (S::TSTP, "SIGTSTP"),
        (S::TTIN, "SIGTTIN"),
        (S::TTOU, "SIGTTOU"),
        (S::URG, "SIGURG"),
        (S::XCPU, "SIGXCPU"),
        (S::XFSZ, "SIGXFSZ"),
        (S::VTALARM, "SIGVTALRM"),
        (S::PROF, "SIGPROF"),
        (S::WINCH, "SIGWINCH"),
        (S::IO, "SIGIO"),
        (S::POWER, "SIGPWR"),
        (S::SYS, "SIGSYS"),
    ];
    NAMES
        .iter()
        .find(|(signal, _)| signal.as_raw() == number)
        .map(|(_, name)| *name)
}
