//! Confinement of an agent's process: containment, limits of resources, sandbox.

use std::path::{Path, PathBuf};

use trunkline_process::Limits;
use trunkline_sandbox::network::AllowList;
use trunkline_sandbox::{Backend, Network, Sandbox};

use super::error::ConfigError;
use super::form::{As, List, Location, Part, SandboxOrNone, readable};
use super::keys::{ResourceKeys, SandboxKeys};
use super::quantity::shown;
use super::read::{missing, place};

/// Settings of `runtime` for every agent, and of an agent for itself.
#[derive(Debug, Clone, Default)]
pub(super) struct Confinement {
    pub(super) resources: Limits,
    pub(super) sandbox: Option<Sandbox>,
    /// True if `sandbox.network` was set, and is not the default.
    network_said: bool,
}

impl Confinement {
    /// Reads `resources` and `sandbox` over the present settings; relative paths are relative to
    /// `folder`.
    pub(super) fn set(
        &mut self,
        resources: Option<As<Part<ResourceKeys>>>,
        sandbox: Option<As<SandboxOrNone>>,
        at: &str,
        folder: &Path,
    ) -> Result<(), ConfigError> {
        let has = |keys: &ResourceKeys| (keys.memory.is_some(), keys.processes.is_some());
        let (memory, processes) = resources
            .as_ref()
            .map(|As(keys)| has(keys))
            .unwrap_or_default();
        if let Some(As(mut keys)) = resources {
            keys.set(&mut self.resources);
        }
        let at_sandbox = place(at, "sandbox");
        let mut keys = match sandbox {
            None => return Ok(()),
            Some(As(None)) => {
                (self.sandbox, self.network_said) = (None, false);
                return Ok(());
            }
            Some(As(Some(keys))) => keys,
        };
        let twice = |key: &str, ours: &str| {
            let why = format!("`{at}.resources.{ours}` is set too; keep one");
            Err(ConfigError::invalid(place(&at_sandbox, key), why))
        };
        if memory && keys.memory.is_some() {
            return twice("memory", "memory");
        }
        if processes && keys.pids.is_some() {
            return twice("pids", "processes");
        }
        keys.set(&mut self.resources);
        self.network_said = keys.network.is_some();
        self.sandbox = Some(sandbox_of(keys, &at_sandbox, folder)?);
        Ok(())
    }

    /// Reconciles the domains that an agent may reach with the network of its sandbox: an unset one
    /// takes the value of the other, and the domains must be within the network. Without a sandbox
    /// nothing would enforce the domains. `at` is the place of the domains.
    pub(super) fn agree(
        &mut self,
        domains: &mut Option<Vec<String>>,
        at: &str,
    ) -> Result<(), ConfigError> {
        let Some(sandbox) = &mut self.sandbox else {
            return match domains {
                None => Ok(()),
                Some(_) => Err(ConfigError::invalid(
                    at,
                    "without a `sandbox` nothing holds the agent to these domains; add one, such as \
                     `\"sandbox\": {\"backend\": \"bubblewrap\"}`, or leave them out",
                )),
            };
        };
        let Some(asked) = domains else {
            *domains = match &sandbox.network {
                Network::All => None,
                Network::None => Some(Vec::new()),
                Network::Allow(allowed) => Some(allowed.clone()),
            };
            return Ok(());
        };
        for (index, domain) in asked.iter().enumerate() {
            readable(domain).map_err(|why| ConfigError::invalid(format!("{at}[{index}]"), why))?;
        }
        if !self.network_said {
            if !asked.is_empty() {
                sandbox.network = Network::Allow(asked.clone());
            }
            return Ok(());
        }
        let beyond = asked
            .iter()
            .position(|domain| !network_holds(&sandbox.network, domain));
        match beyond {
            None => Ok(()),
            Some(index) => Err(ConfigError::invalid(
                format!("{at}[{index}]"),
                format!(
                    "`{}` is not in `sandbox.network`, which is what can be reached; add it there, or leave it out here",
                    shown(&asked[index])
                ),
            )),
        }
    }
}

/// Returns true if everything that an entry such as `example.com` or `*.example.com` covers is
/// reachable.
pub(super) fn network_holds(network: &Network, entry: &str) -> bool {
    let allowed = match network {
        Network::All => return true,
        Network::None => return false,
        Network::Allow(entries) => entries,
    };
    let (Ok(asked), Ok(allowed)) = (AllowList::parse([entry]), AllowList::parse(allowed)) else {
        return false;
    };
    asked.intersect(&allowed) == asked
}

/// Paths, of which relative ones are meant from `folder`.
pub(super) fn paths_from(folder: &Path, paths: Option<As<List<Location>>>) -> Option<Vec<PathBuf>> {
    paths.map(|As(paths)| paths.iter().map(|path| folder.join(path)).collect())
}

fn sandbox_of(keys: SandboxKeys, at: &str, folder: &Path) -> Result<Sandbox, ConfigError> {
    let refused = |key: &str, why: &str| Err(ConfigError::invalid(place(at, key), why));
    let name = keys.backend.ok_or_else(|| missing(at, "backend"))?.0;
    let backend = if name == "bubblewrap" {
        if keys.image.is_some() {
            return refused(
                "image",
                "bubblewrap shows the host's own files and has no image; leave it out",
            );
        }
        if keys.options.is_some() {
            return refused("options", "they belong to podman or docker; leave them out");
        }
        Backend::Bubblewrap
    } else {
        let image = keys.image.ok_or_else(|| missing(at, "image"))?.0;
        let options = keys.options.map(|As(options)| options).unwrap_or_default();
        if name == "podman" {
            Backend::Podman { image, options }
        } else {
            Backend::Docker { image, options }
        }
    };
    let mut sandbox = Sandbox::new(backend);
    sandbox.read_only = paths_from(folder, keys.read_only).unwrap_or_default();
    sandbox.writable = paths_from(folder, keys.writable).unwrap_or_default();
    if let Some(As(network)) = keys.network {
        sandbox.network = network;
    }
    sandbox.user = keys.user.map(|As(user)| user).or(sandbox.user);
    Ok(sandbox)
}

#[cfg(test)]
mod tests {
    use trunkline_process::Containment;

    use super::*;
    use crate::config::{AgentConfig, Config};

    fn read(runtime: &str, members: &str) -> Result<AgentConfig, String> {
        let text = format!(
            r#"{{"runtime":{{{runtime}}},"agents":[{{"id":"a","external":{{"command":"x"}}{members}}}]}}"#
        );
        let error = |error: ConfigError| {
            error
                .to_string()
                .trim_start_matches("read the configuration: ")
                .to_owned()
        };
        Config::parse(text.as_bytes(), Path::new("/conf"))
            .map_err(error)
            .map(|mut config| config.agents.remove(0))
    }

    #[track_caller]
    fn agent(members: &str) -> AgentConfig {
        read("", &format!(",{members}")).unwrap()
    }

    #[track_caller]
    fn refused(members: &str) -> String {
        let error = read("", &format!(",{members}")).unwrap_err();
        error.strip_prefix("agents[0].").unwrap().to_owned()
    }

    #[test]
    fn without_a_word_it_is_what_works_best_here_and_no_sandbox() {
        let read = read("", "").unwrap();
        assert_eq!((read.containment, read.sandbox), (Containment::Auto, None));
        assert_eq!(read.resources, Limits::default());
    }

    #[test]
    fn every_key_applies() {
        let read = agent(
            r#""containment": "reaper", "resources": {"open_files": 100},
               "sandbox": {"backend": "podman", "image": "i", "options": ["--root", "/r"], "read_only": ["/a", "b"], "writable": ["/w"],
                           "network": {"allow": ["x.org", "*.y.org"]}, "user": "7:8", "memory": "1KiB", "pids": 9}"#,
        );
        assert_eq!(read.containment, Containment::Reaper);
        assert_eq!(
            read.resources,
            Limits {
                processes: Some(9),
                open_files: Some(100),
                memory: Some(1024)
            }
        );
        let sandbox = read.sandbox.unwrap();
        assert_eq!(
            sandbox.backend,
            Backend::Podman {
                image: "i".into(),
                options: vec!["--root".into(), "/r".into()]
            }
        );
        assert_eq!(sandbox.read_only, [Path::new("/a"), Path::new("/conf/b")]);
        assert_eq!(sandbox.writable, [Path::new("/w")]);
        assert_eq!(
            sandbox.network,
            Network::Allow(vec!["x.org".into(), "*.y.org".into()])
        );
        assert_eq!(sandbox.user, Some((7, 8)));
        assert_eq!(
            agent(r#""sandbox": {"backend": "bubblewrap", "user": "5"}"#)
                .sandbox
                .unwrap()
                .user,
            Some((5, 5))
        );
        for none in ["0", "\"none\""] {
            let read = agent(&format!(
                r#""resources": {{"processes": {none}, "memory": {none}}}"#
            ));
            assert_eq!(
                (read.resources.processes, read.resources.memory),
                (None, None),
                "{none}"
            );
        }
    }

    #[test]
    fn an_agent_has_the_last_word() {
        let runtime = r#""containment": "group", "resources": {"memory": 5, "processes": 6},
                         "sandbox": {"backend": "bubblewrap", "network": "all", "pids": 7, "read_only": ["/a"]}"#;
        assert_eq!(
            read(runtime, "").unwrap_err(),
            "runtime.sandbox.pids: `runtime.resources.processes` is set too; keep one"
        );
        let runtime = runtime.replace(r#", "processes": 6"#, "");
        let shared = read(&runtime, "").unwrap();
        assert_eq!(shared.containment, Containment::Group);
        assert_eq!(
            (shared.resources.memory, shared.resources.processes),
            (Some(5), Some(7))
        );
        assert_eq!(shared.sandbox.unwrap().network, Network::All);
        let own = read(
            &runtime,
            r#", "containment": "auto", "resources": {"processes": 8}, "sandbox": {"backend": "bubblewrap"}"#,
        )
        .unwrap();
        assert_eq!(own.containment, Containment::Auto);
        assert_eq!(
            (own.resources.memory, own.resources.processes),
            (Some(5), Some(8))
        );
        let sandbox = own.sandbox.unwrap();
        assert_eq!(
            (sandbox.network, sandbox.read_only.len()),
            (Network::None, 0)
        );
        assert_eq!(
            read(&runtime, r#", "sandbox": "none""#).unwrap().sandbox,
            None
        );
        assert!(
            read(&runtime, r#", "sandbox": null"#)
                .unwrap()
                .sandbox
                .is_some()
        );
    }

    #[test]
    fn domains_without_a_sandbox_are_refused() {
        let refused = |runtime: &str, own: &str| read(runtime, own).unwrap_err().to_string();
        for domains in [r#"["a.org"]"#, "[]"] {
            let said = refused("", &format!(r#", "allowed_domains": {domains}"#));
            assert!(
                said.contains("allowed_domains: without a `sandbox` nothing holds"),
                "{said}"
            );
        }
        let runtime = r#""sandbox": {"backend": "bubblewrap"}"#;
        assert!(read(runtime, r#", "allowed_domains": ["a.org"]"#).is_ok());
        assert!(
            refused(
                runtime,
                r#", "sandbox": "none", "allowed_domains": ["a.org"]"#
            )
            .contains("nothing holds")
        );
    }

    #[test]
    fn domains_and_network_agree() {
        let domains = |network: &str, domains: &str| {
            let read = agent(&format!(
                r#""sandbox": {{"backend": "bubblewrap"{network}}}{domains}"#
            ));
            (read.sandbox.unwrap().network, read.allowed_domains)
        };
        let listed = |names: &[&str]| {
            names
                .iter()
                .map(|&name| name.to_owned())
                .collect::<Vec<_>>()
        };
        let ab = listed(&["a.org", "b.org"]);
        assert_eq!(domains("", ""), (Network::None, Some(vec![])));
        assert_eq!(domains(r#", "network": "all""#, ""), (Network::All, None));
        let network = r#", "network": {"allow": ["a.org", "b.org"]}"#;
        assert_eq!(
            domains(network, ""),
            (Network::Allow(ab.clone()), Some(ab.clone()))
        );
        let said = r#", "allowed_domains": ["a.org", "b.org"]"#;
        assert_eq!(
            domains("", said),
            (Network::Allow(ab.clone()), Some(ab.clone()))
        );
        assert_eq!(
            domains(r#", "network": "all""#, said),
            (Network::All, Some(ab))
        );
        assert_eq!(
            domains("", r#", "allowed_domains": []"#),
            (Network::None, Some(vec![]))
        );
        let wide = r#", "network": {"allow": ["*.Example.org"]}"#;
        assert_eq!(
            domains(
                wide,
                r#", "allowed_domains": ["api.example.org", "*.b.example.org"]"#
            )
            .1,
            Some(listed(&["api.example.org", "*.b.example.org"]))
        );
        for (network, beyond) in [
            (r#"{"allow": ["*.example.org"]}"#, "example.org"),
            (r#"{"allow": ["example.org"]}"#, "*.example.org"),
            (r#"{"allow": ["example.org"]}"#, "evilexample.org"),
            (r#""none""#, "example.org"),
        ] {
            let error = refused(&format!(
                r#""sandbox": {{"backend": "bubblewrap", "network": {network}}}, "allowed_domains": ["{beyond}"]"#
            ));
            let expected = format!("allowed_domains[0]: `{beyond}` is not in `sandbox.network`");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn a_network_is_names_addresses_and_ranges() {
        let entries =
            r#"["10.0.0.0/8", "10.0.0.0/8:5432", "[fd00::/8]:80", "192.0.2.7", "localhost:3000"]"#;
        let read = agent(&format!(
            r#""sandbox": {{"backend": "bubblewrap", "network": {{"allow": {entries}}}}}, "allowed_domains": ["10.1.0.0/16"]"#
        ));
        let Network::Allow(allowed) = read.sandbox.unwrap().network else {
            panic!()
        };
        assert_eq!((allowed.len(), allowed[0].as_str()), (5, "10.0.0.0/8"));
        let read = agent(&format!(
            r#""sandbox": {{"backend": "bubblewrap"}}, "allowed_domains": {entries}"#
        ));
        assert_eq!(read.sandbox.unwrap().network, Network::Allow(allowed));
        assert!(
            refused(
                r#""sandbox": {"backend": "bubblewrap", "network": {"allow": ["10.0.0.0/33"]}}"#
            )
            .starts_with("sandbox.network.allow[0]: ")
        );
    }

    #[test]
    fn what_cannot_be_is_refused_at_its_place() {
        for (members, expected) in [
            (
                r#""sandbox": {"backend": "bubblewrap"}, "allowed_domains": ["x.org", "https://x.org"]"#,
                "allowed_domains[1]: failed to read the network entry \"https://x.org\": it is a URL; write only the host, as in `example.com` or `example.com:8443`",
            ),
            (
                r#""sandbox": {"backend": "bubblewrap", "network": "all"}, "allowed_domains": ["*"]"#,
                "allowed_domains[0]: failed to read the network entry \"*\": `*` matches the first labels of a name, as in `*.example.com`; to allow everything, choose the network `all`",
            ),
            (
                r#""containment": "jail""#,
                r#"containment: `jail` is not "auto" or "namespace" or "reaper" or "group""#,
            ),
            (
                r#""contaiment": "auto""#,
                "contaiment: unknown key; did you mean `containment`?",
            ),
            (
                r#""resources": {"procesess": 1}"#,
                "resources.procesess: unknown key; did you mean `processes`?",
            ),
            (
                r#""resources": {"memory": "1M"}"#,
                "resources.memory: `1M` is not a size; write bytes as a number, or one such as `64KiB` or `16MiB`",
            ),
            (
                r#""sandbox": "bubblewrap""#,
                r#"sandbox: expected an object or "none", found a string"#,
            ),
            (r#""sandbox": {}"#, "sandbox.backend: it is missing"),
            (
                r#""sandbox": {"backend": "bwrap"}"#,
                r#"sandbox.backend: `bwrap` is not "bubblewrap" or "podman" or "docker""#,
            ),
            (
                r#""sandbox": {"backend": "docker"}"#,
                "sandbox.image: it is missing",
            ),
            (
                r#""sandbox": {"backend": "bubblewrap", "image": "i"}"#,
                "sandbox.image: bubblewrap shows the host's own files and has no image; leave it out",
            ),
            (
                r#""sandbox": {"backend": "bubblewrap", "writeable": []}"#,
                "sandbox.writeable: unknown key; did you mean `writable`?",
            ),
            (
                r#""sandbox": {"backend": "bubblewrap", "processes": 1}"#,
                "sandbox.processes: unknown key; it belongs in `resources`",
            ),
            (
                r#""sandbox": {"backend": "bubblewrap", "network": "some"}"#,
                r#"sandbox.network: `some` is not "none" or "all""#,
            ),
            (
                r#""sandbox": {"backend": "bubblewrap", "network": []}"#,
                r#"sandbox.network: expected "none", "all" or an object, found an array"#,
            ),
            (
                r#""sandbox": {"backend": "bubblewrap", "network": {"allow": ["https://x.org"]}}"#,
                "sandbox.network.allow[0]: failed to read the network entry \"https://x.org\": it is a URL; write only the host, as in `example.com` or `example.com:8443`",
            ),
            (
                r#""sandbox": {"backend": "bubblewrap", "user": "root"}"#,
                r#"sandbox.user: `root` is not a user and group number such as "1000:1000""#,
            ),
            (
                r#""resources": {"memory": 1}, "sandbox": {"backend": "bubblewrap", "memory": 2}"#,
                "sandbox.memory: `agents[0].resources.memory` is set too; keep one",
            ),
        ] {
            assert_eq!(refused(members), expected, "{members}");
        }
    }
}
