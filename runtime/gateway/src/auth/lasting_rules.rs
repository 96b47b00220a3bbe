//! Lasting rules ("always allow"): patterns that approve an agent's requests, with who saved them
//! and when. They are kept in the daemon's folder, which no sandboxed agent sees.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};
use tokio::sync::Mutex;
use trunkline_host::{
    Host,
    policy::{LastingRule, Pattern},
};

use super::token::{now, write_private_file};
use crate::http::{
    problem::{Answer, Problem},
    routes::blocking,
};

/// Maximum number of rules, of all agents.
const MAX_RULES: usize = 1024;

/// The form of the file that this version writes.
const VERSION: u32 = 1;

/// A lasting rule, as it is stored and listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "LastingRule"))]
pub(crate) struct StoredRule {
    pub(crate) id: String,
    pub(crate) agent: String,
    pub(crate) pattern: String,
    /// The client whose answer saved it, as in the journal.
    pub(crate) by: String,
    /// The time at which it was saved, in seconds since 1970.
    pub(crate) created: u64,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct RuleFile {
    version: u32,
    rules: Vec<StoredRule>,
}

/// The lasting rules of a daemon: in its file, and at its host.
#[derive(Debug)]
pub(crate) struct LastingRules {
    path: PathBuf,
    host: Host,
    rules: Mutex<Vec<StoredRule>>,
}

impl LastingRules {
    /// Reads the rules of a state folder and passes them to the host. Blocks for the disk.
    ///
    /// # Errors
    /// When the file cannot be read, or is not one of this version.
    pub(crate) fn open(state: &Path, host: &Host) -> io::Result<Self> {
        let path = state.join("rules.json");
        let read = || -> io::Result<_> {
            let file: RuleFile = match fs::read(&path) {
                Ok(text) => serde_json::from_slice(&text)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
                Err(error) => return Err(error),
            };
            if file.version != VERSION {
                let version = file.version;
                return Err(io::Error::other(format!(
                    "its version is {version}, and this program writes {VERSION}"
                )));
            }
            // Applied when they change, and now. The future only waits for links.
            drop(host.set_lasting_rules(by_agent(&file.rules).map_err(io::Error::other)?));
            Ok(file.rules)
        };
        let failed = |error: io::Error| {
            let path = path.display();
            let why = format!(
                "the lasting rules in {path} cannot be read: {error}; repair or remove the file"
            );
            io::Error::new(error.kind(), why)
        };
        Ok(Self {
            rules: Mutex::new(read().map_err(failed)?),
            path,
            host: host.clone(),
        })
    }

    /// Returns the rules, the oldest first.
    pub(crate) async fn list(&self) -> Vec<StoredRule> {
        self.rules.lock().await.clone()
    }

    /// Returns an error if there are as many rules as there may be.
    pub(crate) async fn require_room(&self) -> Answer<()> {
        has_room(&self.rules.lock().await)
    }

    /// Saves a rule, which then counts. An equal one of the agent is returned as it is.
    ///
    /// # Cancel safety
    /// A dropped future can leave a rule in the file that counts only from the next start or change.
    pub(crate) async fn add(&self, agent: &str, pattern: &str, by: &str) -> Answer<StoredRule> {
        let mut rules = self.rules.lock().await;
        let is_equal = |rule: &&StoredRule| rule.agent == agent && rule.pattern == pattern;
        if let Some(rule) = rules.iter().find(is_equal) {
            return Ok(rule.clone());
        }
        has_room(&rules)?;
        let rule = StoredRule {
            id: uuid::Uuid::new_v4().simple().to_string()[..12].to_owned(),
            agent: agent.to_owned(),
            pattern: pattern.to_owned(),
            by: by.to_owned(),
            created: now(),
        };
        let changed = [&**rules, std::slice::from_ref(&rule)].concat();
        self.replace(&mut rules, changed).await?;
        tracing::info!(
            rule = rule.id,
            agent,
            pattern,
            by,
            "a lasting rule was saved"
        );
        Ok(rule)
    }

    /// Removes a rule of an agent that the caller may use. No request that comes after it is
    /// approved by it.
    ///
    /// # Cancel safety
    /// As of [`LastingRules::add`].
    pub(crate) async fn remove(&self, id: &str, may_have: impl Fn(&str) -> bool) -> Answer<()> {
        let mut rules = self.rules.lock().await;
        let mut changed = rules.clone();
        changed.retain(|rule| rule.id != id || !may_have(&rule.agent));
        if changed.len() == rules.len() {
            return Err(Problem::not_found());
        }
        self.replace(&mut rules, changed).await?;
        tracing::info!(rule = id, "a lasting rule was removed");
        Ok(())
    }

    async fn replace(&self, rules: &mut Vec<StoredRule>, changed: Vec<StoredRule>) -> Answer<()> {
        let by_agent = by_agent(&changed).map_err(Problem::failed)?;
        let file = RuleFile {
            version: VERSION,
            rules: changed.clone(),
        };
        let path = self.path.clone();
        blocking(move || {
            let bytes = serde_json::to_vec_pretty(&file).unwrap_or_default();
            write_private_file(&path, &bytes).map_err(|error| {
                let path = path.display();
                Problem::failed(format!(
                    "the lasting rules in {path} cannot be written: {error}"
                ))
            })
        })
        .await?;
        *rules = changed;
        self.host.set_lasting_rules(by_agent).await;
        Ok(())
    }
}

fn has_room(rules: &[StoredRule]) -> Answer<()> {
    if rules.len() < MAX_RULES {
        return Ok(());
    }
    Err(Problem::too_many(format!(
        "there are {MAX_RULES} lasting rules already; remove those that are not used"
    )))
}

fn by_agent(rules: &[StoredRule]) -> Result<BTreeMap<String, Vec<LastingRule>>, String> {
    let mut by_agent: BTreeMap<_, Vec<_>> = BTreeMap::new();
    for rule in rules {
        let pattern: Pattern = rule
            .pattern
            .parse()
            .map_err(|error| format!("failed to {error}"))?;
        let id = rule.id.clone();
        let of_agent = by_agent.entry(rule.agent.clone()).or_default();
        of_agent.push(LastingRule { id, pattern });
    }
    Ok(by_agent)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> io::Result<LastingRules> {
        let host = Host::builder().build().unwrap();
        LastingRules::open(folder, &host)
    }

    #[tokio::test]
    async fn there_are_so_many_rules_and_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let rules = open(folder.path()).unwrap();
        let first = rules.add("a", "Bash(x)", "l-1").await.unwrap();
        assert_eq!(rules.add("a", "Bash(x)", "l-2").await.unwrap(), first);
        let template = rules.list().await.remove(0);
        let filler = (1..MAX_RULES).map(|number| StoredRule {
            id: number.to_string(),
            ..template.clone()
        });
        let full = std::iter::once(first.clone()).chain(filler).collect();
        let mut held = rules.rules.lock().await;
        rules.replace(&mut held, full).await.unwrap();
        drop(held);
        assert!(rules.require_room().await.is_err());
        assert!(rules.add("b", "Bash(x)", "l-1").await.is_err());
        assert!(rules.remove(&first.id, |agent| agent == "b").await.is_err());
        let stored = open(folder.path()).unwrap().list().await;
        assert_eq!(stored, rules.list().await);
        rules.remove(&first.id, |agent| agent == "a").await.unwrap();
        rules.add("b", "Bash(x)", "l-1").await.unwrap();
        assert_eq!(
            open(folder.path()).unwrap().list().await,
            rules.list().await
        );
    }

    #[tokio::test]
    async fn a_damaged_file_is_named_and_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.json");
        let bad =
            r#"{"version":1,"rules":[{"id":"r","agent":"a","pattern":"(","by":"","created":1}]}"#;
        for text in ["{", r#"{"version":2,"rules":[]}"#, bad] {
            fs::write(&file, text).unwrap();
            let error = open(folder.path()).unwrap_err().to_string();
            assert!(error.contains("rules.json"), "{error}");
            assert_eq!(fs::read_to_string(&file).unwrap(), text);
        }
    }
}
