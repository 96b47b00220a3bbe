//! Gemini CLI: `gemini --acp`, or `gemini --output-format stream-json` once a turn.

mod held;
mod json;

use trunkline_sdk::{Adapter, Description, Error};

use self::json::Json;
use crate::acp::{Acp, AcpOr, Kind, Prepared, Shared, Transport, home_folder};
use crate::agent::options::Options;
use crate::agent::settings::{Common, settings};
use crate::agent::version::Version;

settings! {
    /// The configuration, key `gemini`.
    struct Gemini, "gemini";
    {
        /// How the agent is spoken to.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools that nobody is asked about, and sessions choose modes of that kind.
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

/// The adapter.
pub(crate) fn adapter(settings: Gemini) -> impl Adapter {
    let json = Json::new(settings.clone());
    let transport = settings.transport;
    AcpOr::new(Acp::new(settings), json, transport)
}

impl Kind for Gemini {
    fn profile(&self) -> &'static str {
        "gemini-cli"
    }

    fn common(&self) -> Common {
        self.common()
    }

    fn describe(&self, description: Description) -> Description {
        description.config::<Self>()
    }

    fn prepare(&self, options: &Options, shared: &Shared) -> Result<Prepared, Error> {
        let mut launch = options.launch().arg("--acp").option("-m", options.model.as_deref());
        if self.sandbox {
            launch = launch.arg("--sandbox");
        }
        for folder in self.include_directories.iter().chain(&options.add_dirs) {
            launch = launch.arg("--include-directories").arg(folder);
        }
        let mut prepared = Prepared::new(launch, options);
        if let Some(prompt) = options.system_prompt.as_deref().filter(|_| options.replaces_system_prompt) {
            let file = shared.prompt(prompt)?;
            prepared.launch = prepared.launch.env("GEMINI_SYSTEM_MD", file.path());
            prepared.kept.push(Box::new(file));
            prepared.preface = None;
        } else if !self.system_prompt_file.is_empty() {
            prepared.launch = prepared.launch.env("GEMINI_SYSTEM_MD", &self.system_prompt_file);
        }
        let home = home_folder(options, "GEMINI_CLI_HOME", ".gemini").map(|home| home.join("skills"));
        prepared.install_skills(options, home.as_deref());
        Ok(prepared)
    }

    fn is_dangerous(&self) -> bool {
        self.dangerous
    }

    fn mode(&self, asked: &str) -> String {
        if asked == "auto_edit" { "autoEdit".to_owned() } else { asked.to_owned() }
    }

    fn default_mode(&self) -> Option<String> {
        Some(self.mode(&self.approval_mode)).filter(|mode| !mode.is_empty())
    }

    fn starts_with_model(&self) -> bool {
        true
    }

    fn since(&self) -> Option<Version> {
        Some(Version(0, 33, 0))
    }

    fn honours(&self) -> &'static [&'static str] {
        &["system_prompt_mode", "skills"]
    }
}
