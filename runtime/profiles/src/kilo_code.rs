//! Kilo Code: `kilo acp`, or `kilo run --format json` once a turn, as [`opencode`](crate::opencode).

use trunkline_sdk::{Adapter, Description};

use crate::acp::Transport;
use crate::agent::settings::{Wait, settings};
use crate::agent::version::{Since, Version};
use crate::oneshot;
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

/// The adapter.
pub(crate) fn adapter(settings: Kilo) -> impl Adapter {
    let transport = settings.transport;
    oneshot::beside_acp(family(settings), transport)
}

pub(crate) fn family(mut settings: Kilo) -> Family {
    settings.turn_timeout.0 = settings.turn_timeout.0.or(settings.timeout.0);
    let describe = |description: Description| {
        description.use_when(
            "one agent is to work with many providers",
            "a turn must begin at once: it starts slowly",
        )
    };
    Family {
        profile: "kilo-code",
        configuration: "KILO_CONFIG_CONTENT",
        since: SINCE,
        describe,
        common: settings.common(),
        dangerous: settings.dangerous,
        provider: settings.provider,
        mode: settings.mode,
    }
}
