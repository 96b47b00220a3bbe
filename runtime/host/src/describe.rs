//! Asking adapters what they are and can before a first session: by `--describe` ([ext.8]), kept in
//! the state folder.

use std::ffi::{OsStr, OsString};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::{Map, Value, json};
use tokio::task::{JoinSet, spawn_blocking};
use trunkline_process::{ChildSpec, query};
use trunkline_protocol::{AdapterBody, AdapterMessage, SessionInfo};
use trunkline_redact as redact;

use crate::Host;
use crate::agent::AgentShared;
use crate::config::{Profile, regular};

/// Timeout of a program's description of itself.
const WITHIN: Duration = Duration::from_secs(10);

/// Number of programs that are asked at the same time.
const AT_ONCE: usize = 4;

/// The descriptions that are kept, in the state folder.
const FILE: &str = "described.json";

/// The most descriptions that are kept; the oldest go first.
const MOST: usize = 64;

/// The largest file of descriptions, in bytes.
const LARGEST: u64 = 1024 * 1024;

impl Host {
    /// Asks agents for their declarations, so that [`Host::agents`] has them before a first
    /// session. Each agent without known declarations whose program answers `--describe` ([ext.8])
    /// is asked once, for at most 10 s. A program that is started for this opens no session and
    /// starts no agent. Answers of built-in adapters are stored in the state folder, so that later
    /// hosts need not ask. A failure is in
    /// [`AgentStatus::undescribed`](crate::AgentStatus::undescribed).
    ///
    /// # Cancel safety
    /// Dropping the future ends the programs that it started; another call asks again.
    pub async fn describe(&self) {
        let mut left = self.undescribed().into_iter();
        let mut asking = JoinSet::new();
        loop {
            while asking.len() < AT_ONCE
                && let Some(agent) = left.next()
            {
                let host = self.clone();
                asking.spawn(async move { host.describe_one(&agent).await });
            }
            if asking.join_next().await.is_none() {
                return;
            }
        }
    }

    async fn describe_one(&self, agent: &Arc<AgentShared>) {
        let ask = || async {
            let described = self
                .ask(agent)
                .await
                .map_err(|why| redact::text(&why).into_owned());
            if let Err(why) = &described {
                tracing::warn!(
                    agent = &*agent.id,
                    "the adapter did not describe itself: {why}"
                );
            }
            agent.declaration.describe(described);
        };
        agent.declaration.asked.get_or_init(ask).await;
    }

    async fn ask(&self, agent: &Arc<AgentShared>) -> Result<SessionInfo, String> {
        let host = self.clone();
        let of = agent.clone();
        let prepare = move || {
            let spec = host
                .child_spec(&of.id)?
                .map_err(|error| format!("failed to {error}"));
            Some(spec.map(|spec| (host.kept(&of, &spec), spec)))
        };
        let prepared = spawn_blocking(prepare)
            .await
            .map_err(|error| error.to_string())?;
        let (kept, spec) = prepared.ok_or("this host does not start its program")??;
        if let Some(declared) = kept.as_ref().and_then(|kept| declared(&kept.read()?)) {
            return Ok(declared);
        }
        let asked = query(spec.arg("--describe"), WITHIN).await;
        let answer = asked.map_err(|error| format!("failed to {error}"))?;
        if answer.exit.is_none() {
            return Err(format!("it gave no answer within {} s", WITHIN.as_secs()));
        }
        let described = serde_json::from_slice(&answer.stdout)
            .ok()
            .filter(Value::is_object);
        let Some((described, declared)) =
            described.and_then(|value| declared(&value).map(|info| (value, info)))
        else {
            let last = answer.stderr.trim().lines().next_back().unwrap_or_default();
            return Err(format!(
                "its answer is not a description; its last words: {last}"
            ));
        };
        if let Some(kept) = kept {
            // What cannot be kept is asked for again.
            let _ = spawn_blocking(move || kept.write(described)).await;
        }
        Ok(declared)
    }

    /// The place of a built-in adapter's description. That of an external adapter is not kept: it
    /// may change while the file of its program does not.
    fn kept(&self, agent: &AgentShared, spec: &ChildSpec) -> Option<Kept> {
        let Profile::BuiltIn(_) = agent.config.profile else {
            return None;
        };
        let key = identity(&spec.program, &spec.args, spec.config.as_deref()).ok()?;
        Some(Kept {
            file: self.state_dir()?.join(FILE),
            key,
        })
    }
}

/// Converts a description to the form in which a session reports it.
fn declared(described: &Value) -> Option<SessionInfo> {
    let capabilities = &described["capabilities"];
    let models = &described["models"];
    let report = json!({ "type": "session.info", "session_id": "d", "capabilities": capabilities, "models": models });
    match AdapterMessage::parse(&report.to_string()).ok()?.body {
        AdapterBody::SessionInfo(info) => Some(*info),
        _ => None,
    }
}

/// Identifies a description: by the program's file, its arguments and its configuration.
fn identity(program: &OsStr, args: &[OsString], config: Option<&[u8]>) -> io::Result<String> {
    let file = Path::new(program).metadata()?;
    let mut hasher = DefaultHasher::new();
    (
        program.as_bytes(),
        file.len(),
        file.mtime(),
        file.mtime_nsec(),
        args,
        config,
    )
        .hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

/// A description in the file of descriptions.
struct Kept {
    file: PathBuf,
    key: String,
}

impl Kept {
    /// All descriptions. A file that cannot be read has none.
    fn all(&self) -> Map<String, Value> {
        let bytes = regular::read(&self.file, LARGEST).unwrap_or_default();
        serde_json::from_slice(&bytes).unwrap_or_default()
    }

    fn read(&self) -> Option<Value> {
        self.all().remove(&self.key)
    }

    /// Adds it. Of two processes that write at once the later one prevails.
    fn write(&self, mut described: Value) -> io::Result<()> {
        // The agents of a host are asked side by side.
        static WRITING: Mutex<()> = Mutex::new(());
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let [capabilities, models] = ["capabilities", "models"].map(|key| described[key].take());
        let mut all = self.all();
        all.shift_remove(&self.key);
        while all.len() >= MOST
            && let Some(oldest) = all.keys().next().cloned()
        {
            all.shift_remove(&oldest);
        }
        all.insert(
            self.key.clone(),
            json!({ "capabilities": capabilities, "models": models }),
        );
        let bytes = serde_json::to_vec(&all)?;
        if bytes.len() as u64 > LARGEST {
            return Ok(());
        }
        let folder = self.file.parent().unwrap_or(Path::new("/"));
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(folder)?;
        let mut new = tempfile::NamedTempFile::new_in(folder)?;
        new.write_all(&bytes)?;
        new.persist(&self.file)?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AgentConfig, Command};

    /// An agent whose program answers `--describe` by this script.
    fn described_by(id: &str, script: &str) -> AgentConfig {
        let command = Command::new("sh").args(["-c", script, "sh"]);
        AgentConfig {
            sdk: true,
            ..AgentConfig::external(id, command)
        }
    }

    #[tokio::test]
    async fn agents_are_asked_once_and_a_failure_says_why() {
        let state = tempfile::tempdir().unwrap();
        let asked = state.path().join("asked");
        let says = format!(
            r#"[ "$1" = --describe ] || exit 3; echo asked >> '{}'; echo '{{"capabilities":{{"max_sessions":2}}}}'"#,
            asked.display()
        );
        let host = Host::builder()
            .state_dir(state.path())
            .agent(described_by("says", &says))
            .agent(described_by("silent", "echo no such flag >&2; exit 2"))
            .agent(AgentConfig::external("other", "no-such-program"))
            .build()
            .unwrap();
        for _ in 0..2 {
            host.describe().await;
        }
        let status = |id: &str| host.agent(id).unwrap();
        assert_eq!(status("says").capabilities.unwrap().max_sessions, Some(2));
        assert_eq!(std::fs::read_to_string(asked).unwrap(), "asked\n");
        let why = status("silent").undescribed.unwrap();
        assert!(why.contains("no such flag"), "{why}");
        assert_eq!(
            (status("other").capabilities, status("other").undescribed),
            (None, None)
        );
        assert!(
            !state.path().join(FILE).exists(),
            "an external program's description is not kept"
        );
    }

    #[test]
    fn as_many_descriptions_are_kept_as_may_be_the_newest() {
        let folder = tempfile::tempdir().unwrap();
        let kept = |key: usize| Kept {
            file: folder.path().join("state/described.json"),
            key: key.to_string(),
        };
        let described = json!({ "capabilities": { "max_sessions": 2 }, "models": null });
        assert_eq!(
            declared(&described)
                .unwrap()
                .capabilities
                .unwrap()
                .max_sessions,
            Some(2)
        );
        assert_eq!(kept(0).read(), None);
        for key in 0..=MOST {
            kept(key).write(described.clone()).unwrap();
        }
        assert_eq!(
            (kept(0).read(), kept(1).read()),
            (None, Some(described.clone()))
        );
        assert_eq!(kept(MOST).all().len(), MOST);
        // A file that is no list of descriptions is replaced.
        std::fs::write(kept(0).file, "[").unwrap();
        kept(0).write(described.clone()).unwrap();
        assert_eq!((kept(0).read(), kept(1).read()), (Some(described), None));
    }

    #[test]
    fn descriptions_that_come_at_once_are_all_kept() {
        let folder = tempfile::tempdir().unwrap();
        let kept = |key: usize| Kept {
            file: folder.path().join("described.json"),
            key: key.to_string(),
        };
        std::thread::scope(|scope| {
            for key in 0..8 {
                let kept = kept(key);
                scope.spawn(move || kept.write(json!({ "capabilities": {} })).unwrap());
            }
        });
        assert_eq!(kept(0).all().len(), 8);
    }

    #[test]
    fn another_file_and_another_configuration_are_another_description() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let of = |config: &str| identity(program.as_os_str(), &[], Some(config.as_bytes())).ok();
        assert_eq!(of("{}"), None);
        std::fs::write(&program, "1").unwrap();
        let first = of("{}").unwrap();
        assert_eq!(of("{}"), Some(first.clone()));
        assert_ne!(of("[]"), Some(first.clone()));
        std::fs::write(&program, "22").unwrap();
        assert_ne!(of("{}"), Some(first));
    }
}
