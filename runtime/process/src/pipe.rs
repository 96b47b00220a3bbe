//! Bytes that a pipe holds at this moment ([process.3]).

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionread, read, retry_on_intr};
use rustix::pipe::{PipeFlags, pipe_with};

/// Bytes taken by one read.
const CHUNK: usize = 16 * 1024;

/// State of a pipe's writers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PipeEnd {
    /// All writers are gone, and everything was read.
    Reached,
    /// Some process holds the other side open.
    StillOpen,
}

/// A pipe that no child inherits unasked: its end to read and its end to write.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    Ok(pipe_with(PipeFlags::CLOEXEC)?)
}

/// Reads what `pipe` holds at this moment, without waiting.
///
/// For a pipe whose process has ended while a descendant holds the other side open: every byte that
/// the process itself wrote is in the pipe by then. Reads past the readiness that a runtime may not
/// have noticed yet. What a descendant writes meanwhile is not chased, so a flood cannot hold the
/// caller; at most the pipe's capacity is read.
///
/// # Errors
///
/// When the pipe cannot be read. What was read before has been handed over.
pub fn read_held(pipe: impl AsFd, mut on_bytes: impl FnMut(&[u8])) -> io::Result<PipeEnd> {
    let mut chunk = [0; CHUNK];
    let mut held = ioctl_fionread(&pipe)?;
    loop {
        if !is_readable(&pipe)? {
            return Ok(PipeEnd::StillOpen);
        }
        match retry_on_intr(|| read(&pipe, &mut chunk)) {
            Ok(0) => return Ok(PipeEnd::Reached),
            Ok(count) => {
                on_bytes(&chunk[..count]);
                if held == 0 {
                    return Ok(PipeEnd::StillOpen);
                }
                held = held.saturating_sub(count as u64);
            }
            Err(Errno::AGAIN) => return Ok(PipeEnd::StillOpen),
            Err(error) => return Err(error.into()),
        }
    }
}

/// Returns true if a read would return at once, with bytes or with the end.
fn is_readable(pipe: &impl AsFd) -> io::Result<bool> {
    let mut watched = [PollFd::new(pipe, PollFlags::IN)];
    let now = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    Ok(retry_on_intr(|| poll(&mut watched, Some(&now)))? > 0)
}

#[cfg(test)]
mod tests {
    use std::io::{Write, pipe};

    use super::*;

    fn held(reader: &std::io::PipeReader) -> (Vec<u8>, PipeEnd) {
        let mut bytes = Vec::new();
        let end = read_held(reader, |chunk| bytes.extend_from_slice(chunk)).unwrap();
        (bytes, end)
    }

    #[test]
    fn an_open_pipe_gives_what_it_holds_and_says_that_it_is_open() {
        let (reader, mut writer) = pipe().unwrap();
        assert_eq!(held(&reader), (vec![], PipeEnd::StillOpen));
        let sent = vec![b'x'; 3 * CHUNK + 5];
        writer.write_all(&sent).unwrap();
        assert_eq!(held(&reader), (sent, PipeEnd::StillOpen));
    }

    #[test]
    fn a_closed_pipe_gives_its_last_bytes_and_its_end() {
        let (reader, mut writer) = pipe().unwrap();
        writer.write_all(b"last words").unwrap();
        drop(writer);
        assert_eq!(held(&reader), (b"last words".to_vec(), PipeEnd::Reached));
        assert_eq!(held(&reader), (vec![], PipeEnd::Reached));
    }
}
