//! The command line of podman and docker. A pure function of its arguments.
//!
//! | flags | effect |
//! |---|---|
//! | `--pull=never` | a start contacts no registry; the user pulls images |
//! | `--rm` | the engine removes the container when it ends |
//! | `--name`, `--label` | [`Container`] and the sweep find it after its client was killed |
//! | `-i`, `--log-driver=none` | the three pipes, and no copy of their content in a log |
//! | `--read-only`, `--tmpfs /tmp`, `--tmpfs /run` | only granted paths are writable |
//! | `--cap-drop=ALL` | no capability |
//! | `--security-opt=no-new-privileges` | no capability from a set-user-id program |
//! | `--network=none` | no network; left out for [`Network::All`] |
//! | `--http-proxy=false` | no proxy variables of the host, which podman would pass |
//! | `--user` | the owner of the mounted files, because another user could not read them |
//! | `--userns=keep-id:…` | podman without root: maps the host's user to that user inside |
//! | `--pids-limit`, `--memory` | the limits of the child |
//! | `--ulimit` of open files, processes, core files | explicit limits, see below |
//! | `--volume` | grants at the same absolute paths, and at each alias |
//! | `--env NAME` | the client reads the value from its environment, so no argument shows it |
//! | `--env-file` | values of variables that the client would read itself; a private file |
//! | `--entrypoint` | the configured program instead of the image's |
//!
//! With an allow-list, the container has no network either, only the socket of the proxy.
//!
//! Without `--ulimit`, both engines raise the limits to their own values, and fail if they may not.
//!
//! Variables that the client reads itself ([`is_engine_variable`]), such as `PATH` and `HOME`, keep
//! the host's values for the client. The child gets the image's `PATH`, unless one is declared.
//! `HOME` and a declared `PATH` are arguments with their values; other declared variables are in
//! the file.
//!
//! The init program runs only with an allow-list, for its bridge, or if it is itself the program.
//! It is mounted from the host and must run with the image's C library.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::process::{Resource, getegid, geteuid, getrlimit};

use crate::grant::{PathAccess, PathGrant, home_folder};
use crate::network::proxy_variables;
use crate::podman::{LABEL, engine_variables, is_engine_variable, removal_args, unique_name};
use crate::support::is_image;
use crate::tool::find_tool;
use crate::view::{NULL_DEVICE, PROXY_SOCKET};
use crate::{Backend, CommandLine, Container, Inside, Network, Sandbox, SandboxError};
use trunkline_process::Descriptors;

/// Maximum of open files of a container.
const MAX_OPEN_FILES: u64 = 1_048_576;

/// Maximum of processes of a container's user if the kernel does not report its highest process
/// number. The number for the container itself is limited by `--pids-limit`.
const MAX_PROCESSES: u64 = 32_768;

/// Properties of the host that the command line depends on.
#[derive(Debug, Clone)]
pub(crate) struct HostProperties {
    /// Path of podman or docker, the client of the engine.
    pub(crate) program: PathBuf,
    /// User and group id of the host.
    pub(crate) user: (u32, u32),
    /// Highest limit of open files that may be requested.
    pub(crate) open_files: u64,
    /// Highest limit of processes that may be requested.
    pub(crate) processes: u64,
    /// Variables of the host's environment that the client reads.
    pub(crate) variables: BTreeMap<OsString, OsString>,
    /// Name of the container, which identifies its host.
    pub(crate) name: String,
}

impl HostProperties {
    /// Reads the properties of this machine.
    pub(crate) fn read(tool: &'static str) -> Result<Self, SandboxError> {
        let hard = |resource, most: u64| {
            getrlimit(resource)
                .maximum
                .map_or(most, |hard| hard.min(most))
        };
        Ok(Self {
            program: find_tool(tool)?,
            user: (geteuid().as_raw(), getegid().as_raw()),
            open_files: hard(Resource::Nofile, MAX_OPEN_FILES),
            // Podman lowers its own limit to the highest process number.
            processes: hard(Resource::Nproc, highest_pid().unwrap_or(MAX_PROCESSES)),
            variables: engine_variables(),
            name: unique_name(),
        })
    }
}

fn highest_pid() -> Option<u64> {
    std::fs::read_to_string("/proc/sys/kernel/pid_max")
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Image to run, the engine that runs it, and the paths that it gets.
#[derive(Debug)]
pub(crate) struct ContainerRun<'a> {
    pub(crate) backend: &'a Backend,
    pub(crate) image: &'a str,
    pub(crate) options: &'a [String],
    pub(crate) grants: &'a [PathGrant],
    pub(crate) machine: &'a HostProperties,
}

/// Returns the command line that runs the child in a container.
///
/// # Errors
///
/// A path cannot be written as a volume, or the name of the image is invalid.
pub(crate) fn command_line(
    run: &ContainerRun<'_>,
    sandbox: &Sandbox,
    inside: &Inside<'_>,
) -> Result<CommandLine, SandboxError> {
    let machine = run.machine;
    let podman = matches!(run.backend, Backend::Podman { .. });
    let tool = run.backend.program();
    if !is_image(run.image) {
        return Err(SandboxError::Unusable {
            tool,
            problem: format!("{:?} is not the name of an image", run.image),
        });
    }
    let mut args = ContainerArguments(run.options.iter().map(OsString::from).collect());
    args.push([
        "run",
        "--pull=never",
        "--rm",
        "-i",
        "--log-driver=none",
        "--read-only",
        "--cap-drop=ALL",
    ]);
    args.push([
        "--security-opt=no-new-privileges",
        "--tmpfs=/tmp",
        "--tmpfs=/run",
    ]);
    args.push([
        format!("--name={}", machine.name),
        format!("--label={LABEL}"),
    ]);
    if podman {
        args.push(["--http-proxy=false"]);
    }
    if !matches!(sandbox.network, Network::All) {
        args.push(["--network=none"]);
    }
    args.push_user(podman, sandbox.user, machine.user);
    args.push_limits(machine, inside);
    for (source, at, access) in ordered_volumes(run.grants, inside) {
        match access {
            PathAccess::Covered => args.push_cover(&at, podman)?,
            PathAccess::Masked => {
                args.push_volume(Path::new(NULL_DEVICE), &at, PathAccess::Read)?
            }
            PathAccess::Read | PathAccess::Write => args.push_volume(source, &at, access)?,
        }
    }
    if let Some(outlet) = inside.outlet {
        args.push_volume(&outlet.socket, Path::new(PROXY_SOCKET), PathAccess::Read)?;
    }
    args.0
        .push(join_flag("--workdir=", inside.work_dir.as_os_str()));

    let environment = args.push_environment(run, inside);
    let starts_init = inside.outlet.is_some();
    let mut line = if starts_init {
        inside.init_line(Descriptors::Lost, Path::new(PROXY_SOCKET), Vec::new())
    } else {
        std::iter::once(inside.program.to_owned())
            .chain(inside.args.iter().cloned())
            .collect()
    };
    args.0.push(join_flag("--entrypoint=", &line.remove(0)));
    args.push([run.image]);
    args.0.extend(line);
    let container = Container {
        program: machine.program.clone(),
        options: run.options.to_vec(),
        removal: removal_args(run.backend),
        name: machine.name.clone(),
        variables: machine.variables.clone(),
    };
    Ok(CommandLine {
        program: machine.program.clone(),
        args: args.0,
        environment,
        container: Some(container),
    })
}

/// Returns source, mount point and access of each volume, from outer to inner. The init program is
/// included only if something runs it.
fn ordered_volumes<'a>(
    grants: &'a [PathGrant],
    inside: &Inside<'_>,
) -> Vec<(&'a Path, PathBuf, PathAccess)> {
    let runs_init = inside.outlet.is_some() || Path::new(inside.program) == inside.init;
    let shown: Vec<&PathGrant> = grants
        .iter()
        .filter(|grant| runs_init || grant.named != inside.init)
        .collect();
    let mut volumes = Vec::new();
    for grant in &shown {
        let real = grant.place.real.as_path();
        if !grant.is_implied {
            volumes.push((real, real.to_owned(), grant.access));
        }
        // An outer path that is mounted under a second name needs its inner paths there as well:
        // their access may be narrower.
        for name in &grant.aliases {
            for inner in shown
                .iter()
                .filter(|inner| inner.place.real.starts_with(real))
            {
                let below = inner.place.real.strip_prefix(real).unwrap_or(Path::new(""));
                let at = if below.as_os_str().is_empty() {
                    name.clone()
                } else {
                    name.join(below)
                };
                volumes.push((inner.place.real.as_path(), at, inner.access));
            }
        }
    }
    let mut seen = std::collections::BTreeSet::new();
    volumes.retain(|(_, at, _)| seen.insert(at.clone()));
    volumes
}

/// Returns true if the value of a client variable is no secret and may appear in an argument.
fn is_not_secret(name: &OsStr) -> bool {
    name == "PATH" || name == "HOME"
}

/// Returns the content of the file for `--env-file`: declared variables that the client would read
/// itself if they were in its environment. Their values may be secret, and every user of the
/// machine can read arguments. Returns `None` if there are no such variables.
///
/// # Errors
///
/// A value has a line break. Each line of the file is one variable, and podman drops a carriage
/// return at the end of a line.
pub(crate) fn variables_file_content(inside: &Inside<'_>) -> Result<Option<Vec<u8>>, SandboxError> {
    let mut text = Vec::new();
    for (name, value) in file_variables(inside) {
        if [name, value]
            .iter()
            .any(|part| part.as_bytes().iter().any(|byte| b"\r\n".contains(byte)))
        {
            return Err(SandboxError::Variable {
                name: name.to_owned(),
            });
        }
        text.extend([name.as_bytes(), b"=", value.as_bytes(), b"\n"].concat());
    }
    Ok((!text.is_empty()).then_some(text))
}

fn file_variables<'a>(inside: &Inside<'a>) -> impl Iterator<Item = (&'a OsStr, &'a OsStr)> {
    let declared = inside.declared;
    let own = inside.environment.iter().filter(|(name, _)| {
        declared.contains_key(*name) && is_engine_variable(name) && !is_not_secret(name)
    });
    own.map(|(name, value)| (name.as_os_str(), value.as_os_str()))
}

/// Returns the path of the file for `--env-file`.
pub(crate) fn variables_path(private: &Path) -> PathBuf {
    private.join("container.env")
}

/// Returns true for variables that describe the host's user and mean nothing in an image, unless
/// they are declared.
fn is_host_variable(name: &OsStr) -> bool {
    ["USER", "LOGNAME", "SHELL"]
        .iter()
        .any(|other| name == *other)
}

/// Returns true if the bridge sets this variable.
fn is_proxy_variable(name: &OsStr) -> bool {
    proxy_variables(0).contains_key(name)
}

fn join_flag(flag: &str, value: &OsStr) -> OsString {
    let mut arg = OsString::from(flag);
    arg.push(value);
    arg
}

fn reject_colon(path: &Path) -> Result<(), SandboxError> {
    if path.as_os_str().as_bytes().contains(&b':') {
        return Err(SandboxError::Refused {
            list: "a volume",
            path: path.to_owned(),
            reason: "a volume of a container cannot have a colon in its path".into(),
        });
    }
    Ok(())
}

struct ContainerArguments(Vec<OsString>);

impl ContainerArguments {
    fn push<A: Into<OsString>>(&mut self, args: impl IntoIterator<Item = A>) {
        self.0.extend(args.into_iter().map(Into::into));
    }

    fn push_user(&mut self, podman: bool, requested: Option<(u32, u32)>, host: (u32, u32)) {
        let (user, group) = requested.unwrap_or(host);
        if podman && host.0 != 0 {
            self.push([format!("--userns=keep-id:uid={user},gid={group}")]);
        }
        self.push([format!("--user={user}:{group}")]);
    }

    fn push_limits(&mut self, machine: &HostProperties, inside: &Inside<'_>) {
        let open_files = inside
            .limits
            .open_files
            .map_or(machine.open_files, |most| most.min(machine.open_files));
        self.push([
            format!("--ulimit=nofile={open_files}:{open_files}"),
            format!("--ulimit=nproc={0}:{0}", machine.processes),
            "--ulimit=core=0:0".to_owned(),
        ]);
        if let Some(processes) = inside.limits.processes {
            self.push([format!("--pids-limit={processes}")]);
        }
        if let Some(bytes) = inside.limits.memory {
            self.push([format!("--memory={bytes}b")]);
        }
    }

    fn push_volume(
        &mut self,
        source: &Path,
        at: &Path,
        access: PathAccess,
    ) -> Result<(), SandboxError> {
        for path in [source, at] {
            reject_colon(path)?;
        }
        let mut volume = join_flag("--volume=", source.as_os_str());
        volume.push(":");
        volume.push(at);
        volume.push(match access {
            PathAccess::Covered | PathAccess::Masked | PathAccess::Read => ":ro",
            PathAccess::Write => ":rw",
        });
        self.0.push(volume);
        Ok(())
    }

    /// Mounts an empty folder over another one. Podman would copy the covered content into it,
    /// unless `notmpcopyup` is set; docker does not copy, and rejects that option.
    fn push_cover(&mut self, at: &Path, podman: bool) -> Result<(), SandboxError> {
        reject_colon(at)?;
        let mut cover = join_flag("--tmpfs=", at.as_os_str());
        cover.push(":size=64k");
        if podman {
            cover.push(",notmpcopyup");
        }
        self.0.push(cover);
        Ok(())
    }

    /// Adds the child's variables to the arguments, and returns the environment of the client.
    fn push_environment(
        &mut self,
        run: &ContainerRun<'_>,
        inside: &Inside<'_>,
    ) -> BTreeMap<OsString, OsString> {
        let mut child = inside.environment.clone();
        child.insert("HOME".into(), home_folder(run.grants, inside));
        child.retain(|name, _| inside.outlet.is_none() || !is_proxy_variable(name));
        let mut client = run.machine.variables.clone();
        for (name, value) in child {
            let declared = inside.declared.contains_key(&name);
            if is_engine_variable(&name) {
                if is_not_secret(&name) && (declared || name == "HOME") {
                    self.push_variable(&name, &value);
                }
            } else if declared || !is_host_variable(&name) {
                self.0.push(join_flag("--env=", &name));
                client.insert(name, value);
            }
        }
        if file_variables(inside).next().is_some() {
            self.0.push(join_flag(
                "--env-file=",
                variables_path(inside.private).as_os_str(),
            ));
        }
        // In the arguments only: the client itself cannot reach the port inside.
        for (name, value) in inside
            .outlet
            .into_iter()
            .flat_map(|outlet| proxy_variables(outlet.port))
        {
            self.push_variable(&name, &value);
        }
        client
    }

    fn push_variable(&mut self, name: &OsStr, value: &OsStr) {
        let mut variable = join_flag("--env=", name);
        variable.push("=");
        variable.push(value);
        self.0.push(variable);
    }
}

#[cfg(test)]
mod tests;
