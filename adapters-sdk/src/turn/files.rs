//! Files for the user ([file.3]).

use std::{
    io,
    path::{Component, Path, PathBuf},
    sync::atomic::{AtomicU64, Ordering},
};

use trunkline_protocol::FileOutput;

use crate::Turn;

/// Numbers the folders of made files: two files of one name do not meet.
static NEXT: AtomicU64 = AtomicU64::new(1);

const UNKNOWN: &str = "application/octet-stream";

impl Turn {
    /// Sends a file that is complete and stays where it is until the session closes. Its name is the path's last part,
    /// its type is guessed from that.
    ///
    /// # Errors
    /// When there is no such regular file, or its path is not UTF-8.
    ///
    /// # Cancel safety
    /// The file is announced, or not at all when the future is dropped first.
    pub async fn file(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
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
        if !tokio::fs::metadata(&path).await?.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        let Some(text) = path.to_str() else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the file's path is not UTF-8"));
        };
        let output = FileOutput {
            file_name: Some(name.into()),
            file_mime_type: Some(mime.into()),
            file_path: text.to_owned(),
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
        let folder = self.session.scratch_dir().join(format!("made-{}-{number}", std::process::id()));
        tokio::fs::create_dir_all(&folder).await?;
        self.session.0.made(folder.clone());
        let path = folder.join(label(&name));
        tokio::fs::write(&path, contents).await?;
        self.file_as(&path, name, mime).await?;
        Ok(path)
    }
}

/// The last part of a name, which is a label and may look like a path.
fn label(name: &str) -> &str {
    let last = Path::new(name).components().next_back();
    match last {
        Some(Component::Normal(part)) => part.to_str().filter(|part| part.len() <= 255).unwrap_or("file"),
        _ => "file",
    }
}

/// The MIME type that a file name's extension suggests; `application/octet-stream` where it suggests none.
#[must_use]
pub fn file_type_of(name: &str) -> &'static str {
    let extension = Path::new(name).extension().and_then(|extension| extension.to_str()).unwrap_or_default();
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
