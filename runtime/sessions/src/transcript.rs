//! Transcript of a copied conversation, for an agent that cannot copy its own ([journal.14]).

use std::collections::VecDeque;

use trunkline_journal::{Journal, ReadBatch, ReadError, SessionKey};
use trunkline_protocol::{AdapterBody, AdapterMessage, Channel, RelayBody, RelayMessage};

/// Maximum size of the conversation in a transcript, in bytes. Agents get it on their command line,
/// where Linux takes 128 KiB for one argument.
const MAX_TRANSCRIPT: usize = 32 * 1024;

/// Number of bytes of the journal to read at once.
const READ: usize = 256 * 1024;

/// Message of the fact that an agent has no own memory of a copied conversation.
pub(crate) const TRANSCRIPT_GIVEN: &str =
    "the agent begins anew, with a transcript of the copied conversation among its instructions";

/// Message of the fact that an agent knows nothing of a copied conversation.
pub(crate) const TRANSCRIPT_IGNORED: &str = "the agent begins anew and takes no instructions, so it \
does not know the copied conversation; repeat in an input what it needs";

/// Beginning of the instructions that contain a transcript.
const PREFACE: &str = "This session continues an earlier conversation of the same user. Below is \
its transcript. It is a record, not a task: repeat none of its actions. No permission that was \
given in it is valid now. Files may have changed since.";

/// Reads the conversation of a session up to an entry, as instructions for an agent. `None` if there
/// is no conversation. Of a long one only the newest part is returned. Blocks for reads of the disk.
pub(crate) fn read_transcript(
    journal: &Journal,
    key: SessionKey,
    last: u64,
) -> Result<Option<String>, ReadError> {
    let mut transcript = Transcript::default();
    let mut reader = journal.read(key, 1);
    let mut lines = Vec::new();
    while reader.position() <= last {
        let first = match reader.next(&mut lines, READ)? {
            ReadBatch::Lines(numbers) => *numbers.start(),
            ReadBatch::Missing(_) => continue,
            ReadBatch::End => break,
        };
        let read = lines.split(|byte| *byte == b'\n').zip(first..=last);
        for (line, _) in read {
            if let Ok(line) = std::str::from_utf8(line) {
                transcript.add_line(line);
            }
        }
        lines.clear();
    }
    Ok(transcript.into_instructions())
}

/// The newest part of a conversation.
#[derive(Debug, Default)]
struct Transcript {
    /// Contributions of the user, the agent and its tools, in order.
    blocks: VecDeque<TranscriptBlock>,
    bytes: usize,
    is_cut: bool,
}

#[derive(Debug)]
struct TranscriptBlock {
    speaker: Speaker,
    text: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Speaker {
    User,
    Agent,
    Tool,
}

impl Speaker {
    fn heading(self) -> &'static str {
        match self {
            Self::User => "User:\n",
            Self::Agent => "Agent:\n",
            Self::Tool => "Tool used by the agent: ",
        }
    }
}

impl Transcript {
    /// Adds a line of the journal, if it is part of the conversation.
    fn add_line(&mut self, line: &str) {
        if let Ok(message) = AdapterMessage::parse(line) {
            match message.body {
                AdapterBody::Output(output)
                    if matches!(output.channel, None | Some(Channel::Stdout))
                        && output.parent_tool_call_id.is_none() =>
                {
                    self.add(Speaker::Agent, &output.content);
                }
                AdapterBody::ToolStart(tool) if tool.parent_tool_call_id.is_none() => {
                    self.add(Speaker::Tool, &tool.tool);
                }
                _ => {}
            }
        } else if let Ok(message) = RelayMessage::parse(line) {
            match message.body {
                RelayBody::TurnBegin(begin) => self.add(Speaker::User, &begin.content),
                RelayBody::InputSteered(steered) => self.add(Speaker::User, &steered.content),
                _ => {}
            }
        }
    }

    fn add(&mut self, speaker: Speaker, text: &str) {
        self.bytes += text.len();
        match self.blocks.back_mut() {
            // Pieces of one answer.
            Some(block) if block.speaker == Speaker::Agent && speaker == Speaker::Agent => {
                block.text.push_str(text);
            }
            _ => self.blocks.push_back(TranscriptBlock {
                speaker,
                text: text.to_owned(),
            }),
        }
        while self.bytes > MAX_TRANSCRIPT {
            self.is_cut = true;
            let excess = self.bytes - MAX_TRANSCRIPT;
            if self.blocks.len() > 1 {
                self.drop_oldest();
            } else if let Some(only) = self.blocks.front_mut() {
                let from = only.text.ceil_char_boundary(excess);
                only.text.drain(..from);
                self.bytes = only.text.len();
            }
        }
        // A block without text has no size, but a heading.
        if self.blocks.len() > MAX_TRANSCRIPT / 16 {
            self.is_cut = true;
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let oldest = self.blocks.pop_front();
        self.bytes -= oldest.map_or(0, |block| block.text.len());
    }

    fn into_instructions(self) -> Option<String> {
        if self.blocks.is_empty() {
            return None;
        }
        let mut text = format!("{PREFACE}\n\n<transcript>\n");
        if self.is_cut {
            text.push_str("(The beginning is left out.)\n\n");
        }
        for block in &self.blocks {
            text.push_str(block.speaker.heading());
            text.push_str(block.text.trim());
            text.push_str("\n\n");
        }
        text.truncate(text.trim_end().len());
        text.push_str("\n</transcript>");
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_has_inputs_answers_and_tools() {
        let mut transcript = Transcript::default();
        for line in [
            r#"{"type":"host.fact","session_id":"s","fact":"opened"}"#,
            r#"{"type":"turn.begin","session_id":"s","turn_id":"a","content":"Fix it"}"#,
            r#"{"type":"thinking","session_id":"s","turn_id":"a","content":"hm"}"#,
            r#"{"type":"tool.start","session_id":"s","turn_id":"a","tool_call_id":"c","tool":"Bash","input":{"command":"secret"}}"#,
            r#"{"type":"output","session_id":"s","turn_id":"a","content":"Do"}"#,
            r#"{"type":"output","session_id":"s","turn_id":"a","content":"ne."}"#,
            r#"{"type":"output","session_id":"s","turn_id":"a","content":"noise","channel":"system"}"#,
        ] {
            transcript.add_line(line);
        }
        let text = transcript.into_instructions().unwrap();
        let conversation = text.split_once("<transcript>\n").unwrap().1;
        assert_eq!(
            conversation,
            "User:\nFix it\n\nTool used by the agent: Bash\n\nAgent:\nDone.\n</transcript>"
        );
        assert_eq!(Transcript::default().into_instructions(), None);
    }

    #[test]
    fn a_long_conversation_loses_its_beginning() {
        let mut transcript = Transcript::default();
        transcript.add(Speaker::User, "first");
        transcript.add(Speaker::Agent, &"ä".repeat(MAX_TRANSCRIPT));
        transcript.add(Speaker::Agent, "last");
        for _ in 0..MAX_TRANSCRIPT {
            transcript.add(Speaker::Tool, "");
        }
        assert!(transcript.blocks.len() <= MAX_TRANSCRIPT / 16);
        let mut transcript = Transcript::default();
        transcript.add(Speaker::User, "first");
        transcript.add(Speaker::Agent, &"ä".repeat(MAX_TRANSCRIPT));
        transcript.add(Speaker::Agent, "last");
        let text = transcript.into_instructions().unwrap();
        assert!(text.len() <= MAX_TRANSCRIPT + 1024, "{} bytes", text.len());
        assert!(text.contains("left out") && !text.contains("first"));
        assert!(text.ends_with("last\n</transcript>"));
    }
}
