//! Files for the user ([file.3]), and whether files of the user are what was announced.

use std::{
    fs::File,
    io,
    path::{Component, Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use trunkline_protocol::{Extensions, FileInput, FileOutput, Hasher, Sha256};

use crate::Turn;

/// Numbers the folders of made files: two files of one name do not meet.
static NEXT: AtomicU64 = AtomicU64::new(1);

const UNKNOWN: &str = "application/octet-stream";

impl Turn {
    /// Sends a file that is complete and stays where it is until the session closes. Its name is
    /// the path's last part, its type is guessed from that. Its size and SHA-256 go with it where
    /// both sides use `large`.
    ///
    /// # Errors
    /// When there is no such regular file, or its path is not UTF-8.
    ///
    /// # Cancel safety
    /// The file is announced, or not at all when the future is dropped first.
    pub async fn file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default();
        let mime = file_type_of(&name).to_owned();
        self.file_as(path, name, mime).await
    }

    /// Sends a file under a name and MIME type of the author's choice.
    ///
    /// # Errors
    /// As [`Turn::file`].
    ///
    /// # Cancel safety
    /// As [`Turn::file`].
    pub async fn file_as(
        &self,
        path: impl AsRef<Path>,
        name: impl Into<String>,
        mime: impl Into<String>,
    ) -> io::Result<()> {
        let path = std::path::absolute(path)?;
        let Some(text) = path.to_str() else {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "the file's path is not UTF-8",
            ));
        };
        let (size, sha256) = if self.session.agreed().contains(Extensions::LARGE) {
            let (size, sha256) = in_background(path.clone(), digest).await?;
            (Some(size), Some(sha256))
        } else if tokio::fs::metadata(&path).await?.is_file() {
            (None, None)
        } else {
            return Err(not_regular());
        };
        let output = FileOutput {
            file_name: Some(name.into()),
            file_mime_type: Some(mime.into()),
            file_path: text.to_owned(),
            size,
            sha256,
        };
        self.emit(output).await;
        Ok(())
    }

    /// Writes a file into the session's folder and sends it. It is removed at the session's end.
    ///
    /// # Errors
    /// When it cannot be written.
    ///
    /// # Cancel safety
    /// Dropping the future may leave a file that is not announced; it goes with the session.
    pub async fn new_file(
        &self,
        name: impl Into<String>,
        mime: impl Into<String>,
        contents: impl AsRef<[u8]>,
    ) -> io::Result<PathBuf> {
        let name = name.into();
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = self
            .session
            .scratch_dir()
            .join(format!("made-{}-{number}", std::process::id()));
        tokio::fs::create_dir_all(&folder).await?;
        self.session.0.made(folder.clone());
        let path = folder.join(label(&name));
        tokio::fs::write(&path, contents).await?;
        self.file_as(&path, name, mime).await?;
        Ok(path)
    }
}

/// Says how a file differs from what the host announced of it. `None` where it does not, or cannot
/// be read: that is its reader's to meet ([file.2]).
pub(crate) async fn differs(file: &FileInput) -> Option<String> {
    let FileInput { size, sha256, .. } = *file;
    if size.is_none() && sha256.is_none() {
        return None;
    }
    let look = move |path: &Path| {
        let found = std::fs::metadata(path)?.len();
        if let Some(size) = size.filter(|size| *size != found) {
            return Ok(Some(format!(
                "the file has {found} bytes, not the {size} that were announced"
            )));
        }
        let is_other = match sha256 {
            Some(announced) => digest(path)?.1 != announced,
            None => false,
        };
        Ok(is_other.then(|| "the file's SHA-256 is not the one that was announced".to_owned()))
    };
    in_background(PathBuf::from(&file.file_path), look)
        .await
        .ok()
        .flatten()
}

/// The size of a regular file in bytes, and the digest of them. Blocks on the file system.
pub(crate) fn digest(path: &Path) -> io::Result<(u64, Sha256)> {
    // Before it is opened: a FIFO would wait for its writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(not_regular());
    }
    let mut hasher = Hasher::new(File::open(path)?);
    io::copy(&mut hasher, &mut io::sink())?;
    Ok(hasher.finish())
}

async fn in_background<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce(&Path) -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    tokio::task::spawn_blocking(move || work(&path)).await?
}

fn not_regular() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, "not a regular file")
}

/// The last part of a name, which is a label and may look like a path.
fn label(name: &str) -> &str {
    let last = Path::new(name).components().next_back();
    match last {
        Some(Component::Normal(part)) => part
            .to_str()
            .filter(|part| part.len() <= 255)
            .unwrap_or("file"),
        _ => "file",
    }
}

/// The MIME type that a file name's extension suggests; `application/octet-stream` where it suggests none.
#[must_use]
pub fn file_type_of(name: &str) -> &'static str {
    let extension = Path::new(name)
        .extension()
        .and_then(|extension| extension.to_str())
        .unwrap_or_default();
    match extension.to_ascii_lowercase().as_str() {
        "txt" | "log" => "text/plain",
        "md" => "text/markdown",
        "csv" => "text/csv",
        "html" | "htm" => "text/html",
        "json" => "application/json",
        "xml" => "application/xml",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" => "application/gzip",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "svg" => "image/svg+xml",
        "webp" => "image/webp",
        _ => UNKNOWN,
    }
}
