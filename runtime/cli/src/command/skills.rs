//! `trunkline agents skills`: skills for agents that read them from their own folders.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow};
use clap::{Args, Subcommand, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};

use super::{print_json, table::ListTable};
use crate::error::{CliError, CommandResult};

/// File that marks a folder as a skill.
const SKILL_FILE: &str = "SKILL.md";

/// Manages the skills of agents
#[derive(Debug, Subcommand)]
#[command(after_help = "\
Example:
  trunkline agents skills sync /srv/skills --dry-run")]
pub(super) enum SkillsCommand {
    Sync(SyncArgs),
}

/// Links the skills of a folder into the skill folders of agents
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  trunkline agents skills sync /srv/skills --dry-run
  trunkline agents skills sync /srv/skills --agent codex --agent pi

Agents read skills from these folders:
  claude-code  $CLAUDE_CONFIG_DIR/skills, or ~/.claude/skills
  codex        $CODEX_SKILLS_DIR, $CODEX_HOME/skills, or ~/.codex/skills
  pi           $PI_CODING_AGENT_DIR/skills, or ~/.pi/agent/skills

An existing entry is preserved. Links into FOLDER whose skill does not exist are \
removed. Skills of single sessions need no links: see `skills` in the agent's \
configuration.")]
pub(super) struct SyncArgs {
    /// Folder with the skills: one subfolder with a `SKILL.md` each
    #[arg(value_name = "FOLDER")]
    folder: PathBuf,

    /// Agents [default: agents whose own folder exists]
    #[arg(long = "agent", value_name = "NAME", value_enum)]
    agents: Vec<SkillOwner>,

    /// Prints the changes without making them
    #[arg(long)]
    dry_run: bool,

    /// Prints one JSON array
    #[arg(long)]
    json: bool,
}

/// An agent with a folder for skills.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SkillOwner {
    ClaudeCode,
    Codex,
    Pi,
}

/// Action for an entry of an agent's folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum LinkAction {
    /// Create the link.
    Link,
    /// The link already leads to the skill.
    Current,
    /// Another file has its name.
    Stays,
    /// A link whose skill does not exist.
    Remove,
}

/// An entry of an agent's folder.
#[derive(Debug)]
struct SkillEntry {
    owner: SkillOwner,
    path: PathBuf,
    skill: PathBuf,
    step: LinkAction,
}

impl SyncArgs {
    pub(super) fn run(self) -> CommandResult {
        let (skills, source) = fs::canonicalize(&self.folder)
            .and_then(|source| Ok((find_skills(&source)?, source)))
            .with_context(|| format!("failed to read the folder {}", self.folder.display()))
            .map_err(|error| {
                CliError::usage(error)
                    .next("use an existing folder with a subfolder for each skill")
            })?;
        let mut plan = Vec::new();
        for owner in SkillOwner::value_variants() {
            let folder = owner.folder(|name| std::env::var_os(name).map(PathBuf::from));
            let is_asked = self.agents.contains(owner);
            match folder {
                Some(folder) if is_asked || (self.agents.is_empty() && is_installed(&folder)) => {
                    plan.extend(plan_entries(*owner, &folder, &source, &skills)?);
                }
                None if is_asked => {
                    return Err(CliError::usage(anyhow!(
                        "{} has no folder for skills: set HOME",
                        owner.name()
                    )));
                }
                _ => {}
            }
        }
        if !self.dry_run {
            for entry in &plan {
                entry
                    .apply()
                    .with_context(|| format!("failed to change {}", entry.path.display()))?;
            }
        }
        self.print(&plan)
    }

    fn print(&self, plan: &[SkillEntry]) -> CommandResult {
        if self.json {
            let entries = plan.iter().map(|entry| {
                json!({ "agent": entry.owner.name(), "path": entry.path, "skill": entry.skill,
                    "step": entry.step, "done": !self.dry_run })
            });
            return print_json(&entries.collect::<Value>());
        }
        let mut list = ListTable::new(["agent", "entry", "what"], &[]);
        for entry in plan {
            let path = entry.path.display().to_string();
            let what = entry.step.describe(self.dry_run);
            list.push([entry.owner.name().to_owned(), path, what.to_owned()]);
        }
        list.print()
    }
}

impl SkillOwner {
    fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Pi => "pi",
        }
    }

    /// Returns the folder in which the agent searches for skills.
    fn folder(self, variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
        let (variables, below_home): (&[(&str, &str)], _) = match self {
            Self::ClaudeCode => (&[("CLAUDE_CONFIG_DIR", "skills")], ".claude/skills"),
            Self::Codex => (
                &[("CODEX_SKILLS_DIR", ""), ("CODEX_HOME", "skills")],
                ".codex/skills",
            ),
            Self::Pi => (&[("PI_CODING_AGENT_DIR", "skills")], ".pi/agent/skills"),
        };
        variables
            .iter()
            .chain(&[("HOME", below_home)])
            .find_map(|(name, below)| {
                let path = variable(name).filter(|path| path.is_absolute())?;
                Some(path.join(below))
            })
    }
}

impl LinkAction {
    fn describe(self, dry_run: bool) -> &'static str {
        match (self, dry_run) {
            (Self::Link, true) => "would be linked",
            (Self::Link, false) => "linked",
            (Self::Current, _) => "up to date",
            (Self::Stays, _) => "unchanged: another file has its name",
            (Self::Remove, true) => "would be removed: its skill does not exist",
            (Self::Remove, false) => "removed: its skill does not exist",
        }
    }
}

impl SkillEntry {
    fn apply(&self) -> io::Result<()> {
        match self.step {
            LinkAction::Link => {
                self.path.parent().map_or(Ok(()), fs::create_dir_all)?;
                symlink(&self.skill, &self.path)
            }
            LinkAction::Remove => fs::remove_file(&self.path),
            LinkAction::Current | LinkAction::Stays => Ok(()),
        }
    }
}

/// Returns true if the owner of a skill folder is installed.
fn is_installed(folder: &Path) -> bool {
    folder.is_dir() || folder.parent().is_some_and(Path::is_dir)
}

/// Returns the skills of a folder, sorted.
fn find_skills(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut skills = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.join(SKILL_FILE).is_file() {
            skills.push(path);
        }
    }
    skills.sort();
    Ok(skills)
}

/// Returns the actions for the entries of an agent's folder.
fn plan_entries(
    owner: SkillOwner,
    folder: &Path,
    source: &Path,
    skills: &[PathBuf],
) -> io::Result<Vec<SkillEntry>> {
    let wanted = skills
        .iter()
        .filter_map(|skill| Some((skill, folder.join(skill.file_name()?))));
    let entry = |skill: &Path, path: PathBuf, step: LinkAction| SkillEntry {
        owner,
        path,
        skill: skill.to_owned(),
        step,
    };
    let mut entries: Vec<_> = wanted
        .map(|(skill, path)| {
            let step = match fs::read_link(&path) {
                Ok(target) if target == *skill => LinkAction::Current,
                _ if path.symlink_metadata().is_ok() => LinkAction::Stays,
                _ => LinkAction::Link,
            };
            entry(skill, path, step)
        })
        .collect();
    let there = match fs::read_dir(folder) {
        Ok(there) => there,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(entries),
        Err(error) => return Err(error),
    };
    let mut gone = Vec::new();
    for path in there.map(|entry| entry.map(|entry| entry.path())) {
        let path = path?;
        let Ok(target) = fs::read_link(&path) else {
            continue;
        };
        if target.parent() == Some(source) && !target.join(SKILL_FILE).exists() {
            gone.push(entry(&target, path, LinkAction::Remove));
        }
    }
    gone.sort_by(|one, other| one.path.cmp(&other.path));
    entries.extend(gone);
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_those_of_the_agents() {
        let home = |name: &str| (name == "HOME").then(|| PathBuf::from("/h"));
        let folders: Vec<_> = SkillOwner::value_variants()
            .iter()
            .map(|owner| owner.folder(home).unwrap())
            .collect();
        assert_eq!(
            folders,
            [
                "/h/.claude/skills",
                "/h/.codex/skills",
                "/h/.pi/agent/skills"
            ]
            .map(PathBuf::from)
        );
        for (variable, owner, expected) in [
            ("CLAUDE_CONFIG_DIR", SkillOwner::ClaudeCode, "/v/skills"),
            ("CODEX_HOME", SkillOwner::Codex, "/v/skills"),
            ("CODEX_SKILLS_DIR", SkillOwner::Codex, "/v"),
            ("PI_CODING_AGENT_DIR", SkillOwner::Pi, "/v/skills"),
        ] {
            let folder = owner.folder(|name| (name == variable).then(|| PathBuf::from("/v")));
            assert_eq!(folder, Some(PathBuf::from(expected)), "{variable}");
        }
        assert!(
            SkillOwner::value_variants()
                .iter()
                .all(|owner| owner.folder(|_| None).is_none())
        );
    }

    #[test]
    fn what_is_there_stays_and_what_is_gone_goes() {
        let place = tempfile::tempdir().unwrap();
        let source = place.path().join("src");
        let folder = place.path().join("agent/skills");
        for name in ["a", "b", "c"] {
            fs::create_dir_all(source.join(name)).unwrap();
            fs::write(source.join(name).join(SKILL_FILE), name).unwrap();
        }
        fs::create_dir_all(source.join("no-skill")).unwrap();
        let steps = || -> Vec<_> {
            let plan = plan_entries(
                SkillOwner::Codex,
                &folder,
                &source,
                &find_skills(&source).unwrap(),
            )
            .unwrap();
            plan.iter().for_each(|entry| entry.apply().unwrap());
            plan.iter()
                .map(|entry| (entry.path.file_name().unwrap().to_owned(), entry.step))
                .collect()
        };
        fs::create_dir_all(folder.join("b")).unwrap();
        fs::write(folder.join("b").join(SKILL_FILE), "theirs").unwrap();
        symlink("/elsewhere", folder.join("d")).unwrap();
        let named =
            |steps: [(&str, LinkAction); 3]| steps.map(|(name, step)| (name.into(), step)).to_vec();
        assert_eq!(
            steps(),
            named([
                ("a", LinkAction::Link),
                ("b", LinkAction::Stays),
                ("c", LinkAction::Link)
            ])
        );
        fs::remove_dir_all(source.join("c")).unwrap();
        assert_eq!(
            steps(),
            named([
                ("a", LinkAction::Current),
                ("b", LinkAction::Stays),
                ("c", LinkAction::Remove)
            ])
        );
        assert_eq!(
            fs::read_to_string(folder.join("b").join(SKILL_FILE)).unwrap(),
            "theirs"
        );
        assert!(
            folder.join("a").join(SKILL_FILE).is_file()
                && folder.join("c").symlink_metadata().is_err()
        );
        assert!(folder.join("d").symlink_metadata().is_ok());
    }
}
