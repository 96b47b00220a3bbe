//! Actions of the adapter, and its reactions to messages.

use serde_json::{Value, json};

use super::{Play, Seat, Turn, field};
use crate::clauses::Side;
use crate::run::EXTENSIONS;

const REQUESTS: [&str; 3] = ["r-0", "r-1", "r-2"];

impl Play {
    pub(super) fn deliver_down(&mut self) {
        let Some(message) = self.down.pop_front() else {
            return;
        };
        if self.seat == Seat::Adapter {
            self.record(Side::Host, &message);
        }
        let id = field(&message, "session_id").to_owned();
        let kind = field(&message, "type");
        if kind == "ping" {
            return self.adapter_writes(
                json!({"type": "pong", "session_id": "", "nonce": message["nonce"]}),
            );
        }
        let Some(talk) = self.talks.get_mut(&id) else {
            return;
        };
        if kind == "session.start" {
            talk.adapter_open = true;
            if talk.rich {
                self.adapter_writes(
                    json!({"type": "session.ready", "session_id": id, "protocol": 1,
                    "extensions": EXTENSIONS, "input_modes": ["queue", "steer"]}),
                );
            }
            return;
        }
        if !talk.adapter_open {
            return;
        }
        match kind {
            "user.input" if field(&message, "mode") == "steer" => {
                let answers = !talk.paused;
                if answers {
                    self.adapter_writes(json!({"type": "steer.result", "session_id": id,
                        "message_id": message["message_id"], "delivered": false}));
                }
            }
            "user.input" => {
                let id = field(&message, "turn_id").to_owned();
                talk.turns.push_back(Turn {
                    id,
                    stopping: false,
                });
            }
            "stop" => {
                let named = field(&message, "turn_id");
                let front = talk.turns.front().map(|turn| turn.id.clone());
                let meant = if named.is_empty() {
                    front
                } else {
                    Some(named.to_owned())
                };
                if let Some(turn) = talk
                    .turns
                    .iter_mut()
                    .find(|turn| Some(&turn.id) == meant.as_ref())
                {
                    turn.stopping = true;
                    // Settled by itself; the host's denial is on its way and will be ignored.
                    talk.pending.retain(|_, of| of.as_ref() != meant.as_ref());
                }
            }
            "permission.response" => {
                talk.pending.remove(field(&message, "request_id"));
            }
            "flow.pause" => talk.paused = true,
            "flow.resume" => talk.paused = false,
            "session.update" if !talk.paused => {
                self.adapter_writes(json!({"type": "session.info", "session_id": id}));
            }
            "session.close" => talk.adapter_open = false,
            _ => {}
        }
    }

    pub(super) fn adapter_acts(&mut self) {
        let Some(id) = self.pick() else { return };
        let (roll, request, outside) =
            (self.dice.below(16), self.dice.below(3), self.dice.one_in(4));
        let talk = self
            .talks
            .get_mut(&id)
            .expect("a talk stays until it is removed");
        if !talk.adapter_open {
            if !talk.host_open && self.down.is_empty() && self.up.is_empty() {
                self.talks.remove(&id);
            }
            return;
        }
        if talk.paused {
            return;
        }
        let turn = talk.turns.front().map(|turn| turn.id.clone());
        let mark = |mut message: Value, turn: &Option<String>| {
            if let Some(turn) = turn.as_ref().filter(|turn| !turn.is_empty()) {
                message["turn_id"] = turn.clone().into();
            }
            message
        };
        match roll {
            0..=2 => self.adapter_writes(mark(
                json!({"type": "output", "session_id": id, "content": "x"}),
                &turn,
            )),
            3..=6 if turn.is_some() => self.complete(&id, 0),
            7 => {
                let stopped = talk.turns.iter().position(|turn| turn.stopping);
                if let Some(index) = stopped {
                    self.complete(&id, index);
                }
            }
            8..=11 => {
                let name = if roll == 11 {
                    self.probes += 1;
                    format!("probe-{}", self.probes)
                } else {
                    REQUESTS[request].to_owned()
                };
                if talk.pending.contains_key(&name) {
                    return;
                }
                let turn = if talk.rich && outside { None } else { turn };
                talk.pending.insert(name.clone(), turn.clone());
                self.adapter_writes(mark(
                    json!({"type": "permission.request", "session_id": id, "request_id": name,
                        "tool": "T", "description": "d", "resource": "r"}),
                    &turn,
                ));
            }
            12 if talk.rich => {
                if let Some((name, _)) = talk.pending.pop_first() {
                    self.adapter_writes(
                        json!({"type": "permission.cancel", "session_id": id, "request_id": name}),
                    );
                }
            }
            13 if talk.rich && turn.is_some() => match talk.tool.take() {
                Some(tool) => self.adapter_writes(
                    json!({"type": "tool.end", "session_id": id, "tool_call_id": tool}),
                ),
                None => {
                    talk.tool = Some("c".to_owned());
                    self.adapter_writes(
                        json!({"type": "tool.start", "session_id": id, "tool_call_id": "c", "tool": "T"}),
                    );
                }
            },
            14 if talk.rich && outside => {
                while !self.talks[&id].turns.is_empty() {
                    self.complete(&id, 0);
                }
                self.adapter_writes(json!({"type": "session.closed", "session_id": id}));
                self.talks
                    .get_mut(&id)
                    .expect("a talk stays until it is removed")
                    .adapter_open = false;
            }
            _ => {}
        }
    }

    pub(super) fn complete(&mut self, id: &str, index: usize) {
        let talk = self
            .talks
            .get_mut(id)
            .expect("a talk stays until it is removed");
        let Some(turn) = talk.turns.remove(index) else {
            return;
        };
        talk.pending.retain(|_, of| of.as_ref() != Some(&turn.id));
        let mut complete = json!({"type": "turn.complete", "session_id": id});
        if !turn.id.is_empty() {
            complete["turn_id"] = turn.id.into();
            complete["status"] = if turn.stopping {
                "stopped"
            } else {
                "completed"
            }
            .into();
        }
        self.adapter_writes(complete);
    }
}
