//! Takes files: judged on the opened handle, copied before they are announced ([file.4], [file.7]).

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};

use hmac_sha256::Hash as Sha256;
use rustix::fs::{Mode, OFlags};
use trunkline_conformance_mutants::hex;

use crate::message::Message;
use crate::switches::{Mutant::*, broken};

/// The largest file ([file.4]).
const MAX_FILE: u64 = 10 * 1024 * 1024;

/// Copies an adapter's file to `copy`, if it is one that may be taken.
///
/// # Errors
///
/// The reason of the refusal, for people.
pub(crate) fn take(path: &str, roots: &[PathBuf], copy: &Path) -> Result<(), String> {
    if broken(FifoOpened) {
        return fs::read(path)
            .and_then(|bytes| fs::write(copy, bytes))
            .map_err(|error| error.to_string());
    }
    let file = judge(path, Some(roots))?;
    write_copy(file, copy)
}

/// Copies a hub's file to `copy`: a regular file within the limit, in any folder.
///
/// # Errors
///
/// The reason of the refusal, for people.
pub(crate) fn place(path: &str, copy: &Path) -> Result<(), String> {
    write_copy(judge(path, None)?, copy)
}

/// Holds a copy to what its sender announced ([large.1]); one that differs is removed.
///
/// # Errors
///
/// The reason of the refusal, for people.
pub(crate) fn hold_to(copy: &Path, message: &Message) -> Result<(), String> {
    let bytes = fs::read(copy).map_err(|error| error.to_string())?;
    let size = message
        .raw("size")
        .and_then(|size| size.parse::<u64>().ok());
    let digest = message.text("sha256");
    let found = hex(&Sha256::hash(&bytes));
    let is_other = size.is_some_and(|size| size != bytes.len() as u64)
        || digest.is_some_and(|digest| digest != found);
    if is_other && !broken(DigestUnchecked) {
        drop(fs::remove_file(copy));
        return Err("it is not what was announced".to_owned());
    }
    Ok(())
}

/// Opens a file without touching what it is, judges the handle, and only then opens it to be read.
fn judge(path: &str, roots: Option<&[PathBuf]>) -> Result<File, String> {
    if !path.starts_with('/') || path.contains('\0') {
        return Err("the path is not absolute".to_owned());
    }
    let handle = rustix::fs::open(path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())
        .map_err(|error| format!("it cannot be opened: {}", io::Error::from(error)))?;
    let handle = File::from(handle);
    let meta = handle.metadata().map_err(|error| error.to_string())?;
    if !meta.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    let by_number = format!("/proc/self/fd/{}", handle.as_raw_fd());
    if let Some(roots) = roots {
        if meta.nlink() != 1 {
            return Err("it has more than one name".to_owned());
        }
        let real = fs::read_link(&by_number).map_err(|error| error.to_string())?;
        let inside = roots
            .iter()
            .filter_map(|root| root.canonicalize().ok())
            .any(|root| real.starts_with(root));
        if !inside && !broken(FileRootsUnchecked) {
            return Err("it is outside the allowed folders".to_owned());
        }
    }
    if meta.len() > MAX_FILE {
        return Err(format!("it is larger than {MAX_FILE} bytes"));
    }
    File::open(by_number).map_err(|error| format!("it cannot be read: {error}"))
}

fn write_copy(file: File, copy: &Path) -> Result<(), String> {
    let mut bytes = Vec::new();
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| error.to_string())?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(format!("it is larger than {MAX_FILE} bytes"));
    }
    File::create(copy)
        .and_then(|mut file| file.write_all(&bytes))
        .map_err(|error| error.to_string())
}

/// Makes a folder that only its owner enters ([file.6]).
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    DirBuilder::new()
        .mode(if broken(ExchangeLeft) { 0o755 } else { 0o700 })
        .create(path)
}

/// The last part of a label, as far as it may be part of a file's name ([file.1]).
pub(crate) fn harmless(label: &str) -> String {
    let base = label.rsplit(['/', '\\']).next().unwrap_or_default();
    let kept: String = base
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_') {
                c
            } else {
                '_'
            }
        })
        .take(100)
        .collect();
    if kept.trim_matches('.').is_empty() {
        "file".to_owned()
    } else {
        kept
    }
}
