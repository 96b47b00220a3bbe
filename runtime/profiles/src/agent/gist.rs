//! Summary for a turn's end: the last message, abbreviated, and the artifacts.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use trunkline_sdk::protocol::{AdapterBody, Output};
use trunkline_sdk::{Channel, Json, TurnComplete, preview};

/// Kept bytes of the last message: one with artifacts is read as a whole.
const LONGEST: usize = 64 * 1024;

/// The most files that are named.
const MOST_FILES: usize = 500;

/// A turn's last message and its files.
#[derive(Debug, Default)]
pub(super) struct Gist {
    message: String,
    /// True if it is longer than the kept part.
    is_cut: bool,
    /// Tools have run since.
    is_over: bool,
    files: BTreeSet<String>,
}

impl Gist {
    /// Takes an event of the turn.
    pub(super) fn saw(&mut self, event: &AdapterBody) {
        match event {
            AdapterBody::Output(output) if is_answer(output) => self.add(&output.content),
            AdapterBody::ToolStart(_) => self.is_over = true,
            AdapterBody::ToolEnd(end) if end.is_error != Some(true) => {
                let paths = end.diffs.iter().flatten().map(|diff| diff.path.clone());
                self.files
                    .extend(paths.take(MOST_FILES.saturating_sub(self.files.len())));
            }
            _ => {}
        }
    }

    fn add(&mut self, text: &str) {
        if self.is_over && !text.trim().is_empty() {
            (self.message, self.is_cut, self.is_over) = (String::new(), false, false);
        }
        let room = LONGEST - self.message.len();
        let kept = text.floor_char_boundary(room.min(text.len()));
        self.message.push_str(&text[..kept]);
        self.is_cut |= kept < text.len();
    }

    /// Fills in members that the agent itself does not set.
    pub(super) fn fill(self, end: &mut TurnComplete) {
        let Self {
            message,
            is_cut,
            files,
            ..
        } = self;
        if end.summary.is_none() {
            end.summary = Some(preview::text(&message)).filter(|text| !text.is_empty());
        }
        if end.artifacts.is_none() {
            let changed = || {
                let files: Vec<_> = files.iter().map(|path| json!({ "path": path })).collect();
                (!files.is_empty()).then(|| Value::from(files))
            };
            let artifacts = artifacts(&message).filter(|_| !is_cut).or_else(changed);
            end.artifacts = artifacts.and_then(|artifacts| Json::from_serialize(&artifacts).ok());
        }
    }
}

fn is_answer(output: &Output) -> bool {
    *output.channel() == Channel::Stdout && output.history != Some(true)
}

/// The list `artifacts` of an answer that is a JSON object.
fn artifacts(message: &str) -> Option<Value> {
    let text = message.trim();
    if !text.starts_with('{') || !text.contains("\"artifacts\"") {
        return None;
    }
    let mut answer: Value = serde_json::from_str(text).ok()?;
    Some(answer.get_mut("artifacts")?.take()).filter(Value::is_array)
}

#[cfg(test)]
mod tests {
    use trunkline_sdk::ToolCallId;
    use trunkline_sdk::protocol::{Diff, ToolEnd, ToolStart};

    use super::*;

    fn end_of(events: &[AdapterBody]) -> TurnComplete {
        let mut gist = Gist::default();
        events.iter().for_each(|event| gist.saw(event));
        let mut end = TurnComplete::default();
        gist.fill(&mut end);
        end
    }

    fn said(text: &str) -> AdapterBody {
        Output::text(text).into()
    }

    fn wrote(path: &str, is_error: bool) -> [AdapterBody; 2] {
        let id = ToolCallId::new(path).unwrap();
        let diff = Diff {
            path: path.to_owned(),
            ..Diff::default()
        };
        let end = ToolEnd {
            diffs: Some(vec![diff]),
            is_error: Some(is_error),
            ..ToolEnd::new(id.clone())
        };
        [ToolStart::new(id, "Write").into(), end.into()]
    }

    #[test]
    fn the_summary_is_the_last_message_and_artifacts_are_the_files() {
        let [start, end] = wrote("/b", false);
        let [again, failed] = wrote("/a", true);
        let told = end_of(&[
            said("I begin."),
            start,
            end,
            again,
            failed,
            said(" \n"),
            said("All "),
            said("done."),
        ]);
        assert_eq!(told.summary.as_deref(), Some("All done."));
        assert_eq!(told.artifacts.unwrap().get(), r#"[{"path":"/b"}]"#);
        let [start, end] = wrote("/b", false);
        assert_eq!(
            end_of(&[said("First."), start, end]).summary.as_deref(),
            Some("First.")
        );
        let nothing = end_of(&[Output::on(Channel::Stderr, "noise").into()]);
        assert_eq!((nothing.summary, nothing.artifacts), (None, None));
    }

    #[test]
    fn an_answer_in_json_names_its_artifacts() {
        for (answer, artifacts) in [
            (
                r#" {"artifacts": ["a.md", {"name": "b"}], "ok": true}"#,
                Some(r#"["a.md",{"name":"b"}]"#),
            ),
            (r#"{"artifacts": "a.md"}"#, None),
            (r#"{"artifacts": ["a.md"]"#, None),
            (r#"["artifacts"]"#, None),
        ] {
            let end = end_of(&[said(answer)]);
            assert_eq!(end.artifacts.as_ref().map(Json::get), artifacts, "{answer}");
        }
    }

    #[test]
    fn a_long_message_is_kept_to_a_bound_and_what_the_agent_says_stands() {
        let end = end_of(&[said(&"ü".repeat(LONGEST)), said("more")]);
        assert_eq!(end.summary.unwrap().chars().count(), 200);
        let mut gist = Gist::default();
        gist.saw(&said("x"));
        let mut own = TurnComplete {
            summary: Some("own".to_owned()),
            ..TurnComplete::default()
        };
        gist.fill(&mut own);
        assert_eq!(own.summary.as_deref(), Some("own"));
    }
}
