//! Expected result of a profile when a recording is played to it: filled in by the oracles,
//! compared with the actual one.

use serde_json::Value;

/// A recording, as our protocol should report it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Expected {
    /// The rule that demands it.
    pub(crate) rule: &'static str,
    pub(crate) sessions: Vec<Session>,
    /// Another outcome that is as good.
    pub(crate) or: Option<Box<Self>>,
}

/// A session.
#[derive(Debug, Clone, Default)]
pub(crate) struct Session {
    /// The native session to resume.
    pub(crate) resume: Option<String>,
    pub(crate) model: Option<String>,
    pub(crate) mode: Option<String>,
    /// The native id, as recorded.
    pub(crate) native_id: Option<String>,
    /// Context that a resumed session must report.
    pub(crate) context: Option<&'static str>,
    pub(crate) turns: Vec<Turn>,
}

/// A turn.
#[derive(Debug, Clone, Default)]
pub(crate) struct Turn {
    pub(crate) prompt: String,
    /// Inputs that are added while it runs.
    pub(crate) steers: Vec<String>,
    pub(crate) text: Vec<Piece>,
    pub(crate) tools: Vec<Tool>,
    pub(crate) permissions: Vec<Permission>,
    pub(crate) usage: Option<Usage>,
    /// Total that makes any statement of usage a guess.
    pub(crate) no_total: Option<f64>,
    pub(crate) cost: Option<f64>,
    /// Possible ends; the first is the usual one.
    pub(crate) status: Vec<&'static str>,
    /// The categories of a failure that fit; none: any.
    pub(crate) category: Vec<&'static str>,
    /// Texts of which at least one must be in the error, if it fails.
    pub(crate) told: Vec<String>,
    /// Texts that must all be reported while it runs.
    pub(crate) warned: Vec<String>,
    /// True if the turn is stopped, so that its text may be cut short.
    pub(crate) stopped: bool,
}

/// A piece of the answer. Between pieces there may be white space.
#[derive(Debug, Clone, Default)]
pub(crate) struct Piece {
    /// Possible forms.
    pub(crate) ways: Vec<String>,
    /// True if it may be left out.
    pub(crate) optional: bool,
}

/// A tool call.
#[derive(Debug, Clone, Default)]
pub(crate) struct Tool {
    pub(crate) id: String,
    pub(crate) name: Option<String>,
    /// True if it failed, if that is recorded.
    pub(crate) failed: Option<bool>,
    pub(crate) optional: bool,
}

/// A permission request.
#[derive(Debug, Clone, Default)]
pub(crate) struct Permission {
    pub(crate) tool: Option<String>,
    pub(crate) tool_call_id: Option<String>,
    /// Of which one must be in what the user sees.
    pub(crate) about: Vec<String>,
    /// The recorded answer, if there was one.
    pub(crate) answer: Option<Answer>,
}

/// Answer of a recorded user.
#[derive(Debug, Clone, Default)]
pub(crate) struct Answer {
    pub(crate) approved: bool,
    /// The CLI's own name of the way to answer.
    pub(crate) option: Option<String>,
    pub(crate) end_turn: bool,
    pub(crate) updated_input: Option<Value>,
    pub(crate) message: Option<String>,
    /// Required input of the CLI: a pointer into its line, and the value there.
    pub(crate) to_cli: Option<(&'static str, Value)>,
}

/// Tokens of a turn: the numbers that fit. None: not judged.
#[derive(Debug, Clone, Default)]
pub(crate) struct Usage {
    pub(crate) input: Vec<u64>,
    pub(crate) output: Vec<u64>,
    /// True if it may be left out.
    pub(crate) optional: bool,
}

impl Piece {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Self {
            ways: vec![text.into()],
            optional: false,
        }
    }

    pub(crate) fn optional(text: impl Into<String>) -> Self {
        Self {
            optional: true,
            ..Self::new(text)
        }
    }
}

impl Turn {
    /// A turn of a prompt.
    pub(crate) fn new(prompt: impl Into<String>) -> Self {
        Self {
            prompt: prompt.into(),
            ..Self::default()
        }
    }

    /// Says that it fails.
    pub(crate) fn fails(
        &mut self,
        category: &[&'static str],
        told: impl IntoIterator<Item = String>,
    ) {
        self.status = vec!["failed"];
        self.category = category.to_vec();
        self.told.extend(told);
    }

    /// The tool call of an id.
    pub(crate) fn tool(&mut self, id: &str) -> &mut Tool {
        let at = self
            .tools
            .iter()
            .position(|tool| tool.id == id)
            .unwrap_or_else(|| {
                self.tools.push(Tool {
                    id: id.to_owned(),
                    ..Tool::default()
                });
                self.tools.len() - 1
            });
        &mut self.tools[at]
    }

    /// Returns the number of characters that must have been reported before the turn may be
    /// stopped.
    pub(crate) fn certain(&self) -> usize {
        let pieces = self.text.iter().filter(|piece| !piece.optional);
        pieces
            .map(|piece| piece.ways.iter().map(String::len).min().unwrap_or(0))
            .sum()
    }
}

/// The answer of a turn as it grows: deltas and whole messages, each message counted once.
#[derive(Debug, Default)]
pub(crate) struct Text {
    messages: Vec<Message>,
    stopped: bool,
}

#[derive(Debug, Default)]
struct Message {
    id: String,
    deltas: String,
    /// Text after the turn was stopped.
    late: String,
    whole: Option<String>,
    optional: bool,
}

impl Text {
    fn message(&mut self, id: &str) -> &mut Message {
        let at = self
            .messages
            .iter()
            .position(|message| message.id == id)
            .unwrap_or_else(|| {
                self.messages.push(Message {
                    id: id.to_owned(),
                    ..Message::default()
                });
                self.messages.len() - 1
            });
        &mut self.messages[at]
    }

    pub(crate) fn delta(&mut self, id: &str, text: &str) {
        let stopped = self.stopped;
        let message = self.message(id);
        if stopped {
            message.late.push_str(text)
        } else {
            message.deltas.push_str(text)
        }
    }

    pub(crate) fn whole(&mut self, id: &str, text: &str) {
        let stopped = self.stopped;
        let message = self.message(id);
        if stopped {
            message.late = text
                .strip_prefix(message.deltas.as_str())
                .unwrap_or_default()
                .to_owned();
        } else {
            message.whole = Some(text.to_owned());
        }
    }

    pub(crate) fn optional(&mut self, id: &str) {
        self.message(id).optional = true;
    }

    /// Returns true if this message is known.
    pub(crate) fn knows(&self, id: &str) -> bool {
        self.messages.iter().any(|message| message.id == id)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.messages
            .iter()
            .all(|message| message.deltas.is_empty() && message.whole.is_none())
    }

    /// Marks the turn as stopped: later events may be reported or not.
    pub(crate) fn stop(&mut self) {
        self.stopped = true;
    }

    /// Marks a retry of a failed attempt: unfinished output may have been reported or not.
    pub(crate) fn retry(&mut self) {
        for message in self
            .messages
            .iter_mut()
            .filter(|message| message.whole.is_none())
        {
            message.optional = true;
        }
    }

    pub(crate) fn pieces(self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        for message in self.messages {
            let ways = match message.whole {
                Some(whole) if whole.starts_with(&message.deltas) => vec![whole],
                // The recorder left lines out: what is reported is one of these, or the one to its
                // end by the other.
                Some(whole) => {
                    let rest = whole.get(message.deltas.len()..).unwrap_or_default();
                    vec![format!("{}{rest}", message.deltas), message.deltas, whole]
                }
                None => vec![message.deltas],
            };
            pieces.push(Piece {
                ways,
                optional: message.optional,
            });
            if !message.late.is_empty() {
                pieces.push(Piece::optional(message.late));
            }
        }
        pieces.retain(|piece| piece.ways.iter().any(|way| !way.is_empty()));
        pieces
    }
}
