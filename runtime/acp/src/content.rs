//! Prompts: their blocks become a text and files.

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::Value;

use crate::rpc::Refusal;

/// The content of a prompt, as inputs have it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Prompt {
    pub(crate) text: String,
    pub(crate) files: Vec<Attached>,
}

/// A file of a prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Attached {
    pub(crate) name: String,
    pub(crate) mime: String,
    pub(crate) bytes: Vec<u8>,
}

/// Reads the blocks of a prompt. Links keep their places in the text; the text of embedded
/// resources follows it.
///
/// # Errors
/// The problem of a block.
pub(crate) fn parse_prompt(blocks: &Value) -> Result<Prompt, Refusal> {
    let blocks = blocks
        .as_array()
        .ok_or_else(|| Refusal::params("`prompt` must be a list of blocks"))?;
    let mut prompt = Prompt::default();
    let mut context = String::new();
    for block in blocks {
        let text = |name: &str| block[name].as_str();
        match text("type") {
            Some("text") => prompt
                .text
                .push_str(text("text").ok_or_else(|| missing("text"))?),
            Some("resource_link") => {
                let uri = text("uri").ok_or_else(|| missing("uri"))?;
                let name = text("name").unwrap_or_else(|| last_part(uri));
                prompt.text.push_str(&format!("[@{name}]({uri})"));
            }
            Some("resource") => {
                let resource = &block["resource"];
                let uri = resource["uri"].as_str().ok_or_else(|| missing("uri"))?;
                match (resource["text"].as_str(), resource["blob"].as_str()) {
                    (Some(text), _) => {
                        prompt
                            .text
                            .push_str(&format!("[@{}]({uri})", last_part(uri)));
                        context
                            .push_str(&format!("\n\n<context ref=\"{uri}\">\n{text}\n</context>"));
                    }
                    (None, Some(blob)) => {
                        let mime = resource["mimeType"].as_str();
                        prompt
                            .files
                            .push(attached(last_part(uri).to_owned(), mime, blob)?);
                    }
                    (None, None) => return Err(missing("text")),
                }
            }
            Some(kind @ ("image" | "audio")) => {
                let data = text("data").ok_or_else(|| missing("data"))?;
                let mime = text("mimeType").ok_or_else(|| missing("mimeType"))?;
                let ending: String = mime.split_once('/').map_or("", |(_, kind)| kind).to_owned();
                let ending: String = ending
                    .chars()
                    .take_while(char::is_ascii_alphanumeric)
                    .collect();
                let name = format!("{kind}-{}.{ending}", prompt.files.len() + 1);
                prompt.files.push(attached(name, Some(mime), data)?);
            }
            Some(other) => {
                return Err(Refusal::params(format!(
                    "a block of type {other:?} is not known"
                )));
            }
            None => return Err(missing("type")),
        }
    }
    prompt.text.push_str(&context);
    Ok(prompt)
}

fn missing(name: &str) -> Refusal {
    Refusal::params(format!("a block lacks `{name}`"))
}

fn attached(name: String, mime: Option<&str>, data: &str) -> Result<Attached, Refusal> {
    let bytes = STANDARD
        .decode(data)
        .map_err(|error| Refusal::params(format!("a block is not base64: {error}")))?;
    Ok(Attached {
        name,
        mime: mime.unwrap_or("application/octet-stream").to_owned(),
        bytes,
    })
}

/// The last part of a path or an address.
fn last_part(uri: &str) -> &str {
    uri.trim_end_matches('/')
        .rsplit('/')
        .next()
        .filter(|part| !part.is_empty())
        .unwrap_or(uri)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn blocks_become_a_text_and_files() {
        let read = parse_prompt(&json!([
            {"type": "text", "text": "Look at "},
            {"type": "resource_link", "name": "a.rs", "uri": "file:///srv/a.rs"},
            {"type": "text", "text": " and "},
            {"type": "resource", "resource": {"uri": "file:///srv/b.rs", "text": "fn b() {}"}},
            {"type": "image", "mimeType": "image/png", "data": "AQID"},
            {"type": "resource", "resource": {"uri": "file:///srv/c.bin", "blob": "/w=="}},
        ]));
        let read = read.unwrap();
        assert_eq!(
            read.text,
            "Look at [@a.rs](file:///srv/a.rs) and [@b.rs](file:///srv/b.rs)\n\n\
             <context ref=\"file:///srv/b.rs\">\nfn b() {}\n</context>"
        );
        let files: Vec<_> = read
            .files
            .iter()
            .map(|file| (&*file.name, &*file.mime, &*file.bytes))
            .collect();
        let expected: [(&str, &str, &[u8]); 2] = [
            ("image-1.png", "image/png", &[1, 2, 3]),
            ("c.bin", "application/octet-stream", &[255]),
        ];
        assert_eq!(files, expected);
    }

    #[test]
    fn what_is_no_prompt_is_refused() {
        for blocks in [
            json!("text"),
            json!([{"type": "text"}]),
            json!([{"text": "x"}]),
            json!([{"type": "video"}]),
            json!([{"type": "image", "mimeType": "image/png", "data": "?"}]),
            json!([{"type": "resource", "resource": {"uri": "x"}}]),
        ] {
            assert!(parse_prompt(&blocks).is_err(), "{blocks}");
        }
    }
}
