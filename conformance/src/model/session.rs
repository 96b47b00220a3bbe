//! A session: its agreement, its end, and its ledgers.

use serde_json::Value;

use crate::clauses::Level::{self, May, Must, Should};

mod negotiation;

use super::extension::{Extension, Extensions};
use super::reading::Reading;
use super::requests::{HostAnswer, NewRequest, RequestScope, RequestType, Requests};
use super::shape::{ShapeFault, gated, get, id, text};
use super::table::{Gate, Table};
use super::tools::Tools;
use super::turns::{NamedTurn, Turns};
use super::{Message, ModelKind};

/// Agreement by the adapter's first message ([ext.2]).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Agreement {
    Unknown,
    Core,
    On(Extensions),
}

/// Input modes in `session.ready`.
#[derive(Clone, Copy, Debug, Default)]
struct InputModes {
    queue: bool,
    steer: bool,
}

/// A session of a pipe, from its `session.start` on.
#[derive(Clone, Debug)]
pub(crate) struct ModelSession {
    offered: Option<Extensions>,
    offered_names: Vec<String>,
    protocol: Option<u64>,
    agreement: Agreement,
    modes: InputModes,
    pub(crate) host_closed: Option<u64>,
    pub(crate) adapter_closed: Option<u64>,
    paused: Option<u64>,
    /// A deviation of the host left the adapter's duties open: the adapter is not judged.
    pub(crate) muddled: bool,
    /// An input without a `turn_id`, written before it was known whether `turns` holds.
    nameless: bool,
    infos_owed: u32,
    kind: ModelKind,
    /// The adapter ended or withdrew something by a type that was not agreed on: a host may heed it or not.
    pub(crate) unsure: bool,
    pub(crate) turns: Turns,
    pub(crate) requests: Requests,
    pub(crate) tools: Tools,
}

/// The faults of one message.
pub(crate) type Faults = Vec<ShapeFault>;

fn add(faults: &mut Faults, clause: &'static str, level: Level, text: impl Into<String>) {
    faults.push(ShapeFault {
        clause,
        level,
        text: text.into(),
    });
}

impl ModelSession {
    pub(crate) fn start(message: &Message, kind: ModelKind) -> Self {
        let names: Option<Vec<String>> = get(message, "extensions")
            .and_then(Value::as_array)
            .and_then(|names| {
                names
                    .iter()
                    .map(|name| name.as_str().map(str::to_owned))
                    .collect()
            });
        Self {
            offered: names.as_ref().map(|names| named(names)),
            offered_names: names.unwrap_or_default(),
            protocol: get(message, "protocol").and_then(Value::as_u64),
            agreement: Agreement::Unknown,
            modes: InputModes::default(),
            host_closed: None,
            adapter_closed: None,
            paused: None,
            muddled: false,
            nameless: false,
            infos_owed: 0,
            kind,
            unsure: false,
            turns: Turns::default(),
            requests: Requests::default(),
            tools: Tools::default(),
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.host_closed.is_some() || self.adapter_closed.is_some()
    }

    pub(crate) fn infos_owed(&self) -> u32 {
        self.infos_owed
    }

    pub(crate) fn agreed(&self) -> Extensions {
        match self.agreement {
            Agreement::On(extensions) => extensions,
            Agreement::Unknown | Agreement::Core => Extensions::default(),
        }
    }

    fn has(&self, extension: Extension) -> bool {
        self.agreed().has(extension)
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.paused.is_some()
    }

    /// Returns true if a pause that the adapter has read is in force.
    pub(crate) fn is_held(&self, reading: &Reading) -> bool {
        self.paused.is_some_and(|then| reading.adapter_knows(then))
    }

    /// Fields of extensions that were not offered: peers ignore them, so this is worth a remark only.
    pub(crate) fn host_fields(
        &self,
        message: &Message,
        table: &'static Table,
        faults: &mut Faults,
    ) {
        let offered = self.offered.unwrap_or_default();
        for (name, gate) in gated(message, table) {
            if !allows(gate, offered) {
                add(
                    faults,
                    "ext.1",
                    May,
                    format!("{name} of {} is used without its extension", table.name),
                );
            }
        }
    }

    /// Takes a message of the host other than `session.start`.
    pub(crate) fn host_says(
        &mut self,
        message: &Message,
        table: &'static Table,
        reading: &Reading,
    ) -> Faults {
        let mut faults = Faults::new();
        self.host_fields(message, table, &mut faults);
        if !allows(table.gate, self.agreed()) {
            add(
                &mut faults,
                "ext.2",
                Must,
                format!("{} before it was agreed on", table.name),
            );
            return faults;
        }
        match table.name {
            "user.input" => self.input(message, reading, &mut faults),
            "stop" => {
                let turn = id(message, "turn_id");
                if turn.is_none() || !self.has(Extension::Turns) {
                    self.requests.stopped(reading);
                }
                if self.agreement == Agreement::Unknown && turn.is_some() {
                    self.turns.stop_any();
                } else {
                    let turn = turn.filter(|_| self.has(Extension::Turns));
                    faults.extend(self.turns.stop(turn, reading).err());
                }
            }
            "permission.response" => {
                let approved = get(message, "approved") == Some(&Value::Bool(true));
                let answer = if approved {
                    HostAnswer::Approved
                } else {
                    HostAnswer::Denied
                };
                self.answer(
                    message,
                    RequestType::Permission,
                    answer,
                    reading,
                    &mut faults,
                );
            }
            // An answer to a question guards no action: it counts as no approval.
            "input.response" => self.answer(
                message,
                RequestType::Question,
                HostAnswer::Denied,
                reading,
                &mut faults,
            ),
            "session.close" => self.host_closed = Some(reading.now),
            "session.update" => self.infos_owed = self.infos_owed.saturating_add(1),
            "flow.pause" => {
                self.paused.get_or_insert(reading.now);
            }
            "flow.resume" => self.paused = None,
            _ => {}
        }
        faults
    }

    fn answer(
        &mut self,
        message: &Message,
        ask: RequestType,
        answer: HostAnswer,
        reading: &Reading,
        faults: &mut Faults,
    ) {
        if let Some(id) = id(message, "request_id") {
            faults.extend(
                self.requests
                    .answer(id, ask, answer, &self.turns, reading)
                    .err(),
            );
        }
    }

    fn input(&mut self, message: &Message, reading: &Reading, faults: &mut Faults) {
        let turns = self.has(Extension::Turns);
        let turn_id = id(message, "turn_id");
        let message_id = id(message, "message_id");
        let fresh = if text(message, "mode") == Some("steer") {
            if !self.modes.steer {
                add(
                    faults,
                    "turn.10",
                    Must,
                    "a steer without steer in input_modes",
                );
            }
            if message_id.is_none() {
                add(faults, "turn.10", Must, "a steer without message_id");
                self.muddled = true;
            }
            self.muddled |= self.agreement == Agreement::Unknown;
            if turns {
                self.turns.steer(turn_id, message_id)
            } else {
                self.turns.begin(turn_id, reading)
            }
        } else {
            if self.turns.running().is_some() && !self.modes.queue {
                add(
                    faults,
                    "turn.3",
                    Should,
                    "a second turn during the first, without queue in input_modes",
                );
            }
            self.turns.begin(turn_id, reading)
        };
        if turn_id.is_none() {
            if turns {
                add(faults, "turn.9", Must, "user.input without turn_id");
            }
            self.nameless = true;
        }
        if !fresh
            && self
                .offered
                .is_some_and(|offered| offered.has(Extension::Turns))
        {
            add(
                faults,
                "turn.9",
                Must,
                "a turn_id that was used in this session before",
            );
            self.muddled = true;
        }
    }

    /// Takes a message of the adapter. The second value is what it shows of the host.
    pub(crate) fn adapter_says(
        &mut self,
        message: &Message,
        table: &'static Table,
        reading: &Reading,
    ) -> (Faults, Faults) {
        let mut faults = Faults::new();
        let mut of_host = Faults::new();
        if table.name == "session.ready" {
            self.ready(message, &mut faults, &mut of_host);
        } else if self.agreement == Agreement::Unknown {
            self.agreement = Agreement::Core;
        }
        if !self.may_say(message, table, &mut faults) {
            self.unsure |= matches!(table.name, "session.closed" | "permission.cancel");
            return (faults, of_host);
        }
        let replayed =
            self.has(Extension::Events) && get(message, "history") == Some(&Value::Bool(true));
        let turn = if replayed {
            None
        } else {
            self.turn_of(message, table, &mut faults)
        };
        match table.name {
            "output" => self.output(message, turn, replayed, &mut faults),
            "turn.complete" => self.complete(message, reading, &mut faults),
            "permission.request" => self.ask(
                message,
                RequestType::Permission,
                turn,
                replayed,
                reading,
                &mut faults,
            ),
            "input.request" => self.ask(
                message,
                RequestType::Question,
                turn,
                replayed,
                reading,
                &mut faults,
            ),
            "permission.cancel" => {
                if let Some(id) = id(message, "request_id") {
                    faults.extend(self.requests.cancel(id, reading).err());
                }
            }
            "steer.result" => faults.extend(self.turns.steered(id(message, "message_id")).err()),
            "tool.start" if !replayed => {
                if let Some(id) = id(message, "tool_call_id") {
                    faults.extend(self.tools.start(id, turn).err());
                }
            }
            "tool.end" if !replayed => {
                if let Some(id) = id(message, "tool_call_id") {
                    faults.extend(self.tools.end(id).err());
                }
            }
            "session.info" => {
                self.input_modes(message);
                self.infos_owed = self.infos_owed.saturating_sub(1);
                for name in ["protocol", "extensions"] {
                    if get(message, name).is_some() {
                        add(
                            &mut faults,
                            "ext.2",
                            Should,
                            format!("session.info carries {name}"),
                        );
                    }
                }
            }
            "session.closed" => {
                if let Some(turn) = self.turns.left_open(reading) {
                    let turn = turn.id.as_deref().unwrap_or("a turn");
                    add(
                        &mut faults,
                        "session.8",
                        Must,
                        format!("session.closed, and {turn:?} has not ended"),
                    );
                }
                self.adapter_closed = Some(reading.now);
            }
            _ => {}
        }
        (faults, of_host)
    }

    /// The turn that the message belongs to, and whether its `turn_id` is right ([turn.9]).
    fn turn_of(&self, message: &Message, table: &Table, faults: &mut Faults) -> Option<usize> {
        if !self.has(Extension::Turns) {
            return self.turns.running();
        }
        let id = id(message, "turn_id")?;
        // Ends are judged by the ledger.
        if table.name == "turn.complete" {
            return None;
        }
        match self.turns.named(id) {
            NamedTurn::Open(turn) => Some(turn),
            NamedTurn::Ended(turn) => {
                let level = match table.name {
                    "permission.cancel" | "steer.result" | "session.info" => return Some(turn),
                    "working" | "usage" | "context.usage" | "compaction" | "rate_limit" => Should,
                    _ => Must,
                };
                add(
                    faults,
                    "turn.2",
                    level,
                    format!("{} of {id:?} after its turn.complete", table.name),
                );
                Some(turn)
            }
            NamedTurn::Steer => {
                add(
                    faults,
                    "turn.10",
                    Must,
                    format!("{} carries the turn_id {id:?} of a steer", table.name),
                );
                None
            }
            NamedTurn::Nothing => {
                add(
                    faults,
                    "turn.9",
                    Must,
                    format!("{} of {id:?}, which is not a turn", table.name),
                );
                None
            }
        }
    }

    fn output(&self, message: &Message, turn: Option<usize>, replayed: bool, faults: &mut Faults) {
        if replayed || text(message, "channel") == Some("system") {
            return;
        }
        if self.has(Extension::Turns) {
            // A queued turn may be refused with a word, so this is not proof that it is served.
            if turn.is_some_and(|turn| self.turns.is_behind(turn)) {
                add(
                    faults,
                    "turn.3",
                    Should,
                    "output of a turn while an earlier one runs",
                );
            }
        } else if self.turns.running().is_none() && self.turns.has_ended_any() {
            // Without ids output between turns is allowed, and yet looks like output that came too late.
            add(
                faults,
                "turn.2",
                Should,
                "output between a turn.complete and the next input",
            );
        }
    }

    fn complete(&mut self, message: &Message, reading: &Reading, faults: &mut Faults) {
        let ended = if self.has(Extension::Turns) {
            let orderly = text(message, "status").is_none_or(|status| status == "completed");
            let (ended, fault) = self
                .turns
                .complete(id(message, "turn_id"), orderly, reading);
            faults.extend(fault);
            ended
        } else {
            match self.turns.complete_oldest(reading) {
                Ok(ended) => Some(ended),
                Err(fault) => {
                    faults.push(fault);
                    None
                }
            }
        };
        for id in ended
            .map(|turn| self.tools.left_by(turn))
            .unwrap_or_default()
        {
            // The host mends it, so the user does not suffer.
            add(
                faults,
                "ext.5",
                Should,
                format!("the turn left the tool call {id:?} open"),
            );
        }
    }

    fn ask(
        &mut self,
        message: &Message,
        ask: RequestType,
        turn: Option<usize>,
        replayed: bool,
        reading: &Reading,
        faults: &mut Faults,
    ) {
        // A relay reports its own settlements only if `control` was agreed on ([relay.7]).
        let silent = self.kind == ModelKind::Relay && !self.has(Extension::Control);
        // A request of an ended turn is late; its treatment is not specified.
        let late = turn.is_some_and(|turn| self.turns.end_of(turn).is_some());
        let loose = silent || late || get(message, "expires_at").is_some();
        let place = match turn {
            _ if !self.has(Extension::Turns) => RequestScope::Perhaps(turn),
            Some(turn) if !late => RequestScope::Turn(turn),
            Some(_) | None => RequestScope::Outside,
        };
        if let Some(id) = id(message, "request_id") {
            faults.extend(
                self.requests
                    .ask(
                        id,
                        NewRequest {
                            ask,
                            place,
                            loose,
                            replayed,
                        },
                        &self.turns,
                        reading,
                    )
                    .err(),
            );
        }
    }
}

fn allows(gate: Gate, held: Extensions) -> bool {
    match gate {
        Gate::Open => true,
        Gate::One(extension) => held.has(extension),
        Gate::AnyOf => !held.is_empty(),
    }
}

fn named(names: &[String]) -> Extensions {
    let mut set = Extensions::default();
    for extension in names.iter().filter_map(|name| Extension::named(name)) {
        set.insert(extension);
    }
    set
}
