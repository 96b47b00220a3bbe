//! Reads lines from a pipe: split at LF, bounded, skipping what is too long ([frame.2] to [frame.7]).

use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

use crate::switches::{Mutant as M, broken};

/// The longest line that is read ([frame.5]).
const MAX_LINE: usize = 16 * 1024 * 1024;
/// What is kept of a line that is too long, to find out whose it was.
const HEAD: usize = 64 * 1024;

/// One line of a peer, without its end.
#[derive(Debug)]
pub(crate) enum Line {
    Whole(Vec<u8>),
    /// The first bytes of a line beyond the limit.
    TooLong(Vec<u8>),
    /// What stood after the last LF.
    Unended(Vec<u8>),
}

impl Line {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Whole(bytes) | Self::TooLong(bytes) | Self::Unended(bytes) => bytes.len(),
        }
    }
}

/// Splits a pipe into lines.
pub(crate) struct Lines<R> {
    pipe: BufReader<R>,
    begun: bool,
}

impl<R: Read> Lines<R> {
    pub(crate) fn new(pipe: R) -> Self {
        Self { pipe: BufReader::with_capacity(64 * 1024, pipe), begun: false }
    }

    /// The next line that is not blank; none at the end.
    pub(crate) fn next(&mut self) -> io::Result<Option<Line>> {
        loop {
            let limit = if broken(M::LineUnbounded) { usize::MAX - 1 } else { MAX_LINE };
            let mut bytes = Vec::new();
            let read = (&mut self.pipe).take(limit as u64 + 1).read_until(b'\n', &mut bytes)?;
            if read == 0 {
                return Ok(None);
            }
            let ended = bytes.last() == Some(&b'\n');
            if ended {
                bytes.pop();
            } else if bytes.len() > limit {
                if broken(M::Line1mEnds) {
                    return self.fall_silent();
                }
                self.skip()?;
                bytes.truncate(HEAD);
                bytes.shrink_to_fit();
                return Ok(Some(Line::TooLong(bytes)));
            }
            if broken(M::Line1mEnds) && bytes.len() > 1024 * 1024 + 64 * 1024 {
                return self.fall_silent();
            }
            if broken(M::Line64k) && bytes.len() > 64 * 1024 {
                continue;
            }
            if !self.begun && bytes.starts_with(b"\xef\xbb\xbf") && !broken(M::BomRefused) {
                bytes.drain(..3);
            }
            self.begun = true;
            if broken(M::CrlfRefused) && bytes.last() == Some(&b'\r') {
                bytes.insert(0, b'?');
            }
            if bytes.iter().all(u8::is_ascii_whitespace) && !broken(M::BlankReported) {
                continue;
            }
            return Ok(Some(if ended { Line::Whole(bytes) } else { Line::Unended(bytes) }));
        }
    }

    /// Reads on without hearing anything.
    fn fall_silent(&mut self) -> io::Result<Option<Line>> {
        while let Some(read) = Some(self.pipe.fill_buf()?.len()).filter(|read| *read > 0) {
            self.pipe.consume(read);
        }
        Ok(None)
    }

    fn skip(&mut self) -> io::Result<()> {
        loop {
            let chunk = self.pipe.fill_buf()?;
            if chunk.is_empty() {
                return Ok(());
            }
            let (used, found) = match chunk.iter().position(|byte| *byte == b'\n') {
                Some(at) => (at + 1, true),
                None => (chunk.len(), false),
            };
            self.pipe.consume(used);
            if found {
                return Ok(());
            }
        }
    }
}

/// A process's stdout: read to its end, or to what it holds when the process has exited ([process.3]).
#[derive(Debug)]
pub(crate) struct Stdout {
    pipe: OwnedFd,
    /// Hangs up when the process has exited.
    exit: OwnedFd,
    /// What the pipe held when the process had exited.
    left: Option<usize>,
    /// What a broken reader has made of a chunk.
    spoiled: Vec<u8>,
    /// Whether a broken reader has yet to dawdle.
    fresh: bool,
}

impl Stdout {
    pub(crate) fn new(pipe: OwnedFd, exit: OwnedFd) -> Self {
        Self { pipe, exit, left: None, spoiled: Vec::new(), fresh: true }
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
            if exited && !broken(M::GrandchildWaited) && !broken(M::CutHangs) {
                let held = rustix::io::ioctl_fionread(&self.pipe).unwrap_or(0);
                self.left = Some(if broken(M::TailLost) { 0 } else { usize::try_from(held).unwrap_or(0) });
            } else if !fds[0].revents().is_empty() {
                if broken(M::TailLost) && std::mem::take(&mut self.fresh) {
                    std::thread::sleep(std::time::Duration::from_millis(30));
                    continue;
                }
                self.fresh = true;
                return Ok(());
            } else if exited {
                std::thread::sleep(std::time::Duration::from_millis(20));
            }
        }
        Ok(())
    }

    fn read_pipe(&mut self, into: &mut [u8]) -> io::Result<usize> {
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

impl Read for Stdout {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let spoils =
            [M::ChunkDecoded, M::ReadIsLine, M::OneLinePerRead, M::SplitsAtU2028].into_iter().any(broken);
        if !spoils {
            return self.read_pipe(into);
        }
        if self.spoiled.is_empty() {
            let mut chunk = vec![0; 8192];
            let read = self.read_pipe(&mut chunk)?;
            chunk.truncate(read);
            self.spoiled = spoil(chunk);
        }
        let most = self.spoiled.len().min(into.len());
        into[..most].copy_from_slice(&self.spoiled[..most]);
        self.spoiled.drain(..most);
        Ok(most)
    }
}

/// What a reader makes of a chunk that takes it for more than a chunk.
fn spoil(mut chunk: Vec<u8>) -> Vec<u8> {
    if chunk.is_empty() {
        return chunk;
    }
    if broken(M::ChunkDecoded) {
        return String::from_utf8_lossy(&chunk).into_owned().into_bytes();
    }
    if broken(M::SplitsAtU2028) {
        return String::from_utf8_lossy(&chunk).replace('\u{2028}', "\n").into_bytes();
    }
    if broken(M::ReadIsLine) && chunk.last() != Some(&b'\n') && chunk.len() < 8192 {
        chunk.push(b'\n');
    }
    if broken(M::OneLinePerRead)
        && let Some((at, _)) = chunk.iter().enumerate().filter(|(_, byte)| **byte == b'\n').nth(15)
    {
        chunk.truncate(at + 1);
    }
    chunk
}
