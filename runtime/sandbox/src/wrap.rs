//! Conversion of a sandbox and its program to one command line.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use trunkline_process::{Attachment, Holder, Inside, Isolated, Isolation, IsolationError, Outlet};

use crate::network::{AllowList, Proxy, ProxyOptions, UpstreamProxy};
use crate::{
    Backend, CommandLine, Network, Sandbox, SandboxError, accounts, bubblewrap, container, grant,
    search, support, view,
};

/// Port of the proxy inside. The loopback interface inside belongs to the child.
const PROXY_PORT: u16 = 3128;

impl Isolation for Sandbox {
    /// Calls [`wrap`], and starts a proxy if the child may reach some of the network. The child
    /// owns the proxy.
    fn isolate(&self, inside: &Inside<'_>) -> Result<Isolated, IsolationError> {
        let (outlet, attachment) = match &self.network {
            Network::None | Network::All => (None, Attachment::default()),
            Network::Allow(entries) => {
                let allowed = AllowList::parse(entries).map_err(SandboxError::Network)?;
                let socket = inside.private.join("proxy.sock");
                let options = ProxyOptions {
                    upstream: upstream_from_environment(inside.label),
                    ..ProxyOptions::default()
                };
                let proxy = Proxy::start(&socket, allowed, inside.label, options)
                    .map_err(IsolationError::System)?;
                (
                    Some(Outlet {
                        port: PROXY_PORT,
                        socket,
                    }),
                    Attachment::new(proxy),
                )
            }
        };
        let line = wrap(
            self,
            &Inside {
                outlet: outlet.as_ref(),
                ..*inside
            },
        )?;
        let holder = line
            .container
            .map_or(Holder::Process, |container| Holder::Engine {
                removal: container.removal_line(),
            });
        let CommandLine {
            program,
            args,
            environment,
            ..
        } = line;
        Ok(Isolated {
            program: program.into(),
            args,
            environment,
            holder,
            attachment,
        })
    }
}

/// Returns the proxy that the environment of this process names. An unusable one is logged, and
/// connections are direct.
fn upstream_from_environment(label: &str) -> Option<UpstreamProxy> {
    UpstreamProxy::from_environment(|name| std::env::var(name).ok()).unwrap_or_else(|why| {
        tracing::warn!(target: "trunkline::network", agent = label, "connections of the sandbox are direct: {why}");
        None
    })
}

/// Returns the command line that starts a program in its sandbox.
///
/// Reads metadata of files and writes a few small files into the private folder, so it blocks.
///
/// # Errors
///
/// A granted path is missing or may not be granted, the program does not exist inside, or the
/// backend cannot be used on this machine.
pub fn wrap(sandbox: &Sandbox, inside: &Inside<'_>) -> Result<CommandLine, SandboxError> {
    if matches!(sandbox.network, Network::Allow(_)) && inside.outlet.is_none() {
        return Err(SandboxError::NoOutlet);
    }
    let grants = grant::collect_grants(sandbox, inside)?;
    match &sandbox.backend {
        Backend::Bubblewrap => {
            let tool = support::find_bubblewrap()?;
            let user = sandbox.user.unwrap_or((1000, 1000));
            let home = grant::home_folder(&grants, inside);
            let files = accounts::write_etc_files(inside.private, user, &home)?;
            let system = view::SystemFiles::read();
            let view =
                view::FileView::new(&grants, &system, &files, &sandbox.network, inside.outlet);
            search::check_programs(&view, inside, &sandbox.programs)?;
            Ok(bubblewrap::command_line(
                &tool,
                &view,
                &sandbox.network,
                user,
                &home,
                grant::identify_mounts(&grants)?,
                inside,
            ))
        }
        Backend::Podman { image, options } | Backend::Docker { image, options } => {
            grant::reject_exchangeable(&grants, inside.label)?;
            let machine = container::HostProperties::read(sandbox.backend.program())?;
            if let Some(variables) = container::variables_file_content(inside)? {
                write_new(
                    &container::variables_path(inside.private),
                    &variables,
                    0o600,
                )?;
            }
            let run = container::ContainerRun {
                backend: &sandbox.backend,
                image,
                options,
                grants: &grants,
                machine: &machine,
            };
            container::command_line(&run, sandbox, inside)
        }
    }
}

/// Creates a file with the permissions `mode`.
pub(crate) fn write_new(path: &Path, content: &[u8], mode: u32) -> Result<(), SandboxError> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(mode);
    let written = options
        .open(path)
        .and_then(|mut file| file.write_all(content));
    written.map_err(|source| SandboxError::Write {
        path: path.to_owned(),
        source,
    })
}
