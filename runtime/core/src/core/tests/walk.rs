//! A random walk over all interleavings of users, adapter, process and clock. Invariants: one end
//! for each input, order on the wire, nothing for a session after its end, no approval without an
//! approver. `TRUNKLINE_SEED` chooses other walks, `MODEL_WALK_STEPS` their total length.

use std::{
    collections::{HashMap, HashSet, VecDeque},
    time::Duration,
};

use trunkline_protocol::{
    Extensions, FileInput, HostBody, HostMessage, InputLimits, Item, PermissionResponse,
    SessionStart, UserInput,
};

use super::{
    super::{Effect, Key, NewSession, Reader, Ticket, WhyClosed, queue::MAX_INPUTS_AHEAD},
    bench::{Bench, rules},
};
use crate::{
    Ended, ExitStatus, ProcessEnd, TurnNo, TurnScope,
    core::Answer,
    policy::{FoundNames, PathNames, Policy, Unmatched},
};

const STEPS_A_WALK: usize = 2_000;

struct Chance(u64);

impl Chance {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 33).unwrap() % bound
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> Option<T> {
        if of.is_empty() {
            None
        } else {
            Some(of[self.below(of.len())].clone())
        }
    }
}

/// Messages that the wire has seen of one id in one process.
#[derive(Default)]
struct Seen {
    started: bool,
    closed: bool,
    /// The turns whose inputs were written and that have no end, in order; the first one runs.
    open: VecDeque<TurnNo>,
    /// Number of open requests by id.
    asked: HashMap<String, usize>,
    allowed: HashSet<String>,
    held: bool,
    stopping: HashSet<TurnNo>,
}

impl Seen {
    fn is_stopping(&self) -> bool {
        let first = self.open.front();
        first.is_some_and(|turn| self.stopping.contains(turn))
    }
}

/// Model of the invariants, kept beside the core.
#[derive(Default)]
struct Model {
    wire: HashMap<String, Seen>,
    accepted: HashMap<TurnNo, Key>,
    ended: HashSet<TurnNo>,
    closed: HashSet<Key>,
    /// Updates without an answer.
    updates: HashSet<Ticket>,
    /// Files that wait in a queue.
    files: HashSet<Ticket>,
    running_process: bool,
    wants_start: bool,
}

#[test]
fn two_hundred_thousand_steps_hold_every_promise() {
    let steps =
        std::env::var("MODEL_WALK_STEPS").map_or(200_000, |steps| steps.parse().expect("a number"));
    let mut chance = Chance(trunkline_testing::seed() | 1);
    for walk in 0..steps / STEPS_A_WALK {
        let offered = if walk % 2 == 0 {
            Extensions::all()
        } else {
            Extensions::empty()
        };
        one_walk(offered, &mut chance);
    }
}

fn one_walk(offered: Extensions, chance: &mut Chance) {
    let mut with = rules(offered);
    with.inactivity_timeout = (chance.below(2) == 0).then_some(Duration::from_secs(40));
    with.ping_after = (chance.below(2) == 0).then_some(Duration::from_secs(20));
    with.stall_after = (chance.below(2) == 0).then_some(Duration::from_secs(15));
    with.permission_timeout = (chance.below(2) == 0).then_some(Duration::from_secs(20));
    with.policy = Policy::new(Unmatched::Ask, [""; 0], ["Read(**/.env)"]).unwrap();
    with.close_on_exit = chance.below(4) == 0;
    with.output_rate = (chance.below(3) == 0).then_some(crate::OutputRate {
        bytes_per_second: 10,
        burst: 200,
    });
    with.standby = chance.below(4) == 0;
    let by_id = !offered.is_empty();
    let mut bench = Bench::new(with);
    let mut model = Model::default();
    let mut keys: Vec<Key> = Vec::new();
    let mut turns = 0;
    let mut names = 0;
    let mut requests = 0;
    for _ in 0..STEPS_A_WALK {
        let now = bench.now;
        let key = chance.pick(&keys);
        let wire: Option<String> = {
            let ids: Vec<_> = model
                .wire
                .keys()
                .cloned()
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect();
            chance.pick(&ids)
        };
        match (chance.below(24), key, wire) {
            (0, ..) if keys.len() < 6 => {
                names += 1;
                let id = trunkline_protocol::SessionId::new(format!("s{}", names % 9)).unwrap();
                // Some ask for what must be enforced, and wait for it; some set limits.
                let denied_tools = (chance.below(6) == 0).then(|| vec!["Bash".to_owned()]);
                let start = SessionStart {
                    denied_tools,
                    max_tokens: (chance.below(6) == 0).then_some(300),
                    turn_timeout_ms: (chance.below(6) == 0).then_some(30_000),
                    ..SessionStart::default()
                };
                let new = NewSession {
                    id,
                    chosen: true,
                    start: Some(Box::new(start)),
                    meta: None,
                    real_cwd: None,
                };
                keys.push(bench.core.handle_open(new, now));
            }
            (1..=5, Some(key), _) => {
                turns += 1;
                let turn = TurnNo(turns);
                model.accepted.insert(turn, key);
                if model.closed.contains(&key) {
                    model.ended.insert(turn);
                }
                let max_tokens = (chance.below(6) == 0).then_some(50);
                let limits = max_tokens.map(|_| InputLimits {
                    max_tokens,
                    ..InputLimits::default()
                });
                let input = UserInput {
                    limits,
                    ..UserInput::text("x")
                };
                bench.core.handle_send(key, turn, input, None, now);
            }
            (6, Some(key), _) => {
                let turn = (chance.below(2) == 0)
                    .then(|| TurnNo(1 + chance.below(turns.max(1) as usize) as u64));
                bench
                    .core
                    .handle_stop(key, turn, trunkline_protocol::StopReason::User, now);
            }
            (7, ..) if chance.below(6) == 0 => bench.core.handle_standby(now),
            (7, Some(key), _) if chance.below(6) == 0 => {
                bench.core.handle_close(key, WhyClosed::User, now)
            }
            (8, ..) if model.wants_start => {
                model.wants_start = false;
                if chance.below(5) == 0 {
                    let why = trunkline_protocol::Failure::new(
                        trunkline_protocol::Category::NotInstalled,
                        "no",
                    );
                    bench.core.handle_start_failed(why, now);
                } else {
                    model.running_process = true;
                    bench.core.handle_started(now);
                }
            }
            (9, ..) if model.running_process && chance.below(8) == 0 => {
                die(&mut bench, &mut model, chance)
            }
            (10, ..) if chance.below(2) == 0 => {
                if let Some((key, serial)) = chance.pick(&bench.lookups) {
                    let names = chance.pick(&[None, Some("/x"), Some("/x/.env")]).flatten();
                    bench
                        .core
                        .handle_names(key, serial, &names_of_x(names), now);
                }
            }
            (10, Some(_), _) => {
                if let Some((key, id, serial)) = chance.pick(&bench.serials) {
                    let approved = chance.below(2) == 0;
                    let response = response(id.clone(), approved);
                    if approved && let Some(wire) = bench.wire.get(&key) {
                        model
                            .wire
                            .entry(wire.to_string())
                            .or_default()
                            .allowed
                            .insert(id.to_string());
                    }
                    let answer = if chance.below(4) == 0 {
                        Answer::Dropped
                    } else {
                        Answer::Permission(Box::new(response))
                    };
                    bench.core.handle_answer(key, &id, serial, answer, now);
                }
            }
            (11, ..) => {
                let time = [1, 500, 9_000, 45_000, 130_000][chance.below(5)];
                let end = now + Duration::from_millis(time);
                check_running(&bench, &model);
                while let Some(due) = bench.core.poll_timeout().filter(|due| *due <= end) {
                    bench.now = bench.now.max(due);
                    bench.core.handle_timeout(bench.now);
                    check(&mut bench, &mut model);
                }
                bench.now = end;
                assert_eq!(
                    bench.core.running_turns,
                    bench.core.process_figures(end).running_turns
                );
                if chance.below(8) == 0 {
                    // The host did not run for a while, and notices.
                    let length = Duration::from_secs(200);
                    bench.now += length;
                    bench.core.handle_standstill(length);
                }
            }
            (12, Some(key), _) if chance.below(4) == 0 => {
                requests += 1;
                model.updates.insert(Ticket(requests));
                bench
                    .core
                    .handle_update(key, Box::default(), Ticket(requests), now);
            }
            (12, Some(key), _) => {
                requests += 1;
                model.files.insert(Ticket(requests));
                let file = FileInput {
                    file_path: "/x".to_owned(),
                    ..FileInput::default()
                };
                bench
                    .core
                    .handle_file(key, Box::new(file), Ticket(requests), now);
            }
            (13, Some(key), _) => match chance.below(5) {
                0 => bench.core.handle_pause(key, now),
                1 => bench.core.handle_resume(key, now),
                2 => bench.core.handle_unread(key, Reader::OfTurn, now),
                3 => bench.core.handle_unread(key, Reader::OfSession, now),
                _ => bench.core.handle_read_down(key, now),
            },
            (14, ..) if chance.below(8) == 0 => bench.core.handle_restart(now),
            (_, _, Some(wire)) if model.running_process => {
                let open = model.wire.get(&wire).map(|seen| &seen.open);
                let open: Vec<_> = open.into_iter().flatten().copied().collect();
                // Mostly the turn that runs speaks, and at times one that waits in the adapter.
                let speaking = if chance.below(4) == 0 {
                    chance.pick(&open)
                } else {
                    open.first().copied()
                };
                let turn = match chance.below(6) {
                    0 => format!(r#","turn_id":"t{}""#, chance.below(turns.max(1) as usize)),
                    1 => r#","turn_id":"alien""#.to_owned(),
                    2 => String::new(),
                    _ => speaking.map_or(String::new(), |turn| format!(r#","turn_id":"{turn}""#)),
                };
                requests += 1;
                let ready = if by_id && chance.below(3) > 0 {
                    r#"["turns","events","control","resume","questions","options","flow","usage"],"options_applied":["denied_tools"],"input_modes":["queue"]"#
                } else {
                    "[]"
                };
                let line = match chance.below(10) {
                    0 => format!(
                        r#"{{"type":"session.ready","session_id":"{wire}","extensions":{ready}}}"#
                    ),
                    1..=3 => format!(r#"{{"type":"turn.complete","session_id":"{wire}"{turn}}}"#),
                    4 => format!(
                        r#"{{"type":"permission.request","session_id":"{wire}"{turn},"request_id":"r{}","tool":"{}","description":"d","resource":"x"}}"#,
                        requests % 7,
                        ["Bash", "Read"][chance.below(2)]
                    ),
                    5 if chance.below(10) == 0 => {
                        format!(r#"{{"type":"session.closed","session_id":"{wire}"}}"#)
                    }
                    6 => format!(
                        r#"{{"type":"permission.cancel","session_id":"{wire}","request_id":"r{}"}}"#,
                        requests % 7
                    ),
                    7 if chance.below(2) == 0 => format!(
                        r#"{{"type":"usage","session_id":"{wire}"{turn},"total_tokens":{}}}"#,
                        chance.below(90)
                    ),
                    7 => format!(
                        r#"{{"type":"tool.start","session_id":"{wire}"{turn},"tool_call_id":"c{requests}","tool":"t"}}"#
                    ),
                    _ => {
                        format!(r#"{{"type":"output","session_id":"{wire}"{turn},"content":"x"}}"#)
                    }
                };
                if line.contains("permission.request")
                    && let Some(seen) = model.wire.get_mut(&wire)
                {
                    *seen.asked.entry(format!("r{}", requests % 7)).or_default() += 1;
                }
                // What is bad is counted by the caller and reported to its session; nothing else
                // follows from it.
                let _ = bench.core.handle_line(Item::Line(&line), now);
            }
            _ => {}
        }
        check(&mut bench, &mut model);
        keys.retain(|key| !model.closed.contains(key));
    }
    let now = bench.now;
    bench.core.handle_shutdown(now);
    check(&mut bench, &mut model);
    let open: Vec<_> = model
        .accepted
        .keys()
        .filter(|turn| !model.ended.contains(turn))
        .collect();
    assert!(open.is_empty(), "every accepted input has ended: {open:?}");
    assert!(
        model.files.is_empty(),
        "every file has left its queue: {:?}",
        model.files
    );
    assert!(
        model.updates.is_empty(),
        "every update has its answer: {:?}",
        model.updates
    );
}

/// The names of the path `x`, as a file system finds them.
fn names_of_x(target: Option<&str>) -> FoundNames {
    let names = PathNames {
        target: target.map(str::to_owned),
        others: Vec::new(),
    };
    FoundNames {
        work_dir: None,
        paths: [("x".to_owned(), names)].into(),
    }
}

fn die(bench: &mut Bench, model: &mut Model, chance: &mut Chance) {
    let why = [Ended::Exit, Ended::EndOfStream][chance.below(2)];
    let exit = ExitStatus {
        code: Some([0, 1, 2][chance.below(3)]),
        signal: None,
    };
    model.running_process = false;
    let end = ProcessEnd {
        why,
        exit,
        memory_kills: 0,
        stderr_tail: None,
        written: 0,
    };
    bench.core.handle_ended(&end, bench.now);
    let ended: Vec<_> = model.wire.drain().flat_map(|(_, seen)| seen.open).collect();
    check(bench, model);
    assert!(
        ended.iter().all(|turn| model.ended.contains(turn)),
        "a dead process leaves no turn running"
    );
}

fn response(request_id: trunkline_protocol::RequestId, approved: bool) -> PermissionResponse {
    PermissionResponse::new(request_id, approved)
}

/// Checks what the core did against what must hold.
fn check(bench: &mut Bench, model: &mut Model) {
    while let Some(effect) = bench.core.poll_effect() {
        match effect {
            Effect::Start => {
                assert!(
                    !model.running_process && !model.wants_start,
                    "one process at a time"
                );
                model.wants_start = true;
            }
            Effect::Kill(why) => {
                if std::mem::take(&mut model.running_process) {
                    model.wire.clear();
                } else {
                    model.wants_start = false;
                }
                let end = ProcessEnd {
                    why,
                    exit: ExitStatus::default(),
                    memory_kills: 0,
                    stderr_tail: None,
                    written: 0,
                };
                bench.core.handle_ended(&end, bench.now);
            }
            Effect::Write {
                key,
                message,
                input_of,
            } => check_write(bench, model, key, &message, input_of),
            Effect::Deliver { key, scope, .. } | Effect::CheckFile { key, scope, .. } => {
                check_scope(model, key, scope)
            }
            Effect::Ask {
                key,
                scope,
                request,
                serial,
                ..
            } => {
                check_scope(model, key, scope);
                bench
                    .serials
                    .push((key, request.request_id.clone(), serial));
            }
            Effect::AllowedByRule { .. } => {}
            Effect::FindNames { key, serial, .. } => bench.lookups.push((key, serial)),
            Effect::AskInput { key, scope, .. } => check_scope(model, key, scope),
            Effect::WritePipe(message) => {
                assert!(
                    model.running_process,
                    "nothing is written without a process: {message:?}"
                );
                assert!(
                    message.session_id.as_str().is_empty()
                        && matches!(message.body, HostBody::Ping(_))
                );
            }
            Effect::Listed(_) => panic!("nothing asks for a list"),
            Effect::Stalled { key, turn, .. } => check_scope(model, key, TurnScope::Running(turn)),
            Effect::End { end, .. } => {
                assert!(model.accepted.contains_key(&end.turn));
                assert!(
                    model.ended.insert(end.turn),
                    "turn {} ended twice, now by {}",
                    end.turn,
                    end.cause
                );
                for seen in model.wire.values_mut() {
                    seen.open.retain(|turn| *turn != end.turn);
                }
            }
            Effect::Closed { key, .. } => assert!(model.closed.insert(key), "a session ends once"),
            Effect::Updated { ticket, .. } => {
                assert!(model.updates.remove(&ticket), "one answer an update")
            }
            Effect::Unqueued(ticket) => {
                let is_known = model.updates.contains(&ticket) || model.files.remove(&ticket);
                assert!(is_known, "a file leaves the queue once");
            }
            Effect::PlaceInput { .. }
            | Effect::InputUnqueued { .. }
            | Effect::Steered { .. }
            | Effect::Suspected { .. }
            | Effect::Trusted
            | Effect::Count(..) => {}
        }
    }
}

/// Checks that the oldest turn without an end is the one that runs.
fn check_running(bench: &Bench, model: &Model) {
    for (key, wire) in &bench.wire {
        let Some(figures) = bench.core.figures(*key, bench.now) else {
            continue;
        };
        let open = model.wire.get(wire.as_str()).map(|seen| &seen.open);
        // Another session may have its id by now.
        let first = open.and_then(|open| open.front());
        let first = first.filter(|turn| model.accepted[turn] == *key);
        let running = figures.turn.map(|(turn, _)| turn);
        assert_eq!(running.as_ref(), first, "{wire}");
    }
}

fn check_scope(model: &Model, key: Key, scope: TurnScope) {
    match scope {
        TurnScope::Running(turn) => assert!(
            !model.ended.contains(&turn),
            "an event of {turn} after its end"
        ),
        TurnScope::Ended(turn) if model.accepted.get(&turn) == Some(&key) => {
            assert!(model.ended.contains(&turn), "late while it runs");
        }
        // The numbers of other sessions mean nothing here.
        TurnScope::Ended(_) | TurnScope::Outside => {}
    }
}

fn check_write(
    bench: &mut Bench,
    model: &mut Model,
    key: Key,
    message: &HostMessage,
    input_of: Option<TurnNo>,
) {
    assert!(
        model.running_process,
        "nothing is written without a process: {message:?}"
    );
    let id = message.session_id.to_string();
    let seen = model.wire.entry(id).or_default();
    match &message.body {
        HostBody::SessionStart(_) => {
            assert!(!seen.started, "an id is started once in a process");
            seen.started = true;
            bench.wire.insert(key, message.session_id.clone());
            return;
        }
        HostBody::UserInput(_) => {
            let turn = input_of.expect("the turn of an input");
            let ahead = seen.open.len();
            assert!(
                ahead == 0 || message.turn_id.is_some(),
                "one turn at a time, if it has no id"
            );
            assert!(ahead <= MAX_INPUTS_AHEAD, "{ahead} turns are open");
            assert!(seen.open.back() < Some(&turn), "inputs keep their order");
            assert!(ahead > 0 || !seen.held, "a pause ends with the last turn");
            seen.open.push_back(turn);
        }
        HostBody::FlowPause(_) => {
            assert!(
                !seen.held && !seen.is_stopping() && !seen.open.is_empty(),
                "only a turn that runs on is held"
            );
            seen.held = true;
        }
        HostBody::FlowResume(_) => {
            assert!(seen.held, "a resume follows a pause");
            seen.held = false;
        }
        HostBody::Stop(_) => {
            assert!(!seen.held, "what is stopped is not held");
            let named = message.turn_id.as_ref();
            let named = named.and_then(|id| TurnNo::named(id.as_str()));
            let turn = named.or(seen.open.front().copied());
            let turn = turn.filter(|turn| seen.open.contains(turn));
            let turn = turn.expect("a stop is for an open turn");
            assert!(seen.stopping.insert(turn), "a turn is stopped once");
        }
        HostBody::PermissionResponse(response) => {
            let asked = seen
                .asked
                .entry(response.request_id.to_string())
                .or_default();
            *asked = asked
                .checked_sub(1)
                .unwrap_or_else(|| panic!("an answer for each request, once: {message:?}"));
            if response.approved {
                assert!(
                    seen.allowed.remove(response.request_id.as_str()),
                    "this was never approved"
                );
            }
        }
        HostBody::SessionClose(_) => {
            assert!(seen.started && !seen.closed);
            seen.closed = true;
            return;
        }
        _ => {}
    }
    assert!(seen.started, "session.start comes first");
    assert!(!seen.closed, "session.close comes last: {message:?}");
}
