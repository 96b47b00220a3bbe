//! Removal of containers that outlive their client or their host.

use std::collections::BTreeMap;
use std::collections::hash_map::RandomState;
use std::env;
use std::ffi::{OsStr, OsString};
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use trunkline_process::ProcessIdentity;

use crate::tool::{ProgramOutput, find_tool, run_bounded};
use crate::{Backend, SandboxError};

/// Label of every container that this crate starts.
pub(crate) const LABEL: &str = "trunkline";

/// Timeout of an engine. A removal takes 0.2 s on an idle machine.
const ENGINE_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum of containers that one sweep removes.
const MAX_SWEPT_CONTAINERS: usize = 1000;

/// A container to remove after its client has ended.
///
/// A container does not end with its client, in particular if that was killed by SIGKILL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    pub(crate) program: PathBuf,
    pub(crate) options: Vec<String>,
    /// Arguments that remove a container at once.
    pub(crate) removal: &'static [&'static str],
    pub(crate) name: String,
    pub(crate) variables: BTreeMap<OsString, OsString>,
}

impl Container {
    /// Returns the name of the container.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Kills the processes of the container and removes it. A missing container is a success.
    /// Blocks for 20 s at most.
    ///
    /// # Errors
    ///
    /// The engine does not answer in time, or reports a failure.
    pub fn remove(&self) -> io::Result<()> {
        let finished = self.run(&[self.removal, &["--volumes", &self.name]].concat())?;
        if finished.success || reports_missing(&finished.stderr, &self.name) {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "failed to remove the container {}: {}",
            self.name,
            finished.last_error_line()
        )))
    }

    /// Returns the command line of [`Self::remove`].
    pub(crate) fn removal_line(&self) -> Vec<OsString> {
        let mut line: Vec<OsString> = vec![self.program.clone().into()];
        line.extend(self.options.iter().map(OsString::from));
        line.extend(
            self.removal
                .iter()
                .chain(&["--volumes", &self.name])
                .map(OsString::from),
        );
        line
    }

    fn run(&self, args: &[&str]) -> io::Result<ProgramOutput> {
        let mut command = Command::new(&self.program);
        command
            .args(&self.options)
            .args(args)
            .env_clear()
            .envs(&self.variables);
        run_bounded(command, ENGINE_TIMEOUT)
    }
}

/// Returns true if an engine reports that this container does not exist: podman with `no container
/// with name or ID "NAME"`, docker with `No such container: NAME`. A message about something else
/// that was "not found" does not count.
fn reports_missing(output: &str, name: &str) -> bool {
    output.lines().any(|line| {
        let before = line
            .split(name)
            .next()
            .filter(|before| before.len() < line.len());
        before.map(str::to_lowercase).is_some_and(|before| {
            [
                "no such container: ",
                "no container with name or id \"",
                "no container with id or name \"",
            ]
            .iter()
            .any(|text| before.ends_with(text))
        })
    })
}

/// Returns the arguments that kill the processes of a container and remove it. Without a flag,
/// podman sends SIGTERM first and waits for ten seconds. Docker kills at once and rejects the flag.
pub(crate) fn removal_args(backend: &Backend) -> &'static [&'static str] {
    match backend {
        Backend::Podman { .. } => &["rm", "--force", "--time=0"],
        Backend::Docker { .. } | Backend::Bubblewrap => &["rm", "--force"],
    }
}

/// Returns the variables of the host's environment that a client reads.
pub(crate) fn engine_variables() -> BTreeMap<OsString, OsString> {
    env::vars_os()
        .filter(|(name, _)| is_engine_variable(name))
        .collect()
}

/// Returns true if a client reads this variable itself. With the child's value, the client would
/// connect to another engine, use another store of images, or load code.
pub(crate) fn is_engine_variable(name: &OsStr) -> bool {
    let name = name.as_bytes();
    let exact: [&[u8]; 7] = [
        b"PATH",
        b"HOME",
        b"XDG_RUNTIME_DIR",
        b"XDG_CONFIG_HOME",
        b"XDG_DATA_HOME",
        b"DBUS_SESSION_BUS_ADDRESS",
        b"SSH_AUTH_SOCK",
    ];
    let begins: [&[u8]; 7] = [
        b"CONTAINER",
        b"DOCKER_",
        b"PODMAN_",
        b"STORAGE_",
        b"BUILDAH_",
        b"REGISTRY_",
        b"LD_",
    ];
    exact.contains(&name) || begins.iter().any(|prefix| name.starts_with(prefix))
}

/// Removes containers whose host has ended without removing them, for example by SIGKILL or a power
/// cut. Returns their number. Blocks.
///
/// # Errors
///
/// The backend is not installed, or its engine does not answer. Returns `Ok(0)` for bubblewrap,
/// which leaves nothing behind.
pub fn sweep_containers(backend: &Backend) -> Result<usize, SandboxError> {
    let (Backend::Podman { options, .. } | Backend::Docker { options, .. }) = backend else {
        return Ok(0);
    };
    let tool = backend.program();
    let template = Container {
        program: find_tool(tool)?,
        options: options.clone(),
        removal: removal_args(backend),
        name: String::new(),
        variables: engine_variables(),
    };
    let unusable = |problem| SandboxError::Unusable { tool, problem };
    let listed = template
        .run(&[
            "ps",
            "--all",
            "--filter",
            &format!("label={LABEL}"),
            "--format",
            "{{.Names}}",
        ])
        .map_err(|error| unusable(error.to_string()))?;
    if !listed.success {
        return Err(unusable(listed.last_error_line()));
    }
    let mut removed = 0;
    for name in listed
        .stdout
        .lines()
        .map(str::trim)
        .filter(|name| is_orphan(name))
        .take(MAX_SWEPT_CONTAINERS)
    {
        let orphan = Container {
            name: name.to_owned(),
            ..template.clone()
        };
        match orphan.remove() {
            Ok(()) => removed += 1,
            Err(error) => {
                tracing::warn!(%error, "failed to remove a container of a host that has ended")
            }
        }
    }
    Ok(removed)
}

/// Returns a unique name for a container, which identifies its host.
pub(crate) fn unique_name() -> String {
    let random = RandomState::new().build_hasher().finish();
    match ProcessIdentity::of_this() {
        Some(owner) => format!("{LABEL}.{owner}.{random:016x}"),
        None => format!("{LABEL}.{random:016x}"),
    }
}

/// Returns the host of a container from the container's name.
fn parse_owner(name: &str) -> Option<ProcessIdentity> {
    ProcessIdentity::parse(name.strip_prefix(LABEL)?.strip_prefix('.')?)
}

fn is_orphan(name: &str) -> bool {
    parse_owner(name).is_some_and(|owner| owner.is_gone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_identifies_the_host() {
        let name = unique_name();
        assert_eq!(parse_owner(&name), ProcessIdentity::of_this(), "{name}");
        assert_ne!(name, unique_name());
        assert!(!is_orphan(&name), "its host runs");
    }

    #[test]
    fn only_a_message_about_this_container_means_that_it_is_missing() {
        for output in [
            "Error: no container with name or ID \"trunkline.a\" found: no such container",
            "warning: something\nError: no container with ID or name \"trunkline.a\" found: no such container",
            "Error response from daemon: No such container: trunkline.a",
            "Error: No such container: trunkline.a",
        ] {
            assert!(reports_missing(output, "trunkline.a"), "{output}");
        }
        for output in [
            "",
            "exec: \"crun\": executable file not found in $PATH",
            "Error: container trunkline.a: runtime not found",
            "Error: no container with name or ID \"trunkline.b\" found: no such container",
            "Error: open /var/lib/no such container/x: permission denied",
        ] {
            assert!(!reports_missing(output, "trunkline.a"), "{output}");
        }
    }

    #[test]
    fn only_what_is_certainly_abandoned_is_an_orphan() {
        let name = unique_name();
        let parts: Vec<&str> = name.split('.').collect();
        let [_, boot, namespace, pid, began, random] = parts[..] else {
            panic!("{name}")
        };
        let other = began.parse::<u64>().unwrap() + 1;
        let other_namespace = namespace.parse::<u64>().unwrap() + 1;
        assert!(!is_orphan(&format!(
            "trunkline.{boot}.{namespace}.{pid}.{began}.{random}"
        )));
        for (orphan, why) in [
            (
                format!("trunkline.before.{namespace}.{pid}.{began}.{random}"),
                "the machine was started again",
            ),
            (
                format!("trunkline.{boot}.{namespace}.{pid}.{other}.{random}"),
                "the number is another's now",
            ),
        ] {
            assert!(is_orphan(&orphan), "{why}");
        }
        let far = format!("trunkline.{boot}.{other_namespace}.{pid}.{other}.{random}");
        assert!(!is_orphan(&far), "numbers of another namespace say nothing");
        for strange in [
            "",
            "trunkline.",
            "trunkline.x",
            "trunkline.a.b.c.d.e",
            "nginx",
            "trunkline-1.2.3.4.5",
        ] {
            assert!(!is_orphan(strange), "{strange}");
        }
    }
}
