//! Changes of files by Claude's tools.

use serde_json::Value;
use trunkline_sdk::protocol::Diff;

use super::native::{list, text};

/// Maximum length of a diff's text, in bytes: a longer one is left out, and only the path reported.
const LONGEST: usize = 128 * 1024;

/// The most edits of one call that are reported.
const MOST: usize = 64;

/// Returns the changes that a call would make, by its input.
pub(super) fn proposed(tool: &str, input: &Value) -> Vec<Diff> {
    let Some(path) = text(input, "file_path") else {
        return Vec::new();
    };
    let edit = |edit: &Value| changed(path, edit.get("old_string"), edit.get("new_string"));
    match tool {
        "Write" => vec![changed(path, None, input.get("content"))],
        "Edit" => vec![edit(input)],
        "MultiEdit" => list(input, "edits").iter().take(MOST).map(edit).collect(),
        _ => Vec::new(),
    }
}

/// Returns the changes that a call has made, by Claude's report: `{filePath, oldString,
/// newString}`, or a whole file.
pub(super) fn done(result: &Value) -> Vec<Diff> {
    let Some(path) = text(result, "filePath") else {
        return Vec::new();
    };
    let changes = list(result, "structuredPatch");
    if !changes.is_empty() {
        let patch = patch(changes);
        if patch.len() <= LONGEST {
            return vec![Diff {
                path: path.to_owned(),
                patch: Some(patch),
                ..Diff::default()
            }];
        }
    }
    if result.get("oldString").is_some() {
        return vec![changed(
            path,
            result.get("oldString"),
            result.get("newString"),
        )];
    }
    match text(result, "type") {
        Some("create" | "update") => vec![changed(
            path,
            result.get("originalFile"),
            result.get("content"),
        )],
        _ => Vec::new(),
    }
}

fn changed(path: &str, old: Option<&Value>, new: Option<&Value>) -> Diff {
    let kept = |value: Option<&Value>| {
        value
            .and_then(Value::as_str)
            .filter(|text| text.len() <= LONGEST)
            .map(str::to_owned)
    };
    Diff {
        path: path.to_owned(),
        old_text: kept(old),
        new_text: kept(new),
        patch: None,
    }
}

/// Hunks as a unified diff.
fn patch(changes: &[Value]) -> String {
    let mut patch = String::new();
    for hunk in changes.iter().take(MOST) {
        let at = |name: &str| hunk[name].as_u64().unwrap_or(0);
        patch.push_str(&format!(
            "@@ -{},{} +{},{} @@\n",
            at("oldStart"),
            at("oldLines"),
            at("newStart"),
            at("newLines")
        ));
        for line in list(hunk, "lines").iter().filter_map(Value::as_str) {
            patch.push_str(line);
            patch.push('\n');
            if patch.len() > LONGEST {
                return patch;
            }
        }
    }
    patch
}
