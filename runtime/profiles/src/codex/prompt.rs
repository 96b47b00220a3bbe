//! What Codex is given for an input: by the template, with the skill that it calls.

use trunkline_sdk::Session;
use trunkline_sdk::protocol::Command;

use crate::agent::options::Options;
use crate::agent::skills::{self, CommandStyle, Skill};

/// What the model is told of skills that it finds nowhere by itself.
const SKILLS: &str = "The user may call these skills by `/name`; what a skill says then stands in the input.";

/// A session's skills.
#[derive(Debug, Default)]
pub(super) struct Prompt {
    skills: Vec<Skill>,
    listing: Option<String>,
}

impl Prompt {
    /// Reads the skills; what cannot be used is told.
    pub(super) fn new(options: &Options, warnings: &mut Vec<String>) -> Self {
        let (skills, wrong) = skills::parse(&options.skills);
        warnings.extend(wrong);
        let listing = (!skills.is_empty()).then(|| format!("{SKILLS}\n\n{}", skills::listing(&skills)));
        Self { skills, listing }
    }

    /// The skills as commands of the session.
    pub(super) fn commands(&self) -> Option<Vec<Command>> {
        skills::commands(&self.skills, CommandStyle::Slash)
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
        let folder = |name: &str| {
            self.skills.iter().find(|skill| skill.name() == name).map(|skill| skill.folder().to_owned())
        };
        let called = content.strip_prefix('/').and_then(|rest| rest.split_whitespace().next());
        let content = match called {
            Some(name) if folder(name).is_some() => {
                let inline = skills::resolve(content, folder);
                warnings.extend(inline.note);
                inline.text
            }
            _ => content.into(),
        };
        options.words(&content, session)
    }
}
