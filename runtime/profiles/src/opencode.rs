//! opencode, and what it shares with kilo, its descendant: `opencode acp`, or `opencode run --format json` once a turn.

mod json;

use trunkline_sdk::Error;

use crate::acp::{Facts, Kind, Prepared, Shared, Transport, variable};
use crate::agent::options::Options;
use crate::agent::permission_rules::Unallowed;
use crate::agent::settings::{Common, settings};
use crate::agent::version::{Since, Version};
use crate::agent::{model, opencode_config, skills};

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
        /// Lets the agent run tools that no one is asked about, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// The model's provider, written before a model without one.
        provider: String = String::new(),
        /// The agent's mode when a session names none.
        mode: String = String::new(),
    }
}

/// The agent, as one of its family.
pub(crate) fn family(settings: Opencode) -> Family {
    Family {
        profile: "opencode",
        configuration: "OPENCODE_CONFIG_CONTENT",
        since: SINCE,
        use_when: "one agent is to work with many providers, with agents and commands of one's own",
        common: Common {
            takes_temperature: true,
            ..settings.common()
        },
        default_mode: "build",
        transport: settings.transport,
        dangerous: settings.dangerous,
        provider: settings.provider,
        mode: settings.mode,
    }
}

/// opencode or kilo.
#[derive(Clone)]
pub(crate) struct Family {
    pub(crate) profile: &'static str,
    /// The variable that holds configuration.
    pub(crate) configuration: &'static str,
    /// What its older versions lack.
    pub(crate) since: Since,
    /// What it is good for.
    pub(crate) use_when: &'static str,
    pub(crate) common: Common,
    pub(crate) transport: Transport,
    pub(crate) dangerous: bool,
    pub(crate) provider: String,
    pub(crate) mode: String,
    /// The mode that it works in when none is asked for.
    pub(crate) default_mode: &'static str,
}

impl Family {
    /// The temperature that a session asks for, and the mode that it is for.
    pub(crate) fn temperature<'a>(&'a self, options: &'a Options) -> Option<(&'a str, f64)> {
        let configured = Some(self.mode.as_str()).filter(|mode| !mode.is_empty());
        let mode = options
            .mode
            .as_deref()
            .or(configured)
            .unwrap_or(self.default_mode);
        Some((mode, options.temperature?))
    }

    /// What becomes of tools that no one has allowed, unless all of them are.
    pub(crate) fn unallowed(&self, unallowed: Unallowed) -> Option<Unallowed> {
        Some(unallowed).filter(|_| !self.dangerous)
    }

    /// That the agent cannot be made to ask.
    pub(crate) fn asks_no_one(&self) -> Error {
        Error::refused(format!(
            "`{}` is not a JSON object, so that the agent cannot be made to ask before its tools run; write it without \
             comments, or set `dangerous: true` in the agent's configuration",
            self.configuration
        ))
    }
}

impl Kind for Family {
    fn facts(&self) -> Facts<'_> {
        Facts {
            profile: self.profile,
            use_when: [self.use_when, "a turn must begin at once: it starts slowly"],
            honours: &["skills", "temperature"],
            transport: self.transport,
            since: self.since.of("acp"),
            is_dangerous: self.dangerous,
            mode: &self.mode,
            hangs_without_credentials: true,
            ..Facts::default()
        }
    }

    fn common(&self) -> Common {
        self.common.clone()
    }

    /// What asks, skills and instructions go by the variable that holds configuration, which the agent's own files do
    /// not lose anything to, but for what they allow unasked.
    fn prepare(
        &self,
        options: &Options,
        _: Option<Version>,
        shared: &Shared,
    ) -> Result<Prepared, Error> {
        let mut prepared = Prepared::new(options.launch().arg("acp"), options);
        let (skills, warnings) = skills::parse(&options.skills);
        prepared.warnings.extend(warnings);
        let skills = if skills.is_empty() {
            None
        } else {
            Some(shared.skills(&skills)?)
        };
        let prompt = options
            .system_prompt
            .as_deref()
            .map(|prompt| shared.prompt(prompt))
            .transpose()?;
        let configured = variable(options, self.configuration);
        let asked = self.unallowed(Unallowed::Asked);
        let temperature = self.temperature(options);
        let (skills_folder, prompt_file) = (skills.as_deref(), prompt.as_deref());
        match opencode_config::content(
            configured.as_deref(),
            asked,
            &[],
            skills_folder,
            prompt_file,
            temperature,
        ) {
            Ok(Some(content)) => {
                prepared.launch = prepared.launch.env(self.configuration, content);
                prepared.preface = None;
            }
            Ok(None) => {}
            Err(why) if self.dangerous => prepared.warnings.push(why),
            Err(_) => return Err(self.asks_no_one()),
        }
        prepared.kept.push(Box::new((skills, prompt)));
        Ok(prepared)
    }

    fn model(&self, asked: &str) -> String {
        model::split(asked, Some(&self.provider)).full()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kilo_code;

    fn configured(family: &Family) -> Option<serde_json::Value> {
        let options = Options::configured(&family.common);
        let prepared = family.prepare(&options, None, &Shared::default()).unwrap();
        let content = prepared
            .launch
            .env
            .get(std::ffi::OsStr::new(family.configuration))?;
        serde_json::from_str(content.to_str().unwrap()).unwrap()
    }

    #[test]
    fn by_default_whatever_acts_asks() {
        for mut family in [
            family(Opencode::default()),
            kilo_code::family(Default::default()),
        ] {
            let config = configured(&family).unwrap();
            for tool in ["*", "bash", "edit", "webfetch", "external_directory"] {
                assert_eq!(
                    config["permission"][tool], "ask",
                    "{} {tool}",
                    family.profile
                );
            }
            family.dangerous = true;
            assert_eq!(configured(&family), None);
            family.dangerous = false;
            family.common.env =
                [(family.configuration.to_owned(), "// mine\n{}".to_owned())].into();
            let options = Options::configured(&family.common);
            assert!(
                family.prepare(&options, None, &Shared::default()).is_err(),
                "it cannot be made to ask"
            );
        }
    }

    #[test]
    fn a_temperature_is_that_of_the_mode() {
        let start = |mode: Option<&str>| trunkline_sdk::SessionStart {
            temperature: Some(0.2),
            mode: mode.map(str::to_owned),
            ..Default::default()
        };
        for (mut family, mode) in [
            (family(Opencode::default()), "build"),
            (kilo_code::family(Default::default()), "code"),
        ] {
            let of = |family: &Family, mode| {
                let options = Options::of(&family.common, start(mode)).unwrap();
                let prepared = family.prepare(&options, None, &Shared::default()).unwrap();
                let content = &prepared.launch.env[std::ffi::OsStr::new(family.configuration)];
                serde_json::from_str::<serde_json::Value>(content.to_str().unwrap()).unwrap()["agent"].take()
            };
            assert_eq!(of(&family, None)[mode]["temperature"], 0.2);
            assert_eq!(of(&family, Some("plan"))["plan"]["temperature"], 0.2);
            family.mode = "own".to_owned();
            assert_eq!(of(&family, None)["own"]["temperature"], 0.2);
        }
    }
}
