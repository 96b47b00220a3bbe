//! The permanent thread that forks every child.

use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use tokio::sync::{mpsc, oneshot};

use crate::owned::OwnedResources;
use crate::reaper;
use crate::system::before_exec::{self, Manner};
use crate::tree::Tree;

/// Name of the permanent thread. A process is known as a host by its first fifteen bytes, which are
/// as many as the kernel keeps.
pub(crate) const THREAD_NAME: &str = "trunkline-spawner";

/// Starts that wait for the thread; callers beyond it wait for a place.
const QUEUE: usize = 64;

/// A started child with its pipes, not yet known to any runtime.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) tree: Tree,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

/// A start that is ready to be made.
#[derive(Debug)]
pub(crate) struct Start {
    pub(crate) command: Command,
    pub(crate) owned: OwnedResources,
    pub(crate) manner: Manner,
    /// The child's ends of pipes between it and the host, open until it has them.
    pub(crate) lent: Vec<OwnedFd>,
    /// The host's end of the pipe that an init holds on by.
    pub(crate) lifeline: Option<Arc<OwnedFd>>,
}

struct Job {
    start: Start,
    reply: oneshot::Sender<io::Result<Launched>>,
}

/// Forks and executes a command on the spawner thread, as a group leader.
///
/// # Errors
///
/// What fork, exec or the watching of the child failed with; nothing is left behind then.
///
/// # Cancel safety
///
/// Dropping the future abandons the start; if the child exists already it is killed and reaped.
pub(crate) async fn launch(start: Start) -> io::Result<Launched> {
    let (reply, launched) = oneshot::channel();
    let job = Job { start, reply };
    let gone = || io::Error::other("the spawner thread dropped the request");
    sender()?.send(job).await.map_err(|_| gone())?;
    launched.await.map_err(|_| gone())?
}

/// The way to the thread, which is started by the first caller and never ends.
fn sender() -> io::Result<mpsc::Sender<Job>> {
    static SENDER: Mutex<Option<mpsc::Sender<Job>>> = Mutex::new(None);
    let mut slot = SENDER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(sender) = &*slot {
        return Ok(sender.clone());
    }
    reaper::ensure_running()?;
    let (sender, jobs) = mpsc::channel(QUEUE);
    thread::Builder::new()
        .name(THREAD_NAME.into())
        .spawn(move || run(jobs))?;
    Ok(slot.insert(sender).clone())
}

fn run(mut jobs: mpsc::Receiver<Job>) {
    before_exec::block_signals_on_this_thread();
    while let Some(Job { start, reply }) = jobs.blocking_recv() {
        if reply.is_closed() {
            continue;
        }
        // The end of this thread would be the end of every child, so it outlives even a bug. A caller that
        // has gone meanwhile gives the child back, and dropping it kills it.
        if let Ok(result) = catch_unwind(AssertUnwindSafe(|| launch_now(start))) {
            let _ = reply.send(result);
        }
    }
}

fn launch_now(start: Start) -> io::Result<Launched> {
    let Start {
        mut command,
        owned,
        manner,
        lent,
        lifeline,
    } = start;
    before_exec::install(&mut command, manner);
    let mut child = command.spawn()?;
    drop(lent);
    let tree = Tree::adopt(&mut child, owned, lifeline)?;
    Ok(Launched {
        tree,
        stdin: child.stdin.take(),
        stdout: child.stdout.take(),
        stderr: child.stderr.take(),
    })
}
