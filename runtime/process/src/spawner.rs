//! The permanent thread that forks every child.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{ChildStderr, ChildStdin, ChildStdout, Command};
use std::sync::{Mutex, PoisonError};
use std::thread;

use tokio::sync::{mpsc, oneshot};

use crate::group::Group;
use crate::private_dir::PrivateDir;
use crate::reaper;
use crate::system::before_exec;

/// Starts that wait for the thread; callers beyond it wait for a place.
const QUEUE: usize = 64;

/// A started child with its pipes, not yet known to any runtime.
#[derive(Debug)]
pub(crate) struct Launched {
    pub(crate) group: Group,
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

struct Job {
    command: Command,
    private: PrivateDir,
    reply: oneshot::Sender<io::Result<Launched>>,
}

/// Forks and executes `command` on the spawner thread, as a group leader that dies with the host.
///
/// # Errors
///
/// What fork, exec or the watching of the child failed with; nothing is left behind then.
///
/// # Cancel safety
///
/// Dropping the future abandons the start; if the child exists already it is killed and reaped.
pub(crate) async fn launch(command: Command, private: PrivateDir) -> io::Result<Launched> {
    let (reply, launched) = oneshot::channel();
    let job = Job { command, private, reply };
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
    thread::Builder::new().name("trunkline-spawner".into()).spawn(move || run(jobs))?;
    Ok(slot.insert(sender).clone())
}

fn run(mut jobs: mpsc::Receiver<Job>) {
    before_exec::block_signals_on_this_thread();
    while let Some(Job { command, private, reply }) = jobs.blocking_recv() {
        if reply.is_closed() {
            continue;
        }
        // The end of this thread would be the end of every child, so it outlives even a bug. A caller that
        // has gone meanwhile gives the child back, and dropping it kills it.
        if let Ok(result) = catch_unwind(AssertUnwindSafe(|| start(command, private))) {
            let _ = reply.send(result);
        }
    }
}

fn start(mut command: Command, private: PrivateDir) -> io::Result<Launched> {
    before_exec::install(&mut command);
    let mut child = command.spawn()?;
    let group = Group::adopt(&mut child, private)?;
    Ok(Launched {
        group,
        stdin: child.stdin.take(),
        stdout: child.stdout.take(),
        stderr: child.stderr.take(),
    })
}
