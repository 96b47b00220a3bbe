//! Runs one child process and knows no protocol: start, environment, pipes, stop, reap.
//!
//! # Theory of operation
//!
//! [`spawn`] prepares a [`ChildSpec`] (private folder, environment, checks) on the runtime's
//! blocking pool and leaves the start itself to one permanent thread, the *spawner*. The child's
//! parent-death signal belongs to the thread that forked it. That thread never ends, so a child
//! dies with the host and not with a worker thread that happened to start it.
//!
//! A [`Child`] is the only owner of its tree of processes. Its [`Containment`] holds the tree
//! together: a PID namespace, a reaper, or only a process group. The first two put an [init
//! program](init) between host and child, which kills the tree when the host closes one end of a
//! pipe. When the host is killed, the kernel closes it.
//!
//! A pidfd reports the end of the process that the host started. Only then, in this order: the rest
//! of its tree is killed, its configuration file is removed, and it is reaped. Until it is reaped,
//! the kernel does not reuse its id, so a signal to its group cannot reach another process.
//!
//! Dropping a [`Child`] kills its tree; a second permanent thread, the *reaper*, waits for the dead
//! and removes their folders. An orderly end is [`stop()`], or an [`Escalation`] driven by a host
//! that continues to read and answer meanwhile; then [`Child::finish`]. A program that ends right
//! after it dropped children waits with [`settle`].
//!
//! In a PID namespace and under a reaper, nothing outlives the child, its [`Child`], or the host,
//! however either ends. A reaper can be killed by a program of the same user, and then guarantees
//! nothing; the process that holds a namespace is invisible inside. A group contains the processes
//! that stay in it, and only while the host lives: a descendant that makes its own session leaves
//! the group. If a cgroup can be made, which [`limit_support`] reports, such a descendant is killed
//! when the child ends.
//!
//! A [`StandstillMeter`] measures time in which this process itself did not run.
//!
//! This crate makes no sandbox. [`ChildSpec::sandbox`] takes one, an [`Isolation`], which turns a
//! program into a command line of its own. Its resources are dropped with the [`Child`].
//!
//! A host that is killed leaves records ([`ChildSpec::record_dir`]) by which the next one ends and
//! removes what is left ([`sweep`]).
//!
//! Linux 5.4 or later.
//!
//! # Example
//!
//! ```
//! use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
//! use trunkline_process::{ChildSpec, StopSteps, spawn, stop};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut child = spawn(ChildSpec::new("cat")).await?;
//! let mut stdin = child.take_stdin().expect("taken once");
//! let mut stdout = BufReader::new(child.take_stdout().expect("taken once"));
//!
//! stdin.write_all(b"hello\n").await?;
//! let mut line = String::new();
//! stdout.read_line(&mut line).await?;
//! assert_eq!(line, "hello\n");
//!
//! drop(stdin);
//! let exit = stop(child, StopSteps::default()).await;
//! assert!(exit.success(), "{exit}");
//! # Ok(())
//! # }
//! ```

mod agent_wire;
mod child;
mod containment;
mod deadline;
mod environment;
mod error;
mod exit;
mod identity;
pub mod init;
mod isolation;
mod limits;
mod owned;
mod pipe;
mod private_dir;
mod query;
mod reaper;
mod record;
mod remove;
mod search_path;
mod settle;
mod signal;
mod spawn;
mod spawner;
mod spec;
mod standstill;
mod stderr;
mod stop;
mod system;
mod tree;
mod wrap;

pub use crate::agent_wire::{AgentDirection, AgentWire, AgentWireEvent, AgentWireListener};
pub use crate::child::Child;
pub use crate::containment::{Choice, Containment, Support, support as containment_support};
pub use crate::deadline::{BootInstant, Deadline};
pub use crate::environment::{Environment, Inherit, child_environment, loads_code, loads_natively};
pub use crate::error::SpawnError;
pub use crate::exit::Exit;
pub use crate::identity::ProcessIdentity;
pub use crate::isolation::{
    Attachment, Descriptors, Holder, Inside, Isolated, Isolation, IsolationError, MountIdentity,
    Outlet,
};
pub use crate::limits::{
    Enforcement, Enforcer, LimitSupport, Limits, raise_open_files, shown_size,
    support as limit_support,
};
pub use crate::pipe::{PipeEnd, read_held};
pub use crate::system::ancestry::{is_below_host, is_started_by_agent};

pub use crate::query::{QueryOutput, query};
pub use crate::record::{FolderRecord, Swept, sweep};
pub use crate::remove::remove_tree;
pub use crate::search_path::{DEFAULT_PATH, candidates as program_candidates, is_executable};
pub use crate::settle::settle;
pub use crate::signal::Signal;
pub use crate::spawn::spawn;
pub use crate::spec::{ChildSpec, ShownArguments};
pub use crate::standstill::StandstillMeter;
pub use crate::stderr::{MAX_STDERR_LINE, STDERR_TAIL, StderrDrain, StderrLine, StderrTail};
pub use crate::stop::{Begun, Escalation, Step, StopSteps, stop};
pub use crate::system::sockets::{SocketHolder, find_socket_holders, is_cgroup_without_agents};
