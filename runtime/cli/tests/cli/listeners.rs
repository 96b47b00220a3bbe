//! Many hubs listen to one session, and some of them do not read.

use std::{path::Path, thread};

use serde_json::{Value, json};

use super::{
    Home,
    journal::{Serving, Socket, input, start},
};

/// More than all buffers between a host and a hub that does not read: of sockets and of the host.
const BURST: &str = "/burst 3000 1000";

/// A hub that has attached to the session, and reads no more.
fn listener(door: &Path, on_slow: &str) -> Socket {
    let mut hub = Socket::new(door);
    hub.say(&json!({"type": "session.attach", "session_id": "s", "after": 0, "role": "observe", "on_slow": on_slow,
        "protocol": 1, "extensions": ["turns", "events", "journal"]}));
    hub.until("session.attached");
    hub
}

/// Reads to the end of the turn. Returns the numbers of the entries, and of the reported gaps.
fn read(hub: &mut Socket) -> (Vec<u64>, Vec<(u64, u64)>) {
    let mut numbers = Vec::new();
    let mut lags = Vec::new();
    loop {
        let message: Value = serde_json::from_str(&hub.lines.next().unwrap().unwrap()).unwrap();
        if message["type"] == "lag" {
            lags.push((
                message["from"].as_u64().unwrap(),
                message["to"].as_u64().unwrap(),
            ));
        } else {
            numbers.push(message["seq"].as_u64().unwrap());
        }
        if message["type"] == "turn.complete" {
            return (numbers, lags);
        }
    }
}

#[test]
fn fifty_hubs_listen_and_ten_that_do_not_read_hold_up_no_one() {
    let home = Home::new();
    let mut host = Serving::new(&home, &[]);
    let door = home.path().join("journal/host.sock");
    host.say(&start("s"));
    host.until("host.fact");
    let stalled: Vec<_> = (0..10)
        .map(|no| listener(&door, if no < 5 { "wait" } else { "skip" }))
        .collect();
    let reading: Vec<_> = (0..40).map(|_| listener(&door, "wait")).collect();
    host.say(&input("s", "a", BURST));
    let reading = reading
        .into_iter()
        .map(|mut hub| thread::spawn(move || read(&mut hub)));
    let reading: Vec<_> = reading.collect();
    let last = host.until("turn.complete")["seq"].as_u64().unwrap();
    let all: Vec<u64> = (1..=last).collect();
    for hub in reading {
        assert_eq!(hub.join().unwrap(), (all.clone(), vec![]));
    }
    for (no, mut hub) in stalled.into_iter().enumerate() {
        let (mut numbers, lags) = read(&mut hub);
        if no < 5 {
            assert_eq!((numbers, lags), (all.clone(), vec![]));
        } else {
            // One for each time that it fell behind.
            assert_ne!(lags, []);
            numbers.extend(lags.into_iter().flat_map(|(from, to)| from..=to));
            numbers.sort_unstable();
            assert_eq!(numbers, all);
        }
    }
    host.end();
}
