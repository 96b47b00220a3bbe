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

use crate::grant::{Access, Grant, home};
use crate::network::proxy_variables;
use crate::podman::{LABEL, clients_variables, is_clients, removal, unique_name};
use crate::support::is_image;
use crate::tool::find_tool;
use crate::view::{EMPTY, PROXY_SOCKET};
use crate::{Backend, CommandLine, Container, Inside, Network, Sandbox, SandboxError};
use trunkline_process::Descriptors;

/// Maximum of open files of a container.
const OPEN_FILES: u64 = 1_048_576;

/// Maximum of processes of a container's user if the kernel does not report its highest process
/// number. The number for the container itself is limited by `--pids-limit`.
const PROCESSES: u64 = 32_768;

/// Properties of the host that the command line depends on.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
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

impl Machine {
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
            open_files: hard(Resource::Nofile, OPEN_FILES),
            // Podman lowers its own limit to the highest process number.
            processes: hard(Resource::Nproc, highest_pid().unwrap_or(PROCESSES)),
            variables: clients_variables(),
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
pub(crate) struct Run<'a> {
    pub(crate) backend: &'a Backend,
    pub(crate) image: &'a str,
    pub(crate) options: &'a [String],
    pub(crate) grants: &'a [Grant],
    pub(crate) machine: &'a Machine,
}

/// Returns the command line that runs the child in a container.
///
/// # Errors
///
/// A path cannot be written as a volume, or the name of the image is invalid.
pub(crate) fn command_line(
    run: &Run<'_>,
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
    let mut args = Arguments(run.options.iter().map(OsString::from).collect());
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
    args.user(podman, sandbox.user, machine.user);
    args.limits(machine, inside);
    for (source, at, access) in volumes(run.grants, inside) {
        match access {
            Access::Covered => args.cover(&at, podman)?,
            Access::Masked => args.volume(Path::new(EMPTY), &at, Access::Read)?,
            Access::Read | Access::Write => args.volume(source, &at, access)?,
        }
    }
    if let Some(outlet) = inside.outlet {
        args.volume(&outlet.socket, Path::new(PROXY_SOCKET), Access::Read)?;
    }
    args.0
        .push(joined("--workdir=", inside.work_dir.as_os_str()));

    let environment = args.environment(run, inside);
    let starts_init = inside.outlet.is_some();
    let mut line = if starts_init {
        inside.init_line(Descriptors::Lost, Path::new(PROXY_SOCKET))
    } else {
        std::iter::once(inside.program.to_owned())
            .chain(inside.args.iter().cloned())
            .collect()
    };
    args.0.push(joined("--entrypoint=", &line.remove(0)));
    args.push([run.image]);
    args.0.extend(line);
    let container = Container {
        program: machine.program.clone(),
        options: run.options.to_vec(),
        removal: removal(run.backend),
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
fn volumes<'a>(grants: &'a [Grant], inside: &Inside<'_>) -> Vec<(&'a Path, PathBuf, Access)> {
    let runs_init = inside.outlet.is_some() || Path::new(inside.program) == inside.init;
    let shown: Vec<&Grant> = grants
        .iter()
        .filter(|grant| runs_init || grant.named != inside.init)
        .collect();
    let mut volumes = Vec::new();
    for grant in &shown {
        let real = grant.place.real.as_path();
        if !grant.given {
            volumes.push((real, real.to_owned(), grant.access));
        }
        // An outer path that is mounted under a second name needs its inner paths there as well:
        // their access may be narrower.
        for name in &grant.also {
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
fn is_open(name: &OsStr) -> bool {
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
pub(crate) fn variables_file(inside: &Inside<'_>) -> Result<Option<Vec<u8>>, SandboxError> {
    let mut text = Vec::new();
    for (name, value) in own_variables(inside) {
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

fn own_variables<'a>(inside: &Inside<'a>) -> impl Iterator<Item = (&'a OsStr, &'a OsStr)> {
    let declared = inside.declared;
    let own = inside
        .environment
        .iter()
        .filter(|(name, _)| declared.contains_key(*name) && is_clients(name) && !is_open(name));
    own.map(|(name, value)| (name.as_os_str(), value.as_os_str()))
}

/// Returns the path of the file for `--env-file`.
pub(crate) fn variables_place(private: &Path) -> PathBuf {
    private.join("container.env")
}

/// Returns true for variables that describe the host's user and mean nothing in an image, unless
/// they are declared.
fn is_of_the_host(name: &OsStr) -> bool {
    ["USER", "LOGNAME", "SHELL"]
        .iter()
        .any(|other| name == *other)
}

/// Returns true if the bridge sets this variable.
fn is_proxys(name: &OsStr) -> bool {
    proxy_variables(0).contains_key(name)
}

fn joined(flag: &str, value: &OsStr) -> OsString {
    let mut arg = OsString::from(flag);
    arg.push(value);
    arg
}

fn refuse_colon(path: &Path) -> Result<(), SandboxError> {
    if path.as_os_str().as_bytes().contains(&b':') {
        let (path, reason) = (
            path.to_owned(),
            "a volume of a container cannot have a colon in its path".into(),
        );
        return Err(SandboxError::Refused {
            list: "a volume",
            path,
            reason,
        });
    }
    Ok(())
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn push<A: Into<OsString>>(&mut self, args: impl IntoIterator<Item = A>) {
        self.0.extend(args.into_iter().map(Into::into));
    }

    fn user(&mut self, podman: bool, asked: Option<(u32, u32)>, host: (u32, u32)) {
        let (user, group) = asked.unwrap_or(host);
        if podman && host.0 != 0 {
            self.push([format!("--userns=keep-id:uid={user},gid={group}")]);
        }
        self.push([format!("--user={user}:{group}")]);
    }

    fn limits(&mut self, machine: &Machine, inside: &Inside<'_>) {
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

    fn volume(&mut self, source: &Path, at: &Path, access: Access) -> Result<(), SandboxError> {
        for path in [source, at] {
            refuse_colon(path)?;
        }
        let mut volume = joined("--volume=", source.as_os_str());
        volume.push(":");
        volume.push(at);
        volume.push(match access {
            Access::Covered | Access::Masked | Access::Read => ":ro",
            Access::Write => ":rw",
        });
        self.0.push(volume);
        Ok(())
    }

    /// Mounts an empty folder over another one. Podman would copy the covered content into it,
    /// unless `notmpcopyup` is set; docker does not copy, and rejects that option.
    fn cover(&mut self, at: &Path, podman: bool) -> Result<(), SandboxError> {
        refuse_colon(at)?;
        let mut cover = joined("--tmpfs=", at.as_os_str());
        cover.push(":size=64k");
        if podman {
            cover.push(",notmpcopyup");
        }
        self.0.push(cover);
        Ok(())
    }

    /// Adds the child's variables to the arguments, and returns the environment of the client.
    fn environment(&mut self, run: &Run<'_>, inside: &Inside<'_>) -> BTreeMap<OsString, OsString> {
        let mut child = inside.environment.clone();
        child.insert("HOME".into(), home(run.grants, inside));
        child.retain(|name, _| inside.outlet.is_none() || !is_proxys(name));
        let mut client = run.machine.variables.clone();
        for (name, value) in child {
            let declared = inside.declared.contains_key(&name);
            if is_clients(&name) {
                if is_open(&name) && (declared || name == "HOME") {
                    self.valued(&name, &value);
                }
            } else if declared || !is_of_the_host(&name) {
                self.0.push(joined("--env=", &name));
                client.insert(name, value);
            }
        }
        if own_variables(inside).next().is_some() {
            self.0.push(joined(
                "--env-file=",
                variables_place(inside.private).as_os_str(),
            ));
        }
        // In the arguments only: the client itself cannot reach the port inside.
        for (name, value) in inside
            .outlet
            .into_iter()
            .flat_map(|outlet| proxy_variables(outlet.port))
        {
            self.valued(&name, &value);
        }
        client
    }

    fn valued(&mut self, name: &OsStr, value: &OsStr) {
        let mut variable = joined("--env=", name);
        variable.push("=");
        variable.push(value);
        self.0.push(variable);
    }
}

#[cfg(test)]
mod tests;
