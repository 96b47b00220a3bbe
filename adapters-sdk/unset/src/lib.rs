//! Removes a variable from the process's own environment, so that what it starts does not inherit it.

#![forbid(unsafe_code)]

/// Removes `name` from the environment.
///
/// Call it at the start of the program, before other threads run: on some systems a thread that reads the
/// environment through C at the same moment may read freed memory. (Rust's own readers take a lock.)
pub fn unset(name: &str) {
    std::env::remove_var(name);
}
