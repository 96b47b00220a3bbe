//! The command line of podman and docker, as a function of what was seen.
//!
//! | flags | why |
//! |---|---|
//! | `--pull=never` | a start reaches for no registry: images are pulled by hand |
//! | `--rm`, `--name`, `--label` | it is removed when it ends; [`Container`] and the sweep find it when its client was killed |
//! | `-i`, `--log-driver=none` | the three pipes, and no copy of what passes through them in a log |
//! | `--read-only`, `--tmpfs /tmp`, `--tmpfs /run` | nothing is written but what was granted |
//! | `--cap-drop=ALL`, `--security-opt=no-new-privileges` | no capability, and none by a set-user-id program |
//! | `--network=none`, or the default network for [`Network::All`] | an allow-list has no network either, and one socket |
//! | `--http-proxy=false` | podman would pass on the host's proxy variables |
//! | `--user` | what is mounted belongs to the host's user: another one could not read its private folder |
//! | `--userns=keep-id:…` | podman without root: the host's user is that user inside |
//! | `--pids-limit`, `--memory` | the limits of the child |
//! | `--ulimit` of open files, processes, core files | both runtimes raise them to values of their own otherwise, and fail where they may not |
//! | `--volume` | at the same absolute paths; a name that leads through links is mounted beside the place that it leads to |
//! | `--env NAME` | the value comes from the client's environment, and is not seen in its arguments |
//! | `--env-file` | values of variables that the client would read itself; no one else can read the file |
//! | `--entrypoint` | the program that is configured, not the image's |
//!
//! The child's `PATH`, `HOME` and what else the client reads itself ([`is_clients`]) are passed
//! only when declared, the first two with their values: the client keeps the host's own, and the
//! image knows its own.
//!
//! The init program runs only where there is an allow-list, for its bridge, and where it is itself
//! the program: it is mounted from the host and has to run with the image's C library.

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

/// The most open files that a container is started with.
const OPEN_FILES: u64 = 1_048_576;

/// The most processes of a user that a container is started with, where the kernel does not say
/// what it can count; the container's own number is bounded by `--pids-limit`.
const PROCESSES: u64 = 32_768;

/// What of the host the command line depends on.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    /// The client.
    pub(crate) program: PathBuf,
    /// The host's user and group.
    pub(crate) user: (u32, u32),
    /// The highest number of open files that may be asked for.
    pub(crate) open_files: u64,
    /// The same for processes.
    pub(crate) processes: u64,
    /// Those variables of the host that a client reads.
    pub(crate) variables: BTreeMap<OsString, OsString>,
    /// The container's name, which says whose it is.
    pub(crate) name: String,
}

impl Machine {
    /// Looks at this machine.
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
            // Podman lowers its own limit to the highest number that a process can have.
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

/// What is to be run where.
#[derive(Debug)]
pub(crate) struct Run<'a> {
    pub(crate) backend: &'a Backend,
    pub(crate) image: &'a str,
    pub(crate) options: &'a [String],
    pub(crate) grants: &'a [Grant],
    pub(crate) machine: &'a Machine,
}

/// The command line that runs the child in a container.
///
/// # Errors
///
/// When a path cannot be written as a volume, or the image is none.
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

/// What is mounted where, from outer to inner. The init program only where something runs it.
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
        // Below another name of an outer place the inner ones have to lie, too: their access is
        // narrower, perhaps.
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

/// Whether the value of a client's variable is not a secret, and may be seen in an argument.
fn is_open(name: &OsStr) -> bool {
    name == "PATH" || name == "HOME"
}

/// What `--env-file` names: declared variables that the client would read itself if they were in
/// its environment, and whose values may be secret, in an argument seen by everybody. `None` where
/// there are none.
///
/// # Errors
///
/// When a value has a line break: a line of the file is one variable, and podman drops a carriage
/// return at its end.
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

/// The place of that file.
pub(crate) fn variables_place(private: &Path) -> PathBuf {
    private.join("container.env")
}

/// Variables of the host's user that mean nothing in an image, unless they are declared.
fn is_of_the_host(name: &OsStr) -> bool {
    ["USER", "LOGNAME", "SHELL"]
        .iter()
        .any(|other| name == *other)
}

/// Whether the bridge sets this variable.
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

    /// Lays an empty folder over another one. Podman would fill it with what it lies over, unless a
    /// flag says not to; docker does not, and does not know the word.
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

    /// Names what the child gets of the environment, and gives the client's own.
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
        // The client pulls images itself, and does not reach the port inside.
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
