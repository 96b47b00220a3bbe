//! Where agents look for skills: a folder of our own, or the agent's.

use std::{
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::Skill;

/// Where agents look for skills in a folder that they are told to add: claude and copilot.
const LOOKED_IN: [&str; 2] = [".claude", ".github"];

/// A private folder with links to skills under `.claude/skills` and `.github/skills`, for `--add-dir` (census row I02).
/// Dropping it removes it, and not what the links lead to.
#[derive(Debug)]
pub(crate) struct SkillsFolder(TempDir);

impl SkillsFolder {
    /// Makes it in the private folder for temporary files.
    pub(crate) fn new(skills: &[Skill]) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("skills-").tempdir()?;
        for looked_in in LOOKED_IN {
            let inner = folder.path().join(looked_in).join("skills");
            std::fs::create_dir_all(&inner)?;
            for skill in skills {
                symlink(skill.folder(), inner.join(skill.name()))?;
            }
        }
        Ok(Self(folder))
    }

    /// The folder to add.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// Links in a folder of the agent's own (census row I03). Dropping it removes those that it made and that still lead
/// where it said.
#[derive(Debug)]
pub(crate) struct Installed {
    links: Vec<(PathBuf, PathBuf)>,
    skipped: Vec<String>,
}

/// Links each skill into the agent's own folder, such as `$CODEX_HOME/skills`. An entry that is there already stays.
pub(crate) fn install(skills: &[Skill], folder: &Path) -> io::Result<Installed> {
    std::fs::create_dir_all(folder)?;
    let mut installed = Installed { links: Vec::new(), skipped: Vec::new() };
    for skill in skills {
        let link = folder.join(skill.name());
        match symlink(skill.folder(), &link) {
            Ok(()) => installed.links.push((link, skill.folder().to_owned())),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                if std::fs::read_link(&link).ok().as_deref() != Some(skill.folder()) {
                    installed.skipped.push(skill.name().to_owned());
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(installed)
}

impl Installed {
    /// The skills in whose place something else stands.
    pub(crate) fn skipped(&self) -> &[String] {
        &self.skipped
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        for (link, target) in &self.links {
            if std::fs::read_link(link).is_ok_and(|now| now == *target) {
                // What is left behind is a link to the same skill, which the next one takes as its own.
                drop(std::fs::remove_file(link));
            }
        }
    }
}
