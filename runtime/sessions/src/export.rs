//! Sessions written out: as lines of the protocol, or as a conversation for people.

use std::io::{self, Write};

use trunkline_journal::{Journal, ReadBatch, ReadError, Reader, RetentionHold, SessionKey};
use trunkline_protocol::{Lag, ListedSession, RelayMessage, SessionId};

use crate::{
    conversation::{ConversationWriter, shown},
    entry::{line_ranges, without_path},
};

/// Number of bytes of the journal to read at once.
const READ_BYTES: usize = 256 * 1024;

/// The form in which a session is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExportFormat {
    /// A conversation for a terminal.
    Text,
    /// Each entry as it is stored, one on a line.
    Json,
    /// A conversation as a document.
    Markdown,
}

/// Writes the entries of a session in a format, one by one.
#[derive(Debug)]
pub struct EntryPrinter {
    format: ExportFormat,
    conversation: ConversationWriter,
}

impl EntryPrinter {
    /// Creates a printer for one session.
    #[must_use]
    pub fn new(format: ExportFormat) -> Self {
        Self {
            format,
            conversation: ConversationWriter::new(format == ExportFormat::Markdown),
        }
    }

    /// Writes the heading of a document.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn begin(&self, session: &ListedSession, out: &mut impl Write) -> io::Result<()> {
        if self.format != ExportFormat::Markdown {
            return Ok(());
        }
        let id = &session.session_id;
        let title = shown(session.title.as_deref().unwrap_or(id));
        let begun = session.created.as_deref().unwrap_or("at an unknown time");
        let agent = &session.agent_id;
        writeln!(
            out,
            "# {title}\n\nSession `{id}` with `{agent}`, begun {begun}."
        )
    }

    /// Writes an entry: a line of the journal, without its LF.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn entry(&mut self, line: &[u8], out: &mut impl Write) -> io::Result<()> {
        if self.format == ExportFormat::Json {
            return out.write_all(line).and_then(|()| out.write_all(b"\n"));
        }
        match serde_json::from_slice(line) {
            Ok(entry) => out.write_all(self.conversation.take(&entry).as_bytes()),
            Err(_) => Ok(()),
        }
    }

    /// Ends the last line.
    ///
    /// # Errors
    /// Errors of `out`.
    pub fn end(&mut self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(self.conversation.end().as_bytes())
    }

    /// Writes that entries are damaged or lost: as lines, a `lag` ([journal.8]).
    fn missing(&mut self, session: &SessionId, lag: Lag, out: &mut Vec<u8>) {
        let from = lag.from;
        let to = lag.to;
        match self.format {
            ExportFormat::Json => RelayMessage::new(session.clone(), lag).write(out),
            _ => {
                let note = format!("entries {from} to {to} are missing");
                out.extend_from_slice(self.conversation.note(&note).as_bytes());
            }
        }
    }
}

/// A session that is written out piece by piece, up to the last entry that it had at the beginning.
/// Entries name no path of this machine. While it exists, retention keeps the session.
#[derive(Debug)]
pub struct SessionExport {
    id: SessionId,
    session: ListedSession,
    printer: EntryPrinter,
    reader: Reader,
    has_begun: bool,
    is_over: bool,
    _hold: RetentionHold,
}

impl SessionExport {
    pub(crate) fn new(
        journal: &Journal,
        key: SessionKey,
        id: SessionId,
        session: ListedSession,
        format: ExportFormat,
    ) -> Self {
        Self {
            id,
            session,
            printer: EntryPrinter::new(format),
            reader: journal.read(key, 1),
            has_begun: false,
            is_over: false,
            _hold: journal.hold(key),
        }
    }

    /// Returns the next piece, or `None` behind the last one. A piece has about 256 KiB of entries,
    /// and one at least. Blocks for reads of the disk.
    ///
    /// # Errors
    /// Errors of the file system.
    pub fn next_piece(&mut self) -> Result<Option<Vec<u8>>, ReadError> {
        if self.is_over {
            return Ok(None);
        }
        let mut piece = Vec::new();
        if !std::mem::replace(&mut self.has_begun, true) {
            self.printer.begin(&self.session, &mut piece)?;
        }
        let last = self.session.entries.unwrap_or_default();
        let mut lines = Vec::new();
        while piece.is_empty() && self.reader.position() <= last {
            lines.clear();
            match self.reader.next(&mut lines, READ_BYTES)? {
                ReadBatch::Lines(numbers) => {
                    for (line, _) in line_ranges(&lines).zip(*numbers.start()..=last) {
                        let line = String::from_utf8_lossy(&lines[line]);
                        self.printer
                            .entry(without_path(&line).as_bytes(), &mut piece)?;
                    }
                }
                ReadBatch::Missing(numbers) => {
                    let from = *numbers.start();
                    let to = last.min(*numbers.end());
                    self.printer.missing(&self.id, Lag { from, to }, &mut piece);
                }
                ReadBatch::End => break,
            }
        }
        if piece.is_empty() || self.reader.position() > last {
            self.is_over = true;
            self.printer.end(&mut piece)?;
        }
        Ok(Some(piece).filter(|piece| !piece.is_empty()))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use trunkline_journal::{Options, Settled};
    use trunkline_protocol::SessionStart;

    use super::*;
    use crate::{facts::SessionFacts, list};

    #[test]
    fn an_export_has_each_entry_names_no_path_and_reports_lost_ones() {
        let folder = tempfile::tempdir().unwrap();
        let (journal, _) = Journal::open(folder.path(), Options::default()).unwrap();
        let id = SessionId::new("s").unwrap();
        let mut facts = SessionFacts::new(&id, "a", &SessionStart::default(), None);
        facts.title = Some("Ti\ntle".to_owned());
        let (key, _) = journal.create("s", &facts.to_bytes()).unwrap();
        let texts = ["one \\u0000\\u001b\\ud83d\\ude00", "two", "three", "four"];
        for (seq, text) in (1..).zip(texts) {
            let line = format!("{{\"type\":\"turn.begin\",\"content\":\"{text}\"}}\n");
            let stored = journal.put_entries(key, 1, seq, 1, line.as_bytes());
            journal.wait(&stored).unwrap();
        }
        let file = "{\"type\":\"file.output\",\"file_path\":\"/home/x\",\"file_name\":\"x\"}\n";
        journal.put_entries(key, 1, 5, 1, file.as_bytes()).detach();
        facts.last = 5;
        let stored = journal.put_facts(key, 1, 5, &facts.to_bytes(), Settled::Yes);
        journal.wait(&stored).unwrap();

        let log = folder.path().join("00000001.log");
        let at = std::fs::read(&log).unwrap();
        let at = memchr::memmem::find(&at, b"three").unwrap() as u64;
        let log = std::fs::OpenOptions::new().write(true).open(log).unwrap();
        log.write_all_at(b"THREE", at).unwrap();

        let session = list::find_session(&journal, &(), None, &id)
            .unwrap()
            .unwrap();
        let export = |format| {
            let mut export = SessionExport::new(&journal, key, id.clone(), session.clone(), format);
            // It is stored later, and not part of it.
            let next = journal.known(key).unwrap().last + 1;
            let stored = journal.put_entries(key, 1, next, 1, b"{\"type\":\"later\"}\n");
            journal.wait(&stored).unwrap();
            let mut all = Vec::new();
            while let Some(piece) = export.next_piece().unwrap() {
                all.extend(piece);
            }
            assert!(export.next_piece().unwrap().is_none());
            String::from_utf8(all).unwrap()
        };
        let turn = |text| format!("{{\"type\":\"turn.begin\",\"content\":\"{text}\"}}\n");
        let lines = [
            &*turn(texts[0]),
            &*turn("two"),
            "{\"type\":\"lag\",\"session_id\":\"s\",\"from\":3,\"to\":3}\n",
            &*turn("four"),
            "{\"type\":\"file.output\",\"file_name\":\"x\"}\n",
        ];
        assert_eq!(export(ExportFormat::Json), lines.concat());
        let document = export(ExportFormat::Markdown);
        assert!(
            document.starts_with("# Ti tle\n\nSession `s` with `a`"),
            "{document}"
        );
        let body = "## You\n\none [\u{1f600}\n\n## You\n\ntwo\n\n*entries 3 to 3 are missing*\n\n## You\n\nfour\n\n*file: x*\n";
        assert!(
            document.ends_with(&body.replace("one [", "one ")),
            "{document}"
        );
    }
}
