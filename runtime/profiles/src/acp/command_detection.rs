//! Detects a call in the first word of an input: a command of the agent's own, which passes
//! unchanged, or a skill of the session.

use std::borrow::Cow;

use trunkline_sdk::protocol::Log;

use super::translate::UpdateReader;
use crate::agent::report::meta_log;
use crate::agent::skills::Roster;

/// An input, read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DetectedCommand<'i> {
    /// The text for the agent.
    pub(crate) text: Cow<'i, str>,
    /// True if the agent treats it as a command, or may: then nothing may precede it.
    pub(crate) is_command: bool,
    /// Additional note to the user.
    pub(crate) note: Option<Note>,
}

/// Note that a skill was not put into an input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Note {
    /// Name of the called skill.
    name: String,
    /// Text of the note.
    text: String,
    is_skill: bool,
}

impl Note {
    /// As an event.
    pub(crate) fn log(self) -> Log {
        meta_log(self.text)
    }

    /// Returns true if the command is certain: an agent that has not listed its commands yet may
    /// have one of that name.
    pub(crate) fn is_due(&self, reader: &UpdateReader) -> bool {
        self.is_skill || reader.knows_commands()
    }

    /// Returns true if it is correct as far as is known now.
    pub(crate) fn holds(&self, reader: &UpdateReader) -> bool {
        self.is_skill || !reader.has_command(&self.name)
    }
}

/// Reads an input. A command of the agent's own wins over a skill of its name.
pub(crate) fn detect<'i>(
    input: &'i str,
    skills: &Roster,
    reader: &UpdateReader,
) -> DetectedCommand<'i> {
    let unchanged = |is_command| DetectedCommand {
        text: Cow::Borrowed(input),
        is_command,
        note: None,
    };
    let word = input
        .strip_prefix('/')
        .and_then(|rest| rest.split_whitespace().next());
    let Some(word) = word else {
        return unchanged(false);
    };
    if reader.has_command(word) {
        return unchanged(true);
    }
    let inline = skills.resolve(input);
    let is_resolved = matches!(inline.text, Cow::Owned(_));
    let may_be_command = !reader.knows_commands() && trunkline_sdk::skill::called(input).is_some();
    let note = |text| Note {
        name: word.to_owned(),
        text,
        is_skill: skills.has(word),
    };
    DetectedCommand {
        text: inline.text,
        is_command: !is_resolved && may_be_command,
        note: inline.note.map(note),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn reader(commands: &[&str]) -> UpdateReader {
        let mut reader = UpdateReader::default();
        let commands: Vec<Value> = commands
            .iter()
            .map(|name| json!({ "name": name }))
            .collect();
        let update =
            json!({ "sessionUpdate": "available_commands_update", "availableCommands": commands });
        reader.update(
            &update,
            super::super::translate::EventTime::Now,
            &|_| None,
            &mut Vec::new(),
        );
        reader
    }

    #[test]
    fn commands_pass_skills_are_put_in_and_what_is_neither_is_told() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["review", "plan"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join("SKILL.md"), "Look.").unwrap();
        }
        let paths = [json!([
            folder.path().join("review"),
            folder.path().join("plan")
        ])];
        let skills = Roster::from_skills(&paths, &mut Vec::new());
        let told = reader(&["plan", "MCP:files"]);
        // Input, whether it is put in, whether it is a command, whether something is reported at once.
        for (input, is_put_in, is_command, is_told) in [
            ("hello /review", false, false, false),
            ("/review it", true, false, false),
            ("/plan it", false, true, false),
            ("/MCP:files x", false, true, false),
            ("/nope it", false, false, true),
            ("/etc/hosts is odd", false, false, false),
            ("/", false, false, false),
            ("", false, false, false),
        ] {
            let detected = detect(input, &skills, &told);
            assert_eq!(detected.text != input, is_put_in, "{input:?}");
            assert_eq!(detected.is_command, is_command, "{input:?}");
            let is_due = detected
                .note
                .is_some_and(|note| note.is_due(&told) && note.holds(&told));
            assert_eq!(is_due, is_told, "{input:?}");
        }
    }

    #[test]
    fn before_the_agent_has_told_its_commands_a_word_may_be_one() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("SKILL.md"), "Look.").unwrap();
        let skills = Roster::from_skills(&[json!({ "review": folder.path() })], &mut Vec::new());
        let silent = UpdateReader::default();
        let call = detect("/compact now", &skills, &silent);
        let note = call.note.unwrap();
        assert!(call.is_command && !note.is_due(&silent));
        assert!(!note.holds(&reader(&["compact"])) && note.holds(&reader(&["plan"])));
        assert!(!detect("/review now", &skills, &silent).is_command);
        // Without skills, none was called.
        let call = detect("/compact now", &Roster::default(), &silent);
        assert_eq!((call.is_command, call.note), (true, None));
        std::fs::remove_file(folder.path().join("SKILL.md")).unwrap();
        let call = detect("/review now", &skills, &silent);
        assert!(
            call.note.unwrap().is_due(&silent),
            "it is a skill, and cannot be read"
        );
    }
}
