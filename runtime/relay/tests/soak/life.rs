//! The life of one relay: the actions of its hub, and the end.

use std::{
    fmt,
    time::{Duration, Instant},
};

use serde_json::json;
use tokio::{net::unix::pipe, sync::oneshot, time::timeout};
use trunkline_host::{
    Host,
    config::{AgentConfig, Command},
};
use trunkline_relay::{RelayOptions, serve_until};

use crate::{hub::Hub, rng::Rng};

/// Sets of extensions that the hub and the relay may agree on.
const EXTENSIONS: [&[&str]; 6] = [
    &[
        "turns",
        "events",
        "usage",
        "resume",
        "options",
        "questions",
        "flow",
        "control",
        "large",
    ],
    &["turns", "flow", "control"],
    &["turns"],
    &["control"],
    &["flow", "options"],
    &[],
];

/// Commands for the adapter in an input. Most just answer.
const WORDS: [&str; 24] = [
    "say",
    "say",
    "say",
    "say",
    "say",
    "say",
    "say",
    "say",
    "say",
    "say",
    "say",
    "say",
    "say",
    "say",
    "flood",
    "big",
    "ask",
    "ask-cancel",
    "ask-end",
    "hang",
    "late",
    "twice",
    "file",
    "say",
];

/// Commands that cost a process or a session.
const HARD: [&str; 5] = ["crash", "exit", "mute", "deaf", "over"];

/// Number of inputs that a hub leaves open before it waits for ends.
const OPEN: usize = 200;

/// Deadline for the end of each input.
const END_BY: Duration = Duration::from_secs(60);

/// Counts over all lives.
#[derive(Default)]
pub struct Tally {
    pub lives: u64,
    pub sessions: u64,
    pub inputs: u64,
    pub ends: u64,
    pub refused: u64,
    pub failures: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, other: Self) {
        self.lives += other.lives;
        self.sessions += other.sessions;
        self.inputs += other.inputs;
        self.ends += other.ends;
        self.refused += other.refused;
        self.failures.extend(other.failures);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            lives,
            sessions,
            inputs,
            ends,
            refused,
            ..
        } = self;
        write!(
            f,
            "{lives} relays, {sessions} sessions, {inputs} inputs, {ends} ends ({refused} refused)"
        )
    }
}

fn host() -> Host {
    let agent = |name: &str| {
        let program = std::env::current_exe().unwrap();
        let command = Command::new(program.to_string_lossy()).arg(name);
        let mut agent = AgentConfig::external(name, command);
        agent.timeouts.stop = Duration::from_millis(300);
        agent.limits.queued_inputs = 8;
        agent
    };
    let state = concat!(env!("CARGO_TARGET_TMPDIR"), "/soak");
    Host::builder()
        .agent(agent("adapter"))
        .agent(agent("core-adapter"))
        .state_dir(state)
        .build()
        .unwrap()
}

/// Runs one relay from its start to its end.
pub async fn live(mut rng: Rng, steps: u32) -> Tally {
    let (input, below_in) = pipe::pipe().unwrap();
    let (below_out, output) = pipe::pipe().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let relay = tokio::spawn(serve_until(
        host(),
        below_in,
        below_out,
        RelayOptions::default(),
        async {
            if stopped.await.is_err() {
                std::future::pending().await
            }
        },
    ));
    let mut hub = Hub::new(output, input, Rng::new(rng.next()));
    let mut life = Life {
        ids: Vec::new(),
        opened: 0,
    };
    let last = steps / 2 + u32::try_from(rng.below(steps as usize)).unwrap();
    for _ in 0..last {
        life.step(&hub, &mut rng).await;
    }
    match rng.below(8) {
        0 => {
            hub.cut().await;
            let _ = relay.await;
        }
        1 => {
            relay.abort();
            let _ = relay.await;
            hub.cut().await;
        }
        2 => {
            hub.stall(false);
            let _ = stop.send(());
            hub.hang_up().await;
            let _ = relay.await;
        }
        _ => {
            quiesce(&hub).await;
            hub.hang_up().await;
            let report = relay.await.unwrap();
            if report.counters.unanswered > 0 {
                hub.state()
                    .failures
                    .push(format!("inputs were left without an end: {report:?}"));
            }
        }
    }
    let mut state = hub.state();
    Tally {
        lives: 1,
        sessions: life.opened,
        inputs: state.inputs,
        ends: state.ends,
        refused: state.refused,
        failures: std::mem::take(&mut state.failures),
    }
}

struct Life {
    ids: Vec<String>,
    opened: u64,
}

impl Life {
    async fn step(&mut self, hub: &Hub, rng: &mut Rng) {
        if self.ids.is_empty() || (self.ids.len() < 12 && rng.below(20) == 0) {
            self.opened += 1;
            let id = format!("s{}", self.opened);
            let agent = if rng.below(4) == 0 {
                "core-adapter"
            } else {
                "adapter"
            };
            hub.start(&id, agent, rng.one_of(&EXTENSIONS)).await;
            self.ids.push(id);
        }
        let id = self.ids[rng.below(self.ids.len())].clone();
        match rng.below(200) {
            0..4 => {
                hub.close(&id).await;
                self.ids.retain(|open| *open != id);
            }
            4..20 => hub.stop(&id, rng.below(2) == 0).await,
            20..24 => {
                hub.say(json!({"type": "flow.pause", "session_id": id})).await;
                if let Some(session) = hub.state().sessions.get_mut(&id) {
                    session.paused = true;
                }
            }
            24..32 => self.resume(hub).await,
            32..36 => hub.stall(true),
            36..44 => hub.stall(false),
            44..48 => hub.steer(&id).await,
            48..52 => hub.say(json!({"type": "session.update", "session_id": id, "model": "m"})).await,
            52..56 => {
                hub.say(json!({"type": "ping", "session_id": "", "nonce": "x".repeat(rng.below(100_000))}))
                    .await
            }
            56..58 => {
                for _ in 0..100 {
                    hub.input(&id, "say").await;
                }
            }
            58 => hub.input(&id, rng.one_of(&HARD)).await,
            _ => hub.input(&id, rng.one_of(&WORDS)).await,
        }
        let waiting = Instant::now();
        while hub.state().open() > OPEN {
            hub.stall(false);
            self.resume(hub).await;
            if timeout(Duration::from_millis(100), hub.moved.notified())
                .await
                .is_err()
            {
                stop_all(hub).await;
            }
            if waiting.elapsed() > END_BY {
                return;
            }
        }
    }

    async fn resume(&self, hub: &Hub) {
        for id in paused(hub) {
            hub.say(json!({"type": "flow.resume", "session_id": id}))
                .await;
        }
    }
}

fn paused(hub: &Hub) -> Vec<String> {
    let mut state = hub.state();
    let paused = state.sessions.iter_mut();
    paused
        .filter_map(|(id, session)| std::mem::take(&mut session.paused).then(|| id.clone()))
        .collect()
}

async fn stop_all(hub: &Hub) {
    let waiting: Vec<_> = {
        let state = hub.state();
        state
            .sessions
            .iter()
            .filter(|(_, session)| session.waits())
            .map(|(id, _)| id.clone())
            .collect()
    };
    for id in waiting {
        hub.stop(&id, false).await;
    }
}

/// Waits until each input has had its end.
async fn quiesce(hub: &Hub) {
    hub.stall(false);
    for id in paused(hub) {
        hub.say(json!({"type": "flow.resume", "session_id": id}))
            .await;
    }
    let begun = Instant::now();
    while hub.state().waits() {
        if timeout(Duration::from_millis(100), hub.moved.notified())
            .await
            .is_err()
        {
            stop_all(hub).await;
        }
        if begun.elapsed() > END_BY {
            let mut state = hub.state();
            let left: Vec<_> = state
                .sessions
                .iter()
                .filter(|(_, session)| session.waits())
                .map(|(id, session)| {
                    format!(
                        "{id} (turns: {}): {:?}, {}",
                        session.turns, session.open, session.unnamed
                    )
                })
                .collect();
            state
                .failures
                .push(format!("inputs without an end: {}", left.join("; ")));
            return;
        }
    }
}
