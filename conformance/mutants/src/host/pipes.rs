//! Reads and writes the host's pipes: as in SPEC.md, or with one fault.

use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::time::Duration;

use trunkline_conformance_mutants::{
    lines::{InputLine, LONGEST, LineReader, ReaderFault as ReadFault},
    outbox::{Outbox, WriterFault},
};

use crate::switches::{Mutant::*, Variant::*, broken, find_fault, varied};

/// Buffer of a reader with a fixed size, in bytes.
const FIXED: usize = 1024 * 1024 + 64 * 1024;

/// The lines of a pipe that are not blank.
pub(crate) fn lines(pipe: impl Read) -> impl Iterator<Item = InputLine> {
    let faults = [
        (ChunkDecoded, ReadFault::DecodesReads),
        (ReadIsLine, ReadFault::ReadIsLine),
        (OneLinePerRead, ReadFault::LinesPerRead(16)),
        (SplitsAtU2028, ReadFault::SplitsAtUnicode),
        (BomRefused, ReadFault::KeepsBom),
    ];
    let longest = if broken(LineUnbounded) {
        usize::MAX
    } else {
        LONGEST
    };
    let lines = LineReader::new(pipe, longest, find_fault(faults)).map_while(Result::ok);
    let lines =
        until_too_long(lines).filter(|line| !broken(Line64k) || line.bytes().len() <= 64 * 1024);
    let lines = lines.map(|line| match line {
        InputLine::Whole(mut bytes) if broken(CrlfRefused) && bytes.last() == Some(&b'\r') => {
            bytes.insert(0, b'?');
            InputLine::Whole(bytes)
        }
        line => line,
    });
    lines.filter(|line| broken(BlankReported) || !line.bytes().iter().all(u8::is_ascii_whitespace))
}

/// Returns the lines that a reader with a fixed buffer sees: from a line that does not fit on it
/// discards everything.
fn until_too_long(lines: impl Iterator<Item = InputLine>) -> impl Iterator<Item = InputLine> {
    let mut deaf = false;
    lines.filter(move |line| {
        let fits = line.bytes().len() <= FIXED
            && matches!(line, InputLine::Whole(_) | InputLine::Unended(_));
        deaf |= broken(Line1mEnds) && !fits;
        !deaf
    })
}

/// Creates a writer of lines; `written` is called after each write.
pub(crate) fn writer(pipe: OwnedFd, written: impl Fn(io::Result<()>) + Send + 'static) -> Outbox {
    let faults = [
        (WritesMixed, WriterFault::Unlocked),
        (WriteBlocks, WriterFault::PushWaits),
    ];
    let slow = varied(Vh04).then_some(WriterFault::Slow(Duration::from_millis(5)));
    Outbox::start(pipe, find_fault(faults).or(slow), written)
}
