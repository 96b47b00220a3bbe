//! Checks of the backends on this machine.

use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

use crate::bubblewrap::isolation_args;
use crate::tool::{PROBE_TIMEOUT, find_tool, read_output, run_bounded};
use crate::{Backend, Network, SandboxError};

/// Arguments of `podman image` that check for an image.
const PODMAN_IMAGE_CHECK: &[&str] = &["exists"];

/// Arguments of `docker image` that check for an image.
const DOCKER_IMAGE_CHECK: &[&str] = &["inspect", "--format", "{{.Id}}"];

/// Result of a check of a backend on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackendSupport {
    /// Path of the backend's program.
    pub program: Option<PathBuf>,
    /// Version, as the program prints it.
    pub version: Option<String>,
    /// Reason why the backend cannot be used, and the remedy. `None` if it can.
    pub problem: Option<String>,
    /// Protections that this machine weakens, with the reason of each.
    pub weaknesses: Vec<String>,
    /// True if the backend works, but the image is not on this machine. A start pulls no image.
    pub lacks_image: bool,
}

impl BackendSupport {
    /// Returns true if the backend can be used.
    #[must_use]
    pub fn is_usable(&self) -> bool {
        self.problem.is_none()
    }

    /// Checks with a subcommand of the engine's `image` that an image exists.
    fn check_image(
        &mut self,
        program: &Path,
        image: &str,
        options: &[String],
        subcommand: &[&str],
    ) {
        if !is_image(image) {
            self.problem = Some(format!("{image:?} is not the name of an image"));
            return;
        }
        let mut command = Command::new(program);
        command
            .args(options)
            .arg("image")
            .args(subcommand)
            .arg(image);
        match run_bounded(command, PROBE_TIMEOUT) {
            Ok(finished) if finished.success => {}
            // `podman image exists` reports a missing image by code 1 and other failures by other
            // codes. Docker reports it by this text.
            Ok(finished) if subcommand == PODMAN_IMAGE_CHECK && finished.code == Some(1) => {
                self.lacks_image = true
            }
            Ok(finished)
                if subcommand != PODMAN_IMAGE_CHECK && finished.error_contains("no such image") =>
            {
                self.lacks_image = true
            }
            Ok(finished) => self.problem = Some(finished.last_error_line()),
            Err(error) => self.problem = Some(format!("the image cannot be checked: {error}")),
        }
    }
}

/// Returns true if an engine takes this for the name of an image and not for an option.
pub(crate) fn is_image(name: &str) -> bool {
    !name.is_empty() && !name.starts_with('-')
}

/// Checks whether `backend` can be used on this machine. Changes nothing. Blocks for some seconds
/// at most.
#[must_use]
pub fn check_backend(backend: &Backend) -> BackendSupport {
    let mut found = BackendSupport {
        program: None,
        version: None,
        problem: None,
        weaknesses: Vec::new(),
        lacks_image: false,
    };
    let tool = backend.program();
    let program = match find_tool(tool) {
        Ok(program) => program,
        Err(error) => {
            found.problem = Some(format!("failed to {error}"));
            return found;
        }
    };
    match read_output(&program, &["--version"]) {
        Ok(output) => {
            found.version = Some(output.lines().next().unwrap_or_default().trim().to_owned())
        }
        Err(problem) => found.problem = Some(problem),
    }
    found.program = Some(program.clone());
    if found.problem.is_some() {
        return found;
    }
    match backend {
        Backend::Bubblewrap => match probe_bubblewrap(&program) {
            Ok(bubblewrap) if bubblewrap.disable_userns => {}
            Ok(_) => found.weaknesses.push(
                "user namespaces cannot be forbidden inside: that takes bubblewrap 0.8 that is \
                 not set-user-id"
                    .to_owned(),
            ),
            Err(error) => found.problem = Some(format!("failed to {error}")),
        },
        Backend::Podman { image, options } => {
            found.check_image(&program, image, options, PODMAN_IMAGE_CHECK)
        }
        Backend::Docker { image, options } => {
            let before = options.iter().map(String::as_str);
            let args: Vec<&str> = before
                .chain(["version", "--format", "{{.Server.Version}}"])
                .collect();
            if let Err(problem) = read_output(&program, &args) {
                found.problem = Some(format!("the docker daemon does not answer: {problem}"));
            } else {
                found.check_image(&program, image, options, DOCKER_IMAGE_CHECK);
            }
        }
    }
    found
}

/// A bwrap that works on this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BubblewrapTool {
    pub(crate) program: PathBuf,
    /// True if it can forbid user namespaces inside.
    pub(crate) disable_userns: bool,
}

/// Returns the bwrap of this machine. A successful check is cached. Blocks.
pub(crate) fn find_bubblewrap() -> Result<Arc<BubblewrapTool>, SandboxError> {
    static CACHE: Mutex<Option<Arc<BubblewrapTool>>> = Mutex::new(None);
    let program = find_tool("bwrap")?;
    let known = CACHE.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(known) = known.filter(|known| known.program == program) {
        return Ok(known);
    }
    let probed = Arc::new(probe_bubblewrap(&program)?);
    *CACHE.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&probed));
    Ok(probed)
}

/// Runs bwrap with the flags that isolate a child, and repeats a failure without
/// `--disable-userns`, which older versions do not know.
fn probe_bubblewrap(program: &Path) -> Result<BubblewrapTool, SandboxError> {
    let setuid = fs::metadata(program).is_ok_and(|meta| meta.mode() & 0o4000 != 0);
    let mut problem = String::new();
    for disable_userns in [true, false] {
        if disable_userns && setuid {
            continue;
        }
        let mut args = isolation_args(disable_userns, &Network::None);
        let view =
            "--uid 1000 --gid 1000 --ro-bind / / --proc /proc --remount-ro /proc --dev /dev --";
        args.extend(view.split(' ').map(OsString::from));
        args.extend([program.as_os_str().to_owned(), "--version".into()]);
        match read_output(program, &args) {
            Ok(_) => {
                return Ok(BubblewrapTool {
                    program: program.to_owned(),
                    disable_userns,
                });
            }
            Err(output) => problem = output,
        }
    }
    if problem.contains("namespace")
        || problem.contains("uid map")
        || problem.contains("not permitted")
    {
        problem.push_str(
            "; user namespaces seem to be forbidden here (by sysctl, AppArmor, or the container around)",
        );
    }
    Err(SandboxError::Unusable {
        tool: "bwrap",
        problem,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_backend_is_checked_without_a_panic() {
        let image = || "none".to_owned();
        for backend in [
            Backend::Bubblewrap,
            Backend::Podman {
                image: image(),
                options: vec![],
            },
            Backend::Docker {
                image: image(),
                options: vec!["--host=unix:///nonexistent.sock".to_owned()],
            },
        ] {
            let found = check_backend(&backend);
            assert!(
                found.is_usable() || found.problem.is_some_and(|problem| !problem.is_empty()),
                "{backend:?}"
            );
        }
    }
}
