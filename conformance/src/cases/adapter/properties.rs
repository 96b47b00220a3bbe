//! A-PROP: conversations and lines that a seed decides.

use crate::{cases::prelude::*, property, rng::Rng, wire::Parsed};

pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("A-PROP-01", property::random_actions),
    ("A-PROP-02", mutated_lines),
];

/// Session id of mutated lines; no mutation of a few bytes turns it into a fence's id.
const VICTIM: &str = "victim";

fn mutated_lines(t: &mut Trial) -> Outcome {
    let s = t.open_as(VICTIM)?;
    t.quick_turn(&s)?;
    let mut noise = Vec::new();
    let mut objects = Vec::new();
    while noise.len() < 1_000 || objects.len() < 1_000 {
        let line = mutated(&mut t.rng);
        match Parsed::lenient(&line) {
            Parsed::Message(_) if objects.len() < 1_000 => objects.push(line),
            Parsed::Noise(_) if noise.len() < 1_000 => noise.push(line),
            _ => {}
        }
    }
    for (lines, clause) in [(noise, "frame.6"), (objects, "msg.2")] {
        for batch in lines.chunks(250) {
            t.raw(property::lines(batch))?;
            t.fence()
                .under(clause)
                .hint("what is not a message, or has no known type, is skipped and nothing else")?;
        }
    }
    t.settle()
}

/// A valid line with one to three mutations.
fn mutated(rng: &mut Rng) -> Vec<u8> {
    let templates = [
        json!({"type":"session.start","session_id":VICTIM,"protocol":1}),
        json!({"type":"user.input","session_id":VICTIM,"content":"x"}),
        json!({"type":"stop","session_id":VICTIM}),
        json!({"type":"permission.response","session_id":VICTIM,"request_id":"r-1","approved":false}),
        json!({"type":"file.input","session_id":VICTIM,"file_name":"f","file_mime_type":"text/plain","file_path":"/f"}),
        json!({"type":"session.close","session_id":"victim-of-nobody"}),
    ];
    property::mutated_line(rng, &templates, mutate)
}

fn mutate(rng: &mut Rng, line: &mut Vec<u8>) {
    let at = rng.below(line.len().max(1));
    match rng.below(7) {
        0 => line.truncate(at),
        1 => {
            if let Some(byte) = line.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        2 => {
            let copy = line.clone();
            line.extend(copy);
        }
        3 => {
            let odd: &[&[u8]] = &[
                b"\r",
                b"\0",
                b"\xef\xbb\xbf",
                b"\\",
                b"\"",
                b"{",
                b"\xc3",
                b" ",
                b"e9",
            ];
            let odd = rng.pick(odd).to_vec();
            line.splice(at..at, odd);
        }
        4 => {
            let to = (at + 1 + rng.below(8)).min(line.len());
            line.drain(at.min(to)..to);
        }
        5 => {
            // Another name or value of a member.
            let quotes: Vec<usize> = line
                .iter()
                .enumerate()
                .filter(|(_, byte)| **byte == b'"')
                .map(|(place, _)| place)
                .collect();
            if let Some(place) = quotes.get(rng.below(quotes.len().max(1))) {
                let more = [&b"\""[..], b"x-", b"?"];
                let more = rng.pick(&more).to_vec();
                line.splice(place + 1..place + 1, more);
            }
        }
        _ => {
            // A string becomes a number.
            let value = line[..at]
                .windows(2)
                .rposition(|pair| pair == b":\"")
                .map(|place| place + 1);
            if let Some(from) = value
                && let Some(length) = line[from + 1..].iter().position(|byte| *byte == b'"')
            {
                line.splice(from..from + 2 + length, *b"7");
            }
        }
    }
}
