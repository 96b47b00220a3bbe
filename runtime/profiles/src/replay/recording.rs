//! Contents of a recording: sessions, their turns, and the messages of each.

mod line;

use std::{collections::HashMap, io::BufRead, time::Duration};

use serde_json::{Map, Value};
use trunkline_sdk::protocol::{AdapterBody, AdapterMessage, RequestId};

use self::line::{Side, record};

/// The most bytes that a recording may have.
const MOST: u64 = 64 * 1024 * 1024;

/// Every session of a recording, in the order in which they were opened.
#[derive(Debug, Default)]
pub(super) struct Recording {
    pub(super) sessions: Vec<Recorded>,
    /// Lines without content: neither a message nor a record of one.
    pub(super) skipped: usize,
}

/// A session.
#[derive(Debug, Default)]
pub(super) struct Recorded {
    pub(super) id: String,
    /// Messages before the first input.
    pub(super) greeting: Vec<RecordedMessage>,
    pub(super) turns: Vec<RecordedTurn>,
}

/// A turn: the messages up to its end, the end included, and those after it.
#[derive(Debug, Default)]
pub(super) struct RecordedTurn {
    pub(super) steps: Vec<RecordedMessage>,
    pub(super) afterwards: Vec<RecordedMessage>,
}

/// A recorded message.
#[derive(Debug)]
pub(super) struct RecordedMessage {
    /// Time since the message before it, from either side.
    pub(super) after: Duration,
    pub(super) body: AdapterBody,
    /// The host's decision on a permission request.
    pub(super) approved: Option<bool>,
    /// Time after which a request was taken back.
    pub(super) withdrawn: Option<Duration>,
}

impl Recorded {
    /// Begins a turn. Returns its number.
    fn begin_turn(&mut self) -> usize {
        self.turns.push(RecordedTurn::default());
        self.turns.len() - 1
    }
}

impl Recording {
    /// Reads a recording: JSON lines, each a record with its time (`{"t": …, "in": …}`, `{"t": …,
    /// "out": …}`), a line of a conformance transcript, a message as an adapter wrote it, or an
    /// event of `trunkline run --json`.
    ///
    /// # Errors
    /// When it cannot be read, is too large, or holds no turn.
    pub(super) fn read(from: impl BufRead) -> Result<Self, String> {
        let mut reader = RecordingReader::default();
        let mut left = MOST + 1;
        for line in from.take(MOST + 1).split(b'\n') {
            let line = line.map_err(|error| format!("cannot be read: {error}"))?;
            left = left
                .checked_sub(line.len() as u64 + 1)
                .ok_or_else(|| format!("is larger than {} MiB", MOST / 1024 / 1024))?;
            if !line.trim_ascii().is_empty() {
                reader.line(&line);
            }
        }
        let recording = reader.recording;
        match recording
            .sessions
            .iter()
            .any(|session| !session.turns.is_empty())
        {
            true => Ok(recording),
            false => Err(format!(
                "holds no turn ({} lines have no content)",
                recording.skipped
            )),
        }
    }
}

#[derive(Default)]
struct RecordingReader {
    recording: Recording,
    places: HashMap<String, SessionProgress>,
}

/// Progress of reading a session.
#[derive(Default)]
struct SessionProgress {
    session: usize,
    /// The turns by their ids.
    turns: HashMap<String, usize>,
    /// The turn that what has no turn id belongs to.
    open: Option<usize>,
    /// Time of the last message, in seconds.
    last: Option<f64>,
    /// True if the host is recorded too: only then is a message known to be outside turns.
    hears_host: bool,
    /// Positions of requests without an answer: turn, step, time.
    pending: HashMap<RequestId, (usize, usize, f64)>,
}

impl RecordingReader {
    fn line(&mut self, line: &[u8]) {
        let Some((at, side, message)) = record(line) else {
            self.recording.skipped += 1;
            return;
        };
        let id = message
            .get("session_id")
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned();
        if id.is_empty() {
            return;
        }
        match side {
            Side::Host => self.host(&id, at, &message),
            Side::Adapter => match AdapterMessage::parse(&Value::Object(message).to_string()) {
                Ok(message) => self.adapter(&id, at, message),
                Err(_) => self.recording.skipped += 1,
            },
        }
    }

    fn place(&mut self, id: &str) -> (&mut Recorded, &mut SessionProgress) {
        let sessions = &mut self.recording.sessions;
        let place = self.places.entry(id.to_owned()).or_insert_with(|| {
            sessions.push(Recorded {
                id: id.to_owned(),
                ..Recorded::default()
            });
            SessionProgress {
                session: sessions.len() - 1,
                ..SessionProgress::default()
            }
        });
        (&mut sessions[place.session], place)
    }

    fn host(&mut self, id: &str, at: Option<f64>, message: &Map<String, Value>) {
        let kind = message
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let (session, place) = self.place(id);
        let before = place.last;
        place.last = at.or(before);
        place.hears_host = true;
        match kind {
            "user.input" if message.get("mode").and_then(Value::as_str) != Some("steer") => {
                let turn = session.begin_turn();
                if let Some(turn_id) = message.get("turn_id").and_then(Value::as_str) {
                    place.turns.insert(turn_id.to_owned(), turn);
                }
                place.open.get_or_insert(turn);
            }
            "permission.response" => {
                let request = message.get("request_id").and_then(Value::as_str);
                let request = request.and_then(|request| RequestId::new(request).ok());
                if let Some((turn, step, _)) =
                    request.and_then(|request| place.pending.remove(&request))
                {
                    let approved = message.get("approved") == Some(&Value::Bool(true));
                    session.turns[turn].steps[step].approved = Some(approved);
                }
            }
            // Not something that the agent waited for.
            _ => place.last = before,
        }
    }

    fn adapter(&mut self, id: &str, at: Option<f64>, message: AdapterMessage) {
        let (session, place) = self.place(id);
        let after = match (place.last, at) {
            (Some(last), Some(now)) => Duration::try_from_secs_f64(now - last).unwrap_or_default(),
            _ => Duration::ZERO,
        };
        place.last = at.or(place.last);
        let step = RecordedMessage {
            after,
            body: message.body,
            approved: None,
            withdrawn: None,
        };
        let turn_id = message.turn_id.as_ref().map(|turn| turn.as_str());
        let named = turn_id.and_then(|turn| place.turns.get(turn).copied());
        let turn = match (named, turn_id, place.open) {
            (Some(turn), ..) => Some(turn),
            // A turn of a recording without inputs begins with its first message.
            (None, Some(turn_id), _) => {
                let turn = session.begin_turn();
                place.turns.insert(turn_id.to_owned(), turn);
                Some(turn)
            }
            (None, None, Some(turn)) => Some(turn),
            (None, None, None) if place.hears_host || is_of_session(&step.body) => None,
            (None, None, None) => Some(session.begin_turn()),
        };
        let Some(turn) = turn else {
            return match session.turns.last_mut() {
                Some(turn) => turn.afterwards.push(step),
                None => session.greeting.push(step),
            };
        };
        place.open = Some(turn);
        let steps = &mut session.turns[turn].steps;
        let now = at.unwrap_or_default();
        let request = match &step.body {
            AdapterBody::TurnComplete(_) => {
                steps.push(step);
                // Inputs that wait are served next.
                let next = turn + 1;
                place.open = (next < session.turns.len()).then_some(next);
                return;
            }
            AdapterBody::PermissionCancel(cancel) => {
                if let Some((turn, step, asked)) = place.pending.remove(&cancel.request_id) {
                    let after = Duration::try_from_secs_f64(now - asked).unwrap_or_default();
                    session.turns[turn].steps[step].withdrawn = Some(after);
                }
                return;
            }
            AdapterBody::PermissionRequest(request) => Some(&request.request_id),
            AdapterBody::InputRequest(request) => Some(&request.request_id),
            _ => None,
        };
        if let Some(request) = request {
            let asked = (turn, steps.len(), now);
            place.pending.insert(request.clone(), asked);
        }
        steps.push(step);
    }
}

/// Returns true for a message that is about a session, not about a turn.
fn is_of_session(body: &AdapterBody) -> bool {
    matches!(
        body,
        AdapterBody::SessionReady(_) | AdapterBody::SessionInfo(_) | AdapterBody::SessionClosed(_)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Recording {
        Recording::read(text.as_bytes()).expect(text)
    }

    /// Sessions, each with the types of its greeting and of its turns.
    fn outline(recording: &Recording) -> Vec<(String, Vec<Vec<&'static str>>)> {
        let kinds = |steps: &[RecordedMessage]| {
            steps
                .iter()
                .map(|step| step.body.kind().as_str())
                .collect::<Vec<_>>()
        };
        let of = |session: &Recorded| {
            let mut outline = vec![kinds(&session.greeting)];
            for turn in &session.turns {
                outline.push(kinds(&turn.steps));
                if !turn.afterwards.is_empty() {
                    outline.push(kinds(&turn.afterwards));
                }
            }
            (session.id.clone(), outline)
        };
        recording.sessions.iter().map(of).collect()
    }

    #[test]
    fn records_with_times_are_cut_into_turns() {
        let recording = read(
            r#"{"t":0.0,"in":{"type":"session.start","session_id":"a"}}
{"t":0.1,"out":{"type":"session.ready","session_id":"a"}}
{"t":0.2,"out":"{\"type\":\"output\",\"session_id\":\"a\",\"content\":\"welcome\"}"}
{"t":5.0,"in":{"type":"user.input","session_id":"a","content":"x","turn_id":"1"}}
{"t":5.5,"out":{"type":"permission.request","session_id":"a","turn_id":"1","request_id":"r","tool":"t","description":"d","resource":"r"}}
{"t":9.5,"in":{"type":"permission.response","session_id":"a","request_id":"r","approved":true}}
{"t":9.75,"out":{"type":"output","session_id":"a","turn_id":"1","content":"done"}}
{"t":9.75,"out":{"type":"turn.complete","session_id":"a","turn_id":"1"}}
{"t":9.80,"out":{"type":"output","session_id":"a","content":"by the way"}}
noise
"#,
        );
        assert_eq!(
            outline(&recording),
            [(
                "a".to_owned(),
                vec![
                    vec!["session.ready", "output"],
                    vec!["permission.request", "output", "turn.complete"],
                    vec!["output"]
                ]
            )]
        );
        let steps = &recording.sessions[0].turns[0].steps;
        assert_eq!(steps[0].approved, Some(true));
        let waits: Vec<_> = steps.iter().map(|step| step.after.as_millis()).collect();
        assert_eq!(waits, [500, 250, 0], "a person's time is not the agent's");
        assert_eq!(recording.skipped, 1);
    }

    #[test]
    fn turns_that_overlap_are_told_apart_by_their_ids() {
        let recording = read(
            r#"{"t":1,"in":{"type":"user.input","session_id":"a","turn_id":"1"}}
{"t":1,"in":{"type":"user.input","session_id":"a","turn_id":"2"}}
{"t":1,"in":{"type":"user.input","session_id":"b"}}
{"t":2,"out":{"type":"output","session_id":"b","content":"B"}}
{"t":2,"out":{"type":"output","session_id":"a","turn_id":"1","content":"1"}}
{"t":2,"out":{"type":"turn.complete","session_id":"a","turn_id":"1"}}
{"t":2,"out":{"type":"turn.complete","session_id":"a","turn_id":"2"}}
{"t":2,"out":{"type":"turn.complete","session_id":"b"}}"#,
        );
        assert_eq!(
            outline(&recording),
            [
                (
                    "a".to_owned(),
                    vec![
                        vec![],
                        vec!["output", "turn.complete"],
                        vec!["turn.complete"]
                    ]
                ),
                (
                    "b".to_owned(),
                    vec![vec![], vec!["output", "turn.complete"]]
                ),
            ]
        );
    }

    #[test]
    fn an_adapters_own_lines_are_cut_at_each_end() {
        let recording = read(
            r#"{"type":"session.ready","session_id":"a"}
{"type":"output","session_id":"a","content":"1"}
{"type":"turn.complete","session_id":"a"}
{"type":"output","session_id":"a","content":"2"}
{"type":"turn.complete","session_id":"a","status":"failed"}
{"type":"pong","session_id":""}"#,
        );
        assert_eq!(
            outline(&recording),
            [(
                "a".to_owned(),
                vec![
                    vec!["session.ready"],
                    vec!["output", "turn.complete"],
                    vec!["output", "turn.complete"]
                ]
            )]
        );
    }

    #[test]
    fn what_a_command_showed_is_a_recording_too() {
        let recording = read(
            r#"{"type":"session.info","place":"outside","model":"m"}
{"type":"permission.request","place":"turn","turn":1,"request_id":"r","tool":"t","description":"d","resource":"r"}
{"type":"permission.response","request_id":"r","approved":false,"reason":"policy"}
{"type":"output","place":"turn","turn":1,"content":"hi"}
{"type":"end","place":"turn","turn":1,"cause":"failed","status":"failed","exit":{"code":3,"signal":null},"error":{"category":"auth","message":"no"},"usage":null}"#,
        );
        assert_eq!(
            outline(&recording),
            [(
                "run".to_owned(),
                vec![
                    vec!["session.info"],
                    vec!["permission.request", "output", "turn.complete"]
                ]
            )]
        );
        let steps = &recording.sessions[0].turns[0].steps;
        assert_eq!(steps[0].approved, Some(false));
        let AdapterBody::TurnComplete(end) = &steps[2].body else {
            panic!("an end")
        };
        assert_eq!(
            (
                end.exit_code,
                end.error
                    .as_ref()
                    .and_then(|error| error.message.as_deref())
            ),
            (Some(3), Some("no"))
        );
    }

    #[test]
    fn transcripts_and_withdrawn_requests() {
        let recording = read(
            r#"{"t":1000000000,"ev":"host","line":"{\"type\":\"user.input\",\"session_id\":\"a\"}\n"}
{"t":2000000000,"ev":"adapter","line":"{\"type\":\"permission.request\",\"session_id\":\"a\",\"request_id\":\"r\",\"tool\":\"t\",\"description\":\"d\",\"resource\":\"r\"}"}
{"t":3500000000,"ev":"adapter","line":"{\"type\":\"permission.cancel\",\"session_id\":\"a\",\"request_id\":\"r\"}"}
{"t":3500000000,"ev":"adapter","line":"{\"type\":\"turn.complete\",\"session_id\":\"a\"}"}
{"t":4500000000,"ev":"exited","code":0,"signal":null}"#,
        );
        let steps = &recording.sessions[0].turns[0].steps;
        assert_eq!((steps.len(), steps[0].after), (2, Duration::from_secs(1)));
        assert_eq!(steps[0].withdrawn, Some(Duration::from_millis(1500)));
    }

    #[test]
    fn what_holds_no_turn_is_no_recording() {
        for text in [
            "",
            "\n\n",
            "noise",
            r#"{"type":"session.ready","session_id":"a"}"#,
        ] {
            assert!(
                Recording::read(text.as_bytes())
                    .unwrap_err()
                    .contains("no turn"),
                "{text}"
            );
        }
    }
}
