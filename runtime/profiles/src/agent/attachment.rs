//! Files of an input as the agent takes them: images as such, everything else by its path.

use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use trunkline_sdk::FileInput;

use super::options::filled;

/// The largest image that goes along with the input, in bytes.
pub(crate) const LARGEST_IMAGE: u64 = 5 * 1024 * 1024;

/// The largest text that goes along with the input, in bytes.
pub(crate) const LARGEST_TEXT: u64 = 64 * 1024;

/// Form in which an announced file is passed on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Attachment {
    /// An image that models read.
    Image(Image),
    /// A short text.
    Text(TextFile),
    /// Any other file: a line with its path.
    Path(String),
}

/// An image with its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Image {
    /// Type, by its first bytes.
    pub(crate) mime: &'static str,
    /// Bytes in base64.
    pub(crate) data: String,
    /// Path.
    pub(crate) path: String,
}

/// A text with its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextFile {
    /// Content.
    pub(crate) text: String,
    /// The announced type.
    pub(crate) mime: String,
    /// Path.
    pub(crate) path: String,
}

/// Content that an agent accepts natively.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Native {
    /// Nothing: every file by its path.
    Nothing,
    /// Images.
    Images,
    /// Images, and texts as resources.
    ImagesAndTexts,
}

/// Reads a file in a form that this agent accepts. An unreadable one is passed on by its path, so
/// that the agent reports the problem.
pub(crate) fn read(file: &FileInput, native: Native) -> Attachment {
    let by_path = |bytes| Attachment::Path(path_text(file, bytes));
    let path = Path::new(&file.file_path);
    let Ok((bytes, length)) = contents(path, native) else {
        return by_path(None);
    };
    let Some(bytes) = bytes else {
        return by_path(Some(length));
    };
    if let Some(mime) = image_type(&bytes) {
        return Attachment::Image(Image {
            mime,
            data: STANDARD.encode(&bytes),
            path: file.file_path.clone(),
        });
    }
    if native != Native::ImagesAndTexts || bytes.len() as u64 > LARGEST_TEXT || bytes.contains(&0) {
        return by_path(Some(length));
    }
    match String::from_utf8(bytes) {
        Ok(text) => Attachment::Text(TextFile {
            text,
            mime: mime(file).to_owned(),
            path: file.file_path.clone(),
        }),
        Err(_) => by_path(Some(length)),
    }
}

/// [`read`] for each file, in order, on the pool for blocking work.
pub(crate) async fn read_all(files: Vec<FileInput>, native: Native) -> Vec<Attachment> {
    let paths: Vec<_> = files
        .iter()
        .map(|file| Attachment::Path(path_text(file, None)))
        .collect();
    let read_each = move || files.iter().map(|file| read(file, native)).collect();
    tokio::task::spawn_blocking(read_each)
        .await
        .unwrap_or(paths)
}

/// The name of a file: its own, or the last part of its path.
pub(crate) fn file_name(file: &FileInput) -> String {
    let base = || {
        Path::new(&file.file_path)
            .file_name()
            .map(|name| name.to_string_lossy().into_owned())
            .unwrap_or_default()
    };
    filled(file.file_name.clone()).unwrap_or_else(base)
}

/// The line that names a file in a prompt (census row F05).
pub(crate) fn path_text(file: &FileInput, bytes: Option<u64>) -> String {
    let path = &file.file_path;
    let name = file_name(file);
    let name: String = name
        .chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    let size = bytes
        .map(|bytes| format!(", {bytes} bytes"))
        .unwrap_or_default();
    format!(
        "[File uploaded: {name} ({}{size})] Path: {path}",
        mime(file)
    )
}

/// The input's text with a line for each file that goes by its path.
pub(crate) fn with_paths(text: &str, attachments: &[Attachment]) -> String {
    let paths = attachments
        .iter()
        .filter_map(|attachment| match attachment {
            Attachment::Path(line) => Some(line.as_str()),
            Attachment::Image(_) | Attachment::Text(_) => None,
        });
    let parts: Vec<_> = paths.chain((!text.is_empty()).then_some(text)).collect();
    parts.join("\n")
}

/// An input's text for an agent that knows of no files: each is a line.
pub(crate) async fn told(content: String, files: Vec<FileInput>) -> String {
    if files.is_empty() {
        content
    } else {
        with_paths(&content, &read_all(files, Native::Nothing).await)
    }
}

/// The images among them.
pub(crate) fn images(attachments: &[Attachment]) -> impl Iterator<Item = &Image> {
    attachments
        .iter()
        .filter_map(|attachment| match attachment {
            Attachment::Image(image) => Some(image),
            Attachment::Text(_) | Attachment::Path(_) => None,
        })
}

impl Image {
    /// As a content block of Claude's messages.
    pub(crate) fn claude(&self) -> Value {
        json!({"type": "image", "source": {"type": "base64", "media_type": self.mime, "data": self.data}})
    }

    /// As a content block of the Agent Client Protocol.
    pub(crate) fn acp(&self) -> Value {
        json!({"type": "image", "mimeType": self.mime, "data": self.data})
    }
}

impl TextFile {
    /// As a content block of the Agent Client Protocol.
    pub(crate) fn acp(&self) -> Value {
        json!({"type": "resource", "resource": {"uri": uri(&self.path), "mimeType": self.mime, "text": self.text}})
    }
}

/// A path as a URI.
pub(crate) fn uri(path: &str) -> String {
    use std::fmt::Write;
    let mut uri = String::from("file://");
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte) {
            uri.push(char::from(byte));
        } else {
            // Writing to a text does not fail.
            let _ = write!(uri, "%{byte:02X}");
        }
    }
    uri
}

fn mime(file: &FileInput) -> &str {
    let plain =
        |mime: &&str| !mime.is_empty() && mime.len() <= 200 && !mime.contains(char::is_control);
    file.file_mime_type
        .as_deref()
        .filter(plain)
        .unwrap_or("application/octet-stream")
}

/// Returns the bytes of a regular file that is not a symbolic link, unless they are too many or not
/// wanted; and their number.
fn contents(path: &Path, native: Native) -> io::Result<(Option<Vec<u8>>, u64)> {
    let (file, length) = open_regular(path)?;
    if native == Native::Nothing || length > LARGEST_IMAGE {
        return Ok((None, length));
    }
    let mut bytes = Vec::new();
    file.take(LARGEST_IMAGE + 1).read_to_end(&mut bytes)?;
    let length = bytes.len() as u64;
    Ok(((length <= LARGEST_IMAGE).then_some(bytes), length))
}

/// Opens a regular file without following a link, with its length in bytes.
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, u64)> {
    // Without blocking: a FIFO without a writer would wait for one.
    let flags = (rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK)
        .bits()
        .cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("not a regular file"));
    }
    let length = metadata.len();
    Ok((file, length))
}

/// The type of an image that models read, by its first bytes: the announced type may be wrong, and
/// a model refuses it.
fn image_type(bytes: &[u8]) -> Option<&'static str> {
    match bytes {
        [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a, ..] => Some("image/png"),
        [0xff, 0xd8, 0xff, ..] => Some("image/jpeg"),
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Some("image/gif"),
        [
            b'R',
            b'I',
            b'F',
            b'F',
            _,
            _,
            _,
            _,
            b'W',
            b'E',
            b'B',
            b'P',
            ..,
        ] => Some("image/webp"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
