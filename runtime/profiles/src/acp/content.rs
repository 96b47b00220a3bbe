//! The content of tool calls and messages: texts, changes of files, terminals.

use serde_json::Value;
use trunkline_sdk::protocol::Diff;

use super::read::{list, text};

/// The most text of a tool's result that is reported, in bytes.
pub(crate) const LONGEST_RESULT: usize = 256 * 1024;

/// The most changes of files that are reported with one call, and of each the most bytes.
const MOST_DIFFS: usize = 64;
const LONGEST_DIFF: usize = 256 * 1024;

/// Content of a tool call.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Content {
    pub(crate) text: String,
    pub(crate) diffs: Vec<Diff>,
    /// Terminals of ours whose output it shows.
    pub(crate) terminals: Vec<String>,
    pub(crate) is_cut: bool,
}

impl Content {
    /// Reads a tool call's `content`.
    pub(crate) fn from_tool_call(tool_call: &Value) -> Self {
        let mut content = Self::default();
        for one in list(tool_call, "content") {
            match text(one, "type") {
                Some("content") => {
                    content.say(one.get("content").map(block).as_deref().unwrap_or_default())
                }
                Some("diff") if content.diffs.len() < MOST_DIFFS => content.diffs.extend(diff(one)),
                Some("terminal") if content.terminals.len() < MOST_DIFFS => {
                    content
                        .terminals
                        .extend(text(one, "terminalId").map(str::to_owned));
                }
                _ => {}
            }
        }
        content
    }

    /// Adds text on a line of its own.
    pub(crate) fn say(&mut self, said: &str) {
        if said.is_empty() {
            return;
        }
        if !self.text.is_empty() && !self.text.ends_with('\n') {
            self.text.push('\n');
        }
        let room = LONGEST_RESULT.saturating_sub(self.text.len());
        let fits = &said[..said.floor_char_boundary(room)];
        self.is_cut |= fits.len() < said.len();
        self.text.push_str(fits);
    }
}

/// The content blocks of a tool call.
pub(crate) fn blocks(tool_call: &Value) -> impl Iterator<Item = &Value> {
    let contents = list(tool_call, "content")
        .iter()
        .filter(|one| text(one, "type") == Some("content"));
    contents.filter_map(|one| one.get("content"))
}

/// Returns the text of a content block, or of its reference.
pub(crate) fn block(block: &Value) -> String {
    match text(block, "type") {
        Some("text") => text(block, "text").unwrap_or_default().to_owned(),
        Some("resource_link") => {
            let uri = text(block, "uri").unwrap_or_default();
            format!(
                "[{}]({uri})",
                text(block, "title")
                    .or_else(|| text(block, "name"))
                    .unwrap_or(uri)
            )
        }
        Some("resource") => {
            let resource = &block["resource"];
            text(resource, "text")
                .or_else(|| text(resource, "uri"))
                .unwrap_or_default()
                .to_owned()
        }
        Some(kind @ ("image" | "audio")) => {
            format!(
                "[{kind}: {}]",
                text(block, "mimeType").unwrap_or("of unknown type")
            )
        }
        _ => String::new(),
    }
}

fn diff(one: &Value) -> Option<Diff> {
    let side = |name: &str| {
        one[name]
            .as_str()
            .map(|side| side[..side.floor_char_boundary(LONGEST_DIFF)].to_owned())
    };
    Some(Diff {
        path: text(one, "path")?.to_owned(),
        old_text: side("oldText"),
        new_text: side("newText"),
        patch: None,
    })
}

/// Returns the text of a tool's raw output, for a tool without other content.
pub(crate) fn raw_output(output: &Value) -> Option<&str> {
    if let Some(said) = output.as_str() {
        return Some(said);
    }
    [
        "output",
        "formatted_output",
        "aggregated_output",
        "stdout",
        "content",
        "detailedContent",
        "message",
        "error",
        "text",
    ]
    .iter()
    .find_map(|name| text(output, name))
}
