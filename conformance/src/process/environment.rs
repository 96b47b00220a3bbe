//! The environment of a program under test.

use std::ffi::{OsStr, OsString};

/// Variables that a host passes on to its adapters, besides `LC_*` ([process.6]). The suite's own
/// list: it shares no code with a host.
const PASSED_ON: [&str; 7] = ["HOME", "PATH", "TERM", "LANG", "USER", "LOGNAME", "SHELL"];

/// The suite's own variables that a program gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inherited {
    /// None.
    Nothing,
    /// Variables that a host passes on. Other variables of a shell, such as `PYTHONUNBUFFERED`,
    /// would hide faults that appear below a host.
    AsOfHost,
    /// All.
    All,
}

impl Inherited {
    /// Returns true if a program gets the variable of this name.
    pub(super) fn includes(self, name: &OsStr) -> bool {
        match self {
            Self::Nothing => false,
            Self::AsOfHost => is_passed_on(name),
            Self::All => true,
        }
    }

    /// The variables.
    pub(crate) fn variables(self) -> impl Iterator<Item = (OsString, OsString)> {
        std::env::vars_os().filter(move |(name, _)| self.includes(name))
    }
}

fn is_passed_on(name: &OsStr) -> bool {
    PASSED_ON.iter().any(|passed| name == *passed) || name.as_encoded_bytes().starts_with(b"LC_")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The two lists share no code, so a test compares them.
    #[test]
    fn the_list_is_that_of_the_host() {
        let host = concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/../runtime/process/src/environment.rs"
        );
        let host = std::fs::read_to_string(host).unwrap();
        let (_, list) = host.split_once("const CURATED: ").unwrap();
        let (_, list) = list.split_once("= [").unwrap();
        let (list, _) = list.split_once("];").unwrap();
        let names: Vec<&str> = list.split('"').skip(1).step_by(2).collect();
        assert_eq!(names, PASSED_ON);
        assert!(host.contains("starts_with(b\"LC_\")"));
    }

    #[test]
    fn a_variable_of_a_shell_is_kept_back() {
        assert!(is_passed_on(OsStr::new("PATH")) && is_passed_on(OsStr::new("LC_ALL")));
        assert!(!is_passed_on(OsStr::new("PYTHONUNBUFFERED")) && !is_passed_on(OsStr::new("LCX")));
    }
}
