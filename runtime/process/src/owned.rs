//! Resources of a child besides its processes, which are removed after them.

use std::thread;
use std::time::Duration;

use crate::limits::Cgroup;
use crate::private_dir::PrivateDir;
use crate::reaper;
use crate::record::Record;
use crate::settle::Mark;

/// Waits of [`OwnedResources::clear`] between checks: each longer, a quarter of a second in total.
const LOOK_AGAIN: [Duration; 8] = {
    let milliseconds = Duration::from_millis;
    [
        milliseconds(1),
        milliseconds(2),
        milliseconds(4),
        milliseconds(8),
        milliseconds(16),
        milliseconds(32),
        milliseconds(64),
        milliseconds(128),
    ]
};

/// Resources of a child besides its processes. They are released in this order: processes in its
/// cgroup are killed, the cgroup is removed, then the folder, which has no writers any longer, then
/// the record that names them.
///
/// Dropping removes what can be removed at once, and blocks meanwhile; the reaper thread removes
/// the rest.
#[derive(Debug, Default)]
pub(crate) struct OwnedResources {
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) private: Option<PrivateDir>,
    pub(crate) record: Option<Record>,
    /// Goes with the last of them.
    pub(crate) _mark: Option<Mark>,
}

impl OwnedResources {
    pub(crate) fn is_empty(&self) -> bool {
        let Self {
            cgroup,
            private,
            record,
            _mark: _,
        } = self;
        cgroup.is_none() && private.is_none() && record.is_none()
    }

    /// Removes everything; whether nothing is left. While something still runs in the cgroup
    /// SIGKILL is on its way, and a folder may yet be removable: it is worth trying again. Blocks
    /// for a large folder, and for nothing else.
    pub(crate) fn try_clear(&mut self) -> bool {
        if let Some(cgroup) = &mut self.cgroup {
            if !cgroup.kill().is_empty() || !cgroup.remove() {
                return false;
            }
            self.cgroup = None;
        }
        if let Some(private) = &mut self.private {
            if private.remove().is_err() {
                return false;
            }
            self.private = None;
        }
        self.record = None;
        true
    }

    /// Gives up after a last attempt: what is left is for the next host to sweep.
    pub(crate) fn abandon(mut self) {
        self.cgroup = None;
        if let Some(mut private) = self.private.take()
            && let Err(error) = private.remove()
        {
            let path = private.path();
            tracing::warn!(?path, %error, "could not remove a private folder; the next host tries again");
            private.leave();
        }
        if let Some(record) = self.record.take() {
            record.abandon();
        }
    }

    /// Removes everything, and returns when it is gone. A process that the kernel does not let end
    /// in time is left to the reaper thread. Blocks.
    pub(crate) fn clear(mut self) {
        for pause in LOOK_AGAIN {
            if self.try_clear() {
                return;
            }
            thread::sleep(pause);
        }
    }
}

impl Drop for OwnedResources {
    fn drop(&mut self) {
        if !self.try_clear() {
            reaper::leave(reaper::Orphan {
                dying: None,
                owned: std::mem::take(self),
            });
        }
    }
}

#[cfg(test)]
mod tests;
