//! The one file of a host's spool: it looks like a file to each mailbox, and is given out in pieces
//! that are used again.

use std::{
    collections::{HashMap, VecDeque},
    fs::File,
    io,
    os::unix::fs::FileExt,
};

use rustix::fs::{FallocateFlags, fallocate};

/// The length of a piece, in bytes.
const PIECE_BYTES: u64 = 256 * 1024;

/// The file, and which mailbox has which piece.
#[derive(Debug)]
pub(super) struct Disk {
    file: File,
    strips: HashMap<u64, Strip>,
    /// Pieces that no mailbox has.
    free: Vec<u32>,
    /// Number of pieces.
    made: u32,
}

/// Part of the file that belongs to a mailbox.
#[derive(Debug, Default)]
struct Strip {
    /// Number of freed pieces.
    gone: u64,
    pieces: VecDeque<u32>,
    /// From where on nothing is what was written. A piece may still hold what another mailbox
    /// wrote, so none of it is read.
    broken: Option<u64>,
}

/// A range within one piece.
struct Part {
    /// Offset in the file.
    at: u64,
    bytes: usize,
}

impl Disk {
    pub(super) fn new(file: File) -> Self {
        Self {
            file,
            strips: HashMap::new(),
            free: Vec::new(),
            made: 0,
        }
    }

    /// Writes at the end of what a mailbox has.
    pub(super) fn write(&mut self, mailbox: u64, mut block: &[u8], mut at: u64) -> io::Result<()> {
        let strip = self.strips.entry(mailbox).or_default();
        if strip.broken.is_some() {
            return Err(io::Error::other("an earlier write failed"));
        }
        let begin = at;
        while !block.is_empty() {
            while strip.gone + strip.pieces.len() as u64 <= at / PIECE_BYTES {
                strip.pieces.push_back(self.free.pop().unwrap_or_else(|| {
                    self.made += 1;
                    self.made - 1
                }));
            }
            let written = strip.part(at, block.len()).and_then(|part| {
                self.file.write_all_at(&block[..part.bytes], part.at)?;
                Ok(part.bytes)
            });
            match written {
                Ok(bytes) => {
                    block = &block[bytes..];
                    at += bytes as u64;
                }
                Err(error) => {
                    strip.broken = Some(begin);
                    return Err(error);
                }
            }
        }
        Ok(())
    }

    /// Up to where a mailbox's bytes can be read back, of those up to `to`.
    pub(super) fn good_until(&self, mailbox: u64, to: u64) -> u64 {
        let broken = self.strips.get(&mailbox).and_then(|strip| strip.broken);
        broken.map_or(to, |broken| broken.min(to))
    }

    /// Reads what a mailbox wrote.
    pub(super) fn read(&self, mailbox: u64, mut block: &mut [u8], mut at: u64) -> io::Result<()> {
        let strip = self
            .strips
            .get(&mailbox)
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        while !block.is_empty() {
            let part = strip.part(at, block.len())?;
            let (now, rest) = block.split_at_mut(part.bytes);
            self.file.read_exact_at(now, part.at)?;
            at += part.bytes as u64;
            block = rest;
        }
        Ok(())
    }

    /// Frees the pieces before this offset.
    pub(super) fn forget_before(&mut self, mailbox: u64, at: u64) {
        let Some(strip) = self.strips.get_mut(&mailbox) else {
            return;
        };
        while strip.gone < at / PIECE_BYTES
            && let Some(piece) = strip.pieces.pop_front()
        {
            strip.gone += 1;
            self.free.push(piece);
            punch(&self.file, piece);
        }
    }

    /// Gives back all that a mailbox has.
    pub(super) fn forget(&mut self, mailbox: u64) {
        let Some(strip) = self.strips.remove(&mailbox) else {
            return;
        };
        if self.strips.is_empty() && self.file.set_len(0).is_ok() {
            self.free = Vec::new();
            self.made = 0;
            return;
        }
        for piece in strip.pieces {
            self.free.push(piece);
            punch(&self.file, piece);
        }
    }
}

impl Strip {
    /// Returns the part of a range within one piece.
    fn part(&self, at: u64, bytes: usize) -> io::Result<Part> {
        let index = (at / PIECE_BYTES)
            .checked_sub(self.gone)
            .and_then(|index| usize::try_from(index).ok());
        let piece = index
            .and_then(|index| self.pieces.get(index))
            .ok_or(io::ErrorKind::UnexpectedEof)?;
        let within = at % PIECE_BYTES;
        let left = usize::try_from(PIECE_BYTES - within).unwrap_or(usize::MAX);
        Ok(Part {
            at: u64::from(*piece) * PIECE_BYTES + within,
            bytes: bytes.min(left),
        })
    }
}

/// Gives a piece's disk back. A file system that cannot keeps it until the piece is used again or
/// no mailbox has any.
fn punch(file: &File, piece: u32) {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let _ = fallocate(file, flags, u64::from(piece) * PIECE_BYTES, PIECE_BYTES);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk() -> Disk {
        Disk::new(tempfile::tempfile().unwrap())
    }

    fn read(disk: &Disk, mailbox: u64, at: u64, bytes: usize) -> Vec<u8> {
        let mut block = vec![0; bytes];
        disk.read(mailbox, &mut block, at).unwrap();
        block
    }

    #[test]
    fn mailboxes_read_their_own_bytes_whatever_the_length_of_their_blocks() {
        let mut disk = disk();
        let mut ends = [0_u64; 3];
        for round in 0..40_usize {
            for (mailbox, end) in ends.iter_mut().enumerate() {
                let block =
                    vec![(round * 3 + mailbox) as u8; 1 + round * 7919 * (mailbox + 1) % 600_000];
                disk.write(mailbox as u64, &block, *end).unwrap();
                assert_eq!(read(&disk, mailbox as u64, *end, block.len()), block);
                *end += block.len() as u64;
                if round % 3 == mailbox {
                    disk.forget_before(mailbox as u64, *end);
                }
            }
        }
    }

    #[test]
    fn pieces_are_used_again_and_an_unused_file_is_empty() {
        let mut disk = disk();
        let block = vec![1; PIECE_BYTES as usize];
        for round in 0..100 {
            disk.write(7, &block, round * PIECE_BYTES).unwrap();
            disk.write(8, &block, round * PIECE_BYTES).unwrap();
            disk.forget_before(7, (round + 1) * PIECE_BYTES);
            disk.forget_before(8, (round + 1) * PIECE_BYTES);
        }
        assert_eq!(disk.made, 2);
        disk.write(9, &block, 0).unwrap();
        disk.forget(7);
        disk.forget(9);
        assert!(disk.file.metadata().unwrap().len() > 0);
        disk.forget(8);
        assert_eq!((disk.file.metadata().unwrap().len(), disk.made), (0, 0));
    }

    #[test]
    fn nothing_is_read_from_where_a_write_failed() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let mut disk = Disk::new(File::open(path.path()).unwrap());
        assert!(disk.write(1, b"lost", 0).is_err() && disk.write(1, b"too", 4).is_err());
        assert_eq!((disk.good_until(1, 8), disk.good_until(2, 8)), (0, 8));
    }
}
