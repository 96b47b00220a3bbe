//! What an agent is sent for an input.

use trunkline_sdk::{Error, Input, Session};

use crate::agent::attachment;
use crate::agent::options::Options;
use crate::agent::template;

/// The input through the template, with its files named by path, and before it the instructions that the agent takes no
/// other way.
///
/// # Errors
/// When there is nothing to send.
pub(super) fn text(
    options: &Options,
    session: &Session,
    input: &Input,
    preface: Option<&str>,
) -> Result<String, Error> {
    let id = session.id().as_str();
    let mut text = template::words(&options.prompt_template, &input.content, id, &options.variables);
    for file in &input.files {
        let size = std::fs::metadata(&file.file_path).map(|metadata| metadata.len()).ok();
        text.push_str("\n\n");
        text.push_str(&attachment::path_text(file, size));
    }
    if text.trim().is_empty() {
        return Err(Error::other("the input is empty; the agent needs a prompt"));
    }
    Ok(match preface {
        Some(preface) => format!("{preface}\n\n{text}"),
        None => text,
    })
}
