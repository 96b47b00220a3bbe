//! Skills and MCP servers of an agent that runs once a turn.

use std::any::Any;
use std::ffi::OsString;

use super::Runs;
use crate::agent::mcp::{self, McpServer};
use crate::agent::options::Options;
use crate::agent::skills::{Roster, SkillsFolder};

/// Additions to each run of a conversation. A problem with them never keeps a turn from running.
#[derive(Default)]
pub(crate) struct Extras {
    /// Arguments after all others.
    pub(crate) args: Vec<OsString>,
    pub(crate) env: Vec<(OsString, OsString)>,
    /// Files that the agent reads, removed with the conversation.
    pub(crate) kept: Vec<Box<dyn Any + Send + Sync>>,
    /// Problems to report.
    pub(crate) warnings: Vec<String>,
    /// The agent finds the skills by itself. Otherwise they are listed before the first prompt.
    pub(crate) finds_skills: bool,
    /// The skills that inputs may call.
    pub(super) skills: Roster,
    /// Text before the first prompt: instructions that have no other channel, and skills that the
    /// agent does not find.
    pub(super) preface: Option<String>,
}

impl Extras {
    /// Additions of a profile for the skills and servers of a session.
    pub(super) fn new(profile: &impl Runs, options: &Options) -> Self {
        let mut warnings = Vec::new();
        let skills = Roster::from_skills(&options.skills, &mut warnings);
        let (servers, wrong) = mcp::parse(options, profile.agent().file().mcp_variables);
        warnings.extend(wrong);
        let mut given = profile.give(options, &skills, &servers);
        warnings.append(&mut given.warnings);
        let instructions = options.system_prompt.as_deref();
        let preface = if given.finds_skills {
            instructions.map(str::to_owned)
        } else {
            skills.after(instructions, &mut warnings)
        };
        Self {
            warnings,
            skills,
            preface,
            ..given
        }
    }

    /// Additions for an agent without a channel for either: skills are listed, servers are left out.
    pub(super) fn nothing(servers: &[McpServer]) -> Self {
        let names: Vec<&str> = servers.iter().map(|server| server.name.as_str()).collect();
        let left_out = || {
            let names = names.join(", ");
            format!(
                "MCP servers are left out ({names}): run once a turn, the agent takes none; use `transport: \"acp\"`"
            )
        };
        Self {
            warnings: (!names.is_empty()).then(left_out).into_iter().collect(),
            ..Self::default()
        }
    }

    /// A folder with the skills, if there are any. The caller passes its path to the agent.
    pub(crate) fn folder(&mut self, skills: &Roster) -> Option<SkillsFolder> {
        if !skills.has_any() {
            return None;
        }
        let folder = SkillsFolder::new(skills.skills());
        folder
            .inspect_err(|error| {
                self.warnings
                    .push(format!("skills are put into inputs only: {error}"))
            })
            .ok()
    }
}
