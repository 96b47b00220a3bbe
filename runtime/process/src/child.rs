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
    /// What its sandbox keeps for it, such as a proxy and its connections.
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

    /// The number of the process that was started, the program's own or its [init](crate::init)'s,
    /// which is that of its group and session too. For people: once the child is reaped the number
    /// may belong to somebody else.
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

    /// The child's private folder (0700). Its configuration lies here, and its [`Child::temp_dir`].
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

    /// Its standard input, once; dropping it is the child's end of input ([process.1]).
    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.stdin.take()
    }

    /// Its standard output, once.
    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.stdout.take()
    }

    /// Its standard error, once; give it to a [`StderrDrain`](crate::StderrDrain), or the child
    /// blocks some day.
    pub fn take_stderr(&mut self) -> Option<ChildStderr> {
        self.stderr.take()
    }

    /// Waits until the child has ended, kills what is left of its tree, and reaps it.
    ///
    /// When this returns the configuration file is gone, every process of the tree has ended (of a
    /// mere group: SIGKILL is on its way to it), and no signal can reach a recycled process number.
    /// The pipes may still hold bytes ([`read_held`](crate::read_held)). Later calls return the
    /// same at once.
    ///
    /// Does not close standard input: a child that waits for its end while the caller holds the
    /// pipe is waited for until it ends.
    ///
    /// # Cancel safety
    ///
    /// Nothing is lost when the future is dropped; the next call goes on.
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

    /// What [`Child::wait`] waits for, if the child has ended already. Asks the system: a busy
    /// runtime may not have noticed yet, so that a [`Child::wait`] polled once would not say so.
    pub fn try_wait(&mut self) -> Option<Exit> {
        self.tree.try_reap()
    }

    /// Polls for what [`Child::wait`] waits for. Of several tasks that poll, the last is woken.
    ///
    /// For a driver that polls many sources by hand: a [`Child::wait`] that is dropped between
    /// polls wakes no one.
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

    /// Waits like [`Child::wait`], then removes the private folder, and returns when it is gone.
    ///
    /// Closes standard input first if no one took it.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future drops the child: a process that still runs is killed, and the folder is removed by
    /// the reaper thread.
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
    /// Having no one left to signal is a success, and so is a child that is reaped: no signal ever
    /// goes to a recycled number. A descendant that left the group is reached by SIGKILL, unless
    /// the group is all that holds it.
    ///
    /// # Errors
    ///
    /// When the system refuses: every member of the group runs as another user.
    pub fn signal_tree(&self, signal: Signal) -> io::Result<()> {
        self.tree.signal(signal)
    }

    /// How many processes of its tree the kernel has killed because
    /// [`Limits::memory`](crate::Limits::memory) was used up. Known when [`Child::wait`] has
    /// returned, and only where a cgroup counts the memory.
    #[must_use]
    pub fn memory_kills(&self) -> u64 {
        self.tree.memory_kills()
    }

    /// What its [sandbox](crate::Isolation) keeps for it, where that is a `T`: of one that may
    /// reach some of the network, the proxy, which counts.
    #[must_use]
    pub fn attachment<T: Any>(&self) -> Option<&T> {
        self.attachment.get()
    }

    /// How it ended, if [`Child::wait`] has told that before.
    #[must_use]
    pub fn exit(&self) -> Option<Exit> {
        self.tree.exit()
    }
}
