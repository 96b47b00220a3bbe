//! Files from the agent. They outlive the host's own copies, so the journal keeps them.

use std::{io, path::PathBuf};

use trunkline_host::File;
use trunkline_protocol::{Category, FileOutput, Meta, TurnId};

use super::{BoxedReply, SessionActor, inputs::error_event};
use crate::{files::FileKeeper, log::SessionLog};

/// A file on its way into the journal. Later events of the session wait for it.
pub(super) struct FileInProgress {
    turn: Option<TurnId>,
    meta: Option<Meta>,
    output: FileOutput,
    pub(super) kept: BoxedReply<io::Result<PathBuf>>,
}

impl SessionActor {
    pub(super) fn keep_file(&mut self, file: File, turn: Option<TurnId>, meta: Option<Meta>) {
        let path = file.path.clone();
        let output = FileOutput::from(file);
        let log = match &mut self.log {
            SessionLog::Journal(log) => log,
            SessionLog::Memory(log) => {
                log.has_files = true;
                self.write_event(turn, output, meta);
                return;
            }
        };
        let name = output
            .sha256
            .as_ref()
            .map(ToString::to_string)
            .unwrap_or_default();
        let keeper = FileKeeper {
            journal: log.journal.clone(),
            key: log.key,
            recording: log.recording.clone(),
            id: self.id.clone(),
        };
        let kept = Box::pin(keeper.keep(path, name));
        self.keeping = Some(FileInProgress {
            turn,
            meta,
            output,
            kept,
        });
    }

    /// Writes the entry of a file that the journal has stored, or failed to store.
    pub(super) fn finish_file(&mut self, kept: io::Result<PathBuf>) {
        let Some(FileInProgress {
            turn,
            meta,
            mut output,
            ..
        }) = self.keeping.take()
        else {
            return;
        };
        let path = kept.map(|path| path.into_os_string().into_string());
        match path {
            Ok(Ok(path)) => {
                output.file_path = path;
                self.write_event(turn, output, meta);
            }
            Ok(Err(_)) => self.file_is_lost(turn, &output, "the path of the journal is not UTF-8"),
            Err(error) => self.file_is_lost(turn, &output, &error.to_string()),
        }
    }

    fn file_is_lost(&mut self, turn: Option<TurnId>, output: &FileOutput, why: &str) {
        let name = output.file_name.as_deref().unwrap_or_default();
        let why = format!("the journal could not keep the file {name}: {why}");
        let error = error_event(Category::FileRefused, &why);
        self.write_event(turn, error, None);
    }
}
