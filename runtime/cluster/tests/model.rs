//! Every order in which two hosts can lose and take one session: leases, clocks that are apart,
//! pauses, answers that are late or lost. What each host concludes is decided by the functions that
//! the program itself calls.

#![allow(clippy::unwrap_used, reason = "tests")]

use std::time::Duration;

use stateright::{Checker, HasDiscoveries, Model, Property};
use trunkline_cluster::{
    keeper::{Mine, Verdict, verdict},
    lease::{Held, Terms, Watch},
    ownership::{self, HostFacts, Me},
    row::SessionRow,
    wire,
};
use trunkline_process::BootInstant;

/// A tick is a second.
const TERMS: Terms = Terms {
    ttl: Duration::from_secs(3),
};

const NAMES: [&str; 2] = ["a", "b"];

/// Bounds and deliberate errors of the model.
#[derive(Debug, Clone)]
struct World {
    /// Duration, in ticks.
    ends: u8,
    /// Number of steps that are tried in every order.
    depth: usize,
    /// By how much the clocks may drift apart, in ticks.
    drift: u8,
    /// True if a host counts its lease from the reply to a renewal: an error.
    counts_from_answer: bool,
    /// True if a host takes silence for the end of a lease and does not end it: an error.
    trusts_silence: bool,
    /// True if batches are stored without a comparison: an error.
    writes_blindly: bool,
}

const SOUND: World = World {
    ends: 6,
    depth: 16,
    drift: 1,
    counts_from_answer: false,
    trusts_silence: false,
    writes_blindly: false,
};

/// A message of a session as it is kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Kept {
    host: usize,
    epoch: u64,
    batch: u64,
}

/// A batch that a host wants to be kept.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Writing {
    mine: Mine,
    /// True if it is in flight; otherwise it is not sent yet, or its reply has arrived or was lost.
    is_on_way: bool,
    /// True if the reply is lost or reports a conflict, so that the host reads.
    looks: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Host {
    /// Lag of its clock.
    lag: u8,
    is_paused: bool,
    held: Held,
    watch: Watch,
    /// The number of the first host's lease as it was seen.
    seen: u64,
    /// A renewal on its way, by when it was sent.
    renewing: Option<BootInstant>,
    /// A stored renewal without its reply.
    renewed: Option<BootInstant>,
    /// The epoch under which it serves the session.
    serves: Option<u64>,
    writing: Option<Writing>,
    /// Last message, and number of batches, under this epoch.
    last: u64,
    batches: u64,
    /// Deadline of its adapter, by its own clock, as sent to init.
    adapter: Option<(u64, BootInstant)>,
    /// Batches that it has reported as stored.
    told: Vec<(u64, u64)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    now: u8,
    hosts: [Host; 2],
    /// The number of the first host's lease, and whether that is over. (The other one is renewed
    /// all the time.)
    lease: (u64, bool),
    row: (u64, SessionRow),
    log: Vec<Kept>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Action {
    Tick,
    /// The same, and the clock of a host does not notice.
    Lag(usize),
    Pause(usize),
    Resume(usize),
    /// A host sends a renewal; it arrives; its answer does.
    Renew(usize),
    Renewed(usize),
    Acked(usize),
    /// A host sees all leases as they are.
    See(usize),
    /// A host ends the lease of the other one.
    End(usize),
    /// A host takes the session.
    Take(usize),
    /// A host wants an input to be kept; the message is kept or refused; its answer arrives, or is
    /// lost and looked for.
    Write(usize),
    Arrive(usize, bool),
    Look(usize),
    /// A host notices that its lease has run out.
    Lose(usize),
}

fn me(host: usize) -> Me {
    let name = NAMES[host].to_owned();
    Me {
        incarnation: name.clone(),
        host: name,
        storage: Vec::new(),
        digest: String::new(),
    }
}

fn head(kept: &Kept) -> wire::Head {
    wire::Head {
        v: 1,
        writer: NAMES[kept.host].to_owned(),
        epoch: kept.epoch,
        batch: kept.batch,
        part: 1,
        parts: 1,
        first: 1,
        count: 0,
        lines: 0,
        marks: Vec::new(),
        facts: None,
        settled: true,
    }
}

impl State {
    fn clock(&self, host: usize) -> BootInstant {
        BootInstant::from_nanos(u64::from(self.now + 10 - self.hosts[host].lag) * 1_000_000_000)
    }

    fn last(&self) -> u64 {
        self.log.len() as u64
    }

    /// Returns the epoch under which the adapter of a host acts, if it does.
    fn acts(&self, host: usize) -> Option<u64> {
        let (epoch, until) = self.hosts[host].adapter?;
        (self.clock(host) < until).then_some(epoch)
    }
}

impl World {
    /// Adds a batch to store.
    fn write(host: &mut Host, name: usize, epoch: u64) {
        let mine = Mine {
            writer: NAMES[name].to_owned(),
            epoch,
            batch: host.batches,
            part: 1,
            last: host.last,
            has_begun: host.batches > 0,
        };
        host.writing = Some(Writing {
            mine,
            is_on_way: true,
            looks: false,
        });
    }

    /// A batch is kept, and the host knows.
    fn kept(host: &mut Host, number: u64) {
        let Some(writing) = host.writing.take() else {
            return;
        };
        host.last = number;
        host.batches += 1;
        host.told.push((writing.mine.epoch, writing.mine.batch));
        if writing.mine.batch == 0 {
            // The fence: from now on it is served, and an adapter starts.
            host.serves = Some(writing.mine.epoch);
            host.adapter = host.held.until().map(|until| (writing.mine.epoch, until));
        }
    }

    fn lose(host: &mut Host) {
        host.serves = None;
        host.writing = None;
        // It runs, so it closes the session at its agent. One that is paused does not, and its init
        // ends the agent.
        host.adapter = None;
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let host = |name: usize| {
            let mut host = Host {
                lag: 0,
                is_paused: false,
                held: Held::new(TERMS),
                watch: Watch::new(TERMS),
                seen: 1,
                renewing: None,
                renewed: None,
                serves: None,
                writing: None,
                last: 0,
                batches: 0,
                adapter: None,
                told: Vec::new(),
            };
            let now = BootInstant::from_nanos(10_000_000_000);
            host.held.renewed(now);
            host.watch.heard_own(now);
            host.watch.saw(NAMES[0], 1, TERMS, now);
            if name == 0 {
                (host.last, host.batches, host.serves) = (1, 1, Some(1));
                host.adapter = host.held.until().map(|until| (1, until));
            }
            host
        };
        vec![State {
            now: 0,
            hosts: [host(0), host(1)],
            lease: (1, false),
            row: (1, ownership::opened(&me(0), "s", None, None)),
            log: vec![Kept {
                host: 0,
                epoch: 1,
                batch: 0,
            }],
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.now < self.ends {
            actions.push(Action::Tick);
        }
        for (name, host) in state.hosts.iter().enumerate() {
            // What is on its way arrives, whatever its host does. The first host can be paused,
            // loses its lease and the session; the other one is well, and takes it.
            if host.renewing.is_some() {
                actions.push(Action::Renewed(name));
            }
            if host
                .writing
                .as_ref()
                .is_some_and(|writing| writing.is_on_way)
            {
                actions.extend([Action::Arrive(name, true), Action::Arrive(name, false)]);
            }
            if host.is_paused {
                actions.push(Action::Resume(name));
                continue;
            }
            let now = state.clock(name);
            if name == 0 && host.lag < self.drift && state.now < self.ends {
                actions.push(Action::Lag(name));
            }
            if name == 0 {
                actions.push(Action::Pause(name));
            }
            match (host.renewing, host.renewed) {
                _ if name == 1 => actions.extend([Action::See(name), Action::End(name)]),
                (None, None) => actions.push(Action::Renew(name)),
                (_, Some(_)) => actions.push(Action::Acked(name)),
                (Some(_), None) => {}
            }
            if host.held.is_good(now) {
                if name == 1
                    && host.serves.is_none()
                    && host.writing.is_none()
                    && state.log.len() < 4
                {
                    actions.push(Action::Take(name));
                }
                if name == 0 && host.serves.is_some() && host.writing.is_none() && host.batches < 2
                {
                    actions.push(Action::Write(name));
                }
                if host.writing.as_ref().is_some_and(|writing| writing.looks) {
                    actions.push(Action::Look(name));
                }
            } else if host.serves.is_some() || host.writing.is_some() {
                actions.push(Action::Lose(name));
            }
        }
    }

    fn next_state(&self, before: &State, action: Action) -> Option<State> {
        let mut state = before.clone();
        match action {
            Action::Tick => state.now += 1,
            Action::Lag(name) => {
                state.now += 1;
                state.hosts[name].lag += 1;
            }
            Action::Pause(name) => state.hosts[name].is_paused = true,
            Action::Resume(name) => state.hosts[name].is_paused = false,
            Action::Renew(name) => state.hosts[name].renewing = Some(state.clock(name)),
            Action::Renewed(name) => {
                let sent = state.hosts[name].renewing.take()?;
                if !state.lease.1 {
                    state.lease.0 += 1;
                    state.hosts[name].renewed = Some(sent);
                }
            }
            Action::Acked(name) => {
                let now = state.clock(name);
                let host = &mut state.hosts[name];
                let sent = host.renewed.take()?;
                let was_good = host.held.is_good(now);
                host.held
                    .renewed(if self.counts_from_answer { now } else { sent });
                // A lease that had run out is another tenure: what it had is gone.
                if !was_good {
                    Self::lose(host);
                }
                if let (Some((_, until)), Some(held)) = (&mut host.adapter, host.held.until())
                    && now < *until
                {
                    *until = held;
                }
            }
            Action::See(name) => {
                let now = state.clock(name);
                let (lease, _) = state.lease;
                let host = &mut state.hosts[name];
                // Its own lease is renewed all the time.
                host.held.renewed(now);
                host.watch.heard_own(now);
                host.watch.saw(NAMES[0], lease, TERMS, now);
                host.seen = lease;
            }
            Action::End(name) => {
                let host = &state.hosts[name];
                let is_silent = host.watch.is_gone(NAMES[0], state.clock(name));
                // It is written behind what was seen.
                state.lease.1 |= is_silent && host.seen == state.lease.0;
            }
            Action::Take(name) => {
                let now = state.clock(name);
                let watch = &state.hosts[name].watch;
                let last_epoch = state.log.last().map_or(0, |kept| kept.epoch);
                let known = HostFacts {
                    last_epoch,
                    relocates: false,
                    serves: false,
                };
                let (_, is_over) = state.lease;
                let is_gone =
                    |host: &str| is_over || self.trusts_silence && watch.is_gone(host, now);
                let row = ownership::taken(&state.row.1, &me(name), known, is_gone).ok()?;
                state.row = (state.row.0 + 1, row.clone());
                let last = state.last();
                let host = &mut state.hosts[name];
                (host.last, host.batches) = (last, 0);
                Self::write(host, name, row.epoch);
            }
            Action::Write(name) => {
                let epoch = state.hosts[name].serves?;
                Self::write(&mut state.hosts[name], name, epoch);
            }
            Action::Arrive(name, is_heard) => {
                let last = state.last();
                let host = &mut state.hosts[name];
                let writing = host.writing.as_mut()?;
                writing.is_on_way = false;
                let is_kept = writing.mine.last == last || self.writes_blindly;
                if is_kept {
                    let Mine { epoch, batch, .. } = writing.mine;
                    state.log.push(Kept {
                        host: name,
                        epoch,
                        batch,
                    });
                }
                if is_kept && is_heard && !host.is_paused {
                    Self::kept(host, last + 1);
                } else {
                    writing.looks = true;
                }
            }
            Action::Look(name) => {
                let heads: Vec<_> = state.log.iter().map(head).collect();
                let last = heads.last().map(|head| (heads.len() as u64, head));
                let host = &mut state.hosts[name];
                let writing = host.writing.as_mut()?;
                writing.looks = false;
                match verdict(&writing.mine, last) {
                    Verdict::Kept(number) => Self::kept(host, number),
                    Verdict::Again(number) => {
                        writing.mine.last = number;
                        writing.is_on_way = true;
                    }
                    Verdict::Fenced | Verdict::Behind => {
                        Self::lose(host);
                    }
                }
            }
            Action::Lose(name) => Self::lose(&mut state.hosts[name]),
        }
        (state != *before).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            // No adapter acts when another host's take-over is an entry.
            Property::always("no two owners act", |_, state: &State| {
                let last = state.log.last().map_or(0, |kept| kept.epoch);
                (0..2).all(|host| state.acts(host).is_none_or(|epoch| epoch >= last))
            }),
            Property::always("no epoch goes back", |_, state: &State| {
                state.log.is_sorted_by_key(|kept| kept.epoch)
            }),
            Property::always("what was told is there, once", |_, state: &State| {
                let mut told = state.hosts.iter().enumerate().flat_map(|(name, host)| {
                    host.told
                        .iter()
                        .map(move |(epoch, batch)| (name, *epoch, *batch))
                });
                told.all(|(host, epoch, batch)| {
                    let is = |kept: &&Kept| **kept == Kept { host, epoch, batch };
                    state.log.iter().filter(is).count() == 1
                })
            }),
            Property::sometimes("a session is taken over", |_, state: &State| {
                state.hosts[1].serves.is_some()
            }),
            Property::sometimes(
                "an input is kept and its answer lost",
                |_, state: &State| {
                    state.log.iter().any(|kept| kept.batch == 1) && state.hosts[0].told.is_empty()
                },
            ),
        ]
    }
}

fn check(world: World) -> (usize, Vec<&'static str>) {
    let depth = world.depth;
    let checker = world
        .checker()
        .threads(2)
        .target_max_depth(depth)
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    (
        checker.unique_state_count(),
        checker.discoveries().into_keys().collect(),
    )
}

#[test]
fn no_two_owners_act_and_no_accepted_input_is_lost() {
    let (states, mut found) = check(SOUND);
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "a session is taken over",
            "an input is kept and its answer lost"
        ],
        "{states}"
    );
}

#[test]
fn the_model_finds_a_lease_that_is_counted_from_its_answer() {
    let (_, found) = check(World {
        counts_from_answer: true,
        ..SOUND
    });
    assert!(found.contains(&"no two owners act"), "{found:?}");
}

#[test]
fn the_model_finds_a_host_that_takes_silence_for_the_end() {
    let (_, found) = check(World {
        trusts_silence: true,
        ..SOUND
    });
    assert!(found.contains(&"no two owners act"), "{found:?}");
}

#[test]
fn the_model_finds_a_batch_that_is_kept_without_a_look() {
    let (_, found) = check(World {
        writes_blindly: true,
        ..SOUND
    });
    assert!(found.contains(&"no epoch goes back"), "{found:?}");
}

#[test]
fn clocks_that_are_further_apart_than_the_program_allows_are_found() {
    let (_, found) = check(World {
        drift: 3,
        ends: 8,
        ..SOUND
    });
    assert!(found.contains(&"no two owners act"), "{found:?}");
}
