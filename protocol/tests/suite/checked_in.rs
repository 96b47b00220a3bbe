//! Files that are generated and checked in.

use std::{fs, path::PathBuf};

/// A file of this crate.
pub(crate) fn file(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// Compares a checked-in file with what it should hold now, or writes it when `UPDATE_GOLDEN` is set.
pub(crate) fn check(path: &str, now: &str) {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(file(path), now).unwrap();
        return;
    }
    let then = fs::read_to_string(file(path)).unwrap_or_default();
    for (number, (then, now)) in then.lines().zip(now.lines()).enumerate() {
        assert_eq!(
            then,
            now,
            "{path}:{} has drifted; UPDATE_GOLDEN=1 rewrites it",
            number + 1
        );
    }
    assert!(
        then == now,
        "{path} has drifted in its length or its line ends; UPDATE_GOLDEN=1 rewrites it"
    );
}
