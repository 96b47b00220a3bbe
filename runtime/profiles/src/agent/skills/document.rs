//! A `SKILL.md`: its front matter and its text.

use trunkline_sdk::preview::cut;
use trunkline_sdk::protocol::Command;
use trunkline_sdk::skill::read;

use super::{CommandStyle, Skill};

/// Reads the description in the front matter of a `SKILL.md`: `key: value` lines between two `---`,
/// values over several indented lines too.
pub(super) fn parse_description(text: &str) -> Option<String> {
    let mut description = None;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut lines = text.lines();
    if lines.next().map(str::trim_end) != Some("---") {
        return None;
    }
    let lines: Vec<_> = lines.take_while(|line| line.trim_end() != "---").collect();
    let mut at = 0;
    while let Some(line) = lines.get(at) {
        at += 1;
        let Some((key, value)) = line
            .split_once(':')
            .filter(|_| !line.starts_with([' ', '\t', '#']))
        else {
            continue;
        };
        let indented = lines[at..]
            .iter()
            .take_while(|line| line.starts_with([' ', '\t']) || line.is_empty());
        let more: Vec<_> = indented
            .copied()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect();
        let first = match value.trim() {
            "|" | ">" | "|-" | ">-" | "|+" | ">+" => "",
            value => value,
        };
        let words: Vec<_> = std::iter::once(first)
            .chain(more)
            .filter(|part| !part.is_empty())
            .collect();
        let value = unquoted(&words.join(" "));
        if key.trim() == "description" {
            description = value;
        }
    }
    description
}

fn description(skill: &Skill) -> Option<String> {
    let text = read(skill.folder()).ok()?;
    parse_description(&text).map(|description| cut(&description, 1024))
}

fn unquoted(value: &str) -> Option<String> {
    let inner = |quote| value.strip_prefix(quote)?.strip_suffix(quote);
    let value = inner('"').or_else(|| inner('\'')).unwrap_or(value).trim();
    (!value.is_empty()).then(|| value.to_owned())
}

/// The skills in a list of names and descriptions, for an agent that has none of its own; the text
/// of a skill is read when it is called (census row I09).
pub(super) fn listing(skills: &[Skill]) -> String {
    let line = |skill: &Skill| match description(skill) {
        Some(description) => format!("- {}: {description}\n", skill.name()),
        None => format!("- {}\n", skill.name()),
    };
    skills.iter().map(line).collect()
}

/// Returns the skills as commands of the session: the text of an input that calls one.
pub(crate) fn commands(skills: &[Skill], style: CommandStyle) -> Option<Vec<Command>> {
    let command = |skill: &Skill| {
        let text = Some(style.format_command(skill.name()));
        Command {
            name: skill.name().to_owned(),
            description: description(skill),
            hint: None,
            text,
        }
    };
    (!skills.is_empty()).then(|| skills.iter().map(command).collect())
}
