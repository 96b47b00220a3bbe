//! Kilo Code: `kilo acp`, or `kilo run --format json` once a turn.

pub(crate) mod json;

use trunkline_sdk::{Adapter, Description, Error};

use self::json::Json;
use crate::acp::{Acp, AcpOr, Kind, Prepared, Shared, Transport, variable};
use crate::agent::options::Options;
use crate::agent::settings::Wait;
use crate::agent::settings::{Common, settings};
use crate::agent::version::Version;
use crate::agent::{model, opencode_config, skills};

settings! {
    /// The configuration, key `kilo`.
    struct Kilo, "kilo";
    {
        /// How the agent is spoken to.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools that nobody is asked about, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// The model's provider, written before a model without one.
        provider: String = String::new(),
        /// The agent's mode when a session names none.
        mode: String = String::new(),
        /// The longest turn, by the name that older configurations use; `turn_timeout` wins.
        timeout: Wait = Wait(None),
    }
}

/// The adapter.
pub(crate) fn adapter(settings: Kilo) -> impl Adapter {
    let mut settings = settings;
    settings.turn_timeout.0 = settings.turn_timeout.0.or(settings.timeout.0);
    let json = Json::new(settings.clone());
    let transport = settings.transport;
    AcpOr::new(Acp::new(settings), json, transport)
}

impl Kind for Kilo {
    fn profile(&self) -> &'static str {
        "kilo-code"
    }

    fn common(&self) -> Common {
        self.common()
    }

    fn describe(&self, description: Description) -> Description {
        description.config::<Self>().use_when(
            "one agent is to work with many providers",
            "a turn must begin at once: it starts slowly",
        )
    }

    fn prepare(&self, options: &Options, shared: &Shared) -> Result<Prepared, Error> {
        prepare(options, shared, "KILO_CONFIG_CONTENT")
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
        Some(Version(1, 0, 0))
    }

    fn honours(&self) -> &'static [&'static str] {
        &["skills"]
    }

    fn hangs_without_credentials(&self) -> bool {
        true
    }
}

/// How kilo and opencode are started, which have one origin: skills and instructions by the variable that holds
/// configuration, which their own files do not lose anything to.
pub(crate) fn prepare(options: &Options, shared: &Shared, configuration: &str) -> Result<Prepared, Error> {
    let mut prepared = Prepared::new(options.launch().arg("acp"), options);
    let (skills, warnings) = skills::parse(&options.skills);
    prepared.warnings.extend(warnings);
    let skills = if skills.is_empty() { None } else { Some(shared.skills(&skills)?) };
    let prompt = options.system_prompt.as_deref().map(|prompt| shared.prompt(prompt)).transpose()?;
    let configured = variable(options, configuration);
    match opencode_config::content(configured.as_deref(), &[], skills.as_deref(), prompt.as_deref()) {
        Ok(Some(content)) => {
            prepared.launch = prepared.launch.env(configuration, content);
            prepared.preface = None;
        }
        Ok(None) => {}
        Err(why) => prepared.warnings.push(why),
    }
    prepared.kept.push(Box::new((skills, prompt)));
    Ok(prepared)
}
