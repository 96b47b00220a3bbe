//! The form in which a peer receives messages: folded down ([ext.3]) and cut to its lines
//! ([frame.11]).

use crate::{
    AdapterMessage, Category, Envelope, ErrorEvent, Extensions, TooLong, ToolsAsOutput, fit, fold,
};

/// The receiver of an adapter's messages: the extensions that it understands, and its longest line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recipient {
    /// The extensions that were agreed on.
    pub agreed: Extensions,
    /// The author's choice for tool events that the receiver does not understand.
    pub tools: ToolsAsOutput,
    /// The longest line that it accepts, in bytes without the LF.
    pub max_line: usize,
}

impl Recipient {
    /// Writes the lines, each with its LF, that carry a message in the form that the receiver
    /// understands. Returns the names of the members that were cut or left out for their length.
    ///
    /// # Errors
    /// [`TooLong`] when the message, or a part of what it was folded to, does not fit however it is
    /// cut ([`fit`]). An `error` of category `oversize` was written in its place.
    pub fn write(
        &self,
        message: AdapterMessage,
        mut write_line: impl FnMut(Vec<u8>),
    ) -> Result<Vec<&'static str>, TooLong> {
        let kind = message.body.kind();
        let turn_id = message.turn_id.clone();
        let mut written = Ok(Vec::new());
        for folded in fold(message, self.agreed, self.tools).messages() {
            match fit(folded, self.agreed, self.max_line, &mut write_line) {
                Ok(lost) => {
                    if let Ok(all) = &mut written {
                        all.extend(lost);
                    }
                }
                Err(too_long) => {
                    let error = ErrorEvent {
                        category: Some(Category::Oversize),
                        message: format!(
                            "a {} of {} bytes was not sent: the longest line of its reader is {} bytes (`max_line`)",
                            kind.as_str(),
                            too_long.bytes,
                            self.max_line
                        ),
                        fatal: Some(false),
                        ..ErrorEvent::default()
                    };
                    let error: AdapterMessage =
                        Envelope::new(folded.session_id.clone(), error).of_turn(turn_id.clone());
                    for folded in fold(error, self.agreed, self.tools).messages() {
                        // A short text and ids always fit.
                        let _ = fit(folded, self.agreed, self.max_line, &mut write_line);
                    }
                    written = Err(too_long);
                }
            }
        }
        written
    }

    /// Checks that a message can be written, cut if it must be.
    ///
    /// # Errors
    /// [`TooLong`], as for [`Recipient::write`].
    pub fn check(&self, message: AdapterMessage) -> Result<(), TooLong> {
        self.write(message, drop).map(drop)
    }
}
