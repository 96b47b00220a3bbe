//! Requests that no case is about: a host answers each once, and denies without a decision
//! ([permission.2], [permission.3]).

use std::collections::{HashMap, HashSet, VecDeque};

use serde_json::{Value, json};

use crate::wire::{self, Message};

/// Requests of a program to deny, for the adapter's side of one process.
#[derive(Debug, Default)]
pub(super) struct Denials {
    /// True if requests are denied; a recording that is replayed has its own answers.
    pub(super) on: bool,
    /// Texts of inputs whose requests the case answers.
    pub(super) texts_of_case: HashSet<String>,
    /// Sessions in which the case answers everything.
    pub(super) sessions_of_case: HashSet<String>,
    sessions: HashMap<String, Talk>,
    due: VecDeque<Due>,
}

/// An open session.
#[derive(Debug, Default)]
struct Talk {
    inputs: Vec<OpenInput>,
    /// True if the case has answered requests of it, so that requests outside turns belong to the
    /// case too.
    of_case: bool,
}

/// An input whose turn has not ended.
#[derive(Debug)]
struct OpenInput {
    turn: String,
    /// True if the case answers the requests of its turn.
    of_case: bool,
}

#[derive(Debug, PartialEq, Eq)]
struct Due {
    session: String,
    request: String,
    /// A question is cancelled, a permission denied.
    question: bool,
}

impl Denials {
    /// Takes a message that is written to the program.
    pub(super) fn said(&mut self, message: &Message) {
        let id = wire::session(message);
        match wire::kind(message) {
            "session.start" => drop(self.sessions.entry(id.to_owned()).or_default()),
            "session.close" => drop(self.sessions.remove(id)),
            "user.input" => {
                let content = wire::text(message, "content");
                let of_case = self.texts_of_case.contains(content) || script_asks(content);
                if let Some(talk) = self.sessions.get_mut(id) {
                    talk.of_case |= of_case;
                    talk.inputs.push(OpenInput {
                        turn: wire::text(message, "turn_id").to_owned(),
                        of_case,
                    });
                }
            }
            _ => {}
        }
    }

    /// Takes a message of the program.
    pub(super) fn heard(&mut self, message: &Message) {
        let id = wire::session(message);
        let Some(talk) = self.sessions.get_mut(id) else {
            return;
        };
        match wire::kind(message) {
            "turn.complete" => {
                let turn = wire::text(message, "turn_id");
                let place = talk
                    .inputs
                    .iter()
                    .position(|input| input.turn == turn)
                    .unwrap_or_default();
                if place < talk.inputs.len() {
                    talk.inputs.remove(place);
                }
            }
            "session.closed" => drop(self.sessions.remove(id)),
            kind @ ("permission.request" | "input.request") => {
                let mut running = talk.inputs.iter().peekable();
                let of_case = match running.peek() {
                    Some(_) => running.any(|input| input.of_case),
                    None => talk.of_case,
                };
                let request = wire::text(message, "request_id");
                let question = kind == "input.request";
                let named = message
                    .get(if question { "prompt" } else { "tool" })
                    .is_some_and(Value::is_string);
                let of_case = of_case || self.sessions_of_case.contains(id);
                let live = message.get("history") != Some(&Value::Bool(true));
                // A bad message is not answered ([msg.4]).
                if self.on && !of_case && live && named && (1..=256).contains(&request.len()) {
                    let due = Due {
                        session: id.to_owned(),
                        request: request.to_owned(),
                        question,
                    };
                    // The same id while it is pending is a bad message, too ([permission.4]).
                    if !self.due.contains(&due) {
                        self.due.push_back(due);
                    }
                }
            }
            _ => {}
        }
    }

    /// The next answer to write. A session that is closed gets none.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        loop {
            let Due {
                session,
                request,
                question,
            } = self.due.pop_front()?;
            if !self.sessions.contains_key(&session) {
                continue;
            }
            let (kind, member, value) = if question {
                ("input.response", "cancelled", true)
            } else {
                ("permission.response", "approved", false)
            };
            let mut answer = json!({"type":kind,"session_id":session,"request_id":request});
            answer[member] = value.into();
            return Some(wire::line_of(&answer));
        }
    }
}

/// Returns true if an input is a script of the probe with requests, so that its case decides.
fn script_asks(content: &str) -> bool {
    if !content.contains("\"$probe\"") {
        return false;
    }
    let script: Value = serde_json::from_str(content).unwrap_or_default();
    let steps = script["do"].as_array().into_iter().flatten();
    steps
        .into_iter()
        .any(|step| step[0] == "ask" || step[0] == "question")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(value: &Value) -> Message {
        value.as_object().cloned().unwrap_or_default()
    }

    fn opened() -> Denials {
        let mut denials = Denials {
            on: true,
            ..Denials::default()
        };
        denials.said(&message(&json!({"type":"session.start","session_id":"s"})));
        denials
    }

    fn input(denials: &mut Denials, content: &str) {
        denials.said(&message(
            &json!({"type":"user.input","session_id":"s","content":content}),
        ));
    }

    fn request(denials: &mut Denials, id: &str) {
        let request =
            json!({"type":"permission.request","session_id":"s","request_id":id,"tool":"t"});
        denials.heard(&message(&request));
    }

    fn next(denials: &mut Denials) -> Option<String> {
        denials.next().map(|line| String::from_utf8(line).unwrap())
    }

    #[test]
    fn a_request_of_an_ordinary_turn_is_denied_once() {
        let mut denials = opened();
        input(&mut denials, "Hello");
        request(&mut denials, "r");
        request(&mut denials, "r");
        let denial = next(&mut denials).unwrap();
        assert!(
            denial.contains(r#""request_id":"r""#) && denial.contains(r#""approved":false"#),
            "{denial}"
        );
        assert_eq!(next(&mut denials), None);
    }

    #[test]
    fn what_a_case_asks_for_is_left_to_it() {
        let mut denials = opened();
        input(
            &mut denials,
            r#"{"$probe":1,"do":[["say","x"],["ask",{"tool":"t"}]]}"#,
        );
        request(&mut denials, "r");
        assert_eq!(next(&mut denials), None);
        denials.texts_of_case.insert("touch".to_owned());
        denials.heard(&message(&json!({"type":"turn.complete","session_id":"s"})));
        input(&mut denials, "touch");
        request(&mut denials, "r-2");
        assert_eq!(next(&mut denials), None);
        denials.heard(&message(&json!({"type":"turn.complete","session_id":"s"})));
        input(&mut denials, "Hello");
        request(&mut denials, "r-3");
        assert!(next(&mut denials).is_some());
    }

    #[test]
    fn nothing_is_written_after_a_close_or_to_a_bad_request() {
        let mut denials = opened();
        request(&mut denials, "");
        request(&mut denials, "r");
        denials.said(&message(&json!({"type":"session.close","session_id":"s"})));
        assert_eq!(next(&mut denials), None);
        request(&mut denials, "r");
        assert_eq!(next(&mut denials), None);
    }
}
