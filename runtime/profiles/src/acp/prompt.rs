//! Converts an input to the blocks of a `session/prompt`.

use std::path::Path;

use serde_json::{Value, json};
use trunkline_sdk::{Input, Session};

use super::files::Directories;
use super::initialize::InitializeResponse;
use crate::agent::attachment::{self, Attachment, Native};
use crate::agent::options::Options;
use crate::agent::system_prompt;

/// The blocks: the text with what comes before it, then its files. A file in the session's
/// directories is a link; one elsewhere, which agents may refuse to follow, is named in the text.
pub(crate) async fn blocks(
    options: &Options,
    session: &Session,
    input: Input,
    preface: Option<&str>,
    initialized: &InitializeResponse,
    directories: &Directories,
) -> Vec<Value> {
    let mut text = options.words(&input.content, session);
    let native = match (initialized.images, initialized.resources) {
        (true, true) => Native::ImagesAndTexts,
        (true, false) => Native::Images,
        (false, _) => Native::Nothing,
    };
    let files = input.files;
    let attachments = attachment::read_all(files.clone(), native).await;
    let mut blocks = Vec::new();
    let mut by_path = Vec::new();
    for (file, attachment) in files.iter().zip(attachments) {
        match attachment {
            Attachment::Image(image) => blocks.push(image.acp()),
            Attachment::Text(text) => blocks.push(text.acp()),
            Attachment::Path(_) if directories.contain(Path::new(&file.file_path)) => {
                let name = attachment::file_name(file);
                blocks.push(
                    json!({ "type": "resource_link", "name": name, "uri": attachment::uri(&file.file_path) }),
                );
            }
            path @ Attachment::Path(_) => by_path.push(path),
        }
    }
    text = attachment::with_paths(&text, &by_path);
    if let Some(preface) = preface {
        text = system_prompt::before(preface, &text);
    }
    if !text.is_empty() || blocks.is_empty() {
        blocks.insert(0, json!({ "type": "text", "text": text }));
    }
    blocks
}
