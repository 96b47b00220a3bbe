//! Files of an agent as a client sees them: a picture is shown, what else there is can be opened.

use std::fmt::Write as _;

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use crate::{core::Picture, rpc, update};

/// The largest picture that is sent whole, in bytes.
const SENT: u64 = 4 * 1024 * 1024;

/// The message that shows a file. One that cannot be read is named.
pub(crate) async fn shown(picture: &Picture, is_local: bool) -> Vec<u8> {
    let Picture {
        session,
        path,
        name,
        mime,
    } = picture;
    let content = match read(path, mime).await {
        Some(bytes) => json!({ "type": "image", "mimeType": mime, "data": STANDARD.encode(bytes) }),
        None if is_local => {
            let mut link = json!({ "type": "resource_link", "name": name, "uri": address(path) });
            if !mime.is_empty() {
                link["mimeType"] = json!(mime);
            }
            link
        }
        None => text(&format!("[file {name}]")),
    };
    let update = update::block("agent_message_chunk", &content, None);
    rpc::notification(
        "session/update",
        &json!({ "sessionId": session.as_str(), "update": update }),
    )
}

async fn read(path: &str, mime: &str) -> Option<Vec<u8>> {
    let is_picture = mime.starts_with("image/");
    let size = tokio::fs::metadata(path)
        .await
        .ok()
        .filter(std::fs::Metadata::is_file)?
        .len();
    if !is_picture || size > SENT {
        return None;
    }
    tokio::fs::read(path).await.ok()
}

fn text(text: &str) -> Value {
    json!({ "type": "text", "text": text })
}

/// The address of a file.
fn address(path: &str) -> String {
    let mut address = "file://".to_owned();
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'.' | b'_' | b'~' => {
                address.push(char::from(byte));
            }
            _ => drop(write!(address, "%{byte:02X}")),
        }
    }
    address
}

#[cfg(test)]
mod tests {
    use trunkline_protocol::SessionId;

    use super::*;

    #[tokio::test]
    async fn a_picture_is_sent_and_another_file_is_linked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a b.png");
        std::fs::write(&path, [1, 2, 3]).unwrap();
        let big = folder.path().join("big.png");
        std::fs::File::create(&big)
            .unwrap()
            .set_len(SENT + 1)
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
            let picture = Picture {
                session: SessionId::new("s").unwrap(),
                path: path.to_str().unwrap().to_owned(),
                name: "n".to_owned(),
                mime: mime.to_owned(),
            };
            let line = String::from_utf8(shown(&picture, is_local).await).unwrap();
            assert!(line.contains(has), "{line}");
        }
    }
}
