//! Files that agents are given, one for all sessions that give the same: agents that are started
//! alike serve their sessions in one process.

use std::io::{self, Write};
use std::path::Path;
use std::sync::{Arc, Mutex, Weak};

use serde_json::Value;
use tempfile::{NamedTempFile, TempDir};

use crate::agent::locked;
use crate::agent::mcp;
use crate::agent::skills::{Skill, SkillsFolder};
use crate::agent::system_prompt::PromptFile;

/// Present settings.
#[derive(Debug, Default)]
pub(crate) struct SharedResources {
    prompts: Mutex<Vec<(String, Weak<PromptFile>)>>,
    folders: Mutex<Vec<(String, Weak<InstructionsFolder>)>>,
    skills: Mutex<Vec<(Vec<Skill>, Weak<SkillsFolder>)>>,
    servers: Mutex<Vec<(Value, Weak<NamedTempFile>)>>,
}

/// Path of Copilot's instructions in a folder, and the head that applies them to everything. It
/// reads no `AGENTS.md` there.
const INSTRUCTIONS: &str = ".github/instructions/session.instructions.md";
const APPLIES: &str = "---\napplyTo: \"**\"\n---\n";

/// A folder with instructions, removed on drop.
#[derive(Debug)]
pub(crate) struct InstructionsFolder(TempDir);

impl InstructionsFolder {
    fn new(instructions: &str) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix("instructions-").tempdir()?;
        let file = folder.path().join(INSTRUCTIONS);
        file.parent().map_or(Ok(()), std::fs::create_dir_all)?;
        let mut file = std::fs::File::create_new(file)?;
        file.write_all(APPLIES.as_bytes())?;
        file.write_all(instructions.as_bytes())?;
        Ok(Self(folder))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

impl SharedResources {
    /// A file that holds this prompt.
    pub(crate) fn prompt(&self, prompt: &str) -> io::Result<Arc<PromptFile>> {
        one(&self.prompts, &prompt.to_owned(), || {
            PromptFile::new(prompt)
        })
    }

    /// A folder with these instructions.
    pub(crate) fn instructions(&self, instructions: &str) -> io::Result<Arc<InstructionsFolder>> {
        one(&self.folders, &instructions.to_owned(), || {
            InstructionsFolder::new(instructions)
        })
    }

    /// A private file with this configuration of MCP servers.
    pub(crate) fn servers(&self, config: &Value) -> io::Result<Arc<NamedTempFile>> {
        one(&self.servers, config, || mcp::private_file(config))
    }

    /// A folder with these skills.
    pub(crate) fn skills(&self, skills: &[Skill]) -> io::Result<Arc<SkillsFolder>> {
        one(&self.skills, &skills.to_vec(), || SkillsFolder::new(skills))
    }
}

/// Returns the existing value of this kind, or makes one.
fn one<K: PartialEq + Clone, V>(
    known: &Mutex<Vec<(K, Weak<V>)>>,
    key: &K,
    make: impl FnOnce() -> io::Result<V>,
) -> io::Result<Arc<V>> {
    let mut known = locked(known);
    known.retain(|(_, value)| value.strong_count() > 0);
    if let Some(value) = known
        .iter()
        .find(|(one, _)| one == key)
        .and_then(|(_, value)| value.upgrade())
    {
        return Ok(value);
    }
    let value = Arc::new(make()?);
    known.push((key.clone(), Arc::downgrade(&value)));
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_given_once_and_removed_with_the_last_use() {
        let shared = SharedResources::default();
        let one = shared.prompt("Be brief.").unwrap();
        let two = shared.prompt("Be brief.").unwrap();
        assert_eq!(one.path(), two.path());
        assert_ne!(shared.prompt("Be long.").unwrap().path(), one.path());
        let path = one.path().to_owned();
        drop((one, two));
        assert!(!path.exists());
        let folder = shared.instructions("Be brief.").unwrap();
        let file = std::fs::read_to_string(folder.path().join(INSTRUCTIONS)).unwrap();
        assert!(
            file.starts_with("---\napplyTo:") && file.ends_with("---\nBe brief."),
            "{file}"
        );
    }
}
