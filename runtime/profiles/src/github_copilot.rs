//! GitHub Copilot CLI: `copilot --acp`, or `copilot -p` with JSON output once a turn.

mod json;

use std::ffi::OsString;

use trunkline_sdk::Error;

use crate::acp::{Facts, Kind, Prepared, Shared, Transport, home_folder, variable};
use crate::agent::launch::Launch;
use crate::agent::mcp;
use crate::agent::options::Options;
use crate::agent::settings::{Common, settings};
use crate::agent::version::{Since, Version};

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

impl Kind for Copilot {
    fn facts(&self) -> Facts<'_> {
        Facts {
            profile: "github-copilot",
            use_when: [
                "GitHub Copilot is what people have, or a provider of one's own behind it",
                "what a turn costs must be known: it counts in credits",
            ],
            honours: &["denied_tools", "skills"],
            transport: self.transport,
            since: SINCE.of("--acp"),
            is_dangerous: self.dangerous,
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
        let launch = options.launch().args(["--acp", "--no-auto-update"]);
        let launch = launch.option("--model", options.model.as_deref());
        let mut prepared = Prepared::new(self.permitted(launch, options, version), options);
        let effort = SINCE.need("--reasoning-effort", "`reasoning_effort`", version);
        if let Err(why) = effort
            && options.reasoning_effort.is_some()
        {
            prepared
                .warnings
                .push(format!("`reasoning_effort` is left out: {why}"));
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
        Self::give_servers(options, shared, &mut prepared)?;
        let home = home_folder(options, "COPILOT_HOME", ".copilot").map(|home| home.join("skills"));
        prepared.install_skills(options, home.as_deref());
        Ok(prepared)
    }

    fn minds_version(&self, options: &Options) -> bool {
        options.reasoning_effort.is_some() || self.max_autopilot_continues > 0
    }
}

impl Copilot {
    /// Gives MCP servers by a file, since over ACP the agent drops those that are programs, without a word.
    fn give_servers(
        options: &Options,
        shared: &Shared,
        prepared: &mut Prepared,
    ) -> Result<(), Error> {
        let (servers, warnings) = mcp::parse(&options.mcp_servers);
        prepared.warnings.extend(warnings);
        prepared.has_servers = true;
        if servers.is_empty() {
            return Ok(());
        }
        let (config, variables) = mcp::copilot_config(&servers);
        let file = shared.servers(&config)?;
        let mut at = OsString::from("@");
        at.push(file.path());
        let launch = prepared
            .launch
            .clone()
            .arg("--additional-mcp-config")
            .arg(at);
        prepared.launch = variables
            .iter()
            .fold(launch, |launch, (name, value)| launch.env(name, value));
        prepared.kept.push(Box::new(file));
        Ok(())
    }

    /// Gives effort, autopilot, tools and folders, however the agent is spoken to.
    fn permitted(&self, launch: Launch, options: &Options, version: Option<Version>) -> Launch {
        let has = |option| SINCE.has(option, version);
        let effort = options
            .reasoning_effort
            .as_deref()
            .filter(|_| has("--reasoning-effort"));
        let mut launch = launch.option("--reasoning-effort", effort);
        if self.max_autopilot_continues > 0 && has("--max-autopilot-continues") {
            launch = launch
                .arg("--max-autopilot-continues")
                .arg(self.max_autopilot_continues.to_string());
        }
        for tool in self.unasked(options) {
            launch = launch.arg(format!("--allow-tool={tool}"));
        }
        for tool in self
            .denied_tools
            .iter()
            .chain(options.denied_tools.iter().flatten())
        {
            launch = launch.arg(format!("--deny-tool={tool}"));
        }
        for folder in &options.add_dirs {
            launch = launch.arg("--add-dir").arg(folder);
        }
        if self.allows_all(options) {
            launch
        } else {
            launch.without("COPILOT_ALLOW_ALL")
        }
    }

    /// Whether every tool runs unasked.
    fn allows_all(&self, options: &Options) -> bool {
        self.dangerous && options.allowed_tools.is_none()
    }

    /// The tools that run unasked: the configured ones. A session narrows them; it widens them only where everything
    /// runs unasked anyway.
    fn unasked<'t>(&'t self, options: &'t Options) -> Vec<&'t String> {
        let is_allowed = |tool: &&String| self.dangerous || self.allowed_tools.contains(tool);
        match &options.allowed_tools {
            Some(asked) => asked.iter().filter(is_allowed).collect(),
            None => self.allowed_tools.iter().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn servers_go_by_one_file_for_all_sessions_that_give_the_same() {
        let (copilot, shared) = (Copilot::default(), Shared::default());
        let mut options = Options::configured(&copilot.common());
        let prepare = |options: &Options| Kind::prepare(&copilot, options, None, &shared).unwrap();
        let none = prepare(&options);
        assert!(none.has_servers && !format!("{:?}", none.launch.args).contains("mcp"));
        options.mcp_servers =
            vec![json!({"notes": {"command": "notes", "env": {"A_TOKEN": "a$b"}}, "bad name": {}})];
        let (one, two) = (prepare(&options), prepare(&options));
        assert!(one.launch == two.launch && one.warnings.len() == 1);
        let args: Vec<_> = one
            .launch
            .args
            .iter()
            .map(|arg| arg.to_string_lossy())
            .collect();
        let at = args
            .iter()
            .position(|arg| arg == "--additional-mcp-config")
            .unwrap();
        let path = args[at + 1].strip_prefix('@').unwrap().to_owned();
        let config = std::fs::read_to_string(&path).unwrap();
        assert!(
            config.contains(r#""command":"notes""#) && !config.contains("a$b"),
            "{config}"
        );
        assert!(one.launch.env.values().any(|value| value == "a$b"));
        drop((one, two));
        assert!(!std::path::Path::new(&path).exists());
    }
}
