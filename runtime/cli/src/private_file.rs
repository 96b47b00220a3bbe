//! Private files of the user.

use std::{
    fs::DirBuilder,
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use anyhow::anyhow;
use tempfile::NamedTempFile;

use crate::error::CliError;

/// Writes a file of mode 0600, and its folder if it is missing. The rename happens only after the
/// contents are on disk.
///
/// # Errors
/// The folder or the file cannot be written. An earlier file stays unchanged.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    prepare(path, bytes)?.persist(path)?;
    Ok(())
}

/// Writes a file that the user names, with mode 0600, because it may contain secrets. An existing
/// file is only replaced with `force`, and a mistyped folder is not created.
///
/// # Errors
/// The file exists, or cannot be written.
pub(crate) fn write_output(path: &Path, bytes: &[u8], force: bool) -> Result<(), CliError> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let written = folder
        // The dot makes a file at its place an error.
        .map_or(Ok(()), |folder| folder.join(".").metadata().map(drop))
        .and_then(|()| prepare(path, bytes))
        .and_then(|file| {
            if force {
                file.persist(path)?;
            } else {
                file.persist_noclobber(path)?;
            }
            Ok(())
        });
    written.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => {
            CliError::usage(anyhow!("{} exists already", path.display()))
                .next("use another file, or replace it by --force")
        }
        _ => {
            CliError::failed(anyhow!(error).context(format!("failed to write {}", path.display())))
                .next("name a file in an existing folder by --output FILE")
        }
    })
}

/// Writes a temporary file beside `path`.
fn prepare(path: &Path, bytes: &[u8]) -> io::Result<NamedTempFile> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let mut file = NamedTempFile::new_in(folder)?;
    file.write_all(bytes)?;
    file.as_file().sync_all()?;
    Ok(file)
}
