//! The colours. They are written to streams that leave them out where no terminal is, or `NO_COLOR` is set.

use anstyle::{AnsiColor, Style};

/// What surrounds the answer.
pub(crate) const DIM: Style = Style::new().dimmed();
/// What the model thinks.
pub(crate) const THOUGHT: Style = Style::new().dimmed().italic();
/// What a person should see first.
pub(crate) const STRONG: Style = Style::new().bold();
/// Something the program does: a tool, a prompt.
pub(crate) const ACT: Style = AnsiColor::Cyan.on_default();
/// It went well.
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
/// It needs attention.
pub(crate) const CARE: Style = AnsiColor::Yellow.on_default();
/// It went wrong.
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
