//! A session's skills for an agent without a search of its own: reported as commands, listed for
//! the model, and put into the input that calls one.

use std::path::PathBuf;

use serde_json::Value;
use trunkline_sdk::SystemPrompt;
use trunkline_sdk::protocol::Command;
use trunkline_sdk::skill::{self, FILE, Inlined};

use super::{CommandStyle, Skill, document};

/// Introduction to the model of skills that it cannot find itself.
const PREAMBLE: &str =
    "The user may call these skills by `/name`; the text of a skill is then part of the input.";

/// The section of a system prompt that the list is.
const SECTION: &str = "skills";

/// The skills of a session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Roster {
    skills: Vec<Skill>,
    /// The skills by name and description, for the model.
    listing: Option<String>,
    /// Folder of the agent's further skills.
    further: Option<PathBuf>,
}

impl Roster {
    /// Reads the skills of a configuration and a session; what cannot be used is reported.
    pub(crate) fn from_skills(skills: &[Value], warnings: &mut Vec<String>) -> Self {
        let (skills, wrong) = super::parse(skills);
        warnings.extend(wrong);
        let listing = if skills.is_empty() {
            None
        } else {
            let text = format!("{PREAMBLE}\n\n{}", document::listing(&skills));
            let composed = SystemPrompt::new().section(SECTION, text).compose();
            warnings.extend(composed.cuts.iter().map(ToString::to_string));
            Some(composed.text)
        };
        Self {
            skills,
            listing,
            further: None,
        }
    }

    /// With the skills of a folder, which are found when they are called.
    pub(crate) fn and_in(self, further: Option<PathBuf>) -> Self {
        Self { further, ..self }
    }

    /// The skills themselves.
    pub(crate) fn skills(&self) -> &[Skill] {
        &self.skills
    }

    /// Returns true if there are skills.
    pub(crate) fn has_any(&self) -> bool {
        !self.skills.is_empty()
    }

    /// Returns true if there is a skill of this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.skills.iter().any(|skill| skill.name() == name)
    }

    /// The skills as commands of the session.
    pub(crate) fn commands(&self) -> Option<Vec<Command>> {
        document::commands(&self.skills, CommandStyle::Slash)
    }

    /// The skills by name and description, for the model.
    pub(crate) fn listing(&self) -> Option<&str> {
        self.listing.as_deref()
    }

    /// Instructions, word for word, with the list after them. What is cut of the list is reported.
    pub(crate) fn after(
        &self,
        instructions: Option<&str>,
        warnings: &mut Vec<String>,
    ) -> Option<String> {
        if instructions.is_none() && self.listing.is_none() {
            return None;
        }
        let prompt = SystemPrompt::new().verbatim("instructions", instructions.unwrap_or_default());
        let composed = prompt
            .section(SECTION, self.listing().unwrap_or_default())
            .compose();
        warnings.extend(composed.cuts.iter().map(ToString::to_string));
        Some(composed.text)
    }

    /// Returns the input with the skill that it calls. Without skills, an unknown call is not
    /// reported.
    pub(crate) fn resolve<'i>(&self, input: &'i str) -> Inlined<'i> {
        let further = self.further.as_deref().filter(|folder| folder.is_dir());
        if self.skills.is_empty() && further.is_none() {
            return Inlined::unchanged(input);
        }
        skill::inline(input, |name| {
            let named = self.skills.iter().find(|skill| skill.name() == name);
            let further = || Some(further?.join(name)).filter(|folder| folder.join(FILE).exists());
            named
                .map(|skill| skill.folder().to_owned())
                .or_else(further)
        })
    }
}
