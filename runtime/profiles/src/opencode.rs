//! opencode, and what it shares with kilo, its descendant: `opencode acp`, or `opencode run --format json` once a turn.

mod json;

use trunkline_sdk::{Adapter, Description, Error};

use crate::acp::{Kind, Prepared, Shared, Transport, variable};
use crate::agent::options::Options;
use crate::agent::settings::{Common, settings};
use crate::agent::version::{Since, Version};
use crate::agent::{model, opencode_config, skills};
use crate::oneshot;

/// What not every version has, by its `--help`.
const SINCE: Since = Since {
    agent: "opencode",
    update: "npm install -g opencode-ai",
    first: &[
        ("acp", Version(1, 0, 0)),
        ("--format", Version(1, 0, 0)),
        ("--variant", Version(1, 1, 11)),
        ("--thinking", Version(1, 1, 56)),
        ("--auto", Version(1, 17, 18)),
    ],
};

settings! {
    /// The configuration, key `opencode`.
    struct Opencode, "opencode";
    {
        /// How the agent is spoken to.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools that nobody is asked about, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// The model's provider, written before a model without one.
        provider: String = String::new(),
        /// The agent's mode when a session names none.
        mode: String = String::new(),
    }
}

/// The adapter.
pub(crate) fn adapter(settings: Opencode) -> impl Adapter {
    let describe = |description: Description| {
        description.use_when(
            "one agent is to work with many providers, with agents and commands of one's own",
            "a turn must begin at once: it starts slowly",
        )
    };
    let family = Family {
        profile: "opencode",
        configuration: "OPENCODE_CONFIG_CONTENT",
        since: SINCE,
        describe,
        common: settings.common(),
        dangerous: settings.dangerous,
        provider: settings.provider,
        mode: settings.mode,
    };
    oneshot::beside_acp(family, settings.transport)
}

/// opencode or kilo.
#[derive(Clone)]
pub(crate) struct Family {
    pub(crate) profile: &'static str,
    /// The variable that holds configuration.
    pub(crate) configuration: &'static str,
    /// What its older versions lack.
    pub(crate) since: Since,
    /// Adds what the profile says of itself.
    pub(crate) describe: fn(Description) -> Description,
    pub(crate) common: Common,
    pub(crate) dangerous: bool,
    pub(crate) provider: String,
    pub(crate) mode: String,
}

impl Kind for Family {
    fn profile(&self) -> &'static str {
        self.profile
    }

    fn common(&self) -> Common {
        self.common.clone()
    }

    fn describe(&self, description: Description) -> Description {
        (self.describe)(description)
    }

    /// Skills and instructions go by the variable that holds configuration, which the agent's own files do not lose
    /// anything to.
    fn prepare(&self, options: &Options, _: Option<Version>, shared: &Shared) -> Result<Prepared, Error> {
        let mut prepared = Prepared::new(options.launch().arg("acp"), options);
        let (skills, warnings) = skills::parse(&options.skills);
        prepared.warnings.extend(warnings);
        let skills = if skills.is_empty() { None } else { Some(shared.skills(&skills)?) };
        let prompt = options.system_prompt.as_deref().map(|prompt| shared.prompt(prompt)).transpose()?;
        let configured = variable(options, self.configuration);
        match opencode_config::content(configured.as_deref(), &[], skills.as_deref(), prompt.as_deref()) {
            Ok(Some(content)) => {
                prepared.launch = prepared.launch.env(self.configuration, content);
                prepared.preface = None;
            }
            Ok(None) => {}
            Err(why) => prepared.warnings.push(why),
        }
        prepared.kept.push(Box::new((skills, prompt)));
        Ok(prepared)
    }

    fn is_dangerous(&self) -> bool {
        self.dangerous
    }

    fn default_mode(&self) -> Option<String> {
        Some(self.mode.clone()).filter(|mode| !mode.is_empty())
    }

    fn model(&self, asked: &str) -> String {
        model::split(asked, Some(&self.provider)).full()
    }

    fn since(&self) -> Option<Version> {
        self.since.of("acp")
    }

    fn honours(&self) -> &'static [&'static str] {
        &["skills"]
    }

    fn hangs_without_credentials(&self) -> bool {
        true
    }
}
