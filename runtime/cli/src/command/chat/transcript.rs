//! What was said, for `/export`.

use std::{
    collections::VecDeque,
    fs::OpenOptions,
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// How much is kept, in bytes; of a longer conversation, the latest part.
const MOST: usize = 16 * 1024 * 1024;

/// The conversation, as it can be exported.
#[derive(Debug)]
pub(crate) struct Transcript {
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

impl Transcript {
    pub(crate) fn new(agent: &str) -> Self {
        Self {
            agent: agent.to_owned(),
            said: VecDeque::new(),
            bytes: 0,
            is_cut: false,
        }
    }

    /// Adds what was said; pieces of one answer become one text.
    pub(crate) fn add(&mut self, speaker: Speaker, text: &str) {
        self.bytes += text.len();
        match self.said.back_mut() {
            Some((last, said)) if *last == speaker && speaker == Speaker::Agent => {
                said.push_str(text)
            }
            _ => self.said.push_back((speaker, text.to_owned())),
        }
        while self.bytes > MOST {
            let Some((_, said)) = self.said.pop_front() else {
                return;
            };
            self.bytes -= said.len();
            self.is_cut = true;
        }
    }

    /// Writes it into a new file, which its owner alone may read.
    ///
    /// # Errors
    /// When the file is there already, or cannot be written.
    pub(crate) fn export(&self, path: &Path) -> io::Result<()> {
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        writeln!(file, "# A conversation with {}", self.agent)?;
        if self.is_cut {
            writeln!(
                file,
                "\n(Its beginning is left out: it was longer than {MOST} bytes.)"
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
        let mut transcript = Transcript::new("echo");
        transcript.add(Speaker::Person, "hello");
        transcript.add(Speaker::Agent, "he");
        transcript.add(Speaker::Agent, "llo\n");
        transcript.export(&path).unwrap();
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(
            text,
            "# A conversation with echo\n\n## You\n\nhello\n\n## echo\n\nhello\n"
        );
        assert_eq!(
            transcript.export(&path).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );

        for _ in 0..5 {
            transcript.add(Speaker::Person, &"x".repeat(MOST / 4));
        }
        assert!(transcript.bytes <= MOST && transcript.is_cut);
    }
}
