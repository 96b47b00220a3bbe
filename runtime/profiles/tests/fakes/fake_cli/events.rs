//! Events of the player: lines on stdin, its end, signals, in one order.

use std::{
    io::{BufRead, BufReader, stdin},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use serde_json::Value;
use signal_hook::{
    consts::{SIGINT, SIGTERM},
    iterator::Signals,
};

/// Limit of waiting events.
const WAITING: usize = 1024;

/// An event.
#[derive(Debug)]
pub(crate) enum Event {
    /// A line that is JSON.
    Line(Value),
    /// A line that is not.
    Noise,
    /// Stdin has ended.
    Eof,
    /// A signal.
    Signal(i32),
}

/// Begins to watch stdin and signals.
pub(crate) fn watch() -> std::io::Result<Receiver<Event>> {
    let (sender, receiver) = sync_channel(WAITING);
    let mut signals = Signals::new([SIGINT, SIGTERM])?;
    let of_signals = sender.clone();
    thread::spawn(move || {
        for signal in signals.forever() {
            if of_signals.send(Event::Signal(signal)).is_err() {
                return;
            }
        }
    });
    thread::spawn(move || read(&sender));
    Ok(receiver)
}

fn read(sender: &SyncSender<Event>) {
    for line in BufReader::new(stdin()).split(b'\n') {
        let Ok(line) = line else { break };
        if line.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let event = serde_json::from_slice(&line).map_or(Event::Noise, Event::Line);
        if sender.send(event).is_err() {
            return;
        }
    }
    drop(sender.send(Event::Eof));
}
