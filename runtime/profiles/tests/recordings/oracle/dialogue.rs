//! Common parts of the dialogues over ACP and with the app server: requests by their ids, and the
//! sessions that they begin and resume.

use std::collections::HashMap;

use serde_json::Value;

use super::super::{
    expected::{Expected, Session, Turn},
    recording::{Recording, Step},
};

#[derive(Default)]
pub(super) struct Dialogue {
    sessions: Vec<Session>,
    /// Index of each native id's session.
    ids: HashMap<String, usize>,
    /// Requests of the recorder that are not answered yet.
    asked: HashMap<String, Value>,
}

impl Dialogue {
    /// Takes a line of the recorder: a request waits for its answer.
    pub(super) fn asks(&mut self, line: &Value) {
        if let Some(id) = line.get("id").filter(|_| line.get("method").is_some()) {
            self.asked.insert(id.to_string(), line.clone());
        }
    }

    /// The request of the recorder that a line answers.
    pub(super) fn asked(&mut self, line: &Value) -> Option<Value> {
        self.asked.remove(&line.get("id")?.to_string())
    }

    pub(super) fn knows(&self, id: &str) -> bool {
        self.ids.contains_key(id)
    }

    pub(super) fn session(&mut self, id: &str) -> Option<&mut Session> {
        self.sessions.get_mut(*self.ids.get(id)?)
    }

    /// Begins a session, or records its failure, as its first turn reports.
    pub(super) fn begun(&mut self, id: Option<&str>, failed: Option<Turn>) {
        let native_id = id.map(str::to_owned);
        self.ids
            .extend(native_id.clone().map(|id| (id, self.sessions.len())));
        self.sessions.push(Session {
            native_id,
            turns: failed.into_iter().collect(),
            ..Session::default()
        });
    }

    /// A session is resumed. One that is refused begins afresh, in another of which nothing is recorded.
    pub(super) fn resumed(&mut self, id: Option<&str>, refused: bool) {
        let resume = id.map(str::to_owned);
        let mut session = Session {
            resume: resume.clone(),
            ..Session::default()
        };
        if refused {
            session.context = Some("lost");
            session.turns.push(Turn {
                status: vec!["completed"],
                ..Turn::new("FAKE:text")
            });
        } else {
            session.native_id.clone_from(&resume);
            self.ids.extend(resume.map(|id| (id, self.sessions.len())));
        }
        self.sessions.push(session);
    }

    pub(super) fn expected(self) -> Expected {
        Expected {
            rule: "dialogue",
            sessions: self.sessions,
            or: None,
        }
    }
}

/// The error that a line answers with.
pub(super) fn refused(line: &Value) -> Option<&Value> {
    line.get("error").filter(|error| !error.is_null())
}

/// The recorder's answer to a request of the CLI.
pub(super) fn answer_to<'r>(recording: &'r Recording, line: &Value) -> Option<&'r Value> {
    recording.steps.iter().find_map(|step| match step {
        Step::In(answer)
            if answer.get("method").is_none() && answer.get("id") == line.get("id") =>
        {
            Some(answer)
        }
        _ => None,
    })
}
