//! Kilo Code: `kilo acp`, or `kilo run --format json` once a turn, as [`opencode`](crate::opencode).

use crate::acp::Transport;
use crate::agent::settings::{Common, Wait, settings};
use crate::agent::version::{Since, Version};
use crate::opencode::Family;

/// What not every version has. The oldest one that was tried is 7.0.33, which has all of it.
const SINCE: Since = Since {
    agent: "kilo",
    update: "npm install -g @kilocode/cli",
    first: &[("acp", Version(1, 0, 0)), ("--format", Version(1, 0, 0))],
};

settings! {
    /// The configuration, key `kilo`.
    struct Kilo, "kilo";
    {
        /// How the agent is spoken to.
        transport: Transport = Transport::Acp,
        /// Lets the agent run tools that no one is asked about, and sessions choose modes of that kind.
        dangerous: bool = false,
        /// The model's provider, written before a model without one.
        provider: String = String::new(),
        /// The agent's mode when a session names none.
        mode: String = String::new(),
        /// The longest turn, by the name that older configurations use; `turn_timeout` wins.
        timeout: Wait = Wait(None),
    }
}

/// The agent, as one of opencode's family.
pub(crate) fn family(mut settings: Kilo) -> Family {
    settings.turn_timeout.0 = settings.turn_timeout.0.or(settings.timeout.0);
    Family {
        profile: "kilo-code",
        configuration: "KILO_CONFIG_CONTENT",
        since: SINCE,
        use_when: "one agent is to work with many providers",
        common: Common {
            takes_temperature: true,
            ..settings.common()
        },
        default_mode: "code",
        transport: settings.transport,
        dangerous: settings.dangerous,
        provider: settings.provider,
        mode: settings.mode,
    }
}
