//! Folders in which agents look for skills: one of our own, or the agent's.

use std::{
    collections::{HashMap, hash_map::Entry},
    io,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    sync::{LazyLock, Mutex},
};

use tempfile::TempDir;

use super::Skill;
use crate::agent::locked;

/// Subfolders in which claude and copilot look for skills in a given folder.
const LOOKED_IN: [&str; 2] = [".claude", ".github"];

/// A private folder with links to skills under `.claude/skills` and `.github/skills`, for
/// `--add-dir` (census row I02). Dropping it removes it, and not what the links lead to.
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

    /// The folder in it that holds the skills, for agents that take that one.
    pub(crate) fn skills(&self) -> PathBuf {
        self.0.path().join(LOOKED_IN[0]).join("skills")
    }
}

/// Links in a folder of the agent's own (census row I03), shared by the sessions of this process.
/// Dropping the last that wants one removes it, if it still leads where it did.
#[derive(Debug)]
pub(crate) struct Installed {
    links: Vec<PathBuf>,
    skipped: Vec<String>,
}

/// A link that this process made.
struct SkillLink {
    target: PathBuf,
    wanted_by: usize,
}

static LINKS: LazyLock<Mutex<HashMap<PathBuf, SkillLink>>> = LazyLock::new(Mutex::default);

/// Links each skill into the agent's own folder, such as `$CODEX_HOME/skills`. An existing entry
/// stays.
pub(crate) fn install(skills: &[Skill], folder: &Path) -> io::Result<Installed> {
    std::fs::create_dir_all(folder)?;
    let mut installed = Installed {
        links: Vec::new(),
        skipped: Vec::new(),
    };
    for skill in skills {
        let path = folder.join(skill.name());
        let mut links = locked(&LINKS);
        let leads =
            |path: &Path| std::fs::read_link(path).is_ok_and(|target| target == skill.folder());
        match symlink(skill.folder(), &path) {
            Ok(()) => {
                links.insert(
                    path.clone(),
                    SkillLink {
                        target: skill.folder().to_owned(),
                        wanted_by: 1,
                    },
                );
                installed.links.push(path);
            }
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
            Err(_) if !leads(&path) => installed.skipped.push(skill.name().to_owned()),
            // Without an owner here it is another process's, or what a killed one left.
            Err(_) => {
                if let Some(link) = links.get_mut(&path) {
                    link.wanted_by += 1;
                    installed.links.push(path);
                }
            }
        }
    }
    Ok(installed)
}

impl Installed {
    /// Returns the skills that were skipped because of an existing entry.
    pub(crate) fn skipped(&self) -> &[String] {
        &self.skipped
    }
}

impl Drop for Installed {
    fn drop(&mut self) {
        let mut links = locked(&LINKS);
        for path in &self.links {
            let Entry::Occupied(mut link) = links.entry(path.clone()) else {
                continue;
            };
            link.get_mut().wanted_by -= 1;
            if link.get().wanted_by > 0 {
                continue;
            }
            let link = link.remove();
            if std::fs::read_link(path).is_ok_and(|target| target == link.target) {
                // What is left behind is a link to the same skill, which the next one finds as it wants it.
                drop(std::fs::remove_file(path));
            }
        }
    }
}
