//! What the process would be held in, and why it is not something better.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use trunkline_host::config::{AgentConfig, Backend, Network, Resources};
use trunkline_host::process::{
    ChildSpec, Containment, Enforcer, Environment, LimitSupport, Support, containment_support,
    limit_support, shown_size,
};
use trunkline_host::sandbox::{self, Inside, Outlet};

use super::report::{Check, Code};

/// What works on this machine.
#[derive(Debug)]
pub(super) struct Means {
    pub(super) containment: Support,
    pub(super) limits: LimitSupport,
}

impl Means {
    /// Finds out, by trying. Blocks.
    pub(super) fn look() -> Self {
        Self {
            containment: containment_support(),
            limits: limit_support(),
        }
    }
}

/// The containment.
pub(super) fn containment(agent: &AgentConfig, support: &Support) -> Check {
    let asked = agent.containment;
    match support.choose(asked, agent.at_least) {
        Ok(choice) => {
            let what = match choice.used {
                Containment::Namespace => {
                    "namespace: the kernel ends all it starts, even when the host is killed"
                }
                Containment::Reaper => {
                    "reaper: a small process ends all it starts, even when the host is killed"
                }
                _ => "group: what leaves the process group outlives it",
            };
            match choice.why_not_better {
                None => Check::new(Code::ContainmentUsed, what),
                Some(why) => Check::new(Code::ContainmentWeaker, what)
                    .detail(format!("nothing better works here: {why}")),
            }
        }
        Err(why) => Check::new(
            Code::ContainmentUnavailable,
            format!("{asked} was asked for, and it cannot be used"),
        )
        .detail(why)
        .hint("write `\"containment\": \"auto\"`, or make it work"),
    }
}

/// The limits, and who makes them hold.
pub(super) fn limits(asked: &Resources, support: &LimitSupport) -> Vec<Check> {
    let rows = [
        (
            "processes",
            asked.processes,
            asked.processes.map(|n| n.to_string()),
            &support.processes,
            Scope::Tree,
        ),
        (
            "open files",
            asked.open_files,
            asked.open_files.map(|n| n.to_string()),
            &support.open_files,
            Scope::Process,
        ),
        (
            "memory",
            asked.memory,
            asked.memory.map(shown_size),
            &support.memory,
            Scope::Tree,
        ),
    ];
    let mut said = Vec::new();
    let mut checks = Vec::new();
    for (what, limit, shown, enforcement, scope) in rows {
        let Some(shown) = shown else {
            said.push(format!("{what}: no limit"));
            continue;
        };
        said.push(format!("{what}: {shown} by {}", enforcement.by));
        let is_default = what == "processes" && limit == Some(Resources::PROCESSES);
        let problem = match (enforcement.by, scope) {
            _ if is_default => None,
            (Enforcer::Nothing, _) => Some("is not enforced here"),
            (Enforcer::Rlimit, Scope::Tree) => Some("holds for less than the whole tree here"),
            _ => None,
        };
        if let Some(problem) = problem {
            let check = Check::new(Code::LimitsWeaker, format!("the limit of {what} {problem}"));
            checks.push(match &enforcement.not_better {
                Some(why) => check.detail(why),
                None => check,
            });
        }
    }
    checks.insert(0, Check::new(Code::LimitsEnforced, said.join(", ")));
    checks
}

/// What a limit is meant for.
#[derive(Clone, Copy)]
enum Scope {
    Tree,
    Process,
}

/// The image of its container.
pub(super) fn image(agent: &AgentConfig) -> Option<&str> {
    match &agent.sandbox.as_ref()?.backend {
        Backend::Podman { image, .. } | Backend::Docker { image, .. } => Some(image),
        Backend::Bubblewrap => None,
    }
}

/// Skills and MCP servers bring in texts and programs of others. With an open network they can
/// carry data out.
pub(super) fn exfiltration(agent: &AgentConfig) -> Option<Check> {
    let is_open = agent
        .sandbox
        .as_ref()
        .is_none_or(|sandbox| matches!(sandbox.network, Network::All));
    let brought = brought(agent.config.as_ref()?);
    if !is_open || brought.is_empty() {
        return None;
    }
    let what = brought
        .iter()
        .map(|key| format!("`{key}`"))
        .collect::<Vec<_>>()
        .join(", ");
    let check = Check::new(
        Code::NetworkOpen,
        format!("{what} and an open network: what the agent reads can leave"),
    );
    Some(check.hint("give it a `sandbox` with `allowed_domains`, or leave them out"))
}

/// The keys of a profile's object that bring in skills or servers.
fn brought(config: &serde_json::Value) -> Vec<&'static str> {
    let is_given = |key: &&str| match &config[*key] {
        serde_json::Value::Null | serde_json::Value::Bool(false) => false,
        serde_json::Value::String(text) => !text.is_empty(),
        serde_json::Value::Array(list) => !list.is_empty(),
        serde_json::Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    ["skills", "mcp_servers", "commands_dir", "project_mcp"]
        .into_iter()
        .filter(is_given)
        .collect()
}

/// The sandbox. `inside` is whether what it is to be given can be given.
pub(super) async fn sandbox(agent: &AgentConfig, inside: Result<(), String>) -> Vec<Check> {
    let Some(sandbox) = &agent.sandbox else {
        return vec![Check::new(
            Code::SandboxNone,
            "none: it may read, write and reach what the host's user may",
        )];
    };
    let backend = sandbox.backend.clone();
    // A task that was dropped found nothing.
    let Ok(support) = tokio::task::spawn_blocking(move || sandbox::support(&backend)).await else {
        return Vec::new();
    };
    let name = sandbox.backend.name();
    if let Some(problem) = support.problem {
        let check = Check::new(
            Code::SandboxUnavailable,
            format!("{name} cannot be used here"),
        )
        .detail(problem);
        return vec![check.hint(
            "the agent does not start until it can; install it, or choose another `backend`",
        )];
    }
    let network = match &sandbox.network {
        Network::None => "no network".to_owned(),
        Network::All => "the whole network".to_owned(),
        Network::Allow(names) => format!("of the network {}", names.join(", ")),
    };
    let version = support.version.unwrap_or_else(|| name.to_owned());
    let mut checks = vec![Check::new(
        Code::SandboxUsed,
        format!("{version}; {network}"),
    )];
    if let (true, Backend::Podman { image, options } | Backend::Docker { image, options }) =
        (support.lacks_image, &sandbox.backend)
    {
        let options = options.iter().map(String::as_str);
        let pull = shell_words::join([name].into_iter().chain(options).chain(["pull", image]));
        let missing = Check::new(
            Code::SandboxImageMissing,
            format!("{name} has no image {image} here"),
        );
        checks.push(missing.hint(format!("pull it first, as no start does: `{pull}`")));
    }
    if let Err(refused) = inside {
        checks.push(Check::new(
            Code::SandboxRefused,
            format!("failed to {refused}"),
        ));
    }
    checks.extend(
        support
            .weaker
            .iter()
            .map(|weaker| Check::new(Code::SandboxWeaker, weaker)),
    );
    checks
}

/// Where the program is in its bubblewrap: the first place in the order of the search that is there
/// inside. `None` without one: the host's own search counts then, and in a container the image's.
pub(super) fn find_inside(
    agent: &AgentConfig,
    spec: &ChildSpec,
    environment: &Environment,
    work_dir: &Path,
    candidates: Vec<PathBuf>,
) -> Option<Result<PathBuf, String>> {
    let sandbox = agent
        .sandbox
        .as_ref()
        .filter(|sandbox| sandbox.backend == Backend::Bubblewrap)?;
    // Below the host's own folder, which goes with the host.
    let private = spec
        .private_root
        .clone()
        .unwrap_or_else(std::env::temp_dir)
        .join("doctor");
    let temp = private.join("tmp");
    let init = std::env::current_exe().map_err(|error| format!("find this program: {error}"));
    let found = init.and_then(|init| {
        let outlet = Outlet {
            port: 1,
            socket: private.join("proxy"),
        };
        let wrap = |program: &OsStr| {
            // Each is written into an empty folder; one that is not there is as good.
            let _ = std::fs::remove_dir_all(&private);
            std::fs::create_dir_all(&temp)
                .map_err(|error| format!("make {}: {error}", temp.display()))?;
            let inside = Inside {
                label: &spec.label,
                program,
                args: &spec.args,
                environment: &environment.variables,
                declared: &spec.env,
                work_dir,
                private: &private,
                temp: &temp,
                exchange: spec.exchange.as_deref(),
                init: &init,
                status: None,
                outlet: matches!(sandbox.network, Network::Allow(_)).then_some(&outlet),
                limits: spec.limits,
                hidden: spec.record_dir.as_slice(),
                covered: &spec.covered,
                unwritable: &spec.unwritable,
                // Nothing is started, so nothing is made for it.
                reserved: &[],
            };
            sandbox::wrap(sandbox, &inside)
                .map(drop)
                .map_err(|error| error.to_string())
        };
        wrap(&spec.program)?;
        let first = candidates
            .into_iter()
            .find(|candidate| wrap(candidate.as_os_str()).is_ok());
        first.ok_or_else(|| format!("find {} inside", spec.program.to_string_lossy()))
    });
    // Best effort: the folder above goes in the end.
    let _ = std::fs::remove_dir_all(&private);
    Some(found)
}

#[cfg(test)]
mod tests {
    use trunkline_host::process::Enforcement;

    use super::*;

    fn codes(asked: Resources, by: Enforcer) -> Vec<String> {
        let enforcement = || Enforcement {
            by,
            not_better: Some("why".to_owned()),
        };
        let support = LimitSupport {
            processes: enforcement(),
            open_files: enforcement(),
            memory: enforcement(),
        };
        limits(&asked, &support)
            .into_iter()
            .map(|check| check.code)
            .collect()
    }

    #[test]
    fn a_limit_that_was_asked_for_and_does_not_hold_is_a_warning() {
        let asked = Resources {
            processes: Some(9),
            open_files: Some(9),
            memory: Some(9),
        };
        assert_eq!(codes(asked, Enforcer::CgroupV2), ["limits.enforced"]);
        assert_eq!(
            codes(asked, Enforcer::Rlimit),
            ["limits.enforced", "limits.weaker", "limits.weaker"]
        );
        assert_eq!(codes(asked, Enforcer::Nothing).len(), 4);
        assert_eq!(
            codes(Resources::default(), Enforcer::Nothing),
            ["limits.enforced"]
        );
    }

    #[test]
    fn a_containment_is_told_with_why_it_is_not_better() {
        let support = |namespace: Result<(), String>, reaper: Result<(), String>| Support {
            namespace,
            reaper,
        };
        let no = || Err("no".to_owned());
        let mut agent = AgentConfig::external("a", "x");
        let code = |agent: &AgentConfig, support: &Support| containment(agent, support).code;
        assert_eq!(code(&agent, &support(Ok(()), Ok(()))), "containment.used");
        let weaker = containment(&agent, &support(no(), Ok(())));
        assert_eq!(weaker.code, "containment.weaker");
        assert_eq!(
            weaker.detail.as_deref(),
            Some("nothing better works here: no")
        );
        agent.containment = Containment::Namespace;
        assert_eq!(
            code(&agent, &support(no(), Ok(()))),
            "containment.unavailable"
        );
    }

    #[test]
    fn skills_and_servers_with_an_open_network_are_warned_of() {
        let agent = |config: serde_json::Value, network: Option<Network>| {
            let mut agent = AgentConfig::external("a", "x");
            agent.config = Some(config);
            agent.sandbox = network.map(|network| {
                let mut sandbox = sandbox::Sandbox::new(Backend::Bubblewrap);
                sandbox.network = network;
                sandbox
            });
            exfiltration(&agent).map(|check| (check.code, check.level))
        };
        let warned = Some(("network.open".to_owned(), super::super::report::Level::Warn));
        let skills = || serde_json::json!({"skills": ["/srv/skills/review"]});
        assert_eq!(agent(skills(), None), warned);
        assert_eq!(agent(skills(), Some(Network::All)), warned);
        assert_eq!(agent(skills(), Some(Network::None)), None);
        assert_eq!(
            agent(skills(), Some(Network::Allow(vec!["a.org".to_owned()]))),
            None
        );
        for (config, is_warned) in [
            (
                serde_json::json!({"mcp_servers": {"files": {"command": "x"}}}),
                true,
            ),
            (serde_json::json!({"project_mcp": true}), true),
            (serde_json::json!({"commands_dir": "/srv/commands"}), true),
            (
                serde_json::json!({"skills": [], "mcp_servers": {}, "commands_dir": "", "project_mcp": false}),
                false,
            ),
            (serde_json::json!({}), false),
        ] {
            assert_eq!(agent(config.clone(), None).is_some(), is_warned, "{config}");
        }
    }
}
