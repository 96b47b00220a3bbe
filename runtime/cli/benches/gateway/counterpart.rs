//! The adapter: answers at once, or a hundred times a second.

use std::{
    io::{BufRead, Write},
    thread::sleep,
    time::Duration,
};

use crate::clock;

/// The time between two outputs of a paced turn.
pub(crate) const PACE: Duration = Duration::from_millis(10);

/// Answers an input with one output, or with the number of outputs of `paced N`, each with the time
/// at which it was written.
pub(crate) fn run() {
    let stdin = std::io::stdin().lock();
    let mut stdout = std::io::stdout().lock();
    let mut stdin = std::io::BufReader::with_capacity(64 * 1024, stdin);
    let mut line = String::new();
    let mut out = Vec::new();
    loop {
        line.clear();
        if stdin.read_line(&mut line).unwrap() == 0 {
            return;
        }
        let session = text(&line, "session_id").unwrap_or_default();
        if line.contains("\"session.start\"") {
            writeln!(out, r#"{{"type":"session.ready","session_id":"{session}","protocol":1,"extensions":["turns","events"]}}"#).unwrap();
        } else if line.contains("\"user.input\"") {
            let turn = text(&line, "turn_id").unwrap();
            let paced = text(&line, "content").unwrap().strip_prefix("paced ");
            for _ in 0..paced.map_or(1, |count| count.parse().unwrap()) {
                if paced.is_some() {
                    // What a slow reader costs shows: the next pause begins when this is written.
                    sleep(PACE);
                }
                writeln!(
                    out,
                    r#"{{"type":"output","session_id":"{session}","turn_id":"{turn}","content":"at {}"}}"#,
                    clock()
                )
                .unwrap();
                if paced.is_some() {
                    stdout.write_all(&out).unwrap();
                    stdout.flush().unwrap();
                    out.clear();
                }
            }
            writeln!(
                out,
                r#"{{"type":"turn.complete","session_id":"{session}","turn_id":"{turn}"}}"#
            )
            .unwrap();
        }
        if stdin.buffer().is_empty() {
            stdout.write_all(&out).unwrap();
            stdout.flush().unwrap();
            out.clear();
        }
    }
}

/// A member of a line that is a text without escapes.
pub(crate) fn text<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let member = format!("\"{name}\":\"");
    let at = line.find(&member)? + member.len();
    line[at..].split('"').next()
}
