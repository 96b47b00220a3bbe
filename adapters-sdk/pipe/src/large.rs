//! Members of messages that lie in files ([large.2], [large.3]).

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use trunkline_protocol::{Hasher, LargeMember, MAX_LARGE, Sha256};

/// Numbers the files of this process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Writes the JSON of a member into a new private file in the session's exchange folder. Blocks on the file system.
///
/// # Errors
/// What the file system says, and `FileTooLarge` beyond [`MAX_LARGE`].
pub fn keep_json(folder: &Path, json: &str) -> io::Result<LargeMember> {
    let size = json.len() as u64;
    if size > MAX_LARGE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("large-{}-{number}.json", std::process::id()));
    let file_path = path.to_str().ok_or(io::ErrorKind::InvalidFilename)?.to_owned();
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    if let Err(error) = file.write_all(json.as_bytes()) {
        // Best effort: the folder goes with its session.
        let _ = std::fs::remove_file(&path);
        return Err(error);
    }
    Ok(LargeMember { file_path, size, sha256: Sha256::of(json.as_bytes()) })
}

/// Reads the JSON of a member that the host put into a file, and removes the file. Blocks on the file system.
///
/// # Errors
/// What the file system says, `FileTooLarge` beyond [`MAX_LARGE`], and `InvalidData` for what is not what was announced.
pub fn take_json(member: &LargeMember) -> io::Result<String> {
    if member.size > MAX_LARGE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // Before it is opened: a FIFO would wait for its writer.
    if !std::fs::metadata(&member.file_path)?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut source = Hasher::new(File::open(&member.file_path)?.take(member.size + 1));
    let mut json = String::new();
    source.read_to_string(&mut json)?;
    if source.finish() != (member.size, member.sha256) {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "the file is not what was announced"));
    }
    // Best effort: the folder goes with its session.
    let _ = std::fs::remove_file(&member.file_path);
    Ok(json)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_is_taken_once_and_only_as_it_was() {
        let folder = tempfile::tempdir().expect("a folder");
        let kept = keep_json(folder.path(), "\"text\"").expect("it is written");
        assert_eq!((kept.size, kept.sha256), (6, Sha256::of(b"\"text\"")));
        for odd in [
            LargeMember { size: 5, ..kept.clone() },
            LargeMember { size: MAX_LARGE + 1, ..kept.clone() },
            LargeMember { sha256: Sha256::of(b""), ..kept.clone() },
            LargeMember { file_path: folder.path().display().to_string(), ..kept.clone() },
        ] {
            take_json(&odd).expect_err("it is another");
        }
        assert_eq!(take_json(&kept).expect("it is there"), "\"text\"");
        take_json(&kept).expect_err("it is gone");
    }
}
