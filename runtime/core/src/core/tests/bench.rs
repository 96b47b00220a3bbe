//! A core with a virtual clock and everything it did, for tests.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use trunkline_protocol::{AdapterBody, Extensions, HostBody, Item, SessionId, UserInput};

use super::super::{Core, Effect, Key, NewSession, Rules};
use crate::{
    Cause, Ended, ProcessEnd, TurnEnd, TurnNo, TurnScope,
    policy::{FoundNames, PathNames, PathQuery, Policy, Unmatched},
    supervise::Backoff,
};

/// An effect of the core, abbreviated.
#[derive(Debug, PartialEq)]
pub(super) enum Did {
    Start,
    Kill(Ended),
    /// The line that was written.
    Wrote(String),
    /// An event, by its scope and kind.
    Reported(TurnScope, &'static str),
    /// A silence, with what is left to the deadline.
    Stalled(TurnNo, Duration, Option<Duration>),
    /// The process was suspected.
    Suspected(Duration),
    Trusted,
    Ended(TurnNo, Cause),
    /// An update was answered, true if it was done.
    Updated(bool),
    Closed,
}

pub(super) struct Bench {
    pub(super) core: Core,
    pub(super) now: Instant,
    pub(super) did: Vec<Did>,
    pub(super) ends: Vec<TurnEnd>,
    /// The texts of the errors that were reported.
    pub(super) errors: Vec<String>,
    /// The id on the wire, by session.
    pub(super) wire: HashMap<Key, SessionId>,
    pub(super) serials: Vec<(Key, trunkline_protocol::RequestId, u64)>,
    /// Immediate answer of the file system, if it answers.
    pub(super) names: Option<fn(&PathQuery) -> FoundNames>,
    /// The lookups without an answer.
    pub(super) lookups: Vec<(Key, u64)>,
    /// The lasting rules that approved something.
    pub(super) used_rules: Vec<String>,
    turns: u64,
}

pub(super) fn rules(offered: Extensions) -> Rules {
    Rules {
        offered,
        max_line: 16 << 20,
        policy: Policy::new(Unmatched::Ask, ["Read"], ["Nuke"]).unwrap(),
        work_dirs: Vec::new(),
        start_timeout: Duration::from_secs(120),
        turn_timeout: Some(Duration::from_secs(1800)),
        inactivity_timeout: None,
        stall_after: None,
        ping_after: None,
        stop_timeout: Duration::from_secs(10),
        permission_timeout: None,
        max_turn_output: None,
        output_rate: None,
        max_open_requests: 4096,
        tool_loop: trunkline_protocol::tool_loop::ToolLoopAction::Off,
        close_on_exit: false,
        standby: false,
        relied_on: crate::ReliedOn::Restrictions,
        is_in_cwd: false,
        backoff: Backoff {
            base: Duration::from_millis(250),
            cap: Duration::from_secs(30),
            failures: 5,
            window: Duration::from_secs(120),
            retry: Duration::from_secs(60),
        },
    }
}

impl Bench {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            core: Core::new(rules, 7),
            now: Instant::now(),
            did: Vec::new(),
            ends: Vec::new(),
            errors: Vec::new(),
            wire: HashMap::new(),
            serials: Vec::new(),
            names: Some(without_links),
            lookups: Vec::new(),
            used_rules: Vec::new(),
            turns: 0,
        }
    }

    /// Returns a bench whose process runs with one session, which has agreed to everything offered.
    pub(super) fn running(rules: Rules) -> (Self, Key) {
        let offered = rules.offered;
        let mut bench = Self::new(rules);
        let key = bench.open("s");
        bench.core.handle_started(bench.now);
        bench.drain();
        if !offered.is_empty() {
            let names = serde_json::to_string(&offered.to_names()).unwrap();
            bench.say(&format!(r#"{{"type":"session.ready","session_id":"s","protocol":1,"extensions":{names},"input_modes":["steer"]}}"#));
        }
        bench.did.clear();
        (bench, key)
    }

    /// Returns the message of an end.
    pub(super) fn message(&self, end: usize) -> &str {
        let error = self.ends[end].error.as_ref();
        error
            .and_then(|error| error.message.as_deref())
            .unwrap_or_default()
    }

    pub(super) fn open(&mut self, id: &str) -> Key {
        let new = NewSession {
            id: SessionId::new(id).unwrap(),
            chosen: true,
            start: None,
            meta: None,
            real_cwd: None,
        };
        let key = self.core.handle_open(new, self.now);
        self.drain();
        key
    }

    pub(super) fn send(&mut self, key: Key, text: &str) -> TurnNo {
        self.turns += 1;
        let turn = TurnNo(self.turns);
        self.core
            .handle_send(key, turn, UserInput::text(text), None, self.now);
        self.drain();
        turn
    }

    /// Passes a line of the adapter to the core.
    pub(super) fn say(&mut self, line: &str) {
        self.core.handle_bytes(self.now);
        let read = self.core.handle_line(Item::Line(line), self.now);
        self.drain();
        read.unwrap_or_else(|unread| panic!("{line}: {unread}"));
    }

    pub(super) fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        while let Some(due) = self.core.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.core.handle_timeout(self.now);
            self.drain();
        }
        self.now = end;
    }

    pub(super) fn die(&mut self, why: Ended, code: Option<i32>) {
        let exit = crate::ExitStatus { code, signal: None };
        let end = ProcessEnd {
            why,
            exit,
            memory_kills: 0,
            stderr_tail: Some("last words".to_owned()),
            written: 0,
        };
        self.core.handle_ended(&end, self.now);
        self.drain();
    }

    pub(super) fn stop(&mut self, key: Key, turn: Option<TurnNo>) {
        self.core
            .handle_stop(key, turn, trunkline_protocol::StopReason::User, self.now);
        self.drain();
    }

    pub(super) fn drain(&mut self) {
        while let Some(effect) = self.core.poll_effect() {
            match effect {
                Effect::Start => self.did.push(Did::Start),
                Effect::Kill(why) => self.did.push(Did::Kill(why)),
                Effect::Write { key, message, .. } => {
                    if let HostBody::SessionStart(_) = message.body {
                        self.wire.insert(key, message.session_id.clone());
                    }
                    let line = String::from_utf8(message.to_line()).unwrap();
                    self.did.push(Did::Wrote(line.trim_end().to_owned()));
                }
                Effect::Deliver { scope, body, .. } => {
                    if let AdapterBody::Error(error) = &body {
                        self.errors.push(error.message.clone());
                    }
                    self.did.push(Did::Reported(scope, name_of(&body)))
                }
                Effect::Ask {
                    key,
                    scope,
                    request,
                    serial,
                    ..
                } => {
                    self.serials.push((key, request.request_id.clone(), serial));
                    self.did.push(Did::Reported(scope, "permission"));
                }
                Effect::AllowedByRule { rule, .. } => self.used_rules.push(rule),
                Effect::FindNames { key, serial, query } => match self.names {
                    Some(find) => {
                        let names = find(&query);
                        self.core.handle_names(key, serial, &names, self.now);
                    }
                    None => self.lookups.push((key, serial)),
                },
                Effect::AskInput {
                    key,
                    scope,
                    request,
                    serial,
                    ..
                } => {
                    self.serials.push((key, request.request_id.clone(), serial));
                    self.did.push(Did::Reported(scope, "question"));
                }
                Effect::CheckFile { scope, .. } => self.did.push(Did::Reported(scope, "file")),
                Effect::Listed(_) => panic!("nothing asks for a list"),
                Effect::WritePipe(message) => {
                    let line = String::from_utf8(message.to_line()).unwrap();
                    self.did.push(Did::Wrote(line.trim_end().to_owned()));
                }
                Effect::Suspected { silent_for } => self.did.push(Did::Suspected(silent_for)),
                Effect::Trusted => self.did.push(Did::Trusted),
                Effect::Stalled {
                    turn,
                    silent_for,
                    deadline_in,
                    ..
                } => {
                    self.did.push(Did::Stalled(turn, silent_for, deadline_in));
                }
                Effect::End { end, .. } => {
                    self.did.push(Did::Ended(end.turn, end.cause));
                    self.ends.push(*end);
                }
                Effect::Updated { result, .. } => self.did.push(Did::Updated(result.is_ok())),
                Effect::Closed { .. } => self.did.push(Did::Closed),
                Effect::PlaceInput { .. }
                | Effect::InputUnqueued { .. }
                | Effect::Unqueued(_)
                | Effect::Steered { .. }
                | Effect::Count(..) => {}
            }
        }
    }

    /// Returns the effects since the last call.
    pub(super) fn take(&mut self) -> Vec<Did> {
        std::mem::take(&mut self.did)
    }

    /// The lines that were written since the last look; the other deeds are forgotten.
    pub(super) fn lines(&mut self) -> Vec<String> {
        let wrote = |did| {
            if let Did::Wrote(line) = did {
                Some(line)
            } else {
                None
            }
        };
        self.take().into_iter().filter_map(wrote).collect()
    }
}

/// A file system without links and without `..`.
pub(super) fn without_links(query: &PathQuery) -> FoundNames {
    let absolute = |path: &str, dir: &std::path::Path| {
        let path = dir.join(path).to_str().unwrap().to_owned();
        (!path.contains("..")).then_some(path)
    };
    let work_dir = query.dirs.first();
    let target = |path: &String| PathNames {
        target: work_dir.and_then(|dir| absolute(path, dir)),
        others: Vec::new(),
    };
    FoundNames {
        work_dir: work_dir.map(|dir| dir.to_str().unwrap().to_owned()),
        paths: query
            .paths
            .iter()
            .map(|path| (path.clone(), target(path)))
            .collect(),
    }
}

fn name_of(body: &AdapterBody) -> &'static str {
    match body {
        AdapterBody::Output(_) => "output",
        AdapterBody::Error(_) => "error",
        AdapterBody::SessionInfo(_) => "info",
        AdapterBody::ToolStart(_) => "tool.start",
        AdapterBody::ToolEnd(_) => "tool.end",
        AdapterBody::PermissionCancel(_) => "withdrawn",
        _ => "other",
    }
}
