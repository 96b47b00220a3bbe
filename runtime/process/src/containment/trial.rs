//! Trying what the kernel allows: an init without a program, which ends once all before that has worked.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use crate::error::is_shortage;
use crate::init::{self, InitOptions, InitReport, Keep, RECORD};
use crate::pipe::pair;
use crate::system::before_exec::{self, Manner};

/// Timeout of a trial. It is long, because a busy machine is no reason for weaker containment.
const DEADLINE: Duration = Duration::from_secs(5);

/// Reason of a failed trial.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) text: String,
    /// True if it may work later.
    pub(super) is_passing: bool,
}

/// Tries an init that keeps hold of descendants in this way.
pub(super) fn run(keep: Keep) -> Result<(), Refusal> {
    let Some(program) = init::executable() else {
        let text = "this program has no init: its `main` does not begin with `trunkline_process::init::hook()`";
        return Err(Refusal {
            text: text.to_owned(),
            is_passing: false,
        });
    };
    let (status, told) = pair().map_err(|error| refusal(&error))?;
    let told_to = Some(told.as_raw_fd());
    let options = InitOptions {
        status: told_to,
        ..InitOptions::new(keep)
    };
    let mut command = Command::new(program);
    command.arg0(init::MARKER).args(options.to_args());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let kept = vec![told.as_raw_fd()];
    before_exec::install(
        &mut command,
        Manner {
            kept,
            ..Manner::default()
        },
    );
    let mut child = command.spawn().map_err(|error| refusal(&error))?;
    drop(told);
    let report = read_within(&status, DEADLINE);
    let _ = child.kill();
    let _ = child.wait();
    match report {
        Some(InitReport::Started) => Ok(()),
        Some(InitReport::NotKept(step, errno)) => {
            let error = io::Error::from_raw_os_error(errno);
            let refused = refusal(&error);
            Err(Refusal {
                text: format!("failed to {}: {error}", step.text()),
                ..refused
            })
        }
        Some(InitReport::NotStarted(_)) | None => Err(Refusal {
            text: "the init program did not answer".to_owned(),
            is_passing: true,
        }),
    }
}

fn refusal(error: &io::Error) -> Refusal {
    Refusal {
        text: error.to_string(),
        is_passing: is_shortage(Errno::from_io_error(error)),
    }
}

fn read_within(status: &OwnedFd, time: Duration) -> Option<InitReport> {
    let mut watched = [PollFd::new(status, PollFlags::IN)];
    let time = Timespec {
        tv_sec: i64::try_from(time.as_secs()).ok()?,
        tv_nsec: time.subsec_nanos().into(),
    };
    rustix::io::retry_on_intr(|| poll(&mut watched, Some(&time)))
        .ok()
        .filter(|ready| *ready > 0)?;
    let mut record = [0u8; RECORD];
    let read = rustix::io::retry_on_intr(|| rustix::io::read(status, &mut record)).ok()?;
    if read == RECORD {
        InitReport::from_bytes(record)
    } else {
        None
    }
}
