//! Containment, limits and sandbox of the process, and the reasons for weaker ones.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use trunkline_host::config::{AgentConfig, Backend, Network, Resources};
use trunkline_host::process::{
    ChildSpec, Containment, Enforcer, Environment, LimitSupport, Support, containment_support,
    limit_support, shown_size,
};
use trunkline_host::sandbox::{self, Inside, Outlet};

use super::report::{CheckCode, DoctorCheck};

/// Containments and limits that work on this machine.
#[derive(Debug)]
pub(super) struct MachineSupport {
    pub(super) containment: Support,
    pub(super) limits: LimitSupport,
}

impl MachineSupport {
    /// Tests what works here. Blocks.
    pub(super) fn look() -> Self {
        Self {
            containment: containment_support(),
            limits: limit_support(),
        }
    }
}

/// Checks the containment.
pub(super) fn check_containment(agent: &AgentConfig, support: &Support) -> DoctorCheck {
    let asked = agent.containment;
    match support.choose(asked, agent.at_least) {
        Ok(choice) => {
            let what = match choice.used {
                Containment::Namespace => {
                    "namespace: the kernel ends all of its processes, even when the host is killed"
                }
                Containment::Reaper => {
                    "reaper: a small process ends all of its processes, even when the host is killed"
                }
                _ => "group: processes that leave the process group survive it",
            };
            match choice.why_not_better {
                None => CheckCode::ContainmentUsed.check(what),
                Some(why) => CheckCode::ContainmentWeaker
                    .check(what)
                    .detail(format!("no stronger containment works here: {why}")),
            }
        }
        Err(why) => CheckCode::ContainmentUnavailable
            .check(format!("the requested containment {asked} cannot be used"))
            .detail(why)
            .hint("set `\"containment\": \"auto\"`, or enable it on this machine"),
    }
}

/// Checks the limits, and their enforcers.
pub(super) fn check_limits(asked: &Resources, support: &LimitSupport) -> Vec<DoctorCheck> {
    let count = |limit: Option<u64>| limit.map(|limit| limit.to_string());
    let rows = [
        ("processes", count(asked.processes), &support.processes),
        ("open files", count(asked.open_files), &support.open_files),
        ("memory", asked.memory.map(shown_size), &support.memory),
    ];
    let mut parts = Vec::new();
    let mut checks = Vec::new();
    for (what, limit, enforcement) in rows {
        let Some(limit) = limit else {
            parts.push(format!("{what}: no limit"));
            continue;
        };
        parts.push(format!("{what}: {limit} by {}", enforcement.by));
        let problem = match enforcement.by {
            _ if what == "processes" && asked.processes == Some(Resources::PROCESSES) => continue,
            Enforcer::Nothing => "is not enforced here",
            // A limit of open files is one of each process.
            Enforcer::Rlimit if what != "open files" => {
                "does not apply to all of its processes here"
            }
            _ => continue,
        };
        let check = CheckCode::LimitsWeaker.check(format!("the limit of {what} {problem}"));
        checks.push(match &enforcement.not_better {
            Some(why) => check.detail(why),
            None => check,
        });
    }
    checks.insert(0, CheckCode::LimitsEnforced.check(parts.join(", ")));
    checks
}

/// Returns the image of the agent's container.
pub(super) fn container_image(agent: &AgentConfig) -> Option<&str> {
    match &agent.sandbox.as_ref()?.backend {
        Backend::Podman { image, .. } | Backend::Docker { image, .. } => Some(image),
        Backend::Bubblewrap => None,
    }
}

/// Warns of skills and MCP servers with an open network: they contain foreign texts and programs,
/// which could send data out.
pub(super) fn check_exfiltration(agent: &AgentConfig) -> Option<DoctorCheck> {
    let is_open = agent
        .sandbox
        .as_ref()
        .is_none_or(|sandbox| matches!(sandbox.network, Network::All));
    let brought = added_keys(agent.config.as_ref()?);
    if !is_open || brought.is_empty() {
        return None;
    }
    let what = brought
        .iter()
        .map(|key| format!("`{key}`"))
        .collect::<Vec<_>>()
        .join(", ");
    let check = CheckCode::NetworkOpen.check(format!(
        "{what} and an open network: data that the agent reads can be sent out"
    ));
    Some(check.hint("add a `sandbox` with `allowed_domains`, or remove them"))
}

/// Returns the keys of a profile's object that add skills or servers.
fn added_keys(config: &serde_json::Value) -> Vec<&'static str> {
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

/// Checks the sandbox. `inside` is the check of the paths and the program inside it.
pub(super) async fn check_sandbox(
    agent: &AgentConfig,
    inside: Result<(), String>,
) -> Vec<DoctorCheck> {
    let Some(sandbox) = &agent.sandbox else {
        return vec![
            CheckCode::SandboxNone
                .check("none: it has the access of the host's user to files and network"),
        ];
    };
    let backend = sandbox.backend.clone();
    // A cancelled task has no result.
    let Ok(support) = tokio::task::spawn_blocking(move || sandbox::check_backend(&backend)).await
    else {
        return Vec::new();
    };
    let name = sandbox.backend.name();
    if let Some(problem) = support.problem {
        let check = CheckCode::SandboxUnavailable
            .check(format!("{name} cannot be used here"))
            .detail(problem);
        return vec![check.hint("the agent cannot start; install it, or choose another `backend`")];
    }
    let network = match &sandbox.network {
        Network::None => "no network".to_owned(),
        Network::All => "unrestricted network".to_owned(),
        Network::Allow(names) => format!("network: {}", names.join(", ")),
    };
    let version = support.version.unwrap_or_else(|| name.to_owned());
    let mut checks = vec![CheckCode::SandboxUsed.check(format!("{version}; {network}"))];
    if let (true, Backend::Podman { image, options } | Backend::Docker { image, options }) =
        (support.lacks_image, &sandbox.backend)
    {
        let options = options.iter().map(String::as_str);
        let pull = shell_words::join([name].into_iter().chain(options).chain(["pull", image]));
        let missing =
            CheckCode::SandboxImageMissing.check(format!("{name} has no image {image} here"));
        checks.push(missing.hint(format!("pull it before the start: `{pull}`")));
    }
    if let Err(refused) = inside {
        checks.push(CheckCode::SandboxRefused.check(format!("failed to {refused}")));
    }
    checks.extend(
        support
            .weaknesses
            .iter()
            .map(|weakness| CheckCode::SandboxWeaker.check(weakness)),
    );
    checks
}

/// Finds the program inside the agent's bubblewrap: the first candidate that exists inside. `None`
/// for other agents: their program is found by the host's own search, or in the image of a
/// container.
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
    // Below the host's own folder, which is removed with the host.
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
            // Each attempt needs an empty folder.
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
                // No process starts, so nothing needs a reservation.
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
    // Best effort: the folder above is removed later.
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
        check_limits(&asked, &support)
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
        let code = |agent: &AgentConfig, support: &Support| check_containment(agent, support).code;
        assert_eq!(code(&agent, &support(Ok(()), Ok(()))), "containment.used");
        let weaker = check_containment(&agent, &support(no(), Ok(())));
        assert_eq!(weaker.code, "containment.weaker");
        assert_eq!(
            weaker.detail.as_deref(),
            Some("no stronger containment works here: no")
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
            check_exfiltration(&agent).map(|check| (check.code, check.level))
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
