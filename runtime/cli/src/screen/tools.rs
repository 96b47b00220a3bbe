//! Tool calls, as lines: what runs, a little of what it prints, what it changed.

use std::collections::HashMap;

use trunkline_host::protocol::{Diff, Json, ToolCallId, ToolEnd, ToolStart, ToolUpdate};
use trunkline_sdk::preview::{self, cut};

use crate::{
    paint,
    screen::facts::duration,
    terminal::{one_line, shown},
};

/// Lines of what a tool printed that are shown; the rest is counted.
const SHOWN_LINES: usize = 8;

/// Lines of a diff that are shown.
const DIFF_LINES: usize = 40;

/// Pairs of lines that are compared to find what changed; beyond it all of the changed part is shown.
const COMPARED: usize = 1_000_000;

/// The longest path of a diff, in characters.
const PATH: usize = 400;

/// The longest text of a headline, in characters.
const HEADLINE: usize = 100;

/// Tool calls that are remembered at a time; an agent that has more of them open loses their titles alone.
const OPEN: usize = 256;

/// The tool calls of a turn.
#[derive(Debug, Default)]
pub(super) struct Tools {
    open: HashMap<ToolCallId, Tool>,
    /// The call that the lines above belong to.
    last: Option<ToolCallId>,
}

#[derive(Debug)]
struct Tool {
    title: String,
    printed: usize,
    /// What it printed after its last whole line.
    rest: String,
}

impl Tools {
    /// The headline of a call.
    pub(super) fn start(&mut self, start: &ToolStart) -> String {
        let (act, bold, dim) = (paint::ACT, paint::STRONG, paint::DIM);
        let title = one_line(start.title.as_deref().unwrap_or(&start.tool));
        let detail = start.input.as_ref().filter(|_| start.title.is_none());
        let detail = detail
            .map(|input| summary(&start.tool, input))
            .unwrap_or_default();
        if self.open.len() < OPEN {
            let title = format!("{title} {detail}").trim_end().to_owned();
            let tool = Tool {
                title,
                printed: 0,
                rest: String::new(),
            };
            self.open.insert(start.tool_call_id.clone(), tool);
        }
        self.last = Some(start.tool_call_id.clone());
        format!(
            "  {act}●{act:#} {bold}{}{bold:#} {dim}{}{dim:#}",
            cut(&title, HEADLINE),
            cut(&detail, HEADLINE)
        )
        .trim_end()
        .to_owned()
    }

    /// What a call printed: whole lines, up to a few.
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

    /// How a call ended: what it printed if nothing was shown yet, what it changed, how long it took.
    pub(super) fn end(&mut self, end: &ToolEnd) -> Vec<String> {
        let (good, bad, dim) = (paint::GOOD, paint::BAD, paint::DIM);
        let failed = end.is_error == Some(true);
        let heading = self.heading(&end.tool_call_id, "●");
        let mut tool = self.open.remove(&end.tool_call_id).unwrap_or_else(|| Tool {
            title: "tool".to_owned(),
            printed: 0,
            rest: String::new(),
        });
        let rest = std::mem::take(&mut tool.rest);
        let mut lines = tool.print(&rest);
        if let Some(content) = end.content.as_deref().filter(|_| tool.printed == 0) {
            lines.extend(tool.print(content));
        }
        if tool.printed > SHOWN_LINES {
            lines.push(format!(
                "  {dim}│ … {} more lines{dim:#}",
                tool.printed - SHOWN_LINES
            ));
        }
        for diff in end.diffs.iter().flatten() {
            lines.extend(diff_lines(diff, false).0);
        }
        let took = end
            .duration_ms
            .map(|ms| duration(std::time::Duration::from_millis(ms)));
        let took = took.map_or(String::new(), |took| format!(" {dim}{took}{dim:#}"));
        if failed {
            lines.push(format!("  {bad}✗ failed{bad:#}{took}"));
        } else if lines.is_empty() || !took.is_empty() {
            lines.push(format!("  {good}✓{good:#}{took}"));
        }
        self.last = Some(end.tool_call_id.clone());
        heading.into_iter().chain(lines).collect()
    }

    /// Names the call again where lines of another one came between.
    fn heading(&self, id: &ToolCallId, mark: &str) -> Option<String> {
        let dim = paint::DIM;
        let tool = self
            .open
            .get(id)
            .filter(|_| self.last.as_ref() != Some(id))?;
        Some(format!(
            "  {dim}{mark} {}{dim:#}",
            cut(&tool.title, HEADLINE)
        ))
    }
}

impl Tool {
    fn print(&mut self, text: &str) -> Vec<String> {
        let dim = paint::DIM;
        let mut lines = Vec::new();
        for line in shown(text).lines() {
            self.printed += 1;
            if self.printed <= SHOWN_LINES {
                lines.push(format!("  {dim}│ {}{dim:#}", cut(line, HEADLINE)));
            }
        }
        lines
    }
}

/// A change of a file, removed lines in red, added ones in green, and how many lines were left out.
/// `whole` leaves nothing out.
pub(crate) fn diff_lines(diff: &Diff, whole: bool) -> (Vec<String>, usize) {
    let (dim, bold) = (paint::DIM, paint::STRONG);
    let bounded = |line: &str, most: usize| {
        if whole {
            line.to_owned()
        } else {
            cut(line, most)
        }
    };
    let mut lines = vec![format!(
        "  {dim}│{dim:#} {bold}{}{bold:#}",
        bounded(&one_line(&diff.path), PATH)
    )];
    let body: Vec<String> = match &diff.patch {
        Some(patch) => shown(patch).lines().map(str::to_owned).collect(),
        None => changed(
            diff.old_text.as_deref().unwrap_or_default(),
            diff.new_text.as_deref().unwrap_or_default(),
        ),
    };
    let most = if whole { body.len() } else { DIFF_LINES };
    let more = body.len().saturating_sub(most);
    lines.extend(body.iter().take(most).map(|line| {
        let style = match line.as_bytes().first() {
            Some(b'+') => paint::GOOD,
            Some(b'-') => paint::BAD,
            _ => paint::DIM,
        };
        format!(
            "  {dim}│{dim:#} {style}{}{style:#}",
            bounded(line, HEADLINE)
        )
    }));
    if more > 0 {
        lines.push(format!("  {dim}│ … {more} more lines{dim:#}"));
    }
    (lines, more)
}

/// The lines that were removed and added, in order. What both texts begin and end with is left out.
fn changed(old: &str, new: &str) -> Vec<String> {
    let (old, new) = (shown(old), shown(new));
    let (old, new): (Vec<_>, Vec<_>) = (old.lines().collect(), new.lines().collect());
    let same = old
        .iter()
        .zip(&new)
        .take_while(|(old, new)| old == new)
        .count();
    let tail = old[same..]
        .iter()
        .rev()
        .zip(new[same..].iter().rev())
        .take_while(|(old, new)| old == new)
        .count();
    let (old, new) = (&old[same..old.len() - tail], &new[same..new.len() - tail]);
    let kept = if old.len().saturating_mul(new.len()) <= COMPARED {
        in_common(old, new)
    } else {
        Vec::new()
    };
    let mut lines = Vec::new();
    let (mut from, mut to) = (0, 0);
    for (old_at, new_at) in kept.into_iter().chain([(old.len(), new.len())]) {
        lines.extend(old[from..old_at].iter().map(|line| format!("- {line}")));
        lines.extend(new[to..new_at].iter().map(|line| format!("+ {line}")));
        lines.extend(old.get(old_at).map(|line| format!("  {line}")));
        (from, to) = (old_at + 1, new_at + 1);
    }
    lines
}

/// The places of the longest sequence of lines that both have.
fn in_common(old: &[&str], new: &[&str]) -> Vec<(usize, usize)> {
    let width = new.len() + 1;
    let mut longest = vec![0_u32; (old.len() + 1) * width];
    for (i, old) in old.iter().enumerate().rev() {
        for (j, new) in new.iter().enumerate().rev() {
            longest[i * width + j] = if old == new {
                longest[(i + 1) * width + j + 1] + 1
            } else {
                longest[(i + 1) * width + j].max(longest[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut pairs = Vec::new();
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            pairs.push((i, j));
            (i, j) = (i + 1, j + 1);
        } else if longest[(i + 1) * width + j] >= longest[i * width + j + 1] {
            i += 1;
        } else {
            j += 1;
        }
    }
    pairs
}

/// A tool's input on one line: what it tells of the call, else the JSON.
fn summary(tool: &str, input: &Json) -> String {
    let told = input
        .to()
        .ok()
        .and_then(|value| preview::tool_input(tool, &value));
    one_line(&told.unwrap_or_else(|| preview::text(input.get())))
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
        let input = Json::of(&serde_json::json!({ "timeout": 1, "command": "ls -l\n" })).unwrap();
        assert_eq!(summary("run", &input), "ls -l");
        assert_eq!(summary("run", &Json::of(&[1, 2]).unwrap()), "[1,2]");
    }
}
