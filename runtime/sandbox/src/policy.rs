//! Policy of an organisation: it narrows the settings of agents, and never widens them.

use std::io;
use std::path::{Path, PathBuf};

use crate::grant::{PathAccess, PathGrant, follow_links};
use crate::network::{AllowList, AllowListError};
use crate::{Backend, Network, Sandbox};
use trunkline_process::Containment;
use trunkline_process::Inherit;
use trunkline_process::{Limits, shown_size};

/// Limits of an organisation. The default allows everything.
///
/// A list that is `None` limits nothing, and an empty list allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// True if every agent needs a sandbox. The settings `network`, `read_only` and `writable` also
    /// require one, because only a sandbox can enforce them.
    pub sandbox_required: bool,
    /// Names of the allowed backends.
    pub backends: Option<Vec<String>>,
    /// Widest network access.
    pub network: Option<Network>,
    /// Folders that contain all readable paths, besides the files that every child sees.
    pub read_only: Option<Vec<PathBuf>>,
    /// Folders that contain all writable paths. They may be read, too.
    pub writable: Option<Vec<PathBuf>>,
    /// Allowed images.
    pub images: Option<Vec<String>>,
    /// Arguments of podman and docker themselves, which replace the agent's. If this is `None` and
    /// the policy limits a process tree in another way, an agent may have none: they select the
    /// program that creates the container, its engine and the store of its images, so they could
    /// lift every other limit.
    pub options: Option<Vec<String>>,
    /// Maximum of memory of a process tree, in bytes.
    pub memory: Option<u64>,
    /// Maximum of processes of a process tree.
    pub processes: Option<u64>,
    /// Weakest allowed containment. [`Containment::Auto`] allows every one.
    pub containment: Containment,
    /// Widest inheritance of the host's environment.
    pub inherit: Option<Inherit>,
}

/// Confinement of an agent that a policy narrows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AgentConfinement {
    /// Sandbox, if there is one.
    pub sandbox: Option<Sandbox>,
    /// Absolute path of the working directory.
    pub work_dir: PathBuf,
    /// Resource limits of the process tree.
    pub limits: Limits,
    /// Containment of the process tree.
    pub containment: Containment,
    /// Weakest accepted containment. The agent does not start on a machine without it.
    pub at_least: Containment,
    /// Inheritance of the host's environment.
    pub inherit: Inherit,
}

/// Result of [`Policy::narrow`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NarrowedConfinement {
    /// The allowed confinement. In paths that a list of the policy was applied to, links are
    /// followed.
    pub granted: AgentConfinement,
    /// One sentence for each narrowed setting.
    pub notes: Vec<String>,
}

/// Error if a policy does not let an agent run. The texts read after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// The agent has no sandbox.
    #[error("run without a sandbox: the policy {because}; give the agent a `sandbox`")]
    NoSandbox {
        /// Setting of the policy that requires one.
        because: &'static str,
    },
    /// The backend is not allowed.
    #[error("use the sandbox {backend}: the policy allows {}", list_names(.allowed))]
    Backend {
        /// Name of the backend.
        backend: &'static str,
        /// Allowed values.
        allowed: Vec<String>,
    },
    /// The image is not allowed.
    #[error("run the image {image:?}: the policy allows {}", list_names(.allowed))]
    Image {
        /// Name of the image.
        image: String,
        /// Allowed values.
        allowed: Vec<String>,
    },
    /// The agent has options of its own for a container engine.
    #[error(
        "give options to {backend}: they choose what makes the container, and would lift the policy; leave `options` out, or put them into the policy's own `options`"
    )]
    Options {
        /// Name of the backend.
        backend: &'static str,
    },
    /// A path is not allowed.
    #[error("grant {path:?} ({list}): the policy allows only paths in {}", list_paths(.allowed))]
    Path {
        /// Name of the setting that contains the path.
        list: &'static str,
        /// The path.
        path: PathBuf,
        /// Allowed folders.
        allowed: Vec<PathBuf>,
    },
    /// An entry of the network list is invalid.
    #[error(transparent)]
    Network(#[from] AllowListError),
    /// A path cannot be read.
    #[error("grant {path:?}: it cannot be looked at")]
    Missing {
        /// The path.
        path: PathBuf,
        /// Error of the system.
        source: io::Error,
    },
}

fn list_names(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn list_paths(paths: &[PathBuf]) -> String {
    list_names(
        &paths
            .iter()
            .map(|path| format!("{path:?}"))
            .collect::<Vec<_>>(),
    )
}

impl Policy {
    /// Narrows the confinement of an agent. Follows links, so it blocks.
    ///
    /// # Errors
    ///
    /// The agent cannot run within the policy: it has no sandbox, a backend or image that is not
    /// allowed, or a path outside the allowed folders.
    pub fn narrow(&self, requested: AgentConfinement) -> Result<NarrowedConfinement, PolicyError> {
        self.narrow_with(requested, |path| Ok(follow_links(path)?.real))
    }

    /// Like [`Self::narrow`], with `real` as the function that follows the links of a path.
    fn narrow_with(
        &self,
        requested: AgentConfinement,
        real: impl Fn(&Path) -> io::Result<PathBuf>,
    ) -> Result<NarrowedConfinement, PolicyError> {
        let mut left = NarrowedConfinement {
            granted: requested,
            notes: Vec::new(),
        };
        self.narrow_limits(&mut left);
        self.narrow_containment(&mut left);
        if let Some(most) = self.inherit
            && most == Inherit::Curated
            && left.granted.inherit == Inherit::All
        {
            left.granted.inherit = most;
            left.notes
                .push("the host's environment is not inherited as a whole".to_owned());
        }
        let Some(mut sandbox) = left.granted.sandbox.take() else {
            return match self.needs_sandbox() {
                Some(because) => Err(PolicyError::NoSandbox { because }),
                None => Ok(left),
            };
        };
        self.check_backend(&sandbox.backend)?;
        self.narrow_options(&mut sandbox.backend, &mut left.notes)?;
        self.narrow_network(&mut sandbox.network, &mut left.notes)?;
        self.narrow_paths(&mut sandbox, &mut left, &real)?;
        left.granted.sandbox = Some(sandbox);
        Ok(left)
    }

    fn needs_sandbox(&self) -> Option<&'static str> {
        let limited = matches!(self.network, Some(Network::None | Network::Allow(_)));
        if self.sandbox_required {
            Some("requires one")
        } else if limited {
            Some("limits the network, which only a sandbox can do")
        } else if self.read_only.is_some() || self.writable.is_some() {
            Some("limits paths, which only a sandbox can do")
        } else {
            None
        }
    }

    /// Returns true if the policy sets a limit that only the intended container engine enforces.
    fn limits_trees(&self) -> bool {
        self.needs_sandbox().is_some()
            || self.backends.is_some()
            || self.images.is_some()
            || self.memory.is_some()
            || self.processes.is_some()
    }

    fn narrow_limits(&self, left: &mut NarrowedConfinement) {
        let limits = &mut left.granted.limits;
        let processes: fn(u64) -> String = |number| format!("{number} processes");
        let memory: fn(u64) -> String = |bytes| format!("{} of memory", shown_size(bytes));
        let what = [
            (processes, self.processes, &mut limits.processes),
            (memory, self.memory, &mut limits.memory),
        ];
        for (shown, most, requested) in what {
            if let Some(most) = most
                && requested.is_none_or(|requested| requested > most)
            {
                let before = requested.map_or_else(|| "no limit".to_owned(), shown);
                left.notes
                    .push(format!("{} at most, in place of {before}", shown(most)));
                *requested = Some(most);
            }
        }
    }

    fn narrow_containment(&self, left: &mut NarrowedConfinement) {
        let least = self.containment;
        let requested = left.granted.containment;
        if least.strength() > left.granted.at_least.strength() {
            left.granted.at_least = least;
        }
        // `Auto` selects the strongest available one. The check against `at_least` follows when
        // that is known.
        if requested != Containment::Auto && requested.strength() < least.strength() {
            left.granted.containment = least;
            left.notes
                .push(format!("containment is {least}, in place of {requested}"));
        }
    }

    fn check_backend(&self, backend: &Backend) -> Result<(), PolicyError> {
        let name = backend.name();
        match &self.backends {
            Some(allowed) if allowed.iter().all(|allowed| allowed != name) => {
                return Err(PolicyError::Backend {
                    backend: name,
                    allowed: allowed.clone(),
                });
            }
            Some(_) | None => {}
        }
        match (backend, &self.images) {
            (Backend::Podman { image, .. } | Backend::Docker { image, .. }, Some(allowed))
                if !allowed.contains(image) =>
            {
                Err(PolicyError::Image {
                    image: image.clone(),
                    allowed: allowed.clone(),
                })
            }
            (Backend::Bubblewrap | Backend::Podman { .. } | Backend::Docker { .. }, _) => Ok(()),
        }
    }

    fn narrow_options(
        &self,
        backend: &mut Backend,
        notes: &mut Vec<String>,
    ) -> Result<(), PolicyError> {
        let name = backend.name();
        let (Backend::Podman { options, .. } | Backend::Docker { options, .. }) = backend else {
            return Ok(());
        };
        match &self.options {
            Some(own) if own == options => {}
            Some(own) => {
                notes.push(format!("{name} gets the policy's options"));
                options.clone_from(own);
            }
            None if self.limits_trees() && !options.is_empty() => {
                return Err(PolicyError::Options { backend: name });
            }
            None => {}
        }
        Ok(())
    }

    fn narrow_network(
        &self,
        network: &mut Network,
        notes: &mut Vec<String>,
    ) -> Result<(), PolicyError> {
        let Some(most) = &self.network else {
            return Ok(());
        };
        let less = match (&*network, most) {
            (Network::None, _) | (_, Network::All) => return Ok(()),
            (_, Network::None) => Network::None,
            (Network::All, Network::Allow(names)) => Network::Allow(names.clone()),
            (Network::Allow(requested), Network::Allow(most)) => {
                let requested = AllowList::parse(requested)?;
                let both = requested.intersect(&AllowList::parse(most)?);
                if both == requested {
                    return Ok(());
                }
                Network::Allow(both.entries().collect())
            }
        };
        notes.push(match &less {
            Network::Allow(names) if !names.is_empty() => {
                format!("of the network only {}", names.join(", "))
            }
            Network::None | Network::Allow(_) | Network::All => "no network".to_owned(),
        });
        *network = less;
        Ok(())
    }

    fn narrow_paths(
        &self,
        sandbox: &mut Sandbox,
        left: &mut NarrowedConfinement,
        real: &impl Fn(&Path) -> io::Result<PathBuf>,
    ) -> Result<(), PolicyError> {
        if self.read_only.is_none() && self.writable.is_none() {
            return Ok(());
        }
        let place = |path: &Path| {
            real(path).map_err(|source| PolicyError::Missing {
                path: path.to_owned(),
                source,
            })
        };
        // A missing root contains nothing.
        let roots = |roots: &Option<Vec<PathBuf>>| -> Option<Vec<PathBuf>> {
            Some(
                roots
                    .as_ref()?
                    .iter()
                    .filter_map(|root| real(root).ok())
                    .collect(),
            )
        };
        let roots = AllowedRoots {
            writable: roots(&self.writable),
            read_only: roots(&self.read_only),
        };
        if !sandbox.allowed.contains(&roots) {
            sandbox.allowed.push(roots.clone());
        }
        for path in &mut sandbox.writable {
            *path = roots.check_writable("writable", place(path)?)?;
        }
        for path in &mut sandbox.read_only {
            *path = roots.check_readable("read_only", place(path)?)?;
        }
        // The working directory is writable unless a setting makes it read-only.
        let work_dir = place(&left.granted.work_dir)?;
        if roots.may_write(&work_dir) {
            return Ok(());
        }
        let work_dir = roots.check_readable("the working directory", work_dir)?;
        if !sandbox
            .read_only
            .iter()
            .any(|path| work_dir.starts_with(path))
        {
            left.notes
                .push(format!("the working directory {work_dir:?} is read-only"));
            sandbox.read_only.push(work_dir);
        }
        Ok(())
    }
}

/// Allowed folders, without links. `None` allows everything, with one exception: since writable
/// paths can also be read, a list of readable folders limits them as well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedRoots {
    writable: Option<Vec<PathBuf>>,
    read_only: Option<Vec<PathBuf>>,
}

impl AllowedRoots {
    fn may_write(&self, path: &Path) -> bool {
        is_within_any(path, self.writable.as_deref().or(self.read_only.as_deref()))
    }

    /// Checks the present target of a grant.
    pub(crate) fn check(&self, grant: &PathGrant) -> Result<(), PolicyError> {
        let real = grant.place.real.clone();
        match grant.access {
            PathAccess::Write => self.check_writable(grant.list, real),
            PathAccess::Covered | PathAccess::Masked | PathAccess::Read => {
                self.check_readable(grant.list, real)
            }
        }
        .map(drop)
    }

    fn check_writable(&self, list: &'static str, path: PathBuf) -> Result<PathBuf, PolicyError> {
        if self.may_write(&path) {
            return Ok(path);
        }
        let allowed = self
            .writable
            .clone()
            .or_else(|| self.read_only.clone())
            .unwrap_or_default();
        Err(PolicyError::Path {
            list,
            path,
            allowed,
        })
    }

    /// Checks a readable path. Writable folders may be read, and without a list of readable folders
    /// everything may be.
    fn check_readable(&self, list: &'static str, path: PathBuf) -> Result<PathBuf, PolicyError> {
        let read_only = self.read_only.as_deref();
        if is_within_any(&path, read_only) || (self.writable.is_some() && self.may_write(&path)) {
            return Ok(path);
        }
        let allowed = read_only
            .into_iter()
            .chain(self.writable.as_deref())
            .flatten()
            .cloned()
            .collect();
        Err(PolicyError::Path {
            list,
            path,
            allowed,
        })
    }
}

/// Returns true if `path` is in one of `allowed`. No part of `path` may be a link.
fn is_within_any(path: &Path, allowed: Option<&[PathBuf]>) -> bool {
    allowed.is_none_or(|allowed| allowed.iter().any(|root| path.starts_with(root)))
}

#[cfg(test)]
mod tests;
