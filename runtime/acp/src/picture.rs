//! Files of a session, as an editor sees them: a picture is shown, another file of the agent can be
//! opened.

use std::fmt::Write as _;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};
use trunkline_protocol::{FileDelivered, FileOutput};

/// The largest picture that is sent whole, in bytes.
const MAX_PICTURE_BYTES: u64 = 4 * 1024 * 1024;

/// The content block of a file. A file that cannot be shown is a link, or its name.
pub(crate) async fn file_content(file: &FileOutput, is_local: bool) -> Value {
    let name = file.file_name.as_deref().unwrap_or("file");
    let mime = file.file_mime_type.as_deref().unwrap_or_default();
    let path = &file.file_path;
    match read_picture(path, mime).await {
        Some(bytes) => picture_content(mime, &bytes),
        None if is_local => {
            let mut link = json!({ "type": "resource_link", "name": name, "uri": file_uri(path) });
            if !mime.is_empty() {
                link["mimeType"] = json!(mime);
            }
            link
        }
        None => name_content(name),
    }
}

/// Returns true if a file of the user is a picture that can be sent whole.
pub(crate) fn is_sent_whole(file: &FileDelivered) -> bool {
    let mime = file.file_mime_type.as_deref().unwrap_or_default();
    let size = file.size.unwrap_or_default();
    is_picture(mime) && size <= MAX_PICTURE_BYTES
}

/// The content block of a picture.
pub(crate) fn picture_content(mime: &str, bytes: &[u8]) -> Value {
    json!({ "type": "image", "mimeType": mime, "data": STANDARD.encode(bytes) })
}

/// The content block of a file of which only the name is shown.
pub(crate) fn name_content(name: &str) -> Value {
    json!({ "type": "text", "text": format!("[file {name}]") })
}

fn is_picture(mime: &str) -> bool {
    mime.starts_with("image/")
}

async fn read_picture(path: &str, mime: &str) -> Option<Vec<u8>> {
    let size = tokio::fs::metadata(path)
        .await
        .ok()
        .filter(std::fs::Metadata::is_file)?
        .len();
    if !is_picture(mime) || size > MAX_PICTURE_BYTES {
        return None;
    }
    tokio::fs::read(path).await.ok()
}

/// The `file:` URI of a path.
fn file_uri(path: &str) -> String {
    let mut uri = "file://".to_owned();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                uri.push(char::from(byte));
            }
            _ => drop(write!(uri, "%{byte:02X}")),
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_picture_is_sent_and_another_file_is_linked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b.png");
        std::fs::write(&path, [1, 2, 3]).unwrap();
        let big = folder.path().join("big.png");
        std::fs::File::create(&big)
            .unwrap()
            .set_len(MAX_PICTURE_BYTES + 1)
            .unwrap();
        for (path, mime, is_local, has) in [
            (&path, "image/png", true, r#""data":"AQID""#),
            (&path, "text/plain", true, "a%20b.png"),
            (&path, "text/plain", false, "[file n]"),
            (&big, "image/png", true, "resource_link"),
            (
                &folder.path().join("gone"),
                "image/png",
                true,
                "resource_link",
            ),
        ] {
            let file = FileOutput {
                file_name: Some("n".to_owned()),
                file_mime_type: Some(mime.to_owned()),
                file_path: path.to_str().unwrap().to_owned(),
                ..FileOutput::default()
            };
            let line = file_content(&file, is_local).await.to_string();
            assert!(line.contains(has), "{line}");
        }
    }
}
