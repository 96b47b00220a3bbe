//! Summary of a conversation, from the beginning and the end of its transcript. Pure.

use std::time::SystemTime;

use serde_json::Value;

use trunkline_sdk::preview::cut;

use crate::agent::read;

/// The longest directory, in bytes, and the longest title, in characters.
const LONGEST_CWD: usize = 4096;
const LONGEST_TITLE: usize = 200;

/// Facts found so far.
#[derive(Debug, Default)]
pub(super) struct TranscriptSummary {
    /// First working directory.
    pub(super) cwd: Option<String>,
    pub(super) began: Option<SystemTime>,
    /// The last name that a person gave it.
    named: Option<String>,
    /// The last summary of it.
    summary: Option<String>,
    first_input: Option<String>,
    last_input: Option<String>,
    said: bool,
    /// True for the work of a sub-agent, which cannot be resumed.
    aside: bool,
}

impl TranscriptSummary {
    pub(super) fn from_head_and_tail(head: &[u8], tail: &[u8]) -> Self {
        let mut summary = Self::default();
        for line in [head, tail]
            .into_iter()
            .flat_map(|part| part.split(|byte| *byte == b'\n'))
        {
            // What is cut off is not JSON.
            if let Ok(line @ Value::Object(_)) = serde_json::from_slice::<Value>(line) {
                summary.line(&line);
            }
        }
        summary
    }

    fn line(&mut self, line: &Value) {
        let text = |name: &str| read::text(line, name);
        let is = |name: &str| line[name].as_bool() == Some(true);
        if self.cwd.is_none() {
            let cwd = text("cwd").filter(|cwd| cwd.starts_with('/') && cwd.len() <= LONGEST_CWD);
            self.cwd = cwd.map(str::to_owned);
        }
        if self.began.is_none() {
            self.began = text("timestamp").and_then(|time| humantime::parse_rfc3339(time).ok());
        }
        let words_of = |name: &str, known: &mut Option<String>| {
            *known = text(name).and_then(words).or(known.take());
        };
        match text("type") {
            Some("user") => {
                self.aside |= !self.said && is("isSidechain");
                self.said = true;
                let message = line
                    .get("message")
                    .and_then(|message| message.get("content"));
                if self.first_input.is_none() && !is("isMeta") {
                    self.first_input = message.and_then(input);
                }
            }
            Some("assistant") => self.said = true,
            Some("custom-title") => words_of("customTitle", &mut self.named),
            Some("ai-title") => words_of("aiTitle", &mut self.summary),
            Some("summary") => words_of("summary", &mut self.summary),
            Some("last-prompt") => {
                self.said = true;
                words_of("lastPrompt", &mut self.last_input);
            }
            _ => {}
        }
    }

    /// Returns true if there is a conversation to resume.
    pub(super) fn is_conversation(&self) -> bool {
        self.said && !self.aside
    }

    /// Returns its title for a person.
    pub(super) fn title(&self) -> Option<String> {
        let titles = [
            &self.named,
            &self.summary,
            &self.first_input,
            &self.last_input,
        ];
        titles.into_iter().flatten().next().cloned()
    }
}

/// Returns text that a person wrote; `None` for text of the program.
fn input(content: &Value) -> Option<String> {
    let block = |block: &Value| block["text"].as_str().map(str::to_owned);
    let text = match content {
        Value::String(text) => text.clone(),
        Value::Array(blocks) => blocks.iter().find_map(block)?,
        _ => return None,
    };
    words(&text).filter(|text| !text.starts_with('<') && !text.starts_with("[Request interrupted"))
}

/// Returns a text on one line, if it is not empty.
fn words(text: &str) -> Option<String> {
    let text: String = text
        .chars()
        .take(LONGEST_TITLE * 8)
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect();
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    (!line.is_empty()).then(|| cut(&line, LONGEST_TITLE))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn summary_of(lines: &[Value]) -> TranscriptSummary {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        TranscriptSummary::from_head_and_tail(text.as_bytes(), b"")
    }

    fn user(content: &Value) -> Value {
        json!({ "type": "user", "cwd": "/w", "timestamp": "2026-11-21T20:22:20.449Z", "message": { "role": "user", "content": content } })
    }

    #[test]
    fn the_best_title_wins() {
        let first = user(&json!("fix\n the   bug"));
        let last = json!({ "type": "last-prompt", "lastPrompt": "and test it" });
        let summary = json!({ "type": "summary", "summary": "Fixing a bug" });
        let ai = json!({ "type": "ai-title", "aiTitle": "A bug" });
        let named = json!({ "type": "custom-title", "customTitle": "Mine" });
        let renamed = json!({ "type": "custom-title", "customTitle": "Ours" });
        for (lines, title) in [
            (vec![last.clone()], Some("and test it")),
            (vec![first.clone(), last.clone()], Some("fix the bug")),
            (
                vec![summary.clone(), first.clone(), last.clone()],
                Some("Fixing a bug"),
            ),
            (vec![summary, first.clone(), ai], Some("A bug")),
            (vec![named, renamed, first], Some("Ours")),
            (
                vec![user(
                    &json!([{ "type": "image" }, { "type": "text", "text": "look" }]),
                )],
                Some("look"),
            ),
            (
                vec![
                    user(&json!("<command-name>/clear</command-name>")),
                    user(&json!("hello")),
                ],
                Some("hello"),
            ),
            (vec![user(&json!("\u{1b}[31m\u{0}red"))], Some("[31m red")),
            (vec![user(&json!(7))], None),
        ] {
            let summary = summary_of(&lines);
            assert_eq!(summary.title().as_deref(), title, "{lines:?}");
            assert!(summary.is_conversation());
        }
        let long = summary_of(&[user(&json!("x".repeat(5000)))])
            .title()
            .unwrap();
        assert_eq!(long.chars().count(), LONGEST_TITLE);
    }

    #[test]
    fn what_is_told_comes_from_the_first_line_that_tells_it() {
        let summary = summary_of(&[
            json!({ "type": "queue-operation", "timestamp": "2026-11-21T20:22:19.571Z" }),
            json!({ "type": "user", "cwd": "not/absolute", "message": {} }),
            user(&json!("a")),
            json!({ "type": "assistant", "cwd": "/elsewhere" }),
        ]);
        assert_eq!(summary.cwd.as_deref(), Some("/w"));
        assert_eq!(
            summary.began,
            humantime::parse_rfc3339("2026-11-21T20:22:19.571Z").ok()
        );
    }

    #[test]
    fn what_cannot_be_resumed_is_no_conversation_and_any_shape_is_survived() {
        let mut aside = user(&json!("a"));
        aside["isSidechain"] = json!(true);
        for lines in [
            vec![],
            vec![json!({ "type": "queue-operation" })],
            vec![aside],
            vec![
                json!(3),
                json!([]),
                json!({ "type": {} }),
                json!({ "type": "mode", "cwd": [], "timestamp": "soon" }),
            ],
        ] {
            assert!(!summary_of(&lines).is_conversation(), "{lines:?}");
        }
        let cut = TranscriptSummary::from_head_and_tail(
            b"{\"type\":\"user\",\"mess",
            b"age\":1}\n\xff\xfe\n{\"type\":\"assistant\"}\n",
        );
        assert!(cut.is_conversation() && cut.title().is_none());
    }
}
