//! What Codex is given for an input: by the template, with the skill that it calls.

use trunkline_sdk::Session;
use trunkline_sdk::protocol::Command;

use crate::agent::options::Options;
use crate::agent::skills::Roster;

/// A session's skills.
#[derive(Debug, Default)]
pub(super) struct Prompt {
    skills: Roster,
    listing: Option<String>,
}

impl Prompt {
    /// Reads the skills; what cannot be used is reported.
    pub(super) fn new(options: &Options, warnings: &mut Vec<String>) -> Self {
        let skills = Roster::of(&options.skills, warnings);
        let listing = skills.listing();
        Self { skills, listing }
    }

    /// The skills as commands of the session.
    pub(super) fn commands(&self) -> Option<Vec<Command>> {
        self.skills.commands()
    }

    /// The skills by name and description.
    pub(super) fn listing(&self) -> Option<&str> {
        self.listing.as_deref()
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
