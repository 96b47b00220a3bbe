//! How the command line of a child becomes that of the process which contains it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::Path;

use crate::containment::{self, Containment};
use crate::init::{self, Keep, Options};
use crate::pipe::pair;
use crate::spec::ChildSpec;
use crate::system::before_exec::{Death, Manner};

/// What is executed, and what ties it to the host.
#[derive(Debug)]
pub(crate) struct Wrapped {
    pub(crate) program: OsString,
    /// What it is called instead of `program`.
    pub(crate) name: Option<&'static str>,
    pub(crate) args: Vec<OsString>,
    pub(crate) manner: Manner,
    /// The child's ends of the pipes.
    pub(crate) lent: Vec<OwnedFd>,
    /// Where an init reports whether the program has started.
    pub(crate) status: Option<OwnedFd>,
    /// What an init holds on by.
    pub(crate) lifeline: Option<OwnedFd>,
}

/// Why a child cannot be contained.
#[derive(Debug)]
pub(crate) enum WrapError {
    /// What was asked for does not work here.
    Refused(String),
    /// The system is short of descriptors.
    System(io::Error),
}

impl From<io::Error> for WrapError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// Wraps a child's command line. Blocks: the first call finds out what works here.
pub(crate) fn wrap(spec: &ChildSpec) -> Result<Wrapped, WrapError> {
    let mut command = vec![spec.program.clone()];
    command.extend(spec.args.iter().cloned());
    // Nothing is tried out for a child that asks for nothing.
    if spec.containment == Containment::Group {
        return Ok(plain(command));
    }
    let choice = containment::support().choose(spec.containment).map_err(WrapError::Refused)?;
    match (choice.used, init::executable()) {
        (Containment::Namespace, Some(program)) => {
            within(program, command, Keep::Namespace, Manner::default())
        }
        (Containment::Reaper, Some(program)) => {
            let manner = Manner { death: Death::AfterHost, ..Manner::default() };
            within(program, command, Keep::Reaper, manner)
        }
        (Containment::Group | Containment::Auto, _) | (_, None) => {
            if let Some(why) = choice.why_not_better {
                warn_once(&why);
            }
            Ok(plain(command))
        }
    }
}

/// The command line itself.
fn plain(mut command: Vec<OsString>) -> Wrapped {
    let args = command.split_off(1);
    let program = command.pop().unwrap_or_default();
    Wrapped {
        program,
        name: None,
        args,
        manner: Manner::default(),
        lent: Vec::new(),
        status: None,
        lifeline: None,
    }
}

/// The command line of an init that runs the program.
fn within(
    program: &Path,
    command: Vec<OsString>,
    keep: Keep,
    mut manner: Manner,
) -> Result<Wrapped, WrapError> {
    let (status, told) = pair()?;
    let (held, lifeline) = pair()?;
    let options = Options {
        keep,
        lifeline: Some(held.as_raw_fd()),
        status: Some(told.as_raw_fd()),
        bridge: None,
        command,
    };
    manner.kept = vec![told.as_raw_fd(), held.as_raw_fd()];
    Ok(Wrapped {
        program: program.into(),
        name: Some(init::MARKER),
        args: options.to_args(),
        manner,
        lent: vec![told, held],
        status: Some(status),
        lifeline: Some(lifeline),
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
