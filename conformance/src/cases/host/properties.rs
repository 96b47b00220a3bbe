//! H-PROP: conversations and lines that a seed decides.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};

use crate::{cases::prelude::*, property, rng::Rng, wire::Parsed};

/// The family.
pub(in crate::cases) static RUNS: &[CaseRun] = &[
    ("H-PROP-01", property::random_actions),
    ("H-PROP-02", mutated_lines),
];

/// Number of lines that H-PROP-02 writes, and the number between two valid ones.
const LINES: usize = 2_000;
const BETWEEN: usize = 4;
/// Channel of mutated outputs, so that valid ones can be distinguished from their remains.
const CHANNEL: &str = "mutated";

fn mutated_lines(t: &mut Trial) -> Outcome {
    const ID: &str = "session-of-mutations";
    let lines: Vec<Vec<u8>> = (0..LINES).map(|_| harmless(&mut t.rng, ID)).collect();
    let mut actions = Vec::new();
    let mut wanted = String::new();
    for (n, batch) in t.part_of(lines).chunks(BETWEEN).enumerate() {
        actions.push(json!(["raw64", BASE64.encode(property::lines(batch))]));
        actions.push(json!(["say", format!("valid {n}; ")]));
        wanted.push_str(&format!("valid {n}; "));
    }
    t.stub_script(&json!({"lists":{"lines":actions}}))?;
    let s = t.open_as(ID)?;
    let from = t.instruct(&s, &json!([["do", "lines"], ["complete"]]))?;
    let turn = t.end_within(&s, from, t.bounds.deadline.max(t.bounds.secs(10.0)))?;
    let text = turn.text();
    let place = text
        .bytes()
        .zip(wanted.bytes())
        .take_while(|(got, wanted)| got == wanted)
        .count();
    let around =
        |text: &str| super::shown(text.get(place.saturating_sub(20)..).unwrap_or_default());
    t.demand(
        text == wanted,
        format!("the valid outputs: {}", around(&wanted)),
        around(&text),
    )
    .hint("a line that is not a message costs that line and no other")?;
    t.demand_ends_now(&s, 1)?;
    t.demand_served(&s, "still")
}

/// A mutated line that asks for nothing, if it is a message still, and ends nothing.
fn harmless(rng: &mut Rng, id: &str) -> Vec<u8> {
    loop {
        let line = mutated(rng, id);
        match Parsed::lenient(&line) {
            Parsed::Noise(_) | Parsed::Blank => return line,
            Parsed::Message(message) => match wire::kind(&message) {
                "output" if message.get("channel") == Some(&json!(CHANNEL)) => return line,
                "output" | "turn.complete" | "permission.request" | "file.output" => {}
                _ => return line,
            },
        }
    }
}

/// A valid line with one to three mutations.
fn mutated(rng: &mut Rng, id: &str) -> Vec<u8> {
    let templates = [
        json!({"type":"output","session_id":id,"content":"caf\u{e9} \u{1f600} \"quoted\"\n","channel":CHANNEL}),
        json!({"type":"turn.complete","session_id":id}),
        json!({"type":"permission.request","session_id":id,"request_id":"r-1","tool":"t","description":"d","resource":"r"}),
        json!({"type":"file.output","session_id":id,"file_name":"f","file_mime_type":"text/plain","file_path":"/f"}),
    ];
    property::mutated_line(rng, &templates, mutate)
}

fn mutate(rng: &mut Rng, line: &mut Vec<u8>) {
    const ODD: [&[u8]; 10] = [
        b"\r",
        b"\0",
        b"\xef\xbb\xbf",
        b"\\",
        b"\"",
        b"{",
        b"\xc3",
        b"}",
        b",",
        b"\xed\xa0\x80",
    ];
    let at = rng.below(line.len().max(1));
    match rng.below(5) {
        0 => line.truncate(at),
        1 => {
            if let Some(byte) = line.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        2 => {
            // Spliced with itself, as unlocked writers do.
            let copy = line.clone();
            line.splice(at..at, copy);
        }
        3 => {
            let odd = rng.pick(&ODD).to_vec();
            line.splice(at..at, odd);
        }
        _ => {
            let to = (at + 1 + rng.below(12)).min(line.len());
            line.drain(at.min(to)..to);
        }
    }
}
