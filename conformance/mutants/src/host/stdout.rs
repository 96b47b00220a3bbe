//! The stdout of an adapter.

use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use trunkline_conformance_mutants::sleep;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::switches::{Mutant::*, broken};

/// A process's stdout: read to its end, or to what it holds when the process has exited ([process.3]).
#[derive(Debug)]
pub(crate) struct Stdout {
    pipe: OwnedFd,
    /// Hangs up when the process has exited.
    exit: OwnedFd,
    /// Bytes in the pipe when the process had exited.
    left: Option<usize>,
    /// True if a broken reader must still delay.
    fresh: bool,
}

impl Stdout {
    pub(crate) fn new(pipe: OwnedFd, exit: OwnedFd) -> Self {
        Self {
            pipe,
            exit,
            left: None,
            fresh: true,
        }
    }

    fn wait(&mut self) -> io::Result<()> {
        while self.left.is_none() {
            let mut fds = [
                PollFd::from_borrowed_fd(self.pipe.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.exit.as_fd(), PollFlags::IN),
            ];
            match poll(&mut fds, None) {
                Ok(_) => {}
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let exited = !fds[1].revents().is_empty();
            if exited && !broken(GrandchildWaited) && !broken(CutHangs) {
                let held = rustix::io::ioctl_fionread(&self.pipe).unwrap_or(0);
                self.left = Some(if broken(TailLost) {
                    0
                } else {
                    usize::try_from(held).unwrap_or(0)
                });
            } else if !fds[0].revents().is_empty() {
                if broken(TailLost) && std::mem::take(&mut self.fresh) {
                    sleep(30);
                    continue;
                }
                self.fresh = true;
                return Ok(());
            } else if exited {
                sleep(20);
            }
        }
        Ok(())
    }
}

impl Read for Stdout {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.wait()?;
        let most = self.left.unwrap_or(into.len()).min(into.len());
        if most == 0 {
            return Ok(0);
        }
        let read = loop {
            match rustix::io::read(&self.pipe, &mut into[..most]) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => break 0,
                other => break other?,
            }
        };
        if let Some(left) = &mut self.left {
            *left -= read;
        }
        Ok(read)
    }
}
