//! The other side of the pipe: this program again, as fast as a page of code can be.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};

pub(crate) const LINE: &str = "{\"type\":\"output\",\"session_id\":\"0123456789abcdef0123456789abcdef\",\"content\":\"0123456789012345678901234567\"}\n";
const READ: usize = 64 * 1024;

/// `ping`: each line back. `adapter`: a turn of two lines for each input. `lines N BYTES`: so many
/// outputs, batched.
pub(crate) fn run(args: &[String]) {
    match args[0].as_str() {
        "ping" => ping(),
        "adapter" => adapter(),
        "lines" => lines(args[1].parse().unwrap(), args[2].parse().unwrap()),
        other => panic!("no counterpart {other}"),
    }
}

fn ping() {
    let mut input = std::io::stdin().lock();
    let mut output = std::io::stdout().lock();
    let mut buffer = [0; 4096];
    loop {
        match input.read(&mut buffer).unwrap() {
            0 => return,
            bytes => {
                output.write_all(&buffer[..bytes]).unwrap();
                output.flush().unwrap();
            }
        }
    }
}

fn lines(count: usize, bytes: usize) {
    let mut output = std::io::stdout().lock();
    let line = line_of("0123456789abcdef0123456789abcdef", bytes);
    let mut batch = Vec::new();
    for _ in 0..count {
        batch.extend_from_slice(&line);
        if batch.len() >= READ {
            if output.write_all(&batch).is_err() {
                return;
            }
            batch.clear();
        }
    }
    // The reader may have seen enough.
    let _ = output.write_all(&batch);
    let _ = output.flush();
}

fn line_of(session: &str, bytes: usize) -> Vec<u8> {
    let frame =
        format!("{{\"type\":\"output\",\"session_id\":\"{session}\",\"content\":\"\"}}\n").len();
    let content = "c".repeat(bytes.saturating_sub(frame));
    format!("{{\"type\":\"output\",\"session_id\":\"{session}\",\"content\":\"{content}\"}}\n")
        .into_bytes()
}

/// Reads what the host writes by a scan for known bytes; it is a counterpart for measuring, not an example.
fn adapter() {
    let input = std::io::stdin();
    let output = std::io::stdout();
    let mut buffer = vec![0; READ];
    let mut held: Vec<u8> = Vec::new();
    let mut answers = Vec::new();
    // The line that was streamed last: making one of 1 MiB anew would take longer than the host
    // takes to read it.
    let mut streamed = Streamed::default();
    loop {
        let bytes = rustix::io::read(input.as_fd(), &mut buffer).unwrap();
        if bytes == 0 {
            return;
        }
        held.extend_from_slice(&buffer[..bytes]);
        let mut start = 0;
        while let Some(found) = memchr::memchr(b'\n', &held[start..]) {
            answer(&held[start..start + found], &mut answers, &mut streamed);
            start += found + 1;
        }
        held.drain(..start);
        if write_all(output.as_fd(), &answers).is_err() {
            return;
        }
        answers.clear();
    }
}

fn write_all(output: BorrowedFd<'_>, mut rest: &[u8]) -> rustix::io::Result<()> {
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(output, rest)?..];
    }
    Ok(())
}

#[derive(Default)]
struct Streamed {
    session: String,
    bytes: usize,
    line: Vec<u8>,
}

impl Streamed {
    fn line(&mut self, session: &str, bytes: usize) -> &[u8] {
        if self.session != session || self.bytes != bytes {
            *self = Self {
                session: session.to_owned(),
                bytes,
                line: line_of(session, bytes),
            };
        }
        &self.line
    }
}

fn answer(line: &[u8], answers: &mut Vec<u8>, streamed: &mut Streamed) {
    const INPUT: &[u8] = b"{\"type\":\"user.input\",\"session_id\":\"";
    let Some(rest) = line.strip_prefix(INPUT) else {
        return;
    };
    let session = &rest[..memchr::memchr(b'"', rest).unwrap()];
    if let Some(at) = memchr::memmem::find(rest, b"\"content\":\"stream ") {
        let order = &rest[at + 18..];
        let order = std::str::from_utf8(&order[..memchr::memchr(b'"', order).unwrap()]).unwrap();
        let (count, bytes) = order.split_once(' ').unwrap();
        let line = streamed.line(
            std::str::from_utf8(session).unwrap(),
            bytes.parse().unwrap(),
        );
        for _ in 0..count.parse().unwrap() {
            answers.extend_from_slice(line);
            if answers.len() >= READ {
                let _ = write_all(std::io::stdout().as_fd(), answers);
                answers.clear();
            }
        }
    } else {
        answers.extend_from_slice(b"{\"type\":\"output\",\"session_id\":\"");
        answers.extend_from_slice(session);
        answers.extend_from_slice(b"\",\"content\":\"0123456789012345678901234567\"}\n");
    }
    answers.extend_from_slice(b"{\"type\":\"turn.complete\",\"session_id\":\"");
    answers.extend_from_slice(session);
    answers.extend_from_slice(b"\"}\n");
}
