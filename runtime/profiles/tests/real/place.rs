//! Resources of one scenario of one agent: folders, a fake model, and hosts.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::Instant,
};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::{
    agents::Agent,
    hub::{Hub, Step, expect},
    model::Model,
    orphans,
};

/// The id of the agent in the configuration.
const ID: &str = "agent";

/// The variable that chooses the transport to agents with several.
const TRANSPORT: &str = "TRUNKLINE_REAL_TRANSPORT";

/// A secret that the agent's entry names; no agent needs it.
pub(crate) const SECRET: &str = "trial-4f1c9e0b7a6d2835";

/// Presence of the agent's credentials.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Credentials {
    There,
    Missing,
    /// Absent, and without a custom provider: only a login is left.
    NoLogin,
}

/// A place of its own. Dropping removes it.
#[derive(Debug)]
pub(crate) struct Place {
    folder: TempDir,
    program: PathBuf,
    pub(crate) agent: &'static Agent,
    pub(crate) model: Model,
    pub(crate) deadline: Instant,
}

impl Place {
    /// Makes one for an agent; `program` is `trunkline`.
    pub(crate) fn new(agent: &'static Agent, program: &Path, deadline: Instant) -> Step<Self> {
        let folder = TempDir::with_prefix("real-")
            .map_err(|error| format!("failed to make a folder: {error}"))?;
        let model = Model::start(folder.path().join("requests.jsonl"))?;
        let place = Self {
            folder,
            program: program.to_owned(),
            agent,
            model,
            deadline,
        };
        for part in ["home", "work", "elsewhere", "tmp", "spool"] {
            fs::create_dir(place.path(part))
                .map_err(|error| format!("failed to make a folder: {error}"))?;
        }
        let made = Command::new("git")
            .args(["init", "-q"])
            .arg(place.work())
            .env("HOME", place.home())
            .status();
        expect(
            made.is_ok_and(|status| status.success()),
            "a repository made by git",
            "none",
        )?;
        place.write("work/README.md", "# a project to try agents on\n")?;
        Ok(place)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.path("home")
    }

    /// The working directory of sessions.
    pub(crate) fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// Writes a file of this place, and the folders above it.
    pub(crate) fn write(&self, name: &str, content: &str) -> Step {
        let path = self.path(name);
        let written = path
            .parent()
            .map_or(Ok(()), fs::create_dir_all)
            .and_then(|()| fs::write(&path, content));
        written.map_err(|error| format!("failed to write {}: {error}", path.display()))
    }

    /// Starts a host with this agent.
    pub(crate) fn host(&self, credentials: Credentials) -> Step<Hub> {
        let mut serve = self.serve(credentials)?;
        Hub::start(&mut serve, self.deadline)
    }

    /// Starts a host that logs all there is, its adapter's lines too, into a file: the path of that.
    pub(crate) fn logging_host(&self) -> Step<(Hub, PathBuf)> {
        let mut serve = self.serve(Credentials::There)?;
        let log = self.path("log");
        serve
            .arg("--log-file")
            .arg(&log)
            .env("TRUNKLINE_LOG", "trace");
        Ok((Hub::start(&mut serve, self.deadline)?, log))
    }

    /// The command that starts a host; its configuration is written.
    fn serve(&self, credentials: Credentials) -> Step<Command> {
        (self.agent.settle)(self, credentials)?;
        let environment: BTreeMap<_, _> = (self.agent.environment)(self)
            .into_iter()
            .filter(|(name, _)| {
                credentials == Credentials::There || !self.agent.secrets.contains(name)
            })
            .chain([("TRIAL_TOKEN", SECRET.to_owned())])
            .collect();
        let mut entry = json!({
            "id": ID, "profile": self.agent.profile, "env": environment, "allowed_dirs": [self.work(), self.path("elsewhere")],
            "session_may": ["mcp_servers", "mode", "allowed_tools"], "start_timeout": "90s", "turn_timeout": "150s", "stop_timeout": "30s",
        });
        if let Some((key, object)) = (self.agent.configuration)(self) {
            entry[key] = object;
            if let Ok(transport) = std::env::var(TRANSPORT) {
                entry[key]["transport"] = transport.into();
            }
        }
        let configuration = json!({
            "agents": [entry],
            "runtime": {"spool_dir": self.path("spool"), "state_dir": self.path("home/state")},
        });
        self.write("trunkline.json", &format!("{configuration:#}\n"))?;
        let mut serve = Command::new(&self.program);
        serve
            .arg("--config")
            .arg(self.path("trunkline.json"))
            .arg("serve")
            .current_dir(self.work());
        serve.env_clear().envs(self.variables());
        Ok(serve)
    }

    /// The environment of a host.
    fn variables(&self) -> Vec<(&'static str, std::ffi::OsString)> {
        let home = self.home();
        vec![
            ("PATH", super::agents::search_path()),
            ("TMPDIR", self.path("tmp").into()),
            ("LANG", "C.UTF-8".into()),
            ("TERM", "dumb".into()),
            ("USER", "somebody".into()),
            ("HOME", home.into()),
        ]
    }

    /// Opens a session in the working directory.
    pub(crate) fn open(&self, hub: &mut Hub, session: &str, further: &Value) -> Step {
        let mut options = json!({"cwd": self.work()});
        if let Some(options) = options.as_object_mut() {
            options.extend(
                (self.agent.session)()
                    .as_object()
                    .cloned()
                    .unwrap_or_default(),
            );
            options.extend(further.as_object().cloned().unwrap_or_default());
        }
        hub.open(session, &options)
    }

    /// Ends a host, and fails where it left something behind.
    pub(crate) fn end(&self, hub: Hub) -> Step {
        let status = hub.end()?;
        expect(status.success(), "a host that ends with status 0", status)?;
        orphans::none_of(&self.home())?;
        let left: Vec<_> = fs::read_dir(self.path("tmp"))
            .map_err(|error| format!("failed to list the temporary folder: {error}"))?
            .flatten()
            .map(|entry| entry.file_name().to_string_lossy().into_owned())
            .filter(|name| name.starts_with("trunkline"))
            .collect();
        expect(
            left.is_empty(),
            "no folder of the host left behind",
            format_args!("{left:?}"),
        )
    }
}
