//! Turns a second: one in each of some sessions, the next when it has ended.

use std::{fmt::Write, time::Instant};

use crate::{IN_FLIGHT, counterpart, daemon::Hub};

/// In sessions that this hub begins.
pub(crate) fn begun(hub: &mut impl Hub, prefix: &str, turns: usize) -> f64 {
    let sessions: Vec<_> = (0..IN_FLIGHT)
        .map(|id| begin(hub, prefix, id, None))
        .collect();
    flown(hub, &sessions, turns)
}

/// Begins one, and comes back with its id.
pub(crate) fn begin(
    hub: &mut impl Hub,
    prefix: &str,
    number: usize,
    agent: Option<&str>,
) -> String {
    let id = format!("{prefix}-{number}");
    let agent = agent.map_or(String::new(), |agent| format!(r#""agent_id":"{agent}","#));
    hub.say(&format!(
        "{{\"type\":\"session.start\",\"session_id\":\"{id}\",{agent}\"protocol\":1,\"extensions\":[\"turns\",\"events\",\"journal\"]}}\n"
    ));
    id
}

/// In sessions that this hub has.
pub(crate) fn flown(hub: &mut impl Hub, sessions: &[String], turns: usize) -> f64 {
    let mut batch = String::new();
    let mut sent = 0;
    let mut input = |batch: &mut String, session: &str| {
        sent += 1;
        writeln!(
            batch,
            r#"{{"type":"user.input","session_id":"{session}","turn_id":"t-{sent}","content":"1"}}"#
        )
        .unwrap();
    };
    for id in sessions {
        input(&mut batch, id);
    }
    // The first turn of each, in which its process starts, is not timed.
    let first = sessions.len();
    let mut ended = 0;
    let mut heard = String::new();
    let mut begun = None;
    while ended < turns + first {
        hub.say(&batch);
        batch.clear();
        while batch.is_empty() {
            heard.clear();
            hub.hear(&mut heard);
            for line in heard
                .lines()
                .filter(|line| line.starts_with("{\"type\":\"turn.complete\""))
            {
                assert!(
                    line.contains(r#""status":"completed""#),
                    "a turn failed: {line}"
                );
                ended += 1;
                input(&mut batch, counterpart::text(line, "session_id").unwrap());
            }
        }
        if ended >= first && begun.is_none() {
            begun = Some(Instant::now());
        }
    }
    turns as f64 / begun.unwrap().elapsed().as_secs_f64()
}
