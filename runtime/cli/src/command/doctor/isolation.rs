//! What the process would be held in, and why it is not something better.

use trunkline_host::config::{AgentConfig, Network, Resources};
use trunkline_host::process::{Containment, Support};

use super::report::{Check, Code};

/// The containment.
pub(super) fn containment(agent: &AgentConfig, support: &Support) -> Check {
    let asked = agent.containment;
    match support.choose(asked) {
        Ok(choice) => {
            let what = match choice.used {
                Containment::Namespace => {
                    "namespace: the kernel ends all it starts, also when the host is killed"
                }
                Containment::Reaper => {
                    "reaper: a small process ends all it starts, also when the host is killed"
                }
                _ => "group: what leaves the process group outlives it",
            };
            match choice.why_not_better {
                None => Check::new(Code::ContainmentUsed, what),
                Some(why) => Check::new(Code::ContainmentWeaker, what)
                    .detail(format!("nothing better works here: {why}")),
            }
        }
        Err(why) => {
            Check::new(Code::ContainmentUnavailable, format!("{asked} was asked for and does not work here"))
                .detail(why)
                .hint("write `\"containment\": \"auto\"`, or make it work")
        }
    }
}

/// The limits, as they are asked for.
pub(super) fn limits(resources: &Resources) -> Vec<Check> {
    let number = |limit: Option<u64>| limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string());
    let memory = resources.memory.map_or_else(|| "no limit".to_owned(), |bytes| format!("{bytes} bytes"));
    let (processes, open_files) = (number(resources.processes), number(resources.open_files));
    let message = format!("processes: {processes}, open files: {open_files}, memory: {memory}");
    vec![Check::new(Code::LimitsEnforced, message)]
}

/// The sandbox.
pub(super) fn sandbox(agent: &AgentConfig) -> Check {
    let Some(sandbox) = &agent.sandbox else {
        return Check::new(Code::SandboxNone, "none: it may read, write and reach what the host's user may");
    };
    let network = match &sandbox.network {
        Network::None => "no network".to_owned(),
        Network::All => "the whole network".to_owned(),
        Network::Allow(names) => format!("{} names of the network", names.len()),
    };
    Check::new(Code::SandboxUsed, format!("{:?}, {network}", sandbox.backend))
}
