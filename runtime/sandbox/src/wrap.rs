//! From a sandbox and what runs inside to one command line.

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

/// Where the proxy is found inside. The loopback there is the child's own.
const PROXY_PORT: u16 = 3128;

impl Isolation for Sandbox {
    /// [`wrap`], with a proxy for a child that may reach some of the network; the child keeps the proxy.
    fn isolate(&self, inside: &Inside<'_>) -> Result<Isolated, IsolationError> {
        let (outlet, attachment) = match &self.network {
            Network::None | Network::All => (None, Attachment::default()),
            Network::Allow(entries) => {
                let allowed = AllowList::parse(entries).map_err(SandboxError::Network)?;
                let socket = inside.private.join("proxy.sock");
                let options = ProxyOptions {
                    upstream: upstream(inside.label),
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

/// The proxy that this process's environment names. One that cannot be used is reported, and
/// connections are direct.
fn upstream(label: &str) -> Option<UpstreamProxy> {
    UpstreamProxy::from_environment(|name| std::env::var(name).ok()).unwrap_or_else(|why| {
        tracing::warn!(target: "trunkline::network", agent = label, "connections of the sandbox are direct: {why}");
        None
    })
}

/// The command line that starts a program in its sandbox.
///
/// Looks at files, writes a few small ones into the private folder, and blocks for both.
///
/// # Errors
///
/// When something that was to be granted is missing or may not be granted, when the program would
/// not be found inside, or when the backend cannot be used here.
pub fn wrap(sandbox: &Sandbox, inside: &Inside<'_>) -> Result<CommandLine, SandboxError> {
    if matches!(sandbox.network, Network::Allow(_)) && inside.outlet.is_none() {
        return Err(SandboxError::NoOutlet);
    }
    let grants = grant::grants(sandbox, inside)?;
    match &sandbox.backend {
        Backend::Bubblewrap => {
            let tool = support::bubblewrap()?;
            let user = sandbox.user.unwrap_or((1000, 1000));
            let home = grant::home(&grants, inside);
            let own = accounts::write(inside.private, user, &home)?;
            let system = view::System::read();
            let view = view::View::new(&grants, &system, &own, &sandbox.network, inside.outlet);
            search::check_programs(&view, inside, &sandbox.programs)?;
            Ok(bubblewrap::command_line(
                &tool,
                &view,
                &sandbox.network,
                user,
                &home,
                inside,
            ))
        }
        Backend::Podman { image, options } | Backend::Docker { image, options } => {
            let machine = container::Machine::read(sandbox.backend.program())?;
            if let Some(variables) = container::variables_file(inside)? {
                write_new(
                    &container::variables_place(inside.private),
                    &variables,
                    0o600,
                )?;
            }
            let run = container::Run {
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

/// Creates a file with this mode.
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
