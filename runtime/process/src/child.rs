//! A running child and its pipes.

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::task::{Context, Poll, ready};

use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::spawn_blocking;

use crate::exit::Exit;
use crate::isolation::Attachment;
use crate::signal::Signal;
use crate::spawner::Launched;
use crate::system::EndWatch;
use crate::tree::Tree;

/// A child process: its three pipes, its tree of processes, its private folder.
///
/// Dropping it kills the whole tree with SIGKILL, at once; reaping and the removal of the folder follow on a
/// thread of this crate, also without a runtime. (A host that exits in the same moment may leave the folder,
/// unless it waits with [`settle`](crate::settle()).)
/// The orderly ways are [`stop()`](crate::stop()) and [`Child::finish`].
#[derive(Debug)]
pub struct Child {
    tree: Tree,
    end: EndWatch,
    /// Resources of its sandbox, such as a proxy and its connections.
    attachment: Attachment,
    private_dir: PathBuf,
    temp_dir: PathBuf,
    stdin: Option<ChildStdin>,
    stdout: Option<ChildStdout>,
    stderr: Option<ChildStderr>,
}

impl Child {
    /// Makes a started child known to the current runtime; on an error it is killed.
    pub(crate) fn new(launched: Launched, attachment: Attachment) -> io::Result<Self> {
        let Launched {
            tree,
            stdin,
            stdout,
            stderr,
        } = launched;
        let end = EndWatch::new(tree.pidfd())?;
        let (private_dir, temp_dir) = match &tree.owned().private {
            Some(private) => (private.path().to_owned(), private.temp().to_owned()),
            None => (PathBuf::new(), PathBuf::new()),
        };
        Ok(Self {
            tree,
            end,
            attachment,
            private_dir,
            temp_dir,
            stdin: stdin.map(ChildStdin::from_std).transpose()?,
            stdout: stdout.map(ChildStdout::from_std).transpose()?,
            stderr: stderr.map(ChildStderr::from_std).transpose()?,
        })
    }

    /// Returns the id of the started process: the program's, or its [init](crate::init)'s. It is
    /// also the id of its group and session. For display only: after the child is reaped, the id
    /// may belong to another process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.tree.leader()
    }

    /// Returns the number of a process of its tree that is suspended by a signal (SIGSTOP, SIGTSTP,
    /// SIGTTIN) or a debugger: the nearest to the program. For people: a child that does nothing
    /// may be waiting for its SIGCONT. Reads `/proc`.
    #[must_use]
    pub fn suspended(&self) -> Option<u32> {
        self.tree.suspended()
    }

    /// Returns the child's private folder (0700), which contains its configuration and its
    /// [`Child::temp_dir`].
    #[must_use]
    pub fn private_dir(&self) -> &Path {
        &self.private_dir
    }

    /// The folder that the child knows as `TMPDIR`; stays until [`Child::finish`] or drop, so that
    /// files which the child announced with its last bytes can still be taken.
    #[must_use]
    pub fn temp_dir(&self) -> &Path {
        &self.temp_dir
    }

    /// Returns its standard input, once. Dropping it is the child's end of input ([process.1]).
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Returns its standard output, once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Returns its standard error, once. Pass it to a [`StderrDrain`](crate::StderrDrain),
    /// otherwise the child blocks when the pipe is full.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.stderr.take()
    }

    /// Waits until the child has ended, kills the rest of its tree, and reaps it.
    ///
    /// When this returns, the configuration file is removed, every process of the tree has ended
    /// (in a group: was sent SIGKILL), and no signal can reach a recycled process id. The pipes may
    /// still hold bytes ([`read_held`](crate::read_held)). Later calls return the same at once.
    ///
    /// Standard input stays open: a child that reads until its end runs as long as the caller holds
    /// the pipe.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: nothing is lost, and the next call continues.
    pub async fn wait(&mut self) -> Exit {
        if let Some(exit) = self.tree.exit() {
            return exit;
        }
        // Readiness first: a loop that asks anew each time it wakes must not cost a system call each time.
        loop {
            // An error means that the runtime shuts down, and nothing will wake this task again.
            // Drop does the rest.
            let Ok(mut ended) = self.end.ended().await else {
                return Exit::UNKNOWN;
            };
            if let Some(exit) = self.tree.try_reap() {
                return exit;
            }
            ended.clear_ready();
        }
    }

    /// Returns the exit if the child has ended. Asks the system, because a busy runtime may not
    /// have noticed yet, and one poll of [`Child::wait`] would be pending.
    pub fn try_wait(&mut self) -> Option<Exit> {
        self.tree.try_reap()
    }

    /// Polls for the exit that [`Child::wait`] returns. If several tasks poll, the last is woken.
    ///
    /// For a driver that polls many sources by hand; a [`Child::wait`] that is dropped between
    /// polls wakes no task.
    pub fn poll_wait(&mut self, cx: &mut Context<'_>) -> Poll<Exit> {
        if let Some(exit) = self.tree.exit() {
            return Poll::Ready(exit);
        }
        loop {
            let Ok(mut ended) = ready!(self.end.poll_ended(cx)) else {
                return Poll::Ready(Exit::UNKNOWN);
            };
            if let Some(exit) = self.tree.try_reap() {
                return Poll::Ready(exit);
            }
            ended.clear_ready();
        }
    }

    /// Waits like [`Child::wait`], then removes the private folder.
    ///
    /// Closes standard input first if it was not taken.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the child: a running process is killed, and the reaper thread
    /// removes the folder.
    pub async fn finish(mut self) -> Exit {
        self.stdin = None;
        let exit = self.wait().await;
        let owned = self.tree.take_owned();
        // Fails only when the runtime shuts down, and then the closure is dropped, folder and all.
        let _ = spawn_blocking(move || owned.clear()).await;
        exit
    }

    /// Signals the child's tree: SIGKILL all of it, another signal the program's process group.
    ///
    /// A tree without processes and a reaped child are successes: no signal ever reaches a recycled
    /// id. A descendant that left the group receives SIGKILL, unless only the group contains it.
    ///
    /// # Errors
    ///
    /// The system refuses: every member of the group runs as another user.
    pub fn signal_tree(&self, signal: Signal) -> io::Result<()> {
        self.tree.signal(signal)
    }

    /// Returns the number of processes of its tree that the kernel killed at
    /// [`Limits::memory`](crate::Limits::memory). Known after [`Child::wait`], and only if a cgroup
    /// counts the memory.
    #[must_use]
    pub fn memory_kills(&self) -> u64 {
        self.tree.memory_kills()
    }

    /// Returns a resource of its [sandbox](crate::Isolation) if it is a `T`: the proxy, for a
    /// sandbox that reaches part of the network.
    #[must_use]
    pub fn attachment<T: Any>(&self) -> Option<&T> {
        self.attachment.get()
    }

    /// Returns its exit if [`Child::wait`] has returned it before.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        self.tree.exit()
    }
}
