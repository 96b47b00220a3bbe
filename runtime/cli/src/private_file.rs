//! Private files of the user.

use std::{
    fs::DirBuilder,
    io::{self, Write},
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use tempfile::NamedTempFile;

/// Writes a file of mode 0600, and its folder if it is missing. The rename happens only after the
/// contents are on disk.
///
/// # Errors
/// The folder or the file cannot be written. An earlier file stays unchanged.
pub(crate) fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    prepare(path, bytes)?.persist(path)?;
    Ok(())
}

/// Creates a file as [`write_private`] does.
///
/// # Errors
/// As for [`write_private`], and if the file exists.
pub(crate) fn create_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    prepare(path, bytes)?.persist_noclobber(path)?;
    Ok(())
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
