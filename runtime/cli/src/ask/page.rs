//! Displayed parts of a request: all of a short request; the beginning and the end of each part of
//! a long one.

use serde_json::Value;
use trunkline_host::protocol::{Diff, InputRequest, PermissionRequest};

use crate::{
    paint,
    screen::diff_lines,
    terminal::{one_line, shown},
};

/// Limit of a text that is shown whole if it has at most [`LINES`], in bytes.
const TEXT: usize = 8 * 1024;
/// Limit of the shown lines of a longer text, most of them from its beginning.
const LINES: usize = 40;
/// Shown lines from the end of a longer text.
const LAST_LINES: usize = 10;
/// Limit of a line of a longer text, in characters.
const LINE: usize = 400;
/// Limit of a name, title or label, in characters.
const NAME: usize = 200;
/// Limit of shown diffs, options or choices.
const ITEMS: usize = 20;

/// Sanitized lines for the terminal.
#[derive(Debug)]
pub(super) struct RequestPage {
    pub(super) lines: Vec<String>,
    /// True if something is omitted; the lines report how much.
    pub(super) is_cut: bool,
    whole: bool,
}

impl RequestPage {
    /// Creates the page of a permission request; `whole` omits nothing.
    pub(super) fn of_permission(request: &PermissionRequest, whole: bool) -> Self {
        let care = paint::CARE;
        let bold = paint::STRONG;
        let dim = paint::DIM;
        let mut page = Self::new(whole);
        let headline = page.name(&super::headline(request));
        page.lines
            .push(format!("  {care}?{care:#} {bold}{headline}{bold:#}"));
        let [description, resource] =
            [&request.description, &request.resource].map(Option::as_deref);
        page.text(description.unwrap_or_default(), |line| {
            format!("    {line}")
        });
        if let Some(resource) =
            resource.filter(|text| ![description, Some(&request.tool)].contains(&Some(text)))
        {
            page.text(resource, |line| format!("    {dim}{line}{dim:#}"));
        }
        let diffs = request.diffs.as_deref().unwrap_or_default();
        page.input(request, diffs);
        let shown = page.items(diffs, "files");
        for diff in shown {
            let (lines, left_out) = diff_lines(diff, whole);
            page.lines.extend(lines);
            page.is_cut |= left_out > 0;
        }
        let options = request.options.as_deref().unwrap_or_default();
        for (number, option) in page.items(options, "options").iter().enumerate() {
            let label = page.name(option.label.as_deref().unwrap_or(&option.id));
            page.lines
                .push(format!("    {bold}{}{bold:#} {label}", number + 1));
        }
        page
    }

    /// Creates the page of a question, without its fields.
    pub(super) fn of_question(request: &InputRequest) -> Self {
        let care = paint::CARE;
        let bold = paint::STRONG;
        let mut page = Self::new(false);
        page.text(&request.prompt, |line| format!("    {line}"));
        let first = if page.lines.is_empty() {
            String::new()
        } else {
            page.lines.remove(0)
        };
        page.lines.insert(
            0,
            format!("  {care}?{care:#} {bold}{}{bold:#}", first.trim_start()),
        );
        page
    }

    /// Adds the tool's input, except for the parts that the headline or a diff shows.
    fn input(&mut self, request: &PermissionRequest, diffs: &[Diff]) {
        let dim = paint::DIM;
        let value = request
            .input
            .as_ref()
            .and_then(|input| input.to::<Value>().ok())
            .unwrap_or_default();
        let Value::Object(members) = value else {
            let text = if value.is_null() {
                String::new()
            } else {
                value.to_string()
            };
            return self.text(&text, |line| format!("    {dim}{line}{dim:#}"));
        };
        let in_diff = |text: &str| {
            let of = |diff: &Diff| {
                [
                    diff.old_text.as_deref(),
                    diff.new_text.as_deref(),
                    diff.patch.as_deref(),
                    Some(&diff.path),
                ]
                .contains(&Some(text))
            };
            diffs.iter().any(of)
        };
        let above = [&request.description, &request.resource, &request.title].map(Option::as_deref);
        let texts: Vec<_> = members
            .into_iter()
            .map(|(name, value)| match value {
                Value::String(text) => (name, text),
                other => (name, other.to_string()),
            })
            .filter(|(_, text)| !above.contains(&Some(text)) && !in_diff(text))
            .collect();
        for (name, text) in self.items(&texts, "parts of the input") {
            let name = self.name(name);
            self.text(&format!("{name}: {text}"), |line| {
                format!("    {dim}{line}{dim:#}")
            });
        }
    }

    pub(super) fn new(whole: bool) -> Self {
        Self {
            lines: Vec::new(),
            is_cut: false,
            whole,
        }
    }

    /// Returns a text on one line, cut if it is long.
    pub(super) fn name(&mut self, text: &str) -> String {
        let text = one_line(text);
        match text.char_indices().nth(NAME) {
            Some((at, _)) if !self.whole => {
                self.is_cut = true;
                format!("{}… ({} more bytes)", &text[..at], text.len() - at)
            }
            _ => text,
        }
    }

    /// Returns the first of `items`; a line reports the number of the others.
    pub(super) fn items<'a, T>(&mut self, items: &'a [T], what: &str) -> &'a [T] {
        let most = if self.whole {
            items.len()
        } else {
            ITEMS.min(items.len())
        };
        if most < items.len() {
            let dim = paint::DIM;
            self.is_cut = true;
            self.lines.push(format!(
                "    {dim}… the first {most} of {} {what}{dim:#}",
                items.len()
            ));
        }
        &items[..most]
    }

    fn text(&mut self, text: &str, styled: impl Fn(&str) -> String) {
        let dim = paint::DIM;
        let text = shown(text);
        let lines: Vec<&str> = text.lines().collect();
        if self.whole || (text.len() <= TEXT && lines.len() <= LINES) {
            return self.lines.extend(lines.into_iter().map(styled));
        }
        let (first, last) = match lines.len() {
            all @ ..=LINES => (all, all),
            all => (LINES - LAST_LINES, all - LAST_LINES),
        };
        let between: usize = lines[first..last].iter().map(|line| line.len() + 1).sum();
        self.is_cut = true;
        self.lines
            .extend(lines[..first].iter().map(|line| styled(&cut(line))));
        if between > 0 {
            let count = last - first;
            self.lines.push(format!(
                "    {dim}… {count} lines, {between} bytes omitted …{dim:#}"
            ));
        }
        self.lines
            .extend(lines[last..].iter().map(|line| styled(&cut(line))));
    }
}

/// Returns the line, or its beginning and end.
fn cut(line: &str) -> String {
    let at = |number: usize| line.char_indices().nth(number).map(|(at, _)| at);
    let (Some(from), Some(_)) = (at(LINE / 2), at(LINE)) else {
        return line.to_owned();
    };
    let to = line
        .char_indices()
        .rev()
        .nth(LINE / 2 - 1)
        .map_or(from, |(at, _)| at);
    format!(
        "{} … {} bytes omitted … {}",
        &line[..from],
        to - from,
        &line[to..]
    )
}

#[cfg(test)]
mod tests {
    use trunkline_host::protocol::{Json, PermissionOption};

    use super::*;

    fn request(resource: String) -> PermissionRequest {
        super::super::tests::asked("Bash", resource)
    }

    fn bytes(page: &RequestPage) -> usize {
        page.lines.iter().map(String::len).sum()
    }

    #[test]
    fn a_short_request_is_shown_whole() {
        let page = RequestPage::of_permission(&request("git log\ngit status".to_owned()), false);
        assert!(!page.is_cut);
        assert!(
            page.lines.iter().any(|line| line.contains("git status")),
            "{:?}",
            page.lines
        );
        let long = format!("echo {}", "x".repeat(5000));
        assert!(
            RequestPage::of_permission(&request(long.clone()), false)
                .lines
                .iter()
                .any(|line| line.contains(&long))
        );
    }

    #[test]
    fn of_a_long_request_beginning_and_end_are_shown_and_how_much_is_not() {
        let line = format!("begin{}end", "x".repeat(3_000_000));
        let many = (0..100_000)
            .map(|number| format!("line {number}\n"))
            .collect::<String>();
        for (text, first, last) in [(line, "begin", "end"), (many, "line 0", "line 99999")] {
            let request = request(text.clone());
            let page = RequestPage::of_permission(&request, false);
            assert!(
                bytes(&page) < 40_000 && page.lines.len() < 60,
                "{} lines",
                page.lines.len()
            );
            assert!(page.lines.iter().any(|line| line.contains(first)));
            assert!(page.lines.iter().any(|line| line.contains(last)));
            assert!(page.lines.iter().any(|line| line.contains("omitted")));
            assert!(page.is_cut);
            let whole = RequestPage::of_permission(&request, true);
            assert!(!whole.is_cut);
            assert!(bytes(&whole) >= text.len() - 200_000);
        }
    }

    #[test]
    fn the_input_is_shown_but_for_what_stands_there_already() {
        let input = serde_json::json!({
            "command": "ls", "timeout": 5, "note": "two\nlines \u{1b}[2J", "content": "new", "path": "/a",
        });
        let diff = Diff {
            path: "/a".to_owned(),
            new_text: Some("new".to_owned()),
            ..Diff::default()
        };
        let request = PermissionRequest {
            input: Some(Json::from_serialize(&input).unwrap()),
            diffs: Some(vec![diff]),
            ..request("ls".to_owned())
        };
        let page = RequestPage::of_permission(&request, false).lines.join("\n");
        let page = anstream::adapter::strip_str(&page).to_string();
        for line in [
            "    timeout: 5\n",
            "    note: two\n    lines ␛[2J\n",
            "+ new",
        ] {
            assert!(page.contains(line), "{line:?} is not in {page}");
        }
        assert_eq!(page.matches("ls").count(), 1, "{page}");
        assert!(
            !page.contains("content:") && !page.contains("path:"),
            "{page}"
        );
        let long = serde_json::json!({ "a": "y".repeat(1_000_000) });
        let request = PermissionRequest {
            input: Some(Json::from_serialize(&long).unwrap()),
            ..request
        };
        assert!(RequestPage::of_permission(&request, false).is_cut);
    }

    #[test]
    fn no_part_of_a_request_is_without_bound() {
        let long = "y".repeat(1_000_000);
        let diff = Diff {
            path: long.clone(),
            new_text: Some("a\n".repeat(100_000)),
            old_text: None,
            patch: None,
        };
        let option = PermissionOption {
            id: "o".to_owned(),
            label: Some(long.clone()),
            kind: None,
        };
        let mut request = request(long.clone());
        (request.tool, request.title, request.description) =
            (long.clone(), Some(long.clone()), Some(long));
        request.diffs = Some(vec![diff; 200]);
        request.options = Some(vec![option; 2000]);
        let page = RequestPage::of_permission(&request, false);
        assert!(
            bytes(&page) < 200_000 && page.lines.len() < 1200,
            "{} in {}",
            bytes(&page),
            page.lines.len()
        );
        assert!(page.is_cut);
    }
}
