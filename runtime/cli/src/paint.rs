//! Colours. Streams drop them if there is no terminal, or if `NO_COLOR` is set.

use anstyle::{AnsiColor, Style};

/// Secondary text around the answer.
pub(crate) const DIM: Style = Style::new().dimmed();
/// Thinking of the model.
pub(crate) const THOUGHT: Style = Style::new().dimmed().italic();
/// Emphasized text.
pub(crate) const STRONG: Style = Style::new().bold();
/// Actions of the program: a tool, a prompt.
pub(crate) const ACT: Style = AnsiColor::Cyan.on_default();
/// Success.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// Warnings.
pub(crate) const CARE: Style = AnsiColor::Yellow.on_default();
/// Errors.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
