//! A session's skills for an agent that does not look for them itself: told as commands, listed for the model, and put
//! into the input that calls one.

use serde_json::Value;
use trunkline_sdk::protocol::Command;

use super::inline::{self, Inline};
use super::{CommandStyle, Skill, document};

/// What the model learns of skills that it finds nowhere by itself.
const PREAMBLE: &str =
    "The user may call these skills by `/name`; what a skill says then stands in the input.";

/// The skills of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roster(Vec<Skill>);

impl Roster {
    /// Reads the skills of a configuration and a session; what cannot be used is reported.
    pub(crate) fn of(skills: &[Value], warnings: &mut Vec<String>) -> Self {
        let (skills, wrong) = super::parse(skills);
        warnings.extend(wrong);
        Self(skills)
    }

    /// The skills themselves.
    pub(crate) fn skills(&self) -> &[Skill] {
        &self.0
    }

    /// Whether there are skills.
    pub(crate) fn has_any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether there is a skill of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.iter().any(|skill| skill.name() == name)
    }

    /// The skills as commands of the session.
    pub(crate) fn commands(&self) -> Option<Vec<Command>> {
        document::commands(&self.0, CommandStyle::Slash)
    }

    /// The skills by name and description, for the model.
    pub(crate) fn listing(&self) -> Option<String> {
        (!self.0.is_empty()).then(|| format!("{PREAMBLE}\n\n{}", document::listing(&self.0)))
    }

    /// Instructions with the list after them.
    pub(crate) fn after(&self, instructions: Option<String>) -> Option<String> {
        match (instructions, self.listing()) {
            (Some(instructions), Some(listing)) => Some(format!("{instructions}\n\n{listing}")),
            (instructions, listing) => instructions.or(listing),
        }
    }

    /// The input with the skill that it calls. Where there are no skills, nothing is said of one that is called.
    pub(crate) fn resolve<'i>(&self, input: &'i str) -> Inline<'i> {
        if self.0.is_empty() {
            return Inline { text: input.into(), note: None };
        }
        let folder = |name: &str| {
            self.0.iter().find(|skill| skill.name() == name).map(|skill| skill.folder().to_owned())
        };
        inline::resolve(input, folder)
    }
}
