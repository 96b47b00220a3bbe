//! Entries as a conversation that people read. What models and users wrote keeps its lines and
//! loses what steers a terminal.

use serde_json::Value;

/// Returns the words for the decision of a request.
#[must_use]
pub fn decision_text(approved: Option<bool>, reason: Option<&str>, is_answered: bool) -> String {
    let text = match (approved, reason) {
        (Some(true), _) => "allowed",
        (_, Some(reason)) if !matches!(reason, "user" | "policy") => {
            return format!("not answered: {reason}");
        }
        (Some(false), _) => "denied",
        _ if is_answered => "answered",
        _ => "not answered",
    };
    text.to_owned()
}

/// Renders the entries of a session as a conversation, one by one.
#[derive(Debug)]
pub struct ConversationWriter {
    is_markdown: bool,
    /// The speaker, while pieces of one text come.
    speaker: Option<&'static str>,
    agent_line_open: bool,
}

impl ConversationWriter {
    /// Creates a writer of Markdown, or of plain text for a terminal.
    #[must_use]
    pub fn new(is_markdown: bool) -> Self {
        Self {
            is_markdown,
            speaker: None,
            agent_line_open: false,
        }
    }

    /// Returns the text that an entry adds.
    pub fn take(&mut self, entry: &Value) -> String {
        let text = |name: &str| entry[name].as_str().map(shown_lines);
        match entry["type"].as_str().unwrap_or_default() {
            "turn.begin" | "input.steered" => self.say("You", &text("content").unwrap_or_default()),
            "output" => match entry["channel"].as_str() {
                None | Some("stdout" | "response") => {
                    self.say("Agent", &text("content").unwrap_or_default())
                }
                Some(channel) => self.note(&format!(
                    "{}: {}",
                    shown(channel),
                    text("content").unwrap_or_default()
                )),
            },
            "message" => self.say("Agent", &text("content").unwrap_or_default()),
            "tool.start" => {
                let title = text("title").or_else(|| text("tool")).unwrap_or_default();
                self.note(&format!("tool: {title}"))
            }
            "tool.end" if entry["is_error"] == true => self.note("the tool failed"),
            "permission.request" => self.note(&format!(
                "may it? {}",
                text("description").unwrap_or_default()
            )),
            "input.request" => self.note(&format!("asked: {}", text("prompt").unwrap_or_default())),
            "request.decided" => self.note(&decision_text(
                entry["approved"].as_bool(),
                text("reason").as_deref(),
                entry["cancelled"] != true,
            )),
            "file.output" => self.note(&format!("file: {}", text("file_name").unwrap_or_default())),
            "file.delivered" => self.note(&format!(
                "gave a file: {}",
                text("file_name").unwrap_or_default()
            )),
            "stop.requested" => self.note("stop was asked for"),
            "turn.complete" => self.turn_end(entry),
            "host.fact" => match entry["fact"].as_str() {
                Some("process_ended") => self.note("the agent's process ended"),
                Some("host_restarted") => self.note("the host was started again"),
                Some("moved") if entry["context"] == "lost" => {
                    self.note("the session moved to another host, without what its agent had")
                }
                Some("moved") => self.note("the session moved to another host"),
                Some("resumed") if entry["context"] == "lost" => {
                    self.note("the agent was started again and does not remember")
                }
                _ => String::new(),
            },
            "session.closed" => self.note("the session was closed"),
            _ => String::new(),
        }
    }

    /// Ends a line that is still open.
    pub(crate) fn end(&mut self) -> String {
        if std::mem::take(&mut self.agent_line_open) {
            "\n".to_owned()
        } else {
            String::new()
        }
    }

    fn turn_end(&mut self, entry: &Value) -> String {
        let status = entry["status"].as_str().unwrap_or("completed");
        let text = match status {
            "completed" => self.end(),
            status => {
                let why = entry["error"]["message"]
                    .as_str()
                    .map(|why| format!(": {}", shown(why)));
                self.note(&format!("the turn {status}{}", why.unwrap_or_default()))
            }
        };
        self.speaker = None;
        text
    }

    fn say(&mut self, speaker: &'static str, content: &str) -> String {
        let is_piece = speaker == "Agent" && self.speaker == Some(speaker);
        let heading = match (is_piece, self.is_markdown) {
            (true, _) => String::new(),
            (false, true) => format!("{}\n## {speaker}\n\n", self.end()),
            (false, false) if speaker == "You" => format!("{}\n> ", self.end()),
            (false, false) => format!("{}\n", self.end()),
        };
        self.speaker = Some(speaker);
        self.agent_line_open = !content.ends_with('\n');
        format!("{heading}{content}")
    }

    /// Returns a remark on a line of its own.
    pub(crate) fn note(&mut self, text: &str) -> String {
        let before = self.end();
        self.speaker = None;
        if self.is_markdown {
            format!("{before}\n*{}*\n", text.replace('\n', " "))
        } else {
            format!("{before}  · {text}\n")
        }
    }
}

/// Puts a text on one line, with a space for each control character.
pub(crate) fn shown(text: &str) -> String {
    text.replace(char::is_control, " ")
}

/// Removes control characters from a text, except line feeds and tabs.
fn shown_lines(text: &str) -> String {
    text.chars()
        .filter(|char| !char.is_control() || matches!(char, '\n' | '\t'))
        .collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(is_markdown: bool) -> String {
        let mut conversation = ConversationWriter::new(is_markdown);
        let entries = [
            json!({"type": "host.fact", "fact": "opened"}),
            json!({"type": "turn.begin", "content": "delete the \u{1b}[31mlogs"}),
            json!({"type": "tool.start", "tool": "Bash", "title": "rm -r logs"}),
            json!({"type": "permission.request", "description": "Delete the logs"}),
            json!({"type": "request.decided", "approved": false}),
            json!({"type": "request.decided", "cancelled": true, "reason": "shutdown"}),
            json!({"type": "output", "content": "I may "}),
            json!({"type": "output", "content": "not."}),
            json!({"type": "turn.complete"}),
            json!({"type": "turn.begin", "content": "why?"}),
            json!({"type": "turn.complete", "status": "failed", "error": {"message": "the host ended"}}),
        ];
        let mut text: String = entries
            .iter()
            .map(|entry| conversation.take(entry))
            .collect();
        text.push_str(&conversation.end());
        text
    }

    #[test]
    fn a_conversation_reads_well_and_steers_no_terminal() {
        let expected = "\n> delete the [31mlogs\n  · tool: rm -r logs\n  · may it? Delete the logs\n  · denied\n  · not answered: shutdown\n\nI may not.\n\n> why?\n  · the turn failed: the host ended\n";
        assert_eq!(read(false), expected);
        let document = read(true);
        assert!(
            document.contains("## You\n\ndelete the [31mlogs\n"),
            "{document}"
        );
        assert!(
            document.contains("*denied*\n\n*not answered: shutdown*\n\n## Agent\n\nI may not.\n"),
            "{document}"
        );
    }
}
