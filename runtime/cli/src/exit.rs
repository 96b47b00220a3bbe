//! Exit codes of the program.

/// Success.
pub(crate) const OK: u8 = 0;
/// The turn failed, was refused or ran into a limit; a check of `doctor` found an error; or the
/// command itself failed.
pub(crate) const FAILED: u8 = 1;
/// The command line or the configuration is wrong. No input was sent.
pub(crate) const USAGE: u8 = 2;
/// The adapter could not be started.
pub(crate) const NOT_STARTED: u8 = 3;
/// Ctrl-C: 128 and the number of SIGINT.
pub(crate) const INTERRUPTED: u8 = 130;
/// Stdout was closed before the answer was written: 128 and the number of SIGPIPE.
pub(crate) const BROKEN_PIPE: u8 = 141;
/// SIGTERM or SIGHUP: 128 and the number of SIGTERM.
pub(crate) const TERMINATED: u8 = 143;

/// Table of the exit codes, for `--help`.
pub(crate) const TABLE: &str = "\
Exit codes:
    0  done
    1  the turn failed, `doctor` found an error, or the command failed
    2  the command line or the configuration is wrong
    3  the adapter could not be started, or its agent is not installed
  130  interrupted by Ctrl-C
  141  the reader of the answer closed its pipe before the end
  143  ended by SIGTERM or SIGHUP";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_names_every_code() {
        for code in [
            OK,
            FAILED,
            USAGE,
            NOT_STARTED,
            INTERRUPTED,
            BROKEN_PIPE,
            TERMINATED,
        ] {
            let named = TABLE
                .lines()
                .any(|line| line.trim_start().starts_with(&format!("{code}  ")));
            assert!(named, "{code} is missing");
        }
    }
}
