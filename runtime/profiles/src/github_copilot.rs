//! GitHub Copilot CLI: `copilot --acp`, or `copilot -p` with JSON output once a turn.

mod json;

use trunkline_sdk::{Adapter, Description, Error};

use crate::acp::{Kind, Prepared, Shared, Transport, home_folder, variable};
use crate::agent::options::Options;
use crate::agent::settings::{Common, settings};
use crate::agent::version::{Since, Version};
use crate::oneshot;

/// The variable that names folders with instructions, with commas between.
const INSTRUCTIONS: &str = "COPILOT_CUSTOM_INSTRUCTIONS_DIRS";

/// Options that not every version has, by its `--help`; but 0.0.394 hides its `--acp`, and asks no one before.
const SINCE: Since = Since {
    agent: "copilot",
    update: "npm install -g @github/copilot",
    first: &[
        ("--acp", Version(0, 0, 394)),
        ("--max-autopilot-continues", Version(0, 0, 417)),
        ("--output-format", Version(0, 0, 423)),
        ("--reasoning-effort", Version(1, 0, 11)),
        ("--session-id", Version(1, 0, 57)),
        ("--usage-output-file", Version(1, 0, 81)),
    ],
};

settings! {
    /// The configuration, key `copilot`.
    struct Copilot, "copilot";
    {
        /// How the agent is spoken to.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools that no one is asked about, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// Tools that run unasked.
        allowed_tools: Vec<String> = Vec::new(),
        /// Tools that never run.
        denied_tools: Vec<String> = Vec::new(),
        /// The most turns that the agent takes by itself in autopilot.
        max_autopilot_continues: u32 = 0,
    }
}

/// The adapter.
pub(crate) fn adapter(settings: Copilot) -> impl Adapter {
    let transport = settings.transport;
    oneshot::beside_acp(settings, transport)
}

impl Kind for Copilot {
    fn profile(&self) -> &'static str {
        "github-copilot"
    }

    fn common(&self) -> Common {
        self.common()
    }

    fn describe(&self, description: Description) -> Description {
        description.use_when(
            "GitHub Copilot is what people have, or a provider of one's own behind it",
            "what a turn costs must be known: it counts in credits",
        )
    }

    fn prepare(
        &self,
        options: &Options,
        version: Option<Version>,
        shared: &Shared,
    ) -> Result<Prepared, Error> {
        let effort = SINCE.need("--reasoning-effort", "`reasoning_effort`", version);
        let mut launch = options
            .launch()
            .args(["--acp", "--no-auto-update"])
            .option("--model", options.model.as_deref())
            .option("--reasoning-effort", options.reasoning_effort.as_deref().filter(|_| effort.is_ok()));
        if self.max_autopilot_continues > 0 && SINCE.has("--max-autopilot-continues", version) {
            launch = launch.arg("--max-autopilot-continues").arg(self.max_autopilot_continues.to_string());
        }
        for tool in unasked(&self.allowed_tools, self.dangerous, options) {
            launch = launch.arg(format!("--allow-tool={tool}"));
        }
        for tool in self.denied_tools.iter().chain(options.denied_tools.iter().flatten()) {
            launch = launch.arg(format!("--deny-tool={tool}"));
        }
        for folder in &options.add_dirs {
            launch = launch.arg("--add-dir").arg(folder);
        }
        if !self.dangerous || options.allowed_tools.is_some() {
            launch = launch.without("COPILOT_ALLOW_ALL");
        }
        let mut prepared = Prepared::new(launch, options);
        if let Err(why) = effort
            && options.reasoning_effort.is_some()
        {
            prepared.warnings.push(format!("`reasoning_effort` is left out: {why}"));
        }
        if let Some(prompt) = &options.system_prompt {
            let folder = shared.instructions(prompt)?;
            let mut folders = folder.path().as_os_str().to_owned();
            if let Some(own) = variable(options, INSTRUCTIONS) {
                folders.push(",");
                folders.push(own);
            }
            prepared.launch = prepared.launch.env(INSTRUCTIONS, folders);
            prepared.kept.push(Box::new(folder));
            prepared.preface = None;
        }
        let home = home_folder(options, "COPILOT_HOME", ".copilot").map(|home| home.join("skills"));
        prepared.install_skills(options, home.as_deref());
        Ok(prepared)
    }

    fn minds_version(&self, options: &Options) -> bool {
        options.reasoning_effort.is_some() || self.max_autopilot_continues > 0
    }

    fn is_dangerous(&self) -> bool {
        self.dangerous
    }

    fn starts_with_model(&self) -> bool {
        true
    }

    fn since(&self) -> Option<Version> {
        SINCE.of("--acp")
    }

    fn honours(&self) -> &'static [&'static str] {
        &["denied_tools", "skills"]
    }
}

/// The tools that run unasked: the configured ones. A session narrows them; it widens them only where everything runs
/// unasked anyway.
fn unasked<'t>(configured: &'t [String], all: bool, options: &'t Options) -> Vec<&'t String> {
    match &options.allowed_tools {
        Some(asked) => asked.iter().filter(|tool| all || configured.contains(tool)).collect(),
        None => configured.iter().collect(),
    }
}
