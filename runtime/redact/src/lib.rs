//! Hides secrets in what people and files receive: logs, errors, stderr, reports.
//!
//! # Theory of operation
//!
//! A secret is found in two ways.
//!
//! - **By value**: registered values ([`register`]) and the values of the host's own sensitive
//!   variables ([`is_sensitive`]), if they have 12 bytes or more. They are also found escaped in
//!   JSON or in Rust's `Debug` text (once or twice, including `\uXXXX`), in lower case as a host
//!   name, percent-encoded, and in base64 at any alignment and over several lines. Parts of a value
//!   count as well: the keys of a comma-separated pool, the lines of a PEM text, the pieces of a
//!   very long value.
//! - **By shape**: tokens of well-known form, and values beside a secret name: an option, an
//!   assignment, a header, a JSON field (escaped or not), a bearer token, the password of a URL.
//!
//! A hidden part is replaced by `[REDACTED:name]` with the name of the variable or of the shape.
//!
//! A [`Redactor`] holds the known values. The program has one that is [`shared`]; it has no thread
//! and no task, and any thread may use it. Permanent secrets of the program are registered, up to
//! [`MAX_VALUES`], and never removed. The secrets of a session are [held](SecretInputs::hold)
//! within bounds of their own: dropping the last [`HeldSecrets`] releases them, and the latest
//! [`MAX_RELEASED`] stay hidden, because output of the session may still be on its way to a log.
//!
//! Sinks redact; the path to the adapter and to the reader of its output does not. [`text`] and
//! [`bytes`] redact a complete text, [`Stream`] redacts chunks, and [`Writer`] redacts what is
//! written; dropping a writer writes its unfinished last line, redacted. The stderr of children
//! passes through here. A program that embeds the runtime passes a [`Writer`] to its log
//! subscriber, because logged paths can contain a secret, too.
//!
//! Not found are secrets below 12 bytes without a name beside them, other encodings (hexadecimal,
//! compressed), a value behind three layers of escapes, and JSON Web Tokens longer than 8 KiB on a
//! line longer than 64 KiB.
//!
//! A text without a secret is searched once for literal anchors (with registered values once more,
//! in steps of five bytes) and returned unchanged.
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
