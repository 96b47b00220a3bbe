//! Members of messages in files ([large.2], [large.3]).

use std::{
    fs::{File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
    sync::atomic::{AtomicU64, Ordering},
};

use rustix::fs::{Mode, OFlags};
use trunkline_protocol::{
    AdapterMessage, Extensions, Hasher, LargeMember, MAX_LARGE, Sha256, move_to_files, wants_file,
};

/// Numbers the files of this process.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// Puts the members of a message that are too long for a line of `max_line` bytes into files of the
/// session's exchange folder, if that was agreed on. A member stays in the message if its file
/// cannot be written. Blocks on the file system only for such a message.
#[must_use]
pub fn place_large(
    message: AdapterMessage,
    agreed: Extensions,
    max_line: usize,
    folder: Option<&Path>,
) -> AdapterMessage {
    match folder {
        Some(folder) if wants_file(&message, agreed, max_line) => place(message, max_line, folder),
        _ => message,
    }
}

/// [`place_large`], off the runtime's threads. `None` when the runtime ends meanwhile.
///
/// # Cancel safety
/// Dropped, it may leave files, which go with the folder.
pub async fn place_large_aside(
    message: AdapterMessage,
    agreed: Extensions,
    max_line: usize,
    folder: Option<&Path>,
) -> Option<AdapterMessage> {
    match folder {
        Some(folder) if wants_file(&message, agreed, max_line) => {
            let folder = folder.to_owned();
            tokio::task::spawn_blocking(move || place(message, max_line, &folder))
                .await
                .ok()
        }
        _ => Some(message),
    }
}

fn place(message: AdapterMessage, max_line: usize, folder: &Path) -> AdapterMessage {
    let session = message.session_id.clone();
    move_to_files(message, max_line, &mut |json| {
        keep_json(folder, json).inspect_err(|error| {
            tracing::warn!(%session, %error, "a large member has no file and is cut");
        })
    })
}

/// Writes the JSON of a member into a new private file in the session's exchange folder. Blocks on
/// the file system.
///
/// # Errors
/// The file system's error, and `FileTooLarge` beyond [`MAX_LARGE`].
pub fn keep_json(folder: &Path, json: &str) -> io::Result<LargeMember> {
    let size = json.len() as u64;
    if size > MAX_LARGE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!("large-{}-{number}.json", std::process::id()));
    let file_path = path
        .to_str()
        .ok_or(io::ErrorKind::InvalidFilename)?
        .to_owned();
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    if let Err(error) = file.write_all(json.as_bytes()) {
        // Best effort: the folder goes with its session.
        let _ = std::fs::remove_file(&path);
        return Err(error);
    }
    Ok(LargeMember {
        file_path,
        size,
        sha256: Sha256::digest(json.as_bytes()),
    })
}

/// Reads the JSON of a member that the peer put into a file directly in the session's exchange
/// folder, and removes the file. Blocks on the file system.
///
/// # Errors
/// The file system's error, `FileTooLarge` beyond [`MAX_LARGE`], `InvalidInput` if it is no regular
/// file in the folder, and `InvalidData` if it differs from its announcement.
pub fn take_json(folder: &Path, member: &LargeMember) -> io::Result<String> {
    if member.size > MAX_LARGE {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    let refused = |why| io::Error::new(io::ErrorKind::InvalidInput, why);
    let path = Path::new(&member.file_path);
    if path.parent() != Some(folder) || path.file_name().is_none() {
        return Err(refused("the file is not directly in the exchange folder"));
    }
    // Without waiting: a FIFO would wait for its writer.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(refused("not a regular file"));
    }
    let mut source = Hasher::new(file.take(member.size + 1));
    let mut json = String::new();
    source.read_to_string(&mut json)?;
    if source.finish() != (member.size, member.sha256) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            "the file is not what was announced",
        ));
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
        let outside = tempfile::tempdir().expect("a folder");
        let secret = keep_json(outside.path(), "\"text\"").expect("it is written");
        let named = |name: &str| folder.path().join(name).display().to_string();
        std::os::unix::fs::symlink(&secret.file_path, named("link")).expect("it is made");
        rustix::fs::mknodat(
            rustix::fs::CWD,
            named("fifo"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR,
            0,
        )
        .expect("it is made");
        let kept = keep_json(folder.path(), "\"text\"").expect("it is written");
        assert_eq!((kept.size, kept.sha256), (6, Sha256::digest(b"\"text\"")));
        for odd in [
            LargeMember {
                size: 5,
                ..kept.clone()
            },
            LargeMember {
                size: MAX_LARGE + 1,
                ..kept.clone()
            },
            LargeMember {
                sha256: Sha256::digest(b""),
                ..kept.clone()
            },
            LargeMember {
                file_path: folder.path().display().to_string(),
                ..kept.clone()
            },
            LargeMember {
                file_path: named(".."),
                ..kept.clone()
            },
            LargeMember {
                file_path: named("link"),
                ..secret.clone()
            },
            LargeMember {
                file_path: named("fifo"),
                ..kept.clone()
            },
            secret.clone(),
        ] {
            take_json(folder.path(), &odd).expect_err("it is another");
        }
        assert_eq!(
            take_json(folder.path(), &kept).expect("it is there"),
            "\"text\""
        );
        take_json(folder.path(), &kept).expect_err("it is gone");
        assert!(
            Path::new(&secret.file_path).exists(),
            "what lies outside stays"
        );
    }
}
