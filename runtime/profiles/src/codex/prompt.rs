//! What Codex is given for an input: by the template, with the skill that it calls.

use trunkline_sdk::Session;
use trunkline_sdk::protocol::Command;

use crate::agent::options::Options;
use crate::agent::skills::Roster;

/// A session's skills.
#[derive(Debug, Default)]
pub(super) struct Prompt {
    skills: Roster,
}

impl Prompt {
    /// Reads the skills; what cannot be used is reported.
    pub(super) fn new(options: &Options, warnings: &mut Vec<String>) -> Self {
        Self { skills: Roster::of(&options.skills, warnings) }
    }

    /// The skills as commands of the session.
    pub(super) fn commands(&self) -> Option<Vec<Command>> {
        self.skills.commands()
    }

    /// The skills by name and description.
    pub(super) fn listing(&self) -> Option<&str> {
        self.skills.listing()
    }

    /// Instructions with the skills after them.
    pub(super) fn instructions(&self, own: Option<&str>, warnings: &mut Vec<String>) -> Option<String> {
        self.skills.after(own, warnings)
    }

    /// The text for an input.
    pub(super) fn of(
        &self,
        content: &str,
        session: &Session,
        options: &Options,
        warnings: &mut Vec<String>,
    ) -> String {
        let inline = self.skills.resolve(content);
        warnings.extend(inline.note);
        options.words(&inline.text, session)
    }
}
