//! Files for an agent that only this user can read.

use std::io::{self, Write};

use tempfile::NamedTempFile;

/// Writes a file in the private folder for temporary files. Dropping it removes it.
pub(crate) fn write(prefix: &str, suffix: &str, contents: &str) -> io::Result<NamedTempFile> {
    let mut file = tempfile::Builder::new()
        .prefix(prefix)
        .suffix(suffix)
        .tempfile()?;
    file.write_all(contents.as_bytes())?;
    file.flush()?;
    Ok(file)
}
