//! Formats tool calls as lines: input, a part of the output, changed files.

use std::{collections::HashMap, time::Duration};

use similar::{Change, ChangeTag, TextDiff};
use trunkline_host::protocol::{Diff, Json, ToolCallId, ToolEnd, ToolStart, ToolUpdate};
use trunkline_sdk::preview::{self, cut};

use crate::{
    paint,
    screen::facts::duration,
    terminal::{one_line, shown},
};

/// Limit of shown output lines of a tool; the others are counted.
const MAX_OUTPUT_LINES: usize = 8;

/// Limit of shown lines of a diff.
const MAX_DIFF_LINES: usize = 40;

/// Timeout of a diff; a longer one is shown without some common lines.
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);

/// Limit of a path in a diff, in characters.
const MAX_PATH_CHARS: usize = 400;

/// Limit of a text in a headline, in characters.
const MAX_HEADLINE_CHARS: usize = 100;

/// Limit of stored tool calls; an agent with more open calls loses only their titles.
const MAX_OPEN_CALLS: usize = 256;

/// Tool calls of a turn.
#[derive(Debug, Default)]
pub(super) struct ToolCalls {
    open: HashMap<ToolCallId, ToolCall>,
    /// Call of the lines above.
    last: Option<ToolCallId>,
}

#[derive(Debug)]
struct ToolCall {
    title: String,
    printed: usize,
    /// Output after its last whole line.
    rest: String,
}

impl ToolCalls {
    /// Returns the headline of a call.
    pub(super) fn start(&mut self, start: &ToolStart) -> String {
        let act = paint::ACT;
        let bold = paint::STRONG;
        let dim = paint::DIM;
        let title = one_line(start.title.as_deref().unwrap_or(&start.tool));
        let detail = start.input.as_ref().filter(|_| start.title.is_none());
        let detail = detail
            .map(|input| summary(&start.tool, input))
            .unwrap_or_default();
        if self.open.len() < MAX_OPEN_CALLS {
            let title = format!("{title} {detail}").trim_end().to_owned();
            let tool = ToolCall {
                title,
                printed: 0,
                rest: String::new(),
            };
            self.open.insert(start.tool_call_id.clone(), tool);
        }
        self.last = Some(start.tool_call_id.clone());
        format!(
            "  {act}●{act:#} {bold}{}{bold:#} {dim}{}{dim:#}",
            cut(&title, MAX_HEADLINE_CHARS),
            cut(&detail, MAX_HEADLINE_CHARS)
        )
        .trim_end()
        .to_owned()
    }

    /// Returns new output of a call: whole lines, up to a limit.
    pub(super) fn update(&mut self, update: &ToolUpdate) -> Vec<String> {
        let heading = self.heading(&update.tool_call_id, "●");
        let Some(tool) = self.open.get_mut(&update.tool_call_id) else {
            return Vec::new();
        };
        let Some(content) = &update.content else {
            return Vec::new();
        };
        tool.rest.push_str(content);
        let Some(end) = tool.rest.rfind('\n') else {
            return Vec::new();
        };
        let rest = tool.rest.split_off(end + 1);
        let whole = std::mem::replace(&mut tool.rest, rest);
        let lines = tool.print(&whole);
        self.last = Some(update.tool_call_id.clone());
        if lines.is_empty() {
            lines
        } else {
            heading.into_iter().chain(lines).collect()
        }
    }

    /// Returns the result of a call: its output if none was shown, its changes, and its duration.
    pub(super) fn end(&mut self, end: &ToolEnd) -> Vec<String> {
        let good = paint::GOOD;
        let bad = paint::BAD;
        let dim = paint::DIM;
        let failed = end.is_error == Some(true);
        let heading = self.heading(&end.tool_call_id, "●");
        let mut tool = self
            .open
            .remove(&end.tool_call_id)
            .unwrap_or_else(|| ToolCall {
                title: "tool".to_owned(),
                printed: 0,
                rest: String::new(),
            });
        let rest = std::mem::take(&mut tool.rest);
        let mut lines = tool.print(&rest);
        if let Some(content) = end.content.as_deref().filter(|_| tool.printed == 0) {
            lines.extend(tool.print(content));
        }
        if tool.printed > MAX_OUTPUT_LINES {
            lines.push(format!(
                "  {dim}│ … {} more lines{dim:#}",
                tool.printed - MAX_OUTPUT_LINES
            ));
        }
        for diff in end.diffs.iter().flatten() {
            lines.extend(diff_lines(diff, false).0);
        }
        let took = end
            .duration_ms
            .map(|ms| duration(Duration::from_millis(ms)));
        let took = took.map_or(String::new(), |took| format!(" {dim}{took}{dim:#}"));
        if failed {
            lines.push(format!("  {bad}✗ failed{bad:#}{took}"));
        } else if lines.is_empty() || !took.is_empty() {
            lines.push(format!("  {good}✓{good:#}{took}"));
        }
        self.last = Some(end.tool_call_id.clone());
        heading.into_iter().chain(lines).collect()
    }

    /// Returns the name of the call, if lines of another call were shown in between.
    fn heading(&self, id: &ToolCallId, mark: &str) -> Option<String> {
        let dim = paint::DIM;
        let tool = self
            .open
            .get(id)
            .filter(|_| self.last.as_ref() != Some(id))?;
        Some(format!(
            "  {dim}{mark} {}{dim:#}",
            cut(&tool.title, MAX_HEADLINE_CHARS)
        ))
    }
}

impl ToolCall {
    fn print(&mut self, text: &str) -> Vec<String> {
        let dim = paint::DIM;
        let mut lines = Vec::new();
        for line in shown(text).lines() {
            self.printed += 1;
            if self.printed <= MAX_OUTPUT_LINES {
                lines.push(format!("  {dim}│ {}{dim:#}", cut(line, MAX_HEADLINE_CHARS)));
            }
        }
        lines
    }
}

/// Formats a change of a file, with removed lines in red and added lines in green. Returns the
/// lines, and the number of omitted ones. `whole` omits nothing.
pub(crate) fn diff_lines(diff: &Diff, whole: bool) -> (Vec<String>, usize) {
    let dim = paint::DIM;
    let bold = paint::STRONG;
    let bounded = |line: &str, most: usize| {
        if whole {
            line.to_owned()
        } else {
            cut(line, most)
        }
    };
    let mut lines = vec![format!(
        "  {dim}│{dim:#} {bold}{}{bold:#}",
        bounded(&one_line(&diff.path), MAX_PATH_CHARS)
    )];
    let body: Vec<String> = match &diff.patch {
        Some(patch) => shown(patch).lines().map(str::to_owned).collect(),
        None => changed(
            diff.old_text.as_deref().unwrap_or_default(),
            diff.new_text.as_deref().unwrap_or_default(),
        ),
    };
    let most = if whole { body.len() } else { MAX_DIFF_LINES };
    let more = body.len().saturating_sub(most);
    lines.extend(body.iter().take(most).map(|line| {
        let style = match line.as_bytes().first() {
            Some(b'+') => paint::GOOD,
            Some(b'-') => paint::BAD,
            _ => paint::DIM,
        };
        format!(
            "  {dim}│{dim:#} {style}{}{style:#}",
            bounded(line, MAX_HEADLINE_CHARS)
        )
    }));
    if more > 0 {
        lines.push(format!("  {dim}│ … {more} more lines{dim:#}"));
    }
    (lines, more)
}

/// Returns the removed and added lines, in order, without the common beginning and end.
fn changed(old: &str, new: &str) -> Vec<String> {
    let old = shown(old);
    let new = shown(new);
    let old: Vec<_> = old.lines().collect();
    let new: Vec<_> = new.lines().collect();
    let diff = TextDiff::configure()
        .timeout(DIFF_TIMEOUT)
        .diff_slices(&old, &new);
    let changes: Vec<_> = diff.iter_all_changes().collect();
    let is_change = |change: &Change<&str>| change.tag() != ChangeTag::Equal;
    let first = changes.iter().position(is_change);
    let last = changes.iter().rposition(is_change);
    let (Some(first), Some(last)) = (first, last) else {
        return Vec::new();
    };
    let lines = changes[first..=last].iter();
    lines
        .map(|change| format!("{} {}", change.tag(), change.value()))
        .collect()
}

/// Returns a tool's input on one line: its main parameter, otherwise the JSON.
fn summary(tool: &str, input: &Json) -> String {
    let summary_text = input
        .to()
        .ok()
        .and_then(|value| preview::tool_input(tool, &value));
    one_line(&summary_text.unwrap_or_else(|| preview::text(input.get())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diff_shows_what_changed_alone() {
        assert_eq!(changed("a\nb\nc\n", "a\nB\nc\n"), ["- b", "+ B"]);
        assert_eq!(changed("", "x\n"), ["+ x"]);
        assert_eq!(changed("x\nx\n", "x\n"), ["- x"]);
        assert_eq!(
            changed("a\nb\nc\n", "a\nB\nc\nd\n"),
            ["- b", "+ B", "  c", "+ d"]
        );
        assert!(changed("same", "same").is_empty());
    }

    #[test]
    fn an_input_is_told_by_its_telling_member() {
        let input =
            Json::from_serialize(&serde_json::json!({ "timeout": 1, "command": "ls -l\n" }))
                .unwrap();
        assert_eq!(summary("run", &input), "ls -l");
        assert_eq!(
            summary("run", &Json::from_serialize(&[1, 2]).unwrap()),
            "[1,2]"
        );
    }
}
