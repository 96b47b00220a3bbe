//! The organisation's policy: a file that narrows the entries of agents from every source.
//!
//! ```json
//! {
//!   "sandbox": "required",
//!   "backends": ["bubblewrap"],
//!   "network": { "allow": ["*.example.com"] },
//!   "read_only": ["/opt"], "writable": ["/srv/work"],
//!   "images": ["registry.example.com/agents:1"], "options": [],
//!   "memory": "4GiB", "processes": 1024,
//!   "containment": "reaper",
//!   "inherit_env": false
//! }
//! ```
//!
//! Every key is optional, and an absent one narrows nothing; see
//! [`Policy`](trunkline_sandbox::Policy) for their meanings.

use std::io;
use std::path::{Path, PathBuf};

use trunkline_process::Inherit;
use trunkline_sandbox::{AgentConfinement, Policy, PolicyError};

use super::agent::AgentConfig;
use super::confinement::{network_holds, paths_from};
use super::document::MAX_FILE;
use super::error::{ConfigError, Problem};
use super::form::As;
use super::keys::PolicyKeys;
use super::read::read;
use super::regular::{self, Unread};
use super::{defaults, json};

/// An organisation's policy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Organisation {
    path: PathBuf,
    policy: Policy,
}

impl Organisation {
    /// Returns the policies that apply: the one that a configuration names, and
    /// [`defaults::POLICY`], if it exists. They add up, so a configuration cannot remove the second
    /// by naming another. The second is applied last, because the `options` of a policy replace
    /// earlier ones.
    ///
    /// # Errors
    ///
    /// One exists and cannot be read, or the named one does not exist: nothing may run then.
    pub fn of_this_machine(named: Option<&Path>) -> Result<Vec<Self>, ConfigError> {
        Self::find(Path::new(defaults::POLICY), named)
    }

    fn find(default: &Path, named: Option<&Path>) -> Result<Vec<Self>, ConfigError> {
        let named = named
            .filter(|named| *named != default)
            .map(Self::read)
            .transpose()?;
        let machines = is_there(default).then(|| Self::read(default)).transpose()?;
        Ok(named.into_iter().chain(machines).collect())
    }

    /// Reads one file; relative paths in it are meant from its folder.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong with it, with its place.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let unreadable =
            |error: io::Error| ConfigError::new("", Problem::Unreadable(error)).in_policy(path);
        let bytes = regular::read(path, MAX_FILE).map_err(|unread| match unread {
            Unread::Failed(error) => unreadable(error),
            Unread::NotRegular => unreadable(io::Error::other("it is not a regular file")),
            Unread::TooLarge => {
                ConfigError::new("", Problem::TooLarge { limit: MAX_FILE }).in_policy(path)
            }
        })?;
        let absolute = std::path::absolute(path).map_err(unreadable)?;
        let folder = absolute.parent().unwrap_or(&absolute);
        let policy = parse(&bytes, folder).map_err(|error| error.in_policy(path))?;
        Ok(Self {
            path: path.to_owned(),
            policy,
        })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the rights of an agent that the policy does not allow, and returns them as one
    /// sentence each. Reads files, so it blocks.
    ///
    /// # Errors
    ///
    /// The remaining rights would not be enough for the agent. It is left unchanged.
    pub fn narrow(&self, agent: &mut AgentConfig) -> Result<Vec<String>, PolicyError> {
        let requested = AgentConfinement {
            sandbox: agent.sandbox.clone(),
            work_dir: std::path::absolute(&agent.command.work_dir)
                .or_else(|_| std::env::current_dir())
                .unwrap_or_else(|_| "/".into()),
            limits: agent.resources,
            containment: agent.containment,
            at_least: agent.at_least,
            inherit: if agent.inherit_env {
                Inherit::All
            } else {
                Inherit::Curated
            },
        };
        let narrowed = self.policy.narrow(requested)?;
        let granted = narrowed.granted;
        if let (Some(sandbox), Some(domains)) = (&granted.sandbox, &mut agent.allowed_domains) {
            domains.retain(|domain| network_holds(&sandbox.network, domain));
        }
        agent.sandbox = granted.sandbox;
        agent.resources = granted.limits;
        agent.containment = granted.containment;
        agent.at_least = granted.at_least;
        agent.inherit_env = granted.inherit == Inherit::All;
        let mut notes = narrowed.notes;
        notes.extend(self.keep_credentials(agent));
        Ok(notes)
    }

    /// Removes the credentials that only the profile names, if the policy limits the environment to
    /// the entry's own variables.
    fn keep_credentials(&self, agent: &mut AgentConfig) -> Option<String> {
        if self.policy.inherit != Some(Inherit::Curated) || !agent.pass_credentials {
            return None;
        }
        let mut kept = std::mem::take(&mut agent.credentials);
        kept.retain(|name| {
            !agent.env_passthrough.contains(name) && !agent.command.env.contains_key(name)
        });
        let kept = (!kept.is_empty()).then(|| kept.join(", "))?;
        Some(format!(
            "the policy keeps {kept} from the agent; name what it needs in `env_passthrough`"
        ))
    }
}

/// Returns true if a name is in use, even by a dangling link, or one in a missing folder. If this
/// cannot be found out, it counts as in use: reading it fails.
fn is_there(path: &Path) -> bool {
    match path.symlink_metadata() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            path.parent().is_some_and(is_dangling)
        }
        Ok(_) | Err(_) => true,
    }
}

fn is_dangling(path: &Path) -> bool {
    path.symlink_metadata().is_ok() && path.metadata().is_err()
}

fn parse(text: &[u8], folder: &Path) -> Result<Policy, ConfigError> {
    let mut keys: PolicyKeys = read(&json::read(text)?, "", &[])?;
    let mut policy = Policy::default();
    keys.set(&mut policy);
    policy.read_only = paths_from(folder, keys.read_only);
    policy.writable = paths_from(folder, keys.writable);
    policy.backends = keys
        .backends
        .map(|As(names)| names.into_iter().map(str::to_owned).collect());
    policy.inherit = keys
        .inherit_env
        .and_then(|As(all)| (!all).then_some(Inherit::Curated));
    Ok(policy)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use trunkline_process::Containment;
    use trunkline_sandbox::{Backend, Network, Sandbox};

    use super::*;

    fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("policy.json");
        fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn every_key_is_read() {
        let (folder, path) = written(
            r#"{"sandbox": "required", "backends": ["podman"], "network": {"allow": ["a.org"]}, "read_only": ["/r"],
                "writable": ["w"], "images": ["i"], "options": ["--x"], "memory": "1KiB", "processes": 9,
                "containment": "reaper", "inherit_env": false}"#,
        );
        let expected = Policy {
            sandbox_required: true,
            backends: Some(vec!["podman".into()]),
            network: Some(Network::Allow(vec!["a.org".into()])),
            read_only: Some(vec!["/r".into()]),
            writable: Some(vec![folder.path().join("w")]),
            images: Some(vec!["i".into()]),
            options: Some(vec!["--x".into()]),
            memory: Some(1024),
            processes: Some(9),
            containment: Containment::Reaper,
            inherit: Some(Inherit::Curated),
        };
        assert_eq!(Organisation::read(&path).unwrap().policy, expected);
        let (_folder, path) = written("{}");
        assert_eq!(Organisation::read(&path).unwrap().policy, Policy::default());
    }

    #[test]
    fn a_file_that_cannot_be_understood_is_refused() {
        for (text, expected) in [
            (
                r#"{"netwrok": "none"}"#,
                "netwrok: unknown key; did you mean `network`?",
            ),
            (
                r#"{"backends": ["bwrap"]}"#,
                r#"backends[0]: `bwrap` is not "bubblewrap" or "podman" or "docker""#,
            ),
            (
                r#"{"sandbox": true}"#,
                r#"sandbox: expected "required" or "optional", found a boolean"#,
            ),
            ("[]", "expected an object, found an array"),
            (
                r#"{"sandbox": "required", "sandbox": "optional"}"#,
                "line 1, column 33: the key `sandbox` occurs twice; keep one",
            ),
        ] {
            let (_folder, path) = written(text);
            let error = Organisation::read(&path).unwrap_err();
            assert_eq!(error.file(), Some(path.as_path()));
            assert!(
                error
                    .to_string()
                    .starts_with(&format!("read the policy {}: ", path.display())),
                "{error}"
            );
            assert!(error.to_string().ends_with(expected), "{error}");
        }
    }

    #[test]
    fn what_is_no_file_is_refused_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let fifo = folder.path().join("policy.json");
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        for path in [fifo.as_path(), folder.path(), Path::new("/dev/zero")] {
            let error = Organisation::read(path).unwrap_err();
            assert!(
                error.to_string().ends_with("it is not a regular file"),
                "{error}"
            );
        }
    }

    #[test]
    fn the_machines_policy_counts_whatever_a_configuration_names() {
        let (folder, default) = written(r#"{"processes": 5}"#);
        let named = folder.path().join("named.json");
        fs::write(&named, r#"{"memory": 6}"#).unwrap();
        let nowhere = folder.path().join("nowhere");
        let paths = |default: &Path, named: Option<&Path>| -> Result<Vec<PathBuf>, ConfigError> {
            Ok(Organisation::find(default, named)?
                .into_iter()
                .map(|found| found.path)
                .collect())
        };
        assert_eq!(paths(&nowhere, None).unwrap(), [""; 0].map(PathBuf::from));
        assert_eq!(paths(&default, None).unwrap(), [default.as_path()]);
        assert_eq!(
            paths(&default, Some(&named)).unwrap(),
            [named.as_path(), default.as_path()]
        );
        assert_eq!(
            paths(&default, Some(&default)).unwrap(),
            [default.as_path()]
        );
        assert!(paths(&default, Some(&nowhere)).is_err());
        fs::write(&default, "{").unwrap();
        assert!(paths(&default, None).is_err());
    }

    #[test]
    fn a_policy_that_leads_nowhere_is_no_absent_one() {
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("policy.json");
        assert!(Organisation::find(&link, None).unwrap().is_empty());
        std::os::unix::fs::symlink(folder.path().join("gone.json"), &link).unwrap();
        let error = Organisation::find(&link, None).unwrap_err();
        assert_eq!(error.file(), Some(link.as_path()));
        // Nor is one whose folder leads nowhere, or is a file.
        std::os::unix::fs::symlink(folder.path().join("gone"), folder.path().join("etc")).unwrap();
        assert!(Organisation::find(&folder.path().join("etc/policy.json"), None).is_err());
        fs::write(folder.path().join("file"), "").unwrap();
        assert!(Organisation::find(&folder.path().join("file/policy.json"), None).is_err());
    }

    #[test]
    fn the_options_of_the_machines_policy_have_the_last_word() {
        let (folder, default) = written(
            r#"{"sandbox": "required", "options": ["--root", "/ours"], "network": "none"}"#,
        );
        let named = folder.path().join("named.json");
        let mut agent = AgentConfig::external("a", "x");
        agent.sandbox = Some(Sandbox::new(Backend::Podman {
            image: "i".into(),
            options: Vec::new(),
        }));
        let narrow = |mut agent: AgentConfig| {
            for policy in Organisation::find(&default, Some(&named)).unwrap() {
                policy.narrow(&mut agent)?;
            }
            Ok::<_, PolicyError>(agent.sandbox.unwrap().backend)
        };
        let ours = Backend::Podman {
            image: "i".into(),
            options: vec!["--root".into(), "/ours".into()],
        };
        fs::write(&named, r#"{"options": ["--runtime", "/evil"]}"#).unwrap();
        assert_eq!(narrow(agent.clone()).unwrap(), ours);
        fs::write(&named, r#"{"sandbox": "required"}"#).unwrap();
        assert_eq!(narrow(agent.clone()).unwrap(), ours);
        // And where it has none, a named policy gives none either.
        fs::write(&default, r#"{"sandbox": "required"}"#).unwrap();
        fs::write(&named, r#"{"options": ["--runtime", "/evil"]}"#).unwrap();
        assert!(narrow(agent).is_err());
    }

    #[test]
    fn an_agent_is_narrowed_or_left_as_it_was() {
        let (_folder, path) = written(
            r#"{"network": {"allow": ["a.org"]}, "processes": 9, "containment": "reaper", "inherit_env": false}"#,
        );
        let organisation = Organisation::read(&path).unwrap();
        let mut agent = AgentConfig::external("a", "x");
        agent.inherit_env = true;
        agent.credentials = vec!["A_KEY".into(), "B_KEY".into()];
        agent.env_passthrough = vec!["B_KEY".into()];
        let before = agent.clone();
        assert!(
            organisation
                .narrow(&mut agent)
                .unwrap_err()
                .to_string()
                .starts_with("run without a sandbox")
        );
        assert_eq!(agent, before);

        let mut sandbox = Sandbox::new(Backend::Bubblewrap);
        sandbox.network = Network::Allow(vec!["a.org".into(), "b.org".into()]);
        agent.sandbox = Some(sandbox);
        agent.allowed_domains = Some(vec!["b.org".into(), "a.org".into()]);
        let said = organisation.narrow(&mut agent).unwrap();
        assert_eq!(said.len(), 4, "{said:?}");
        assert!(
            said[3].contains("A_KEY") && !said[3].contains("B_KEY"),
            "{said:?}"
        );
        assert_eq!(
            (agent.credentials.len(), agent.env_passthrough.len()),
            (0, 1)
        );
        assert_eq!(
            agent.sandbox.as_ref().unwrap().network,
            Network::Allow(vec!["a.org".into()])
        );
        assert_eq!(agent.allowed_domains, Some(vec!["a.org".into()]));
        assert_eq!(
            (agent.resources.processes, agent.at_least),
            (Some(9), Containment::Reaper)
        );
        assert!(!agent.inherit_env);
        assert!(
            organisation.narrow(&mut agent).unwrap().is_empty(),
            "narrowing again takes nothing"
        );
    }
}
