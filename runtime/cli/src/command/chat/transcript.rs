//! Text of a conversation, for `/export`.

use std::{
    collections::VecDeque,
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// Limit of the stored text, in bytes; older text is dropped.
const MAX_TRANSCRIPT_BYTES: usize = 16 * 1024 * 1024;

/// Text of the conversation for an export.
#[derive(Debug)]
pub(crate) struct ExportTranscript {
    agent: String,
    said: VecDeque<(Speaker, String)>,
    bytes: usize,
    is_cut: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Speaker {
    Person,
    Agent,
}

impl ExportTranscript {
    pub(crate) fn new(agent: &str) -> Self {
        Self {
            agent: agent.to_owned(),
            said: VecDeque::new(),
            bytes: 0,
            is_cut: false,
        }
    }

    /// Appends a text; consecutive pieces of one speaker form one paragraph.
    pub(crate) fn add(&mut self, speaker: Speaker, text: &str) {
        self.bytes += text.len();
        match self.said.back_mut() {
            Some((last, said)) if *last == speaker && speaker == Speaker::Agent => {
                said.push_str(text)
            }
            _ => self.said.push_back((speaker, text.to_owned())),
        }
        while self.bytes > MAX_TRANSCRIPT_BYTES {
            let Some((_, said)) = self.said.pop_front() else {
                return;
            };
            self.bytes -= said.len();
            self.is_cut = true;
        }
    }

    /// Writes the text to a new file of mode 0600.
    ///
    /// # Errors
    /// The file exists, or cannot be written.
    pub(crate) fn export(&self, path: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        writeln!(file, "# Conversation with {}", self.agent)?;
        if self.is_cut {
            writeln!(
                file,
                "\n(The beginning is missing: the conversation exceeds {MAX_TRANSCRIPT_BYTES} bytes.)"
            )?;
        }
        for (speaker, text) in &self.said {
            let name = match speaker {
                Speaker::Person => "You",
                Speaker::Agent => &self.agent,
            };
            writeln!(file, "\n## {name}\n\n{}", text.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_written_once_and_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.md");
        let mut transcript = ExportTranscript::new("echo");
        transcript.add(Speaker::Person, "hello");
        transcript.add(Speaker::Agent, "he");
        transcript.add(Speaker::Agent, "llo\n");
        transcript.export(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "# Conversation with echo\n\n## You\n\nhello\n\n## echo\n\nhello\n"
        );
        assert_eq!(
            transcript.export(&path).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );

        for _ in 0..5 {
            transcript.add(Speaker::Person, &"x".repeat(MAX_TRANSCRIPT_BYTES / 4));
        }
        assert!(transcript.bytes <= MAX_TRANSCRIPT_BYTES && transcript.is_cut);
    }
}
