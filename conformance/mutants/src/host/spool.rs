//! A queue of lines that goes to disk when it grows.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// Bytes that one session keeps in memory; more waits in a file ([flow.3]).
const MEMORY: usize = 1024 * 1024;

/// Lines in their order: the oldest in memory, the rest in an unlinked file.
#[derive(Debug, Default)]
pub(crate) struct Spool {
    folder: PathBuf,
    memory: VecDeque<Vec<u8>>,
    bytes: usize,
    file: Option<File>,
    read: u64,
    written: u64,
}

impl Spool {
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self {
            folder,
            ..Self::default()
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.memory.is_empty() && self.read == self.written
    }

    /// Appends a line.
    ///
    /// # Errors
    ///
    /// When the disk takes no more.
    pub(crate) fn push(&mut self, line: Vec<u8>) -> io::Result<()> {
        if self.read == self.written && self.bytes + line.len() <= MEMORY {
            self.bytes += line.len();
            self.memory.push_back(line);
            return Ok(());
        }
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile_in(&self.folder)?);
        }
        let Some(file) = &self.file else {
            return Ok(());
        };
        let mut record = u32::try_from(line.len())
            .map_err(io::Error::other)?
            .to_le_bytes()
            .to_vec();
        record.extend_from_slice(&line);
        file.write_all_at(&record, self.written)?;
        self.written += record.len() as u64;
        Ok(())
    }

    /// Puts a line before all others.
    pub(crate) fn push_front(&mut self, line: Vec<u8>) {
        self.bytes += line.len();
        self.memory.push_front(line);
    }

    /// The oldest line.
    ///
    /// # Errors
    ///
    /// When the file cannot be read.
    pub(crate) fn pop(&mut self) -> io::Result<Option<Vec<u8>>> {
        if self.memory.is_empty() {
            self.refill()?;
        }
        let line = self.memory.pop_front();
        self.bytes -= line.as_ref().map_or(0, Vec::len);
        Ok(line)
    }

    fn refill(&mut self) -> io::Result<()> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        while self.read < self.written && self.bytes < MEMORY / 2 {
            let mut head = [0; 4];
            file.read_exact_at(&mut head, self.read)?;
            let mut line = vec![0; u32::from_le_bytes(head) as usize];
            file.read_exact_at(&mut line, self.read + 4)?;
            self.read += 4 + line.len() as u64;
            self.bytes += line.len();
            self.memory.push_back(line);
        }
        if self.read == self.written {
            file.set_len(0)?;
            (self.read, self.written) = (0, 0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn order_holds_through_the_disk() {
        let mut spool = Spool::new(std::env::temp_dir());
        let line = |n: usize| vec![b'a' + u8::try_from(n % 26).expect("small"); 200_000];
        let mut next = 0;
        for n in 0..30 {
            spool.push(line(n)).expect("room");
            if n % 3 == 0 {
                assert_eq!(spool.pop().expect("readable"), Some(line(next)));
                next += 1;
            }
        }
        while let Some(found) = spool.pop().expect("readable") {
            assert_eq!(found, line(next));
            next += 1;
        }
        assert_eq!((next, spool.is_empty()), (30, true));
    }
}
