//! Files that agents send within messages and tool calls: read and bounded, and never opened here.

use std::path::PathBuf;

use base64::{Engine, engine::general_purpose::STANDARD};
use reqwest::Url;
use serde_json::Value;

use super::read::text;

/// The largest file that is delivered, in bytes: what hosts take by default.
pub(crate) const LARGEST: usize = 10 * 1024 * 1024;

/// The most files of one turn; and of a whole session the most bytes, which stay on disk until it ends.
const MOST_FILES: usize = 64;
const MOST_BYTES: usize = 512 * 1024 * 1024;

/// The longest URI that is followed.
const LONGEST_URI: usize = 4096;

/// A file that an agent sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Media {
    /// A label.
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) source: Source,
}

/// Source of its content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    Bytes(Vec<u8>),
    /// In a file, which may be anywhere: to be opened within the session's directories only.
    Path(PathBuf),
}

/// Bytes that a session may still deliver.
#[derive(Debug, Default)]
pub(crate) struct Allowance {
    files: usize,
    bytes: usize,
}

impl Allowance {
    /// A turn begins.
    pub(crate) fn begin(&mut self) {
        self.files = 0;
    }

    /// The file of a content block, if it has one that can be delivered. The others become text.
    pub(crate) fn take(&mut self, block: &Value) -> Option<Media> {
        if self.files >= MOST_FILES {
            return None;
        }
        let media = Media::from_block(block, MOST_BYTES.saturating_sub(self.bytes).min(LARGEST))?;
        self.files += 1;
        if let Source::Bytes(bytes) = &media.source {
            self.spend(bytes.len());
        }
        Some(media)
    }

    /// So many bytes are delivered.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_add(bytes);
    }
}

impl Media {
    /// Reads a content block whose file has at most so many bytes.
    fn from_block(block: &Value, most: usize) -> Option<Self> {
        match text(block, "type")? {
            kind @ ("image" | "audio") => Self::encoded(kind, block, text(block, "data")?, most),
            "resource" => {
                let resource = block.get("resource")?;
                Self::encoded("file", resource, text(resource, "blob")?, most)
            }
            "resource_link" if most > 0 => {
                let path = path(text(block, "uri")?)?;
                let mime = mime(block);
                let name = path
                    .file_name()
                    .and_then(|name| label(&name.to_string_lossy()));
                let name = name.unwrap_or_else(|| format!("file.{}", extension(&mime)));
                Some(Self {
                    name,
                    mime,
                    source: Source::Path(path),
                })
            }
            _ => None,
        }
    }

    fn encoded(kind: &str, of: &Value, data: &str, most: usize) -> Option<Self> {
        // Judged before it is decoded.
        if data.is_empty() || data.len() / 4 * 3 > most.saturating_add(3) {
            return None;
        }
        let bytes = STANDARD
            .decode(data)
            .ok()
            .filter(|bytes| !bytes.is_empty() && bytes.len() <= most)?;
        let mime = mime(of);
        Some(Self {
            name: format!("{kind}.{}", extension(&mime)),
            mime,
            source: Source::Bytes(bytes),
        })
    }
}

/// Returns the identity of a block's content, without interpreting it.
pub(crate) fn identity(block: &Value) -> Option<&str> {
    let resource = || text(block.get("resource")?, "blob");
    match text(block, "type")? {
        "image" | "audio" => text(block, "data"),
        "resource" => resource(),
        "resource_link" => text(block, "uri"),
        _ => None,
    }
}

/// The type that is reported, if it can be one.
fn mime(of: &Value) -> String {
    let token = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$&-^_.+".contains(&byte);
        !part.is_empty() && part.len() <= 100 && part.bytes().all(plain)
    };
    let told = text(of, "mimeType").map(|told| told.split(';').next().unwrap_or_default().trim());
    let told = told.filter(|told| {
        told.split_once('/')
            .is_some_and(|(kind, sub)| token(kind) && token(sub))
    });
    told.map_or_else(
        || "application/octet-stream".to_owned(),
        str::to_ascii_lowercase,
    )
}

/// Returns the file extension of a type.
fn extension(mime: &str) -> &'static str {
    match mime {
        "image/png" => "png",
        "image/jpeg" => "jpg",
        "image/gif" => "gif",
        "image/webp" => "webp",
        "image/svg+xml" => "svg",
        "image/bmp" => "bmp",
        "audio/wav" | "audio/x-wav" | "audio/wave" => "wav",
        "audio/mpeg" | "audio/mp3" => "mp3",
        "audio/ogg" => "ogg",
        "audio/flac" => "flac",
        "audio/mp4" => "m4a",
        "application/pdf" => "pdf",
        "application/json" => "json",
        "application/zip" => "zip",
        "application/gzip" => "gz",
        "application/xml" | "text/xml" => "xml",
        "text/csv" => "csv",
        "text/html" => "html",
        "text/markdown" => "md",
        "text/plain" => "txt",
        _ => "bin",
    }
}

/// A name that is nothing but a name.
fn label(name: &str) -> Option<String> {
    let plain = |char: char| {
        if char.is_alphanumeric() || "._- ".contains(char) {
            char
        } else {
            '_'
        }
    };
    let name: String = name.chars().take(100).map(plain).collect();
    let name = name.trim_matches(|char| char == '.' || char == ' ');
    (!name.is_empty()).then(|| name.to_owned())
}

/// The path that a `file:` URI of this machine names.
fn path(uri: &str) -> Option<PathBuf> {
    let uri = Url::parse(uri)
        .ok()
        .filter(|url| uri.len() <= LONGEST_URI && url.scheme() == "file")?;
    let path = uri.to_file_path().ok()?;
    path.to_str().filter(|path| !path.contains('\0'))?;
    Some(path)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(block: &Value) -> Option<(String, String, Source)> {
        let media = Allowance::default().take(block)?;
        Some((media.name, media.mime, media.source))
    }

    fn image(mime: &str, data: &str) -> Value {
        json!({ "type": "image", "mimeType": mime, "data": data })
    }

    #[test]
    fn bytes_get_a_name_of_ours_by_their_type() {
        let bytes = || Source::Bytes(b"abc".to_vec());
        for (block, name, mime) in [
            (image("image/png", "YWJj"), "image.png", "image/png"),
            (image("IMAGE/JPEG; q=1", "YWJj"), "image.jpg", "image/jpeg"),
            (
                image("image/../../x", "YWJj"),
                "image.bin",
                "application/octet-stream",
            ),
            (
                image("../../etc/passwd", "YWJj"),
                "image.bin",
                "application/octet-stream",
            ),
            (
                image("a\n/b", "YWJj"),
                "image.bin",
                "application/octet-stream",
            ),
            (
                image(&format!("image/{}", "x".repeat(101)), "YWJj"),
                "image.bin",
                "application/octet-stream",
            ),
            (
                json!({ "type": "image", "mimeType": 7, "data": "YWJj" }),
                "image.bin",
                "application/octet-stream",
            ),
            (
                json!({ "type": "audio", "mimeType": "audio/wav", "data": "YWJj" }),
                "audio.wav",
                "audio/wav",
            ),
            (
                json!({ "type": "resource", "resource": { "uri": "file:///etc/passwd", "mimeType": "application/pdf", "blob": "YWJj" } }),
                "file.pdf",
                "application/pdf",
            ),
        ] {
            assert_eq!(
                read(&block),
                Some((name.to_owned(), mime.to_owned(), bytes())),
                "{block}"
            );
        }
    }

    #[test]
    fn what_is_no_file_is_left_to_be_told_as_text() {
        for block in [
            image("image/png", "not base64!"),
            image("image/png", "YWJ"),
            image("image/png", ""),
            image("image/png", &"A".repeat(LARGEST / 3 * 4 + 8)),
            json!({ "type": "image", "data": ["YWJj"] }),
            json!({ "type": "image", "uri": "file:///a.png" }),
            json!({ "type": "resource", "resource": { "text": "abc" } }),
            json!({ "type": "resource", "resource": 3 }),
            json!({ "type": "text", "text": "abc" }),
            json!({ "type": 3 }),
            json!(null),
            json!([image("image/png", "YWJj")]),
        ] {
            assert_eq!(
                read(&block),
                None,
                "{}",
                block.to_string().chars().take(80).collect::<String>()
            );
        }
    }

    #[test]
    fn links_lead_to_paths_of_this_machine_alone() {
        let link = |uri: &str| read(&json!({ "type": "resource_link", "name": "n", "uri": uri }));
        for (uri, named, name) in [
            ("file:///w/a.txt", "/w/a.txt", "a.txt"),
            ("file://localhost/w/%C3%A4%20b.txt", "/w/ä b.txt", "ä b.txt"),
            ("file:///w/../x", "/x", "x"),
            ("file:///w/%0aa%22.txt#1", "/w/\na\".txt", "_a_.txt"),
            ("file:///w/...", "/w/...", "file.bin"),
            ("file:///w/%2e%2e/x", "/x", "x"),
        ] {
            let (is, _, source) = link(uri).unwrap();
            assert_eq!(
                (is.as_str(), source),
                (name, Source::Path(named.into())),
                "{uri}"
            );
        }
        let long = format!("file:///{}", "a".repeat(LONGEST_URI));
        for uri in [
            "",
            "/w/a",
            "a.txt",
            "http://h/w/a",
            "file://host/w/a",
            "file:///%00",
            "file:///%ff",
            &long,
        ] {
            assert_eq!(link(uri), None, "{uri}");
        }
    }

    #[test]
    fn a_turn_and_a_session_deliver_so_much_and_no_more() {
        let mut allowance = Allowance::default();
        for _ in 0..MOST_FILES {
            assert!(allowance.take(&image("image/png", "YWJj")).is_some());
        }
        assert_eq!(allowance.take(&image("image/png", "YWJj")), None);
        allowance.begin();
        assert!(allowance.take(&image("image/png", "YWJj")).is_some());
        allowance.bytes = MOST_BYTES - 2;
        assert_eq!(allowance.take(&image("image/png", "YWJj")), None);
        assert!(allowance.take(&image("image/png", "YWI=")).is_some());
        assert_eq!(
            allowance.take(&json!({ "type": "resource_link", "uri": "file:///w/a" })),
            None
        );
        allowance.spend(usize::MAX);
        assert_eq!(allowance.take(&image("image/png", "YWJj")), None);
    }
}
