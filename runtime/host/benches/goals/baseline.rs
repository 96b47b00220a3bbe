//! The speed of a host that did nothing.

use std::{
    borrow::Cow,
    collections::HashMap,
    io::{Read, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    time::Instant,
};

use serde::Deserialize;

use super::{
    cost::{Cost, Latency, Meter},
    counterpart::LINE,
};

const READ: usize = 64 * 1024;

fn counterpart(args: &[&str]) -> (Child, ChildStdin, ChildStdout) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .arg("counterpart")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let input = child.stdin.take().unwrap();
    let output = child.stdout.take().unwrap();
    (child, input, output)
}

fn end(mut child: Child, input: ChildStdin) {
    drop(input);
    child.wait().unwrap();
}

/// Two processes, blocking reads and writes of one 100-byte line.
pub(crate) fn ping_pong(rounds: usize) -> Latency {
    let (child, mut input, mut output) = counterpart(&["ping"]);
    let line = [b'x'; 99].into_iter().chain([b'\n']).collect::<Vec<_>>();
    let mut buffer = [0; 4096];
    let mut nanos = Vec::with_capacity(rounds);
    for round in 0..rounds + rounds / 10 {
        let begun = Instant::now();
        input.write_all(&line).unwrap();
        let mut got = 0;
        while got < line.len() {
            got += output.read(&mut buffer).unwrap();
        }
        if round >= rounds / 10 {
            nanos.push(begun.elapsed().as_nanos() as u64);
        }
    }
    end(child, input);
    Latency::from_nanos(nanos)
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    #[serde(borrow)]
    session_id: Cow<'a, str>,
    #[serde(borrow)]
    content: Option<Cow<'a, str>>,
}

/// Calls back for every line, with one read at a time.
struct Lines {
    held: Vec<u8>,
    filled: usize,
}

impl Lines {
    fn new() -> Self {
        Self {
            held: vec![0; 4 * READ],
            filled: 0,
        }
    }

    fn read(&mut self, output: &mut ChildStdout, mut each: impl FnMut(&[u8])) -> usize {
        if self.held.len() - self.filled < READ {
            self.held.resize(self.held.len() * 2, 0);
        }
        let bytes = output.read(&mut self.held[self.filled..]).unwrap();
        self.filled += bytes;
        let mut start = 0;
        while let Some(found) = memchr::memchr(b'\n', &self.held[start..self.filled]) {
            each(&self.held[start..start + found]);
            start += found + 1;
        }
        self.held.copy_within(start..self.filled, 0);
        self.filled -= start;
        bytes
    }
}

/// Turns with so many in flight.
pub(crate) fn inline_turns(in_flight: usize, turns: usize) -> Cost {
    let (child, mut input, mut output) = counterpart(&["adapter"]);
    let ids: Vec<String> = (0..in_flight).map(|at| format!("{at:032}")).collect();
    let index: HashMap<&str, usize> = ids
        .iter()
        .enumerate()
        .map(|(at, id)| (id.as_str(), at))
        .collect();
    let mut outgoing = Vec::new();
    let ask = |outgoing: &mut Vec<u8>, id: &str| {
        writeln!(
            outgoing,
            "{{\"type\":\"user.input\",\"session_id\":\"{id}\",\"content\":\"hello\"}}"
        )
        .unwrap();
    };
    let meter = Meter::start();
    let mut sent = in_flight;
    let mut done = 0;
    let mut bytes = 0;
    for id in &ids {
        ask(&mut outgoing, id);
    }
    let mut lines = Lines::new();
    while done < turns {
        // A thousand inputs fit into the pipe, so a blocking write cannot lock.
        input.write_all(&outgoing).unwrap();
        outgoing.clear();
        lines.read(&mut output, |line| {
            let line: Line<'_> = serde_json::from_slice(line).unwrap();
            let at = index[&*line.session_id];
            match &*line.kind {
                "turn.complete" => {
                    done += 1;
                    if sent < turns {
                        sent += 1;
                        ask(&mut outgoing, &ids[at]);
                    }
                }
                _ => bytes += line.content.as_deref().map_or(0, str::len),
            }
        });
    }
    let cost = meter.of_each(turns);
    assert!(bytes > 0);
    end(child, input);
    cost
}

/// Messages of 120 bytes, read and parsed.
pub(crate) fn inline_stream(messages: usize) -> Cost {
    let (child, input, mut output) =
        counterpart(&["lines", &messages.to_string(), &LINE.len().to_string()]);
    let mut seen = 0;
    let mut bytes = 0;
    let mut lines = Lines::new();
    let meter = Meter::start();
    while lines.read(&mut output, |line| {
        let line: Line<'_> = serde_json::from_slice(line).unwrap();
        bytes +=
            line.content.as_deref().map_or(0, str::len) + line.kind.len() + line.session_id.len();
        seen += 1;
    }) > 0
    {}
    let cost = meter.of_each(messages);
    assert!(seen == messages && bytes > 0);
    end(child, input);
    cost
}
