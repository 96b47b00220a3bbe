//! Keeps secrets out of what people and files get to see: logs, errors, stderr, reports.
//!
//! # Theory of operation
//!
//! A secret is found in two ways. **By value**: what [`register`] was given, and what the host's
//! own sensitive variables hold ([`is_sensitive`]), from 12 bytes on; also as it stands inside JSON
//! or Rust's `Debug` text (escaped, once or twice, its letters as `\uXXXX` too), in lower case as a
//! host's name, percent-encoded, and in base64 at any alignment and over several lines. A value is
//! known by its parts too: the keys of a comma-separated pool, the lines of a PEM text, the pieces
//! of a very long one. **By shape**: tokens of well-known form, and values that stand beside a
//! secret name, as an option, an assignment, a header, a JSON field (escaped or not), a bearer
//! token or the password of a URL. A hidden part reads `[REDACTED:name]`: the name of the variable,
//! or that of the shape.
//!
//! A [`Redactor`] holds the known values. One is [`shared`] by the whole program; nothing runs
//! behind it, no thread and no task, and any thread may use it. What a program is given for good is
//! registered, and counts against [`MAX_VALUES`]; nothing takes it back. The secrets of a session
//! are [held](SecretInputs::hold) instead, within bounds of their own: dropping the last
//! [`HeldSecrets`] releases them, and the latest [`MAX_RELEASED`] stay hidden for what is still on
//! its way to a log.
//!
//! Sinks hide; the way to the adapter and to the consumer of its output does not. [`text`] and
//! [`bytes`] hide in what is at hand, [`Stream`] in what comes in chunks, [`Writer`] in what is
//! written; dropping a writer writes its unfinished last line, hidden too. What is read from a
//! child's stderr has passed here. A program that embeds the runtime gives the subscriber of its
//! logs a [`Writer`]: a program's path or the name of a folder, which are logged as they are, may
//! hold a secret, too.
//!
//! What is not found: secrets below 12 bytes that nothing names, other encodings (hexadecimal,
//! compressed), a value behind three layers of escapes, JSON Web Tokens longer than 8 KiB on a line
//! longer than 64 KiB.
//!
//! A text without a secret is searched once for literal anchors (and, with values registered, once
//! more in steps of five bytes) and returned as it came.
//!
//! # Example
//!
//! ```
//! use trunkline_redact as redact;
//!
//! redact::register("DEMO_TOKEN", "correct-horse-battery");
//! assert_eq!(redact::text("sent correct-horse-battery"), "sent [REDACTED:DEMO_TOKEN]");
//! assert_eq!(redact::text("--password=hunter2"), "--password=[REDACTED:option]");
//! ```

#![forbid(unsafe_code)]

mod anchors;
mod escaped;
mod field;
mod forms;
mod grams;
mod names;
mod placeholder;
mod redactor;
mod secret_inputs;
mod sessions;
mod shared;
mod span;
mod stream;
mod token;
mod url;
mod value;
mod values;
mod wrapped;
mod writer;

#[cfg(test)]
mod tests;

pub use crate::names::is_sensitive;
pub use crate::redactor::Redactor;
pub use crate::secret_inputs::SecretInputs;
pub use crate::sessions::{HeldSecrets, MAX_HELD, MAX_RELEASED, TooManySecrets};
pub use crate::shared::{MAX_VALUES, bytes, message, register, register_all, shared, text};
pub use crate::stream::{MAX_PENDING, Stream};
pub use crate::writer::Writer;
