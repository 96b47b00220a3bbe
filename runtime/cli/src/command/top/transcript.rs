//! Transcript of one session, for scrolling.

use std::{
    io::Write,
    path::{Path, PathBuf},
};

use trunkline_journal::Reader;
use trunkline_protocol::SessionId;
use trunkline_sessions::{Archive, EntryPrinter, ExportFormat};

use super::keys::TerminalKey;
use crate::command::sessions::print_entries;

/// Limit of entries when it is opened, the last ones.
const MAX_ENTRIES: u64 = 2000;

/// Limit of stored text in bytes, the last part.
const MAX_TEXT_BYTES: usize = 1024 * 1024;

/// Text of one session, and its visible part.
#[derive(Debug)]
pub(super) struct SessionTranscript {
    pub(super) id: String,
    text: String,
    /// Lines below the view. 0 follows the end.
    pub(super) below: usize,
    /// Number of visible lines at the last drawing.
    pub(super) page: usize,
    /// Number of lines at the last drawing.
    pub(super) lines: usize,
}

/// Reader of a session's entries, also of those that are stored later.
#[derive(Debug)]
pub(super) struct TranscriptReader {
    folder: PathBuf,
    id: String,
    /// `None` before the session is in the journal.
    reader: Option<Reader>,
    printer: EntryPrinter,
}

impl TranscriptReader {
    pub(super) fn new(folder: &Path, id: &str) -> Self {
        Self {
            folder: folder.to_owned(),
            id: id.to_owned(),
            reader: None,
            printer: EntryPrinter::new(ExportFormat::Text),
        }
    }

    /// Returns true for this session.
    pub(super) fn is_of(&self, id: &str) -> bool {
        self.id == id
    }

    /// Returns the new text since the last call. Blocks for the disk.
    ///
    /// # Errors
    /// The journal cannot be read.
    pub(super) fn read_more(&mut self) -> anyhow::Result<String> {
        let mut text = Vec::new();
        if self.reader.is_none() {
            let archive = Archive::open(&self.folder)?;
            let id = SessionId::new(&*self.id)?;
            let entries = archive.show(&id)?.and_then(|session| session.entries);
            let omitted = entries.unwrap_or_default().saturating_sub(MAX_ENTRIES);
            if omitted > 0 {
                write!(text, "… {omitted} earlier entries\n\n")?;
            }
            self.reader = archive.read(&id, omitted + 1);
        }
        if let Some(reader) = &mut self.reader {
            print_entries(reader, &mut self.printer, &mut text, |text, missing| {
                writeln!(text, "… {missing}")
            })?;
        }
        Ok(String::from_utf8_lossy(&text).into_owned())
    }
}

impl SessionTranscript {
    pub(super) fn new(id: &str) -> Self {
        Self {
            id: id.to_owned(),
            text: String::new(),
            below: 0,
            page: 0,
            lines: 0,
        }
    }

    /// Appends text.
    pub(super) fn append(&mut self, more: &str) {
        self.text.push_str(more);
        if let Some(over) = self.text.len().checked_sub(MAX_TEXT_BYTES) {
            let from = self.text[..]
                .char_indices()
                .map(|(at, _)| at)
                .find(|at| *at >= over);
            self.text.drain(..from.unwrap_or(self.text.len()));
        }
    }

    /// Appends a read error.
    pub(super) fn fail(&mut self, error: &anyhow::Error) {
        self.append(&format!("\nthe journal cannot be read: {error:#}\n"));
    }

    /// Returns the whole text.
    pub(super) fn text(&self) -> &str {
        self.text.trim_matches('\n')
    }

    /// Handles a key. Returns false if the key closes the transcript.
    pub(super) fn handle_key(&mut self, key: TerminalKey) -> bool {
        let page = self.page.saturating_sub(1).max(1);
        let below = match key {
            TerminalKey::Escape | TerminalKey::Enter | TerminalKey::Char('q') => return false,
            TerminalKey::Up | TerminalKey::Char('k') => self.below + 1,
            TerminalKey::Down | TerminalKey::Char('j') => self.below.saturating_sub(1),
            TerminalKey::PageUp => self.below + page,
            TerminalKey::PageDown | TerminalKey::Char(' ') => self.below.saturating_sub(page),
            TerminalKey::Home | TerminalKey::Char('g') => usize::MAX,
            TerminalKey::End | TerminalKey::Char('G') => 0,
            _ => self.below,
        };
        self.below = below.min(self.lines.saturating_sub(self.page));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_leaf_through_it_and_the_end_is_followed() {
        let mut transcript = SessionTranscript::new("s");
        (transcript.lines, transcript.page) = (100, 20);
        for (key, below) in [
            (TerminalKey::Up, 1),
            (TerminalKey::PageUp, 20),
            (TerminalKey::PageDown, 1),
            (TerminalKey::Home, 80),
            (TerminalKey::PageUp, 80),
            (TerminalKey::Down, 79),
            (TerminalKey::End, 0),
            (TerminalKey::Down, 0),
        ] {
            assert!(transcript.handle_key(key));
            assert_eq!(transcript.below, below, "{key:?}");
        }
        assert!(!transcript.handle_key(TerminalKey::Escape));
    }

    #[test]
    fn its_text_is_bounded() {
        let mut transcript = SessionTranscript::new("s");
        for _ in 0..40 {
            transcript.append(&"é".repeat(20_000));
        }
        transcript.append("the end\n\n");
        assert!(transcript.text.len() <= MAX_TEXT_BYTES && transcript.text().ends_with("the end"));
    }
}
