//! Gemini CLI: `gemini --acp`, or `gemini --output-format stream-json` once a turn.

mod json;
mod repetition;

use std::time::{Duration, SystemTime};

use trunkline_sdk::Error;

use crate::acp::{Facts, Kind, Prepared, Shared, Transport, home_folder};
use crate::agent::launch::Launch;
use crate::agent::options::Options;
use crate::agent::settings::{Common, settings};
use crate::agent::version::{Since, Version};

/// The most projects of the agent's own that are looked through.
const MOST_PROJECTS: usize = 4096;

/// What not every version has, by its `--help`; but what `--experimental-acp` spoke before 0.17 is not known.
const SINCE: Since = Since {
    agent: "gemini",
    update: "npm install -g @google/gemini-cli",
    first: &[
        ("--resume", Version(0, 15, 4)),
        ("--experimental-acp", Version(0, 17, 0)),
        ("--acp", Version(0, 33, 0)),
        ("--session-id", Version(0, 41, 2)),
    ],
};

settings! {
    /// The configuration, key `gemini`.
    struct Gemini, "gemini";
    {
        /// How the agent is spoken to.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools that no one is asked about, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// How tools are permitted: `default`, `auto_edit`, `plan`; `yolo` only with `dangerous`.
        approval_mode: String = String::new(),
        /// A file whose text takes the place of the agent's own instructions.
        system_prompt_file: String = String::new(),
        /// More directories that the agent may work in.
        include_directories: Vec<String> = Vec::new(),
        /// Runs the agent's tools in its own sandbox.
        sandbox: bool = false,
    }
}

impl Kind for Gemini {
    fn facts(&self) -> Facts<'_> {
        Facts {
            profile: "gemini-cli",
            use_when: [
                "Gemini CLI is the agent of choice, with people asked before its tools run",
                "only the model is wanted: its API needs no CLI",
            ],
            honours: &["system_prompt_mode", "skills"],
            transport: self.transport,
            since: SINCE.of("--experimental-acp"),
            is_dangerous: self.dangerous,
            mode: &self.approval_mode,
            starts_with_model: true,
            ..Facts::default()
        }
    }

    fn common(&self) -> Common {
        self.common()
    }

    fn prepare(
        &self,
        options: &Options,
        version: Option<Version>,
        shared: &Shared,
    ) -> Result<Prepared, Error> {
        let acp = if SINCE.has("--acp", version) {
            "--acp"
        } else {
            "--experimental-acp"
        };
        let launch = options
            .launch()
            .arg(acp)
            .option("-m", options.model.as_deref());
        let mut prepared = Prepared::new(self.confined(launch, options), options);
        if let Some(prompt) = options
            .system_prompt
            .as_deref()
            .filter(|_| options.replaces_system_prompt)
        {
            let file = shared.prompt(prompt)?;
            prepared.launch = prepared.launch.env("GEMINI_SYSTEM_MD", file.path());
            prepared.kept.push(Box::new(file));
            prepared.preface = None;
        } else if !self.system_prompt_file.is_empty() {
            prepared.launch = prepared
                .launch
                .env("GEMINI_SYSTEM_MD", &self.system_prompt_file);
        }
        let home =
            home_folder(options, "GEMINI_CLI_HOME", "").map(|home| home.join(".gemini/skills"));
        prepared.install_skills(options, home.as_deref());
        Ok(prepared)
    }

    fn minds_version(&self, _: &Options) -> bool {
        true
    }

    fn mode(&self, asked: &str) -> String {
        if asked == "auto_edit" {
            "autoEdit".to_owned()
        } else {
            asked.to_owned()
        }
    }

    /// The agent keeps a session in a file named by the minute in which it was begun or resumed, and begins that file
    /// anew where it is there already: a session resumed within that minute would be lost.
    fn wait_to_resume(&self, options: &Options, id: &str) -> Option<Duration> {
        let folders = home_folder(options, "GEMINI_CLI_HOME", "")?.join(".gemini/tmp");
        let now = SystemTime::now();
        let file = kept_in(id, now);
        let folders = std::fs::read_dir(folders)
            .ok()?
            .take(MOST_PROJECTS)
            .filter_map(Result::ok);
        let is_there = folders
            .into_iter()
            .any(|folder| folder.path().join("chats").join(&file).exists());
        let into = now.duration_since(SystemTime::UNIX_EPOCH).ok()?.as_secs() % 60;
        is_there.then(|| Duration::from_secs(61 - into))
    }
}

impl Gemini {
    /// Says where the agent works, however it is spoken to.
    fn confined(&self, launch: Launch, options: &Options) -> Launch {
        let launch = if self.sandbox {
            launch.arg("--sandbox")
        } else {
            launch
        };
        let folders = self.include_directories.iter().chain(&options.add_dirs);
        folders.fold(launch, |launch, folder| {
            launch.arg("--include-directories").arg(folder)
        })
    }
}

/// The name of the file in which the agent keeps a session that it begins now.
fn kept_in(id: &str, now: SystemTime) -> String {
    let time = humantime::format_rfc3339_seconds(now)
        .to_string()
        .replace(':', "-");
    let (minute, id) = (
        &time[..time.floor_char_boundary(16)],
        &id[..id.floor_char_boundary(8)],
    );
    format!("session-{minute}-{id}.jsonl")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_kept_by_its_minute() {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_291_402);
        assert_eq!(
            kept_in("f379b062-75a9-492d", time),
            "session-2026-11-21T20-03-f379b062.jsonl"
        );
        assert_eq!(kept_in("", time), "session-2026-11-21T20-03-.jsonl");
    }

    #[test]
    fn a_session_of_this_minute_waits_for_the_next() {
        let home = tempfile::tempdir().unwrap();
        let chats = home.path().join(".gemini/tmp/project/chats");
        std::fs::create_dir_all(&chats).unwrap();
        let gemini = Gemini::default();
        let mut options = Options::configured(&gemini.common());
        options.env.insert(
            "GEMINI_CLI_HOME".to_owned(),
            home.path().to_string_lossy().into_owned(),
        );
        assert_eq!(gemini.wait_to_resume(&options, "f379b062-75a9"), None);
        let now = SystemTime::now();
        for time in [now, now + Duration::from_secs(60)] {
            std::fs::write(chats.join(kept_in("f379b062-75a9", time)), "").unwrap();
        }
        let wait = gemini.wait_to_resume(&options, "f379b062-75a9").unwrap();
        assert!((1..=61).contains(&wait.as_secs()), "{wait:?}");
        assert_eq!(gemini.wait_to_resume(&options, "00000000-75a9"), None);
    }
}
