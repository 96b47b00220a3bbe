//! The processes of one child: who may signal them, and when the first is reaped.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

use rustix::process::{
    Pid, PidfdFlags, WaitId, WaitIdOptions, kill_process_group, pidfd_open, waitid,
};

use crate::exit::Exit;
use crate::limits::Cgroup;
use crate::owned::OwnedResources;
use crate::reaper::{self, Orphan};
use crate::signal::Signal;
use crate::system::proc;

/// The only authority over one child, the leader of its own process group, over its descendants,
/// and over its private folder.
///
/// ```text
///  Running ── the leader ends ──► Ended (a zombie, its number still taken) ── group killed, reaped ──► Reaped
/// ```
///
/// The group is signalled by id. An id cannot belong to another process while its zombie is not
/// reaped, and only this type reaps it, so the group is signalled in the first two states and never
/// in the third. (An embedder that reaps every child of the program itself, or ignores SIGCHLD,
/// breaks this.) A signal to a group reaches all its members at once: the kernel lets no fork slip
/// between.
///
/// If an [init](crate::init) is between host and child, it is the leader. It is never sent SIGKILL:
/// the end of its lifeline makes it kill the tree, and it ends after every process of the tree.
///
/// Dropping it kills the tree and leaves the reaping and the folder to the reaper thread.
#[derive(Debug)]
pub(crate) struct Tree {
    leader: Pid,
    lifeline: Option<Lifeline>,
    pidfd: Arc<OwnedFd>,
    owned: OwnedResources,
    memory_kills: u64,
    exit: Option<Exit>,
}

impl Tree {
    /// Takes charge of a child that the caller has just started as a group leader and not waited for.
    ///
    /// # Errors
    ///
    /// When the process cannot be watched; it has been killed and reaped then. Blocks for that.
    pub(crate) fn adopt(
        child: &mut std::process::Child,
        owned: OwnedResources,
        lifeline: Option<Arc<OwnedFd>>,
    ) -> io::Result<Self> {
        let leader = Pid::from_child(child);
        match pidfd_open(leader, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Self {
                leader,
                lifeline: lifeline.map(Lifeline::new),
                pidfd: Arc::new(pidfd),
                owned,
                memory_kills: 0,
                exit: None,
            }),
            Err(error) => {
                let _ = kill_process_group(leader, rustix::process::Signal::KILL);
                let _ = child.wait();
                reaper::leave(Orphan { dying: None, owned });
                Err(error.into())
            }
        }
    }

    pub(crate) fn leader(&self) -> u32 {
        self.leader.as_raw_nonzero().get().cast_unsigned()
    }

    /// A suspended process of the tree. `None` once the leader is reaped.
    pub(crate) fn suspended(&self) -> Option<u32> {
        let found = match self.exit {
            None => proc::find_suspended(self.leader),
            Some(_) => None,
        };
        found.map(|pid| pid.as_raw_nonzero().get().cast_unsigned())
    }

    /// Readable once the leader has ended.
    pub(crate) fn pidfd(&self) -> Arc<OwnedFd> {
        Arc::clone(&self.pidfd)
    }

    pub(crate) fn owned(&self) -> &OwnedResources {
        &self.owned
    }

    /// Gives away what belongs to the child; from then on its holder removes it.
    pub(crate) fn take_owned(&mut self) -> OwnedResources {
        std::mem::take(&mut self.owned)
    }

    /// Returns the number of processes of the tree that the kernel killed because of their memory;
    /// known once it is reaped.
    pub(crate) fn memory_kills(&self) -> u64 {
        self.memory_kills
    }

    pub(crate) fn exit(&self) -> Option<Exit> {
        self.exit
    }

    /// Signals every process of the tree; does nothing if its members have ended or it is reaped.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<()> {
        if self.exit.is_some() {
            return Ok(());
        }
        match (signal, &self.lifeline) {
            (Signal::Kill, Some(lifeline)) => {
                lifeline.cut();
                self.send(rustix::process::Signal::CONT)
            }
            (Signal::Interrupt, _) => self.send(signal.to_rustix()),
            (Signal::Kill, None) => {
                let sent = self.send(signal.to_rustix());
                self.kill_cgroup();
                sent
            }
            (Signal::Terminate, _) => {
                self.send(signal.to_rustix())?;
                // A stopped process would receive the signal only after it is continued.
                self.send(rustix::process::Signal::CONT)
            }
        }
    }

    fn send(&self, signal: rustix::process::Signal) -> io::Result<()> {
        match kill_process_group(self.leader, signal) {
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// If the leader has ended: kills what is left of its group, removes its configuration file, reaps it.
    pub(crate) fn try_reap(&mut self) -> Option<Exit> {
        if self.exit.is_some() {
            return self.exit;
        }
        let exit = match peek(&self.pidfd) {
            Ok(None) => return None,
            Ok(Some(exit)) => {
                self.kill_all();
                self.kill_cgroup();
                self.memory_kills = self.owned.cgroup.as_ref().map_or(0, Cgroup::memory_kills);
                let _ = reap(&self.pidfd);
                exit
            }
            Err(error) => {
                tracing::warn!(pid = self.leader(), %error, "other code has taken the exit status of a child");
                Exit::UNKNOWN
            }
        };
        if let Some(private) = &mut self.owned.private {
            private.forget_config();
        }
        self.exit = Some(exit);
        self.exit
    }

    /// Kills processes that left the group, if a cgroup knows them. New ones are killed when the
    /// cgroup is removed.
    fn kill_cgroup(&self) {
        if let Some(cgroup) = &self.owned.cgroup {
            cgroup.kill();
        }
    }

    fn kill_all(&self) {
        if let Err(error) = self.signal(Signal::Kill) {
            tracing::warn!(pid = self.leader(), %error, "could not kill every process of a tree");
        }
    }
}

/// The end of a pipe that an init holds on by.
#[derive(Debug)]
struct Lifeline(Mutex<Option<Arc<OwnedFd>>>);

impl Lifeline {
    fn new(pipe: Arc<OwnedFd>) -> Self {
        Self(Mutex::new(Some(pipe)))
    }

    /// Tells the init to kill everything and to end.
    fn cut(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let unreaped = self.exit.is_none();
        if unreaped {
            self.kill_all();
        }
        let owned = self.take_owned();
        if unreaped || !owned.is_empty() {
            reaper::leave(Orphan {
                dying: unreaped.then(|| Arc::clone(&self.pidfd)),
                owned,
            });
        }
    }
}

/// Returns the exit of the process and leaves it to be reaped; `None` while it runs.
fn peek(pidfd: &OwnedFd) -> io::Result<Option<Exit>> {
    wait(pidfd, WaitIdOptions::NOWAIT)
}

/// Reaps the process if it has ended; `None` while it runs.
///
/// # Errors
///
/// Other code has reaped it.
pub(crate) fn reap(pidfd: &OwnedFd) -> io::Result<Option<Exit>> {
    wait(pidfd, WaitIdOptions::empty())
}

fn wait(pidfd: &OwnedFd, options: WaitIdOptions) -> io::Result<Option<Exit>> {
    let options = options | WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
    let status = rustix::io::retry_on_intr(|| waitid(WaitId::PidFd(pidfd.as_fd()), options))?;
    Ok(status.as_ref().map(Exit::from_wait))
}
