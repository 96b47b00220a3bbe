//! Displays lines of an adapter that are not understood: `chat --debug`.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Mutex, PoisonError},
};

use trunkline_host::{
    redact,
    wirelog::{Lines, Piece, Wire, WireDirection, WireEvent, WireLog, WireSink, not_understood},
};

/// Limit of the shown part of a line, in bytes.
const MAX_SHOWN_BYTES: usize = 200;

/// Logs each line that is not understood, with the reason, and forwards everything to a wire log.
#[derive(Debug)]
pub(crate) struct UnreadLines {
    /// Output of each run of an adapter.
    outputs: Mutex<BTreeMap<u32, Lines>>,
    log: Option<Arc<WireLog>>,
}

impl UnreadLines {
    /// Forwards everything to this wire log, if there is one.
    pub(crate) fn before(log: Option<Arc<WireLog>>) -> Self {
        Self {
            outputs: Mutex::default(),
            log,
        }
    }
}

impl WireSink for UnreadLines {
    fn take(&self, wire: Wire<'_>) {
        if let Some(log) = &self.log {
            log.take(wire);
        }
        let mut outputs = self.outputs.lock().unwrap_or_else(PoisonError::into_inner);
        match wire.event {
            WireEvent::FromAdapter(chunk) => {
                outputs.entry(wire.process).or_default().push(chunk, show)
            }
            WireEvent::StdoutEnded => {
                if let Some(mut output) = outputs.remove(&wire.process) {
                    output.finish(show);
                }
            }
            _ => {}
        }
    }

    fn wants(&self, direction: WireDirection) -> bool {
        let is_shown = matches!(
            direction,
            WireDirection::FromAdapter | WireDirection::Process
        );
        is_shown || self.log.is_some()
    }

    fn flush(&self, within: std::time::Duration) {
        if let Some(log) = &self.log {
            log.flush(within);
        }
    }

    fn files(&self) -> Vec<PathBuf> {
        self.log.as_ref().map_or_else(Vec::new, |log| log.files())
    }
}

fn show(piece: Piece<'_>) {
    let why = match piece.omitted {
        0 => not_understood(piece.line, false),
        _ => Some("it is too long to be shown".to_owned()),
    };
    let Some(why) = why else { return };
    // Redacted before the cut, because half of a secret would not be recognized.
    let line = redact::bytes(piece.line);
    let line = String::from_utf8_lossy(&line[..line.len().min(MAX_SHOWN_BYTES)]);
    tracing::debug!(target: "trunkline::wire", line = &*line, "not understood: {}", redact::text(&why));
}
