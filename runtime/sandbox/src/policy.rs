//! What an organisation allows: it narrows what the entries of agents say, and never widens it.

use std::io;
use std::path::{Path, PathBuf};

use crate::grant::follow;
use crate::network::{AllowList, AllowListError};
use crate::{Backend, Network, Sandbox};
use trunkline_process::Containment;
use trunkline_process::Inherit;
use trunkline_process::{Limits, shown_size};

/// What an organisation allows. The default allows everything.
///
/// Lists are `None` where nothing is said: an empty list allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Policy {
    /// Whether an agent may run without a sandbox. One may not either where `network`, `read_only`
    /// or `writable` say something: nothing else could hold it to that.
    pub sandbox_required: bool,
    /// Names of the backends that may be used.
    pub backends: Option<Vec<String>>,
    /// The most that may be reached.
    pub network: Option<Network>,
    /// Folders that hold everything that may be read, besides what every child sees.
    pub read_only: Option<Vec<PathBuf>>,
    /// Folders that hold everything that may be written; it may be read, too.
    pub writable: Option<Vec<PathBuf>>,
    /// Images that may be run.
    pub images: Option<Vec<String>>,
    /// The arguments of podman and docker themselves, in place of an entry's own. Where this says
    /// nothing and the policy limits what an agent's tree may do or take, an entry may have none:
    /// they choose the program that makes the container, the engine that it runs on and the store
    /// of its images, so nothing else would hold.
    pub options: Option<Vec<String>>,
    /// The most memory of a tree, in bytes.
    pub memory: Option<u64>,
    /// The most processes of a tree.
    pub processes: Option<u64>,
    /// The weakest containment that will do. [`Containment::Auto`] says nothing.
    pub containment: Containment,
    /// The most that may be inherited of the host's environment.
    pub inherit: Option<Inherit>,
}

/// What an agent's entry asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Its sandbox.
    pub sandbox: Option<Sandbox>,
    /// Where it runs, absolute.
    pub work_dir: PathBuf,
    /// What its tree may take.
    pub limits: Limits,
    /// How its descendants are kept.
    pub containment: Containment,
    /// The weakest containment that will do, whatever works here.
    pub at_least: Containment,
    /// What it inherits.
    pub inherit: Inherit,
}

/// What an agent gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Narrowed {
    /// What is left of what was asked for. Paths that a list of the policy was applied to are the
    /// places themselves, without links.
    pub granted: Asked,
    /// What was narrowed, a sentence each.
    pub said: Vec<String>,
}

/// Why an agent may not run at all; the texts read after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PolicyError {
    /// It has no sandbox.
    #[error("run without a sandbox: the policy {because}; give the agent a `sandbox`")]
    NoSandbox {
        /// What makes one necessary.
        because: &'static str,
    },
    /// Its backend is not allowed.
    #[error("use the sandbox {backend}: the policy allows {}", listed(.allowed))]
    Backend {
        /// The backend.
        backend: &'static str,
        /// Those that are allowed.
        allowed: Vec<String>,
    },
    /// Its image is not allowed.
    #[error("run the image {image:?}: the policy allows {}", listed(.allowed))]
    Image {
        /// The image.
        image: String,
        /// Those that are allowed.
        allowed: Vec<String>,
    },
    /// It brings options of its own for a container engine.
    #[error(
        "give options to {backend}: they choose what makes the container, and would lift the policy; leave `options` out, or put them into the policy's own `options`"
    )]
    Options {
        /// The backend.
        backend: &'static str,
    },
    /// It wants a path that is not allowed.
    #[error("grant {path:?} ({list}): the policy allows only paths in {}", listed_paths(.allowed))]
    Path {
        /// Where it was named.
        list: &'static str,
        /// The path.
        path: PathBuf,
        /// The folders that are allowed.
        allowed: Vec<PathBuf>,
    },
    /// An entry of the network cannot be read.
    #[error(transparent)]
    Network(#[from] AllowListError),
    /// A path cannot be looked at.
    #[error("grant {path:?}: it cannot be looked at")]
    Missing {
        /// The path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

fn listed(names: &[String]) -> String {
    if names.is_empty() {
        "none".to_owned()
    } else {
        names.join(", ")
    }
}

fn listed_paths(paths: &[PathBuf]) -> String {
    listed(
        &paths
            .iter()
            .map(|path| format!("{path:?}"))
            .collect::<Vec<_>>(),
    )
}

impl Policy {
    /// What is left of what an agent asks for. Follows links, so it blocks.
    ///
    /// # Errors
    ///
    /// When what is left would not be what the agent needs: no sandbox, another backend or image, a
    /// path elsewhere.
    pub fn narrow(&self, asked: Asked) -> Result<Narrowed, PolicyError> {
        self.narrow_with(asked, |path| Ok(follow(path)?.real))
    }

    /// The same, with `real` to follow the links of a path.
    fn narrow_with(
        &self,
        asked: Asked,
        real: impl Fn(&Path) -> io::Result<PathBuf>,
    ) -> Result<Narrowed, PolicyError> {
        let mut left = Narrowed {
            granted: asked,
            said: Vec::new(),
        };
        self.narrow_limits(&mut left);
        self.narrow_containment(&mut left);
        if let Some(most) = self.inherit
            && most == Inherit::Curated
            && left.granted.inherit == Inherit::All
        {
            left.granted.inherit = most;
            left.said
                .push("the host's environment is not inherited as a whole".to_owned());
        }
        let Some(mut sandbox) = left.granted.sandbox.take() else {
            return match self.needs_sandbox() {
                Some(because) => Err(PolicyError::NoSandbox { because }),
                None => Ok(left),
            };
        };
        self.check_backend(&sandbox.backend)?;
        self.narrow_options(&mut sandbox.backend, &mut left.said)?;
        self.narrow_network(&mut sandbox.network, &mut left.said)?;
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

    /// Whether it limits what a tree may do or take, which only the right container engine holds to.
    fn confines(&self) -> bool {
        self.needs_sandbox().is_some()
            || self.backends.is_some()
            || self.images.is_some()
            || self.memory.is_some()
            || self.processes.is_some()
    }

    fn narrow_limits(&self, left: &mut Narrowed) {
        let limits = &mut left.granted.limits;
        let processes: fn(u64) -> String = |number| format!("{number} processes");
        let memory: fn(u64) -> String = |bytes| format!("{} of memory", shown_size(bytes));
        let what = [
            (processes, self.processes, &mut limits.processes),
            (memory, self.memory, &mut limits.memory),
        ];
        for (shown, most, asked) in what {
            if let Some(most) = most
                && asked.is_none_or(|asked| asked > most)
            {
                let before = asked.map_or_else(|| "no limit".to_owned(), shown);
                left.said
                    .push(format!("{} at most, in place of {before}", shown(most)));
                *asked = Some(most);
            }
        }
    }

    fn narrow_containment(&self, left: &mut Narrowed) {
        let (least, asked) = (self.containment, left.granted.containment);
        if least.strength() > left.granted.at_least.strength() {
            left.granted.at_least = least;
        }
        // `Auto` takes the best that works here; that it is good enough is seen when it is known.
        if asked != Containment::Auto && asked.strength() < least.strength() {
            left.granted.containment = least;
            left.said
                .push(format!("containment is {least}, in place of {asked}"));
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
        said: &mut Vec<String>,
    ) -> Result<(), PolicyError> {
        let name = backend.name();
        let (Backend::Podman { options, .. } | Backend::Docker { options, .. }) = backend else {
            return Ok(());
        };
        match &self.options {
            Some(own) if own == options => {}
            Some(own) => {
                said.push(format!("{name} gets the policy's options"));
                options.clone_from(own);
            }
            None if self.confines() && !options.is_empty() => {
                return Err(PolicyError::Options { backend: name });
            }
            None => {}
        }
        Ok(())
    }

    fn narrow_network(
        &self,
        network: &mut Network,
        said: &mut Vec<String>,
    ) -> Result<(), PolicyError> {
        let Some(most) = &self.network else {
            return Ok(());
        };
        let less = match (&*network, most) {
            (Network::None, _) | (_, Network::All) => return Ok(()),
            (_, Network::None) => Network::None,
            (Network::All, Network::Allow(names)) => Network::Allow(names.clone()),
            (Network::Allow(asked), Network::Allow(most)) => {
                let (asked, most) = (AllowList::parse(asked)?, AllowList::parse(most)?);
                let both = asked.intersect(&most);
                if both == asked {
                    return Ok(());
                }
                Network::Allow(both.entries().collect())
            }
        };
        said.push(match &less {
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
        left: &mut Narrowed,
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
        // A root that is not there holds nothing.
        let roots = |roots: &Option<Vec<PathBuf>>| -> Option<Vec<PathBuf>> {
            Some(
                roots
                    .as_ref()?
                    .iter()
                    .filter_map(|root| real(root).ok())
                    .collect(),
            )
        };
        let roots = Roots {
            writable: roots(&self.writable),
            read_only: roots(&self.read_only),
        };
        for path in &mut sandbox.writable {
            *path = roots.writable("writable", place(path)?)?;
        }
        for path in &mut sandbox.read_only {
            *path = roots.readable("read_only", place(path)?)?;
        }
        // The working directory is writable unless something says that it is not.
        let work_dir = place(&left.granted.work_dir)?;
        if roots.may_write(&work_dir) {
            return Ok(());
        }
        let work_dir = roots.readable("the working directory", work_dir)?;
        if !sandbox
            .read_only
            .iter()
            .any(|path| work_dir.starts_with(path))
        {
            left.said
                .push(format!("the working directory {work_dir:?} is read-only"));
            sandbox.read_only.push(work_dir);
        }
        Ok(())
    }
}

/// The folders that hold everything that may be granted, without links. `None` holds everything,
/// but that what may be written may be read, so a list of what may be read bounds it.
struct Roots {
    writable: Option<Vec<PathBuf>>,
    read_only: Option<Vec<PathBuf>>,
}

impl Roots {
    fn may_write(&self, path: &Path) -> bool {
        within(path, self.writable.as_deref().or(self.read_only.as_deref()))
    }

    fn writable(&self, list: &'static str, path: PathBuf) -> Result<PathBuf, PolicyError> {
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

    /// What may be written may be read; without a list of its own everything may be.
    fn readable(&self, list: &'static str, path: PathBuf) -> Result<PathBuf, PolicyError> {
        let read_only = self.read_only.as_deref();
        if within(&path, read_only) || (self.writable.is_some() && self.may_write(&path)) {
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

/// Whether `path`, no part of which is a link, lies in one of `allowed`.
fn within(path: &Path, allowed: Option<&[PathBuf]>) -> bool {
    allowed.is_none_or(|allowed| allowed.iter().any(|root| path.starts_with(root)))
}

#[cfg(test)]
mod tests;
