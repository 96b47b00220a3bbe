//! Actions of the host, and its reactions to messages.

use serde_json::json;

use super::{Play, Seat, Talk, field};
use crate::clauses::Side;
use crate::run::EXTENSIONS;

impl Play {
    pub(super) fn host_acts(&mut self) {
        if self.talks.len() < 4 {
            self.started += 1;
            let id = format!("s-{}", self.started);
            let rich = self.dice.one_in(2);
            let start = if rich {
                json!({"type": "session.start", "session_id": id, "protocol": 1, "extensions": EXTENSIONS})
            } else {
                json!({"type": "session.start", "session_id": id})
            };
            self.talks.insert(
                id,
                Talk {
                    rich,
                    host_open: true,
                    ..Talk::default()
                },
            );
            return self.host_writes(start);
        }
        let Some(id) = self.pick() else { return };
        let roll = self.dice.below(16);
        let approved = self.dice.one_in(2);
        let steer = self.dice.one_in(4);
        let named = self.dice.one_in(2);
        let talk = self
            .talks
            .get_mut(&id)
            .expect("a talk stays until it is removed");
        if !talk.host_open {
            return;
        }
        match roll {
            0..=4 => {
                let turn = format!("t-{}", talk.written);
                talk.written += 1;
                let mut input = json!({"type": "user.input", "session_id": id, "content": "x"});
                if talk.rich {
                    input["turn_id"] = turn.clone().into();
                }
                if talk.ready_seen && steer {
                    input["mode"] = "steer".into();
                    input["message_id"] = turn.into();
                } else if talk.rich && talk.ready_seen || talk.host_turns.is_empty() {
                    talk.host_turns.push_back(turn);
                } else {
                    // One turn at a time.
                    talk.written -= 1;
                    return;
                }
                self.host_writes(input);
            }
            5 | 6 => {
                let mut stop = json!({"type": "stop", "session_id": id});
                let turn = if talk.rich && named {
                    talk.host_turns.back()
                } else {
                    talk.host_turns.front()
                };
                let turn = turn.cloned();
                if talk.rich
                    && named
                    && let Some(turn) = &turn
                {
                    stop["turn_id"] = turn.clone().into();
                }
                self.host_writes(stop);
                if turn.is_some() {
                    self.host_denies(&id, turn.as_ref());
                }
            }
            7..=9 => {
                if let Some((request, _)) = talk.host_pending.pop_first() {
                    self.host_writes(json!({"type": "permission.response", "session_id": id,
                        "request_id": request, "approved": approved}));
                }
            }
            10 if talk.ready_seen => {
                self.host_writes(json!({"type": "flow.pause", "session_id": id}))
            }
            11 | 12 if talk.ready_seen => {
                self.host_writes(json!({"type": "flow.resume", "session_id": id}))
            }
            13 if talk.ready_seen => {
                self.probes += 1;
                let nonce = format!("probe-{}", self.probes);
                self.host_writes(json!({"type": "ping", "session_id": "", "nonce": nonce}));
            }
            14 if talk.ready_seen => {
                self.host_writes(json!({"type": "session.update", "session_id": id}))
            }
            15 if named => {
                talk.host_open = false;
                self.host_writes(json!({"type": "session.close", "session_id": id}));
            }
            _ => {}
        }
    }

    /// The denials that [permission.3] asks for.
    fn host_denies(&mut self, id: &str, turn: Option<&String>) {
        let talk = self
            .talks
            .get_mut(id)
            .expect("a talk stays until it is removed");
        let settled: Vec<_> = talk
            .host_pending
            .extract_if(.., |_, of| of.as_ref() == turn)
            .map(|(request, _)| request)
            .collect();
        for request in settled {
            self.host_writes(json!({"type": "permission.response", "session_id": id,
                "request_id": request, "approved": false}));
        }
    }

    pub(super) fn deliver_up(&mut self) {
        let Some(message) = self.up.pop_front() else {
            return;
        };
        if self.seat == Seat::Host {
            self.record(Side::Adapter, &message);
        }
        let id = field(&message, "session_id").to_owned();
        let Some(talk) = self.talks.get_mut(&id).filter(|talk| talk.host_open) else {
            return;
        };
        let request = field(&message, "request_id").to_owned();
        match field(&message, "type") {
            "session.ready" => talk.ready_seen = true,
            "permission.request" => {
                let turn = match field(&message, "turn_id") {
                    "" if talk.rich => None,
                    "" => talk.host_turns.front().cloned(),
                    turn => Some(turn.to_owned()),
                };
                talk.host_pending.entry(request.clone()).or_insert(turn);
                if request.starts_with("probe") {
                    talk.host_pending.remove(&request);
                    self.host_writes(json!({"type": "permission.response", "session_id": id,
                        "request_id": request, "approved": false}));
                }
            }
            "permission.cancel" => {
                talk.host_pending.remove(&request);
            }
            "turn.complete" => {
                let turn = match field(&message, "turn_id") {
                    "" => talk.host_turns.front().cloned(),
                    turn => Some(turn.to_owned()),
                };
                talk.host_turns.retain(|open| Some(open) != turn.as_ref());
                self.host_denies(&id, turn.as_ref());
            }
            "session.closed" => talk.host_open = false,
            _ => {}
        }
    }
}
