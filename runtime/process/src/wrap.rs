//! Turns the command line of a child into the command line of the process that contains it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::DirBuilder;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::DirBuilderExt;
use std::path::Path;
use std::sync::Arc;

use crate::containment::{self, Containment};
use crate::environment::shielded;
use crate::init::{self, InitOptions, Keep};
use crate::isolation::{Attachment, Holder, Inside, Isolated, Isolation, IsolationError};
use crate::pipe::pair;
use crate::private_dir::PrivateDir;
use crate::spec::ChildSpec;
use crate::system::before_exec::{Death, Keys, Manner, Privileges, StopSignals};

/// Facts of a child that its command line is made from.
#[derive(Debug)]
pub(crate) struct Scene<'a> {
    pub(crate) spec: &'a ChildSpec,
    /// The whole environment.
    pub(crate) environment: BTreeMap<OsString, OsString>,
    /// Working directory, absolute.
    pub(crate) work_dir: &'a Path,
    pub(crate) private: &'a PrivateDir,
}

/// The executed command and its ties to the host.
#[derive(Debug)]
pub(crate) struct Wrapped {
    pub(crate) program: OsString,
    /// Name of the process instead of `program`.
    pub(crate) name: Option<&'static str>,
    pub(crate) args: Vec<OsString>,
    pub(crate) environment: BTreeMap<OsString, OsString>,
    pub(crate) manner: Manner,
    /// The child's ends of the pipes.
    pub(crate) lent: Vec<OwnedFd>,
    /// Descriptor for an init's report whether the program has started.
    pub(crate) status: Option<OwnedFd>,
    /// Lifeline of an init.
    pub(crate) lifeline: Option<Arc<OwnedFd>>,
    /// Enforcer of the tree's limits.
    pub(crate) limiter: Limiter,
    /// Resources of its sandbox.
    pub(crate) attachment: Attachment,
}

/// Enforcer of a tree's limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Limiter {
    /// The host, by a cgroup or resource limits.
    Host,
    /// The engine of its container; they are not meant for the engine's client.
    Engine,
}

/// Error of a child that cannot be contained.
#[derive(Debug)]
pub(crate) enum WrapError {
    /// The requested containment does not work here.
    Refused(String),
    /// The sandbox that was asked for cannot be made.
    Isolation(IsolationError),
    /// Its deadline has passed.
    Late,
    /// The system is short of descriptors.
    System(io::Error),
}

impl From<io::Error> for WrapError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Wraps a child's command line. Blocks: the first call finds out what works here.
pub(crate) fn wrap(scene: Scene<'_>) -> Result<Wrapped, WrapError> {
    let spec = scene.spec;
    if let Some(sandbox) = &spec.sandbox {
        return isolated(&**sandbox, &scene);
    }
    // Nothing is tried out for a child that asks for nothing.
    if spec.containment == Containment::Group
        && spec.at_least == Containment::Auto
        && spec.deadline.is_none()
    {
        return Ok(plain(scene));
    }
    let support = containment::support();
    let choice = support
        .choose(spec.containment, spec.at_least)
        .map_err(WrapError::Refused)?;
    match (choice.used, init::executable()) {
        (Containment::Namespace, Some(program)) => {
            within(program, scene, Keep::Namespace, Manner::default())
        }
        (Containment::Reaper, Some(program)) => {
            let manner = Manner {
                death: Death::AfterHost,
                ..Manner::default()
            };
            within(program, scene, Keep::Reaper, manner)
        }
        (Containment::Group | Containment::Auto, _) | (_, None) => {
            if spec.deadline.is_some() {
                return Err(WrapError::Refused(no_deadline(choice.why_not_better)));
            }
            if let Some(why) = choice.why_not_better {
                warn_once(&why);
            }
            Ok(plain(scene))
        }
    }
}

/// The command line itself.
fn plain(
    Scene {
        spec, environment, ..
    }: Scene<'_>,
) -> Wrapped {
    Wrapped {
        program: spec.program.clone(),
        name: None,
        args: spec.args.clone(),
        environment,
        manner: Manner::default(),
        lent: Vec::new(),
        status: None,
        lifeline: None,
        limiter: Limiter::Host,
        attachment: Attachment::default(),
    }
}

/// Returns the error text for a deadline of a child that only a group contains.
fn no_deadline(why_not_better: Option<String>) -> String {
    let todo = match why_not_better {
        Some(why) => format!("only `group` works here: {why}"),
        None => "choose `auto`, `namespace` or `reaper`".to_owned(),
    };
    format!("a deadline is kept by an init, and the containment `group` has none; {todo}")
}

/// Returns both ends of a lifeline: the init's, and the host's.
fn tie(spec: &ChildSpec) -> Result<(OwnedFd, Arc<OwnedFd>), WrapError> {
    match &spec.deadline {
        Some(deadline) => deadline.tie()?.ok_or(WrapError::Late),
        None => pair()
            .map(|(held, own)| (held, Arc::new(own)))
            .map_err(WrapError::System),
    }
}

/// The command line of an init that runs the program.
fn within(
    init: &Path,
    scene: Scene<'_>,
    keep: Keep,
    mut manner: Manner,
) -> Result<Wrapped, WrapError> {
    let (status, told) = pair()?;
    let (held, lifeline) = tie(scene.spec)?;
    manner.kept = vec![told.as_raw_fd(), held.as_raw_fd()];
    let counts = scene.spec.deadline.is_some();
    let Wrapped {
        program,
        args,
        environment,
        ..
    } = plain(scene);
    let environment = environment
        .into_iter()
        .map(|(name, value)| (shielded(&name), value))
        .collect();
    let options = InitOptions {
        lifeline: Some(held.as_raw_fd()),
        counts,
        status: Some(told.as_raw_fd()),
        command: std::iter::once(program).chain(args).collect(),
        ..InitOptions::new(keep)
    };
    Ok(Wrapped {
        program: init.into(),
        name: Some(init::MARKER),
        args: options.to_args(),
        environment,
        manner,
        lent: vec![told, held],
        status: Some(status),
        lifeline: Some(lifeline),
        limiter: Limiter::Host,
        attachment: Attachment::default(),
    })
}

/// The command line of a sandbox in which an init runs the program. A sandbox contains: it has a
/// PID namespace.
fn isolated(sandbox: &dyn Isolation, scene: &Scene<'_>) -> Result<Wrapped, WrapError> {
    let spec = scene.spec;
    let init = init::program().ok_or_else(|| WrapError::Refused(init::MISSING.to_owned()))?;
    let (status, told) = pair()?;
    if let Some(dir) = &spec.record_dir {
        // A folder that is not there cannot be covered inside. One that cannot be made gets no record either.
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(dir);
    }
    let hidden: Vec<_> = spec
        .hidden
        .iter()
        .chain(&spec.record_dir)
        .cloned()
        .collect();
    let inside = Inside {
        label: &spec.label,
        program: &spec.program,
        args: &spec.args,
        environment: &scene.environment,
        declared: &spec.env,
        work_dir: scene.work_dir,
        private: scene.private.path(),
        temp: scene.private.temp(),
        exchange: spec.exchange.as_deref(),
        init,
        status: Some(told.as_raw_fd()),
        outlet: None,
        limits: spec.limits,
        hidden: &hidden,
        covered: &spec.covered,
        unwritable: &spec.unwritable,
        reserved: &spec.reserved,
    };
    let Isolated {
        program,
        args,
        environment,
        holder,
        attachment,
    } = sandbox.isolate(&inside).map_err(WrapError::Isolation)?;
    let removal = match holder {
        Holder::Process => None,
        Holder::Engine { removal } => Some(removal),
    };
    if removal.is_none() && spec.deadline.is_none() {
        // Signals are for the program inside: by default they would end what holds the sandbox, and
        // all with it.
        let kept = vec![told.as_raw_fd()];
        let manner = Manner {
            kept,
            stop: StopSignals::Ignored,
            keys: Keys::Own,
            ..Manner::default()
        };
        return Ok(Wrapped {
            program,
            name: None,
            args,
            environment,
            manner,
            lent: vec![told],
            status: Some(status),
            lifeline: None,
            limiter: Limiter::Host,
            attachment,
        });
    }
    // An init outside. A container does not end with its client: the init removes it, even if the
    // host is gone. A sandbox has one for its deadline, out of reach of everything inside.
    let (held, lifeline) = tie(spec)?;
    let is_engine = removal.is_some();
    let options = InitOptions {
        lifeline: Some(held.as_raw_fd()),
        counts: spec.deadline.is_some(),
        status: Some(told.as_raw_fd()),
        holds_another: !is_engine,
        after: removal.unwrap_or_default(),
        command: std::iter::once(program).chain(args).collect(),
        ..InitOptions::new(Keep::Plain)
    };
    // The client may need setuid helpers; what runs in the container gains nothing by them.
    let (privileges, keys, limiter) = if is_engine {
        (Privileges::Gained, Keys::Shared, Limiter::Engine)
    } else {
        (Privileges::Kept, Keys::Own, Limiter::Host)
    };
    let manner = Manner {
        kept: vec![told.as_raw_fd(), held.as_raw_fd()],
        death: Death::AfterHost,
        privileges,
        keys,
        ..Manner::default()
    };
    Ok(Wrapped {
        program: init::executable().unwrap_or(init).into(),
        name: Some(init::MARKER),
        args: options.to_args(),
        environment,
        manner,
        lent: vec![told, held],
        status: Some(status),
        lifeline: Some(lifeline),
        limiter,
        attachment,
    })
}

/// Says once that children are contained less well than they could be elsewhere.
fn warn_once(why: &str) {
    static SAID: std::sync::Once = std::sync::Once::new();
    SAID.call_once(|| {
        tracing::warn!(
            why,
            "children are contained by process groups only: what leaves its group outlives them"
        );
    });
}
